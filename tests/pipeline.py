"""What the pipeline runs of a test with many cases, and in which order files begin.

Those without Spark begin first, then those that take minutes, so that the two processes end together.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

LONGEST = ()
"""Files with Spark that take more than a minute, the longest first: one that began last would leave the other process without work."""

WITHOUT_SPARK = ("tests/repository/", "tests/unit/")


def rank(node: str) -> int:
    """Return when the file of a test begins, as a number to sort by; the order of tests within a file is its own."""
    file = node.partition("::")[0]
    if file.startswith(WITHOUT_SPARK):
        return -1
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def in_turn(cases: Iterable[Any], chosen: Container[Any]) -> list[Any]:
    """Return all cases as parameters of a test: the chosen ones, one of each kind, for the pipeline, the others for `./run fuzz`."""
    return [pytest.param(each, marks=[] if each in chosen else pytest.mark.fuzz) for each in cases]
