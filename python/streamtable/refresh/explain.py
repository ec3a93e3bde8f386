"""EXPLAIN: the states of a table, and for DELTA the queries of a differential refresh in which every source changed."""

from __future__ import annotations

from streamtable.algebra.operators import Aggregate
from streamtable.algebra.recursion import LEVEL
from streamtable.algebra.render import render
from streamtable.algebra.sources import Snapshot, Source
from streamtable.algebra.trees import sources_of
from streamtable.catalog.entries import Entry, table_columns
from streamtable.delta.tables import size
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.deltas import Deltas, Moved
from streamtable.differentiate.registry import RULES
from streamtable.differentiate.stored_before import delta_of_query
from streamtable.engine.arrangements import Arrangement, arrangements_of
from streamtable.errors import StreamTableError
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.frontier import Frontier
from streamtable.sql.builder import text

__all__ = ["delta_text", "optional_states", "stored_states"]


def optional_states(analysed: AnalysedQuery) -> list[tuple[str, str]]:
    """Return a line for each optional state: whether it is stored, and why. A query that is recomputed has none."""
    if analysed.obstacle:
        return []
    return [
        ("Optional state", f"{state.text}: {'stored' if decided.stored else 'not stored'}, because {decided.reason}")
        for state, decided in analysed.states
    ]


def stored_states(analysed: AnalysedQuery, entry: Entry) -> list[tuple[str, str]]:
    """Return a line for each state that the last refresh left, with its size."""
    frontier = Frontier.of(entry.state.frontier)
    if analysed.obstacle or frontier is None or frontier.fingerprint != analysed.fingerprint:
        return []
    arrangements = arrangements_of(analysed, entry.path, table_columns(entry))
    return [(f"State {each.name}", _stored(analysed, frontier, of, each)) for of, each in arrangements.items()]


def _stored(analysed: AnalysedQuery, frontier: Frontier, aggregate: Aggregate, arrangement: Arrangement) -> str:
    keys = ", ".join(key.value.text for key in aggregate.keys if key.id != LEVEL.id)
    what = f"a row for each {keys}" if keys else "one row"
    if arrangement.visible:
        return f"{what}: in the columns of the table itself"
    try:
        found = size(analysed.session, arrangement.path, frontier.arrangements[arrangement.name])
    except (StreamTableError, KeyError):
        return f"{what}: it cannot be read, so that the next refresh builds it anew"
    return f"{what}: {found.rows} rows, {found.bytes} bytes" if found else f"{what}: its size is not known"


def delta_text(analysed: AnalysedQuery, entry: Entry) -> list[str]:
    """Return the SQL of each step, arrangements first; empty when the query is recomputed."""
    if analysed.obstacle:
        return []
    arrangements = arrangements_of(analysed, entry.path, table_columns(entry))
    names = {aggregate: arrangement.name for aggregate, arrangement in arrangements.items()}
    changed = sources_of(analysed.tree)
    deltas = Deltas(changed, names, RULES, trusted=analysed.trusted)
    root = delta_of_query(analysed.tree, deltas, analysed.judged.tree if analysed.judged else None)
    queries = []
    for each in deltas.steps:
        if isinstance(each, Moved):
            step = AggregateStep(names[each.aggregate], each.aggregate, each.change, each.child)
            queries += [step.partial(_named), step.merge(), step.moved(step.recomputes), step.delta()]
        else:
            queries += [render(tree, _named) for tree in each.trees]
    if root is not None:
        queries.append(render(root, _named))
    return [text(query, pretty=True) for query in queries]


def _named(source: Source | int, form: Snapshot) -> str:
    return f"{source} ({form.value})" if isinstance(source, Source) else f"constant {source}"
