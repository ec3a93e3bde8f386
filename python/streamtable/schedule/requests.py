"""REFRESH ... ASYNC: refreshes that a scheduler of the catalog carries out, whichever process it runs in."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.catalog.definition import SUSPENDED, suspended
from streamtable.catalog.entries import Entry, find_at
from streamtable.catalog.graph import read_by
from streamtable.catalog.owners import owner
from streamtable.catalog.requests import Request
from streamtable.engine import clock
from streamtable.errors import StreamTableNotFound
from streamtable.refresh.records import PATIENCE, annotate
from streamtable.schedule.cycle import chosen
from streamtable.schedule.due import ScheduledTable
from streamtable.schedule.loop import look_now

__all__ = ["give_back", "in_order", "request", "take", "waiting"]

log = logging.getLogger("streamtable.scheduler")

_held = set[str]()
"""The requests that schedulers of this process carry out."""


def request(spark: SparkSession, wanted: Sequence[Entry], full: bool, with_sources: bool) -> Mapping[str, str]:
    """Ask for refreshes of stream tables, and return the request of each by name; `with_sources` also of those that they read.

    A table whose request nobody has taken keeps it. Raises StreamTableSuspended before the first request is made.
    """
    paths = list(dict.fromkeys(entry.path for entry in wanted))
    # Sources come before readers, and a scheduler that looks meanwhile refreshes them in this order.
    _, names = chosen(spark, wanted, with_sources)
    for path, name in names.items():
        _active(spark, path, name)
    one = uuid.uuid4().hex
    made = {path: PATIENCE(_request, spark, path, name, one, full and path in paths) for path, name in names.items()}
    look_now()
    return {names[path]: made[path] for path in dict.fromkeys((*paths, *made))}


def _active(spark: SparkSession, path: str, name: str) -> Entry:
    entry = find_at(spark, path)
    if entry is None:
        raise StreamTableNotFound(f"{name} is no stream table any more")
    if entry.definition.status == SUSPENDED:
        raise suspended(entry.definition)
    return entry


def _request(spark: SparkSession, path: str, name: str, new: str, full: bool) -> str:
    entry, now = _active(spark, path, name), clock.now()
    open_ = next((each for each in entry.requests if each.by is None), Request(new, now))
    asked = replace(open_, at=now, full=open_.full or full)
    annotate(spark, entry, properties=asked.properties())
    return asked.id


def waiting(entry: Entry, now: datetime) -> Request | None:
    """Return the first request of a table that a scheduler may take."""
    return next((each for each in entry.requests if _free(each, now)), None)


def _free(asked: Request, now: datetime) -> bool:
    return asked.free(now) or (asked.by == owner() and asked.id not in _held)


def in_order(tables: Mapping[str, ScheduledTable], entries: Collection[Entry], now: datetime) -> dict[str, ScheduledTable]:
    """Return the tables without the requests that wait: of readers of a table whose own request somebody carries out now."""
    begun = [entry.path for entry in entries if any(not _free(each, now) for each in entry.requests)]
    if not begun:
        return dict(tables)
    graph = read_by(entries)
    later = set[str]().union(*(nx.descendants(graph, path) for path in begun))
    return {path: replace(table, request=None) if path in later else table for path, table in tables.items()}


def take(spark: SparkSession, path: str, seen: Request) -> Request | None:
    """Take a request as a scheduler saw it. None: another took it, or it was made again since, by somebody who wrote meanwhile."""
    return PATIENCE(_take, spark, path, seen)


def _take(spark: SparkSession, path: str, seen: Request) -> Request | None:
    entry, now = find_at(spark, path), clock.now()
    if entry is None or seen not in entry.requests or not _free(seen, now):
        return None
    mine = seen.taken_by(owner(), now)
    annotate(spark, entry, properties=mine.properties())
    _held.add(mine.id)
    return mine


def give_back(spark: SparkSession, path: str, mine: Request) -> None:
    """Let others take a request, unless the refresh has ended it. An error is logged: the request is free some time later."""
    _held.discard(mine.id)
    try:
        PATIENCE(_give_back, spark, path, mine)
    except Exception as error:
        log.warning("the request %s of %s is not given back yet: %s", mine.id, path, error)


def _give_back(spark: SparkSession, path: str, mine: Request) -> None:
    entry = find_at(spark, path)
    if entry is not None and mine in entry.requests:
        annotate(spark, entry, properties=mine.taken_by(None, clock.now()).properties())
