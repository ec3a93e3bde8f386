"""Names of tables and texts of queries, as all statements hold them."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamtable.sql.literals import quote_name

__all__ = ["UNREAD", "Name", "Query"]

UNREAD = "{}"
"""The columns of the tables of a query that was not analysed yet."""


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
    a JSON object; UNREAD before it.
    """

    text: str
    offset: int = field(default=0, compare=False)
    line: int = field(default=1, compare=False)
    column: int = field(default=1, compare=False)
    columns: str = field(default=UNREAD, compare=False, repr=False)
