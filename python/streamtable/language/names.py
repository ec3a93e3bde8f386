"""Names of tables and texts of queries, as all statements hold them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from streamtable.sql.literals import quote_name

__all__ = ["COMMENT", "UNREAD", "Condition", "Name", "Query", "folded"]

UNREAD = "{}"
"""The columns of the tables of a query that was not analysed yet."""


COMMENT = "comment"
"""The property that is the table's comment, for Spark and for us."""


def folded(parts: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of a name as names are compared: Spark does not tell upper from lower case."""
    return tuple(part.casefold() for part in parts)


@dataclass(frozen=True)
class Name:
    """Hold the parts of a table's name, unquoted: at most catalog, schema and table. As text: in backquotes."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(map(quote_name, self.parts))


@dataclass(frozen=True)
class Query:
    """Hold the text after AS as it was written, and its start in the statement (line and column from 1).

    Two queries with the same text are equal, wherever they start. `columns` are the columns of its tables at the first analysis,
    and for a subscription the texts of its views and functions: a JSON object; UNREAD before it.
    """

    text: str
    offset: int = field(default=0, compare=False)
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)
    columns: str = field(default=UNREAD, compare=False, repr=False)


@dataclass(frozen=True)
class Condition:
    """Hold the text of a condition in parentheses, and where in the statement it starts (line and column from 1).

    Two conditions with the same text are equal, wherever they start.
    """

    text: str
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)
