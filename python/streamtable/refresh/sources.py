"""The sources of one refresh as views: at the target versions, at the frontier, and the change between the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtable.algebra.identity import comparable
from streamtable.algebra.operators import WEIGHT, Form, Recomputed, Scan, Source
from streamtable.algebra.sources import CLOCK
from streamtable.algebra.trees import walk
from streamtable.delta.bridge import frame_of
from streamtable.delta.rows import ChangeSet, change_set, read
from streamtable.delta.tables import Version
from streamtable.refresh.clock import instant, microseconds
from streamtable.refresh.prepare import Prepared
from streamtable.refresh.workspace import Workspace
from streamtable.sql.builder import qualified

__all__ = ["Sources"]


@dataclass
class Sources:
    """Registers each form of each source when a query first asks for it."""

    prepared: Prepared
    workspace: Workspace
    target: Mapping[str, Version]
    frontier: Mapping[str, Version]
    changes: dict[str, ChangeSet] = field(default_factory=dict)

    def __call__(self, source: Source | int, form: Form) -> str:
        """Return the name of the view that holds `source` (or the part of that number that Spark computes whole) in `form`.

        For the clock, return the instant.
        """
        if isinstance(source, int):
            name = f"leaf_{source}_{form.value}"
            return name if name in self.workspace else self.workspace.name(name, self._leaf(source, form))
        if source == CLOCK:
            return instant(self.target[CLOCK.path] if form is Form.NEW else self.frontier[CLOCK.path])
        name = f"source_{self.prepared.paths.index(source.path)}_{form.value}"
        return name if name in self.workspace else self.workspace.name(name, self._read(source.path, form))

    def _leaf(self, number: int, form: Form) -> DataFrame:
        session = self.prepared.session
        frames = session._jvm.java.util.HashMap()  # type: ignore[union-attr]
        for node in walk(self.prepared.tree):
            for source in node.sources if isinstance(node, Recomputed) and node.leaf == number else ():
                if source != CLOCK:
                    frames.put(source.path, self._read(source.path, form)._jdf)
        now = (self.frontier if form is Form.OLD else self.target).get(CLOCK.path)
        reader = session._jvm.org.apache.spark.sql.streamtable.PlanReader  # type: ignore[union-attr]
        return frame_of(session, reader.leaf(session._jsparkSession, self.prepared.reading.id, number, frames, microseconds(now)))

    def _read(self, path: str, form: Form) -> DataFrame:
        match form:
            case Form.NEW:
                return read(self.prepared.session, path, self.target[path].number)
            case Form.OLD:
                return read(self.prepared.session, path, self.frontier[path].number)
            case Form.DELTA:
                return self._delta(path)

    def change(self, path: str) -> ChangeSet:
        """Return the change set of a source between the frontier and the target, read once."""
        if path not in self.changes:
            after, upto = self.frontier[path].number, self.target[path].number
            self.changes[path] = change_set(self.prepared.session, path, after, upto)
        return self.changes[path]

    def _delta(self, path: str) -> DataFrame:
        """Net out rows that a rewritten file (or an overwritten table) carries over: the delta would be as large."""
        change = self.change(path)
        used = {
            c.name: c
            for scan in walk(self.prepared.tree)
            if isinstance(scan, Scan) and scan.source.path == path
            for c in scan.columns
        }
        names = [qualified((name,)) for name in used]
        frame = change.frame.select(*names, WEIGHT.id)
        if not change.carries_over or not all(comparable(c.type) for c in used.values()):
            return frame
        net = frame.groupBy(*names).agg(F.sum(WEIGHT.id).alias(WEIGHT.id)).where(F.col(WEIGHT.id) != 0)
        # A weight of 3 becomes three rows of weight 1: every rule may rely on +1 and -1.
        units = F.array_repeat(F.signum(WEIGHT.id).cast("bigint"), F.abs(WEIGHT.id).cast("int"))
        return self.workspace.keep(net.select(*names, F.explode(units).alias(WEIGHT.id)))
