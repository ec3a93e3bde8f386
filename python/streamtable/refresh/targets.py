"""The versions of its sources that a refresh reads."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.definition import Definition
from streamtable.delta.tables import Version, versions
from streamtable.engine import clock
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.stored import gone
from streamtable.refresh.frontier import Frontier, Vector

__all__ = ["pinned", "target_versions", "targets"]


def targets(definition: Definition, analysed: AnalysedQuery, frontier: Frontier | None, vector: Vector) -> dict[str, Version]:
    """Return the version of each source to read, the clock included if the query reads it."""
    session = analysed.session
    found = target_versions(session, analysed.paths, frontier, vector)
    for path, version in found.items():
        if version is None:
            raise gone(definition, analysed.source_names[path])
    target = {path: version for path, version in found.items() if version is not None}
    if granularity := analysed.bound.clock:
        before = frontier.sources.get(CLOCK.path) if frontier else None
        target[CLOCK.path] = clock.tick(granularity, before, session.conf.get("spark.sql.session.timeZone") or "UTC", vector.at)
    return target


def target_versions(
    spark: SparkSession, paths: Sequence[str], frontier: Frontier | None, vector: Vector
) -> dict[str, Version | None]:
    """Return the version of each source to read; None for a missing source."""
    before = frontier.sources if frontier else {}
    latest = zip(paths, versions(spark, paths), strict=True)
    return {path: version and pinned(version, vector.versions.get(path), before.get(path)) for path, version in latest}


def pinned(latest: Version, wanted: Version | None, before: Version | None) -> Version:
    """Return `wanted`, unless the source was recreated since, or the contents already have a newer version."""
    if wanted is None or wanted.table_id != latest.table_id:
        return latest
    mine = before if before and before.table_id == latest.table_id else wanted
    chosen = max(wanted, mine, key=lambda version: version.number)
    return latest if chosen.number >= latest.number else chosen
