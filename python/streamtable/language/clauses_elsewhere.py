"""Clauses of Snowflake's and Fabric's statements, each said by a clause of ours, or told what serves in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from streamtable.language.advice_times import NO_SCHEDULE
from streamtable.language.comments import pieces
from streamtable.language.stream_table.in_words import scheduled
from streamtable.sql.literals import listed, quote_name, words

__all__ = ["FULL_NAME", "GROUP", "Said", "columns", "in_our_words", "named", "selected", "shown"]

NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
FULL_NAME = rf"{NAME}(?:\s*\.\s*{NAME})*"
_STRING = r"'((?:[^'\\]|\\.|'')*)'"
GROUP = "\1{}\1"
"""Stands for parentheses and what is in them: its number."""

_GROUP = r"\s*\x01(\d+)\x01"

_ONLY_COLUMNS = re.compile(rf"\s*{NAME}(?:\s*,\s*{NAME})*\s*")
_PART = re.compile(r"`(?:[^`]|``)+`|[\w$]+")
_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\x01\d+\x01|[\w$]+|\s+|.", re.DOTALL)
_PLAIN = re.compile(r"\w+", re.ASCII)

_NO_WAREHOUSE = "WAREHOUSE has no meaning here: the session, or the scheduler, does the work"
_OF_ONE_SCHEMA = "SHOW STREAM TABLES is of one schema: SELECT * FROM stream_tables() has those of all schemas"
_UNDERLINE = "in a pattern _ stands for itself alone, and * for any text"
_COLUMNS = "columns are listed with a name and a comment, without a type: the query decides what they hold"
_ONLY_CHECKS = "a constraint is CONSTRAINT name EXPECT (condition) [ON VIOLATION DROP ROW | FAIL UPDATE]"

Clauses: TypeAlias = tuple[tuple[str, str, str], ...]

_CLAUSES: Clauses = (
    (r"TARGET_LAG\s*=\s*'?DOWNSTREAM\b'?", "SCHEDULE CALCULATED", ""),
    (rf"TARGET_LAG\s*=\s*{_STRING}", "SCHEDULE {time}", "TARGET_LAG = '{0}' has no like here: {no_schedule}"),
    (r"REFRESH_MODE\s*=\s*'?INCREMENTAL\b'?", "REFRESH MODE DIFFERENTIAL", ""),
    (r"REFRESH_MODE\s*=\s*'?(AUTO|FULL)\b'?", "REFRESH MODE {0}", ""),
    (r"INITIALIZE\s*=\s*'?ON_SCHEDULE\b'?", "WITH NO DATA", ""),
    (r"INITIALIZE\s*=\s*'?ON_CREATE\b'?", "", ""),
    (rf"(?:INITIALIZATION_)?WAREHOUSE\s*=\s*(?:{NAME}|{_STRING})", "", _NO_WAREHOUSE),
    (rf"BACKFILL\s+FROM\s+({FULL_NAME})", "BACKFILL FROM {name}", ""),
    (rf"IMMUTABLE\s+WHERE{_GROUP}", "FROZEN WHERE ({group})", ""),
    (rf"(PARTITIONED|CLUSTER)\s+BY{_GROUP}", "{0} BY ({columns})", "{0} BY takes names: give ({group}) a name in the query"),
    (rf"COMMENT\s*(?:=\s*)?{_STRING}", "COMMENT '{0}'", ""),
    (rf"TBLPROPERTIES{_GROUP}", "TBLPROPERTIES ({group})", ""),
)
"""A clause, ours, and what to know of it where there is none of ours, or where ours cannot say it."""

_SELECTIONS: Clauses = (
    (rf"(?:LIKE|ILIKE)\s+{_STRING}", "LIKE '{pattern}'", ""),
    (rf"STARTS\s+WITH\s+{_STRING}", "LIKE '{0}*'", ""),
    (r"IN\s+SCHEMA\s*(?=$|STARTS\b|LIMIT\b|LIKE\b)", "", ""),
    (rf"IN\s+(?:ACCOUNT|(?:DATABASE|APPLICATION)(?:\s+(?!STARTS\b|LIMIT\b|LIKE\b){FULL_NAME})?)", "", _OF_ONE_SCHEMA),
    (rf"(?:IN|FROM)\s+(?:SCHEMA\s+)?({FULL_NAME})", "IN {name}", ""),
    (rf"LIMIT\s+\d+(?:\s+FROM\s+{_STRING})?", "", "leave LIMIT out: SELECT * FROM stream_tables() LIMIT 10 has one"),
)

_CHECK = re.compile(
    rf"\s*CONSTRAINT\s+({NAME})\s+CHECK\s*\((?P<condition>.*)\)\s*(?:ON\s+MISMATCH\s+(?P<deed>DROP|FAIL)\s*)?",
    re.IGNORECASE | re.DOTALL,
)
_COLUMN = re.compile(rf"\s*({NAME})(?P<type>.*?)(?:\bCOMMENT\s+(?P<comment>{_STRING}))?(?P<rest>[^']*)", re.IGNORECASE | re.DOTALL)
_VIOLATIONS = {"DROP": "DROP ROW", "FAIL": "FAIL UPDATE"}


@dataclass(frozen=True)
class Said:
    """Clauses of ours, and what to know of those that are left out."""

    clauses: tuple[str, ...]
    told: tuple[str, ...]


def named(name: str) -> str:
    """Return a name as we write it: other characters than ASCII letters, digits and _ are in backquotes."""
    return _PART.sub(lambda part: part[0] if part[0][0] == "`" or _PLAIN.fullmatch(part[0]) else quote_name(part[0]), name)


def in_our_words(text: str, groups: Sequence[str], known: Clauses = _CLAUSES) -> Said:
    """Return the clauses of a text in our words, and tell of all others."""
    clauses, told, left, at = list[str](), list[str](), list[str](), 0

    def leave() -> None:
        if left:
            told.append(f"{shown(' '.join(left), groups)} has no like here")
            left.clear()

    while at < len(text):
        if found := next((each for each in _found(text, at, known)), None):
            leave()
            clause, note = _said(*found, groups)
            clauses += [clause] if clause else []
            told += [note] if note and note not in told else []
            at = found[0].end()
        else:
            piece = _PIECE.match(text, at)
            assert piece, "any character is a piece"
            left += [piece[0]] if piece[0].strip(" \t\r\n,") else []
            at = piece.end()
    leave()
    return Said(tuple(clauses), tuple(told))


def selected(text: str, groups: Sequence[str]) -> Said:
    """Return what SHOW selects, the schema first, in our words."""
    said = in_our_words(text, groups, _SELECTIONS)
    told = [_UNDERLINE] if any("_" in each for each in said.clauses if each.startswith("LIKE") and "LIKE" in text.upper()) else []
    return Said(tuple(sorted(said.clauses)), (*said.told, *told))  # IN goes before LIKE


def columns(text: str) -> Said:
    """Return a list of columns and constraints in our words."""
    clauses, told = list[str](), list[str]()
    for item in _divided(text):
        if check := _CHECK.fullmatch(item):
            deed = _VIOLATIONS[(check["deed"] or "FAIL").upper()]
            clauses.append(f"CONSTRAINT {named(check[1])} EXPECT ({check['condition']}) ON VIOLATION {deed}")
        elif re.match(r"\s*(?:CONSTRAINT|PRIMARY|FOREIGN|UNIQUE|CHECK)\b", item, re.IGNORECASE):
            told.append(_ONLY_CHECKS)
        elif column := _COLUMN.fullmatch(item):
            clauses.append(words(named(column[1]), column["comment"] and f"COMMENT {column['comment']}"))
            told += [_COLUMNS] if column["type"].strip() or column["rest"].strip() else []
        else:
            told.append(_COLUMNS)
    return Said((listed(clauses),) if clauses else (), tuple(dict.fromkeys(told)))


def shown(text: str, groups: Sequence[str]) -> str:
    """Return a text with its parentheses."""
    return re.sub(_GROUP.removeprefix(r"\s*"), lambda group: f"({groups[int(group[1])]})", text)


def _found(text: str, at: int, known: Clauses) -> Iterator[tuple[re.Match[str], str, str]]:
    if at and re.match(r"[\w$]{2}", text[at - 1 : at + 1]):  # inside a word
        return
    for pattern, ours, told in known:
        if found := re.compile(pattern, re.IGNORECASE).match(text, at):
            yield found, ours, told


def _said(found: re.Match[str], ours: str, told: str, groups: Sequence[str]) -> tuple[str, str]:
    """Return a clause in our words, and what to know; ours is empty where it cannot say what the clause says."""
    first, last = (found[1] or "", found[found.lastindex or 0]) if found.lastindex else ("", "")
    group = groups[int(last)] if last.isdigit() and "group" in f"{ours}{told}" else ""
    parts = {
        "time": scheduled(first) or "",
        "name": named(first),
        "group": group,
        "columns": named(group.strip()) if _ONLY_COLUMNS.fullmatch(group) else "",
        "pattern": first.replace(r"\\_", "_").replace("%", "*"),
        "no_schedule": NO_SCHEDULE,
    }
    says = ours and all(parts[each] for each in ("time", "columns") if f"{{{each}}}" in ours)
    word = first.upper() if first.isalpha() and "'{0}" not in ours else first
    return (ours.format(word, **parts), "") if says else ("", told.format(word, **parts))


def _divided(text: str) -> Iterator[str]:
    """Yield what stands between the commas of a list."""
    depth, opens = 0, 0
    for _, start, end in pieces(text, strict=False):
        depth += {"(": 1, ")": -1}.get(text[start:end], 0)
        if depth == 0 and text[start:end] == ",":
            yield text[opens:start]
            opens = end
    yield text[opens:]
