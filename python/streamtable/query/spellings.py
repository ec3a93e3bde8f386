"""Hints for a query that Spark rejects: Spark's forms of standard SQL that Spark does not know."""

from __future__ import annotations

import re

from pyspark import __version__ as spark_version

from streamtable.language.pipelines import tables_themselves
from streamtable.query.rewrite import HAS_QUALIFY

__all__ = ["instead", "of_pipelines"]

_NO_QUERY = r"\s*\((?!\s*(?:SELECT|WITH|VALUES|FROM|TABLE)\b)"

_ORDERED = r"\s*\((?:[^()]|\([^()]*\))*\bORDER\s+BY\b"

_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"\bWITH\s+NO\s+DATA\s*$", "write WITH NO DATA in front of AS"),
    (r"\bWITH\s+DATA\s*$", "leave WITH DATA out: a stream table is filled unless WITH NO DATA is written in front of AS"),
    (
        rf"\b(?:array_agg|collect_list){_ORDERED}",
        "for array_agg(x ORDER BY y) write transform(array_sort(array_agg(struct(y, x))), e -> e.x)",
    ),
    (rf"(?<![<>!])=\s*(?:ANY|SOME){_NO_QUERY}", "for x = ANY (array) write array_contains(array, x)"),
    (rf"(?:<>|!=)\s*ALL{_NO_QUERY}", "for x <> ALL (array) write NOT array_contains(array, x)"),
    (rf"[<>]=?\s*(?:ANY|SOME){_NO_QUERY}", "for x > ANY (array) write exists(array, e -> x > e)"),
    (rf"[<>=]\s*ALL{_NO_QUERY}", "for x > ALL (array) write forall(array, e -> x > e)"),
    (
        r"\bDISTINCT\s+ON\s*\((?:[^()]*,)?\s*\d+\s*[,)]|\bDISTINCT\s+ON\b.*\bORDER\s+BY\s(?:[^()]*,)?\s*\d",
        "in DISTINCT ON and its ORDER BY write expressions in place of positions such as 1",
    ),
    (r"\bSIMILAR\s+TO\b", "for x SIMILAR TO 'a%' write x RLIKE '(?s)^a.*(?!.)', with a regular expression of Java"),
    (
        r"\bJSON_OBJECT\s*\(",
        "for JSON_OBJECT('a' VALUE x) write to_json(named_struct('a', x), map('ignoreNullFields', 'false'))",
    ),
    (r"\bJSON_ARRAY\s*\(", "for JSON_ARRAY(x, y) write to_json(array_compact(array(x, y))), with values of one type"),
    (
        rf"\bJSON_ARRAYAGG{_ORDERED}",
        "for JSON_ARRAYAGG(x ORDER BY y) write to_json(transform(array_sort(array_agg(struct(y, x))), e -> e.x))",
    ),
    (r"\bJSON_ARRAYAGG\s*\(", "for JSON_ARRAYAGG(x) write to_json(array_sort(array_agg(x)))"),
    (
        r"\bJSON_OBJECTAGG\s*\(",
        "for JSON_OBJECTAGG(k VALUE v) write to_json(map_from_entries(array_sort(array_agg(struct(k, v)))))",
    ),
    (
        r"\bIS\s+(?:NOT\s+)?JSON\b",
        "for x IS JSON write try_parse_json(x) IS NOT NULL; its kind is in schema_of_variant(try_parse_json(x))",
    ),
    (
        r"\bGROUPS\s+(?:BETWEEN|UNBOUNDED|CURRENT|\d)",
        "for GROUPS frames number the groups with dense_rank(), then use RANGE over it",
    ),
    (
        r"\bEXCLUDE\s+(?:CURRENT\s+ROW|GROUP|TIES)\b",
        "for EXCLUDE take the row's own value away from the function's, or use two frames",
    ),
)

_QUALIFY = (
    r"\bQUALIFY\b|\bDISTINCT\s+ON\s*\(",
    f"Spark {spark_version} has neither QUALIFY nor DISTINCT ON: number the rows by row_number() in a subquery, and take number 1",
)
"""The spelling that a Spark without QUALIFY needs."""

_NO_TIME = (
    r"UNRESOLVED_(?:COLUMN|ROUTINE).*?`(?:localtime|current_time)`",
    "write date_format(current_timestamp(), 'HH:mm:ss'): Delta stores no TIME",
)
"""The message about a time of day, and the hint."""

_STREAM_OR_LIVE = r"`(?:stream|live)`|streaming|PARSE_SYNTAX_ERROR"
"""Messages about STREAM or LIVE before a table: of the versions of Spark that know the first, and of those that do not."""

_RECURSIVE_UNION = "write UNION ALL, end the recursion by a condition in its step, and SELECT DISTINCT from it"


def instead(query: str, message: str) -> str | None:
    """Return the hint for a query and Spark's message about it, or None."""
    if hint := of_pipelines(query, message):
        return hint
    if "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE" in message:
        return _RECURSIVE_UNION
    if re.search(_NO_TIME[0], message, re.IGNORECASE):
        return _NO_TIME[1]
    spellings = _SPELLINGS if HAS_QUALIFY else (*_SPELLINGS, _QUALIFY)
    return next((hint for pattern, hint in spellings if re.search(pattern, query, re.IGNORECASE | re.DOTALL)), None)


def of_pipelines(query: str, message: str) -> str | None:
    """Return the hint for a query that reads a table as pipelines do, which Spark takes for a name of another schema or table."""
    if tables_themselves(query) == query or not re.search(_STREAM_OR_LIVE, message, re.IGNORECASE):
        return None
    return "name the table itself, without STREAM or LIVE: its changes are read anyway"
