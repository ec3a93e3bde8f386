"""Metamorphic relations: what must come out equal, although it was written, changed or refreshed in another way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import bag, bag_of, contents
from tests.oracle.scenario import Scenario
from tests.oracle.together import together

QUERIES = {
    "joined_groups": "SELECT r.w, count(*) AS n, sum(l.v) AS s, max(l.v) AS m FROM {l} l JOIN {r} r ON l.k = r.k GROUP BY r.w",
    "padded": "SELECT l.k, l.v, r.w FROM {l} l LEFT JOIN {r} r ON l.k = r.k AND l.v > r.w",
    "ranked": "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS n FROM {l} l",
    "top": "SELECT k, v FROM {l} l ORDER BY v DESC, k LIMIT 3",
    "without": "SELECT k, v FROM {l} l EXCEPT ALL SELECT k, w FROM {r} r",
    "somewhere": "SELECT k, v FROM {l} l WHERE EXISTS (SELECT 1 FROM {r} r WHERE r.k = l.k) OR v IN (SELECT w FROM {r} r)",
}
ROWS = "(1, 10), (1, 20), (2, 5), (2, 5), (3, NULL), (NULL, 7)"
CHANGES = (
    "INSERT INTO l VALUES (1, 30), (4, 5), (NULL, 7)",
    "DELETE FROM r WHERE k = 2",
    "UPDATE l SET v = 8 WHERE k = 2",
    "INSERT INTO r VALUES (2, 3), (4, 5), (4, 1)",
)


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("l", "k INT, v INT", ROWS)
        scenario.source("r", "k INT, w INT", "(1, 10), (2, 4), (3, 9), (NULL, 1)", properties="")
        yield scenario


def create(s: Scenario, suffix: str, before: str = "", **tables: str) -> None:
    """Create every query over the given relations, under its name with a suffix."""

    def one(name: str) -> None:
        s.spark.sql(
            f"CREATE STREAM TABLE {name}{suffix} REFRESH MODE DIFFERENTIAL AS {before}{QUERIES[name].format(**tables)}"
        ).collect()

    together(one, QUERIES)


def rows(s: Scenario, suffix: str) -> list[object]:
    return [bag_of(contents(s.spark, f"{name}{suffix}")) for name in QUERIES]


def expected(s: Scenario) -> list[object]:
    """Return what Spark itself answers."""
    return [bag(s.copies.session(), query.format(l="l", r="r")) for query in QUERIES.values()]


def refresh(s: Scenario, suffix: str) -> None:
    def one(name: str) -> None:
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}{suffix}").first()
        assert done is not None
        assert done["action"] == "DIFFERENTIAL", done

    together(one, QUERIES)


def test_one_refresh_for_all_changes_or_one_for_each(s: Scenario) -> None:
    create(s, "", l="l", r="r")
    create(s, "_seldom", l="l", r="r")
    for pair in (CHANGES[:2], CHANGES[2:]):
        s.change(*pair)
        refresh(s, "")
    refresh(s, "_seldom")
    assert rows(s, "") == rows(s, "_seldom") == expected(s)
    again = s.spark.sql("REFRESH STREAM TABLE padded").first()
    assert again is not None
    assert again["action"] == "NO_DATA"


def test_an_update_or_a_deletion_and_an_insertion(s: Scenario) -> None:
    s.source("l2", "k INT, v INT", ROWS, properties="")
    create(s, "", l="l", r="r")
    create(s, "_replaced", l="l2", r="r")
    s.change("UPDATE l SET v = v + 1, k = 1 WHERE k = 2 OR v = 10")
    s.change("DELETE FROM l2 WHERE k = 2 OR v = 10", "INSERT INTO l2 VALUES (1, 11), (1, 6), (1, 6)")
    for suffix in ("", "_replaced"):
        refresh(s, suffix)
    assert rows(s, "") == rows(s, "_replaced") == expected(s)


def test_a_query_in_with_or_over_columns_that_nothing_uses(s: Scenario) -> None:
    create(s, "_wide", l="(SELECT *, v * 2 AS unused, struct(k, v) AS nor_this FROM l)", r="(SELECT 'x' AS unused, * FROM r)")
    create(s, "_with", "WITH a AS (SELECT * FROM l), b AS (SELECT k, w FROM r) ", l="a", r="b")
    s.change(*CHANGES)
    for suffix in ("_wide", "_with"):
        refresh(s, suffix)
    assert rows(s, "_wide") == rows(s, "_with") == expected(s)
