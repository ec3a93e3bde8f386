"""Statements: what each text means, what is refused, and that printing and parsing are each other's inverse."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamtable.errors import StatementSyntaxError
from streamtable.language.names import Name, Query
from streamtable.language.parse import keywords, parse, parse_name, parse_schedule
from streamtable.language.stream_table.ast import (
    AcceptDefinition,
    AlterStreamTable,
    ColumnSpec,
    CommentColumns,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainAlter,
    ExplainCreate,
    ExplainStreamTable,
    RefreshMode,
    RefreshStreamTable,
    RefreshStreamTables,
    Rename,
    Resume,
    SetComment,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Statement,
    Suspend,
    UnsetProperties,
    VerifyStreamTable,
    VerifyStreamTables,
)
from streamtable.language.stream_table.history import Backfill
from streamtable.language.stream_table.schedule import Calculated, Cron, Every, Immediate, Manual, OnUpdate
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.stream_table.state import SetState, StateMode
from streamtable.language.write import to_sql

T, Q = Name(("t",)), Query("SELECT 1")
KEYWORDS = keywords()


def created(**fields: Any) -> CreateStreamTable:
    return CreateStreamTable(T, Q, **fields)


DATABRICKS: list[tuple[str, Statement]] = [
    ("CREATE MATERIALIZED VIEW t AS SELECT 1", created()),
    ("CREATE OR REPLACE MATERIALIZED VIEW t AS SELECT 1", created(or_replace=True)),
    ("CREATE OR REFRESH MATERIALIZED VIEW t AS SELECT 1", created(or_replace=True, or_refresh=True)),
    ("CREATE MATERIALIZED VIEW IF NOT EXISTS t AS SELECT 1", created(if_not_exists=True)),
    ("CREATE MATERIALIZED VIEW t (a COMMENT 'c', b) AS SELECT 1", created(columns=(ColumnSpec("a", "c"), ColumnSpec("b")))),
    (
        "CREATE MATERIALIZED VIEW t PARTITIONED BY (a) COMMENT 'c' TBLPROPERTIES ('k' = 'v') AS SELECT 1",
        created(partitioned_by=("a",), comment="c", properties=(("k", "v"),)),
    ),
    ("CREATE MATERIALIZED VIEW t SCHEDULE REFRESH EVERY 1 HOUR AS SELECT 1", created(schedule=Every(3600, "1h"))),
    ("CREATE MATERIALIZED VIEW t SCHEDULE EVERY 5 MINUTES AS SELECT 1", created(schedule=Every(300, "5m"))),
    ("CREATE MATERIALIZED VIEW t SCHEDULE EVERY 2 WEEKS AS SELECT 1", created(schedule=Every(1_209_600, "2w"))),
    (
        "CREATE MATERIALIZED VIEW t SCHEDULE CRON '0 0 6 ? * 2-6' AT TIME ZONE 'UTC' AS SELECT 1",
        created(schedule=Cron("0 0 6 * * 1-5", "UTC")),
    ),
    ("CREATE MATERIALIZED VIEW t SCHEDULE CRON '0 0 * * * ? *' AS SELECT 1", created(schedule=Cron("0 0 * * * *"))),
    ("CREATE MATERIALIZED VIEW t REFRESH POLICY AUTO AS SELECT 1", created()),
    ("CREATE MATERIALIZED VIEW t REFRESH POLICY INCREMENTAL AS SELECT 1", created(mode=RefreshMode.DIFFERENTIAL)),
    ("CREATE MATERIALIZED VIEW t REFRESH POLICY INCREMENTAL STRICT AS SELECT 1", created(mode=RefreshMode.STRICT)),
    ("CREATE MATERIALIZED VIEW t REFRESH POLICY FULL AS SELECT 1", created(mode=RefreshMode.FULL)),
    ("REFRESH MATERIALIZED VIEW t", RefreshStreamTable((T,))),
    ("REFRESH MATERIALIZED VIEW t FULL SYNC", RefreshStreamTable((T,), full=True)),
    ("REFRESH MATERIALIZED VIEW t FULL ASYNC", RefreshStreamTable((T,), full=True, asynchronous=True)),
    ("ALTER MATERIALIZED VIEW t ADD SCHEDULE EVERY 1 DAY", AlterStreamTable(T, SetSchedule(Every(86_400, "1d")))),
    ("ALTER MATERIALIZED VIEW t ALTER SCHEDULE REFRESH CRON '@daily'", AlterStreamTable(T, SetSchedule(Cron("@daily")))),
    ("ALTER MATERIALIZED VIEW t DROP SCHEDULE", AlterStreamTable(T, SetSchedule(Manual()))),
    ("CREATE MATERIALIZED VIEW t TRIGGER ON UPDATE AS SELECT 1", created(schedule=OnUpdate())),
    (
        "CREATE MATERIALIZED VIEW t TRIGGER ON UPDATE AT MOST EVERY INTERVAL 5 MINUTES AS SELECT 1",
        created(schedule=OnUpdate(Every(300, "5m"))),
    ),
    (
        "ALTER MATERIALIZED VIEW t ADD TRIGGER ON UPDATE AT MOST EVERY INTERVAL '2' HOUR",
        AlterStreamTable(T, SetSchedule(OnUpdate(Every(7200, "2h")))),
    ),
    (
        "ALTER MATERIALIZED VIEW t ALTER TRIGGER ON UPDATE AT MOST EVERY INTERVAL '1 hour 30 minutes'",
        AlterStreamTable(T, SetSchedule(OnUpdate(Every(5400, "1h30m")))),
    ),
    ("ALTER MATERIALIZED VIEW t DROP TRIGGER", AlterStreamTable(T, SetSchedule(Manual()))),
    ("ALTER MATERIALIZED VIEW t ALTER COLUMN a COMMENT 'c'", AlterStreamTable(T, CommentColumns((("a", "c"),)))),
    ("DROP MATERIALIZED VIEW IF EXISTS t", DropStreamTable(T, if_exists=True)),
    ("DESCRIBE MATERIALIZED VIEW EXTENDED t", DescribeStreamTable(T, extended=True)),
    ("SHOW CREATE MATERIALIZED VIEW t", ShowCreateStreamTable(T)),
    ("SHOW MATERIALIZED VIEWS IN s LIKE 'x*'", ShowStreamTables(Name(("s",)), "x*")),
    ("EXPLAIN CREATE OR REFRESH MATERIALIZED VIEW t AS SELECT 1", ExplainCreate(created(or_replace=True, or_refresh=True))),
    ("EXPLAIN MATERIALIZED VIEW t", ExplainStreamTable(T)),
    ("VERIFY MATERIALIZED VIEW t", VerifyStreamTable(T)),
]

STATEMENTS: list[tuple[str, Statement]] = [
    *DATABRICKS,
    ("REFRESH STREAM TABLE t, t FULL", RefreshStreamTable((T, T), full=True)),
    ("REFRESH STREAM TABLES", RefreshStreamTables()),
    ("REFRESH STREAM TABLES LIKE 'x*' ASYNC", RefreshStreamTables(None, "x*", asynchronous=True)),
    ("REFRESH STREAM TABLES IN s LIKE 'x*' FULL", RefreshStreamTables(Name(("s",)), "x*", full=True)),
    ("VERIFY STREAM TABLES IN s LIKE 'x*'", VerifyStreamTables(Name(("s",)), "x*")),
    ("ALTER STREAM TABLE t SET COMMENT 'c'", AlterStreamTable(T, SetComment("c"))),
    ("ALTER STREAM TABLE t UNSET TBLPROPERTIES ('k', a.b)", AlterStreamTable(T, UnsetProperties(("k", "a.b")))),
    ("ALTER STREAM TABLE t UNSET TBLPROPERTIES IF EXISTS (k)", AlterStreamTable(T, UnsetProperties(("k",), if_exists=True))),
    (
        "ALTER STREAM TABLE t ALTER COLUMN a COMMENT 'c', column COMMENT ''",
        AlterStreamTable(T, CommentColumns((("a", "c"), ("column", "")))),
    ),
    ("ALTER STREAM TABLE t SET REFRESH MODE DIFFERENTIAL STRICT", AlterStreamTable(T, SetMode(RefreshMode.STRICT))),
    ("CREATE STREAM TABLE t AS SELECT 1", created()),
    ("CREATE OR REPLACE STREAM TABLE t AS SELECT 1", created(or_replace=True)),
    ("CREATE STREAM TABLE IF NOT EXISTS t AS SELECT 1", created(if_not_exists=True)),
    ("CREATE STREAM TABLE t (a, b) AS SELECT 1", created(columns=(ColumnSpec("a"), ColumnSpec("b")))),
    ("CREATE STREAM TABLE t (a COMMENT 'c') AS SELECT 1", created(columns=(ColumnSpec("a", "c"),))),
    ("CREATE STREAM TABLE t (comment COMMENT '') AS SELECT 1", created(columns=(ColumnSpec("comment", ""),))),
    (
        "CREATE STREAM TABLE t TBLPROPERTIES ('team' = 'a', 'comment' = 'c') AS SELECT 1",
        created(comment="c", properties=(("team", "a"),)),
    ),
    ("CREATE STREAM TABLE t TBLPROPERTIES ('comment' = 'c') COMMENT 'd' AS SELECT 1", created(comment="d")),
    ("CREATE STREAM TABLE t SCHEDULE '1h30m' AS SELECT 1", created(schedule=Every(5400, "1h30m"))),
    ("CREATE STREAM TABLE t SCHEDULE CRON '@daily' AS SELECT 1", created(schedule=Cron("@daily"))),
    (
        "CREATE STREAM TABLE t SCHEDULE CRON '*/5 * * * *' AT TIME ZONE 'Europe/Paris' AS SELECT 1",
        created(schedule=Cron("*/5 * * * *", "Europe/Paris")),
    ),
    ("CREATE STREAM TABLE t SCHEDULE CALCULATED AS SELECT 1", created(schedule=Calculated())),
    ("CREATE STREAM TABLE t SCHEDULE ON UPDATE AS SELECT 1", created(schedule=OnUpdate())),
    ("CREATE STREAM TABLE t SCHEDULE IMMEDIATE AS SELECT 1", created(schedule=Immediate())),
    ("ALTER MATERIALIZED VIEW t ADD SCHEDULE IMMEDIATE", AlterStreamTable(T, SetSchedule(Immediate()))),
    ("CREATE STREAM TABLE immediate AS SELECT 1", CreateStreamTable(Name(("immediate",)), Q)),
    ("CREATE STREAM TABLE t SCHEDULE ON UPDATE AT MOST EVERY '10s' AS SELECT 1", created(schedule=OnUpdate(Every(10, "10s")))),
    ("CREATE STREAM TABLE t SCHEDULE MANUAL AS SELECT 1", created(schedule=Manual())),
    ("CREATE STREAM TABLE t REFRESH MODE AUTO AS SELECT 1", created(mode=RefreshMode.AUTO)),
    ("CREATE STREAM TABLE t REFRESH MODE DIFFERENTIAL AS SELECT 1", created(mode=RefreshMode.DIFFERENTIAL)),
    ("CREATE STREAM TABLE t REFRESH MODE FULL AS SELECT 1", created(mode=RefreshMode.FULL)),
    ("CREATE STREAM TABLE t STATE NONE AS SELECT 1", created(state=StateMode.NONE)),
    ("CREATE STREAM TABLE t STATE = all REFRESH MODE AUTO AS SELECT 1", created(state=StateMode.ALL)),
    ("CREATE STREAM TABLE state STATE AUTO AS SELECT 1", CreateStreamTable(Name(("state",)), Q)),
    ("ALTER STREAM TABLE t SET STATE = NONE", AlterStreamTable(T, SetState(StateMode.NONE))),
    ("ALTER STREAM TABLE t SET STATE AUTO", AlterStreamTable(T, SetState(StateMode.AUTO))),
    ("CREATE STREAM TABLE t WITH NO DATA AS SELECT 1", created(with_data=False)),
    ("CREATE STREAM TABLE t BACKFILL FROM s.t AS SELECT 1", created(backfill=Backfill(Name(("s", "t"))))),
    ("CREATE STREAM TABLE t BACKFILL FROM backfill VERIFIED AS SELECT 1", created(backfill=Backfill(Name(("backfill",))))),
    (
        "CREATE STREAM TABLE t BACKFILL FROM a.trusted TRUSTED SCHEDULE MANUAL AS SELECT 1",
        created(backfill=Backfill(Name(("a", "trusted")), trusted=True), schedule=Manual()),
    ),
    ("CREATE STREAM TABLE t PARTITIONED BY (a, `b,c`) AS SELECT 1", created(partitioned_by=("a", "b,c"))),
    ("CREATE STREAM TABLE t CLUSTER BY (a, b) AS SELECT 1", created(clustered_by=("a", "b"))),
    ('CREATE STREAM TABLE t COMMENT "it\'s" AS SELECT 1', created(comment="it's")),
    ("CREATE STREAM TABLE t LOCATION 's3://b/p' AS SELECT 1", created(location="s3://b/p")),
    (
        "CREATE STREAM TABLE t TBLPROPERTIES ('a.b' = 'x', c.d = 1, d = -0.5, e = TRUE, f 'y', g FALSE) AS SELECT 1",
        created(properties=(("a.b", "x"), ("c.d", "1"), ("d", "-0.5"), ("e", "true"), ("f", "y"), ("g", "false"))),
    ),
    ("EXPLAIN CREATE OR REPLACE STREAM TABLE t AS SELECT 1", ExplainCreate(created(or_replace=True))),
    ("EXPLAIN ALTER STREAM TABLE t AS SELECT 1", ExplainAlter(T, SetQuery(Q))),
    (
        "ALTER STREAM TABLE t SET SCHEDULE ON UPDATE AT MOST EVERY 10 SECONDS",
        AlterStreamTable(T, SetSchedule(OnUpdate(Every(10, "10s")))),
    ),
    ("ALTER STREAM TABLE t SET SCHEDULE '30s'", AlterStreamTable(T, SetSchedule(Every(30, "30s")))),
    ("ALTER STREAM TABLE t SET REFRESH MODE FULL", AlterStreamTable(T, SetMode(RefreshMode.FULL))),
    ("ALTER STREAM TABLE t SET TBLPROPERTIES (a = 'b')", AlterStreamTable(T, SetProperties((("a", "b"),)))),
    ("ALTER STREAM TABLE t SUSPEND", AlterStreamTable(T, Suspend())),
    ("ALTER STREAM TABLE t RESUME", AlterStreamTable(T, Resume())),
    ("ALTER STREAM TABLE t ACCEPT DEFINITION", AlterStreamTable(T, AcceptDefinition())),
    ("ALTER STREAM TABLE t RENAME TO a.b", AlterStreamTable(T, Rename(Name(("a", "b"))))),
    ("ALTER STREAM TABLE t AS SELECT 1", AlterStreamTable(T, SetQuery(Q))),
    ("DROP STREAM TABLE t", DropStreamTable(T)),
    ("DROP STREAM TABLE IF EXISTS t CASCADE", DropStreamTable(T, if_exists=True, cascade=True)),
    ("REFRESH STREAM TABLE t", RefreshStreamTable((T,))),
    ("ALTER SCHEDULER SUSPEND", AlterScheduler(suspend=True)),
    ("alter scheduler resume;", AlterScheduler(suspend=False)),
    ("REFRESH STREAM TABLE t FULL", RefreshStreamTable((T,), full=True)),
    ("REFRESH STREAM TABLE t CASCADE", RefreshStreamTable((T,), cascade=True)),
    ("REFRESH STREAM TABLE t FULL CASCADE", RefreshStreamTable((T,), full=True, cascade=True)),
    ("SHOW STREAM TABLES", ShowStreamTables()),
    ("SHOW STREAM TABLES IN c.s LIKE 'x*'", ShowStreamTables(Name(("c", "s")), "x*")),
    ("SHOW STREAM TABLES FROM s", ShowStreamTables(Name(("s",)))),
    ("SHOW STREAM TABLES LIKE ''", ShowStreamTables(None, "")),
    ("DESCRIBE STREAM TABLE t", DescribeStreamTable(T)),
    ("DESC STREAM TABLE EXTENDED t", DescribeStreamTable(T, extended=True)),
    ("DESC STREAM TABLE extended", DescribeStreamTable(Name(("extended",)))),
    ("SHOW CREATE STREAM TABLE t", ShowCreateStreamTable(T)),
    ("SHOW REFRESH HISTORY", ShowRefreshHistory()),
    ("SHOW REFRESH HISTORY FOR t LIMIT 20", ShowRefreshHistory(T, 20)),
    ("SHOW REFRESH HISTORY LIMIT 0", ShowRefreshHistory(None, 0)),
    ("SHOW STREAM TABLE DEPENDENCIES", ShowDependencies()),
    ("SHOW STREAM TABLE DEPENDENCIES FOR t", ShowDependencies(T)),
    ("SHOW MATERIALIZED VIEW DEPENDENCIES FOR t", ShowDependencies(T)),
    ("EXPLAIN STREAM TABLE t", ExplainStreamTable(T)),
    ("EXPLAIN DELTA STREAM TABLE t", ExplainStreamTable(T, delta=True)),
    ("VERIFY STREAM TABLE t", VerifyStreamTable(T)),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
class TestEveryStatement:
    def test_reads(self, text: str, statement: Statement) -> None:
        assert parse(text) == statement

    def test_reads_in_lower_case_with_comments_and_semicolons(self, text: str, statement: Statement) -> None:
        ours, as_, query = text.partition(" AS ")
        words = re.split(r" (?=[^']*(?:'[^']*'[^']*)*$)", ours.replace('"it\'s"', "'it''s'"))
        spaced = "/* AS /* ; */ ' */\n\t-- it's `\n".join(word if "'" in word else word.lower() for word in words)
        # What was lowered is a keyword or a name of lower case already.
        assert parse(f"-- first\n{spaced}{as_.lower()}{query} ; ;\n-- last ;\n/* ; */") == statement

    def test_is_printed_so_that_it_reads_the_same(self, text: str, statement: Statement) -> None:
        assert parse(to_sql(statement)) == statement


def test_clauses_come_in_any_order() -> None:
    clauses = ["SCHEDULE '1m'", "REFRESH MODE FULL", "WITH NO DATA", "COMMENT 'c'", "LOCATION 'l'", "CLUSTER BY (a)"]
    orders = [clauses[n:] + clauses[:n] for n in range(len(clauses))] + [clauses[::-1]]
    read = {parse(f"CREATE STREAM TABLE t {' '.join(order)} AS SELECT 1") for order in orders}
    assert read == {
        created(
            schedule=Every(60, "1m"),
            mode=RefreshMode.FULL,
            with_data=False,
            comment="c",
            location="l",
            clustered_by=("a",),
        )
    }


def test_a_full_statement_is_printed_readably() -> None:
    statement = parse(
        "create stream table if not exists s.t (a comment 'it''s', b) tblproperties (x = 1) location 'p' comment 'c' "
        "partitioned by (a) with no data refresh mode full schedule cron '@hourly' at time zone 'UTC' as select 1, 2;"
    )
    assert to_sql(statement) == (
        "CREATE STREAM TABLE IF NOT EXISTS `s`.`t` (`a` COMMENT 'it\\'s', `b`)\n"
        "SCHEDULE CRON '@hourly' AT TIME ZONE 'UTC'\n"
        "REFRESH MODE FULL\n"
        "WITH NO DATA\n"
        "PARTITIONED BY (`a`)\n"
        "COMMENT 'c'\n"
        "LOCATION 'p'\n"
        "TBLPROPERTIES ('x' = '1')\n"
        "AS\n"
        "select 1, 2"
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("t",)),
        ("c.s.t", ("c", "s", "t")),
        ("c . s /* . */ . t", ("c", "s", "t")),
        ("`a b`.`c``d`.`e.f`", ("a b", "c`d", "e.f")),
        ("`as`", ("as",)),
        ("AsOf", ("AsOf",)),
        ("2024_sales", ("2024_sales",)),
        ("_", ("_",)),
        ("`größe`", ("größe",)),
        ("delta.t", ("delta", "t")),
    ],
)
def test_names(text: str, parts: tuple[str, ...]) -> None:
    assert parse(f"REFRESH STREAM TABLE {text}") == RefreshStreamTable((Name(parts),))
    assert parse_name(text) == Name(parts)
    assert parse_name(str(Name(parts))) == Name(parts)


@pytest.mark.parametrize(
    "form",
    [
        "CREATE STREAM TABLE {} AS SELECT 1",
        "CREATE STREAM TABLE IF NOT EXISTS {} SCHEDULE MANUAL AS SELECT 1",
        "CREATE STREAM TABLE s.{} ({} COMMENT 'c', x) PARTITIONED BY ({}) AS SELECT 1",
        "CREATE STREAM TABLE t TBLPROPERTIES ({}.{} = 1, x.{} 2) AS SELECT 1",
        "ALTER STREAM TABLE {} RENAME TO {}",
        "DROP STREAM TABLE {}",
        "DROP STREAM TABLE IF EXISTS {} CASCADE",
        "REFRESH STREAM TABLE {} FULL CASCADE",
        "SHOW STREAM TABLES IN {} LIKE 'x'",
        "DESCRIBE STREAM TABLE {}",
        "DESCRIBE STREAM TABLE EXTENDED {}",
        "SHOW REFRESH HISTORY FOR {} LIMIT 1",
        "SHOW STREAM TABLE DEPENDENCIES FOR {}",
        "EXPLAIN STREAM TABLE {}",
    ],
)
def test_keywords_are_names_too(form: str) -> None:
    """All keywords in one test: a test of its own for each of two thousand would cost more than what it does."""
    for keyword in KEYWORDS:
        if keyword != "AS":
            assert parse(form.replace("{}", keyword)) == parse(form.replace("{}", f"`{keyword}`")), keyword


def test_as_alone_is_reserved() -> None:
    assert "AS" in KEYWORDS
    with pytest.raises(StatementSyntaxError, match="put it in backquotes"):
        parse("CREATE STREAM TABLE as AS SELECT 1")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it\\'s'", "it's"),
        ("'it''s'", "it's"),
        ('"a""b\'c"', "a\"b'c"),
        ("'a\"\"b'", 'a""b'),
        ("\"a''b\"", "a''b"),
        (r"'\n\t\\\%\_\x\0'", "\n\t\\\\%\\_x\0"),
        (r"'\101\377'", "A377"),
        (r"'\u00e9\U0001F600\uD83D\uDE00'", "é😀😀"),
        (r"'\uD83D|\U00110000'", "\ufffd|\ufffd"),
        ("'-- /* AS ; \n'", "-- /* AS ; \n"),
        ("''", ""),
    ],
)
def test_strings(literal: str, value: str) -> None:
    assert parse(f"CREATE STREAM TABLE t COMMENT {literal} /**/ AS SELECT 1") == created(comment=value)


@pytest.mark.parametrize("schedule", [Manual(), Calculated(), Every(5400, "1h 30m"), Cron("@daily"), Cron("* * * * *", "UTC")])
def test_schedules_are_read_on_their_own(schedule: Any) -> None:
    assert parse_schedule(schedule.sql()) == schedule
