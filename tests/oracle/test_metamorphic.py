"""Metamorphic relations: what must come out equal, although it was written, changed or refreshed in another way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
IN_TURN = ("joined_groups", "ranked", "without"), ("padded", "top", "somewhere"), ("joined_groups", "top", "somewhere")
"""What the pipeline has of each relation, so that each query has one; `./run fuzz -k metamorphic` has all of all."""
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


def some_and_all(relation: int) -> pytest.MarkDecorator:
    """Give a test the queries of the pipeline for its relation; all of them to `./run fuzz`."""
    every = pytest.param(tuple(QUERIES), marks=(pytest.mark.fuzz, pytest.mark.timeout(0)), id="all")
    return pytest.mark.parametrize("names", [pytest.param(IN_TURN[relation], id="some"), every])


def create(s: Scenario, names: Sequence[str], suffix: str, before: str = "", **tables: str) -> None:
    """Create queries over the given relations, under their names with a suffix."""

    def one(name: str) -> None:
        s.spark.sql(
            f"CREATE STREAM TABLE {name}{suffix} REFRESH MODE DIFFERENTIAL AS {before}{QUERIES[name].format(**tables)}"
        ).collect()

    together(one, names)


def rows(s: Scenario, names: Sequence[str], suffix: str) -> list[object]:
    return [bag_of(contents(s.spark, f"{name}{suffix}")) for name in names]


def expected(s: Scenario, names: Sequence[str]) -> list[object]:
    """Return what Spark itself answers."""
    return [bag(s.copies.session(), QUERIES[name].format(l="l", r="r")) for name in names]


def refresh(s: Scenario, names: Sequence[str], suffix: str) -> None:
    def one(name: str) -> None:
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}{suffix}").first()
        assert done is not None
        assert done["action"] == "DIFFERENTIAL", done

    together(one, names)


@some_and_all(0)
def test_one_refresh_for_all_changes_or_one_for_each(s: Scenario, names: Sequence[str]) -> None:
    create(s, names, "", l="l", r="r")
    create(s, names, "_seldom", l="l", r="r")
    for pair in (CHANGES[:2], CHANGES[2:]):
        s.change(*pair)
        refresh(s, names, "")
    refresh(s, names, "_seldom")
    assert rows(s, names, "") == rows(s, names, "_seldom") == expected(s, names)
    again = s.spark.sql(f"REFRESH STREAM TABLE {names[0]}").first()
    assert again is not None
    assert again["action"] == "NO_DATA"


@some_and_all(1)
def test_an_update_or_a_deletion_and_an_insertion(s: Scenario, names: Sequence[str]) -> None:
    s.source("l2", "k INT, v INT", ROWS, properties="")
    create(s, names, "", l="l", r="r")
    create(s, names, "_replaced", l="l2", r="r")
    s.change("UPDATE l SET v = v + 1, k = 1 WHERE k = 2 OR v = 10")
    s.change("DELETE FROM l2 WHERE k = 2 OR v = 10", "INSERT INTO l2 VALUES (1, 11), (1, 6), (1, 6)")
    for suffix in ("", "_replaced"):
        refresh(s, names, suffix)
    assert rows(s, names, "") == rows(s, names, "_replaced") == expected(s, names)


@some_and_all(2)
def test_a_query_in_with_or_over_columns_that_nothing_uses(s: Scenario, names: Sequence[str]) -> None:
    create(
        s, names, "_wide", l="(SELECT *, v * 2 AS unused, struct(k, v) AS nor_this FROM l)", r="(SELECT 'x' AS unused, * FROM r)"
    )
    create(s, names, "_with", "WITH a AS (SELECT * FROM l), b AS (SELECT k, w FROM r) ", l="a", r="b")
    s.change(*CHANGES)
    for suffix in ("_wide", "_with"):
        refresh(s, names, suffix)
    assert rows(s, names, "_wide") == rows(s, names, "_with") == expected(s, names)
