"""A source that gets other columns, or is made anew, while a refresh runs: the refresh writes nothing, and the next one is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import done

from streamtable.errors import ConcurrentRefresh
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
