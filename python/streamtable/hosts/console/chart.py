"""The last refreshes of a table as bars: their times beside those of the other kind of refresh, and the numbers of changed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamtable.hosts.words import amount, milliseconds
from streamtable.refresh.choose import Action
from streamtable.refresh.cost import Ran
from streamtable.refresh.history import Line

__all__ = ["Bar", "Chart", "chart_of"]

STEP, WIDTH, TALL, FLAT, GAP = 4.0, 3.0, 90.0, 40.0, 10.0
LEAST = 1.5
"""The least height of a bar, for a refresh of almost no time or of one row."""


@dataclass(frozen=True)
class Bar:
    """One refresh: the bar of its time above the line, that of its rows below. `other` is the height of a mark.

    The mark is the time of the last refresh of the other kind before it: in full for a differential one, and the reverse.
    """

    x: float
    y: float
    height: float
    rows: float
    look: str
    title: str
    other: float | None


@dataclass(frozen=True)
class Chart:
    """The bars, the oldest first; `longest` and `most` are the values of the highest ones."""

    bars: tuple[Bar, ...]
    width: float
    height: float
    line: float
    longest: str
    most: str


def chart_of(history: Sequence[Line], runs: Sequence[Ran] = ()) -> Chart | None:
    """Return the chart of a history, the latest line of which comes first; None where there is nothing to show.

    `runs` are what the table remembers of its present plan: a full refresh may be older than the history.
    """
    if not history:
        return None
    lines = list(reversed(history))
    others = list(_others(lines, runs))
    longest = max(*(line.record.duration_ms for line in lines), *(each or 0 for each in others)) or 1
    changed = [line.record.rows_inserted + line.record.rows_deleted for line in lines]
    most = max(changed) or 1
    bars = tuple(
        _bar(n, line, rows, longest, most, other) for n, (line, rows, other) in enumerate(zip(lines, changed, others, strict=True))
    )
    told = milliseconds(longest)
    return Chart(bars, len(bars) * STEP, TALL + GAP + FLAT, TALL, told, amount(max(changed)))


def _others(lines: Sequence[Line], runs: Sequence[Ran]) -> Iterator[int | None]:
    """Yield for each line the time of the last refresh of the other kind before it."""
    full = {Action.DIFFERENTIAL: False, Action.FULL: True, Action.REINITIALIZE: True}
    older = [] if any(full.get(line.record.action) for line in lines) else [run.ms for run in runs if not run.differential]
    took = dict.fromkeys((True,), older[-1]) if older else {}
    for line in lines:
        mine = full.get(line.record.action)
        yield None if mine is None else took.get(not mine)
        if mine is not None:
            took[mine] = line.record.duration_ms


def _bar(n: int, line: Line, changed: int, longest: int, most: int, other: int | None) -> Bar:
    record = line.record
    height = max(LEAST, TALL * record.duration_ms / longest)
    took = milliseconds(record.duration_ms)
    rows = f"+{amount(record.rows_inserted)} -{amount(record.rows_deleted)} rows"
    kind = "in full" if record.action is Action.DIFFERENTIAL else "from its changes"
    beside = "" if other is None else f" {kind} it last took {milliseconds(other)}."
    title = f"{line.at:%Y-%m-%d %H:%M:%S}: {record.action.value}, {took}, {rows}. {record.reason}{beside and '.' + beside}"
    depth = max(LEAST, FLAT * changed / most) if changed else 0.0
    mark = None if other is None else TALL - TALL * other / longest
    return Bar(n * STEP, TALL - height, height, depth, record.action.value.lower(), title, mark)
