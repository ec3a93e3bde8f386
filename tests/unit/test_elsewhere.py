"""Statements of Snowflake and of Fabric: what their errors say to write, and what they say has no like here."""

from __future__ import annotations

import pytest

from streamtable.errors import StatementSyntaxError
from streamtable.language.parse import parse
from streamtable.language.scripts import split


def hint_of(text: str) -> str:
    with pytest.raises(StatementSyntaxError, match=": here it is STREAM TABLE") as caught:
        parse(text)
    assert caught.value.hint
    return caught.value.hint


def written(hint: str) -> list[str]:
    """Return the statements that a hint says to write."""
    return [piece.sql for piece in split(f"\n{hint}".partition("\nwrite\n")[2])]


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (
            (
                "CREATE OR REPLACE DYNAMIC TABLE db.\"by region\" -- ours: AS\n TARGET_LAG = '5 minutes' WAREHOUSE = wh\n"
                "REFRESH_MODE = INCREMENTAL INITIALIZE = ON_SCHEDULE CLUSTER BY (a) COMMENT = 'it''s' AS SELECT a FROM b;"
            ),
            (
                "CREATE OR REPLACE STREAM TABLE db.`by region`\nSCHEDULE '5m'\nREFRESH MODE DIFFERENTIAL\nWITH NO DATA\n"
                "CLUSTER BY (a)\nCOMMENT 'it''s'\nAS SELECT a FROM b;"
            ),
        ),
        ("CREATE DYNAMIC TABLE t TARGET_LAG=DOWNSTREAM AS SELECT 1", "CREATE STREAM TABLE t\nSCHEDULE CALCULATED\nAS SELECT 1"),
        ("explain create transient dynamic table t as select 1", "EXPLAIN CREATE STREAM TABLE t\nAS select 1"),
        (
            (
                "CREATE MATERIALIZED LAKE VIEW IF NOT EXISTS s.t (CONSTRAINT c CHECK (a > 0) ON MISMATCH DROP) PARTITIONED BY (a) "
                "COMMENT 'x' TBLPROPERTIES ('k' = 'v') AS SELECT a FROM b"
            ),
            "CREATE STREAM TABLE IF NOT EXISTS s.t (CONSTRAINT c EXPECT (a > 0) ON VIOLATION DROP ROW)\nPARTITIONED BY (a)\nCOMMENT 'x'\nTBLPROPERTIES ('k' = 'v')\nAS SELECT a FROM b",
        ),
        (
            'CREATE DYNAMIC TABLE t BACKFILL FROM db."old t" IMMUTABLE WHERE (CAST(a AS INT) < abs((1))) AS SELECT a FROM b',
            "CREATE STREAM TABLE t\nBACKFILL FROM db.`old t`\nFROZEN WHERE (CAST(a AS INT) < abs((1)))\nAS SELECT a FROM b",
        ),
        ("ALTER DYNAMIC TABLE t SET IMMUTABLE WHERE (a < 1)", "ALTER STREAM TABLE t SET FROZEN WHERE (a < 1)"),
        ("ALTER DYNAMIC TABLE t UNSET IMMUTABLE", "ALTER STREAM TABLE t DROP FROZEN"),
        ("ALTER DYNAMIC TABLE t REFRESH", "REFRESH STREAM TABLE t"),
        ("ALTER DYNAMIC TABLE t SET TARGET_LAG = '1 hour'", "ALTER STREAM TABLE t SET SCHEDULE '1h'"),
        ("ALTER DYNAMIC TABLE t SET TARGET_LAG = 'downstream'", "ALTER STREAM TABLE t SET SCHEDULE CALCULATED"),
        ("ALTER DYNAMIC TABLE t SET TARGET_LAG = '1 month'", "ALTER STREAM TABLE t SET SCHEDULE CRON '@monthly'"),
        ("CREATE DYNAMIC TABLE t TARGET_LAG='1 year' AS SELECT 1", "CREATE STREAM TABLE t\nSCHEDULE CRON '@yearly'\nAS SELECT 1"),
        (
            "CREATE DYNAMIC TABLE t TARGET_LAG='2 quarters' AS SELECT 1",
            "CREATE STREAM TABLE t\nSCHEDULE CRON '0 0 1 */6 *'\nAS SELECT 1",
        ),
        ("CREATE DYNAMIC TABLE t TARGET_LAG='10 milliseconds' AS SELECT 1", "CREATE STREAM TABLE t\nAS SELECT 1"),
        ("CREATE DYNAMIC TABLE t TARGET_LAG='5 months' AS SELECT 1", "CREATE STREAM TABLE t\nAS SELECT 1"),
        ("ALTER DYNAMIC TABLE t SUSPEND", "ALTER STREAM TABLE t SUSPEND"),
        ("DROP DYNAMIC TABLE IF EXISTS t", "DROP STREAM TABLE IF EXISTS t"),
        ("SHOW DYNAMIC TABLES", "SHOW STREAM TABLES"),
        ("REFRESH MATERIALIZED LAKE VIEW t FULL", "REFRESH STREAM TABLE t FULL"),
    ],
)
def test_statements_of_snowflake_and_fabric_are_said_in_our_words(text: str, ours: str) -> None:
    assert hint_of(text).partition("write\n")[2] == f"{ours}\n"
    parse(ours)


_NO_WAREHOUSE = "WAREHOUSE has no meaning here"
_SCHEMAS = "SELECT * FROM stream_tables() has those of all schemas"
_NO_TYPES = "the query decides what they hold"


@pytest.mark.parametrize(
    ("text", "ours", "told"),
    [
        ("ALTER DYNAMIC TABLE IF EXISTS n SUSPEND", ["ALTER STREAM TABLE n SUSPEND"], "leave IF EXISTS out"),
        ("ALTER DYNAMIC TABLE IF EXISTS n SET COMMENT = 'x'", ["ALTER STREAM TABLE n SET COMMENT 'x'"], "leave IF EXISTS out"),
        ("ALTER DYNAMIC TABLE n SET REFRESH_MODE = FULL", ["ALTER STREAM TABLE n SET REFRESH MODE FULL"], ""),
        ("ALTER DYNAMIC TABLE n SET COMMENT = 'full'", ["ALTER STREAM TABLE n SET COMMENT 'full'"], ""),
        ("ALTER DYNAMIC TABLE n UNSET COMMENT", ["ALTER STREAM TABLE n SET COMMENT ''"], ""),
        ("ALTER DYNAMIC TABLE n SET WAREHOUSE = w", [], _NO_WAREHOUSE),
        (
            "ALTER DYNAMIC TABLE n SET TARGET_LAG = '5 minutes' WAREHOUSE = w, REFRESH_MODE = AUTO",
            ["ALTER STREAM TABLE n SET SCHEDULE '5m'", "ALTER STREAM TABLE n SET REFRESH MODE AUTO"],
            _NO_WAREHOUSE,
        ),
        ("ALTER DYNAMIC TABLE n SET TAG a = '(0)' (b)", [], "TAG a = '(0)' (b) has no like here"),
        ("ALTER DYNAMIC TABLE n CLUSTER BY (a)", [], "CREATE OR REPLACE STREAM TABLE, with the same query, changes the CLUSTER BY"),
        ("ALTER DYNAMIC TABLE n RESUME RECLUSTER", [], "spark.streamtable.maintenance.smallFiles"),
        ('ALTER DYNAMIC TABLE n SWAP WITH "m m"', [], "three times, exchanges n and `m m`"),
        ("ALTER DYNAMIC TABLE n REFRESH COPY SESSION", ["REFRESH STREAM TABLE n"], "leave COPY SESSION out"),
        ('ALTER DYNAMIC TABLE n RENAME TO db."N n"', ["ALTER STREAM TABLE n RENAME TO db.`N n`"], ""),
        ("ALTER DYNAMIC TABLE n ADD ROW ACCESS POLICY p ON (a)", [], "ADD ROW ACCESS POLICY p ON (a) has no like here"),
        ("SHOW DYNAMIC TABLES IN SCHEMA x", ["SHOW STREAM TABLES IN x"], ""),
        ("SHOW DYNAMIC TABLES IN SCHEMA", ["SHOW STREAM TABLES"], ""),
        ("SHOW DYNAMIC TABLES LIKE 'a%' IN SCHEMA x", ["SHOW STREAM TABLES IN x LIKE 'a*'"], ""),
        ("SHOW DYNAMIC TABLES LIKE 'by%'", ["SHOW STREAM TABLES LIKE 'by*'"], ""),
        ("SHOW DYNAMIC TABLES LIKE 'by_a%'", ["SHOW STREAM TABLES LIKE 'by_a*'"], "in a pattern _ stands for itself"),
        ("SHOW DYNAMIC TABLES STARTS WITH 'by_' LIMIT 9", ["SHOW STREAM TABLES LIKE 'by_*'"], "leave LIMIT out"),
        ("SHOW DYNAMIC TABLES IN ACCOUNT", [], _SCHEMAS),
        ("SHOW DYNAMIC TABLES LIKE 'a%' IN DATABASE d", [], _SCHEMAS),
        ("SHOW DYNAMIC TABLES LIKE 'a%' STARTS WITH 'ab'", [], "has no like here"),
        ("UNDROP DYNAMIC TABLE n", [], "write its CREATE STREAM TABLE again"),
        ("CREATE DYNAMIC TABLE n CLONE m", ["SHOW CREATE STREAM TABLE m"], "a stream table is not cloned"),
        ("CREATE DYNAMIC TABLE n TARGET_LAG = '1 day'", [], "CREATE STREAM TABLE n SCHEDULE '1d' needs AS and a query"),
        ("CREATE DYNAMIC TABLE", [], "CREATE DYNAMIC TABLE has no like here"),
        (
            "CREATE DYNAMIC TABLE names(id, first_name) WAREHOUSE = w AS SELECT a, b FROM c",
            ["CREATE STREAM TABLE names (id, first_name)\nAS SELECT a, b FROM c"],
            _NO_WAREHOUSE,
        ),
        (
            "CREATE DYNAMIC TABLE n (id NUMBER(10, 2), \"a b\" TEXT NOT NULL COMMENT 'x, y', c) COMMENT = 't' AS SELECT * FROM d",
            ["CREATE STREAM TABLE n (id, `a b` COMMENT 'x, y', c)\nCOMMENT 't'\nAS SELECT * FROM d"],
            _NO_TYPES,
        ),
        (
            "CREATE DYNAMIC TABLE n CLUSTER BY (date_trunc('day', ts)) AS SELECT ts FROM a",
            ["CREATE STREAM TABLE n\nAS SELECT ts FROM a"],
            "CLUSTER BY takes names: give (date_trunc('day', ts)) a name in the query",
        ),
        (
            "CREATE DYNAMIC TABLE my$n COPY GRANTS REFRESH_MODE = FULL AS SELECT 1 AS a",
            ["CREATE STREAM TABLE `my$n`\nREFRESH MODE FULL\nAS SELECT 1 AS a"],
            "COPY GRANTS has no like here",
        ),
        (
            "CREATE DYNAMIC TABLE n PARTITIONED BY (a) CLUSTER BY (b) AS SELECT a, b FROM c",
            [],
            "has no like here: PARTITIONED BY and CLUSTER BY exclude each other",
        ),
        ('DROP DYNAMIC TABLE IF EXISTS "a b"."c`"', ["DROP STREAM TABLE IF EXISTS `a b`.`c```"], ""),
        ('DESCRIBE DYNAMIC TABLE "a b"', ["DESCRIBE STREAM TABLE `a b`"], ""),
        ("DROP DYNAMIC TABLE n (a)", [], "DROP DYNAMIC TABLE n (a) has no like here"),
        (
            "ALTER DYNAMIC TABLE n RENAME COLUMN a TO b",
            [],
            "has no like here: expected TO, found 'COLUMN'; the query has the columns",
        ),
        ("SUSPEND DYNAMIC TABLE n", [], "write ALTER STREAM TABLE n SUSPEND"),
        ("SHOW CREATE MATERIALIZED LAKE VIEW n", ["SHOW CREATE STREAM TABLE n"], ""),
        ("SHOW MATERIALIZED LAKE VIEWS IN s", ["SHOW STREAM TABLES IN s"], ""),
        (
            (
                "CREATE MATERIALIZED LAKE VIEW n (a COMMENT 'x', CONSTRAINT c CHECK (f(a) < ')') ON MISMATCH FAIL, "
                'CONSTRAINT d CHECK (a > 0)) TBLPROPERTIES ("k"=\'v\') AS SELECT "x" AS a'
            ),
            [
                (
                    "CREATE STREAM TABLE n (a COMMENT 'x', CONSTRAINT c EXPECT (f(a) < ')') ON VIOLATION FAIL UPDATE, "
                    'CONSTRAINT d EXPECT (a > 0) ON VIOLATION FAIL UPDATE)\nTBLPROPERTIES ("k"=\'v\')\nAS SELECT "x" AS a'
                )
            ],
            "",
        ),
        (
            "CREATE MATERIALIZED LAKE VIEW n (CONSTRAINT k PRIMARY KEY (a)) AS SELECT a FROM b",
            ["CREATE STREAM TABLE n\nAS SELECT a FROM b"],
            "a constraint is CONSTRAINT name EXPECT (condition)",
        ),
    ],
)
def test_what_an_error_says_to_write_parses_and_what_it_leaves_out_is_told(text: str, ours: list[str], told: str) -> None:
    hint = hint_of(text)
    assert written(hint) == ours
    assert told in hint and (told or hint.startswith("write\n"))
    for statement in ours:
        parse(statement)


def test_a_name_in_quotes_is_no_string_in_the_query_that_is_said() -> None:
    """Spark reads it as a string, and each row would hold the name of the column."""
    assert written(hint_of('CREATE DYNAMIC TABLE t AS SELECT "a b" -- "c"\nFROM "D" WHERE x = \'"\'')) == [
        'CREATE STREAM TABLE t\nAS SELECT `a b` -- "c"\nFROM `D` WHERE x = \'"\''
    ]


def test_a_time_that_no_schedule_says_is_told_and_not_written() -> None:
    for statement, ours in (
        ("CREATE DYNAMIC TABLE t TARGET_LAG = '5 months' AS SELECT 1", ["CREATE STREAM TABLE t\nAS SELECT 1"]),
        ("ALTER DYNAMIC TABLE t SET TARGET_LAG = '5 months'", []),
    ):
        hint = hint_of(statement)
        assert "TARGET_LAG = '5 months' has no like here: SCHEDULE takes" in hint
        assert written(hint) == ours


def test_a_string_that_never_ends_holds_nobody_up() -> None:
    for many in ("'a'" * 60, "'a' = 'b' " * 40, " " * 2000):
        assert "COMMENT 'x'" in hint_of(f"CREATE DYNAMIC TABLE t COMMENT = 'x' TBLPROPERTIES ({many}")
