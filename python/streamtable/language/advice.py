"""What people write by mistake, or as another system spells it, and what to write instead."""

from __future__ import annotations

import re

from streamtable.language.advice_times import TIMES, Advice

__all__ = ["BACKQUOTES", "advice"]

BACKQUOTES = "put a name with other characters than ASCII letters, digits and _ in backquotes: `like this`"

_QUERY_DECIDES = "leave it out: the query decides what a column holds"
_MASK = "column masks are not built: mask the column in the query, or give readers a view"
_ROW_FILTER = "row filters are not built: filter in the query, or give readers a view with current_user()"
_EXPECT = "an expectation is CONSTRAINT name EXPECT (condition) [ON VIOLATION DROP ROW | FAIL UPDATE]"
_TAGS = "there are no tags: write SET TBLPROPERTIES ('key' = 'value'), or UNSET TBLPROPERTIES ('key')"
_COLUMN_TAGS = "a column has no tags: write ALTER COLUMN name COMMENT 'text', or SET TBLPROPERTIES ('key' = 'value')"
_LAYOUT = (
    "CREATE OR REPLACE STREAM TABLE, with the same query, changes the CLUSTER BY or PARTITIONED BY of a table that nothing reads"
)
_NEW_QUERY = "the query has the columns: write ALTER STREAM TABLE name AS and the new query"
_ONE_CHANGE = "a statement changes one thing: write another one for what follows"
_OWNER = "leave it out: who may write the folder of the table, and its entry in the catalog, may do what an owner may"

_NO_IF_EXISTS = "leave IF EXISTS out: the statement fails where there is nothing of the name"
_NAME = r"(?:`(?:[^`]|``)+`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|\w+))*"
_CHANGES = (
    r"SET|UNSET|ADD|DROP|ALTER|RENAME|SUSPEND|RESUME|REFRESH\s+MODE|SCHEDULE|COMMENT|STATE|TBLPROPERTIES|FROZEN|TRIGGER|CONSTRAINT"
)


def _in(schema: re.Match[str]) -> str:
    return f"write IN {schema[1]}"


def _if_exists(found: re.Match[str]) -> str:
    verb = re.match(r"\s*(?:CREATE|DROP)\b", found.string, re.IGNORECASE)
    return f"write IF {'NOT ' if found[1] else ''}EXISTS in front of the name" if verb else _NO_IF_EXISTS


def _exists(found: re.Match[str]) -> str:
    creates = re.match(r"\s*(?:EXPLAIN\s+)?CREATE\b", found.string, re.IGNORECASE)
    return "write IF NOT EXISTS" if creates else _NO_IF_EXISTS


def _for_each(comma: re.Match[str]) -> str:
    names = re.fullmatch(r"\s*VERIFY\s+\w+\s+\w+\s+(\w+(?:\s*,\s*\w+)*)[\s;]*", comma.string[:1000], re.IGNORECASE)
    if not names:
        return "write a statement for each"
    pattern = "|".join(re.split(r"\s*,\s*", names[1]))
    return f"write VERIFY STREAM TABLES LIKE '{pattern}'"


_OF_OTHERS: tuple[Advice, ...] = (
    ("_NO", r"ROW\s+FILTER", _ROW_FILTER),
    ("", r"(?:SET\s+|DROP\s+)?ROW\s+FILTER", _ROW_FILTER),
    ("", r"(?:SET\s+|DROP\s+)?MASK\b", _MASK),
    ("_TBLPROPERTIES", r"TAGS?\b", _TAGS),
    ("_RESUME", r"(?:UN)?SET\s+TAGS?\b", _TAGS),
    ("_COMMENT", r"(?:UN)?SET\s+TAGS?\b", _COLUMN_TAGS),
    ("_COMMENT", r"(?:SET\s+DATA\s+)?TYPE\b|(?:SET|DROP)\s+(?:NOT|DEFAULT)\b", _QUERY_DECIDES),
    ("_CONSTRAINT", r"COLUMNS?\b", _NEW_QUERY),
    ("_TO", r"COLUMN\b", _NEW_QUERY),
    ("_RESUME", r"(?:CLUSTER|PARTITIONED)\s+BY\b", _LAYOUT),
    ("_TBLPROPERTIES _SCHEDULE", r"(?:CLUSTER|PARTITIONED)\s+BY\b", _LAYOUT),
    ("_CASCADE", r"RESTRICT\b", "leave RESTRICT out: DROP refuses a table that others read, unless CASCADE is written"),
    ("_FORCE", r"(?:RESTRICT|CASCADE)\b", "leave it out: DROP refuses a queue that has consumers, unless FORCE is written"),
    ("_VIOLATION", r"MISMATCH\b", "write ON VIOLATION DROP ROW, or ON VIOLATION FAIL UPDATE"),
    ("_DROP _FAIL", r"KEEP|IGNORE|WARN|LOG|ALLOW|NOTHING", "leave ON VIOLATION out: a row that fails is kept, and counted"),
    ("_RESUME", r"OWNER\b", _OWNER),
    ("_TBLPROPERTIES", r"OWNER\b", _OWNER),
    ("_EXPECT", r"PRIMARY|FOREIGN|UNIQUE", _QUERY_DECIDES),
    ("_EXPECT", r"\w+", _EXPECT),
    ("_COMMENT _RPAR", r"NOT\s+NULL|NULL|PRIMARY|FOREIGN|REFERENCES|GENERATED|DEFAULT", _QUERY_DECIDES),
    ("_AS", r"DEFAULT\s+COLLATION", "leave DEFAULT COLLATION out, and cast in the query: CAST(a AS STRING)"),
    ("_LPAR", r"(?:AUTO|NONE)\b", "name the columns, as in CLUSTER BY (a), or leave CLUSTER BY out"),
    ("_RESUME", r"TRIGGER|ON\s+UPDATE", "write SET SCHEDULE ON UPDATE"),
    ("_AS", r"BUILD\s+DEFERRED", "write WITH NO DATA"),
    ("_AS", r"BUILD\b", "leave BUILD IMMEDIATE out: a stream table is filled unless WITH NO DATA is written"),
    ("_MODE", r"COMPLETE", "write REFRESH MODE FULL"),
    ("_MODE", r"FAST", "write REFRESH MODE DIFFERENTIAL"),
    ("_MODE", r"FORCE", "write REFRESH MODE AUTO"),
    ("_CASCADE _FULL", r"WITH\s+(?:NO\s+)?DATA", "leave WITH DATA out: a refresh fills the table"),
    ("_CASCADE _FULL", r"(?<=CONCURRENTLY\s)\S", "leave CONCURRENTLY out: a refresh never blocks readers"),
    ("_AS", r"IN\s+CLUSTER", "leave IN CLUSTER out: the session, or the scheduler, does the work"),
    ("_NO", r"\(", "leave WITH (...) out; properties of the table are TBLPROPERTIES ('key' = 'value')"),
    ("_FROZEN", r"(?:SET\s+)?IMMUTABLE\b", "write FROZEN WHERE (condition)"),
    ("_SCHEDULE", r"WAREHOUSE", "leave WAREHOUSE out: the session, or the scheduler, does the work"),
)
"""Words of Databricks, PostgreSQL, Materialize and Snowflake."""

_ADVICE: tuple[Advice, ...] = (
    *TIMES,
    *_OF_OTHERS,
    ("_AS", r"SELECT|VALUES|FROM|\(\s*SELECT", "write AS in front of the query"),
    ("_NO", r"DATA", "leave WITH DATA out: a stream table is filled unless WITH NO DATA is written"),
    ("_NO", r"\w+\s*(?:AS\b|\()", "write AS in front of the query"),
    ("_RESUME", r"CONSTRAINT\b", "write ADD CONSTRAINT"),
    ("_AS _SCHEDULE", r"CONSTRAINT\b", "write it in the list behind the name: name (CONSTRAINT name EXPECT (condition))"),
    ("_ROW", r"(?<=DROP)(?:[),;]|\Z)|(?<=DROP\s)", "write DROP ROW"),
    ("_UPDATE", r"(?<=FAIL)(?:[),;]|\Z)|(?<=FAIL\s)", "write FAIL UPDATE"),
    ("_LPAR", r"(?:(?<=EXPECT\s)|(?<=WHERE\s)|(?<=WHEN\s))\S", "put the condition in parentheses"),
    ("_LPAR", r"(?<=BY\s)(?!(?:AUTO|NONE)\b)[\w`]", "put the columns in parentheses"),
    ("_LPAR", r"(?<=TBLPROPERTIES\s)\S", "put the properties in parentheses"),
    ("STRING", r"(=|TO\b|IS\b)(?=\s*['\"])", lambda found: f"leave {found[1].upper()} out"),
    ("_AS", r"USING", "leave USING out: a stream table is always a Delta table"),
    ("_MODE", r"AUTO|DIFFERENTIAL|FULL", "write REFRESH MODE and then the mode"),
    ("_REFRESH", r"MODE\b", "write REFRESH MODE and then the mode"),
    ("_CASCADE _FULL", r"AUTO|DIFFERENTIAL|INCREMENTAL", "leave it out: REFRESH MODE of the table decides"),
    ("_TABLE", r"VIEW\b", "write STREAM TABLE"),
    ("_STREAM", r"(?:(?<=REFRESH\s)|(?<=VERIFY\s))ALL\b", "leave ALL out: STREAM TABLES without a name are all of them"),
    ("_STREAM", r"(?<=VERIFY\s)TABLE\b", "write VERIFY STREAM TABLE name"),
    ("_TABLE", r"(?<=STREAM\s)[\w`]", "write STREAM TABLE in front of the name"),
    ("_REFRESH _STREAM", r"HISTORY\b", "write SHOW REFRESH HISTORY"),
    ("_FOR _LIMIT", r"(?:OF|ON|IN|FROM)\s", "write FOR and then the name"),
    ("_FOR _LIMIT", r"[\w`]", "write FOR in front of the name"),
    ("_RESUME", r"PAUSE|STOP|DISABLE", "write SUSPEND"),
    ("_RESUME", r"START|ENABLE|UNPAUSE", "write RESUME"),
    ("_RESUME", r"REFRESH\s+MODE|SCHEDULE|STATE|TBLPROPERTIES", lambda found: f"write SET {' '.join(found[0].upper().split())}"),
    ("_RESUME", r"REFRESH\b", "write REFRESH STREAM TABLE name"),
    ("_MODE", r"EVERY|AT|ON", "write the time of refreshes after SCHEDULE, for example SCHEDULE '1m'"),
    ("_DIFFERENTIAL", r"IMMEDIATE", "write SCHEDULE IMMEDIATE: a write returns when the table is refreshed"),
    ("_DIFFERENTIAL", r"INCREMENTAL", "the mode that computes what changed is called DIFFERENTIAL"),
    ("_RESUME", r"(?:UNSET|REMOVE)\s+SCHEDULE", "write DROP SCHEDULE"),
    ("_TBLPROPERTIES", r"(?<=UNSET\s)SCHEDULE", "write DROP SCHEDULE"),
    ("", rf"(?:(?<=\bIN\sSCHEMA\s)|(?<=\bFROM\sSCHEMA\s)|(?<=\b(?:IN|OF)\sDATABASE\s)|(?<=\bFROM\sDATABASE\s))({_NAME})", _in),
    ("_DEPENDENCIES", r"", "SHOW STREAM TABLES lists all of them, DESCRIBE STREAM TABLE name tells of one"),
    ("_LIKE", r"[\w`]", "STREAM TABLE takes a name; STREAM TABLES takes IN and a schema, or LIKE and a pattern"),
    ("_COMMENT _RPAR", r"(?<=\(SELECT\s).", "write AS in front of the query"),
    ("_COMMENT _RPAR", r"\w+", "leave the type out: a column gets the type that the query gives it"),
    ("NAME", r"AS\b", "put it in backquotes if it is a name; AS is the only word that needs them"),
    ("NAME", r"['\"]", "quotes make a string; put a name in backquotes"),
    ("NAME", r"\w*[^\W_a-zA-Z0-9]", BACKQUOTES),
    ("NAME", r"\d", BACKQUOTES),
    ("_DOT", r"[-$#@:]", BACKQUOTES),
    ("STRING", r"[\w/]", "put it in quotes"),
    ("$END", r"(?<=SCHEDULE\s)IF\s+EXISTS|(?<=TRIGGER\s)IF\s+EXISTS", "leave IF EXISTS out: without a schedule nothing changes"),
    ("", r"(?<=\bIF\s)EXISTS\b", _exists),
    ("", r"IF\s+(NOT\s+)?EXISTS\b", _if_exists),
    ("$END", r"(?<=SYNC\s)FULL\b", "write FULL in front of SYNC or ASYNC"),
    ("$END", r"(?<=CASCADE\s)FULL\b", "write FULL in front of CASCADE"),
    ("$END", r"(?:IN|FROM)\s+[\w`]", "write IN and the schema in front of LIKE"),
    ("_LIKE", r"['\"]", "write LIKE in front of the pattern"),
    ("$END", r"CASCADE\b", "leave CASCADE out: it is for REFRESH and DROP"),
    ("$END", r"(?<=FORMATTED\s)[\w`]", "write EXTENDED in place of FORMATTED"),
    ("$END", rf",?\s*(?:{_CHANGES})\b", _ONE_CHANGE),
    ("_CASCADE", r",", "write a statement for each table; CASCADE takes along those that read it"),
    ("$END", r",", _for_each),
    ("_RESUME", r",", "write a statement for each table"),
    ("", r"/\*\+", "hints belong into the query, behind AS"),
)
"""Terminals that were all expected there, what stands there instead, what to do about it; the first that fits counts."""


def advice(text: str, start: int, expected: set[str]) -> str | None:
    """Return what to do about what stands at `start` in place of the terminals that were expected there."""
    for terminals, pattern, told in _ADVICE:
        if expected.issuperset(terminals.split()) and (found := re.compile(pattern, re.IGNORECASE).match(text, start)):
            said = told if isinstance(told, str) else told(found)
            if said is not None:
                return said
    return None
