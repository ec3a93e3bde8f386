"""Words of pipelines, as Databricks and Spark have them, that mean stream tables: STREAMING TABLE, LIVE TABLE, STREAM and LIVE."""

from __future__ import annotations

import re

from streamtable.errors import StatementSyntaxError
from streamtable.language.comments import divided

__all__ = ["from_pipelines", "tables_themselves"]

_PART = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_LIVE = r"LIVE\s*\.\s*"
_STATEMENT = re.compile(
    r"\s*(?P<verb>CREATE(?:\s+OR\s+(?:REFRESH|REPLACE))?|REFRESH|ALTER|DROP)\s+(?:(?P<hidden>PRIVATE|TEMPORARY|TEMP)\s+)?"
    r"(?P<kind>(?:STREAMING\s+)?LIVE\s+(?:TABLE|(?P<view>VIEW))|STREAMING\s+TABLE)\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_BEHIND_A_TABLE = (
    "AS WHERE GROUP ORDER SORT CLUSTER DISTRIBUTE HAVING LIMIT OFFSET WINDOW QUALIFY UNION EXCEPT MINUS INTERSECT JOIN "
)
_BEHIND_A_TABLE += "INNER CROSS LEFT RIGHT FULL ANTI SEMI NATURAL LATERAL ON USING TABLESAMPLE PIVOT UNPIVOT VERSION TIMESTAMP FOR"
_WORDS = re.compile(
    r"(?P<kept>--[^\r\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    rf"|\bSTREAM\s*\(\s*(?P<inside>{_NAME})\s*\)"
    rf"|(?P<before>\b(?:FROM|JOIN)\s+)(?:STREAM\s+(?!(?:{'|'.join(_BEHIND_A_TABLE.split())})\b)(?:{_LIVE})?|{_LIVE})(?={_PART})",
    re.IGNORECASE | re.DOTALL,
)
_FILES = re.compile(r"\b(?:read_files|cloud_files|read_kafka)\s*\(", re.IGNORECASE)


def tables_themselves(query: str) -> str:
    """Return a query without STREAM and LIVE before its tables."""

    def said(found: re.Match[str]) -> str:
        inside = found["inside"] and re.sub(rf"^{_LIVE}", "", found["inside"], flags=re.IGNORECASE)
        return found["kept"] or inside or found["before"] or ""

    return _WORDS.sub(said, query)


def from_pipelines(text: str) -> StatementSyntaxError | None:
    """Return the error for a statement of pipelines, with ours in its hint; None for any other text."""
    header, query = divided(text)
    found = _STATEMENT.fullmatch(header)
    if found is None:
        return None
    ours, left = "VIEW" if found["view"] else "STREAM TABLE", list[str]()
    if found["hidden"]:
        left.append(f"leave {found['hidden'].upper()} out: it is one of its schema")
    if _FILES.search(query):
        left.append("write the files into a table of Delta first, by INSERT or by Structured Streaming, and read that table")
    verb = " ".join(found["verb"].upper().split())
    if verb.startswith("CREATE") and not query:
        left.append("its query belongs to it: there is no flow that fills it from elsewhere")
        query = "SELECT * FROM source"
    rest = found["rest"].strip()
    statement = f"{verb} {ours} {rest}" + (f" AS {tables_themselves(query)}" if query else "")
    kind = " ".join(found["kind"].upper().split())
    return StatementSyntaxError(
        f"{kind} is a word of pipelines: here it is {ours}", hint="\n".join((*left, "write", statement, ""))
    )
