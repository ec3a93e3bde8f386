"""The change of a table by a refresh: rows of negative net weight are located and removed, the others are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from streamtable.algebra.columns import POSITION, Column
from streamtable.delta.commit import Positions, RowChange, positions
from streamtable.delta.rows import read_located
from streamtable.engine.locate import Current, Measured, locate
from streamtable.engine.netting import NET
from streamtable.engine.workspace import Workspace
from streamtable.query.analyse import AnalysedQuery
from streamtable.sql.builder import call, cast, column, number, select, table

__all__ = ["NotWhatTheFrontierSays", "TableChange", "applied", "not_frozen"]


class NotWhatTheFrontierSays(Exception):
    """The table or an arrangement does not fit the frontier, for the reason in the text: the table must be rebuilt."""


@dataclass(frozen=True)
class TableChange(RowChange):
    """The change of a table, and the column that located its rows, the `probe`."""

    probe: str | None = None


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
        return TableChange(None, found, probe=probe)
    coming = exp.GT(this=column(NET), expression=number(0))
    arriving = select([column(c.id) for c in columns], table(delta)).where(coming, copy=False)
    copies = exp.Lateral(
        this=call("explode", call("array_repeat", number(1), cast(column(NET), "INT"))),
        view=True,
        alias=exp.TableAlias(this=exp.to_identifier("copies"), columns=[exp.to_identifier("copy")]),
    )
    arriving.append("laterals", copies)
    return TableChange(workspace.query(arriving).toDF(*names), found, probe=probe)


def not_frozen(analysed: AnalysedQuery, path: str, version: int) -> Positions:
    """Return the positions of the rows that a full refresh replaces where it keeps the frozen ones."""
    rows = analysed.outside(read_located(analysed.session, path, version))
    return positions(analysed.session, rows.select(*POSITION), path, version)
