"""What Spark does not parse: each query beside the same in plain Spark, written by hand in another way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario
from tests.versions import LACKING, SPARK, needs

from streamtable.errors import InvalidQuery

OPERATORS = {"ALL": ("<>", ">", "="), "ANY": ("=", "<=")}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("l", "k INT, v INT", "(1, 10), (1, 20), (2, 5), (2, NULL), (3, 7), (4, 1), (NULL, 7)")
        scenario.source("r", "k INT, w INT", "(1, 10), (2, 5), (2, 5), (3, 7), (3, NULL), (NULL, 1)", properties="")
        yield scenario


def compare(s: Scenario, pairs: dict[str, tuple[str, str]], *statements: str) -> None:
    """Create each query as a stream table, change the sources, refresh, and compare with the other spelling each time."""
    for name, (query, plain) in pairs.items():
        s.spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        s.queries[name] = plain
        assert_exact(s.spark, name, plain)
    for statement in statements:
        s.step(statement)


@pytest.mark.parametrize(("quantifier", "where"), [("ALL", "WHERE r.k = l.k"), ("ANY", "WHERE r.k < 3")])
def test_quantified_comparisons(s: Scenario, quantifier: str, where: str) -> None:
    """Compare with the values of r; the same by a function over an array, which knows NULL as well.

    `= ANY` and `<> ALL` are IN and NOT IN, as the standard has it, and Spark says FALSE for their NULL in a select list.
    """
    function = "forall" if quantifier == "ALL" else "exists"
    arrays = f"SELECT k, v, coalesce((SELECT collect_list(struct(w)) FROM r {where}), array()) AS ws FROM l"
    pairs = {
        f"t{n}": (
            f"SELECT k, v, v {operator} {quantifier} (SELECT w FROM r {where}) AS c FROM l",
            f"SELECT k, v, {function}(ws, e -> v {operator} e.w) AS c FROM ({arrays})",
        )
        for n, operator in enumerate(OPERATORS[quantifier])
    }
    pairs["t0"] = (
        f"SELECT k, v, v {'<>' if quantifier == 'ALL' else '='} {quantifier} (SELECT w FROM r {where}) AS c FROM l",
        f"SELECT k, v, v {'NOT IN' if quantifier == 'ALL' else 'IN'} (SELECT w FROM r {where}) AS c FROM l",
    )
    compare(s, pairs, "INSERT INTO r VALUES (4, 0), (1, NULL), (2, 6)")


@pytest.mark.core
@pytest.mark.skipif("QUALIFY" not in LACKING, reason=f"Spark {SPARK} has QUALIFY")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT ON (k) k, v FROM l ORDER BY k, v",
        "SELECT k, v FROM l QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1",
    ],
)
def test_first_rows_are_refused_where_spark_has_no_qualify(s: Scenario, query: str) -> None:
    with pytest.raises(InvalidQuery, match=f"Spark {SPARK}.* has neither QUALIFY nor DISTINCT ON"):
        s.spark.sql(f"CREATE STREAM TABLE t AS {query}")


@needs("DISTINCT ON")
def test_distinct_on_and_fetch_first(s: Scenario) -> None:
    compare(
        s,
        {
            "largest": (
                "SELECT DISTINCT ON (k) k, v FROM l ORDER BY k, v DESC NULLS LAST",
                "SELECT k, max(v) AS v FROM l GROUP BY k",
            ),
            "of_groups": (
                "SELECT DISTINCT ON (n) n, k FROM (SELECT k, count(*) AS n FROM l GROUP BY k) ORDER BY n, k DESC",
                "SELECT n, max(k) AS k FROM (SELECT k, count(*) AS n FROM l GROUP BY k) GROUP BY n",
            ),
            "second": (
                "SELECT k, v FROM l WHERE v IS NOT NULL ORDER BY v, k OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY",
                "SELECT k, v FROM l WHERE v IS NOT NULL ORDER BY v, k LIMIT 2 OFFSET 1",
            ),
        },
        "INSERT INTO l VALUES (1, 30), (5, 2), (NULL, 9)",
        "DELETE FROM l WHERE v IN (30, 2, 7)",
    )
