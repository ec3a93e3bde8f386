"""Statements of Snowflake and of Fabric that mean stream tables, said in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamtable.errors import StatementSyntaxError
from streamtable.language.advice import NO_SCHEDULE
from streamtable.language.comments import divided
from streamtable.language.stream_table.in_words import scheduled
from streamtable.sql.literals import words

__all__ = ["from_elsewhere"]

_NAME = r'(?:`(?:[^`]|``)+`|"[^"]+"|[\w$]+)'
_FULL_NAME = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_KINDS = r"(?:TRANSIENT\s+)?(?P<kind>DYNAMIC(?:\s+ICEBERG)?\s+TABLE|MATERIALIZED\s+LAKE\s+VIEW)(?P<many>S)?"
_CREATE = re.compile(
    rf"\s*(?P<explain>EXPLAIN\s+)?CREATE\s+(?P<replace>OR\s+\w+\s+)?{_KINDS}\s+"
    rf"(?P<exists>IF\s+NOT\s+EXISTS\s+)?(?P<name>{_FULL_NAME})(?P<clauses>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER = re.compile(rf"\s*(?P<verb>[A-Z]+(?:\s+CREATE)?)\s+{_KINDS}(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_STRING = r"('(?:[^'\\]|\\.|'')*'(?!'))"
"""A string, which ends where no other quote follows: a search that fails tries each text once."""

_CONDITION = r"(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))"
"""A condition in parentheses, with two levels of them inside."""

_LAG = r"TARGET_LAG\s*=\s*'(?!DOWNSTREAM)([^']*)'"

# What a clause there is here; what is in none of them has no meaning here.
_CLAUSES: tuple[tuple[str, str], ...] = (
    (r"TARGET_LAG\s*=\s*'?DOWNSTREAM'?", "SCHEDULE CALCULATED"),
    (_LAG, "SCHEDULE"),
    (r"REFRESH_MODE\s*=\s*'?INCREMENTAL'?", "REFRESH MODE DIFFERENTIAL"),
    (r"REFRESH_MODE\s*=\s*'?FULL'?", "REFRESH MODE FULL"),
    (r"INITIALIZE\s*=\s*'?ON_SCHEDULE'?", "WITH NO DATA"),
    (rf"BACKFILL\s+FROM\s+({_FULL_NAME})", "BACKFILL FROM"),
    (rf"IMMUTABLE\s+WHERE\s*{_CONDITION}", "FROZEN WHERE"),
    (r"(?:PARTITIONED|CLUSTER)\s+BY\s*\([^()]*\)", ""),
    (rf"COMMENT\s*(?:=\s*)?{_STRING}", "COMMENT"),
    (rf"TBLPROPERTIES\s*\((?:[^()'\\]|{_STRING})*\)", ""),
)
_LEFT_OUT: tuple[tuple[str, str], ...] = (
    (r"\bWAREHOUSE\b", "WAREHOUSE has no meaning here: the session, or the scheduler, does the work"),
    (r"\bCONSTRAINT\b", "a constraint is CONSTRAINT name EXPECT (condition) [ON VIOLATION DROP ROW | FAIL UPDATE]"),
    (r"^\s*\((?!\s*CONSTRAINT)", "columns are listed with a name and a comment, without a type"),
)


def from_elsewhere(text: str) -> StatementSyntaxError | None:
    """Return the error for a statement of another system, with ours in its hint; None for any other text."""
    header, query = divided(text)
    if created := _CREATE.fullmatch(header):
        kind, ours = created["kind"], "\n".join((*_lines(created), *([f"AS {query}"] if query else [])))
        left = [told for pattern, told in _LEFT_OUT if re.search(pattern, created["clauses"], re.IGNORECASE)]
        left += _without_schedule(created["clauses"])
    elif other := _OTHER.fullmatch(header):
        kind, ours, left = other["kind"], _other(other), _without_schedule(other["rest"])
    else:
        return None
    spelt, system = " ".join(kind.upper().split()), "Snowflake" if kind.upper().startswith("DYNAMIC") else "Fabric"
    hint = "\n".join((*left, "write", ours, ""))
    return StatementSyntaxError(f"{spelt} is a word of {system}: here it is STREAM TABLE", hint=hint)


def _lines(created: re.Match[str]) -> Iterator[str]:
    replace = created["replace"] and "OR REPLACE"
    yield words(
        created["explain"] and "EXPLAIN", "CREATE", replace, "STREAM TABLE", created["exists"] and "IF NOT EXISTS", _name(created)
    )
    for pattern, ours in _CLAUSES:
        if (found := re.search(pattern, created["clauses"], re.IGNORECASE)) and (clause := _clause(ours, found)):
            yield clause


def _clause(ours: str, found: re.Match[str]) -> str | None:
    match ours:
        case "":
            return found[0]
        case "SCHEDULE":
            said = scheduled(found[1])
            return said and f"SCHEDULE {said}"
        case "COMMENT" | "FROZEN WHERE":
            return f"{ours} {found[1]}"
        case "BACKFILL FROM":
            return f"{ours} {_quoted(found[1])}"
        case _:
            return ours


def _without_schedule(clauses: str) -> list[str]:
    """Tell of a TARGET_LAG that no schedule says."""
    lag = re.search(_LAG, clauses, re.IGNORECASE)
    return [f"TARGET_LAG = '{lag[1]}' has no like here: {NO_SCHEDULE}"] if lag and not scheduled(lag[1]) else []


def _name(created: re.Match[str]) -> str:
    return _quoted(created["name"])


def _quoted(name: str) -> str:
    return name.replace('"', "`")


def _other(other: re.Match[str]) -> str:
    """Say a statement that has the same words but for the kind of object, and, in Snowflake, for some clauses."""
    rest = re.sub(r"SET\s+TARGET_LAG\s*=\s*'?DOWNSTREAM'?", "SET SCHEDULE CALCULATED", other["rest"], flags=re.IGNORECASE)
    rest = re.sub(rf"SET\s+{_LAG}", lambda lag: f"SET SCHEDULE {scheduled(lag[1]) or '...'}", rest, flags=re.IGNORECASE)
    rest = re.sub(r"\bUNSET\s+IMMUTABLE\b", "DROP FROZEN", rest, flags=re.IGNORECASE)
    rest = re.sub(r"\bSET\s+IMMUTABLE\s+WHERE\b", "SET FROZEN WHERE", rest, flags=re.IGNORECASE)
    if other["verb"].upper() == "ALTER" and (refreshed := re.fullmatch(r"(.*\S)\s+REFRESH\s*", rest, re.IGNORECASE | re.DOTALL)):
        return f"REFRESH STREAM TABLE{refreshed[1]}"
    return f"{other['verb'].upper()} STREAM TABLE{'S' if other['many'] else ''}{rest}"
