"""What Spark does not parse, in its words; what merely looks like it stays as it is."""

from __future__ import annotations

import re

import pytest
from sqlglot import parse_one
from tests.versions import needs

from streamtable.query import spellings
from streamtable.query.rewrite import moving_literal, rewritten
from streamtable.query.similar import as_regular_expression
from streamtable.query.spellings import instead

UNTOUCHED = [
    "SELECT * FROM t WHERE s LIKE ANY ('a', 'b') AND t LIKE ALL ('c%')",
    "SELECT any(x), some(y), bool_and(z) FROM t WHERE a = any(b)",
    "SELECT `= ANY (SELECT 1)`, ' > ALL (SELECT 1)' FROM t -- x = ALL (SELECT 1)",
    "SELECT k FROM l UNION ALL (SELECT k FROM r)",
    "SELECT k FROM l INTERSECT ALL (SELECT k FROM r)",
    "SELECT DISTINCT on FROM t JOIN u ON (t.k = u.k)",
    "SELECT fetch, first FROM t",
    "SELECT 1 -- a comment that goes on \\\n > ALL (xs)\n FROM t",
    "SELECT 1 -- \\\n = ANY (SELECT 1)\n /* /* */ SIMILAR TO 'a' */ FROM t",
    "SELECT * FROM t JOIN s.distinct ON (t.k = distinct.k)",
    "SELECT 'never closed = ALL (SELECT 1)",
    "SELECT x > ALL (SELECT 1",
    "SELECT string_agg(x, ',') WITHIN GROUP (ORDER BY y) FROM t",
    "SELECT listagg((SELECT max(x) FROM u ORDER BY 1), ',') FROM t",
    "SELECT x FROM t WHERE a = ANY(b) AND c = SOME(array(1)[0]) AND d = ANY(ARRAY[1]) AND e = ANY(f(array(1)))",
    "SELECT x FROM t WHERE a > ALL ((SELECT b FROM u)) OR a > ALL (1, 2) OR a > ALL () OR a > ALL(ARRAY[1])",
    "SELECT s SIMILAR TO p, s SIMILAR TO 'a' || p, s SIMILAR TO 'a' 'b', s SIMILAR TO 'a''b', s SIMILAR TO r'a', s SIMILAR TO \"a\" FROM t",
    r"SELECT s SIMILAR TO 'a\\d', s SIMILAR TO 'a*+', s SIMILAR TO '(?i)a', s SIMILAR TO '[[:digit:]]' FROM t",
    "SELECT s SIMILAR TO 'a' COLLATE UNICODE, s SIMILAR TO 'a' ESCAPE e, s SIMILAR TO 'a#' ESCAPE '#' FROM t",
    "SELECT ' SIMILAR TO ', `x SIMILAR TO 'a'` FROM t -- x SIMILAR TO 'a'",
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
            "SELECT DISTINCT ON (a) a FROM t -- why\n ORDER BY a, b -- how\n LIMIT 3",
            "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY a, b) = 1 ORDER BY a, b -- how\n LIMIT 3",
            marks=needs("QUALIFY"),
            id="a comment behind the body, which took QUALIFY along",
        ),
        pytest.param(
            "SELECT DISTINCT ON (f(a, 2)) a FROM t ORDER BY f(a, 2), 1 + b",
            "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY f(a, 2) ORDER BY f(a, 2), 1 + b) = 1 ORDER BY f(a, 2), 1 + b",
            marks=needs("QUALIFY"),
            id="numbers that are no positions",
        ),
        pytest.param(
            "SELECT DISTINCT ON (a) * EXCEPT (b), f[limit] FROM t -- why",
            "SELECT * EXCEPT (b), f[limit] FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY a) = 1 ",
            marks=needs("QUALIFY"),
            id="a comment at the end, and brackets",
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
        (
            "SELECT * FROM t WHERE p AND x + 1 >= ALL (a.b) OR NOT y <> ANY(ARRAY[f(1, 2), z])",
            (
                "SELECT * FROM t WHERE p AND forall(a.b, ___element -> (x + 1) >= ___element) "
                "OR NOT exists(array(f(1, 2), z), __element -> (y) <> __element)"
            ),
        ),
        (
            "SELECT __element = SOME (array(1, x == all(b))) FROM t",
            "SELECT exists(array(1, forall(b, ___element -> (x) == ___element)), ____element -> (__element) = ____element) FROM t",
        ),
        ("SELECT __ELEMENT = ALL (a) FROM t", "SELECT forall(a, ___element -> (__ELEMENT) = ___element) FROM t"),
        (
            (
                "SELECT /*+ BROADCAST(u) */ k > ALL (a), f(p => k > ALL (a)), sum(v) OVER (PARTITION BY k > ALL (a) ORDER BY k > ALL (a))"
                " FROM t GROUP BY k > ALL (a) ORDER BY k > ALL (a)"
            ),
            (
                "SELECT /*+ BROADCAST(u) */ forall(a, _______element -> (k) > _______element), f(p => forall(a, ______element -> (k) > ______element)),"
                " sum(v) OVER (PARTITION BY forall(a, _____element -> (k) > _____element) ORDER BY forall(a, ____element -> (k) > ____element))"
                " FROM t GROUP BY forall(a, ___element -> (k) > ___element) ORDER BY forall(a, __element -> (k) > __element)"
            ),
        ),
        (
            "FROM t |> EXTEND k = ANY (SELECT k FROM u) AS y |> WHERE k > ALL (a)",
            "FROM t |> EXTEND (k IN (SELECT k FROM u)) AS y |> WHERE forall(a, __element -> (k) > __element)",
        ),
        (
            "SELECT * FROM t WHERE a || b NOT SIMILAR  TO '(x|y)%_.[a-c]{2,}' AND c similar to '#%x' ESCAPE '#' GROUP BY a",
            (
                "SELECT * FROM t WHERE a || b NOT RLIKE '(?s)^(?:(x|y).*.[.][a-c]{2,})(?!.)' "
                "AND c RLIKE '(?s)^(?:[%]x)(?!.)' GROUP BY a"
            ),
        ),
        (
            "SELECT s SIMILAR TO '' AS a, s SIMILAR TO 'a%' ESCAPE ''",
            "SELECT s RLIKE '(?s)^(?:)(?!.)' AS a, s RLIKE '(?s)^(?:a.*)(?!.)'",
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


@pytest.mark.parametrize(
    ("operand", "front"),
    [
        ("t.end", "SELECT a, "),
        ("end", "SELECT * FROM t WHERE "),
        ("start < end", "SELECT b AS end, "),
        ("CASE WHEN (end > 1) THEN t.end ELSE end END", "SELECT "),
        ("t.case", "SELECT CASE WHEN b THEN c END, "),
        *((f"t.{word}", "SELECT * FROM t WHERE b AND ") for word in ("all", "when", "and", "not", "on", "select", "distinct")),
        ("c", "SELECT b IS NOT DISTINCT FROM "),
    ],
)
def test_a_column_called_as_a_keyword_belongs_to_its_operand(operand: str, front: str) -> None:
    assert rewritten(f"{front}{operand} > ALL (xs) FROM u") == f"{front}forall(xs, __element -> ({operand}) > __element) FROM u"
    assert rewritten(f"{front}{operand} = ANY (SELECT 1) FROM u") == f"{front}({operand} IN (SELECT 1)) FROM u"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT ON (1) a, b FROM t",
        "SELECT DISTINCT ON (a, 2) a, b FROM t",
        "SELECT DISTINCT ON (a) a, b FROM t ORDER BY 1, 2 DESC LIMIT 3",
        "SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, 2",
        "SELECT * FROM (SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, 2 NULLS LAST)",
    ],
)
def test_a_position_in_distinct_on_is_no_constant_that_orders_nothing(query: str) -> None:
    assert rewritten(query) == query
    assert "in place of positions" in str(instead(query, ""))


@pytest.mark.parametrize("array", ["values", "table", "with", "from", "values.xs", "table[0]"])
def test_an_array_may_be_called_as_a_word_that_opens_a_query(array: str) -> None:
    assert rewritten(f"SELECT x > ALL ({array}) FROM t") == f"SELECT forall({array}, __element -> (x) > __element) FROM t"


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
        ("SELECT collect_list(upper(c) ORDER BY abs(k)) FROM s", "array_sort(array_agg(struct(y, x)))"),
        ("SELECT k FROM s WHERE k = ANY(array(1, 2))", "array_contains"),
        ("SELECT k FROM s WHERE k <> all (a)", "NOT array_contains"),
        ("SELECT k FROM s WHERE k >= SOME(a)", "exists(array"),
        ("SELECT k FROM s WHERE k <= ALL(a)", "forall(array"),
        ("SELECT k FROM s WHERE c NOT SIMILAR TO p", "RLIKE"),
        ("SELECT JSON_OBJECT('a' VALUE k) FROM s", "named_struct"),
        ("SELECT json_object (KEY 'a' VALUE k ABSENT ON NULL) FROM s", "named_struct"),
        ("SELECT JSON_ARRAY(k, c NULL ON NULL) FROM s", "array_compact"),
        ("SELECT JSON_ARRAYAGG(k) FROM s", "to_json(array_sort(array_agg(x)))"),
        ("SELECT JSON_ARRAYAGG(abs(k) ORDER BY c DESC) FROM s", "struct(y, x)"),
        ("SELECT JSON_OBJECTAGG(c : k) FROM s", "map_from_entries"),
        ("SELECT k FROM s WHERE c IS NOT JSON OBJECT WITH UNIQUE KEYS", "try_parse_json"),
        ("SELECT sum(k) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s", "dense_rank()"),
        ("SELECT sum(k) OVER (ORDER BY k ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM s", "two frames"),
        ("SELECT k FROM s\nwith no data", "write WITH NO DATA in front of AS"),
        ("SELECT k FROM s WITH DATA", "leave WITH DATA out"),
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
    assert instead("SELECT nothing = ANY (SELECT k FROM s), json_object_keys(c) FROM s", "[UNRESOLVED_COLUMN]") is None
    assert instead("SELECT array_agg(k) FROM s ORDER BY k", "[UNRESOLVED_COLUMN] `localtimes`") is None
    assert "UNION ALL" in (instead("WITH RECURSIVE ...", "[UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE]") or "")
    assert "date_format" in (instead("SELECT LOCALTIME", "[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] with name `LOCALTIME`") or "")


@pytest.mark.parametrize(
    ("pattern", "escape", "matches", "others"),
    [
        ("abc", "", ["abc"], ["abcd", "xabc", "abc\n", ""]),
        ("a%", "", ["a", "a\n\nb"], ["ba"]),
        ("a_c", "", ["abc", "a\nc"], ["ac", "abbc"]),
        ("a|b%", "", ["a", "bx"], ["ax", "xa"]),
        ("(a|bc)+.", "", ["abca."], ["abcax", "."]),
        ("[^a-c_]{2}", "", ["dd"], ["ad", "__", "ddd"]),
        ("$x", "", ["$x"], ["x"]),
        ("10#%|#_", "#", ["10%", "_"], ["10", "10x", "a"]),
        ("a?b*", "", ["", "ab", "bb"], ["aab"]),
    ],
)
def test_a_pattern_matches_all_of_the_text(pattern: str, escape: str, matches: list[str], others: list[str]) -> None:
    regular = as_regular_expression(pattern, escape)
    assert regular is not None
    assert "\\" not in regular
    assert [text for text in (*matches, *others) if re.search(regular, text)] == matches


@pytest.mark.parametrize(
    "pattern",
    [
        "a*+",
        "*a",
        "(|*)",
        "a**",
        "^a",
        "a\\d",
        "[]",
        "[a&&b]",
        "[z-a]",
        "(a",
        "a)",
        "a{",
        "a}",
        "a{3,1}",
        "[[:alpha:]]",
        "[#a]",
        "#",
        "#^",
        "#]",
    ],
)
def test_a_pattern_without_a_sure_translation_stays(pattern: str) -> None:
    assert as_regular_expression(pattern, "#") is None
