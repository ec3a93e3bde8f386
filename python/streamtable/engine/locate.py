"""Find the rows that go: positions, in the table's current files, of rows equal to those with negative weight.

A row is identified by its whole content. Any of several equal rows may go, so equal rows are told apart by position.
The search first reads one narrow column whose values in the delta all differ (`probe`). The contract says that the table is the
query at the frontier, so each wanted row is in it. If the probe finds exactly as many rows as are wanted, they are the rows.
Otherwise whole rows are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame, Row
from sqlglot import exp

from streamtable.algebra.columns import POSITION, Column
from streamtable.algebra.identity import identity
from streamtable.delta.commit import Positions, positions
from streamtable.delta.rows import read_located
from streamtable.engine import limits
from streamtable.engine.netting import NET
from streamtable.engine.workspace import Workspace
from streamtable.query.analyse import AnalysedQuery
from streamtable.sql.builder import alias, all_of, call, called, case, cast, column, equal, literal, number, select, subquery, table

__all__ = ["Current", "Measured", "RowFilter", "by_content", "locate", "measure"]

_NARROW = ("BIGINT", "INT", "SMALLINT", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING")
"""Types of a probe column, the cheapest to compare first. Decimals are wide; floats have equal values with different bits."""


RowFilter: TypeAlias = Callable[[DataFrame], DataFrame]
"""From rows to some of them."""


@dataclass(frozen=True)
class Measured:
    """The size of a delta, and the columns by which its negative rows can be found."""

    going: int
    coming: int
    probes: tuple[tuple[Column, str, str], ...]
    """Columns that differ in all negative rows, with their least and greatest value as text."""


def measure(workspace: Workspace, delta: str, columns: Sequence[Column], preferred: str | None) -> Measured:
    """Count the rows of the consolidated delta and look for probe columns; this is the query that computes the delta."""
    candidates = [c for kind in _NARROW for c in columns if c.type == kind]
    # The last probe probably works again. Otherwise only a few columns are tried, because each costs a sketch of its values.
    candidates = [c for c in candidates if c.name == preferred] or candidates[:3]
    goes = exp.LT(this=column(NET), expression=number(0))
    items = [
        alias(call("sum", case(goes, exp.Neg(this=column(NET)), number(0))), "going"),
        alias(call("sum", case(goes.copy(), number(0), column(NET))), "coming"),
        alias(call("count_if", goes.copy()), "rows"),
    ]
    for n, c in enumerate(candidates):
        value = case(goes.copy(), column(c.id))
        items += [
            alias(call("approx_count_distinct", value), f"distinct_{n}"),
            alias(call("count", value.copy()), f"present_{n}"),
            alias(_spelt(call("min", value.copy()), c.type), f"least_{n}"),
            alias(_spelt(call("max", value.copy()), c.type), f"most_{n}"),
        ]
    row: Row = workspace.query(select(items, table(delta))).collect()[0]
    # The count of distinct values is an estimate with a standard error of 5 %: 1 of 40 estimates is off by more than two errors,
    # 1 of 30,000 by more than four. A wrong guess costs a scan: of one needless column, or of all columns in place of one.
    full = (n for n, _ in enumerate(candidates) if row[f"present_{n}"] == row["rows"])
    likely = [n for n in full if row[f"distinct_{n}"] >= 0.8 * row["rows"]]
    likely.sort(key=lambda n: row[f"distinct_{n}"] < 0.9 * row["rows"])
    probes = tuple((candidates[n], row[f"least_{n}"], row[f"most_{n}"]) for n in likely)
    return Measured(row["going"] or 0, row["coming"] or 0, probes)


def _spelt(value: exp.Expr, of: str) -> exp.Expr:
    """Spell a value so that it reads back as the same one. When clocks are set back, a local time occurs twice."""
    return cast(call("unix_micros", value) if of == "TIMESTAMP" else value, "STRING")


def _read(text: str, of: str) -> exp.Expr:
    return call("timestamp_micros", literal(text, "BIGINT")) if of == "TIMESTAMP" else literal(text, of)


@dataclass(frozen=True)
class Current:
    """The table in which rows are located, at its version. `ids` are the query's ids of its columns, by lower-case name.

    `within` leaves the rows among which they are looked for: all of them, or those that are not `frozen`.
    """

    path: str
    version: int
    ids: Mapping[str, str]
    within: RowFilter
    frozen: bool

    @classmethod
    def of(cls, path: str, version: int, names: Sequence[str], columns: Sequence[Column], analysed: AnalysedQuery) -> Current:
        """Return the table of a query at `path`, in which the columns have these `names`."""
        ids = {name.casefold(): c.id for name, c in zip(names, columns, strict=True)}
        return cls(path, version, ids, analysed.outside, analysed.frozen is not None)

    def positions(self, workspace: Workspace, query: exp.Expr) -> Positions:
        """Run a query for positions in the table."""
        return positions(workspace.session, workspace.query(query), self.path, self.version)

    def named(self, workspace: Workspace, deleted: bool) -> str:
        """Name the table's rows with their positions. With `deleted`, which is cheaper, deleted rows may be among them.

        Where rows are frozen there are none of these: the condition need not have an answer for a row that is deleted.
        """
        rows = self.within(read_located(workspace.session, self.path, self.version, deleted and not self.frozen))
        ids = [self.ids[name.casefold()] for name in rows.columns if name not in POSITION]
        return workspace.name("all_present" if deleted else "present", rows.toDF(*ids, *POSITION))


def locate(
    workspace: Workspace, delta: str, columns: Sequence[Column], current: Current, measured: Measured
) -> tuple[Positions | None, str | None]:
    """Return the positions in `current` of the rows that go, and the probe column that found them, if one did.

    The positions are None when a row to remove is missing, so that the table differs from the query at the frontier.
    """
    for probe, least, most in measured.probes[:1]:
        # `positions` drops rows that are deleted already, so reading them is harmless.
        rows = current.named(workspace, deleted=True)
        query = _by_probe(delta, rows, probe, least, most)
        if measured.going <= limits.BROADCAST_ROWS:
            query = query.hint("broadcast(going)", copy=False)
        found = current.positions(workspace, query)
        if found.count == measured.going:
            return found, probe.name
    # This search takes the first of equal rows, so rows that are deleted already must not be among them.
    rows = current.named(workspace, deleted=False)
    found = current.positions(workspace, by_content(delta, columns, rows, measured))
    return (found if found.count == measured.going else None), None


def _going(delta: str, columns: Sequence[Column]) -> exp.Select:
    items = [*(column(c.id) for c in columns), alias(exp.Neg(this=column(NET)), "wanted")]
    return select(items, table(delta)).where(exp.LT(this=column(NET), expression=number(0)), copy=False)


def _between(probe: Column, least: str, most: str) -> exp.Expr:
    """Return bounds as literals, by which the Parquet reader skips row groups; a join alone does not reach it."""
    return exp.Between(this=column(probe.id, "present"), low=_read(least, probe.type), high=_read(most, probe.type))


def _by_probe(delta: str, current: str, probe: Column, least: str, most: str) -> exp.Select:
    going = subquery(_going(delta, [probe]), "going")
    on = exp.EQ(this=column(probe.id, "present"), expression=column(probe.id, "going"))
    query = select([column(p, "present") for p in POSITION], called(current, "present")).where(
        _between(probe, least, most), copy=False
    )
    return query.join(going, on=on, join_type="inner", copy=False)


def by_content(delta: str, columns: Sequence[Column], current: str, measured: Measured) -> exp.Select:
    """Compare whole rows. If there are more equal rows than have to go, take the first by position."""
    going = subquery(_going(delta, columns), "going")
    same = [equal(_form(column(c.id, "present"), c), _form(column(c.id, "going"), c)) for c in columns]
    order = exp.Order(expressions=[exp.Ordered(this=column(p, "present")) for p in POSITION])
    rank = exp.Window(this=exp.RowNumber(), partition_by=[_form(column(c.id, "going"), c) for c in columns], order=order)
    picked = [*(column(p, "present") for p in POSITION), column("wanted", "going"), alias(rank, "nth")]
    pairs = select(picked, called(current, "present"))
    pairs = pairs.join(going, on=all_of(same), join_type="inner", copy=False)
    if measured.probes:
        probe, least, most = measured.probes[0]
        pairs = pairs.where(_between(probe, least, most), copy=False)
    ranked = subquery(pairs, "ranked")
    enough = exp.LTE(this=column("nth"), expression=column("wanted"))
    return select([column(p) for p in POSITION], ranked).where(enough, copy=False)


def _form(value: exp.Expr, of: Column) -> exp.Expr:
    formed = identity(value, of.type)
    if formed is None:
        raise TypeError(f"rows of type {of.type} cannot be compared")
    return formed
