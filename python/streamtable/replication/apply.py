"""One table of a subscription, moved from its position to the publisher's latest version: each step is one commit."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from streamtable.delta.column_ids import NamesInFiles
from streamtable.delta.commit_ids import is_same, version_at
from streamtable.delta.rows import read
from streamtable.delta.summaries import CommitSummary, commits
from streamtable.delta.tables import FORGETS, Located, Version, retained, state, transaction
from streamtable.engine.load import Load
from streamtable.errors import ConcurrentRefresh, HistoryLost, InvalidStatement, ReplicationConflict
from streamtable.jvm.failures import cancelled
from streamtable.replication import operations
from streamtable.replication.source import IDENTITY, SourceTable
from streamtable.replication.subscriptions import APPLICATIONS, SubscribedTable
from streamtable.replication.writer import Applied, Writer

__all__ = ["AppliedTable"]

_log = logging.getLogger(__name__)

_TRUNCATE = "TRUNCATE"
_KINDS = {"insert": "numTargetRowsInserted", "update": "numTargetRowsUpdated", "delete": "numTargetRowsDeleted"}
"""The kinds of changes of rows, and the names of MERGE's counts."""


@dataclass
class AppliedTable:
    """A relation while changes are applied. `position` and `done` are the progress so far, even if an error ends it.

    `source_id` is the id of the publisher's table that the rows come from: a copy takes those of the table that is there.
    """

    session: SparkSession
    source: SourceTable
    target: Located
    relation: SubscribedTable
    foreign_only: bool
    done: Applied = field(default_factory=Applied)

    def __post_init__(self) -> None:
        found = state(self.session, self.target.path)
        self.target_id, self.target_version, self.source_id = found.table_id, found.version, self.relation.source_id
        # What the table itself records was committed with its rows; what the relation does came with none.
        self._recorded = self._transaction()
        written = self.relation.written
        if self._recorded is None and FORGETS in found.properties:
            written = None  # Delta forgets numbers that are older than this: that one is missing tells nothing
        self._is_older = written is not None and (self._recorded is None or self._recorded < written)
        known = [each for each in (self._recorded, self.relation.position) if each is not None]
        self.position = self._recorded if self._goes_back else max(known, default=None)

    def copy(self) -> None:
        """Write the current rows, unless they were written before a crash."""
        if self.position is not None and self._is_other():
            raise self._lost(f"{self._mine} was created again: the rows that were copied are not in it")
        if self.position is None:
            writer, upto = self._writer(), self.source.version
            rows = operations.snapshot(self.session, self.source, writer.schema)
            self.done += writer.copy(rows, upto)
            self._recorded, self.position, self.source_id = self._confirmed(upto), upto, self.source.table_id

    def follow(self) -> None:
        """Apply all commits up to the latest version, as many of them together as possible."""
        assert self.position is not None, "it was copied, or began at a position"
        if self._is_recreated():
            raise self._lost(f"{self.source.name} was dropped and created again")
        if self._is_overwritten():
            raise self._lost(f"an older copy of {self.source.name} took its place")
        if self._is_other():
            raise self._lost(f"{self._mine} was dropped and created again: the rows that were applied before are not in it")
        if self._is_restored():
            raise self._lost(f"{self._mine} was restored to an earlier version: rows that were applied before may not be in it")
        if self._is_unmarked:
            raise self._lost(f"an older copy of {self._mine} took its place: nothing in it tells up to where it was applied")
        if self._goes_back:
            _log.warning("%s is an older copy: it is given again what came after version %s", self._mine, self.position)
        try:
            column = self._other_column()
            pending = commits(self.session, self.source.path, self.position, self.source.version)
            for part in () if column else self._parts(pending):
                self._apply(part)
        except (HistoryLost, Stopped) as error:
            if not self.is_lost():
                raise
            raise self._lost(f"{self.source.name} does not hold any more what happened after version {self.position}") from error
        if column:
            raise self._lost(f"the column {column} of {self.source.name} is another one than at version {self.position}")

    def is_lost(self) -> bool:
        """Tell whether the history after the position is gone: log or files were cleaned up, or another table is in its place."""
        if self._is_recreated() or self._is_overwritten() or self._is_other() or self._is_unmarked or self._is_restored():
            return True
        if self.position is None:
            return False
        if retained(self.session, self.source.path, self.position).changes > self.position:
            return True
        try:
            return self._other_column() is not None
        except HistoryLost:
            return True

    def refuse_rows(self) -> None:
        """Raise HistoryLost where a new copy would come beside rows that were applied before."""
        if read(self.session, self.target.path, self.target_version).isEmpty():
            return
        column = None
        with suppress(HistoryLost):  # a log that does not tell is no other column
            column = self._other_column() if self.position is not None else None
        if column or self._is_restored():
            raise self._lost(f"{self._mine} still has rows that were applied before")

    def _is_recreated(self) -> bool:
        reached = max(self.position or 0, self.relation.position or 0)
        return self.source_id != self.source.table_id or reached > self.source.version

    def _is_overwritten(self) -> bool:
        if self.relation.position is None:
            return False
        read = Version(self.source.table_id, self.relation.position, self.relation.commit)
        return not is_same(self.session, self.source.path, read)

    def commit(self) -> str | None:
        """Return what tells the commit of the position from another one of its number, if the source's log tells it."""
        if self.position is None or (self.position == self.relation.position and self.relation.commit is not None):
            return self.relation.commit
        return version_at(self.session, self.source.path, self.source.table_id, self.position).commit

    @property
    def written(self) -> int | None:
        """Return what the subscriber's table records, for the next look; a table that is lost stays so."""
        return self.relation.written if self._is_unmarked or self._is_other() else self._recorded

    @property
    def _goes_back(self) -> bool:
        return self._is_older and self._recorded is not None and not self._is_other()

    @property
    def _is_unmarked(self) -> bool:
        return self._is_older and self._recorded is None

    @property
    def _mine(self) -> str:
        return ".".join(self.target.name)

    def _is_other(self) -> bool:
        return self.relation.target_id not in (None, self.target_id)

    def _other_column(self) -> str | None:
        assert self.position is not None, "what was not applied yet reads no history"
        if self.position >= self.source.version:
            return None
        return NamesInFiles(self.session, self.source.path, self.source.columns).other(self.position)

    def _is_restored(self) -> bool:
        """Tell whether the subscriber's table was restored since the last look: RESTORE takes rows back, and not the position."""
        seen = self.relation.seen
        if seen is None or seen >= self.target_version or self._is_other():
            return False
        since = commits(self.session, self.target.path, seen, self.target_version, complete=False)
        return any(each.operation == "RESTORE" for each in since)

    def _lost(self, what: str) -> HistoryLost:
        hint = f"empty {self._mine}; then ALTER SUBSCRIPTION ... REFRESH PUBLICATION has it copied anew"
        return HistoryLost(what, hint=hint)

    def _parts(self, pending: tuple[CommitSummary, ...]) -> Iterator[tuple[CommitSummary, ...]]:
        """Yield groups of commits. A truncation is a group of its own."""
        part = list[CommitSummary]()
        for each in pending:
            if each.operation == _TRUNCATE:
                yield from filter(None, (tuple(part), (each,)))
                part = []
            else:
                part.append(each)
        if part:
            yield tuple(part)

    def _apply(self, part: tuple[CommitSummary, ...]) -> None:
        """Apply commits together. If that fails, apply the commits before the one at fault, unless somebody cancelled it."""
        try:
            done, upto = self._step(part), part[-1].version
            self._recorded = self._confirmed(upto)
            self.done, self.position = self.done + done, upto
        except Exception as error:
            if isinstance(error, ConcurrentRefresh) or cancelled(error):
                raise
            if len(part) == 1:
                raise Stopped(part[0].version) from error
            middle = error.position - part[0].version if isinstance(error, ReplicationConflict) else len(part) // 2
            for half in filter(None, (part[:middle], part[middle : middle + 1], part[middle + 1 :])):
                self._apply(half)

    def _step(self, part: tuple[CommitSummary, ...]) -> Applied:
        left_out = {each.version for each in part if self._is_left_out(each)}
        pending = [each for each in part if each.data_change and each.version not in left_out]
        if not pending:
            return Applied()
        source, writer, upto = self.source, self._writer(), part[-1].version
        if pending[0].operation == _TRUNCATE:
            return writer.truncate(upto) if source.publishes("truncate") else Applied()
        after = part[0].version - 1
        if source.key:
            updates = {each.version for each in pending if _kind(each) == "update"}
            changes = operations.keyed(self.session, source, writer.schema, after, upto, left_out, updates)
            return writer.merge(changes, upto, _load(pending))
        kinds = {each.version: _sent_as(source, each) for each in pending}
        left_out |= {version for version, kind in kinds.items() if kind is None}
        changes = operations.weighted(self.session, source, writer.schema, after, upto, left_out, kinds)
        # By the log, not by the kinds: rows may also have gone by a commit that is sent as an insert.
        removes = any(each.removes_rows and each.version not in left_out for each in pending)
        return writer.replace(changes, upto) if removes else writer.append(changes, upto)

    def _is_left_out(self, commit: CommitSummary) -> bool:
        ours = any(application.startswith(APPLICATIONS) for application in commit.transactions)
        return commit.version == self.relation.skip or (self.foreign_only and ours)

    def _writer(self) -> Writer:
        """Open the table. Later commits conflict with its writes; earlier ones are checked here."""
        writer = Writer(self.session, self.target, self.source, self.relation.application)
        if self._transaction() != self._recorded:
            raise self._overtaken()
        return writer

    def _confirmed(self, upto: int) -> int | None:
        """Return the position in the table after a step. If another process wrote it, Delta skipped our step, so we stop."""
        recorded = self._transaction()
        if recorded not in (self._recorded, upto):
            raise self._overtaken()
        return recorded

    def _overtaken(self) -> ConcurrentRefresh:
        return ConcurrentRefresh(f"another process applies to {self._mine}; nothing was written", hint="apply again")

    def _transaction(self) -> int | None:
        return transaction(self.session, self.target.path, self.relation.application)


class Stopped(Exception):
    """A commit could not be applied, because of `__cause__`."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def _kind(commit: CommitSummary) -> str | None:
    """Return the kind of all changes of a commit; None if there may be several kinds."""
    if not commit.removes_rows:
        return "insert"
    if commit.operation != "MERGE":
        return commit.operation.lower() if commit.operation in ("UPDATE", "DELETE") else None
    done = [kind for kind, metric in _KINDS.items() if commit.metrics.get(metric) != "0"]
    return done[0] if len(done) == 1 else None


def _load(pending: Collection[CommitSummary]) -> Load:
    """Return the number of known changed rows, and the bytes of files without counts."""
    changed, uncounted = sum(each.rows for each in pending), sum(each.feed_bytes or each.uncounted_bytes for each in pending)
    return Load(changed, changed, uncounted)


def _sent_as(source: SourceTable, commit: CommitSummary) -> str | None:
    """Return the kind by whose conditions all rows of a commit are sent, without a key; None if they are not sent.

    Raises InvalidStatement for changes that only a key can tell from others.
    """
    sent, kind = [each for each in _KINDS if source.publishes(each)], _kind(commit)
    if not sent or (kind and kind not in sent):
        return None
    if kind == "insert" or (source.full and kind):
        return kind
    if source.full and _sends_all(source):
        return "insert"
    raise _unknown(source, sent, commit)


def _sends_all(source: SourceTable) -> bool:
    """Tell whether the kind of a change does not matter."""
    return all(map(source.publishes, _KINDS)) and len({source.conditions(each) for each in _KINDS}) == 1


def _unknown(source: SourceTable, kinds: list[str], at: CommitSummary) -> InvalidStatement:
    by = f"version {at.version} ({at.operation})"
    if source.full or kinds == ["insert"]:
        message = f"of what {by} of {source.name} did, {' and '.join(kinds)} cannot be told from the rest without a key"
    else:
        message = f"{source.name} has no replica identity and publishes updates or deletes, as {by} did"
    hint = f"ALTER TABLE {source.name} SET TBLPROPERTIES ({IDENTITY} = 'column, ...'), and send these columns"
    return InvalidStatement(message, hint=hint)
