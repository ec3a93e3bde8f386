"""Statements of Snowflake and of Fabric that mean stream tables, said in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamtable.errors import StatementSyntaxError
from streamtable.language.advice import as_duration
from streamtable.language.comments import pieces
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

# What a clause there is here; what is in none of them has no meaning here.
_CLAUSES: tuple[tuple[str, str], ...] = (
    (r"TARGET_LAG\s*=\s*'?DOWNSTREAM'?", "SCHEDULE CALCULATED"),
    (r"TARGET_LAG\s*=\s*'([^']*)'", "SCHEDULE"),
    (r"REFRESH_MODE\s*=\s*'?INCREMENTAL'?", "REFRESH MODE DIFFERENTIAL"),
    (r"REFRESH_MODE\s*=\s*'?FULL'?", "REFRESH MODE FULL"),
    (r"INITIALIZE\s*=\s*'?ON_SCHEDULE'?", "WITH NO DATA"),
    (r"(?:PARTITIONED|CLUSTER)\s+BY\s*\([^)]*\)", ""),
    (rf"COMMENT\s*=?\s*{_STRING}", "COMMENT"),
    (rf"TBLPROPERTIES\s*\((?:[^()'\\]|{_STRING})*\)", ""),
)
_LEFT_OUT: tuple[tuple[str, str], ...] = (
    (r"\bWAREHOUSE\b", "WAREHOUSE has no meaning here: the session, or the scheduler, does the work"),
    (r"\bCONSTRAINT\b", "CONSTRAINT is not built yet: put the condition into the query"),
    (r"^\s*\((?!\s*CONSTRAINT)", "columns are listed with a name and a comment, without a type"),
)


def from_elsewhere(text: str) -> StatementSyntaxError | None:
    """Return the error for a statement of another system, with ours in its hint; None for any other text."""
    header, query = _divided(text)
    if created := _CREATE.fullmatch(header):
        kind, ours = created["kind"], "\n".join((*_lines(created), *([f"AS {query}"] if query else [])))
        left = [told for pattern, told in _LEFT_OUT if re.search(pattern, created["clauses"], re.IGNORECASE)]
    elif other := _OTHER.fullmatch(header):
        kind, ours, left = other["kind"], _other(other), []
    else:
        return None
    spelt, system = " ".join(kind.upper().split()), "Snowflake" if kind.upper().startswith("DYNAMIC") else "Fabric"
    hint = "\n".join((*left, "write", ours, ""))
    return StatementSyntaxError(f"{spelt} is a word of {system}: here it is STREAM TABLE", hint=hint)


def _divided(text: str) -> tuple[str, str]:
    """Return what stands before the AS of the query, without comments, and the query."""
    kept, depth = list[str](), 0
    for kind, start, end in pieces(text, strict=False):
        depth += {"(": 1, ")": -1}.get(text[start:end], 0)
        if kind == "as" and depth == 0:
            return "".join(kept), text[end:].strip()
        kept.append(" " if kind in ("line", "block") else text[start:end])
    return "".join(kept).rstrip("; \n"), ""


def _lines(created: re.Match[str]) -> Iterator[str]:
    replace = created["replace"] and "OR REPLACE"
    yield words(
        created["explain"] and "EXPLAIN", "CREATE", replace, "STREAM TABLE", created["exists"] and "IF NOT EXISTS", _name(created)
    )
    for pattern, ours in _CLAUSES:
        if found := re.search(pattern, created["clauses"], re.IGNORECASE):
            yield _clause(ours, found)


def _clause(ours: str, found: re.Match[str]) -> str:
    match ours:
        case "":
            return found[0]
        case "SCHEDULE":
            return f"SCHEDULE '{as_duration(found[1])}'"
        case "COMMENT":
            return f"COMMENT {found[1]}"
        case _:
            return ours


def _name(created: re.Match[str]) -> str:
    return created["name"].replace('"', "`")


def _other(other: re.Match[str]) -> str:
    """Say a statement that has the same words but for the kind of object, and, in Snowflake, for REFRESH and TARGET_LAG."""
    rest = re.sub(
        r"SET\s+TARGET_LAG\s*=\s*'([^']*)'", lambda lag: f"SET SCHEDULE '{as_duration(lag[1])}'", other["rest"], flags=re.IGNORECASE
    )
    if other["verb"].upper() == "ALTER" and (refreshed := re.fullmatch(r"(.*\S)\s+REFRESH\s*", rest, re.IGNORECASE | re.DOTALL)):
        return f"REFRESH STREAM TABLE{refreshed[1]}"
    return f"{other['verb'].upper()} STREAM TABLE{'S' if other['many'] else ''}{rest}"
