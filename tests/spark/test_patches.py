"""The switches of the patches of Spark and Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from streamtable.jvm.gateway import SHIM, java_class

Switch = Callable[[str], None]


@pytest.fixture
def switch(spark: SparkSession) -> Iterator[Switch]:
    """Return what switches patches off in the session under test; all are on again afterwards."""
    patches = java_class(spark, f"{SHIM}.Patches")
    yield patches.switchOff
    patches.switchOff("")


def test_a_switch_of_nothing_is_an_error(switch: Switch) -> None:
    with pytest.raises(Exception, match=r"(?s)names 'pages', which is no patch.*page bounds"):
        switch("held rows, pages")
