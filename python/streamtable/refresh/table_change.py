"""The change of a table by a refresh: rows of negative net weight are located and removed, the others are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from sqlglot import exp

from streamtable.algebra.columns import WEIGHT, Column
from streamtable.algebra.identity import rows
from streamtable.delta.commit import Positions
from streamtable.engine.locate import NET, Current, Measured, locate
from streamtable.engine.workspace import Workspace
from streamtable.sql.builder import alias, call, cast, column, number, select, table

__all__ = ["NotWhatTheFrontierSays", "TableChange", "applied", "net"]


class NotWhatTheFrontierSays(Exception):
    """The table or an arrangement does not fit the frontier, for the reason in the text: the table must be rebuilt."""


@dataclass(frozen=True)
class TableChange:
    """The rows that a commit adds, and the positions that it removes; None where there are none.

    `probe` is the column that located the rows. With `whole`, the commit removes all other rows of the table.
    """

    add: DataFrame | None
    remove: Positions | None
    probe: str | None = None
    whole: bool = False


def net(columns: Sequence[Column], delta: exp.Subquery) -> exp.Select:
    """Return the query of the rows whose weights do not add up to zero, with their sum as NET. Raises TypeError as `rows` does."""
    items, keys = rows(columns)
    total = call("sum", column(WEIGHT.id))
    query = select([*items, alias(total, NET)], delta).group_by(*keys, copy=False)
    return query.having(exp.NEQ(this=total.copy(), expression=number(0)), copy=False)


def applied(
    workspace: Workspace,
    delta: str,
    columns: Sequence[Column],
    names: Sequence[str],
    current: Current,
    measured: Measured,
    probe: str | None,
) -> TableChange:
    """Return the change of the table by the netted `delta`.

    `names` are the names of the table's columns. `probe` is the column that located rows the last time.
    Raises NotWhatTheFrontierSays if the table lacks a row to remove.
    """
    found: Positions | None = None
    if measured.going:
        found, probe = locate(workspace, delta, columns, current, measured)
        if found is None:
            raise NotWhatTheFrontierSays("a row that was to be deleted is not in the table")
    if not measured.coming:
        return TableChange(None, found, probe)
    coming = exp.GT(this=column(NET), expression=number(0))
    arriving = select([column(c.id) for c in columns], table(delta)).where(coming, copy=False)
    copies = exp.Lateral(
        this=call("explode", call("array_repeat", number(1), cast(column(NET), "INT"))),
        view=True,
        alias=exp.TableAlias(this=exp.to_identifier("copies"), columns=[exp.to_identifier("copy")]),
    )
    arriving.append("laterals", copies)
    return TableChange(workspace.query(arriving).toDF(*names), found, probe)
