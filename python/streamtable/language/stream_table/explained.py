"""The words by which programs know the rows of EXPLAIN CREATE and EXPLAIN ALTER: deployments, and the macros for dbt."""

from __future__ import annotations

__all__ = ["COLUMNS", "CREATE", "FOLLOWED_BY", "HELD_BY", "READS", "READ_BY", "REFUSED", "REPLACE", "SAME", "SAME_PLAN"]

REPLACE, CREATE = "Replace", "Create"
"""In the column of operators of the last row: another definition of a table, and a new table that is refused."""

COLUMNS = "Columns"
"""The table would get other columns."""

READS, READ_BY, FOLLOWED_BY = "Reads", "Read by", "Followed by"
"""The tables whose change may lift a refusal: one whose columns decide those of the table, a reader that uses a column, and a
reader, queue, publication or slot of any kind."""

HELD_BY = "Held by"
"""A queue, publication or slot that would lose its place if the table were dropped, and made anew, because of a refusal."""

SAME = "the definition is the same"
SAME_PLAN = "the plan of the query is the same: only the definition changes"
REFUSED = "it is refused: "
"""How the reason of the last row begins."""
