"""What `streamtable status` and SHOW STREAM TABLES show people: a line for each stream table, and below what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from pyspark.sql import Row
from rich.console import Group
from rich.text import Text

from streamtable.catalog.definition import ACTIVE
from streamtable.hosts.cli.output import table_of, visible
from streamtable.hosts.words import ago, amount, cut, duration, short, size

__all__ = ["STATUS", "status_of"]

STATUS = (
    "name",
    "status",
    "refresh_mode",
    "schedule",
    "state",
    "last_success",
    "last_attempt",
    "next_due",
    "staleness_seconds",
    "stale",
    "row_count",
    "size_bytes",
    "last_action",
    "reason",
    "version",
    "error",
    "scheduler_suspended",
)
"""What programs are told: columns of stream_tables()."""

SHOWN = (
    "name",
    "state",
    "stale for",
    "last success",
    "last attempt",
    "next due",
    "schedule",
    "mode",
    "last action",
    "rows",
    "size",
)
LOOKS = {"fresh": "green", "stale": "yellow", "failing": "bold red", "suspended": "red", "unreadable": "bold red"}
FIRST_TO_GO = ("size", "rows", "schedule", "mode", "last attempt", "last action", "next due")
"""Columns that a narrow terminal has no room for."""
SHORTEST_NAME, LONGEST_SCHEDULE, GAP = 20, 24, 3


def status_of(rows: Sequence[Row], now: datetime, width: int) -> Group:
    """Return the status for a terminal so many letters wide: names are cut to what the other columns leave, and never broken."""
    lines = [dict(zip(SHOWN, _line(row, now), strict=True)) for row in rows]
    widths = {column: max(map(len, (column, *(line[column] for line in lines)))) + GAP for column in SHOWN[1:]}
    for column in FIRST_TO_GO:
        if width - sum(widths.values()) < SHORTEST_NAME:
            del widths[column]
    longest = max(SHORTEST_NAME, width - sum(widths.values()))
    cells = [(cut(line["name"], longest), *(Text(line[each], LOOKS.get(line[each], "")) for each in widths)) for line in lines]
    table = table_of(("name", *widths), cells)
    for shown in table.columns:
        shown.no_wrap = True
        shown.justify = "right" if str(shown.header) in ("rows", "size") else "left"
    suspended = any(row["scheduler_suspended"] for row in rows if "scheduler_suspended" in row)  # SHOW STREAM TABLES does not tell
    off = [Text("the schedulers of the catalog are suspended: ALTER SCHEDULER RESUME", "bold yellow")] if suspended else []
    return Group(table, *(_trouble(row, longest) for row in rows if row["error"]), *off)


def _line(row: Row, now: datetime) -> tuple[str, ...]:
    if row["state"] is None:
        return short(row["name"]), _state(row), *("" for _ in SHOWN[2:])
    return (
        short(row["name"]),
        row["state"],
        _stale_for(row),
        _when(row["last_success"], now),
        _when(row["last_attempt"], now),
        _due(row, now),
        cut(row["schedule"] or "", LONGEST_SCHEDULE),
        row["refresh_mode"] or "",
        row["last_action"] or "",
        amount(row["row_count"]),
        size(row["size_bytes"]),
    )


def _state(row: Row) -> str:
    """Return the state in one word; a table that nobody can read has its status alone."""
    return str(row["state"] or row["status"].lower())


def _stale_for(row: Row) -> str:
    if row["staleness_seconds"] is None:
        return "never filled"
    return duration(timedelta(seconds=row["staleness_seconds"])) if row["staleness_seconds"] else ""


def _due(row: Row, now: datetime) -> str:
    if row["next_due"]:
        return _when(row["next_due"], now)
    return "when asked" if row["status"] == ACTIVE else ""


def _when(at: datetime | None, now: datetime) -> str:
    return ago(at.astimezone(timezone.utc) if at else None, now)


def _trouble(row: Row, longest: int) -> Text:
    return Text.assemble((visible(cut(short(row["name"]), longest)), "bold"), visible(f" is {_state(row)}: {row['error']}"))
