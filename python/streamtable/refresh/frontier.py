"""What a refresh records in its own commit: the versions that the contents stand for, and the state that goes with them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from pyspark.sql import SparkSession

from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.tables import Version
from streamtable.delta.unreadable import Unreadable, versions_or_why
from streamtable.engine import clock
from streamtable.refresh.cost import Ran

__all__ = ["Frontier", "Vector"]


@dataclass(frozen=True)
class Vector:
    """The versions of tables, by path, as they were at one moment; `unreadable` are those that could not be read, and why."""

    versions: Mapping[str, Version]
    at: datetime
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, spark: SparkSession, paths: Sequence[str]) -> Vector:
        """Read the latest versions from the logs; a table that is gone is left out.

        So is one that cannot be read: whoever refreshes what reads it is told so.
        """
        at = clock.now()
        found = dict(zip(paths, versions_or_why(spark, paths), strict=True))
        return cls(
            {path: version for path, version in found.items() if isinstance(version, Version)},
            at,
            {path: why.reason for path, why in found.items() if isinstance(why, Unreadable)},
        )


@dataclass(frozen=True)
class Frontier:
    """The contents equal the query at `sources` (version by path).

    A query that reads the clock has it among its sources, with the instant as its version. `exact` says that nothing but the
    tables' versions decides the query's result: no clock, no volatile function, no other table. `clock` is how finely ("date" for
    days) a query reads the clock if nothing but that and the tables decides.
    `arrangements` pins the version of each stored aggregate, `arrangement_ids` its table; `base` is the version that the refresh's
    commit was made on, so that commits which are not ours are found; `number` counts the refreshes; `fingerprint` is the plan's;
    `probe` is the column by which rows were last located; `at` is when the sources were at these versions, None where earlier
    releases recorded none; `runs` is what the last refreshes of this plan cost.
    `rejected` says that Spark could not plan the delta of this plan.
    """

    sources: Mapping[str, Version]
    arrangements: Mapping[str, int]
    base: int
    number: int
    fingerprint: str
    action: str
    exact: bool
    probe: str | None = None
    at: datetime | None = None
    runs: tuple[Ran, ...] = ()
    clock: str | None = None
    arrangement_ids: Mapping[str, str] = field(default_factory=dict)
    rejected: bool = False

    def arrangement(self, name: str) -> Version | None:
        """Return what is pinned of an arrangement; earlier releases recorded no ids."""
        number = self.arrangements.get(name)
        return None if number is None else Version(self.arrangement_ids.get(name, ""), number)

    def ahead_of(self, vector: Vector) -> bool:
        """Tell whether the contents stand for a newer version of some source than `vector` has."""
        both = [(self.sources[path], wanted) for path, wanted in vector.versions.items() if path in self.sources]
        return any(mine.table_id == wanted.table_id and mine.number > wanted.number for mine, wanted in both)

    def moved(self, places: Mapping[str, str]) -> Frontier:
        """Return the frontier with sources that are at other paths now."""
        return replace(self, sources={places.get(path, path): version for path, version in self.sources.items()})

    def runs_of(self, fingerprint: str) -> tuple[Ran, ...]:
        """Return what the last refreshes cost, as far as they were of this plan."""
        return self.runs if self.fingerprint == fingerprint else ()

    def to_json(self) -> str:
        """Spell the frontier for the log."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def of(cls, text: str | None) -> Frontier | None:
        """Read a frontier back; None where nothing was recorded, or nothing that can be read."""
        if text is None:
            return None
        try:
            return restored(cls, json.loads(text))
        except UNREADABLE:
            return None
