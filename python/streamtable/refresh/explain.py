"""EXPLAIN DELTA: the queries of a differential refresh in which every source changed."""

from __future__ import annotations

from streamtable.algebra.render import render
from streamtable.algebra.sources import Snapshot, Source
from streamtable.algebra.trees import sources_of
from streamtable.catalog.entries import Entry, table_columns
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.deltas import Deltas, Moved
from streamtable.differentiate.registry import RULES
from streamtable.differentiate.stored_before import delta_of_query
from streamtable.engine.arrangements import arrangements_of
from streamtable.query.analyse import AnalysedQuery
from streamtable.sql.builder import text

__all__ = ["delta_text"]


def delta_text(analysed: AnalysedQuery, entry: Entry) -> list[str]:
    """Return the SQL of each step, arrangements first; empty when the query is recomputed."""
    if analysed.obstacle:
        return []
    arrangements = arrangements_of(analysed.tree, entry.path, table_columns(entry), analysed.fingerprint)
    names = {aggregate: arrangement.name for aggregate, arrangement in arrangements.items()}
    changed = sources_of(analysed.tree)
    deltas = Deltas(changed, names, RULES)
    root = delta_of_query(analysed.tree, deltas)
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
