"""Statements of Snowflake and of Fabric that mean stream tables, said in our words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from streamtable.errors import StatementSyntaxError, StreamTableError
from streamtable.language.clauses_elsewhere import FULL_NAME, GROUP, Said, columns, in_our_words, named, selected, shown
from streamtable.language.comments import pieces
from streamtable.sql.literals import quote_name, words

__all__ = ["from_elsewhere"]

_KINDS = r"(?:TRANSIENT\s+)?(?P<kind>DYNAMIC(?:\s+ICEBERG)?\s+TABLE|MATERIALIZED\s+LAKE\s+VIEW)(?P<many>S)?\b"
_OPENING = re.compile(rf"(?:EXPLAIN\s+)?[A-Z]+\s+(?:OR\s+[A-Z]+\s+|CREATE\s+)?{_KINDS}", re.IGNORECASE)
_WORDS = 8  # in an opening

_ONE = rf"{_KINDS}\s+(?P<exists>IF\s+(?:NOT\s+)?EXISTS\s+)?(?P<name>{FULL_NAME})"
_CREATE = rf"(?P<explain>EXPLAIN\s+)?CREATE\s+(?P<replace>OR\s+\w+\s+)?{_ONE}\s*(?:\x01(?P<columns>\d+)\x01)?(?P<clauses>.*)"
_CLONE = rf"CREATE\s+(?:OR\s+\w+\s+)?{_ONE}\s+CLONE\s+(?P<source>{FULL_NAME}).*"
_ALTER = rf"ALTER\s+{_ONE}\s+"
_SHOW = rf"SHOW\s+{_KINDS}(?P<selection>.*)"
_OTHER = rf"(?P<verb>[A-Z]+(?:\s+CREATE)?)\s+{_ONE}(?P<rest>.*)"

_ANEW = "CREATE OR REPLACE STREAM TABLE, with the same query, changes the CLUSTER BY of a table that nothing reads"
_ALONE = "leave it out: the scheduler compacts, as spark.streamtable.maintenance.smallFiles says"

# A statement, ours, and what to know. In `ours` {name} is the table, {rest} what follows, and {to} another name.
_STATEMENTS: tuple[tuple[str, str, str], ...] = (
    (_CLONE, "SHOW CREATE STREAM TABLE {source}", "a stream table is not cloned: create {name} with the query of {source}"),
    (rf"UNDROP\s+{_ONE}.*", "", "a stream table is dropped with its files: write its CREATE STREAM TABLE again"),
    (rf"{_ALTER}(?P<rest>SUSPEND|RESUME)", "ALTER STREAM TABLE {name} {rest}", ""),
    (rf"{_ALTER}RENAME\s+TO\s+(?P<to>{FULL_NAME})", "ALTER STREAM TABLE {name} RENAME TO {to}", ""),
    (rf"{_ALTER}REFRESH", "REFRESH STREAM TABLE {name}", ""),
    (
        rf"{_ALTER}REFRESH\s+COPY\s+SESSION",
        "REFRESH STREAM TABLE {name}",
        "leave COPY SESSION out: a refresh has the settings that CREATE captured",
    ),
    (rf"{_ALTER}UNSET\s+COMMENT", "ALTER STREAM TABLE {name} SET COMMENT ''", ""),
    (rf"{_ALTER}UNSET\s+IMMUTABLE", "ALTER STREAM TABLE {name} DROP FROZEN", ""),
    (rf"{_ALTER}(?:CLUSTER\s+BY|DROP\s+CLUSTERING\s+KEY).*", "", _ANEW),
    (rf"{_ALTER}(?:SUSPEND|RESUME)\s+RECLUSTER", "", _ALONE),
    (
        rf"{_ALTER}SWAP\s+WITH\s+(?P<to>{FULL_NAME})",
        "",
        "two tables do not change their names at once: ALTER STREAM TABLE ... RENAME TO, three times, exchanges {name} and {to}",
    ),
)

Check = Callable[[str], object]


@dataclass(frozen=True)
class _Told:
    """What to write, and what to know; nothing to write where there is no such statement of ours."""

    ours: tuple[str, ...]
    know: tuple[str, ...]


def from_elsewhere(text: str, parse: Check) -> StatementSyntaxError | None:
    """Return the error for a statement of another system, with ours in its hint; None for any other text.

    `parse` raises an error for what is no statement of ours, which is never told.
    """
    opening = _OPENING.match(" ".join(islice(_first_words(text), _WORDS)))
    if opening is None:
        return None
    spelt = " ".join(opening["kind"].upper().split())
    snowflake = spelt.startswith("DYNAMIC")
    header, groups, query = _divided(text.replace(GROUP[0], " "), snowflake)
    told = _told(header, groups, query)
    refused = {each: why for each in told.ours if (why := _refused(each, parse))}
    ours = [each for each in told.ours if each not in refused]
    know = [*told.know, *(f"{words(*shown(header, groups).split())} has no like here: {why}" for why in refused.values())]
    if re.match(rf"ALTER\s+{_KINDS}\s+IF\s+EXISTS\b", header, re.IGNORECASE) and ours:
        know.insert(0, "leave IF EXISTS out: ALTER of a table that is not there fails")
    hint = "\n".join((*know, *(["write", ";\n".join(ours), ""] if ours else [])))
    return StatementSyntaxError(
        f"{spelt} is a word of {'Snowflake' if snowflake else 'Fabric'}: here it is STREAM TABLE", hint=hint
    )


def _refused(statement: str, parse: Check) -> str | None:
    try:
        parse(statement)
    except StreamTableError as error:
        why = re.sub(r"^line \d+, column \d+: ", "", error.reason.splitlines()[0])
        return f"{why}; {error.hint}" if error.hint and "\n" not in error.hint else why
    return None


def _first_words(text: str) -> Iterator[str]:
    for kind, start, end in pieces(text, strict=False):
        if kind == "word":
            yield text[start:end]
        elif kind not in ("space", "line", "block"):
            return


def _divided(text: str, snowflake: bool) -> tuple[str, list[str], str]:
    """Return what stands before the AS of the query, the texts in its parentheses, and the query.

    The first has no comments, and a `GROUP` for each pair of parentheses. Snowflake's names in quotes are in backquotes.
    """
    kept, groups, depth, query, header = list[str](), list[str](), 0, False, ""
    for kind, start, end in pieces(text, strict=False):
        piece = text[start:end]
        if snowflake and kind == "quoted" and piece[0] == '"':
            piece = quote_name(piece[1:-1].replace('""', '"'))
        if query:
            kept.append(piece)
            continue
        piece = " " if kind in ("line", "block") else piece
        query = kind == "as" and depth == 0
        depth = max(0, depth + {"(": 1, ")": -1}.get(piece, 0))
        if query:
            header, kept = "".join(kept), []
        elif depth == 1 and piece == "(":
            kept.append(GROUP.format(len(groups)))
            groups.append("")
        elif depth > 0:
            groups[-1] += piece
        elif depth == 0 and piece != ")":
            kept.append(piece)
    return (header.strip(), groups, "".join(kept).strip()) if query else ("".join(kept).strip("; \t\r\n"), groups, "")


def _told(header: str, groups: list[str], query: str) -> _Told:
    def fits(pattern: str) -> re.Match[str] | None:
        return re.compile(pattern, re.IGNORECASE | re.DOTALL).fullmatch(header)

    for pattern, ours, know in _STATEMENTS:
        if found := fits(pattern):
            names = {key: named(value) for key, value in found.groupdict().items() if value and key in ("name", "to", "source")}
            rest = (found.groupdict().get("rest") or "").upper()
            told = know.format(rest=rest, **names)
            return _Told((ours.format(rest=rest, **names),) if ours else (), (told,) if told else ())
    if found := fits(rf"{_ALTER}SET\s+(?P<clauses>.*)"):
        return _set(found, groups)
    if found := fits(_CREATE):
        return _created(found, groups, query)
    if (found := fits(_SHOW)) and found["many"]:
        said = selected(found["selection"], groups)
        lists = not any("stream_tables()" in each and "LIMIT" not in each for each in said.told)
        return _Told((words("SHOW STREAM TABLES", *said.clauses),) if lists else (), said.told)
    if found := fits(_OTHER):
        verb = words(*found["verb"].upper().split())
        exists = found["exists"] if verb == "DROP" else None
        rest = shown(found["rest"], groups).strip()
        return _Told((words(verb, "STREAM TABLE", exists and "IF EXISTS", named(found["name"]), rest),), ())
    return _Told((), (f"{words(*shown(header, groups).split())} has no like here",))


def _set(found: re.Match[str], groups: list[str]) -> _Told:
    said = in_our_words(found["clauses"], groups)
    return _Told(tuple(f"ALTER STREAM TABLE {named(found['name'])} SET {each}" for each in said.clauses), said.told)


def _created(found: re.Match[str], groups: list[str], query: str) -> _Told:
    said = in_our_words(found["clauses"], groups)
    listed = columns(groups[int(found["columns"])]) if found["columns"] else Said((), ())
    opening = words(
        *(found["explain"] and "EXPLAIN", "CREATE", found["replace"] and "OR REPLACE", "STREAM TABLE"),
        *(found["exists"] and "IF NOT EXISTS", named(found["name"]), *listed.clauses),
    )
    if not query:
        return _Told((), (*listed.told, *said.told, f"{words(opening, *said.clauses)} needs AS and a query"))
    return _Told(("\n".join((opening, *said.clauses, f"AS {query}")),), (*listed.told, *said.told))
