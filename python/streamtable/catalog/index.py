"""A cache of the catalog's stream tables. A poll reads their latest versions, and from time to time the names."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from time import monotonic

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, find, table_names
from streamtable.delta.latest import LatestVersions
from streamtable.delta.unreadable import left_out
from streamtable.errors import SourceUnavailable
from streamtable.language.names import Name

__all__ = ["Index"]

FORGET_AFTER = 60.0
"""Seconds for which the name of another table is not looked at again; a stream table may take the name."""


class Index:
    """A cache of the definitions in the tables' own properties."""

    def __init__(self, spark: SparkSession, look: LatestVersions | None = None) -> None:
        self._spark = spark
        self._look = look or LatestVersions()
        self._known: dict[tuple[str, ...], Entry] = {}
        self._lost: dict[tuple[str, ...], tuple[Entry, str]] = {}
        self._others: dict[tuple[str, ...], float] = {}
        self._names: list[tuple[str, ...]] = []
        self._named = -inf

    def poll(self, every: float = 0) -> Mapping[str, Entry]:
        """Return the current stream tables by path. New names are looked for `every` so many seconds.

        Unreadable tables are left out, and read again at the next poll; among them are stream tables whose files are gone for now.
        """
        now = monotonic()
        if now >= self._named + every:
            self._names, self._named = list(table_names(self._spark)), now
        names, before, passed = self._names, self._known, self._others  # another thread may poll meanwhile
        last = {name: entry for name, (entry, _) in self._lost.items()} | before
        lost = dict[tuple[str, ...], tuple[Entry, str]]()
        known = self._unchanged({name: before[name] for name in names if name in before})
        others = {name: until for name in names if (until := passed.get(name, 0)) > now}
        for name in names:
            if name not in known and name not in others:
                with left_out(".".join(name)) as why:
                    entry, is_other = self._read(name, name in last)
                    if entry:
                        known[name] = entry
                    elif is_other:
                        others[name] = now + FORGET_AFTER
                if why and name in last:
                    lost[name] = last[name], why[0]
        self._known, self._lost, self._others = known, lost, others
        return {entry.path: entry for entry in known.values()}

    def forget(self, path: str) -> None:
        """Read the table at a path again, by its name. It may be at another path now, while the log at the old one stays."""
        self._known = {name: entry for name, entry in self._known.items() if entry.path != path}

    @property
    def lost(self) -> Mapping[str, tuple[Entry, str]]:
        """Return what was known of the tables that could not be read at the last poll, and why they could not, by path."""
        return {entry.path: (entry, why) for entry, why in self._lost.values()}

    def _read(self, name: tuple[str, ...], was_ours: bool) -> tuple[Entry | None, bool]:
        """Return the stream table of a name, or whether another table has it. A free name may be a stream table's in a moment.

        Raises SourceUnavailable for a stream table whose files are gone: they may be back in a moment.
        """
        try:
            located, entry = find(self._spark, Name(name))
        except SourceUnavailable:
            if was_ours:
                raise
            return None, True
        return entry, located.kind != "none"

    def _unchanged(self, known: dict[tuple[str, ...], Entry]) -> dict[tuple[str, ...], Entry]:
        latest = self._look(self._spark, [entry.path for entry in known.values()])
        states = (entry.state.latest for entry in known.values())
        return {name: entry for (name, entry), found, state in zip(known.items(), latest, states, strict=True) if found == state}
