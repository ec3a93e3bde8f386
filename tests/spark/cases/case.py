"""What a case is of a statement that is killed, or whose disk fails, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Step = str | Callable[[Path], None]
"""A statement, or what somebody does to the files of the warehouse."""

SETUP = (
    "CREATE TABLE sales (id INT, amount INT) USING delta",
    "INSERT INTO sales VALUES (1, 10), (2, 20), (2, 20)",
)
QUERY = "SELECT id, max(amount) AS most, count(*) AS n FROM sales GROUP BY id HAVING count(*) < 9"
TABLE, QUEUE = f"CREATE STREAM TABLE st AS {QUERY}", "CREATE QUEUE jobs (body STRING)"
NAMES = ("st", "other", "above", "jobs", "sold", "goods", "stock", "more", "kept", "shelf", "copies.shelf", "copies.shelves")
"""The names that statements of the cases make, and of which one is free or whole."""


@dataclass(frozen=True)
class Case:
    """A statement, what is done before it, and queries that answer the same afterwards as without a fault."""

    statement: str
    before: tuple[Step, ...] = ()
    after: tuple[str, ...] = ()
    finally_: tuple[Step, ...] = ()
    then: tuple[str, ...] = ()
    """What succeeds afterwards."""
    refused: bool = False
    """Tell whether the definition of `st` has to be refused before the statement."""
