"""ALTER SCHEDULER: the switch in the catalog, whoever wrote it. The catalog is played."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from streamtable.catalog import shared as module
from streamtable.engine import clock
from streamtable.schedule.switch import Switch, switch, turn
from streamtable.sql.literals import unquote_string

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
SET = re.compile(r"ALTER DATABASE `spark_catalog`\.`default` SET DBPROPERTIES \('streamtable\.scheduler' = ('.*')\)")


class Catalog:
    """The schema `default` of a catalog, with its properties."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, text: str | None = None) -> None:
        self.text, self.written = text, 0
        monkeypatch.setattr(module, "new", lambda _: SimpleNamespace(sql=self._sql))
        monkeypatch.setattr(clock, "now", lambda: NOON)
        properties = SimpleNamespace(get=lambda _: SimpleNamespace(isDefined=lambda: self.text is not None, get=lambda: self.text))
        catalog = SimpleNamespace(
            getDatabaseMetadata=lambda name: SimpleNamespace(properties=lambda: {"default": properties}[name])
        )
        java: Any = SimpleNamespace(sessionState=lambda: SimpleNamespace(catalog=lambda: catalog))
        self.spark = cast("SparkSession", SimpleNamespace(_jsparkSession=java))

    def _sql(self, text: str) -> None:
        found = SET.fullmatch(text)
        assert found
        self.text, self.written = unquote_string(found[1]), self.written + 1


def test_the_switch_is_read_as_it_was_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(monkeypatch)
    assert switch(catalog.spark) == turn(catalog.spark, suspend=False) == Switch()
    assert turn(catalog.spark, suspend=True) == switch(catalog.spark) == Switch(NOON)
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 6, 2, tzinfo=timezone.utc))
    assert turn(catalog.spark, suspend=True) == Switch(NOON), "it is suspended since then"
    assert turn(catalog.spark, suspend=False) == switch(catalog.spark) == Switch()
    assert catalog.written == 2


@pytest.mark.parametrize("text", ["", "SUSPENDED", "5", "null", '{"suspended_since": 5}', '{"later": true}', "[" * 100_000])
def test_a_text_that_no_statement_wrote_suspends_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    catalog = Catalog(monkeypatch, text)
    assert switch(catalog.spark) == Switch()
    assert turn(catalog.spark, suspend=True) == switch(catalog.spark) == Switch(NOON)
