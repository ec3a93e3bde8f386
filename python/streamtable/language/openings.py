"""Statements that open with words which are nobody's, as people try them: what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from streamtable.errors import StatementSyntaxError
from streamtable.language.comments import without_comments
from streamtable.sql.literals import words

__all__ = ["from_openings"]

_NAME = r"(?:`(?:[^`]|``)+`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|\w+))*"
_TABLE = rf"(?:STREAM\s+TABLE|MATERIALIZED\s+VIEW)\s+(?P<exists>IF\s+EXISTS\s+)?(?P<name>{_NAME})"
_CHANGES = re.compile(
    rf"(?:CREATE\s+FLOW\s+{_NAME}\s+AS\s+)?(?:APPLY\s+CHANGES|AUTO\s+CDC)\s+INTO\s+(?P<target>{_NAME})"
    rf"(?:\s+FROM\s+(?:STREAM\s*\(?\s*)?(?P<source>{_NAME})\s*\)?\s*KEYS\s*\((?P<keys>[^()]*)\)(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_SEQUENCE = re.compile(rf"\bSEQUENCE\s+BY\s+({_NAME})", re.IGNORECASE)
_DELETED = re.compile(
    r"\bAPPLY\s+AS\s+DELETE\s+WHEN\s+(.*?)(?=\s+(?:SEQUENCE|COLUMNS|STORED|TRACK|APPLY)\b|;|$)", re.IGNORECASE | re.DOTALL
)

Said: TypeAlias = Callable[[re.Match[str]], str]


def _alter(action: str) -> Said:
    return lambda found: f"write ALTER STREAM TABLE {found['name']} {action}"


def _of_delta(found: re.Match[str]) -> str:
    verb = found[0].split()[0].upper()
    return f"write {verb} {found['name']}: to Delta's statements a stream table is a table, and no row of it changes by that"


_OPENINGS: tuple[tuple[str, Said], ...] = (
    (rf"(?:SUSPEND|PAUSE|STOP|DISABLE)\s+{_TABLE}", _alter("SUSPEND")),
    (rf"(?:RESUME|START|UNPAUSE|ENABLE)\s+{_TABLE}", _alter("RESUME")),
    (rf"RENAME\s+{_TABLE}", _alter("RENAME TO and the new name")),
    (rf"(?:OPTIMIZE|VACUUM)\s+{_TABLE}", _of_delta),
    (rf"ANALYZE\s+{_TABLE}", lambda _: "leave it out: the log of a table of Delta holds its statistics"),
    (
        rf"TRUNCATE\s+{_TABLE}",
        lambda found: f"nothing but a refresh writes to it: REFRESH STREAM TABLE {found['name']} FULL computes it anew",
    ),
    (rf"UNDROP\s+{_TABLE}", lambda _: "a stream table is dropped with its files: write its CREATE STREAM TABLE again"),
    (rf"DESC(?:RIBE)?\s+HISTORY\s+{_TABLE}", lambda found: f"write SHOW REFRESH HISTORY FOR {found['name']}"),
    (rf"DESC(?:RIBE)?\s+(?:EXTENDED|FORMATTED)\s+{_TABLE}", lambda found: f"write DESCRIBE STREAM TABLE EXTENDED {found['name']}"),
    (
        rf"EXPLAIN\s+(?P<word>EXTENDED|FORMATTED|CODEGEN|COST)\s+(?:CREATE\b|{_TABLE})",
        lambda found: f"leave {found['word'].upper()} out: EXPLAIN says all that it knows; EXPLAIN DELTA has the SQL",
    ),
    (
        rf"CREATE\s+(?:OR\s+\w+\s+)?(?P<word>PRIVATE|TEMPORARY|TEMP)\s+{_TABLE}",
        lambda found: (
            f"leave {found['word'].upper()} out: a stream table is one of its schema; CREATE TEMPORARY VIEW is of a session"
        ),
    ),
)


def from_openings(text: str) -> StatementSyntaxError | None:
    """Return the error for a statement that opens with such words; None for any other text."""
    plain = without_comments(text).strip()
    if changes := _CHANGES.match(plain):
        what = "APPLY CHANGES" if re.search(r"\bAPPLY\s+CHANGES\b", changes[0], re.IGNORECASE) else "AUTO CDC"
        return StatementSyntaxError(f"{what} is a word of Databricks: here a query says it", hint=_instead(changes))
    for pattern, said in _OPENINGS:
        if found := re.match(pattern, plain, re.IGNORECASE | re.DOTALL):
            return StatementSyntaxError(f"there is no statement {_opening(found)}", hint=said(found))
    return None


def _opening(found: re.Match[str]) -> str:
    return words(*found[0][: found.start("name") - found.start() if found["name"] else None].upper().split())


def _instead(changes: re.Match[str]) -> str:
    """Return the stream table that holds what the changes would make; people read it, nobody runs it unread."""
    rest = changes["rest"] or ""
    if re.search(r"\bBITEMPORAL\b", changes.string, re.IGNORECASE):
        return "bitemporal tables are not built: keep both times as columns, and let lead() over each say until when a row holds"
    ordered = _SEQUENCE.search(rest)
    if not ordered:
        numbered = "SELECT *, row_number() OVER (PARTITION BY key ORDER BY time DESC) AS nth FROM source"
        return f"write CREATE STREAM TABLE name AS SELECT * EXCEPT (nth) FROM ({numbered}) WHERE nth = 1"  # noqa: S608
    keys, at, source, target = changes["keys"].strip(), ordered[1], changes["source"], changes["target"]
    if re.search(r"\bSCD\s+TYPE\s+2\b", rest, re.IGNORECASE):
        until = f"lead({at}) OVER (PARTITION BY {keys} ORDER BY {at}) AS valid_to"
        query = f"SELECT *, {at} AS valid_from, {until} FROM {source}"  # noqa: S608
    else:
        # Not DISTINCT ON, which needs Spark 4.2.
        numbered = f"SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {at} DESC) AS nth FROM {source}"  # noqa: S608
        query = f"SELECT * EXCEPT (nth) FROM ({numbered}) WHERE nth = 1"  # noqa: S608
        gone = _DELETED.search(rest)
        query = f"SELECT * FROM ({query}) WHERE ({gone[1].strip()}) IS NOT TRUE" if gone else query  # noqa: S608
    return f"write\nCREATE STREAM TABLE {target} AS {query}\n"
