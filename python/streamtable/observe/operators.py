"""The operators of a query as a tree, with what the last refresh read of each source and wrote to each state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pyspark.sql import SparkSession

from streamtable.algebra.operators import Operator, Scan
from streamtable.algebra.sources import CLOCK
from streamtable.algebra.trees import children, walk
from streamtable.catalog.entries import Entry, table_columns
from streamtable.delta.summaries import commits
from streamtable.delta.tables import Version, size
from streamtable.differentiate.registry import findings
from streamtable.engine.arrangements import arrangements_of
from streamtable.errors import HistoryLost
from streamtable.query.analyse import AnalysedQuery, release
from streamtable.query.stored import analyse_again
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line, history
from streamtable.refresh.load import load_of
from streamtable.sessions.internal import lend

__all__ = ["Node", "last_refreshes", "operators"]


@dataclass(frozen=True)
class Node:
    """An operator, so many levels below the last one; `did` tells what the last refresh read of a source, or wrote to a state."""

    depth: int
    operator: str
    incremental: bool
    reason: str
    did: str | None = None


def operators(spark: SparkSession, entry: Entry) -> list[Node]:
    """Return the operators of a stream table's query, parents first, as EXPLAIN lists them."""
    definition = entry.definition
    analysed = analyse_again(lend(spark, definition.namespace, definition.settings), entry)
    try:
        did = _did(spark, entry, analysed)
        judged = zip(_walk(analysed.tree, 0), findings(analysed.tree), strict=True)
        return [Node(depth, each.operator, each.incremental, each.reason, did.get(operator)) for (depth, operator), each in judged]
    finally:
        release(analysed)


def last_refreshes(spark: SparkSession, entry: Entry) -> tuple[Line | None, Line | None]:
    """Return the last refresh that moved the table on, and the one before it."""
    known = (line for line in history(spark, [entry]) if line.record.sources)
    last, before = (*islice(known, 2), None, None)[:2]
    return last, before


def _walk(operator: Operator, depth: int) -> Iterator[tuple[int, Operator]]:
    yield depth, operator
    for child in children(operator):
        yield from _walk(child, depth + 1)


def _did(spark: SparkSession, entry: Entry, analysed: AnalysedQuery) -> Mapping[Operator, str]:
    """Return what the last refresh that changed the table read at each source, and wrote to the state of each aggregate."""
    frontier = Frontier.of(entry.state.frontier)
    last, before = last_refreshes(spark, entry)
    if frontier is None or last is None:
        return {}
    paths = [path for path in last.record.sources if path != CLOCK.path and path in frontier.sources]
    reads = {path: _read(spark, frontier.sources[path].table_id, path, last, before) for path in paths}
    did: dict[Operator, str] = {}
    for each in walk(analysed.tree):
        if isinstance(each, Scan) and each.source.path in reads:
            did[each] = reads[each.source.path]
    if frontier.fingerprint == analysed.fingerprint:
        did |= _written(entry, analysed, last)
    return did


def _written(entry: Entry, analysed: AnalysedQuery, last: Line) -> Mapping[Operator, str]:
    """Return how many groups a differential refresh wrote to each state; the table's own rows where it is the state itself."""
    if last.record.action is not Action.DIFFERENTIAL:
        return {}
    found = arrangements_of(analysed, entry.path, table_columns(entry))
    written = {
        each: last.record.rows_inserted if state.visible else last.record.states.get(state.name) for each, state in found.items()
    }
    return {each: f"{_many(number, 'group')} written" for each, number in written.items() if number is not None}


def _read(spark: SparkSession, table_id: str, path: str, last: Line, before: Line | None) -> str:
    upto = last.record.sources[path]
    if last.record.action is not Action.DIFFERENTIAL or before is None or path not in before.record.sources:
        found = size(spark, path, upto)
        return f"all {_many(found.rows, 'row')}" if found else "all rows"
    after = before.record.sources[path]
    if after == upto:
        return "no changes of its own; read where those of others meet it"
    try:
        since = commits(spark, path, after, upto)
    except HistoryLost:
        return "changes that its log does not hold any more"
    load = load_of(spark, {path: Version(table_id, upto)}, {path: since}, {})
    return f"{_many(load.changed, 'changed row') if load else 'changes'} of {_many(len(since), 'commit')}"


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
