"""Commits that are not the ones that were read: an older copy of a table's folder took its place, and was written to."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from streamtable.delta.bridge import bridge, translated
from streamtable.delta.summaries import CommitSummary, Layout, commits, layout
from streamtable.delta.tables import Version
from streamtable.errors import HistoryLost

__all__ = ["commits_since", "is_same", "layout_of", "replaced", "version_at"]


def version_at(session: SparkSession, path: str, table_id: str, number: int) -> Version:
    """Return a version of the table at `path`, with its commit if the log still has that."""
    with translated(path):
        return Version(table_id, number, bridge(session).commit(session._jsparkSession, path, number))


def is_same(session: SparkSession, path: str, before: Version, latest: Version | None = None) -> bool:
    """Tell whether the log has the commit of a version that was read, as far as it tells.

    `latest` is the latest version, if it is known: it answers for itself.
    """
    if before.commit is None:
        return True
    if latest is None or latest.number != before.number:
        latest = version_at(session, path, before.table_id, before.number)
    return not latest.replaces(before)


def commits_since(session: SparkSession, path: str, before: Version, upto: int) -> tuple[CommitSummary, ...]:
    """Summarise the commits after a version that was read.

    Raises HistoryLost when the log lacks one of them, has another commit than the version that was read, or does not tell; and when
    the table got other partitions since then.
    """
    now = before if before.commit is None else version_at(session, path, before.table_id, before.number)
    if now.replaces(before):
        raise HistoryLost(replaced(path, before.number))
    found = commits(session, path, before.number, upto)
    layout_of(session, path, before.number, found)
    if now.commit is None and before.commit is not None:
        raise HistoryLost(
            f"the log of the table at {path} no longer holds version {before.number}, "
            "so an older copy of the folder cannot be ruled out"
        )
    return found


def layout_of(session: SparkSession, path: str, after: int, found: Sequence[CommitSummary]) -> Layout | None:
    """Return the one layout of the files in all commits from `after` on; None if they do not tell.

    Raises HistoryLost if there are several: Delta reads files of before by the partitions of now. A removed file without a value of
    each partition is of other partitions, or has NULL.
    """
    told = {of for each in found for of in each.layouts}
    written = {each.partitioned_by for each in found if each.partitioned_by is not None}
    gone = {of for each in found for of in each.removed_layouts} - written
    if len(written) == 1 and gone:
        (of_now,) = written
        told |= {of for of in gone if not set(of_now).issuperset(of)} or ({layout(session, path, after)} if after >= 0 else set())
    if len(told | written) > 1:
        raise HistoryLost(f"{path} was written again with other partitions, and Delta cannot read the older files any more")
    return next(iter(told | written), None)


def replaced(path: str, number: int) -> str:
    """Say that version `number` of a table is another one than the one that was read."""
    return f"version {number} of the table at {path} is another one than was read: an older copy of its folder took its place"
