"""Hints for a query that Spark rejects: Spark's forms of standard SQL that Spark does not know."""

from __future__ import annotations

import re

from pyspark import __version__ as spark_version

from streamtable.query.rewrite import HAS_QUALIFY

__all__ = ["instead"]

_SPELLINGS: tuple[tuple[str, str], ...] = (
    (
        r"\barray_agg\s*\([^()]*\bORDER\s+BY\b",
        "for array_agg(x ORDER BY y) write transform(array_sort(array_agg(struct(y, x))), e -> e.x)",
    ),
    (r"(?<![<>!])=\s*(?:ANY|SOME)\s*\(", "for x = ANY (array) write array_contains(array, x)"),
    (r"(?:<>|!=)\s*ALL\s*\(", "for x <> ALL (array) write NOT array_contains(array, x)"),
    (r"[<>]=?\s*(?:ANY|SOME)\s*\(", "for x > ANY (array) write exists(array, e -> x > e)"),
    (r"[<>=]\s*ALL\s*\(", "for x > ALL (array) write forall(array, e -> x > e)"),
    (r"\bSIMILAR\s+TO\b", "for x SIMILAR TO 'a%' write x RLIKE '^a.*$', with a regular expression of Java"),
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

_RECURSIVE_UNION = "write UNION ALL, end the recursion by a condition in its step, and SELECT DISTINCT from it"


def instead(query: str, message: str) -> str | None:
    """Return the hint for a query and Spark's message about it, or None."""
    if "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE" in message:
        return _RECURSIVE_UNION
    spellings = _SPELLINGS if HAS_QUALIFY else (*_SPELLINGS, _QUALIFY)
    return next((hint for pattern, hint in spellings if re.search(pattern, query, re.IGNORECASE)), None)
