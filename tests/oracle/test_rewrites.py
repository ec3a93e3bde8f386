"""What Spark does not parse: each query beside the same in plain Spark, written by hand in another way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario
from tests.versions import LACKING, SPARK, needs

from streamtable.errors import InvalidQuery


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


@pytest.mark.parametrize(
    ("quantifier", "where", "operators"),
    [
        ("ALL", "WHERE r.k = l.k", ("<>", ">")),
        ("ANY", "WHERE r.k < 3", ("=", "<=")),
        pytest.param("ALL", "WHERE r.k = l.k", ("=", "<", ">=", "<="), marks=pytest.mark.fuzz),
    ],
)
def test_quantified_comparisons(s: Scenario, quantifier: str, where: str, operators: tuple[str, ...]) -> None:
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
        for n, operator in enumerate(operators)
    }
    if (membership := {("ALL", "<>"): "NOT IN", ("ANY", "="): "IN"}.get((quantifier, operators[0]))) is not None:
        pairs["t0"] = pairs["t0"][0], f"SELECT k, v, v {membership} (SELECT w FROM r {where}) AS c FROM l"
    compare(s, pairs, "INSERT INTO r VALUES (4, 0), (1, NULL), (2, 6)")


def test_arrays_and_patterns(s: Scenario) -> None:
    s.source("p", "s STRING, a ARRAY<INT>", "('abc', array(1, 2)), ('a\\nb', array()), ('b%', array(1, NULL)), (NULL, NULL)")
    compare(
        s,
        {
            "every": (
                "SELECT s, 2 >= ALL (a) AS c, 2 = ANY (ARRAY[1, size(a)]) AS d FROM p",
                (
                    "SELECT s, CASE WHEN a IS NULL THEN NULL WHEN array_max(a) > 2 THEN FALSE WHEN size(filter(a, e -> e IS NULL)) > 0 THEN NULL "
                    "ELSE TRUE END AS c, size(a) = 2 AS d FROM p"
                ),
            ),
            "alike": (
                "SELECT s, s SIMILAR TO 'a%(b|c)' AS c, s NOT SIMILAR TO 'b#%' ESCAPE '#' AS d FROM p",
                "SELECT s, s LIKE 'a%b' OR s LIKE 'a%c' AS c, s <> 'b%' AS d FROM p",
            ),
        },
        "INSERT INTO p VALUES ('ab', array(3)), ('b%c', array(NULL, 3))",
        "DELETE FROM p WHERE s = 'abc'",
    )


def test_what_errors_say_to_write_instead_of_json_is_maintained(s: Scenario) -> None:
    s.source("j", "k INT, x INT, y INT, s STRING", "(1, 2, 9, '[1]'), (1, 1, 10, 'no'), (2, NULL, 5, NULL)")
    s.stream(
        "of_rows",
        "SELECT k, to_json(named_struct('a', x), map('ignoreNullFields', 'false')) AS o, s, "
        "to_json(array_compact(array(x, y))) AS a, try_parse_json(s) IS NOT NULL AS b FROM j",
    )
    s.stream(
        "of_groups",
        "SELECT k, to_json(array_sort(array_agg(x))) AS a, "
        "to_json(transform(array_sort(array_agg(struct(y, x))), e -> e.x)) AS o, "
        "to_json(map_from_entries(array_sort(array_agg(struct(y, x))))) AS m FROM j GROUP BY k",
    )
    assert s.rows("of_rows") == [
        (1, '{"a":1}', "no", "[1,10]", False),
        (1, '{"a":2}', "[1]", "[2,9]", True),
        (2, '{"a":null}', None, "[5]", False),
    ]
    assert s.rows("of_groups")[0] == (1, "[1,2]", "[2,1]", '{"9":2,"10":1}')
    s.step("INSERT INTO j VALUES (1, 0, 11, '{}')", "DELETE FROM j WHERE k = 2")


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
                "SELECT DISTINCT ON (k) k, v FROM l -- a comment\n ORDER BY k, v DESC NULLS LAST -- another",
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
