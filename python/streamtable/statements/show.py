"""What SHOW and DESCRIBE say of stream tables, as rows."""

from __future__ import annotations

import fnmatch
from typing import Any

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, entries, listed
from streamtable.catalog.graph import dependencies
from streamtable.delta.tables import find_table
from streamtable.delta.unreadable import Unreadable
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import Name
from streamtable.language.stream_table.state import StateMode
from streamtable.language.stream_table.write import expectation_sql
from streamtable.observe.expectations import counts_of
from streamtable.observe.freshness import freshness
from streamtable.observe.results import Rows
from streamtable.observe.status_rows import LISTED, status_rows
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line

__all__ = ["described", "readable", "shown", "told"]


def _matching(spark: SparkSession, namespace: Name | None, like: str | None) -> list[tuple[Name, Entry | Unreadable]]:
    """Return the stream tables of a namespace, or of the current one, whose names match a pattern of Spark's LIKE there."""
    space = namespace.parts if namespace else namespace_of(spark)
    patterns = [part.strip().casefold() for part in (like or "*").split("|")]
    return [
        (name, found)
        for name, found in listed(spark, space)
        if any(fnmatch.fnmatchcase(name.parts[-1].casefold(), pattern) for pattern in patterns)
    ]


def readable(spark: SparkSession, namespace: Name | None, like: str | None) -> tuple[list[Entry], dict[str, str]]:
    """Return the same stream tables as far as they can be read; of the others, by name, why they, or what they read, cannot."""
    found = _matching(spark, namespace, like)
    why = {".".join(name.parts): f"it cannot be read: {each.reason}" for name, each in found if isinstance(each, Unreadable)}
    paths = {find_table(spark, name.parts).path: ".".join(name.parts) for name, each in found if isinstance(each, Unreadable)}
    graph = dependencies(spark) if paths else nx.DiGraph()
    above = {reader: name for path, name in paths.items() if path in graph for reader in nx.descendants(graph, path)}
    tables = [each for _, each in found if isinstance(each, Entry)]
    why |= {each.definition.name: f"it reads {above[each.path]}, which cannot be read" for each in tables if each.path in above}
    return [each for each in tables if each.path not in above], why


def shown(spark: SparkSession, namespace: Name | None, like: str | None) -> Rows:
    """Return the rows of SHOW STREAM TABLES."""
    found = _matching(spark, namespace, like)
    if not found:
        return []
    # How old contents are depends on readers and sources in other schemas.
    known = (*entries(spark), *(each for _, each in found if isinstance(each, Entry)))
    return status_rows(spark, LISTED, found, freshness(spark, list({each.path: each for each in known}.values())))


def described(entry: Entry, extended: bool) -> Rows:
    """Return the rows of DESCRIBE STREAM TABLE."""
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    rows: Rows = [
        ("name", definition.name),
        ("status", definition.status),
        ("refresh_mode", definition.statement.mode.value),
        ("schedule", definition.statement.schedule.sql()),
        *([("state", state.value)] if (state := definition.statement.state) is not StateMode.AUTO else []),
        *([("frozen", f"{frozen.text}: exact outside these rows")] if (frozen := definition.statement.frozen) else []),
        ("query", definition.statement.query.text),
        ("location", entry.path),
        ("version", str(entry.state.version)),
        ("last_action", frontier.action if frontier else None),
    ]
    if failure := definition.error:
        rows += [("error", failure.message), ("error_condition", failure.condition)]
        rows += [("failed_at", failure.at), ("failures_in_a_row", str(failure.failures))]
    for path, name in definition.sources.items():
        version = frontier.sources.get(path) if frontier else None
        rows.append((f"source {name}", f"version {version.number}" if version else "not read yet"))
    for each, passed, failed in counts_of(entry):
        counted = "not counted yet" if passed is None else f"{passed} rows passed, {failed} failed"
        rows.append((f"expectation {each.name}", f"{expectation_sql(each)}: {counted}"))
    if extended:
        rows.append(("namespace", str(Name(definition.namespace))))
        rows += [(f"setting {key}", value) for key, value in sorted(definition.settings.items())]
        rows += [(f"arrangement {key}", f"version {v}") for key, v in (frontier.arrangements if frontier else {}).items()]
    return rows


def told(line: Line) -> tuple[Any, ...]:
    """Return the row of SHOW REFRESH HISTORY."""
    record = line.record
    rows = (record.rows_inserted, record.rows_deleted)
    return (line.name, line.version, line.at, record.action.value, record.reason, *rows, record.duration_ms)
