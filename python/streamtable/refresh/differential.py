"""The differential refresh: compute the delta of the query, and locate the rows to remove.

All results are computed from pinned versions and kept before the first commit. So nothing is evaluated again over moved state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from sqlglot import exp

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    Scan,
    StoredRows,
    UnionAll,
    Window,
)
from streamtable.algebra.render import render
from streamtable.algebra.sources import CLOCK
from streamtable.algebra.trees import sources_of, walk
from streamtable.delta.commit import Positions, positions
from streamtable.delta.rows import read, read_located
from streamtable.delta.tables import Version, size
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.bounds import bounded
from streamtable.differentiate.deltas import Deltas, Moved, Recursed, Shared
from streamtable.differentiate.registry import RULES
from streamtable.differentiate.stored_before import BEFORE, delta_of_query
from streamtable.engine import limits
from streamtable.engine.arrangements import Arrangement, content, register
from streamtable.engine.load import Load
from streamtable.engine.locate import Current, measure
from streamtable.engine.netting import net
from streamtable.engine.recursion import recurse
from streamtable.engine.sources import Sources
from streamtable.engine.workspace import Workspace
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.counts import Counts
from streamtable.refresh.expectations import counted
from streamtable.refresh.table_change import TableChange, applied
from streamtable.sql.builder import column, number, select, subquery

__all__ = ["Differential"]


_MONOTONE = (Scan, Constant, Filter, Project, Join, UnionAll, Generate, Expand)
"""Operators that lose no row of their output while their inputs lose none."""

_NO_MORE = (Scan, Constant, Filter, Project, UnionAll, Aggregate)
"""Operators whose delta has about as many rows as those of their inputs."""


@dataclass
class Differential:
    """One differential refresh of the table at `path`, whose columns are `names`, as of its version `version`.

    `pinned` are the arrangements' versions by name. `load` is the load of the refresh, if the logs tell it.
    """

    analysed: AnalysedQuery
    workspace: Workspace
    path: str
    version: int
    names: Sequence[str]
    target: Mapping[str, Version]
    frontier: Mapping[str, Version]
    arrangements: Mapping[Aggregate, Arrangement]
    pinned: Mapping[str, int]
    probe: str | None
    load: Load | None = None

    def __post_init__(self) -> None:
        self.small = self.load is not None and self.load.small
        several = any(isinstance(node, (Join, LeftJoin, Window)) for node in walk(self.analysed.tree))
        expected = self.load.changed if self.load and self.small and several else None
        self.sources = self.sources_of(expected)
        self.changed = frozenset(s for s in sources_of(self.analysed.tree) if self.target[s.path] != self.frontier[s.path])
        names = {aggregate: arrangement.name for aggregate, arrangement in self.arrangements.items()}
        deltas = Deltas(self.changed, names, RULES, self.small, self.analysed.trusted)
        judged = self.analysed.judged.tree if self.analysed.judged else None
        self.root = delta_of_query(self.analysed.tree, deltas, judged)
        self.judged = None if judged is None else deltas.keep(judged)
        self.ordered = [
            AggregateStep(names[each.aggregate], each.aggregate, each.change, each.child) if isinstance(each, Moved) else each
            for each in deltas.steps
        ]
        self.steps = [each for each in self.ordered if isinstance(each, AggregateStep)]
        trees = [tree for each in deltas.steps for tree in each.trees]
        trees += [self.root] if self.root is not None else []
        self.read = {node.name for tree in trees for node in walk(tree) if isinstance(node, StoredRows)}

    def sources_of(self, expected: int | None) -> Sources:
        """Return the sources that the delta reads, of which about `expected` rows changed."""
        return Sources(self.analysed, self.workspace, self.target, self.frontier, expected)

    def compute(self) -> TableChange:
        """Return the change of the table's own commit. Raises NotWhatTheFrontierSays."""
        if self.root is None:
            return TableChange(probe=self.probe)
        self.take_steps()
        if (top := self.top) is not None:
            return self._visible(top, self.root)
        if self._appends_only(self.analysed.tree):
            return TableChange(self._named(select([column(c) for c in self.ids()], self.delta(self.root))), probe=self.probe)
        return self._consolidated(self.root)

    def counts(self) -> Counts | None:
        """Return by how much the counts of the expectations change; the rows are those that `compute` keeps."""
        judged = self.analysed.judged
        if judged is None or self.judged is None:
            return None if judged is None else Counts(0, {each.name: 0 for each in judged.expectations})
        return counted(self.workspace, judged, self.judged.name, column(WEIGHT.id))

    def take_steps(self) -> None:
        """Name the stored states, then compute the steps in their order: each reads the names that the steps before it left."""
        self._name_states()
        for each in self.ordered:
            match each:
                case Shared():
                    self.workspace.name(each.name, self._shared(each.tree))
                case Recursed():
                    self.workspace.name(f"{each.name}_changes", self.recurse(each))
                case AggregateStep():
                    self._move(each)

    @property
    def top(self) -> AggregateStep | None:
        """Return the step whose arrangement is the table itself, or None."""
        return next((step for step in self.steps if self.arrangements[step.aggregate].visible), None)

    def recurse(self, change: Recursed) -> DataFrame:
        """Return the changes of all levels of a recursion."""
        return recurse(self.workspace, self.sources, change)

    def moves(self) -> dict[str, TableChange]:
        """Return the changes of the moved arrangements, by name."""
        return {step.name: self._moved(step) for step in self.steps if not self.arrangements[step.aggregate].visible}

    def ids(self) -> list[str]:
        return [c.id for c in self.analysed.tree.columns]

    def _appends_only(self, tree: Operator) -> bool:
        """Tell whether no row of a tree can go."""
        if not all(isinstance(node, _MONOTONE) for node in walk(tree)):
            return False
        changed = self.changed & sources_of(tree)
        return CLOCK not in changed and all(self.sources.change(source.path).appends_only for source in changed)

    def _name_states(self) -> None:
        """Name the stored states, the table's rows, and the old output of aggregates that something joins with."""
        if BEFORE in self.read:
            self.workspace.name(BEFORE, self.table_before())
        stepped = {step.name for step in self.steps}
        for aggregate, arrangement in self.arrangements.items():
            if arrangement.name in stepped or f"{arrangement.name}_old" in self.read:
                register(self.workspace, arrangement, self.stored(aggregate, arrangement))
            if f"{arrangement.name}_old" in self.read:
                step = AggregateStep.whole(arrangement.name, aggregate)
                self.workspace.name(f"{arrangement.name}_old", self.workspace.query(step.stored()))

    def stored(self, _: Aggregate, arrangement: Arrangement) -> DataFrame:
        """Read an arrangement's states with their positions."""
        return read_located(self.workspace.session, arrangement.path, self._version(arrangement))

    def table_before(self) -> DataFrame:
        """Read the table's own rows that are the query's, columns under the query's ids."""
        rows = self.analysed.outside(read(self.workspace.session, self.path, self.version))
        ids = {name.casefold(): id_ for name, id_ in zip(self.names, self.ids(), strict=True)}
        return rows.toDF(*(ids[name.casefold()] for name in rows.columns))

    def _shared(self, tree: Operator) -> DataFrame:
        frame = self.workspace.query(self._render(tree))
        expected = self.sources.expected
        # The number of rows that a small change meets is unknown, and often small.
        return (
            self.workspace.persist(frame)
            if expected is None
            else self.workspace.materialise(frame, expected if expected > limits.DRIVER_ROWS else None)
        )

    def _move(self, step: AggregateStep) -> None:
        """Compute the new states of the affected groups; leaves `<name>_moved` and `<name>_delta`."""
        step = replace(step, change=bounded(step.change, self._extents), child=bounded(step.child, self._extents))
        workspace, again = self.workspace, False
        partial, large = workspace.query(step.partial(self.sources)), self.restricts(step)
        workspace.name(f"{step.name}_partial", workspace.materialise(partial) if large else partial)
        lookup = workspace.name(f"{step.name}_lookup", workspace.query(self._render(step.lookup()))) if large else None
        merged = workspace.query(step.merge(lookup))
        if step.recomputes_always or (step.recomputes and not self._appends_only(step.aggregate.child)):
            workspace.name(f"{step.name}_merged", workspace.persist(merged))
            affected = workspace.query(step.affected())
            again = workspace.has_rows(affected)
            if again:
                workspace.name(f"{step.name}_affected", affected)
                workspace.name(f"{step.name}_recomputed", workspace.query(step.recomputed(self.sources)))
        else:
            workspace.name(f"{step.name}_merged", merged)
        workspace.name(f"{step.name}_moved", self._kept(step, workspace.query(step.moved(again))))
        workspace.name(f"{step.name}_delta", workspace.query(step.delta()))
        if f"{step.name}_new" in self.read:
            workspace.name(f"{step.name}_new", workspace.query(step.new()))

    def _kept(self, step: AggregateStep, moved: DataFrame) -> DataFrame:
        """Keep the moves of groups. The driver holds a few: they are located and written without another plan."""
        # The load counts no rows that the clock moves. A value of a whole group may be as long as the group.
        if self.load is None or self.load.changed > limits.DRIVER_ROWS or CLOCK in self.changed or step.recomputes_always:
            return self.workspace.persist(moved)
        if not all(isinstance(node, _NO_MORE) for node in walk(self.analysed.tree)):
            return self.workspace.persist(moved)
        return self.workspace.materialise(moved, self.load.changed)

    def _version(self, arrangement: Arrangement) -> int:
        """Return the version at which the refresh finds the states."""
        return self.version if arrangement.visible else self.pinned[arrangement.name]

    def restricts(self, step: AggregateStep) -> bool:
        """Tell whether the arrangement is too large to be handed to every task, and the change is small enough."""
        arrangement = self.arrangements[step.aggregate]
        if not self.small or not step.keys:
            return False
        whole = size(self.workspace.session, arrangement.path, self._version(arrangement))
        return whole is None or whole.rows > limits.LARGE_ARRANGEMENT

    def _moved(self, step: AggregateStep) -> TableChange:
        return TableChange(self.arrived(step), self._positions(step))

    def arrived(self, step: AggregateStep) -> DataFrame:
        """Return the new states that an aggregate's arrangement gets."""
        return content(self.workspace, self.arrangements[step.aggregate], step.arrived())

    def _positions(self, step: AggregateStep) -> Positions:
        arrangement = self.arrangements[step.aggregate]
        return positions(self.workspace.session, self.workspace.query(step.left()), arrangement.path, self._version(arrangement))

    def _visible(self, step: AggregateStep, root: Operator) -> TableChange:
        """Return the change of a table that is its own arrangement: the positions of its groups are known."""
        came = self.delta(root)
        query = select([column(c) for c in self.ids()], came)
        query = query.where(exp.GT(this=column(WEIGHT.id), expression=number(0)), copy=False)
        return TableChange(self._named(query), self._positions(step), probe=self.probe)

    def delta(self, root: Operator) -> exp.Subquery:
        return subquery(self._render(root), "delta")

    def _render(self, tree: Operator) -> exp.Query:
        return render(bounded(tree, self._extents), self.sources)

    def _extents(self, leaf: StoredRows | Scan) -> Mapping[str, tuple[str, str]]:
        return self.workspace.extents(leaf.name if isinstance(leaf, StoredRows) else self.sources(leaf.source, leaf.snapshot))

    def _named(self, query: exp.Query) -> DataFrame:
        return self.workspace.query(query).toDF(*self.names)

    def _consolidated(self, root: Operator) -> TableChange:
        """Return the change after netting: the positions of rows to remove, and the rows to add."""
        workspace, columns = self.workspace, self.analysed.tree.columns
        workspace.name("net", workspace.persist(workspace.query(self.net(root))))
        current = Current.of(self.path, self.version, self.names, columns, self.analysed)
        return applied(workspace, "net", columns, self.names, current, measure(workspace, "net", columns, self.probe), self.probe)

    def net(self, root: Operator) -> exp.Select:
        return net(self.analysed.tree.columns, self.delta(root))
