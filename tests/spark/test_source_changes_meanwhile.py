"""A source that gets other columns, or is made anew, while a refresh runs: the refresh writes nothing, and the next one is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import done

from streamtable.delta import rows
from streamtable.delta.rows import change_set
from streamtable.delta.summaries import commits
from streamtable.errors import ConcurrentRefresh, HistoryLost
from streamtable.refresh import run
from streamtable.refresh.targets import targets

QUERY = "SELECT v, count(id) AS n FROM t GROUP BY v"
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
OTHER_COLUMN = ("ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN v INT")
MAY_BE_NULL = ("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", "INSERT INTO t VALUES (NULL, 5)")
MADE_ANEW = ("DROP TABLE t", f"CREATE TABLE t (id INT, v INT) USING delta {MAPPED}", "INSERT INTO t VALUES (7, 70)")


def once_analysed(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once when the next refresh has analysed its query, and has not looked up the versions of its sources."""
    left = [act]

    def reached(*of: Any) -> Any:
        if left:
            left.pop()()
        return targets(*of)

    monkeypatch.setattr(run, "targets", reached)


@pytest.mark.parametrize("statements", [OTHER_COLUMN, MADE_ANEW, MAY_BE_NULL])
@pytest.mark.parametrize("change", ["", "INSERT INTO t VALUES (3, 30)"])
def test_a_source_with_other_columns_meanwhile_is_not_no_data_for_ever(
    shop: SparkSession, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, ...], change: str
) -> None:
    shop.sql(f"CREATE TABLE t (id INT NOT NULL, v INT) USING delta {MAPPED}")
    shop.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    if change:
        shop.sql(change)
    else:
        shop.sql("ALTER TABLE t SET TBLPROPERTIES ('team' = 'north')")  # a version without rows: there is something to look at
    once_analysed(monkeypatch, lambda: [shop.sql(each) for each in statements])
    with pytest.raises(ConcurrentRefresh, match="t got other columns, or was made anew, while .*st was refreshed"):
        shop.sql("REFRESH STREAM TABLE st")
    done(shop, "REFRESH STREAM TABLE st")
    assert_exact(shop, "st", QUERY)


def test_a_log_that_loses_its_beginning_between_two_looks_is_not_read_from_where_it_begins(
    shop: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer's checkpoint deletes commits that are older than the retention: Delta leaves out, without a word, what is gone."""
    shop.sql("CREATE TABLE t (id INT) USING delta")
    for n in range(3):
        shop.sql(f"INSERT INTO t VALUES ({n})")
    place = str(shop.sql("DESCRIBE DETAIL t").collect()[0]["location"])
    jvm: Any = shop._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(shop._jsparkSession, place).checkpoint()
    assert change_set(shop, place, 0, 3).frame.count() == 3

    def cleaned(*of: Any, **how: Any) -> Any:
        found = commits(*of, **how)
        for each in sorted(Path(place.removeprefix("file:")).glob("_delta_log/0*[01].json")):
            each.unlink()
        return found

    monkeypatch.setattr(rows, "commits", cleaned)
    with pytest.raises(HistoryLost, match="does not hold version 1 any more"):
        change_set(shop, place, 0, 3)
