"""ALTER STREAM TABLE ... RENAME TO: the table keeps its history, and the queries that read it get its new name.

Spark's parser tells where a query names a table. Spark's plan of the new text must equal the old plan, in which tables are known by
their ids. A managed table moves with its name, so the frontiers of its readers get its new path. Each reader is changed by a
commit of its own, the table itself last. If the process is killed in between, the same statement goes on from there.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry, entries
from streamtable.catalog.halves import Kind, Part
from streamtable.catalog.intents import intended
from streamtable.catalog.paths import vacant
from streamtable.definitions.table import rename
from streamtable.errors import DependentsExist, InvalidQuery
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.language.names import Name, Query, folded
from streamtable.query.analyse import analyse, release
from streamtable.query.rewrite import rewritten
from streamtable.query.states import plan_of
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.records import annotate
from streamtable.sessions.internal import lend
from streamtable.sql.literals import unquote_name

__all__ = ["rename_with_readers"]


def rename_with_readers(spark: SparkSession, entry: Entry, to: Name, *, begun: bool = False) -> Definition:
    """Rename a stream table in its schema and return its new definition. A failure undoes all steps.

    `begun`: a process was killed on the way. The table has the new name; its definition and some readers have the old one.
    Raises DependentsExist for a reader that cannot follow, ConcurrentRefresh for one that is refreshed at the same moment.
    """
    before, after = entry.definition, entry.definition.with_statement(name=to)
    readers = [(each, place) for each in entries(spark) if (place := _place(each, entry, begun))]
    plans = [_plan(spark, each, begun) for each, _ in readers]
    told = [_told(spark, each, before.statement.name, to) for each, _ in readers]
    with nullcontext() if begun else _intended(spark, entry, to), ExitStack() as undo:
        renamed = entry
        if not begun:
            renamed = rename(spark, entry, to)
            undo.callback(rename, spark, replace(renamed, definition=after), before.statement.name)
        for (reader, place), plan, texts in zip(readers, plans, told, strict=True):
            query, moved = _same(spark, reader, plan, texts), {place: renamed.path}
            names = {
                moved.get(path, path): after.name if path in moved else name for path, name in reader.definition.sources.items()
            }
            definition = replace(reader.definition.with_statement(query=query), sources=names)
            frontier = Frontier.of(reader.state.frontier)
            annotate(spark, reader, properties=definition.properties(), frontier=frontier and frontier.moved(moved))
            # Only on top of that commit: a refresh in between has newer contents than the old frontier.
            told_so = replace(reader, state=replace(reader.state, version=reader.state.version + 1))
            undo.callback(annotate, spark, told_so, properties=reader.definition.properties(), frontier=frontier)
        annotate(spark, renamed, properties=after.properties())
        undo.pop_all()
    return after


def _intended(spark: SparkSession, entry: Entry, to: Name) -> AbstractContextManager[None]:
    mark = ("streamtable.id", entry.definition.id)
    path = vacant(spark, to.parts) if entry.definition.statement.location is None else entry.path
    return intended(spark, Kind.RENAME, Part(entry.definition.statement.name.parts, entry.path, mark), Part(to.parts, path, mark))


def _place(reader: Entry, table: Entry, begun: bool) -> str | None:
    """Return the path at which the reader reads the table; None if it does not read it, or has its new name."""
    sources = reader.definition.sources
    if begun:
        return next((path for path, name in sources.items() if name == table.definition.name), None)
    return table.path if table.path in sources else None


def _plan(spark: SparkSession, reader: Entry, begun: bool) -> str | None:
    """Return the fingerprint of the reader's query, or, if the query names a missing table, of its last refresh."""
    if not begun:
        return _fingerprint(spark, reader, reader.query)
    frontier = Frontier.of(reader.state.frontier)
    return frontier.fingerprint if frontier else None


def _fingerprint(spark: SparkSession, reader: Entry, query: Query) -> str:
    session = lend(spark, reader.definition.namespace, reader.definition.settings)
    analysed = analyse(session, query, reader.definition.statement, plan_of(reader))
    release(analysed)
    return analysed.fingerprint


def _told(spark: SparkSession, reader: Entry, old: Name, new: Name) -> tuple[Query, ...]:
    """Return the query with the new name: plain, and with the old name as its alias, for columns qualified by it."""
    text = rewritten(reader.definition.statement.query.text)
    namespace = reader.definition.namespace
    plain = aliased = text
    reference = java_class(spark, f"{SHIM}.PlanReader").references(spark._jsparkSession, text)
    for parts, start, end in sorted(json.loads(reference), key=lambda each: -int(each[1])):
        full = (*namespace[: len(old.parts) - len(parts)], *parts)
        written = tuple(map(unquote_name, re.findall(r"`(?:[^`]|``)+`|[^.`]+", text[start : end + 1])))
        if folded(full) == folded(old.parts) and written == tuple(parts):
            name = str(Name(new.parts[-len(parts) :]))
            plain = plain[:start] + name + plain[end + 1 :]
            aliased = f"{aliased[:start]}{name} AS {Name(old.parts[-1:])}{aliased[end + 1 :]}"
    if plain == text:
        through = f" through {', '.join(reader.views)}" if reader.views else ""
        raise _stays(reader, f"it reads {'.'.join(old.parts)}{through}, and its text does not name it")
    return Query(plain, columns=reader.columns), Query(aliased, columns=reader.columns)


def _same(spark: SparkSession, reader: Entry, plan: str | None, texts: tuple[Query, ...]) -> Query:
    """Return the text with the same plan as before, if that plan is known."""
    for query in texts:
        with suppress(InvalidQuery):
            if plan in (None, _fingerprint(spark, reader, query)):
                return query
    raise _stays(reader, "neither the name alone nor with the old one as its alias makes the same query")


def _stays(reader: Entry, reason: str) -> DependentsExist:
    return DependentsExist(
        f"the query of {reader.definition.name} cannot be told the new name: {reason}",
        hint=f"drop or change {reader.definition.name} first; nothing was renamed",
    )
