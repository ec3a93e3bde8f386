"""The tables that a subscription reads: their latest versions, their identity, and the part of their history that is kept."""

from __future__ import annotations

import heapq
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from threading import Lock

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.delta.commit_ids import is_same, version_at
from streamtable.delta.summaries import KEEP_COLUMNS, CommitSummary, commits
from streamtable.delta.tables import Version, find_table, retained, state, versions
from streamtable.errors import HistoryLost, InvalidStatement, SourceUnavailable, StorageFailed
from streamtable.jvm.storage import not_mounted
from streamtable.language.subscribe.ast import Subscribe
from streamtable.subscribing.times import Times, Versions

__all__ = ["Input", "Inputs", "Step"]

_COUNTED = {
    "DELETE": ("numDeletedRows",),
    "UPDATE": ("numUpdatedRows",),
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
}
"""Operations that count their changed rows; the files that they rewrite have more rows."""

_IN_PLACE = ("REPLACE", "RESTORE", "CLONE")
"""Words in the names of operations that give a table another id and keep its history."""


@dataclass(frozen=True)
class Input:
    """One table at the begin of the subscription; `name` is empty for a table named by its path."""

    path: str
    name: tuple[str, ...]
    table_id: str
    schema_json: str

    def __str__(self) -> str:
        return ".".join(self.name) or f"delta.`{self.path}`"

    @classmethod
    def of(cls, session: SparkSession, path: str, name: tuple[str, ...]) -> Input:
        """Read the current state of the table."""
        found = state(session, path)
        return cls(path, name, found.table_id, found.schema_json)


@dataclass(frozen=True)
class Step:
    """A commit of one of the inputs: its logical time, its timestamp, the number of changed rows, its operation and its input.

    `schema` is the input with its columns, as in CREATE TABLE, if the commit changed them.
    """

    time: int
    at: datetime
    events: int
    operation: str = ""
    applications: tuple[str, ...] = ()
    schema: str | None = None


class Inputs:
    """All tables of a subscription, and the views by which it reads them.

    `fits` raises SourceChanged if a table's new schema no longer fits the subscription, `texts` if views or functions have other
    texts. They are not methods of the holder of the inputs, because both would then be in a cycle.

    `overtaken`: an older copy of a table took its place, so that nobody can go on with these inputs.
    """

    def __init__(
        self,
        session: SparkSession,
        inputs: Sequence[Input],
        fits: Callable[[Input, str], None],
        views: Sequence[tuple[str, ...]] = (),
        texts: Callable[[], None] | None = None,
        changes_need_contents: bool = False,
    ) -> None:
        self._session = session
        self._changes_need_contents = changes_need_contents
        self._views, self._texts = views, texts
        self.opened = tuple(inputs)
        self._inputs = list(inputs)
        self._fits = fits
        self._seen: Versions = ()
        self._found: tuple[Version, ...] = ()
        self.overtaken = False
        self._read_at = -math.inf
        self._lock = Lock()
        self.times = Times(len(self._inputs))

    def latest(self) -> Versions:
        """Return the latest versions. Raises SourceUnavailable, HistoryLost or SourceChanged, which end the subscription.

        Raises StorageFailed, which ends nothing, where the storage of a table is away: nobody dropped it.

        Of several threads that ask at once one reads; the others wait for the lock and take its result.
        """
        asked = time.monotonic()
        with self._lock:
            if self._read_at < asked:
                self._read_at = time.monotonic()
                latest = self._read()
                if latest != self._seen:
                    self._check()
                    self._seen = latest
            return self._seen

    def _read(self) -> Versions:
        for view in self._views:
            if find_table(self._session, view).kind != "view":
                hint = "create the view again, then subscribe anew"
                raise SourceUnavailable(f"the view {'.'.join(view)} was dropped: the subscription ends", hint=hint)
        found = list[Version]()
        for each, version in zip(self._inputs, versions(self._session, [each.path for each in self._inputs]), strict=True):
            if version is None or self._unnamed(each):
                if failed := self.away():
                    raise failed
                raise SourceUnavailable(f"{each} was dropped: the subscription ends", hint="subscribe to another table")
            if version.table_id != each.table_id:
                raise HistoryLost(f"{each} was dropped and created again: the subscription ends", hint="subscribe anew")
            found.append(version)
        for each, before, now in zip(self._inputs, self._found, found, strict=False):  # none was found before
            if now.number < before.number or not is_same(self._session, each.path, before, now):
                self.overtaken = True
                raise HistoryLost(f"an older copy of {each} took its place: the subscription ends", hint="subscribe anew")
        self._found = tuple(found)
        return tuple(version.number for version in found)

    def away(self) -> StorageFailed | None:
        """Return the error of a table whose storage is away. What the catalog knows no more was dropped, maybe with its schema."""
        for each in self._inputs:
            if failed := not_mounted(each.path):
                with suppress(PySparkException, Py4JJavaError):  # the catalog may be away too
                    if self._unnamed(each):
                        continue
                return failed
        return None

    def _unnamed(self, each: Input) -> bool:
        """Tell whether a name leads to a table no more: Spark may drop one and leave its files."""
        return bool(each.name) and find_table(self._session, each.name).path != each.path

    def commits_of(self, time: int) -> tuple[str | None, ...]:
        """Return what tells the commits of a time from others of their numbers; None for what the logs do not tell."""
        places = zip(self._inputs, self.times.versions(time), self._known(), strict=True)
        return tuple(
            (now if now.number == number else version_at(self._session, each.path, each.table_id, number)).commit
            for each, number, now in places
        )

    def overwritten(self, time: int, known: Sequence[str | None]) -> Input | None:
        """Return an input that has another commit at a time than what `commits_of` gave, or None.

        An older copy of its folder took its place, and was written to.
        """
        places = zip(self._inputs, self.times.versions(time), known, self._known(), strict=False)
        for each, number, commit, now in places:  # a consumer of an earlier release knows none
            if not is_same(self._session, each.path, Version(each.table_id, number, commit), now):
                return each
        return None

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the tables, in the order of a position."""
        return tuple(each.table_id for each in self.opened)

    def recreated(self, known: Sequence[str], position: int) -> Input | None:
        """Return a table that was created again since a position, when the tables had the ids `known`, or None."""
        for table, table_id, have, newest in zip(self.opened, known, self.times.versions(position), self.latest(), strict=False):
            if have > newest or (table_id != table.table_id and not self._replaced(table, have, newest)):
                return table
        return None

    def _replaced(self, table: Input, after: int, upto: int) -> bool:
        found = commits(self._session, table.path, after, upto, complete=False)
        return any(word in each.operation for each in found for word in _IN_PLACE)

    def _known(self) -> tuple[Version, ...]:
        """Return the latest versions that were read, with their commits."""
        if not self._found:
            self.latest()
        return self._found

    def _check(self) -> None:
        for n, each in enumerate(self._inputs):
            schema = state(self._session, each.path).schema_json
            if schema != each.schema_json:
                self._fits(each, schema)
                self._inputs[n] = replace(each, schema_json=schema)
        if self._texts and self._seen:  # they were read when the inputs were opened
            self._texts()

    def first(self, statement: Subscribe) -> int:
        """Return the time at which a subscription begins. Raises HistoryLost, and InvalidStatement where it ends before."""
        up_to = statement.up_to
        if statement.as_of is None:
            as_of = self.times.of(self.latest())
        else:
            as_of = self.begin(statement.as_of, statement.at_least, statement.snapshot)
        if up_to is not None and up_to < as_of:
            chosen = "" if statement.as_of == as_of else ", which was chosen,"
            raise InvalidStatement(f"UP TO {up_to} is before AS OF {as_of}{chosen}: there are no such times")
        return as_of

    def begin(self, as_of: int, at_least: bool, snapshot: bool) -> int:
        """Return the time to begin at: `as_of`, or with `at_least` the first after it whose history is kept.

        Raises HistoryLost for a time that is not kept.
        """
        snapshot = snapshot or self._changes_need_contents
        wanted, latest = self.times.versions(as_of), self.latest()
        kept = tuple(map(max, wanted, self._kept(wanted, latest, snapshot)))
        if kept == wanted or at_least:
            return self.times.of(kept) if self._inputs else as_of
        which = next(each for each, want, have in zip(self._inputs, wanted, kept, strict=True) if want < have)
        what = "contents and changes" if snapshot else "changes"
        raise HistoryLost(
            f"AS OF {as_of} is before what {which} retains: its {what} are there from AS OF {self.times.of(kept)} on",
            hint=f"AS OF AT LEAST {as_of} begins at the first time that is kept; the table's properties "
            "delta.logRetentionDuration and delta.deletedFileRetentionDuration say how long that is",
        )

    def _kept(self, wanted: Versions, latest: Versions, snapshot: bool) -> Versions:
        found = list[int]()
        for each, want, newest in zip(self._inputs, wanted, latest, strict=True):
            if want >= newest:  # nothing of the past is read
                found.append(want)
                continue
            kept = retained(self._session, each.path, want)
            found.append(max(kept.table, kept.changes) if snapshot else kept.changes)
        return tuple(found)

    def commits(self, after: int, upto: int, complete: bool = True) -> list[Step]:
        """Return the commits of all inputs in (after, upto] by their timestamps, which is the order of a query's times.

        Raises HistoryLost if the log lacks one of them. With `complete` False, the commits that the log has are enough.
        """
        old, new = self.times.versions(after), self.times.versions(upto)
        each_input = (self._commits(n, *bounds, complete) for n, bounds in enumerate(zip(old, new, strict=True)))
        vector, found = list(old), list[Step]()
        for at, n, commit in heapq.merge(*each_input, key=lambda entry: entry[:2]):
            vector[n] = commit.version
            schema = _schema(self._inputs[n], commit)
            step = Step(self.times.of(tuple(vector)), at, _changed(commit), commit.operation, commit.transactions, schema)
            found.append(step)
        return found

    def _commits(self, n: int, after: int, upto: int, complete: bool) -> Iterator[tuple[datetime, int, CommitSummary]]:
        at = datetime.min.replace(tzinfo=timezone.utc)
        for each in commits(self._session, self._inputs[n].path, after, upto, complete):
            at = max(at, each.at)  # a clock that went back does not change the order of versions
            yield at, n, each


def _schema(table: Input, commit: CommitSummary) -> str | None:
    if commit.schema_json is None or commit.operation in KEEP_COLUMNS:
        return None
    return f"{table} ({StructType.fromJson(json.loads(commit.schema_json)).toDDL()})"


def _changed(commit: CommitSummary) -> int:
    """Return the number of rows that a commit changed, by the log; at least 1 if it changed any."""
    if not commit.data_change:
        return 0
    counted = [commit.metrics.get(name) for name in _COUNTED.get(commit.operation, ())]
    told = sum(int(each) for each in counted if each is not None)
    return max(1, told or commit.rows)
