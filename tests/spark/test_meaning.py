"""Expressions that Spark shows by one text, and that compute other values: they are never taken for each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario
from tests.versions import LACKING

from streamtable.language.names import Query
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.sessions import internal
from streamtable.sessions.captured import captured_settings
from streamtable.sessions.internal import lend, lent

JOINED = "FROM a JOIN b ON a.k = b.k"
FIELDS = ", ".join(f"'f{n}', a.v" for n in range(13))
ALIKE = {
    "columns of one name": ("a.v - b.v", "b.v - a.v"),
    "columns of one name, again": ("a.v - b.v - a.v", "a.v - b.v - b.v"),
    "conditions on columns of one name": ("CASE WHEN a.v < b.v THEN 1 END", "CASE WHEN b.v < a.v THEN 1 END"),
    "variables of a lambda": ("aggregate(a.l, 0, (x, y) -> x - y)", "aggregate(a.l, 0, (x, y) -> y - x)"),
    "variables of nested lambdas": (
        "size(filter(a.l, x -> exists(a.l, y -> x > y + 1)))",
        "size(filter(a.l, x -> exists(a.l, y -> y > x + 1)))",
    ),
    "patterns of LIKE ANY": ("CASE WHEN a.s LIKE ANY ('x%', 'y%') THEN 1 END", "CASE WHEN a.s LIKE ANY ('x%', 'z%') THEN 1 END"),
    "patterns of NOT LIKE ALL": (
        "CASE WHEN a.s NOT LIKE ALL ('x%', 'y%') THEN 1 END",
        "CASE WHEN a.s NOT LIKE ALL ('x%', 'z%') THEN 1 END",
    ),
    "what LIKE escapes with": ("CASE WHEN a.s LIKE 'y|%' THEN 1 END", "CASE WHEN a.s LIKE 'y|%' ESCAPE '|' THEN 1 END"),
    "options of from_json": (
        "day(from_json(a.j, 'd DATE', map('dateFormat', 'dd/MM/yyyy')).d)",
        "day(from_json(a.j, 'd DATE', map('dateFormat', 'MM/dd/yyyy')).d)",
    ),
    "schema of from_json": (
        "size(map_keys(from_json(a.j, 'MAP<STRING, DATE>')))",
        "size(map_keys(from_json(a.j, 'MAP<STRING, INT>')))",
    ),
    "options of from_csv": ("from_csv(a.s, 'c INT', map('sep', 'x')).c", "from_csv(a.s, 'c INT', map('sep', 'y')).c"),
    "IGNORE NULLS": (
        "lag(b.w) OVER (PARTITION BY a.k ORDER BY a.v, b.v, b.w)",
        "lag(b.w) IGNORE NULLS OVER (PARTITION BY a.k ORDER BY a.v, b.v, b.w)",
    ),
    "IGNORE NULLS of a value": (
        "nth_value(b.w, 2) OVER (PARTITION BY a.k ORDER BY a.v, b.v, b.w ROWS UNBOUNDED PRECEDING)",
        "nth_value(b.w, 2) IGNORE NULLS OVER (PARTITION BY a.k ORDER BY a.v, b.v, b.w ROWS UNBOUNDED PRECEDING)",
    ),
    "order of a percentile": (
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY b.v) OVER (PARTITION BY a.k)",
        "percentile_cont(0.25) WITHIN GROUP (ORDER BY b.v DESC) OVER (PARTITION BY a.k)",
    ),
    "types that casts leave out": (
        "length(CAST(array_max(CAST(a.l AS ARRAY<BIGINT>)) AS STRING))",
        "length(CAST(array_max(CAST(a.l AS ARRAY<DOUBLE>)) AS STRING))",
    ),
    "overflow": ("a.v + 1", "try_add(a.v, 1)"),
    "the last of many fields": (
        f"length(to_json(named_struct({FIELDS}, 'last', a.v * 2)))",
        f"length(to_json(named_struct({FIELDS}, 'last', a.v * 2000)))",
    ),
    "strings with commas": (
        "length(url_encode(concat_ws('--', a.s, 'x, y')))",
        "length(url_encode(concat_ws('--', a.s, 'x', 'y')))",
    ),
}
"""Two expressions each, over the tables a and b."""
PLANS = {
    "names of constants": ("SELECT p FROM VALUES (1, 2) AS t(p, q)", "SELECT p FROM VALUES (1, 2) AS t(q, p)"),
    "names of what UNPIVOT makes": (
        "SELECT p FROM b UNPIVOT INCLUDE NULLS ((p, q) FOR n IN ((k, v)))",
        "SELECT p FROM b UNPIVOT INCLUDE NULLS ((q, p) FOR n IN ((k, v)))",
    ),
    "values of a PIVOT": (
        "SELECT x, y FROM b PIVOT (sum(v) FOR (k, w) IN ((1, 1) AS x, (2, 7) AS y))",
        "SELECT x, y FROM b PIVOT (sum(v) FOR (k, w) IN ((1, 1) AS x, (2, 3) AS y))",
    ),
    "a pattern that is NULL": (
        "SELECT s LIKE ANY ('x%', CAST(NULL AS STRING)) AS x FROM a",
        "SELECT s LIKE ANY ('x%') AS x FROM a",
    ),
    "names like ids of attributes": ("SELECT c1 AS x FROM d", "SELECT c2 AS x FROM d"),
    "a condition of a join": (
        "SELECT a.v AS x, b.v AS y FROM a JOIN b ON a.v < b.v",
        "SELECT a.v AS x, b.v AS y FROM a JOIN b ON b.v < a.v",
    ),
    "a condition": (f"SELECT a.v AS x, b.v AS y {JOINED} WHERE a.v < b.v", f"SELECT a.v AS x, b.v AS y {JOINED} WHERE b.v < a.v"),
    "constants": ("SELECT * FROM VALUES ('x,y', 'z') AS t(p, q)", "SELECT * FROM VALUES ('x', 'y,z') AS t(p, q)"),
    "binary constants": ("SELECT * FROM VALUES (X'61') AS t(p)", "SELECT * FROM VALUES (X'62') AS t(p)"),
    "what an operator without a rule reads": (
        "SELECT a.v FROM a TABLESAMPLE (50 PERCENT) REPEATABLE (1)",
        "SELECT a.v FROM a TABLESAMPLE (50 PERCENT) REPEATABLE (2)",
    ),
    "seeds that are written": ("SELECT v + uniform(1, 10, 0) AS x FROM a", "SELECT v + uniform(1, 10, 1) AS x FROM a"),
    "a seed that is written": ("SELECT v + uniform(1, 10) AS x FROM a", "SELECT v + uniform(1, 10, 0) AS x FROM a"),
    "a subquery that is no join": (
        "SELECT a.v, (SELECT max(b.v) FROM b WHERE b.k < a.k AND b.v > 20) AS m FROM a",
        "SELECT a.v, (SELECT max(b.v) FROM b WHERE b.k < a.k AND b.v > 30) AS m FROM a",
    ),
}


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source(
            "a",
            "k INT, v INT, s STRING, l ARRAY<INT>, j STRING",
            """(1, 10, 'x1', array(1, 3), '{"d": "01/02/2026"}'), (1, 20, 'y|%', array(5), '{"d": "03/01/2026"}'),
               (2, 30, 'z2', array(2, 7, 4), '{"d": "01/04/2026"}'), (2, 12, 'y|q', NULL, '{"d": 5}')""",
        )
        scenario.source("b", "k INT, v INT, w INT", "(1, 12, 1), (1, 25, NULL), (2, 24, 7), (2, 31, NULL), (2, 40, 3)")
        scenario.source("d", "c1 INT, c2 INT", "(1, 2)")
        yield scenario


def analysed(s: Scenario, query: str) -> AnalysedQuery:
    found = analyse(lend(s.spark, ("spark_catalog", s.database), captured_settings(s.spark)), Query(query))
    release(found)
    return found


def unshown(found: AnalysedQuery) -> list[str]:
    return re.findall(r'"unshown":\[[^]]*\]', found.plan)


def spoken(node: Any, key: str = "") -> Iterator[str]:
    """Yield the names and texts of a plan."""
    match node:
        case str() if key in ("name", "text", "unversioned"):
            yield node
        case dict():
            for inner, value in node.items():
                yield from spoken(value, inner)
        case list():
            for each in node:
                yield from spoken(each, key)


@pytest.mark.parametrize("name", [*ALIKE, *PLANS])
def test_queries_of_one_text_have_their_own_fingerprints(s: Scenario, name: str) -> None:
    queries = PLANS[name] if name in PLANS else [f"SELECT a.k, {each} AS x {JOINED}" for each in ALIKE[name]]
    one, other, again = (analysed(s, query) for query in (*queries, queries[0]))
    assert one.fingerprint == again.fingerprint
    assert one.fingerprint != other.fingerprint
    assert not re.search(r"@[0-9a-f]{4,}|Lambda", one.plan)  # places in the memory of one process


def test_the_usual_expressions_are_known_by_their_texts(s: Scenario) -> None:
    """Else tables of earlier releases would be computed again."""
    query = f"""SELECT a.k, upper(a.s) AS u, a.s LIKE 'x%' AS p, a.l[0] AS f, CAST(a.v AS STRING) AS t, round(a.v / b.w, 2) AS r,
        transform(a.l, x -> x + 1) AS e, trunc(to_date(a.s, 'yyyy'), 'MM') AS m, coalesce(b.w, 0) + 1 AS c, nullif(a.v, 1) AS i, hash(a.s) AS h,
        sum(b.w) OVER (PARTITION BY a.k ORDER BY a.v) AS q, CASE WHEN b.w IN (1, 2) THEN 'y' END AS o, struct(a.s, a.k).k AS g {JOINED}"""
    assert unshown(analysed(s, query)) == []
    calls = "count(*) AS n, sum(v) AS t, avg(w) AS m, max(v) AS h, count(DISTINCT w) AS d, collect_list(v) AS l, approx_count_distinct(v) AS a"
    assert unshown(analysed(s, f"SELECT k, {calls}, stddev(v) AS s FROM b GROUP BY k")) == []
    hours = "window(timestamp_seconds(v), '1 hour')"
    assert unshown(analysed(s, f"SELECT {hours} AS h, count(*) AS n FROM b GROUP BY {hours}")) == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT url_encode(nullif(s, 'x')) AS x FROM a",
        "SELECT to_json(struct(v BETWEEN 1 AND 20 AS y)) AS x FROM a",
        "SELECT uuid() AS x, shuffle(l) AS y FROM a",
        "SELECT uniform(1, 10) AS x, randstr(3) AS y, rand() AS z, randn() AS u FROM a",
        "SELECT uniform(1, 10, 0) AS x, randstr(3, 0) AS y, rand(0) AS z FROM a",
        "SELECT v FROM a TABLESAMPLE (50 PERCENT)",
        "SELECT upper(s) AS x, count(*) AS n FROM a GROUP BY ROLLUP (upper(s))",
        "SELECT upper(s) AS x, count(*) + (SELECT max(w) FROM b) AS n FROM a GROUP BY upper(s)",
    ],
)
def test_a_query_is_the_same_each_time(s: Scenario, query: str) -> None:
    """Else each refresh computes the table again."""
    assert analysed(s, query).fingerprint == analysed(s, query).fingerprint


@pytest.mark.parametrize(
    "query",
    [
        "SELECT upper(s) AS x, count(*) AS n FROM a GROUP BY upper(s)",
        "SELECT upper(s) AS x, count(*) AS n FROM a GROUP BY ROLLUP (upper(s))",
        "SELECT upper(s) AS x, count(*) + (SELECT max(w) FROM b) AS n FROM a GROUP BY upper(s)",
        "SELECT * FROM (SELECT k, v FROM a) PIVOT (sum(v) AS t, max(v) FOR k IN (1, 2))",
        "SELECT s, v < second(now()) AS x, count(*) AS n FROM a GROUP BY s, v < second(now())",
        "SELECT k, rand() + v AS x FROM a",
    ],
)
def test_no_name_in_a_plan_holds_a_table(s: Scenario, query: str) -> None:
    """A key that was computed had the table in its name: RENAME was refused for the sake of the readers."""
    told = list(spoken(json.loads(analysed(s, query).plan)))
    assert [each for each in told if f"{s.database}." in each or re.search(r"#\d", each)] == []


@pytest.mark.parametrize("query", ["SELECT k, uniform(1, 10) AS x FROM lots", "SELECT k FROM lots TABLESAMPLE (50 PERCENT)"])
def test_a_seed_that_spark_draws_is_no_other_plan(s: Scenario, query: str) -> None:
    """Each refresh took the query for another one, and said that a view, a function or a source was altered."""
    s.spark.sql("CREATE TABLE lots USING delta AS SELECT CAST(id AS INT) AS k FROM range(9)")
    s.spark.sql(f"CREATE STREAM TABLE drawn AS {query}")
    s.spark.sql("INSERT INTO lots VALUES (9)")
    assert s.spark.sql("REFRESH STREAM TABLE drawn").collect()[0]["action"] == "FULL"
    for drop in ("DROP STREAM TABLE drawn", "DROP TABLE lots"):
        s.spark.sql(drop)


def test_times_that_clocks_show_twice_are_apart(s: Scenario) -> None:
    zone = s.spark.conf.get("spark.sql.session.timeZone")
    try:
        s.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        written = [f"SELECT timestamp_seconds(v) < TIMESTAMP '2026-10-25 02:30:00+0{hours}:00' AS x FROM a" for hours in (1, 2)]
        one, other = (analysed(s, query).fingerprint for query in written)
    finally:
        s.spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    assert one != other


def test_values_of_a_cast_array_are_counted_apart(s: Scenario) -> None:
    """Spark shows both by one text, so that one column of distinct values served both."""
    s.source("words", "k INT, l ARRAY<STRING>", "(1, array('1')), (1, array('01')), (2, array('7'))")
    s.stream("counted", "SELECT k, count(DISTINCT l) AS x, count(DISTINCT CAST(l AS ARRAY<INT>)) AS y FROM words GROUP BY k")
    s.step("INSERT INTO words VALUES (1, array('001')), (2, array('8'))", "DELETE FROM words WHERE k = 2")
    del s.queries["counted"]  # the steps of other tests leave its source as it is


def test_a_view_that_is_written_again_in_another_time_zone(s: Scenario) -> None:
    """Its text is the same, and its hours are others: old rows kept the hours of the first zone."""
    zone = s.spark.conf.get("spark.sql.session.timeZone")
    view = "CREATE OR REPLACE VIEW hours AS SELECT k, hour(timestamp_seconds(v)) AS h FROM a"
    try:
        s.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        s.spark.sql(view)
        s.spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
        s.spark.sql("CREATE STREAM TABLE above_hours AS SELECT * FROM hours")
        s.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        s.spark.sql(view)
    finally:
        s.spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    s.spark.sql("REFRESH STREAM TABLE above_hours")
    assert_exact(s.spark, "above_hours", "SELECT * FROM hours")


def test_a_setting_of_the_process_that_refreshes_is_none_of_the_definition(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "spark.sql.legacy.negativeIndexInArrayInsert"
    s.stream("st", "SELECT k, array_insert(array(1, 2, 3), -1, 9) AS l FROM a")
    process: Any = s.spark._jsparkSession.sharedState().conf()
    monkeypatch.setattr(internal, "_idle", [])  # as in a process that has lent none yet
    process.set(key, "true")
    try:
        assert s.spark.newSession().conf.get(key) == "true"
        s.step("INSERT INTO a (k) VALUES (7)")
        with lent(s.spark, ("spark_catalog", "default"), captured_settings(s.spark)) as session:
            assert session.conf.get(key) == "false"
    finally:
        process.remove(key)


def test_columns_that_change_places_are_not_taken_for_each_other(s: Scenario) -> None:
    """A view is written again after the columns of its table have changed places: its sum was taken for that of the query."""
    s.source("places", "k INT, v INT, w INT", "(1, 10, 7), (2, 20, 8)")
    s.spark.sql("CREATE VIEW sums_of_w AS SELECT k, sum(w) AS t FROM places GROUP BY k")
    query = "SELECT x.k, x.t AS v, y.t AS w FROM (SELECT k, sum(v) AS t FROM places GROUP BY k) x JOIN sums_of_w y ON x.k = y.k"
    s.spark.sql(f"CREATE STREAM TABLE placed AS {query}")
    s.spark.sql("ALTER TABLE places ALTER COLUMN w AFTER k")
    s.spark.sql("CREATE OR REPLACE VIEW sums_of_w AS SELECT k, sum(w) AS t  FROM places GROUP BY k")
    s.spark.sql("INSERT INTO places (k, v, w) VALUES (1, 100, 70)")
    s.spark.sql("REFRESH STREAM TABLE placed")
    assert_exact(s.spark, "placed", query)


def test_sums_of_expressions_of_one_text_are_apart(s: Scenario) -> None:
    """Both were the sum of the first one after a refresh."""
    plain = [pair for pair in ALIKE.values() if "OVER" not in pair[0]]
    sums = ", ".join(f"sum({one}) AS x{n}, sum({other}) AS y{n}" for n, (one, other) in enumerate(plain))
    s.stream("sums", f"SELECT a.k, {sums}, count(*) AS n {JOINED} GROUP BY a.k")
    s.step(
        """INSERT INTO a VALUES (1, 14, 'x7', array(9, 1), '{"d": "07/08/2026"}'), (3, 1, 'z', array(), NULL)""",
        "DELETE FROM b WHERE w = 1",
        "UPDATE a SET v = v + 9, l = array(4, 9), s = 'z9' WHERE s = 'x1'",
    )


NOW_THERE = ("current_schema()", "current_database()", *([] if "CURRENT_PATH" in LACKING else ["current_path()"]))


@pytest.mark.parametrize("told", [*NOW_THERE, "current_catalog()", "upper(s)"])
def test_the_current_schema_is_part_of_a_query_that_tells_it_and_of_no_other(s: Scenario, told: str) -> None:
    query = f"SELECT k, {told} AS x FROM {s.database}.a"
    prints = set[str]()
    for schema in (s.database, "default"):
        found = analyse(lend(s.spark, ("spark_catalog", schema), captured_settings(s.spark)), Query(query))
        release(found)
        prints.add(found.fingerprint)
    assert len(prints) == (2 if told in NOW_THERE else 1)


def test_the_same_text_in_another_current_schema_rebuilds_the_table(s: Scenario) -> None:
    """ALTER ... AS left the rows of the schema that was current before."""
    query = f"SELECT k, current_schema() AS x FROM {s.database}.b"
    s.spark.sql(f"CREATE STREAM TABLE there AS {query}")
    try:
        s.spark.sql("USE default")
        s.spark.sql(f"ALTER STREAM TABLE {s.database}.there AS {query}")
        assert {row["x"] for row in s.spark.table(f"{s.database}.there").collect()} == {"default"}
    finally:
        s.spark.sql(f"USE {s.database}")
    s.spark.sql("DROP STREAM TABLE there")


def test_another_query_of_one_text_rebuilds_the_table(s: Scenario) -> None:
    """ALTER ... AS, and a view that was written again, changed the definition and left the rows."""
    for number, (one, other) in enumerate((PLANS["a condition"], PLANS["names like ids of attributes"])):
        s.spark.sql(f"CREATE STREAM TABLE altered_{number} AS {one}")
        s.spark.sql(f"ALTER STREAM TABLE altered_{number} AS {other}")
        assert_exact(s.spark, f"altered_{number}", other)
    for name in ("names like ids of attributes", "what an operator without a rule reads", "patterns of LIKE ANY"):
        one, other = PLANS[name] if name in PLANS else [f"SELECT a.k, {each} AS x {JOINED}" for each in ALIKE[name]]
        s.spark.sql(f"CREATE OR REPLACE VIEW seen AS {one}")
        s.spark.sql("CREATE OR REPLACE STREAM TABLE above AS SELECT * FROM seen")
        s.spark.sql(f"CREATE OR REPLACE VIEW seen AS {other}")
        s.spark.sql("REFRESH STREAM TABLE above")
        assert_exact(s.spark, "above", other)
