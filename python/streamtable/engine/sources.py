"""The sources of one refresh as views: at the target versions, at the frontier, and the change between the two."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from streamtable.algebra.columns import WEIGHT, Column
from streamtable.algebra.identity import told_apart
from streamtable.algebra.operators import Scan
from streamtable.algebra.sources import CLOCK, Snapshot, Source
from streamtable.algebra.trees import walk
from streamtable.delta.rows import COMMIT_VERSION, ChangeSet, change_set, read
from streamtable.delta.tables import Version
from streamtable.engine.clock import instant
from streamtable.engine.netting import netted
from streamtable.engine.workspace import Workspace
from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.query.analyse import AnalysedQuery
from streamtable.sql.builder import column, qualified, select, table

__all__ = ["Sources"]


def _type_in(frame: DataFrame, of: Column) -> str:
    """Return the type of a column. Its structs may have more fields than they had when the query was written."""
    if "STRUCT<" not in of.type:
        return of.type
    return frame.select(qualified((of.name,))).schema[0].dataType.simpleString().upper()


@dataclass
class Sources:
    """Registers a view for each snapshot of each source when a query first asks for it.

    `expected` is the approximate number of changed rows of a small change that is read several times or joined. Such a change is
    computed first: Spark broadcasts a relation that it knows to be small, and shuffles the tables otherwise.
    """

    analysed: AnalysedQuery
    workspace: Workspace
    target: Mapping[str, Version]
    frontier: Mapping[str, Version]
    expected: int | None = None
    changes: dict[str, ChangeSet] = field(default_factory=dict)

    def __call__(self, source: Source | int, snapshot: Snapshot) -> str:
        """Return the name of the view that holds `source` (or the constant leaf of that number) in `snapshot`.

        For the clock, return the instant.
        """
        if isinstance(source, int):
            name = f"leaf_{source}"
            return name if name in self.workspace else self.workspace.name(name, self._leaf(source))
        if source == CLOCK:
            return instant(self.target[CLOCK.path] if snapshot is Snapshot.TARGET else self.frontier[CLOCK.path])
        name = f"source_{self.analysed.paths.index(source.path)}_{snapshot.value}"
        return name if name in self.workspace else self.workspace.name(name, self._read(source.path, snapshot))

    def _leaf(self, number: int) -> DataFrame:
        session = self.analysed.session
        reader = java_class(session, f"{SHIM}.PlanReader")
        return frame_of(session, reader.leaf(session._jsparkSession, self.analysed.bound.id, number))

    def _read(self, path: str, snapshot: Snapshot) -> DataFrame:
        match snapshot:
            case Snapshot.TARGET:
                return read(self.analysed.session, path, self.target[path].number)
            case Snapshot.FRONTIER:
                return read(self.analysed.session, path, self.frontier[path].number)
            case Snapshot.CHANGE:
                return self._delta(path)

    def change(self, path: str) -> ChangeSet:
        """Return the change set of a source between the frontier and the target, read once."""
        if path not in self.changes:
            after, upto = self.frontier[path].number, self.target[path].number
            self.changes[path] = change_set(self.analysed.session, path, after, upto)
        return self.changes[path]

    def _delta(self, path: str) -> DataFrame:
        """Return the change of the columns that the query reads.

        Rows that a rewritten file or an overwritten table carries over are netted out: they may be as many as the table has. So are
        updates of other columns in a small change of a join: a source that changed nowhere else is joined with nothing.
        """
        change = self.change(path)
        used = {
            c.name: replace(c, id=c.name, type=_type_in(change.frame, c))
            for scan in walk(self.analysed.tree)
            if isinstance(scan, Scan) and scan.source.path == path
            for c in scan.columns
        }
        name = self.workspace.name(f"change_{self.analysed.paths.index(path)}", change.frame)
        nets = (change.carries_over or self._may_update_others(change, used)) and told_apart(used.values())
        changed = netted(name, list(used.values())) if nets else select(map(column, (*used, WEIGHT.id)), table(name))
        frame = self.workspace.query(changed)
        if self.expected is not None:
            return self.workspace.materialise(frame, self.expected)
        return self.workspace.persist(frame) if nets else frame

    def _may_update_others(self, change: ChangeSet, used: Collection[str]) -> bool:
        """Tell whether a small change of a join may have updates of nothing but columns that are not `used`."""
        if self.expected is None or not change.updates:
            return False
        return not {*used, WEIGHT.id, COMMIT_VERSION}.issuperset(change.frame.columns)
