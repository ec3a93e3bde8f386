"""Syntax errors: where they are, what is underlined, what was expected and found, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamtable.errors import InvalidStatement, StatementSyntaxError
from streamtable.language.advice_times import NO_SCHEDULE
from streamtable.language.parse import parse
from streamtable.language.syntax_errors import excerpt, place

OPENINGS = (
    "ALTER, APPLY SUBSCRIPTION, CLOSE, COPY, CREATE, DECLARE, DESC STREAM TABLE, DESCRIBE STREAM TABLE, DROP, EXPLAIN, FETCH, "
    "FINISH BATCH, GIVE UP EVENTS FROM, NEXT BATCH FROM, PURGE QUEUE, REFRESH STREAM TABLE, REGISTER CONSUMER, "
    "REPLAY DEAD LETTERS FROM, RETRY EVENTS FROM, SHOW, SUBSCRIBE, UNREGISTER CONSUMER or VERIFY STREAM TABLE"
)
CLAUSES = "AS, BACKFILL FROM, CLUSTER BY, COMMENT, FROZEN WHERE, LOCATION, PARTITIONED BY, REFRESH MODE, SCHEDULE, STATE, TBLPROPERTIES, TRIGGER ON UPDATE"
END = "the end of the statement"
AS_STRING = "write the time between two refreshes as a string: SCHEDULE"
PLURAL = "STREAM TABLE takes a name; STREAM TABLES takes IN and a schema, or LIKE and a pattern"
SINGULAR = "SHOW STREAM TABLES lists all of them, DESCRIBE STREAM TABLE name tells of one"
BACKQUOTES = "put a name with other characters than ASCII letters, digits and _ in backquotes: `like this`"


def refusal(text: str) -> StatementSyntaxError:
    with pytest.raises(StatementSyntaxError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "column", "expected", "found"),
    [
        ("SELECT 1", 1, OPENINGS, "'SELECT'"),
        ("REFRESH", 8, "STREAM TABLE", END),
        ("REFRESH STREAM t", 16, "TABLE or TABLES", "'t'"),
        ("REFRESH STREAM TABLE", 21, "a name", END),
        ("REFRESH STREAM TABLE ;", 22, "a name", "';'"),
        ("REFRESH STREAM TABLE a.", 24, "a name", END),
        ("REFRESH STREAM TABLE a b", 24, f"ASYNC, CASCADE, FULL, SYNC, ',' or {END}", "'b'"),
        ("REFRESH STREAM TABLE a FULL FULL", 29, f"ASYNC, CASCADE, SYNC or {END}", "'FULL'"),
        ("REFRESH STREAM TABLE a; b", 25, END, "'b'"),
        ("DROP STREAM TABLE", 18, "IF EXISTS or a name", END),
        ("DROP STREAM TABLE IF EXISTS", 28, "a name", END),
        (
            "CREATE TABLE",
            8,
            "OR, PUBLICATION, QUEUE, REPLICATION SLOT, STREAM TABLE or SUBSCRIPTION",
            "'TABLE'",
        ),
        ("CREATE STREAM TABLE", 20, "IF NOT EXISTS or a name", END),
        ("CREATE STREAM TABLE t", 22, f"{CLAUSES}, WITH NO DATA or '('", END),
        ("CREATE STREAM TABLE t (a) x", 27, f"{CLAUSES} or WITH NO DATA", "'x'"),
        ("CREATE STREAM TABLE t ()", 24, "CONSTRAINT or a name", "')'"),
        ("CREATE STREAM TABLE t (a", 25, "COMMENT, ')' or ','", END),
        (
            "CREATE STREAM TABLE t SCHEDULE AS",
            32,
            "CALCULATED, CRON, EVERY, IMMEDIATE, MANUAL, ON UPDATE, REFRESH or a string",
            "'AS'",
        ),
        ("CREATE STREAM TABLE t REFRESH MODE AS", 36, "AUTO, DIFFERENTIAL or FULL", "'AS'"),
        ("CREATE STREAM TABLE t STATE = AS", 31, "ALL, AUTO or NONE", "'AS'"),
        ("CREATE STREAM TABLE t PARTITIONED BY a", 38, "'('", "'a'"),
        ("CREATE STREAM TABLE t TBLPROPERTIES (a =)", 41, "FALSE, TRUE, a string or a number", "')'"),
        ("CREATE STREAM TABLE t TBLPROPERTIES (a.1 = 2)", 40, "a name", "'1'"),
        ("CREATE STREAM TABLE t AS", 25, "a query", END),
        ("CREATE STREAM TABLE t AS ;", 26, "a query", "';'"),
        (
            "ALTER STREAM TABLE t",
            21,
            "ACCEPT DEFINITION, ADD, ALTER, AS, DROP, RENAME TO, RESUME, SET, SUSPEND or UNSET TBLPROPERTIES",
            END,
        ),
        (
            "ALTER STREAM TABLE t SET",
            25,
            "COMMENT, FROZEN WHERE, REFRESH MODE, SCHEDULE, STATE, TBLPROPERTIES or TRIGGER ON UPDATE",
            END,
        ),
        ("SHOW", 5, "CONSUMERS ON, CREATE STREAM TABLE, DEAD LETTERS FROM, QUEUES, REFRESH HISTORY or STREAM", END),
        ("SHOW STREAM TABLES IN", 22, "a name", END),
        ("SHOW STREAM TABLES x", 20, f"FROM, IN, LIKE or {END}", "'x'"),
        ("SHOW STREAM TABLES LIKE", 24, "a string", END),
        ("SHOW REFRESH HISTORY LIMIT '3'", 28, "a whole number", "'3'"),
        ("SHOW REFRESH HISTORY LIMIT 3x", 28, "a whole number", "'3x'"),
        ("DESCRIBE STREAM TABLE", 22, "EXTENDED or a name", END),
        ("EXPLAIN", 8, "ALTER STREAM TABLE, CREATE, DELTA STREAM TABLE or STREAM TABLE", END),
    ],
)
def test_where_and_what_was_expected_and_found(text: str, column: int, expected: str, found: str) -> None:
    first_line = refusal(text).reason.splitlines()[0]
    assert first_line == f"line 1, column {column}: expected {expected}, found {found}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("REFERSH STREAM TABLE t", "did you mean REFRESH STREAM TABLE?"),
        ("refresh strem table t", "did you mean STREAM TABLE?"),
        ("CREATE STREAM TABEL t AS SELECT 1", "did you mean TABLE?"),
        ("CREATE STREAM TABLE t REFESH MODE FULL AS SELECT 1", "did you mean REFRESH MODE?"),
        ("CREATE STREAM TABLE t SCHEDUL '1m' AS SELECT 1", "did you mean SCHEDULE?"),
        ("CREATE STREAM TABLE t PARTITION BY (a) AS SELECT 1", "did you mean PARTITIONED BY?"),
        ("CREATE STREAM TABLE t CLUSTERED BY (a) AS SELECT 1", "did you mean CLUSTER BY?"),
        ("CREATE STREAM TABLE t REFRESH MODE DIFERENTIAL AS SELECT 1", "did you mean DIFFERENTIAL?"),
        ("REFRESH STREAM TABLES t", PLURAL),
        ("SHOW STREAM TABLES t", PLURAL),
        ("VERIFY STREAM TABLES t", PLURAL),
        ("SHOW STREAM TABLE", SINGULAR),
        ("SHOW STREAM TABLE t", SINGULAR),
        ("CREATE STRAEM TABLE t AS SELECT 1", "did you mean STREAM TABLE?"),
        ("CREATE STREAMTABLE t AS SELECT 1", "did you mean STREAM TABLE?"),
        ("CREATE MATERIALISED VIEW t AS SELECT 1", "did you mean MATERIALIZED VIEW?"),
        ("ALTER STREAM TABLE t SET SCHEDULE NONE", "write SCHEDULE MANUAL"),
        ("ALTER STREAM TABLE t UNSET SCHEDULE", "write DROP SCHEDULE"),
        ("CREATE STREAM TABLE t ON UPDATE AS SELECT 1", "write SCHEDULE ON UPDATE"),
        ("CREATE STREAM TABLE t SCHEDULE TRIGGER ON UPDATE AS SELECT 1", "write SCHEDULE ON UPDATE"),
        ("CREATE STREAM TABLE t SCHEDULE ON COMMIT AS SELECT 1", "write SCHEDULE ON UPDATE"),
        ("ALTER STREAM TABLE t TRIGGER ON UPDATE", "write SET SCHEDULE ON UPDATE"),
        ("CREATE STREAM TABLE t SCHEDULE ON UPDATE EVERY 5 MINUTES AS SELECT 1", "write ON UPDATE AT MOST EVERY '5m'"),
        ("CREATE STREAM TABLE t SCHEDULE ON UPDATE AT MOST '5 min' AS SELECT 1", "write ON UPDATE AT MOST EVERY '5m'"),
        ("CREATE STREAM TABLE t SCHEDULE EVERY 5m AS SELECT 1", f"{AS_STRING} '5m'"),
        ("CREATE STREAM TABLE t SCHEDULE EVERY '5 minutes' AS SELECT 1", f"{AS_STRING} '5m'"),
        ("CREATE STREAM TABLE t SCHEDULE EVERY INTERVAL 2 HOURS AS SELECT 1", f"{AS_STRING} '2h'"),
        ("CREATE STREAM TABLE t SCHEDULE EVERY 1 MONTH AS SELECT 1", "write SCHEDULE CRON '@monthly'"),
        ("CREATE STREAM TABLE t TARGET_LAG = '5 minutes' AS SELECT 1", f"{AS_STRING} '5m'"),
        ("CREATE MATERIALIZED VIEW t WITH (REFRESH EVERY '1 day') AS SELECT 1", f"{AS_STRING} '1d'"),
        (
            "CREATE MATERIALIZED VIEW t CLUSTER BY AUTO AS SELECT 1",
            "name the columns, as in CLUSTER BY (a), or leave CLUSTER BY out",
        ),
        ("REFRESH MATERIALIZED VIEW CONCURRENTLY t", "leave CONCURRENTLY out: a refresh never blocks readers"),
        ("CREATE STREAM TABLE t SELECT 1", "write AS in front of the query"),
        ("CREATE STREAM TABLE t (SELECT a FROM b)", "write AS in front of the query"),
        ("CREATE STREAM TABLE t WITH a AS (SELECT 1) SELECT * FROM a", "write AS in front of the query"),
        ("CREATE STREAM TABLE t WITH a(x) AS (SELECT 1) SELECT * FROM a", "write AS in front of the query"),
        ("ALTER STREAM TABLE t SELECT 1", "write AS in front of the query"),
        ("CREATE STREAM TABLE t USING delta AS SELECT 1", "leave USING out: a stream table is always a Delta table"),
        (
            "CREATE STREAM TABLE t WITH DATA AS SELECT 1",
            "leave WITH DATA out: a stream table is filled unless WITH NO DATA is written",
        ),
        ("CREATE STREAM TABLE t REFRESH FULL AS SELECT 1", "write REFRESH MODE and then the mode"),
        (
            "CREATE STREAM TABLE t REFRESH EVERY '1m' AS SELECT 1",
            "write the time between two refreshes as a string: SCHEDULE '1m'",
        ),
        (
            "CREATE STREAM TABLE t REFRESH MODE INCREMENTAL AS SELECT 1",
            "the mode that computes what changed is called DIFFERENTIAL",
        ),
        (
            "CREATE STREAM TABLE t SCHEDULE 1m AS SELECT 1",
            "write the time between two refreshes as a string: SCHEDULE '1m'",
        ),
        ("CREATE STREAM TABLE t SCHEDULE EVERY '1m' AS SELECT 1", "write SCHEDULE '1m', without EVERY"),
        (
            "CREATE STREAM TABLE t SCHEDULE EVERY 90 MINS AS SELECT 1",
            "write MINUTES",
        ),
        (
            "CREATE STREAM TABLE t TARGET_LAG = '5 minutes' AS SELECT 1",
            "write the time between two refreshes as a string: SCHEDULE '5m'",
        ),
        ("CREATE STREAM TABLE t EVERY 5 MINUTES AS SELECT 1", "write the time between two refreshes as a string: SCHEDULE '5m'"),
        ("CREATE STREAM TABLE t SCHEDULE = '2h' AS SELECT 1", "write the time between two refreshes as a string: SCHEDULE '2h'"),
        ("SHOW STREAM TABLE", "SHOW STREAM TABLES lists all of them, DESCRIBE STREAM TABLE name tells of one"),
        ("SHOW STREAM TABLE t", "SHOW STREAM TABLES lists all of them, DESCRIBE STREAM TABLE name tells of one"),
        ("SHOW STRAEM TABLES", "did you mean STREAM?"),
        ("CREATE STREAM TABLE t SCHEDULE EVERY 1 HOUR 30 MINUTES AS SELECT 1", f"{AS_STRING} '1h30m'"),
        ("ALTER STREAM TABLE t SET SCHEDULE EVERY 1 DAY 12 HOURS", f"{AS_STRING} '1d12h'"),
        ("CREATE STREAM TABLE t SCHEDULE AT '10:05' AS SELECT 1", "write SCHEDULE CRON '5 10 * * *'"),
        ("ALTER STREAM TABLE t SET MODE FULL", "write REFRESH MODE and then the mode"),
        ("REFRESH STREAM TABLE t INCREMENTAL", "leave it out: REFRESH MODE of the table decides"),
        ("REFRESH MATERIALIZED VIEW t WITH DATA", "leave WITH DATA out: a refresh fills the table"),
        ("CREATE MATERIALIZED VIEW t BUILD DEFERRED AS SELECT 1", "write WITH NO DATA"),
        ("CREATE MATERIALIZED VIEW t REFRESH COMPLETE AS SELECT 1", "write REFRESH MODE FULL"),
        ("CREATE MATERIALIZED VIEW t REFRESH FAST AS SELECT 1", "write REFRESH MODE DIFFERENTIAL"),
        ("CREATE STREAM VIEW t AS SELECT 1", "write STREAM TABLE"),
        ("REFRESH ALL STREAM TABLES", "leave ALL out: STREAM TABLES without a name are all of them"),
        ("VERIFY ALL MATERIALIZED VIEWS", "leave ALL out: STREAM TABLES without a name are all of them"),
        ("SHOW REFRESH HISTORY t", "write FOR in front of the name"),
        ("SHOW REFRESH HISTORY OF t", "write FOR and then the name"),
        ("ALTER STREAM TABLE t PAUSE", "write SUSPEND"),
        ("ALTER STREAM TABLE t schedule '5m'", "write SET SCHEDULE"),
        ("ALTER STREAM TABLE t state none", "write SET STATE"),
        ("CREATE STREAM TABLE t STATE = 'NONE' AS SELECT 1", "did you mean NONE?"),
        ("CREATE STREAM TABLE t SCHEDULE @hourly AS SELECT 1", "write SCHEDULE CRON '@hourly'"),
        (
            "CREATE STREAM TABLE t (a INT) AS SELECT 1",
            "leave the type out: a column gets the type that the query gives it",
        ),
        (
            "CREATE STREAM TABLE as AS SELECT 1",
            "put it in backquotes if it is a name; AS is the only word that needs them",
        ),
        ("DROP STREAM TABLE 't'", "quotes make a string; put a name in backquotes"),
        ("DROP STREAM TABLE größe", BACKQUOTES),
        ("DROP STREAM TABLE 2024", BACKQUOTES),
        ("DROP STREAM TABLE my-table", BACKQUOTES),
        ("CREATE STREAM TABLE t COMMENT mine AS SELECT 1", "put it in quotes"),
        ("CREATE STREAM TABLE t LOCATION /mine AS SELECT 1", "put it in quotes"),
        ("CREATE STREAM TABLE t TBLPROPERTIES (a = b) AS SELECT 1", "put it in quotes"),
        ("REFRESH /*+ BROADCAST(t) */ STREAM TABLE t", "hints belong into the query, behind AS"),
        ("CREATE STREAM TABLE t COMMENT 'a AS SELECT 1", "close it with '; inside, a doubled one stands for one"),
        ('CREATE STREAM TABLE t COMMENT "a AS SELECT 1', 'close it with "; inside, a doubled one stands for one'),
        ("CREATE STREAM TABLE `t AS SELECT 1", "close it with `; inside, a doubled one stands for one"),
        ("REFRESH STREAM TABLE t /* a /* b */", "close it with */; comments nest"),
        ("REFRESH STREAM t", "write STREAM TABLE in front of the name"),
        ("SHOW HISTORY FOR t", "write SHOW REFRESH HISTORY"),
        ("REFRESH STREAM TABLE t ASYNC FULL", "write FULL in front of SYNC or ASYNC"),
        ("REFRESH STREAM TABLE t CASCADE FULL", "write FULL in front of CASCADE"),
        ("VERIFY TABLE t", "write VERIFY STREAM TABLE name"),
        ("CREATE STREAM TABLE IF EXISTS t AS SELECT 1 AS a", "write IF NOT EXISTS"),
        ("EXPLAIN CREATE MATERIALIZED VIEW IF EXISTS t AS SELECT 1 AS a", "write IF NOT EXISTS"),
        ("CREATE QUEUE IF EXISTS q ON t", "write IF NOT EXISTS"),
        ("ALTER MATERIALIZED VIEW t DROP SCHEDULE IF EXISTS", "leave IF EXISTS out: without a schedule nothing changes"),
        ("ALTER MATERIALIZED VIEW t DROP TRIGGER IF EXISTS", "leave IF EXISTS out: without a schedule nothing changes"),
        ("SHOW MATERIALIZED VIEWS LIKE 'a*' IN s", "write IN and the schema in front of LIKE"),
        ("SHOW MATERIALIZED VIEWS 'a*'", "write LIKE in front of the pattern"),
        ("DROP STREAM TABLE a, b", "write a statement for each table; CASCADE takes along those that read it"),
        *(
            (
                f"ALTER STREAM TABLE t SET SCHEDULE ON UPDATE AT MOST EVERY INTERVAL {text}",
                f"write ON UPDATE AT MOST EVERY '{said}'",
            )
            for text, said in (
                ("1 HOUR 30 MINUTES", "1h30m"),
                ("'1:30' HOUR TO MINUTE", "1h30m"),
                ("'00:05:00' HOUR TO SECOND", "5m"),
                ("'1 02:30' DAY TO MINUTE", "1d2h30m"),
            )
        ),
        ("ALTER STREAM TABLE t SET SCHEDULE ON UPDATE AT MOST EVERY INTERVAL '5' HOUR TO MINUTE", NO_SCHEDULE),
        ("ALTER STREAM TABLE t SET SCHEDULE ON UPDATE AT MOST EVERY INTERVAL 5 MINUTES TO HOUR", NO_SCHEDULE),
        ("CREATE STREAM TABLE t ASSELECT 1", None),
        ("REFRESH STREAM TABLE t ALLOFIT", None),
        ("SHOW STREAM TABLES )", None),
    ],
)
def test_what_to_do(text: str, hint: str | None) -> None:
    assert refusal(text).hint == hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ALTER MATERIALIZED VIEW IF EXISTS v SUSPEND", "leave IF EXISTS out"),
        ("EXPLAIN ALTER STREAM TABLE IF EXISTS v AS SELECT 1", "leave IF EXISTS out"),
        ("REFRESH STREAM TABLE IF EXISTS v", "leave IF EXISTS out"),
        ("DESCRIBE STREAM TABLE v IF EXISTS", "leave IF EXISTS out"),
        ("ALTER QUEUE IF EXISTS q SET (a = 1)", "leave IF EXISTS out"),
        ("DROP MATERIALIZED VIEW v IF EXISTS", "write IF EXISTS in front of the name"),
        ("CREATE STREAM TABLE v IF NOT EXISTS AS SELECT 1", "write IF NOT EXISTS in front of the name"),
        ("DROP MATERIALIZED VIEW IF EXISTS v RESTRICT", "leave RESTRICT out: DROP refuses a table that others read"),
        ("DROP QUEUE q CASCADE", "DROP refuses a queue that has consumers, unless FORCE is written"),
        ("SHOW STREAM TABLES IN SCHEMA x", "write IN x"),
        ("REFRESH STREAM TABLES FROM SCHEMA a.`b c` FULL", "write IN a.`b c`"),
        ("VERIFY STREAM TABLES IN DATABASE x", "write IN x"),
        ("SHOW QUEUES IN SCHEMA x", "write IN x"),
        ("DESCRIBE EXTENDED MATERIALIZED VIEW s.v", "write DESCRIBE STREAM TABLE EXTENDED s.v"),
        ("DESC FORMATTED STREAM TABLE v", "write DESCRIBE STREAM TABLE EXTENDED v"),
        ("DESCRIBE STREAM TABLE FORMATTED v", "write EXTENDED in place of FORMATTED"),
        ("ALTER STREAM TABLE t CLUSTER BY (a)", "CREATE OR REPLACE STREAM TABLE, with the same query"),
        ("ALTER STREAM TABLE t SET CLUSTER BY (a)", "CREATE OR REPLACE STREAM TABLE, with the same query"),
        ("ALTER STREAM TABLE t ALTER COLUMN a SET TAGS ('x' = 'y')", "write ALTER COLUMN name COMMENT 'text'"),
        ("ALTER STREAM TABLE t ALTER COLUMN a TYPE INT", "the query decides"),
        ("ALTER STREAM TABLE t ADD COLUMN b INT", "ALTER STREAM TABLE name AS and the new query"),
        ("ALTER STREAM TABLE t RENAME COLUMN a TO b", "ALTER STREAM TABLE name AS and the new query"),
        ("CREATE STREAM TABLE t COMMENT = 'x' AS SELECT 1", "leave = out"),
        ("ALTER STREAM TABLE t SET COMMENT TO 'x'", "leave TO out"),
        ("CREATE STREAM TABLE t CONSTRAINT k EXPECT (a > 1) AS SELECT 1 AS a", "in the list behind the name"),
        ("ALTER STREAM TABLE t CONSTRAINT k EXPECT (a > 1)", "write ADD CONSTRAINT"),
        ("CREATE STREAM TABLE t (CONSTRAINT k EXPECT (a > 1) ON VIOLATION DROP) AS SELECT 1 AS a", "write DROP ROW"),
        ("ALTER STREAM TABLE t ADD CONSTRAINT k EXPECT (a > 1) ON VIOLATION DROP", "write DROP ROW"),
        ("CREATE STREAM TABLE t (CONSTRAINT k EXPECT (a > 1) ON VIOLATION FAIL, b) AS SELECT 1 AS a", "write FAIL UPDATE"),
        ("ALTER STREAM TABLE t ADD CONSTRAINT k EXPECT (a > 1) ON VIOLATION IGNORE", "a row that fails is kept, and counted"),
        ("ALTER STREAM TABLE t ADD CONSTRAINT k EXPECT (a > 1) ON MISMATCH FAIL", "write ON VIOLATION"),
        ("ALTER STREAM TABLE t ADD CONSTRAINT k EXPECT a > 1", "put the condition in parentheses"),
        ("CREATE STREAM TABLE t FROZEN WHERE a < 1 AS SELECT 1 AS a", "put the condition in parentheses"),
        ("CREATE STREAM TABLE t CLUSTER BY a, b AS SELECT 1 AS a", "put the columns in parentheses"),
        ("CREATE STREAM TABLE t TBLPROPERTIES 'a' = 'b' AS SELECT 1", "put the properties in parentheses"),
        ("ALTER STREAM TABLE t SET SCHEDULE '1m' REFRESH MODE FULL", "a statement changes one thing"),
        ("ALTER STREAM TABLE t SET SCHEDULE '1m', SET COMMENT 'x'", "a statement changes one thing"),
        ("ALTER STREAM TABLE t SUSPEND CASCADE", "leave CASCADE out"),
        ("VERIFY STREAM TABLE a, b", "write VERIFY STREAM TABLES LIKE 'a|b'"),
        ("VERIFY STREAM TABLE s.a, b", "write a statement for each"),
        ("DESCRIBE STREAM TABLE a, b", "write a statement for each"),
        ("ALTER STREAM TABLE a, b SUSPEND", "write a statement for each table"),
    ],
)
def test_a_word_too_many_or_in_the_wrong_place_is_answered(text: str, told: str) -> None:
    assert told in (refusal(text).hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "SUSPEND STREAM TABLE IF EXISTS a.`b c`",
        "RESUME MATERIALIZED VIEW t",
        "DESC HISTORY STREAM TABLE t",
        "DESCRIBE EXTENDED MATERIALIZED VIEW a.t",
        "VERIFY STREAM TABLE a, b , c;",
        "APPLY CHANGES INTO t FROM s KEYS (a) SEQUENCE BY b",
    ],
)
def test_a_whole_statement_that_an_error_says_to_write_parses(text: str) -> None:
    hint = refusal(text).hint or ""
    assert hint.startswith("write")
    parse(hint.removeprefix("write"))


@pytest.mark.parametrize(
    ("after", "meant"),
    [
        ("@Weekly", "CRON '@weekly'"),
        ("*/15 * * * *", "CRON '*/15 * * * *'"),
        ("0 6 * * *", "CRON '0 6 * * *'"),
        ("0 6 * * mon-fri AT TIME ZONE 'Europe/Berlin'", "CRON '0 6 * * mon-fri' AT TIME ZONE 'Europe/Berlin'"),
        ("0 0 6 ? * MON-FRI", "CRON '0 0 6 ? * MON-FRI'"),
        ("EVERY DAY AT '06:00'", "CRON '0 6 * * *'"),
        ("EVERY 1 DAY AT '06:00'", "CRON '0 6 * * *'"),
        ("DAILY AT 6:30 pm", "CRON '30 18 * * *'"),
        ("AT '23:59:00'", "CRON '59 23 * * *'"),
        ("EVERY MONDAY AT 7", "CRON '0 7 * * mon'"),
        ("EVERY WEEKDAY AT '06:00'", "CRON '0 6 * * mon-fri'"),
        ("MONTHLY", "CRON '@monthly'"),
        ("EVERY '@daily'", "CRON '@daily'"),
        ("'on update'", "ON UPDATE, without quotes"),
        ("'on update at most every 5 minutes'", "ON UPDATE AT MOST EVERY '5m'"),
        ("'hourly'", "CRON '@hourly'"),
        ("'every day at 6'", "CRON '0 6 * * *'"),
        ("'downstream'", "CALCULATED, without quotes"),
        ("OFF", "MANUAL"),
    ],
)
def test_a_schedule_in_other_words_is_said_as_the_one_that_is_meant(after: str, meant: str) -> None:
    for text in (f"CREATE STREAM TABLE t SCHEDULE {after} COMMENT 'x' AS SELECT 1", f"ALTER STREAM TABLE t SET SCHEDULE {after};"):
        with pytest.raises((StatementSyntaxError, InvalidStatement)) as caught:
            parse(text)
        assert caught.value.hint == f"write SCHEDULE {meant}"
    parse(f"ALTER STREAM TABLE t SET SCHEDULE {meant.removesuffix(', without quotes')}")


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("EVERY WEEK AT '06:00'", "each Monday at 06:00"),
        ("EVERY 2 DAYS AT '06:00'", "each Monday at 06:00"),
        ("@often", "each Monday at 06:00"),
        ("0 99 * * *", "each Monday at 06:00"),
        ("AT '25:00'", "each Monday at 06:00"),
        ("5", "write the number with its unit, as a string: SCHEDULE '5m' for minutes"),
        ("CRON */5 * * * *", "put it in quotes: CRON '*/5 * * * *'"),
        ("CRON @hourly", "put it in quotes: CRON '@hourly'"),
        ("ON UPDATE AT MOST EVERY DAY", "write ON UPDATE AT MOST EVERY '1d'"),
    ],
)
def test_a_schedule_that_nobody_can_compute_is_explained(after: str, told: str) -> None:
    assert told in (refusal(f"CREATE STREAM TABLE t SCHEDULE {after} AS SELECT 1").hint or "")


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ("CREATE MATERIALIZED VIEW t REFRESH FAST ON COMMIT AS SELECT 1", "write SCHEDULE ON UPDATE"),
        ("CREATE STREAM TABLE t REFRESH MODE IMMEDIATE AS SELECT 1", "write SCHEDULE IMMEDIATE"),
        ("CREATE MATERIALIZED VIEW t WITH ROW FILTER f ON (a) AS SELECT 1", "row filters are not built: filter in the query"),
        ("ALTER MATERIALIZED VIEW t SET ROW FILTER f ON (a)", "row filters are not built"),
        ("ALTER MATERIALIZED VIEW t DROP ROW FILTER", "row filters are not built"),
        ("CREATE MATERIALIZED VIEW t (a MASK f) AS SELECT 1", "column masks are not built: mask the column in the query"),
        ("CREATE MATERIALIZED VIEW t (a COMMENT 'x' MASK f) AS SELECT 1", "column masks are not built"),
        ("ALTER MATERIALIZED VIEW t ALTER COLUMN a SET MASK f", "column masks are not built"),
        ("CREATE MATERIALIZED VIEW t (a, CONSTRAINT c CHECK (a > 0)) AS SELECT 1", "CONSTRAINT name EXPECT (condition)"),
        ("ALTER MATERIALIZED VIEW t ADD CONSTRAINT c CHECK (a > 0)", "CONSTRAINT name EXPECT (condition)"),
        ("CREATE MATERIALIZED VIEW t (a, CONSTRAINT c PRIMARY KEY (a)) AS SELECT 1", "the query decides"),
        ("CREATE MATERIALIZED VIEW t (a NOT NULL) AS SELECT 1", "the query decides"),
        ("CREATE MATERIALIZED VIEW t DEFAULT COLLATION UTF8_BINARY AS SELECT 1", "cast in the query"),
        ("CREATE MATERIALIZED VIEW t IN CLUSTER c AS SELECT 1", "leave IN CLUSTER out"),
        ("ALTER MATERIALIZED VIEW t SET TAGS ('a' = 'b')", "there are no tags: write SET TBLPROPERTIES"),
        ("ALTER MATERIALIZED VIEW t UNSET TAGS ('a')", "there are no tags: write SET TBLPROPERTIES"),
        ("ALTER MATERIALIZED VIEW t OWNER TO a", "what an owner may"),
        ("ALTER MATERIALIZED VIEW t SET OWNER TO a", "what an owner may"),
        ("CREATE STREAM TABLE t IMMUTABLE WHERE (a < 1) AS SELECT 1 AS a", "write FROZEN WHERE (condition)"),
        ("ALTER STREAM TABLE t SET IMMUTABLE WHERE (a < 1)", "write FROZEN WHERE (condition)"),
    ],
)
def test_what_others_have_is_refused_by_name_with_what_serves_instead(text: str, served: str) -> None:
    assert served in (refusal(text).hint or "")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SUSPEND STREAM TABLE a.`b c`", "write ALTER STREAM TABLE a.`b c` SUSPEND"),
        ("/* now */ pause materialized view t -- and wait", "write ALTER STREAM TABLE t SUSPEND"),
        ("RESUME STREAM TABLE t;", "write ALTER STREAM TABLE t RESUME"),
        ("RENAME STREAM TABLE t TO u", "write ALTER STREAM TABLE t RENAME TO and the new name"),
        (
            "VACUUM MATERIALIZED VIEW t",
            "write VACUUM t: to Delta's statements a stream table is a table, and no row of it changes by that",
        ),
        ("UNDROP STREAM TABLE t", "a stream table is dropped with its files: write its CREATE STREAM TABLE again"),
        ("TRUNCATE STREAM TABLE t", "nothing but a refresh writes to it: REFRESH STREAM TABLE t FULL computes it anew"),
        ("ANALYZE STREAM TABLE t COMPUTE STATISTICS", "leave it out: the log of a table of Delta holds its statistics"),
        ("DESC HISTORY STREAM TABLE t", "write SHOW REFRESH HISTORY FOR t"),
        (
            "EXPLAIN FORMATTED STREAM TABLE t",
            "leave FORMATTED out: EXPLAIN says all that it knows; EXPLAIN DELTA has the SQL",
        ),
        (
            "CREATE OR REPLACE TEMPORARY MATERIALIZED VIEW IF NOT EXISTS t AS SELECT 1",
            "leave TEMPORARY out: a stream table is one of its schema; CREATE TEMPORARY VIEW is of a session",
        ),
    ],
)
def test_words_that_open_no_statement_are_answered_with_the_one_that_is_meant(text: str, hint: str) -> None:
    refused = refusal(text)
    assert refused.hint == hint and refused.reason.startswith("there is no statement ")


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (
            "APPLY CHANGES INTO t FROM STREAM(s.x) KEYS (a, b) APPLY AS DELETE WHEN op = 'D' SEQUENCE BY at COLUMNS * EXCEPT (op)",
            (
                "CREATE STREAM TABLE t AS SELECT * FROM (SELECT * EXCEPT (nth) FROM (SELECT *, row_number() OVER "
                "(PARTITION BY a, b ORDER BY at DESC) AS nth FROM s.x) WHERE nth = 1) WHERE (op = 'D') IS NOT TRUE"
            ),
        ),
        (
            "create flow f as auto cdc into `t t` from stream x keys (a) sequence by at stored as scd type 2;",
            "CREATE STREAM TABLE `t t` AS SELECT *, at AS valid_from, lead(at) OVER (PARTITION BY a ORDER BY at) AS valid_to FROM x",
        ),
    ],
)
def test_changes_of_databricks_are_said_as_a_query(text: str, ours: str) -> None:
    assert refusal(text).hint == f"write\n{ours}\n"
    parse(ours)
    assert "(PARTITION BY key ORDER BY time DESC)" in (refusal("APPLY CHANGES INTO t").hint or "")
    assert "bitemporal tables are not built" in (refusal(f"{text.strip(';')} BITEMPORAL").hint or "")


def test_each_opening_that_the_shim_takes_from_others_has_an_answer() -> None:
    """Words that one side alone knows get Spark's error, or ours without what to write."""
    shim = Path(__file__).parents[2] / "jvm_shim" / "src" / "main" / "scala" / "streamtable" / "plumbing"
    kinds = re.findall(
        r'"((?:TRANSIENT )?(?:DYNAMIC|MATERIALIZED LAKE) [A-Z ]+)"', (shim / "Parser.scala").read_text(encoding="utf-8")
    )
    assert {"DYNAMIC TABLE", "DYNAMIC ICEBERG TABLE", "TRANSIENT DYNAMIC TABLE", "MATERIALIZED LAKE VIEW"} <= set(kinds)
    for kind in kinds:
        text = f"SHOW {kind}" if kind.endswith("S") else f"CREATE {kind} t AS SELECT 1"
        assert "write\n" in (refusal(text).hint or ""), kind
    slips = (shim / "Slips.scala").read_text(encoding="utf-8")

    def said(after: str, before: str) -> list[str]:
        return re.findall(r'"([A-Z][A-Z ]*)"', slips.partition(after)[2].partition(before)[0])

    alone, explains, hidden = said("val alone", "val explains"), said("val explains", ".map("), said("word <- ", ")")
    assert (len(alone), len(explains), len(hidden)) == (20, 4, 3)
    openings = [f"{verb} STREAM TABLE" for verb in (*alone, *(f"EXPLAIN {each}" for each in explains))]
    openings += [f"EXPLAIN {each} CREATE STREAM TABLE" for each in explains]
    openings += [f"CREATE {replaces}{each} MATERIALIZED VIEW" for each in hidden for replaces in ("", "OR REPLACE ", "OR REFRESH ")]
    openings += said("(ofTables ++", ")")
    for opening in openings:
        assert refusal(f"{opening} t").hint, opening


def test_a_time_that_no_schedule_says_is_told() -> None:
    assert "SCHEDULE CRON '0 0 1 */3 *'" in (refusal("CREATE MATERIALIZED VIEW t SCHEDULE EVERY 3 MONTHS AS SELECT 1").hint or "")
    assert "takes whole seconds" in (refusal("CREATE STREAM TABLE t SCHEDULE EVERY 5 YEARS AS SELECT 1").hint or "")


def test_the_whole_text() -> None:
    error = refusal("-- people per city\nCREATE STREAM TABLE t /* c */\n\tREFESH MODE FULL\nAS SELECT 1")
    assert str(error) == (
        "[STREAMTABLE_SYNTAX_ERROR] line 3, column 2: expected AS, BACKFILL FROM, CLUSTER BY, COMMENT, FROZEN WHERE, LOCATION, PARTITIONED BY, "
        "REFRESH MODE, SCHEDULE, STATE, TBLPROPERTIES, TRIGGER ON UPDATE, WITH NO DATA or '(', found 'REFESH'\n"
        "  \tREFESH MODE FULL\n"
        "  \t^^^^^^\n"
        "What to do: did you mean REFRESH MODE?\nSQLSTATE: 42601"
    )
    assert error.getCondition() == "STREAMTABLE_SYNTAX_ERROR"
    assert error.getSqlState() == "42601"


def test_an_end_that_comes_too_early_is_behind_the_last_word() -> None:
    assert refusal("REFRESH STREAM -- a comment\n").reason == (
        "line 1, column 15: expected TABLE or TABLES, found the end of the statement\n  REFRESH STREAM -- a comment\n                ^"
    )


def test_an_empty_text_has_no_line_to_show() -> None:
    assert refusal(" \n").reason == f"line 1, column 1: expected {OPENINGS}, found {END}"


@pytest.mark.parametrize("text", ["CREATE STREAM TABLE t COMMENT 'a AS SELECT 1", "CREATE STREAM TABLE `t AS SELECT 1"])
def test_what_is_never_closed_is_underlined_from_where_it_opens(text: str) -> None:
    *_, line, marks = refusal(text).reason.splitlines()
    assert line[marks.index("^") : len(marks)] == text[min(text.find("'") % 99, text.find("`") % 99) :]


def test_of_a_long_line_only_the_surroundings_are_shown() -> None:
    columns = ", ".join(f"column_{number}" for number in range(100))
    reason = refusal(f"CREATE STREAM TABLE t ({columns}, x INT, {columns}) AS SELECT 1").reason
    _, line, marks = reason.splitlines()
    assert len(line) < 130
    assert line.startswith("  ...")
    assert line.endswith("...")
    assert line[marks.index("^") : len(marks)] == "INT"


def test_what_was_found_is_cut_short() -> None:
    first_line = refusal(f"DROP STREAM TABLE '{'x' * 500}'").reason.splitlines()[0]
    assert first_line.endswith(f"found '{'x' * 39}...")


STATEMENT = """
    CREATE OR REPLACE STREAM TABLE a . b ( c COMMENT 'c' , d ) SCHEDULE CRON '@daily' AT TIME ZONE 'UTC'
    WITH NO DATA CLUSTER BY ( a ) TBLPROPERTIES ( a . b = 1 , c 'd' ) AS
"""
WORDS = STATEMENT.split()


@pytest.mark.parametrize("wrong", ["", "%", ";", "=", "'x"])
def test_terminals_have_names_for_people(wrong: str) -> None:
    for length in range(len(WORDS)):
        found = re.findall(r"\b(?:_[A-Z]+|BACKQUOTED|INTEGER|NAME|NUMBER|QUERY|STRING)\b|\$END", refusal_after(length, wrong))
        assert found == [], WORDS[:length]


def refusal_after(length: int, wrong: str) -> str:
    return refusal(" ".join([*WORDS[:length], wrong, "$"])).reason


@pytest.mark.parametrize(("offset", "expected"), [(0, (1, 1)), (1, (1, 2)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (6, (3, 3))])
def test_places_count_from_one(offset: int, expected: tuple[int, int]) -> None:
    assert place("ab\n\ncd", offset) == expected


def test_an_underline_ends_with_its_line() -> None:
    assert excerpt("ab\ncd", 1, 5) == "  ab\n   ^"
