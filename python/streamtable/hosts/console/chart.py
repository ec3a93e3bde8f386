"""The last refreshes of a table as bars: their times, and the numbers of changed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamtable.hosts.console.words import amount, milliseconds
from streamtable.refresh.history import Line

__all__ = ["Bar", "Chart", "chart_of"]

STEP, WIDTH, TALL, FLAT, GAP = 4.0, 3.0, 90.0, 40.0, 10.0
LEAST = 1.5
"""The least height of a bar, for a refresh of almost no time or of one row."""


@dataclass(frozen=True)
class Bar:
    """One refresh: the bar of its time above the line, that of its rows below."""

    x: float
    y: float
    height: float
    rows: float
    look: str
    title: str


@dataclass(frozen=True)
class Chart:
    """The bars, the oldest first; `longest` and `most` are the values of the highest ones."""

    bars: tuple[Bar, ...]
    width: float
    height: float
    line: float
    longest: str
    most: str


def chart_of(history: Sequence[Line]) -> Chart | None:
    """Return the chart of a history, the latest line of which comes first; None where there is nothing to show."""
    if not history:
        return None
    lines = list(reversed(history))
    longest = max(line.record.duration_ms for line in lines) or 1
    changed = [line.record.rows_inserted + line.record.rows_deleted for line in lines]
    most = max(changed) or 1
    bars = tuple(_bar(n, line, rows, longest, most) for n, (line, rows) in enumerate(zip(lines, changed, strict=True)))
    told = milliseconds(longest)
    return Chart(bars, len(bars) * STEP, TALL + GAP + FLAT, TALL, told, amount(max(changed)))


def _bar(n: int, line: Line, changed: int, longest: int, most: int) -> Bar:
    record = line.record
    height = max(LEAST, TALL * record.duration_ms / longest)
    took = milliseconds(record.duration_ms)
    rows = f"+{amount(record.rows_inserted)} -{amount(record.rows_deleted)} rows"
    title = f"{line.at:%Y-%m-%d %H:%M:%S}: {record.action.value}, {took}, {rows}. {record.reason}"
    depth = max(LEAST, FLAT * changed / most) if changed else 0.0
    return Bar(n * STEP, TALL - height, height, depth, record.action.value.lower(), title)
