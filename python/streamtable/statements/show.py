"""What SHOW and DESCRIBE say of stream tables, as rows."""

from __future__ import annotations

import fnmatch
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, listed, load
from streamtable.delta.unreadable import Unreadable
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import Name
from streamtable.observe.health import SourceState
from streamtable.observe.results import Rows
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line, failure

__all__ = ["described", "matching", "readable", "shown", "told"]


def matching(spark: SparkSession, namespace: Name | None, like: str | None) -> list[tuple[Name, Entry | Unreadable]]:
    """Return the stream tables of a namespace, or of the current one, whose names match a pattern of Spark's LIKE there."""
    space = namespace.parts if namespace else namespace_of(spark)
    patterns = [part.strip().casefold() for part in (like or "*").split("|")]
    return [
        (name, found)
        for name, found in listed(spark, space)
        if any(fnmatch.fnmatchcase(name.parts[-1].casefold(), pattern) for pattern in patterns)
    ]


def readable(spark: SparkSession, namespace: Name | None, like: str | None) -> list[Entry]:
    """Return the same stream tables; raise the error of the first one that cannot be read."""
    return [load(spark, name) if isinstance(found, Unreadable) else found for name, found in matching(spark, namespace, like)]


def shown(spark: SparkSession, name: Name, entry: Entry | Unreadable) -> tuple[Any, ...]:
    """Return the row of SHOW STREAM TABLES."""
    if isinstance(entry, Unreadable):
        return ".".join(name.parts), SourceState.UNREADABLE.value, None, None, None, None, entry.reason
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    failed = failure(spark, entry, frontier.base + 1 if frontier else 0)
    error = definition.error.message if definition.error else None
    return (
        definition.name,
        definition.status,
        definition.statement.mode.value,
        definition.statement.schedule.sql(),
        failed.action.value if failed else frontier.action if frontier else None,
        entry.state.version,
        error or (failed.reason if failed else None),
    )


def described(entry: Entry, extended: bool) -> Rows:
    """Return the rows of DESCRIBE STREAM TABLE."""
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    rows: Rows = [
        ("name", definition.name),
        ("status", definition.status),
        ("refresh_mode", definition.statement.mode.value),
        ("schedule", definition.statement.schedule.sql()),
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
