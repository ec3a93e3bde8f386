"""VERIFY: compares the table, outside its frozen rows, with its query, as Spark analysed it, at the recorded versions.

VERIFY shares no code with the delta rules: the plan is Spark's own, with pinned files.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.entries import Entry, table_columns
from streamtable.delta.rows import read
from streamtable.delta.tables import Version
from streamtable.delta.unreadable import versions_or_why
from streamtable.engine.workspace import Workspace
from streamtable.errors import InvalidStatement
from streamtable.query.analyse import AnalysedQuery, release
from streamtable.query.stored import analyse_again
from streamtable.refresh.compare import compared
from streamtable.refresh.expectations import whole
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.spark_errors import told_of
from streamtable.sessions.internal import lend
from streamtable.sql.builder import qualified

__all__ = ["Comparison", "verify"]


@dataclass(frozen=True)
class Comparison:
    """`missing` rows are in the query but not in the table, `surplus` rows only in the table. Equal rows count each.

    `ok` also says that the counts of the expectations are exact.
    """

    name: str
    ok: bool
    missing: int
    surplus: int


def verify(spark: SparkSession, entry: Entry) -> Comparison:
    """Compare the table with its query at the frontier.

    Raises InvalidStatement for a table that was never populated, or whose query reads a table that the last refresh did not read.
    """
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    if frontier is None:
        raise InvalidStatement(f"{definition.name} was created WITH NO DATA", hint="refresh it first")
    session = lend(spark, definition.namespace, definition.settings)
    analysed = analyse_again(session, entry)
    try:
        _refuse_others(entry, analysed, frontier)
        with told_of(f"the comparison of {definition.name} with its query"), Workspace(session) as workspace:
            names = table_columns(entry)
            rows, counts = whole(workspace, analysed, frontier.sources)
            present = analysed.outside(read(session, entry.path, entry.state.version))
            present = present.select(*(qualified((name,)) for name in names))
            missing, surplus = compared(workspace, rows.toDF(*names), present, exact=False)
    finally:
        release(analysed)
    return Comparison(definition.name, missing == 0 and surplus == 0 and counts == frontier.counts, missing, surplus)


def _refuse_others(entry: Entry, analysed: AnalysedQuery, frontier: Frontier) -> None:
    """Refuse a query over a table that the frontier does not know: a view reads another one, or a source moved or is a new one."""
    now = versions_or_why(analysed.session, analysed.paths)
    ids = {path: found.table_id for path, found in zip(analysed.paths, now, strict=True) if isinstance(found, Version)}
    others = [name for path, name in analysed.source_names.items() if not _is_known(frontier.sources.get(path), ids.get(path))]
    if analysed.bound.clock and CLOCK.path not in frontier.sources:
        others.append(str(CLOCK))
    if others:
        name = entry.definition.statement.name
        raise InvalidStatement(
            f"the query of {entry.definition.name} reads {', '.join(others)} now, and its last refresh did not",
            hint=f"REFRESH STREAM TABLE {name}, then verify it",
        )


def _is_known(recorded: Version | None, now: str | None) -> bool:
    """Tell whether the frontier has a version of the table that is there now. One that cannot be read is told by the comparison."""
    return recorded is not None and (now is None or recorded.table_id in ("", now))
