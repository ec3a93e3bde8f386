"""Queries whose ORDER BY leaves open which of equal rows comes first: one answer each time, or refused with the reason.

Spark may answer them differently each time, so VERIFY, which completes the order in the same way, is the judge here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario

from streamtable.errors import NotIncremental

COLUMNS = "k INT, v INT, d INT, m MAP<STRING, INT>"
ROWS = "(1, 10, 1, map('a', 1)), (1, 20, 1, map('b', 2)), (1, 30, 2, map()), (2, 40, 1, NULL), (NULL, 50, 1, NULL)"
CHANGES = (
    "DELETE FROM l WHERE v = 20",
    "INSERT INTO l VALUES (1, 5, 1, map('c', 1)), (2, 41, 1, NULL), (1, 5, 1, map('c', 1))",
)
BY_D = "OVER (PARTITION BY k ORDER BY d)"
SETTLED = {
    "rows_and_ranges": "SELECT v, rank() OVER w AS a, row_number() OVER w AS b, sum(v) OVER w AS c, lag(v) OVER w AS e "
    "FROM l WINDOW w AS (PARTITION BY k ORDER BY d)",
    "first_of_a_range": f"SELECT v, first_value(v) {BY_D} AS n FROM l",
    "first_of_all": f"SELECT v, first_value(v) {BY_D[:-1]} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n FROM l",
    "without_order": "SELECT v, collect_list(v) OVER (PARTITION BY k) AS n FROM l",
    "rows_without_order": "SELECT v, sum(v) OVER (PARTITION BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM l",
    "ordered_by_a_map": "SELECT m, row_number() OVER (PARTITION BY k ORDER BY e) AS n FROM (SELECT k, 1 AS e, m FROM l)",
    "top_of_maps": "SELECT m FROM (SELECT m, 1 AS e FROM l) ORDER BY e LIMIT 2",
    "top_of_variants": "SELECT parse_json(CAST(v AS STRING)) AS j FROM l ORDER BY k LIMIT 2",
    "top_per_row": "SELECT r.w, q.v FROM r, LATERAL (SELECT v, d FROM l WHERE l.k = r.w ORDER BY d LIMIT 2) q",
    # Spark itself forgets an order by a column that the subquery does not return, and takes any two rows.
    "top_per_row_by_another_column": "SELECT r.w, q.v FROM r, LATERAL (SELECT v FROM l WHERE l.k = r.w ORDER BY d LIMIT 2) q",
}
DECIDED = {
    "nth_of_a_range": f"SELECT v, nth_value(d, 2) {BY_D} AS n FROM l",
    "last_of_its_order": f"SELECT v, last_value(d) {BY_D} AS n, collect_list(k) {BY_D} AS c FROM l",
}
REFUSED = {
    "nth_value": (f"SELECT v, nth_value(v, 2) {BY_D} AS n FROM l", "which of equal rows comes first"),
    "last_value": (f"SELECT v, last_value(v) {BY_D} AS n FROM l", "which of equal rows comes first"),
    "collect_list": (f"SELECT v, collect_list(v) {BY_D} AS n FROM l", "which of equal rows comes first"),
    "limit": ("SELECT k FROM l LIMIT 2", "without ORDER BY"),
    "limit in LATERAL": (
        "SELECT r.w, q.v FROM r, LATERAL (SELECT v FROM l WHERE l.k = r.w LIMIT 1) q",
        "which of equal rows comes first",
    ),
}


@pytest.fixture(scope="module")
def world(spark: SparkSession) -> Iterator[Scenario]:
    """Keep the sources for all tests; no test relies on what another did to them."""
    with Scenario(spark) as scenario:
        scenario.source("l", COLUMNS, ROWS)
        scenario.source("r", "w INT", "(1), (1), (2)")
        yield scenario


def test_ties_are_broken_the_same_way_each_time(world: Scenario) -> None:
    queries = SETTLED | DECIDED
    for name, query in queries.items():
        world.spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        world.queries[name] = query
    for change in CHANGES:
        world.spark.sql(change)
    for name in queries:
        done = world.spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]
        assert done["action"] == "DIFFERENTIAL", done
        verdict = world.spark.sql(f"VERIFY STREAM TABLE {name}").collect()[0]
        assert verdict["ok"], verdict
    for name, query in DECIDED.items():
        assert_exact(world.copies.session(), name, query)


@pytest.mark.parametrize("name", REFUSED)
def test_what_stays_open_is_refused(world: Scenario, name: str) -> None:
    query, reason = REFUSED[name]
    with pytest.raises(NotIncremental, match=reason):
        world.spark.sql(f"CREATE STREAM TABLE refused REFRESH MODE DIFFERENTIAL AS {query}")


def test_subqueries_that_spark_joins_in_another_order(world: Scenario) -> None:
    """A key that is a subquery, and EXISTS with a LIMIT that means nothing."""
    queries = {
        "by_subquery": "SELECT (SELECT count(*) FROM r WHERE r.w = l.k) AS g, count(*) AS n FROM l GROUP BY 1",
        "exists_limit": "SELECT k, v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.w = l.k LIMIT 1)",
    }
    for name, query in queries.items():
        world.stream(name, query)
    world.spark.sql("UPDATE r SET w = 3 WHERE w = 2")
    world.spark.sql("INSERT INTO l VALUES (3, 7, 7, NULL)")
    for name in queries:
        world.refresh(name)


def test_a_scalar_subquery_of_unknown_size_is_refused(world: Scenario) -> None:
    query = "SELECT k, (SELECT w FROM r WHERE r.w < l.k) AS w FROM l"
    with pytest.raises(NotIncremental, match="aggregate it"):
        world.spark.sql(f"CREATE STREAM TABLE refused REFRESH MODE DIFFERENTIAL AS {query}")
