"""The frontier: the versions of the sources that the contents stand for, recorded in the commit of each refresh."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.entries import Entry
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.latest import LatestVersions
from streamtable.delta.tables import Version
from streamtable.delta.unreadable import Unreadable, versions_or_why
from streamtable.engine import clock
from streamtable.language.comments import without_comments
from streamtable.query.states import Decided
from streamtable.refresh.cost import Ran
from streamtable.refresh.counts import Counts

__all__ = ["Frontier", "Vector", "decided_by_versions"]

_AT_A_VERSION = re.compile(r"\bAS\s+OF\b|(?:version|timestamp)AsOf|@(?:v\d+|\d{17})\b", re.IGNORECASE)
"""Where a query may read a table at a fixed version: AS OF, its options, @v1. A text may look the same."""

_FINGERPRINT, _ARRANGEMENT = re.compile("[A-Za-z0-9_]*"), re.compile("[A-Za-z0-9_]+")
"""What fingerprints and arrangements are called, which name folders. ACCEPT DEFINITION leaves no fingerprint."""


@dataclass(frozen=True)
class Vector:
    """The versions of tables at one moment, by path. `unreadable` are tables that could not be read, with the reasons."""

    versions: Mapping[str, Version]
    at: datetime
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, spark: SparkSession, paths: Sequence[str], look: LatestVersions | None = None) -> Vector:
        """Read the latest versions from the logs. Missing tables are left out.

        Tables that cannot be read are left out too; a refresh of their readers raises the reason.
        """
        at = clock.now()
        found = dict(zip(paths, (look or versions_or_why)(spark, paths), strict=True))
        return cls(
            {path: version for path, version in found.items() if isinstance(version, Version)},
            at,
            {path: why.reason for path, why in found.items() if isinstance(why, Unreadable)},
        )


@dataclass(frozen=True)
class Frontier:
    """The versions (by path) at which the contents equal the query, and the state of the last refresh.

    - `sources`: the versions. If the query reads the clock, the clock is a source, and its version is the instant.
    - `exact`: only the tables' versions decide the result: no clock, no volatile function, no other table, no second name of one.
    - `clock`: the part of the clock that the query reads ("date" for days), if only the clock and the tables decide.
    - `arrangements`, `arrangement_ids`, `arrangement_commits`: the version, the table and the commit of each stored aggregate.
    - `base`: the version below the refresh's commit, to find commits that are not ours.
    - `number`: the count of refreshes. `fingerprint`: of the plan. `rejected`: Spark could not plan the delta of this plan.
    - `probe`: the column by which rows were last located.
    - `at`: the time at which the sources were at these versions. Earlier releases recorded None.
    - `runs`: the costs of the last refreshes of this plan.
    - `counts`: how many rows pass and fail the expectations.
    - `states`: what STATE AUTO decided of each optional state of this plan.
    - `trusted`: the contents began with rows of BACKFILL ... TRUSTED, and were not computed since.
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
    counts: Counts | None = None
    states: tuple[Decided, ...] = ()
    arrangement_commits: Mapping[str, str] = field(default_factory=dict)
    trusted: bool = False

    def arrangement(self, name: str) -> Version | None:
        """Return the pinned version of an arrangement. Earlier releases recorded no ids of tables, and no commits."""
        number = self.arrangements.get(name)
        return None if number is None else Version(self.arrangement_ids.get(name, ""), number, self.arrangement_commits.get(name))

    def reads(self, paths: Iterable[str]) -> bool:
        """Tell whether the contents come from the tables at `paths`, and from no others."""
        return set(paths) == self.sources.keys() - {CLOCK.path}

    def ahead_of(self, vector: Vector) -> bool:
        """Tell whether the contents have a newer version of some source than `vector`."""
        both = [(self.sources[path], wanted) for path, wanted in vector.versions.items() if path in self.sources]
        return any(mine.table_id == wanted.table_id and mine.number > wanted.number for mine, wanted in both)

    def moved(self, places: Mapping[str, str]) -> Frontier:
        """Return the frontier with the new paths of sources that moved."""
        return replace(self, sources={places.get(path, path): version for path, version in self.sources.items()})

    def runs_of(self, fingerprint: str) -> tuple[Ran, ...]:
        """Return the costs of the last refreshes of this plan."""
        return self.runs if self.fingerprint == fingerprint else ()

    def to_json(self) -> str:
        """Spell the frontier for the log."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def of(cls, text: str | None) -> Frontier | None:
        """Read a frontier back; None for a missing or unreadable record."""
        return None if text is None else _read(text)


def decided_by_versions(entry: Entry, frontier: Frontier) -> bool:
    """Tell whether equal versions of the sources mean equal contents: nothing unversioned, no view or function.

    A table at a fixed version is no source. Only an analysis finds out that another table has its name.
    """
    fixed = _AT_A_VERSION.search(without_comments(entry.definition.statement.query.text))
    plain = frontier.exact and not entry.views and not entry.functions and fixed is None
    return plain and frontier.reads(entry.definition.sources)


@lru_cache(maxsize=2048)  # more than the tables of a catalog: a look of the console or for alerts asks several times for each
def _read(text: str) -> Frontier | None:
    try:
        found = restored(Frontier, json.loads(text))
    except UNREADABLE:
        return None
    named = _FINGERPRINT.fullmatch(found.fingerprint) and all(map(_ARRANGEMENT.fullmatch, found.arrangements))
    return found if named else None
