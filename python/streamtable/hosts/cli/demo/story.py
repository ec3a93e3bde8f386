"""What the events said so far: the state of each stream table, the last measurements, and what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Happened", "Line", "Story"]


@dataclass
class Line:
    """One stream table. `stale_since` is a moment of the viewer's clock; the times of the last measured round are in seconds."""

    name: str
    rows: int
    stale_since: float | None = None
    refresh: float | None = None
    by_hand: float | None = None
    in_full: float | None = None
    exact: bool | None = None

    @property
    def faster(self) -> tuple[float | None, float | None]:
        """Return how many times faster the refresh was than MERGE and than the whole query."""
        if not self.refresh:
            return None, None
        return (self.by_hand / self.refresh if self.by_hand else None), (self.in_full / self.refresh if self.in_full else None)


@dataclass(frozen=True)
class Happened:
    """A line of the log: at which second, what, and how it looks."""

    at: float
    text: str
    look: str = ""


@dataclass
class Story:
    """The demo so far. `step` runs since `step_since`; moments are seconds since the demo began."""

    sources: dict[str, int] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    happened: list[Happened] = field(default_factory=list)
    step: str = ""
    step_since: float = 0.0
    turn: int = 0
    measured: int = 0
    """The round that the times are from."""
    killed: bool = False
    link: str | None = None
    """The console's, where its packages are installed."""
    farewell: str = ""
    ended: bool = False

    @property
    def exact(self) -> bool:
        """Tell whether all stream tables were verified and found exact."""
        return bool(self.lines) and all(line.exact for line in self.lines.values())

    def hear(self, event: Mapping[str, Any], at: float) -> None:
        """Take in an event of the worker."""
        said = dict(event)
        getattr(self, f"_{said.pop('event')}")(at, **said)

    def _say(self, at: float, text: str, look: str = "") -> None:
        self.happened.append(Happened(at, text, look))

    def _step(self, at: float, text: str) -> None:
        self.step, self.step_since = text, at

    def _started(self, at: float) -> None:
        self._say(at, f"Spark runs, after {at - self.step_since:.1f} s")

    def _loaded(self, at: float, name: str, rows: int) -> None:
        self.sources[name] = rows
        self._say(at, f"{name}: {rows:,} rows, an ordinary Delta table")

    def _made(self, at: float, name: str, rows: int, seconds: float) -> None:
        self.lines[name] = Line(name, rows)
        self._say(at, f"CREATE STREAM TABLE {name}: {rows:,} rows in {seconds:.1f} s", "bold")

    def _round(self, at: float, turn: int) -> None:
        self.turn = turn

    def _changed(self, at: float, what: str, rows: int) -> None:
        for line in self.lines.values():
            line.stale_since = at if line.stale_since is None else line.stale_since
            line.exact = None
        self._say(at, f"{rows:,} {what}", "yellow")

    def _refreshed(
        self, at: float, name: str, seconds: float, action: str, reason: str, rows_inserted: int, rows_deleted: int
    ) -> None:
        line = self.lines[name]
        line.rows += rows_inserted - rows_deleted
        line.stale_since = None
        if not self.killed:  # a refresh after the crash warms Spark up again, and stands beside nothing
            line.refresh, line.by_hand, line.in_full, self.measured = seconds, None, None, self.turn
        self._say(at, f"REFRESH {name}: {action}, +{rows_inserted:,} -{rows_deleted:,} rows in {seconds:.2f} s", "green")

    def _by_hand(self, at: float, name: str, seconds: float) -> None:
        self.lines[name].by_hand = seconds
        self._say(at, f"the MERGE that an expert writes for {name}: {seconds:.2f} s", "dim")

    def _in_full(self, at: float, name: str, seconds: float) -> None:
        self.lines[name].in_full = seconds
        self._say(at, f"{name} computed anew: {seconds:.2f} s", "dim")

    def _compared(self, at: float, name: str, same: bool) -> None:
        self._say(at, f"{name}: MERGE has {'the same' if same else 'other'} rows", "green" if same else "bold red")

    def _verified(self, at: float, name: str, ok: bool, missing: int, surplus: int, seconds: float) -> None:
        self.lines[name].exact = ok
        said = "exact" if ok else f"{missing:,} rows missing, {surplus:,} too many"
        self._say(at, f"VERIFY {name}: {said}", "green" if ok else "bold red")

    def _killed(self, at: float, name: str) -> None:
        self.killed = True
        self._say(at, f"kill -9 in the middle of REFRESH {name}: Python and Java are gone", "bold red")

    def _found(self, at: float, name: str, rows: int) -> None:
        line = self.lines[name]
        text = "as it was before the crash" if rows == line.rows else f"but {line.rows:,} before the crash"
        self._say(at, f"after the crash {name} has {rows:,} rows, {text}", "green" if rows == line.rows else "bold red")

    def _console(self, at: float, link: str | None, text: str) -> None:
        self.link, self.farewell, self.step, self.ended = link, text, "", True
