"""Expectations: rows are kept, dropped or refused, and how many pass and fail is exact after every refresh."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario, planned_once
from tests.oracle.together import together
from tests.spark.statements import answer, done, shown, version

from streamtable.catalog.entries import load
from streamtable.errors import ExpectationFailed, InvalidQuery, InvalidStatement, RefreshError
from streamtable.language.names import Name
from streamtable.refresh.counts import Counts
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.records import annotate


def counts(spark: SparkSession, name: str) -> dict[str, tuple[int | None, int | None]]:
    """Return how many rows pass and fail each expectation of a table."""
    rows = spark.sql(f"SELECT expectation, passed, failed FROM expectations('{name}')").collect()
    return {row["expectation"]: (row["passed"], row["failed"]) for row in rows}


def counted(spark: SparkSession, query: str, conditions: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Count the same in the rows of the query."""
    passing = ", ".join(f"count_if({condition})" for condition in conditions.values())
    total, *passed = spark.sql(f"SELECT count(*), {passing} FROM ({query})").collect()[0]
    return {name: (number, total - number) for name, number in zip(conditions, passed, strict=True)}


VALID = "CONSTRAINT valid EXPECT (amount > 15) ON VIOLATION DROP ROW, CONSTRAINT known EXPECT (region IS NOT NULL)"


def test_rows_are_kept_dropped_and_counted_at_each_version(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st ({VALID}) AS SELECT * FROM sales")
    shop.sql("CREATE STREAM TABLE reader AS SELECT count(*) AS n FROM st")
    assert answer(shop, "SELECT id FROM st ORDER BY id") == [(2,), (2,), (3,)]
    assert counts(shop, "st") == {"valid": (3, 1), "known": (3, 1)}
    shop.sql("INSERT INTO sales VALUES (4, NULL, NULL), (5, 'east', 16), (6, NULL, 1)")
    shop.sql("DELETE FROM sales WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE reader CASCADE")[0] == "DIFFERENTIAL"
    assert counts(shop, "st") == {"valid": (4, 2), "known": (3, 3)}
    assert answer(shop, "SELECT * FROM reader") == [(4,)]
    told = answer(shop, "SELECT action, expectations FROM refresh_history('st')")
    assert told == [
        ("DIFFERENTIAL", '{"valid": {"passed": 4, "failed": 2}, "known": {"passed": 3, "failed": 3}}'),
        ("REINITIALIZE", '{"valid": {"passed": 3, "failed": 1}, "known": {"passed": 3, "failed": 1}}'),
    ]
    assert answer(shop, "SELECT name, condition, on_violation, version FROM expectations() WHERE expectation = 'valid'") == [
        ("spark_catalog.shop.st", "amount > 15", "DROP ROW", version(shop, "st"))
    ]
    assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", True, 0, 0)]
    assert VALID.replace("valid ", "`valid` ").replace("known ", "`known` ") in shown(shop, "st")
    described = dict(answer(shop, "DESCRIBE STREAM TABLE st"))
    assert described["expectation known"] == "CONSTRAINT `known` EXPECT (region IS NOT NULL): 3 rows passed, 3 failed"
    explained = answer(shop, "EXPLAIN STREAM TABLE st")[-2]
    assert explained[:2] == ("Expectation valid (amount > 15)", True)
    assert "left out of the table; counted from what changed" in explained[2]
    alerts = answer(shop, "SELECT alert, text FROM alerts('st')")
    assert [alert for alert, _ in alerts] == ["EXPECTATION", "EXPECTATION"]
    assert "known (region IS NOT NULL)" in alerts[1][1]


def test_a_condition_may_be_written_as_one_of_a_query(shop: SparkSession) -> None:
    conditions = "CONSTRAINT big EXPECT (amount > ALL (array(5, id))), CONSTRAINT named EXPECT (region SIMILAR TO '(n|s)%')"
    shop.sql(f"CREATE STREAM TABLE st ({conditions} ON VIOLATION DROP ROW) AS SELECT * FROM sales")
    assert counts(shop, "st") == {"big": (4, 0), "named": (3, 1)}
    shop.sql("CREATE STREAM TABLE fixed FROZEN WHERE (region SIMILAR TO 'n%') AS SELECT * FROM sales")
    shop.sql("UPDATE sales SET amount = 1 WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == done(shop, "REFRESH STREAM TABLE fixed")[0] == "DIFFERENTIAL"
    assert counts(shop, "st") == {"big": (3, 1), "named": (3, 1)}
    assert answer(shop, "SELECT amount FROM fixed WHERE region = 'north'") == [(10,)]
    for clause in ("(CONSTRAINT c EXPECT (JSON_ARRAY(id) = '[1]'))", "FROZEN WHERE (JSON_ARRAY(id) = '[1]')"):
        with pytest.raises(InvalidQuery, match=r"(?s)the condition of .* is rejected by Spark.*write to_json\(array_compact"):
            shop.sql(f"CREATE STREAM TABLE other {clause} AS SELECT * FROM sales")


def test_violations_are_rows_of_the_sources_as_they_are_now(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st ({VALID}) AS SELECT * FROM sales")
    shop.sql("INSERT INTO sales VALUES (4, NULL, NULL)")
    violations = "expectation_violations('st', 'VALID')"
    assert answer(shop, f"SELECT id, region, amount FROM {violations} ORDER BY id") == [(1, "north", 10), (4, None, None)]
    assert shop.sql(f"SELECT * FROM {violations}").schema == shop.table("st").schema
    assert answer(shop, "SELECT count(*) FROM expectation_violations('shop.st', 'known', 1)") == [(1,)]
    for arguments, said in {
        "'st'": "call it as expectation_violations",
        "'st', NULL": "call it as expectation_violations",
        "'st', 'known', 'all'": "limit",
        "'st', 'known', 3000000000": "limit",
        "'st', 'knwon'": "Did you mean `known`",
    }.items():
        with pytest.raises(InvalidStatement, match=said):
            shop.sql(f"SELECT * FROM expectation_violations({arguments})")


def test_many_violations_are_not_all_collected(shop: SparkSession) -> None:
    many = "SELECT id + e AS id FROM sales LATERAL VIEW explode(sequence(0, 10001)) x AS e"
    shop.sql(f"CREATE STREAM TABLE st (CONSTRAINT small EXPECT (id < 5)) AS {many}")
    with pytest.raises(InvalidStatement, match=r"more than 10,000 rows .*(?s:.*)give a limit"):
        shop.sql("SELECT count(*) FROM expectation_violations('st', 'small')").collect()
    assert answer(shop, "SELECT count(*) FROM expectation_violations('st', 'small', 10001)") == [(10001,)]


def test_a_refresh_with_rows_that_must_not_fail_changes_nothing(shop: SparkSession) -> None:
    table = "st (i COMMENT 'its id', r, a, CONSTRAINT valid EXPECT (a > 5) ON VIOLATION FAIL UPDATE)"
    shop.sql("INSERT INTO sales VALUES (9, 'bad', NULL)")
    with pytest.raises(
        ExpectationFailed, match=r"(?s)1 row of .*shop\.st would fail the expectation valid \(a > 5\):\n  i: 9, r: bad, a: NULL"
    ):
        shop.sql(f"CREATE STREAM TABLE {table} AS SELECT * FROM sales")
    assert not shop.catalog.tableExists("st")
    shop.sql("DELETE FROM sales WHERE id = 9")
    shop.sql(f"CREATE STREAM TABLE {table} AS SELECT * FROM sales")
    before = answer(shop, "SELECT * FROM st ORDER BY ALL")
    shop.sql("INSERT INTO sales SELECT id + 10, 'bad', -id FROM range(12)")
    shop.sql("DELETE FROM sales WHERE id = 1")
    for full in ("", " FULL"):
        with pytest.raises(ExpectationFailed, match="12 rows .*, 10 of which are") as raised:
            shop.sql(f"REFRESH STREAM TABLE st{full}")
        assert (raised.value.reason.count("r: bad"), raised.value.getSqlState()) == (10, "23514")
        assert answer(shop, "SELECT * FROM st ORDER BY ALL") == before
        assert counts(shop, "st") == {"valid": (4, 0)}
    with pytest.raises(ExpectationFailed):
        shop.sql("CREATE OR REPLACE STREAM TABLE st (CONSTRAINT n EXPECT (id < 3) ON VIOLATION FAIL UPDATE) AS SELECT * FROM sales")
    assert "a > 5" in shown(shop, "st")
    assert answer(shop, "SELECT action FROM refresh_history('st', 1)") == [("FAILED",)]
    shop.sql("DELETE FROM sales WHERE region = 'bad'")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert counts(shop, "st") == {"valid": (3, 0)}
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1]


def test_a_condition_without_an_answer_for_a_row_is_named(shop: SparkSession) -> None:
    shop.sql("INSERT INTO sales VALUES (0, 'x', 1)")
    several = "CONSTRAINT known EXPECT (amount > 0), CONSTRAINT few EXPECT (10 / id > 5)"
    told = r"(?s)the condition of the expectation few, \(10 / id > 5\), has no answer for a row of .*st: .*try_divide"
    with pytest.raises(RefreshError, match=told):
        shop.sql(f"CREATE STREAM TABLE st ({several} ON VIOLATION DROP ROW) AS SELECT * FROM sales")
    assert not shop.catalog.tableExists("st")
    shop.sql("DELETE FROM sales WHERE id = 0")
    shop.sql(f"CREATE STREAM TABLE st ({several}) AS SELECT * FROM sales")
    shop.sql("INSERT INTO sales VALUES (0, 'x', 1)")
    for statement in ("REFRESH STREAM TABLE st", "SELECT * FROM expectation_violations('st', 'few')"):
        with pytest.raises(RefreshError, match=told):
            shop.sql(statement).collect()
    assert counts(shop, "st") == {"known": (4, 0), "few": (1, 3)}


def test_alter_and_replace_make_other_rows_of_the_same_query(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT region, count(*) AS n, sum(amount) AS total FROM sales GROUP BY region")
    shop.sql("CREATE STREAM TABLE reader AS SELECT region FROM st")
    shop.sql("ALTER STREAM TABLE st ADD CONSTRAINT large EXPECT (total > 25) ON VIOLATION DROP ROW")
    assert counts(shop, "st") == {"large": (2, 1)}
    with pytest.raises(InvalidStatement, match="has an expectation LARGE already"):
        shop.sql("ALTER STREAM TABLE st ADD CONSTRAINT LARGE EXPECT (n > 1)")
    with pytest.raises(InvalidStatement, match="Did you mean `large`"):
        shop.sql("ALTER STREAM TABLE st DROP CONSTRAINT lareg")
    with pytest.raises(ExpectationFailed):
        shop.sql("ALTER STREAM TABLE st ADD CONSTRAINT many EXPECT (n > 1) ON VIOLATION FAIL UPDATE")
    shop.sql("ALTER STREAM TABLE st DROP CONSTRAINT IF EXISTS lareg")
    assert done(shop, "REFRESH STREAM TABLE reader")[0] == "DIFFERENTIAL"  # it saw one row go, not all rows come
    assert answer(shop, "SELECT * FROM reader ORDER BY ALL") == [(None,), ("south",)]
    shop.sql("ALTER STREAM TABLE st AS SELECT region, count(*) AS n, max(amount) AS total FROM sales GROUP BY region")
    assert counts(shop, "st") == {"large": (1, 2)}
    shop.sql("ALTER STREAM TABLE st DROP CONSTRAINT large")
    assert (counts(shop, "st"), shop.table("st").count()) == ({}, 3)
    query = "SELECT region, count(*) AS n, max(amount) AS total FROM sales GROUP BY region"
    again = f"CREATE OR REPLACE STREAM TABLE st (region COMMENT 'where', n, total, CONSTRAINT n EXPECT (n = 1)) AS {query}"
    assert answer(shop, f"EXPLAIN {again}")[-1][2].startswith("the table is rebuilt")
    assert done(shop, again)[0] == "REINITIALIZE"
    assert shop.table("st").schema["region"].metadata == {"comment": "where"}
    assert done(shop, again)[0] == "NO_DATA"
    shop.sql("ALTER STREAM TABLE st RENAME TO renamed")
    assert counts(shop, "renamed") == {"n": (2, 1)}
    shop.sql("CREATE STREAM TABLE empty WITH NO DATA AS SELECT id FROM sales")
    shop.sql("ALTER STREAM TABLE empty ADD CONSTRAINT few EXPECT (id < 3) ON VIOLATION DROP ROW")
    assert (counts(shop, "empty"), shop.table("empty").count()) == ({"few": (None, None)}, 0)
    shop.sql("REFRESH STREAM TABLE empty")
    assert counts(shop, "empty") == {"few": (3, 1)}


REFUSED = {
    "amuont > 0": "`amuont` cannot be resolved",
    "sales.amount > 0": "`sales`.`amount` cannot be resolved",
    "hidden > 0": "`hidden` cannot be resolved",
    "amount": "is not a boolean",
    "max(amount) > 0": r"invalid expressions: max\(amount\)",
    "row_number() OVER (ORDER BY id) > 1": "window functions",
    "explode(array(1)) > 0": "generator",
    "rand() > 0.5": r"is not deterministic: \(rand\(\)",
    "current_user() = region": r"is not deterministic: \(current_user\(\)",
    "amount IN (SELECT id FROM sales)": "has a subquery",
    "EXISTS (SELECT 1)": "has a subquery",
    "DATE 'today' > DATE '2020-01-01'": "has DATE 'today'",
    "amount > 0, id > 0": "is not a boolean",
    "amount > 0 AS positive": "Syntax error",
    "amount >": "Syntax error",
}


def test_what_a_condition_cannot_be_is_refused_with_its_place(shop: SparkSession) -> None:
    for condition, said in REFUSED.items():
        with pytest.raises(InvalidQuery, match=rf"(?s)^\[\w+\] line 2, column 23: the condition of the expectation c .*{said}"):
            shop.sql(
                f"CREATE STREAM TABLE st (\n CONSTRAINT c EXPECT ({condition}\n)) AS "
                "SELECT id, region, amount FROM (SELECT *, 1 AS hidden FROM sales)"
            )
    with pytest.raises(InvalidStatement, match="names 1 columns, the query gives 3"):
        shop.sql("CREATE STREAM TABLE st (a, CONSTRAINT c EXPECT (a > 0)) AS SELECT * FROM sales")
    assert not shop.catalog.tableExists("st")


INSIDE = {
    "above(rand())": r"is not deterministic: .*rand\(\)",
    "above(above_one(rand()))": r"is not deterministic: .*rand\(\)",
    "above(id) AND above(length(current_user()))": "is not deterministic: .*current_user",
    "drawn()": r"is not deterministic: .*rand\(\)",
    "known(id)": "has a subquery",
    "above(id) AND NOT known(id)": "has a subquery",
    "id > counted()": "has a subquery",
}


def test_what_a_condition_cannot_be_is_refused_behind_a_function_too(shop: SparkSession) -> None:
    shop.sql("CREATE FUNCTION above(x DOUBLE) RETURNS BOOLEAN RETURN x > 0.5")
    shop.sql("CREATE FUNCTION above_one(x DOUBLE) RETURNS DOUBLE RETURN x + 1")
    shop.sql("CREATE FUNCTION drawn() RETURNS BOOLEAN RETURN rand() > 0.5")
    shop.sql("CREATE FUNCTION known(x INT) RETURNS BOOLEAN RETURN x IN (SELECT id FROM shop.sales)")
    shop.sql("CREATE FUNCTION counted() RETURNS BIGINT RETURN SELECT count(*) FROM shop.sales")
    for condition, said in INSIDE.items():
        with pytest.raises(InvalidQuery, match=f"(?s)the condition of the expectation c {said}"):
            shop.sql(
                f"CREATE STREAM TABLE st (CONSTRAINT b EXPECT (id > 0), CONSTRAINT c EXPECT ({condition})) AS SELECT * FROM sales"
            )
    assert not shop.catalog.tableExists("st")
    volatile = "SELECT *, rand() AS drawn, (SELECT count(*) FROM sales) AS n FROM sales"  # which a query may be
    both = "CONSTRAINT a EXPECT (above(above_one(id))), CONSTRAINT b EXPECT (above(amount - 15) OR above(n))"
    shop.sql(f"CREATE STREAM TABLE st ({both}) AS {volatile}")
    assert counts(shop, "st") == {"a": (4, 0), "b": (4, 0)}


def test_another_query_from_another_schema_leaves_the_conditions_as_they_were(shop: SparkSession) -> None:
    shop.sql("CREATE SCHEMA elsewhere")
    try:
        for schema, least in (("shop", 15), ("elsewhere", 0)):
            shop.sql(f"CREATE FUNCTION {schema}.valid(x INT) RETURNS BOOLEAN RETURN x > {least}")
        shop.sql("CREATE STREAM TABLE bare (CONSTRAINT v EXPECT (valid(amount))) AS SELECT * FROM sales")
        shop.sql("CREATE STREAM TABLE here (CONSTRAINT v EXPECT (current_schema() = 'shop')) AS SELECT * FROM sales")
        shop.sql("CREATE STREAM TABLE named (CONSTRAINT v EXPECT (shop.valid(amount) AND amount < 99)) AS SELECT * FROM sales")
        shop.sql("USE elsewhere")
        query = "AS SELECT id, region, amount + 1 AS amount FROM shop.sales"
        for name, before in (("bare", (3, 1)), ("here", (4, 0))):
            for verb in ("ALTER", "EXPLAIN ALTER"):
                with pytest.raises(
                    InvalidStatement, match=rf"expectation v.* of .*{name}, .* means something else in .*elsewhere.*\n.*USE"
                ):
                    shop.sql(f"{verb} STREAM TABLE shop.{name} {query}")
            assert counts(shop, f"shop.{name}") == {"v": before}
        shop.sql(f"ALTER STREAM TABLE shop.named {query}")
        assert counts(shop, "shop.named") == {"v": (3, 1)}
        shop.sql("USE shop")
        shop.sql(f"ALTER STREAM TABLE bare {query}")
        assert counts(shop, "bare") == {"v": (3, 1)}
    finally:
        shop.sql("USE shop")
        shop.sql("DROP SCHEMA elsewhere CASCADE")


def recorded(spark: SparkSession, name: str, told: Counts | None) -> None:
    """Have the frontier of a table tell other counts."""
    entry = load(spark, Name((name,)))
    frontier = Frontier.of(entry.state.frontier)
    assert frontier
    annotate(spark, entry, frontier=replace(frontier, counts=told))


def test_verify_counts_as_well_and_counts_that_are_not_known_are_made_anew(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st ({VALID}) AS SELECT * FROM sales")
    recorded(shop, "st", Counts(4, {"valid": 2, "known": 1}))
    assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", False, 0, 0)]
    recorded(shop, "st", None)
    shop.sql("INSERT INTO sales VALUES (4, NULL, 40)")
    assert done(shop, "REFRESH STREAM TABLE st") == ("REINITIALIZE", "the counts of the expectations are not known")
    assert counts(shop, "st") == {"valid": (4, 1), "known": (3, 2)}


def test_groups_are_there_once_where_an_expectation_reads_the_clock(shop: SparkSession) -> None:
    recent = "CONSTRAINT recent EXPECT (n > 0 AND now() > TIMESTAMP '2020-01-01')"
    shop.sql(f"CREATE STREAM TABLE st ({recent}) AS SELECT region, count(*) AS n FROM sales GROUP BY region")
    shop.sql("INSERT INTO sales VALUES (4, 'south', 1), (5, 'west', 2)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert answer(shop, "SELECT region, n FROM st ORDER BY ALL") == answer(
        shop, "SELECT region, count(*) FROM sales GROUP BY region ORDER BY ALL"
    )
    assert counts(shop, "st") == {"recent": (4, 0)}


def test_sessions_are_dropped_whole(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE clicks (ts TIMESTAMP, u INT) USING delta")
    shop.sql("INSERT INTO clicks VALUES (TIMESTAMP '2026-01-01 00:00:00', 1), (TIMESTAMP '2026-01-01 00:04:00', 1)")
    late = "CONSTRAINT late EXPECT (session_window.start >= TIMESTAMP '2026-01-01 00:02:00') ON VIOLATION DROP ROW"
    query = "SELECT session_window, u, count(*) AS n FROM clicks GROUP BY session_window(ts, '5 minutes'), u"
    shop.sql(f"CREATE STREAM TABLE st ({late}) AS {query}")
    assert (shop.table("st").count(), counts(shop, "st")) == (0, {"late": (0, 1)})
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1:] == (True, 0, 0)
    shop.sql("INSERT INTO clicks VALUES (TIMESTAMP '2026-01-01 00:08:00', 1), (TIMESTAMP '2026-01-01 00:03:00', 2)")
    shop.sql("DELETE FROM clicks WHERE ts = TIMESTAMP '2026-01-01 00:00:00'")
    assert answer(shop, "REFRESH STREAM TABLE st")[0][1] == "DIFFERENTIAL"
    assert (shop.table("st").count(), counts(shop, "st")) == (2, {"late": (2, 0)})
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1:] == (True, 0, 0)


QUERIES: dict[str, tuple[str, dict[str, str]]] = {
    "rows": ("SELECT k, v FROM l", {"kept": "v > 0", "dropped": "v < 4 OR k = 1"}),
    "join": ("SELECT l.k, v, w FROM l JOIN r USING (k)", {"kept": "100 / (v + 20) > 4", "dropped": "v + w > 1"}),
    "outer": ("SELECT l.k, v, w FROM l LEFT JOIN r USING (k)", {"kept": "w IS NOT NULL", "dropped": "v <= w OR w IS NULL"}),
    "groups": ("SELECT k, count(*) AS n, sum(v) AS t FROM l GROUP BY k", {"kept": "n > 2", "dropped": "t > 0"}),
    "latest": (
        "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM l) WHERE n = 1",
        {"kept": "v > 2", "dropped": "v > 0"},
    ),
    "top": ("SELECT k, v FROM l ORDER BY v DESC, k LIMIT 4", {"kept": "k > 2", "dropped": "v > 0"}),
    "clock": ("SELECT k, v FROM l", {"kept": "v > 0 AND now() > TIMESTAMP '2020-01-01'", "dropped": "k > 1"}),
}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("l", "k INT, v INT", "(0, 1), (1, NULL), (1, 5), (2, -3), (2, -3), (3, 4), (4, 6)")
        scenario.source("r", "k INT, w INT", "(0, 0), (1, 2), (1, NULL), (3, -9), (6, 1)", properties="")
        yield scenario


def changes(draw: random.Random) -> Iterator[str]:
    """Yield DML on either table: rows that come, go and change, some to NULL."""
    for _ in range(3):
        table, column = draw.choice([("l", "v"), ("l", "v"), ("r", "w")])
        key, value = draw.randint(0, 4), draw.choice(["NULL", *map(str, range(-4, 7))])
        yield draw.choice(
            [
                f"INSERT INTO {table} VALUES ({key}, {value}), ({draw.randint(0, 6)}, {value})",
                f"DELETE FROM {table} WHERE k = {key}",
                f"UPDATE {table} SET {column} = {value} WHERE k = {key}",
            ]
        )


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, 1), (2, 1), *(pytest.param(seed, 4, marks=pytest.mark.fuzz) for seed in range(1, 7))]
)
def test_counts_are_those_of_a_query_after_any_change(s: Scenario, seed: int, rounds: int) -> None:
    spark, draw = s.spark, random.Random(seed)
    queries = dict(list(QUERIES.items())[seed % 2 :: 2])

    def create(name: str) -> None:
        query, conditions = queries[name]
        listed = f"CONSTRAINT kept EXPECT ({conditions['kept']}), CONSTRAINT dropped EXPECT ({conditions['dropped']})"
        spark.sql(f"CREATE STREAM TABLE st_{name} ({listed} ON VIOLATION DROP ROW) REFRESH MODE DIFFERENTIAL AS {query}")
        spark.sql(f"CREATE STREAM TABLE above_{name} REFRESH MODE DIFFERENTIAL AS SELECT count(*) AS n FROM st_{name}")

    def refresh(name: str) -> None:
        query, conditions = queries[name]
        action, why = done(spark, f"REFRESH STREAM TABLE above_{name} CASCADE")
        assert action in ("DIFFERENTIAL", "NO_DATA"), (name, why)
        assert answer(spark, f"SELECT DISTINCT action FROM refresh_history('st_{name}') WHERE initiated_by <> 'INITIAL'") in (
            [],
            [("DIFFERENTIAL",)],
        )
        assert counts(spark, f"st_{name}") == counted(spark, query, conditions), name
        stays = answer(spark, f"SELECT count(*) FROM ({query}) WHERE {conditions['dropped']}")
        assert answer(spark, f"SELECT n FROM above_{name}") == answer(spark, f"SELECT count(*) FROM st_{name}") == stays
        verdict: tuple[Any, ...] = answer(spark, f"VERIFY STREAM TABLE st_{name}")[0]
        assert verdict[1:] == (True, 0, 0), name

    together(create, queries)
    for _ in range(rounds):
        with planned_once(spark):
            for statement in changes(draw):
                spark.sql(statement)
        together(refresh, queries)
