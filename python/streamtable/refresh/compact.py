"""Compaction: small files of a stream table and its arrangements become few. The rows and the frontier stay the same."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.delta import maintenance
from streamtable.delta.folders import left_behind, link_in, refuse_outside
from streamtable.delta.tables import drop_files, files_to_compact, retention
from streamtable.engine import limits
from streamtable.engine.arrangements import folder_of, path_of
from streamtable.engine.jobs import jobs_named_after
from streamtable.refresh.frontier import Frontier
from streamtable.sessions.internal import new
from streamtable.settings.session import SMALL_FILES, VACUUM, read_setting

__all__ = ["compact", "maintain"]

_log = logging.getLogger(__name__)

_SIZES = maintenance.file_sizes(limits.SMALL_FILE_BYTES, limits.FULL_FILE_BYTES, limits.DELETED_SHARE)


def maintain(spark: SparkSession, entry: Entry) -> list[str]:
    """Compact the tables of `entry` that have too many small files, and VACUUM them where the settings say so; return their paths.

    A folder that a user chose is left out of VACUUM, which deletes all that the log does not name: others may have files there. So
    is one with a symbolic link in it, which VACUUM follows.
    The commits change no data: readers of the table and of its change feed see no change, and the next refresh goes on from the
    frontier. Raises ConcurrentRefresh when a refresh commits meanwhile; then nothing was changed.
    """
    frontier = Frontier.of(entry.state.frontier)
    if frontier is None or not frontier.fingerprint:
        return []
    hidden = [path_of(entry.path, frontier.fingerprint, name) for name in frontier.arrangements]
    for path in hidden:
        refuse_outside(spark, entry.path, path)
    paths = [entry.path, *hidden]
    with jobs_named_after(spark, entry.definition.name, "compaction of"):
        crowded = compact(spark, paths, shared=() if entry.definition.has_own_folder else (entry.path,))
        vacuum = read_setting(spark, VACUUM)
        if crowded and vacuum:
            _forget(spark, entry.path, frontier)
    return crowded


def compact(
    spark: SparkSession, paths: Sequence[str], settings: Mapping[str, str] | None = None, shared: Container[str] = ()
) -> list[str]:
    """Compact the tables that have too many small files, and VACUUM them where the settings say so; return their paths.

    `settings` are settings of Delta for these tables alone. Those at the paths `shared` are not vacuumed. Raises ConcurrentRefresh
    when another commit comes meanwhile.
    """
    most = read_setting(spark, SMALL_FILES)
    crowded = (
        [path for path in paths if files_to_compact(spark, path, limits.SMALL_FILE_BYTES, limits.DELETED_SHARE) > most]
        if most
        else []
    )
    if crowded:
        vacuum = read_setting(spark, VACUUM)
        session = new(spark, {**_SIZES, **(settings or {})})
        for path in crowded:
            maintenance.compact(session, path, vacuum and path not in shared and not _leads_elsewhere(path))
    return crowded


def _leads_elsewhere(path: str) -> bool:
    """Tell whether VACUUM of a table might delete by way of a link, and say so."""
    try:
        if link := link_in(path):
            _log.warning("%s is compacted and not vacuumed: VACUUM follows links, and %s is one; take it away", path, link)
    except OSError as error:
        _log.warning(
            "%s is compacted and not vacuumed: nobody can tell whether it has links, which VACUUM follows: %s", path, error
        )
        return True
    return link is not None


def _forget(spark: SparkSession, path: str, frontier: Frontier) -> None:
    """Delete the arrangements of former plans, and those that the plan stored in earlier releases.

    Young ones stay, because another session may be building them.
    """
    folder, age = folder_of(path), retention(spark, path).files
    own = f"{folder}/{frontier.fingerprint}"
    refuse_outside(spark, path, own)
    former = left_behind(spark, folder, (frontier.fingerprint,), age)
    unused = left_behind(spark, own, frontier.arrangements, age)
    for each in (*former, *unused):
        drop_files(spark, path, each)
