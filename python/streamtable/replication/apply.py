"""One table of a subscription, moved from its position to the publisher's latest version: each step is one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from streamtable.delta.tables import CommitSummary, Located, commits, retained, state, transaction
from streamtable.errors import ConcurrentRefresh, HistoryLost, InvalidStatement, ReplicationConflict
from streamtable.refresh.cost import Load
from streamtable.replication import operations
from streamtable.replication.source import IDENTITY, Source
from streamtable.replication.subscriptions import APPLICATIONS, Relation
from streamtable.replication.writer import Applied, Writer

__all__ = ["Table"]

_TRUNCATE, _ONLY_REMOVES = "TRUNCATE", ("UPDATE", "DELETE", "TRUNCATE")


@dataclass
class Table:
    """A relation on its way; `position` is what was reached, and `done` what that took, also when an error ends it."""

    session: SparkSession
    source: Source
    target: Located
    relation: Relation
    foreign_only: bool
    done: Applied = field(default_factory=Applied)

    def __post_init__(self) -> None:
        self.target_id = state(self.session, self.target.path).table_id
        # What the table itself records was committed with its rows; what the relation does came with none.
        self._recorded = self._transaction()
        known = [each for each in (self._recorded, self.relation.position) if each is not None]
        self.position = max(known, default=None)

    def copy(self) -> None:
        """Write the rows that are there now, unless that was done before a crash."""
        if self.position is None:
            writer, upto = self._writer(), self.source.version
            rows = operations.snapshot(self.session, self.source, writer.schema)
            self.done += writer.merge(rows, upto) if self.source.key else writer.append(rows, upto)
            self.position = upto

    def follow(self) -> None:
        """Apply all commits up to the latest version, those together that can be."""
        assert self.position is not None, "it was copied, or began at a position"
        if self._is_recreated():
            raise self._lost(f"{self.source.name} was dropped and created again")
        if self._is_other():
            mine = ".".join(self.target.name)
            raise self._lost(f"{mine} was dropped and created again: the rows that were applied before are not in it")
        try:
            pending = commits(self.session, self.source.path, self.position, self.source.version)
            for part in self._parts(pending):
                self._apply(part)
        except (HistoryLost, Stopped) as error:
            if not self.is_lost():
                raise
            raise self._lost(f"{self.source.name} does not hold any more what happened after version {self.position}") from error

    def is_lost(self) -> bool:
        """Tell whether the history after the position is gone: log or files were cleaned up, or either table was created again."""
        if self._is_recreated() or self._is_other():
            return True
        if self.position is None:
            return False
        return retained(self.session, self.source.path, self.position).changes > self.position

    def _is_recreated(self) -> bool:
        return self.relation.source_id != self.source.table_id or (self.position or 0) > self.source.version

    def _is_other(self) -> bool:
        return self.relation.target_id not in (None, self.target_id)

    def _lost(self, what: str) -> HistoryLost:
        hint = f"empty {'.'.join(self.target.name)}; then ALTER SUBSCRIPTION ... REFRESH PUBLICATION has it copied anew"
        return HistoryLost(what, hint=hint)

    def _parts(self, pending: tuple[CommitSummary, ...]) -> Iterator[tuple[CommitSummary, ...]]:
        """Yield the commits between truncations, and those alone."""
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
        """Apply commits together; where that fails, those before the one that is at fault."""
        try:
            done, upto = self._step(part), part[-1].version
            self._recorded = self._confirmed(upto)
            self.done, self.position = self.done + done, upto
        except ConcurrentRefresh:
            raise
        except Exception as error:
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
            updates = {each.version for each in pending if _only_updates(each)}
            changes = operations.keyed(self.session, source, writer.schema, after, upto, left_out, updates)
            return writer.merge(changes, upto, _load(pending))
        _check_told(source, pending)
        changes = operations.weighted(self.session, source, writer.schema, after, upto, left_out | _ignored(source, pending))
        return writer.replace(changes, upto) if _by_rows(source) else writer.append(changes, upto)

    def _is_left_out(self, commit: CommitSummary) -> bool:
        ours = any(application.startswith(APPLICATIONS) for application in commit.transactions)
        return commit.version == self.relation.skip or (self.foreign_only and ours)

    def _writer(self) -> Writer:
        """Open the table. What is written then conflicts with later commits; that none came before is looked at here."""
        writer = Writer(self.session, self.target, self.source, self.relation.application)
        if self._transaction() != self._recorded:
            raise self._overtaken()
        return writer

    def _confirmed(self, upto: int) -> int | None:
        """Return what the table records after a step; that of another process is not ours to go on from: Delta skipped our step."""
        recorded = self._transaction()
        if recorded not in (self._recorded, upto):
            raise self._overtaken()
        return recorded

    def _overtaken(self) -> ConcurrentRefresh:
        name = ".".join(self.target.name)
        return ConcurrentRefresh(f"another process applies to {name}; nothing was written", hint="apply again")

    def _transaction(self) -> int | None:
        return transaction(self.session, self.target.path, self.relation.application)


class Stopped(Exception):
    """A commit could not be applied: `__cause__` says why."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def _by_rows(source: Source) -> bool:
    return source.full and (source.publishes("update") or source.publishes("delete"))


def _only_updates(commit: CommitSummary) -> bool:
    """Tell whether no row was inserted or deleted: a key that went alone is then that of a row whose key was changed."""
    counts = [commit.metrics.get(f"numTargetRows{kind}") for kind in ("Inserted", "Deleted")]
    return commit.operation == "UPDATE" or (commit.operation == "MERGE" and counts == ["0", "0"])


def _load(pending: Collection[CommitSummary]) -> Load:
    """Return the rows that are known to have changed, and the bytes of those of which no more is known."""
    changed, uncounted = sum(each.rows for each in pending), sum(each.feed_bytes or each.uncounted_bytes for each in pending)
    return Load(changed, changed, uncounted)


def _check_told(source: Source, pending: Collection[CommitSummary]) -> None:
    """Raise InvalidStatement for what cannot be sent without a key."""
    kinds = [kind for kind in ("insert", "update", "delete") if source.publishes(kind)]
    if kinds and not (source.full and len(kinds) == 3):
        for each in pending:
            if each.removes_rows and not (kinds == ["insert"] and each.operation in _ONLY_REMOVES):
                raise _unknown(source, kinds, each)


def _unknown(source: Source, kinds: list[str], at: CommitSummary) -> InvalidStatement:
    by = f"version {at.version} ({at.operation})"
    if source.full or kinds == ["insert"]:
        message = f"of what {by} of {source.name} did, {' and '.join(kinds)} cannot be told from the rest without a key"
    else:
        message = f"{source.name} has no replica identity and publishes updates or deletes, as {by} did"
    hint = f"ALTER TABLE {source.name} SET TBLPROPERTIES ({IDENTITY} = 'column, ...'), and send these columns"
    return InvalidStatement(message, hint=hint)


def _ignored(source: Source, pending: Collection[CommitSummary]) -> set[int]:
    """Return the commits that remove rows of a table that sends inserts only, and cannot tell them by a key."""
    if _by_rows(source):
        return set()
    return {each.version for each in pending if each.removes_rows or not source.publishes("insert")}
