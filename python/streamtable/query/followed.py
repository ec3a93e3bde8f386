"""Who follows a stream table: the stream tables that read it, and queues, publications and slots, by their own definitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.accepted import knows
from streamtable.catalog.entries import Entry, find, table_names
from streamtable.catalog.kinds import KINDS, PUBLICATION, QUEUE, SLOT, CatalogObject, statement_of
from streamtable.delta.tables import find_table
from streamtable.delta.unreadable import left_out
from streamtable.errors import InvalidQuery
from streamtable.language.names import UNREAD, Name, Query, folded
from streamtable.language.queue.ast import CreateQueue
from streamtable.language.replication.ast import CreatePublication
from streamtable.language.subscribe.ast import Subscribe
from streamtable.query.analyse import analyse, release
from streamtable.sessions.internal import lend

__all__ = ["followers"]


def followers(spark: SparkSession, entry: Entry, readers: bool = True) -> Iterator[str]:
    """Yield the names of those that follow a stream table. Unreadable ones are left out, and stream tables without `readers`."""
    for parts in table_names(spark):
        follows = False
        with left_out(".".join(parts)):
            follows = _follows(spark, parts, entry, readers)
        if follows:
            yield ".".join(parts)


def _follows(spark: SparkSession, parts: tuple[str, ...], entry: Entry, readers: bool) -> bool:
    located, reader = find(spark, Name(parts))
    if reader:
        return readers and entry.path in reader.definition.sources
    kinds = (kind for kind in KINDS if knows(located, kind.key))
    return any((stored := objects.find(spark, kind, Name(parts))) and _object_follows(spark, stored, entry) for kind in kinds)


def _object_follows(spark: SparkSession, stored: CatalogObject, entry: Entry) -> bool:
    """Tell whether an object follows the table. A subscription follows what its publication is for."""
    if stored.kind == QUEUE:
        events = statement_of(stored, CreateQueue).events
        return isinstance(events, Subscribe) and _reads(spark, stored, events.relation, entry)
    if stored.kind == PUBLICATION:
        return _publishes(stored, entry)
    return stored.kind == SLOT and any(each["table_id"] == entry.state.table_id for each in stored.content["positions"])


def _reads(spark: SparkSession, stored: CatalogObject, relation: Name | Query, entry: Entry) -> bool:
    """Tell whether the table, view or query of a queue reads the table. One that cannot be read now might."""
    if isinstance(relation, Name):
        located = find_table(spark, relation.parts)
        if located.kind == "delta":
            return located.path == entry.path
        relation = Query(f"TABLE {relation}")
    known = stored.content
    query = replace(relation, columns=known.get("columns", UNREAD))
    try:
        analysed = analyse(lend(spark, tuple(known["namespace"]), known["settings"]), query)
    except InvalidQuery:
        return True
    release(analysed)
    return entry.path in analysed.paths


def _publishes(stored: CatalogObject, entry: Entry) -> bool:
    name, wanted = folded(entry.name), statement_of(stored, CreatePublication).objects
    if entry.state.table_id in stored.content.get("excepted", ()):
        return False
    whole = {folded(schema.parts) for schema in wanted.schemas} | ({folded(stored.name[:-1])} if wanted.all_tables else set())
    of_schema = name[:-1] in whole and name not in {folded(each.parts) for each in wanted.excepted}
    return of_schema or name in {folded(each.name.parts) for each in wanted.tables}
