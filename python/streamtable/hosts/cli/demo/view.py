"""The demo on a terminal: what is fresh, what each refresh cost beside its alternatives, and what happens."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from streamtable.hosts.cli.demo.story import Happened, Line, Story

__all__ = ["happened", "view"]

LINES = 14
"""The latest lines of the log that are shown."""
STEP = 70
"""Letters of the statement that runs."""
_SPINNER = Spinner("dots")


def view(story: Story, now: float, lines: int = LINES) -> RenderableType:
    """Return the picture of a moment, in seconds since the demo began."""
    parts: list[RenderableType] = [_title(story, now), Text()]
    if story.lines:
        parts += [_tables(story, now), Text()]
    parts += [happened(each) for each in story.happened[-lines:]]
    if story.step:
        running = f"{story.step[:STEP]}{'…' if len(story.step) > STEP else ''}  {now - story.step_since:.0f} s"
        _SPINNER.update(text=Text(running, style="cyan"))
        parts.append(_SPINNER)
    return Group(*parts)


def happened(line: Happened) -> Text:
    """Return a line of the log."""
    return Text.assemble((f"{line.at:5.1f} s  ", "dim"), (line.text, line.look), no_wrap=True, overflow="ellipsis")


def _title(story: Story, now: float) -> Text:
    orders = f" of {story.sources['orders']:,} orders" if "orders" in story.sources else ""
    warms = " (cold)" if story.measured == 1 else ""
    measured = f"; times of round {story.measured}{warms}" if story.measured else ""
    return Text.assemble(("streamtable demo", "bold"), f": a shop{orders}{measured}", (f"  {now:.0f} s", "dim"))


def _tables(story: Story, now: float) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("stream table", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("is", no_wrap=True, min_width=10)
    for head in ("refresh", "MERGE", "in full"):
        table.add_column(head, justify="right", no_wrap=True, min_width=7)
    table.add_column("VERIFY", no_wrap=True)
    for line in story.lines.values():
        by_hand, in_full = line.faster
        table.add_row(
            line.name,
            f"{line.rows:,}",
            _state(line, now),
            _seconds(line.refresh, None, "bold"),
            _seconds(line.by_hand, by_hand),
            _seconds(line.in_full, in_full),
            _verdict(line),
        )
    return table


def _state(line: Line, now: float) -> Text:
    if line.stale_since is None:
        return Text("fresh", style="green")
    return Text(f"stale {now - line.stale_since:.0f} s", style="yellow")


def _seconds(seconds: float | None, times: float | None, look: str = "") -> Text:
    if seconds is None:
        return Text()
    return Text.assemble((f"{seconds:.2f} s", look), (f" {times:.1f}x" if times else "", "green" if times and times > 1 else "red"))


def _verdict(line: Line) -> Text:
    if line.exact is None:
        return Text()
    return Text("exact", style="green") if line.exact else Text("not exact", style="bold red")
