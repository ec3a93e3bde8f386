"""The user's query over its sources at given versions: Spark's own plan, with pinned files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from streamtable.algebra.sources import CLOCK
from streamtable.delta.rows import read
from streamtable.delta.tables import Version
from streamtable.engine.clock import microseconds
from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.query.analyse import AnalysedQuery

__all__ = ["pinned_query"]


def pinned_query(analysed: AnalysedQuery, target: Mapping[str, Version]) -> DataFrame:
    """Return the query itself, not our rendering of it, over its sources and the clock at the given versions."""
    session = analysed.session
    frames = java_class(session, "java.util.HashMap")()
    for path in analysed.paths:
        frames.put(path, read(session, path, target[path].number)._jdf)
    reader = java_class(session, f"{SHIM}.PlanReader")
    return frame_of(
        session, reader.pinned(session._jsparkSession, analysed.frame._jdf, frames, microseconds(target.get(CLOCK.path)))
    )
