"""Statements that parse and are refused all the same: why, and what of them is underlined."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from streamtable.errors import InvalidStatement, StatementSyntaxError, near_names
from streamtable.language.names import Name, Query
from streamtable.language.parse import parse, parse_name, parse_schedule
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.schedule import Every

REFUSED: list[tuple[type[Exception], str, str, str]] = [
    # exception, statement, what is underlined, a part of the message
    (
        InvalidStatement,
        "REFRESH STREAM TABLE a.b.c.d",
        "a.b.c.d",
        "4 parts; it may have 3 at most: catalog.schema.table",
    ),
    (InvalidStatement, "SHOW STREAM TABLES IN a.b.c", "a.b.c", "3 parts; it may have 2 at most: catalog.schema"),
    (InvalidStatement, "REFRESH STREAM TABLE delta.`/p`", "delta.`/p`", "cannot be named by a path"),
    (InvalidStatement, "DROP STREAM TABLE delta.`s3://b/p`", "delta.`s3://b/p`", "cannot be named by a path"),
    (InvalidStatement, "ALTER STREAM TABLE t RENAME TO `/p`", "`/p`", "cannot be named by a path"),
    (InvalidStatement, "REFRESH STREAM TABLE a.``", "``", "a name cannot be empty"),
    (InvalidStatement, "CREATE STREAM TABLE t (a, b, A) AS SELECT 1", "A", "the column 'A' is listed twice"),
    (
        InvalidStatement,
        "CREATE STREAM TABLE t CLUSTER BY (a, `a`) AS SELECT 1",
        "`a`",
        "the column 'a' is listed twice",
    ),
    (
        InvalidStatement,
        "CREATE STREAM TABLE t PARTITIONED BY (a, a) AS SELECT 1",
        "a",
        "the column 'a' is listed twice",
    ),
    (
        InvalidStatement,
        "CREATE STREAM TABLE t TBLPROPERTIES (a.b = 1, 'a.b' = 2) AS SELECT 1",
        "'a.b'",
        "the property 'a.b' is named twice",
    ),
    (InvalidStatement, "SHOW STREAM TABLES LIKE 'by%'", "'by%'", "* for any text"),
    (InvalidStatement, "REFRESH STREAM TABLES IN s LIKE '%' FULL", "'%'", "* for any text"),
    (InvalidStatement, "VERIFY STREAM TABLES LIKE 'a%|b'", "'a%|b'", "* for any text"),
    (InvalidStatement, "CREATE STREAM TABLE t TBLPROPERTIES (Owner = 'me') AS SELECT 1", "Owner", "reserved by Spark"),
    (
        InvalidStatement,
        "CREATE OR REPLACE STREAM TABLE IF NOT EXISTS t AS SELECT 1",
        "IF NOT EXISTS",
        "OR REPLACE and IF NOT EXISTS exclude each other",
    ),
    (
        InvalidStatement,
        "CREATE OR REFRESH MATERIALIZED VIEW IF NOT EXISTS t AS SELECT 1",
        "IF NOT EXISTS",
        "OR REFRESH and IF NOT EXISTS exclude each other",
    ),
    (InvalidStatement, "ALTER STREAM TABLE t UNSET TBLPROPERTIES ('streamtable.x')", "'streamtable.x'", "streamtable keeps"),
    (InvalidStatement, "ALTER STREAM TABLE t ALTER COLUMN a COMMENT 'x', A COMMENT 'y'", "A", "the column 'A' is listed twice"),
    (
        InvalidStatement,
        "CREATE MATERIALIZED VIEW t SCHEDULE CRON '0 0 6 ? * 2 2027' AS SELECT 1",
        "CRON '0 0 6 ? * 2 2027'",
        "names years",
    ),
    (
        InvalidStatement,
        "CREATE STREAM TABLE t CLUSTER BY (a) PARTITIONED BY (b) AS SELECT 1",
        "PARTITIONED BY (b)",
        "PARTITIONED BY and CLUSTER BY exclude each other",
    ),
    (
        InvalidStatement,
        "CREATE STREAM TABLE t BACKFILL FROM s WITH NO DATA AS SELECT 1",
        "WITH NO DATA",
        "WITH NO DATA and BACKFILL FROM exclude each other",
    ),
    (InvalidStatement, "CREATE STREAM TABLE t BACKFILL FROM delta.`/p` AS SELECT 1", "delta.`/p`", "cannot be named by a path"),
    (InvalidStatement, "CREATE STREAM TABLE t LOCATION ' ' AS SELECT 1", "LOCATION ' '", "the location is empty"),
    (InvalidStatement, "SHOW REFRESH HISTORY LIMIT 2147483648", "2147483648", "the limit is too large"),
    (InvalidStatement, f"SHOW REFRESH HISTORY LIMIT {'9' * 50}", "9" * 50, "the limit is too large"),
    (InvalidStatement, "CREATE STREAM TABLE t SCHEDULE 'soon' AS SELECT 1", "'soon'", "'soon' is not a duration"),
    (
        InvalidStatement,
        "ALTER STREAM TABLE t SET SCHEDULE CRON '@daily' AT TIME ZONE 'Mars'",
        "CRON '@daily' AT TIME ZONE 'Mars'",
        "there is no time zone 'Mars'",
    ),
    (
        StatementSyntaxError,
        "CREATE STREAM TABLE t SCHEDULE '1m' COMMENT 'c' SCHEDULE MANUAL AS SELECT 1",
        "SCHEDULE MANUAL",
        "line 1, column 49: SCHEDULE is written twice; the first is on line 1, column 23",
    ),
    (StatementSyntaxError, "CREATE STREAM TABLE t AS -- nothing", "-- nothing", "found nothing but comments"),
    (StatementSyntaxError, "CREATE STREAM TABLE t AS /* a ; */ ;", "/* a ; */ ;", "found nothing but comments"),
    (StatementSyntaxError, "REFRESH /* a /* b */ STREAM TABLE t", "/*", "this comment is never closed"),
]


@pytest.mark.parametrize(("kind", "text", "underlined", "message"), REFUSED, ids=[text for _, text, _, _ in REFUSED])
def test_refused(kind: type[Exception], text: str, underlined: str, message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)) as caught:
        parse(text)
    assert type(caught.value) is kind
    _, line, marks, *_ = str(caught.value).splitlines()
    marks = marks.split("\nSQLSTATE")[0]
    assert line[marks.index("^") : len(marks)] == underlined


@pytest.mark.parametrize(
    ("clause", "again"),
    [
        ("SCHEDULE '1m'", "SCHEDULE"),
        ("TRIGGER ON UPDATE", "SCHEDULE"),
        ("REFRESH MODE FULL", "REFRESH MODE"),
        ("WITH NO DATA", "WITH NO DATA"),
        ("PARTITIONED BY (a)", "PARTITIONED BY"),
        ("CLUSTER BY (a)", "CLUSTER BY"),
        ("COMMENT 'c'", "COMMENT"),
        ("LOCATION 'l'", "LOCATION"),
        ("TBLPROPERTIES (a = 1)", "TBLPROPERTIES"),
    ],
)
def test_each_clause_stands_at_most_once(clause: str, again: str) -> None:
    with pytest.raises(StatementSyntaxError, match=f"^.*line 2, column 1: {again} is written twice"):
        parse(f"CREATE STREAM TABLE t {clause}\n{clause} AS SELECT 1")


def test_the_shortest_duration_can_be_set() -> None:
    text = "CREATE STREAM TABLE t SCHEDULE '30s' AS SELECT 1"
    assert parse(text, minimum_seconds=30) == CreateStreamTable(Name(("t",)), Query("SELECT 1"), schedule=Every(30, "30s"))
    with pytest.raises(InvalidStatement, match="the duration '30s' is shorter than 60s"):
        parse(text, minimum_seconds=60)


COMMITS = ["ON UPDATE", "ON UPDATE AT MOST EVERY '30s'", "ON UPDATE AT MOST EVERY INTERVAL 30 SECONDS", "IMMEDIATE"]


@pytest.mark.parametrize("schedule", COMMITS)
def test_what_follows_commits_refreshes_no_more_often_than_the_shortest_duration(schedule: str) -> None:
    text = f"CREATE STREAM TABLE t SCHEDULE {schedule} AS SELECT 1"
    parse(text)
    with pytest.raises(InvalidStatement, match="write (ON UPDATE AT MOST EVERY|at least) '60s'"):
        parse(text, minimum_seconds=60)


@pytest.mark.parametrize(("read", "text"), [(parse_name, "a b"), (parse_name, ""), (parse_schedule, "SCHEDULE '1m'")])
def test_names_and_schedules_on_their_own_are_refused_like_in_a_statement(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(StatementSyntaxError, match="line 1, column"):
        read(text)


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("c.s.by_regoin", "`c.s.by_region`"),
        ("c.s.sales_by_day", "`c.s.day_sales`"),
        ("c.s.customers_of_large_orders", "`c.s.large_orders`"),
        ("c.s.nothing", None),
    ],
)
def test_near_names_are_alike_by_letters_or_by_whole_words(wanted: str, near: str | None) -> None:
    known = ["c.s.by_region", "c.s.day_sales", "c.s.sales_per_month", "c.s.large_orders", "c.s.nightly"]
    assert near_names(wanted, known) == (f" Did you mean {near}?" if near else "")
