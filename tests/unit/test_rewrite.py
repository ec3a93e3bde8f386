"""What Spark does not parse, in its words; what merely looks like it stays as it is."""

from __future__ import annotations

import pytest
from sqlglot import parse_one
from tests.versions import needs

from streamtable.query import spellings
from streamtable.query.rewrite import moving_literal, rewritten
from streamtable.query.spellings import instead

UNTOUCHED = [
    "SELECT * FROM t WHERE s LIKE ANY ('a', 'b') AND t LIKE ALL ('c%')",
    "SELECT any(x), some(y), bool_and(z) FROM t WHERE a = any(b)",
    "SELECT `= ANY (SELECT 1)`, ' > ALL (SELECT 1)' FROM t -- x = ALL (SELECT 1)",
    "SELECT k FROM l UNION ALL (SELECT k FROM r)",
    "SELECT k FROM l INTERSECT ALL (SELECT k FROM r)",
    "SELECT DISTINCT on FROM t JOIN u ON (t.k = u.k)",
    "SELECT fetch, first FROM t",
    "SELECT 'never closed = ALL (SELECT 1)",
    "SELECT x > ALL (SELECT 1",
    "SELECT string_agg(x, ',') WITHIN GROUP (ORDER BY y) FROM t",
    "SELECT listagg((SELECT max(x) FROM u ORDER BY 1), ',') FROM t",
]


@pytest.mark.parametrize("query", UNTOUCHED)
def test_untouched(query: str) -> None:
    assert rewritten(query) == query


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t WHERE x = ANY (SELECT y FROM u)", "SELECT * FROM t WHERE (x IN (SELECT y FROM u))"),
        ("SELECT f(x)  ==  some(VALUES 1) FROM t", "SELECT (f(x) IN (VALUES 1)) FROM t"),
        (
            "SELECT a AND t.x + 1 <> ALL (SELECT y FROM u) OR b FROM t",
            "SELECT a AND (t.x + 1 NOT IN (SELECT y FROM u)) OR b FROM t",
        ),
        pytest.param(
            "SELECT DISTINCT ON (a, f(b)) a, c FROM t ORDER BY a, f(b), c LIMIT 3",
            "SELECT a, c FROM t QUALIFY row_number() OVER (PARTITION BY a, f(b) ORDER BY a, f(b), c) = 1 ORDER BY a, f(b), c LIMIT 3",
            marks=needs("QUALIFY"),
        ),
        pytest.param(
            "(SELECT DISTINCT ON (a) * FROM t) UNION ALL SELECT * FROM u",
            "(SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY a) = 1 ) UNION ALL SELECT * FROM u",
            marks=needs("QUALIFY"),
        ),
        (
            "SELECT string_agg(DISTINCT f(x), ',' ORDER BY f(x) DESC) AS s, LISTAGG(y ORDER BY z, y) FROM t",
            "SELECT string_agg(DISTINCT f(x), ',') WITHIN GROUP (ORDER BY f(x) DESC) AS s, LISTAGG(y) WITHIN GROUP (ORDER BY z, y) FROM t",
        ),
        ("SELECT * FROM t ORDER BY a FETCH FIRST 3 ROWS ONLY", "SELECT * FROM t ORDER BY a LIMIT 3"),
        ("SELECT * FROM t ORDER BY a FETCH NEXT ROW ONLY", "SELECT * FROM t ORDER BY a LIMIT 1"),
        ("SELECT * FROM t ORDER BY a OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY", "SELECT * FROM t ORDER BY a LIMIT 3 OFFSET 2"),
    ],
)
def test_rewritten(query: str, expected: str) -> None:
    assert rewritten(query) == expected


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM t WHERE d = DATE 'today'", "DATE 'today'"),
        ("SELECT timestamp  ' NOW ' AS n", "timestamp  ' NOW '"),
        ("SELECT 'today' AS d, DATE '2026-01-01' AS e, \"DATE 'today'\" AS f -- DATE 'today'", None),
        ("SELECT CAST('now' AS TIMESTAMP) AS n", None),  # Spark reads that as current_timestamp()
        ("SELECT DATE 'now', 'never closed", None),
    ],
)
def test_literals_that_mean_another_time_tomorrow(query: str, found: str | None) -> None:
    assert moving_literal(query) == found


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("quantifier", ["ALL", "ANY", "SOME"])
def test_every_quantified_comparison_becomes_a_query(operator: str, quantifier: str) -> None:
    query = (
        f"SELECT CASE WHEN NOT (a[1] + b) * 2 {operator} {quantifier} (SELECT y > ALL (SELECT z FROM w) FROM u) THEN 1 END FROM t"
    )
    found = rewritten(query)
    assert f" {quantifier} (" not in found
    assert "ALL (" not in found
    parse_one(found, dialect="spark")


def test_the_operand_of_a_comparison_is_all_of_it() -> None:
    found = rewritten("SELECT * FROM t WHERE p AND CASE WHEN a THEN b ELSE c END - (d + e) < ALL (SELECT y FROM u)")
    assert found.startswith("SELECT * FROM t WHERE p AND (CASE WHEN (SELECT count(*)")
    assert "(CASE WHEN a THEN b ELSE c END - (d + e)) >= (SELECT min(__value)" in found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT array_agg(c ORDER BY k) FROM s", "array_sort(array_agg(struct(y, x)))"),
        ("SELECT k FROM s WHERE k = ANY(array(1, 2))", "array_contains"),
        ("SELECT k FROM s WHERE k <> all (a)", "NOT array_contains"),
        ("SELECT k FROM s WHERE k >= SOME(a)", "exists(array"),
        ("SELECT k FROM s WHERE k <= ALL(a)", "forall(array"),
        ("SELECT k FROM s WHERE c NOT SIMILAR TO 'a%'", "RLIKE"),
        ("SELECT sum(k) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s", "dense_rank()"),
        ("SELECT sum(k) OVER (ORDER BY k ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM s", "two frames"),
    ],
)
def test_what_to_write_instead(query: str, said: str) -> None:
    hint = instead(query, "[PARSE_SYNTAX_ERROR]")
    assert hint is not None
    assert said in hint


@pytest.mark.parametrize(
    "query", ["SELECT distinct  on(a) a, b FROM t", "SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) = 1"]
)
def test_without_qualify_the_hint_is_a_subquery(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spellings, "HAS_QUALIFY", True)
    assert instead(query, "[UNRESOLVED_COLUMN]") is None
    monkeypatch.setattr(spellings, "HAS_QUALIFY", False)
    assert "take number 1" in (instead(query, "[UNRESOLVED_ROUTINE]") or "")


def test_no_spelling_is_suggested_for_other_mistakes() -> None:
    assert instead("SELECT nothing FROM s", "[UNRESOLVED_COLUMN]") is None
    assert "UNION ALL" in (instead("WITH RECURSIVE ...", "[UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE]") or "")
