"""Many stream tables over a few sources: what a look of the scheduler costs if nothing changes, and how late tables are if all do.

`./run bench many_tables` makes 200 tables over 20 sources, a quarter of them over other stream tables. `TABLES=1000`, `SOURCES`,
`MINUTES` of changes (3) and seconds from one commit of a source to the next (`EVERY=10`) choose otherwise. How late a table is, is
read from the logs: the time from the commit of a source to the first commit of the table whose frontier has it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from bench.run import p99, session
from bench.sessions import Held
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import start_scheduler
from streamtable.refresh.frontier import Frontier
from streamtable.schedule.due import graph_of, plan
from streamtable.schedule.engine import SparkEngine
from streamtable.schedule.graph import Graph
from streamtable.schedule.interface import Observation
from streamtable.settings.session import POLL

TABLES = int(os.environ.get("TABLES", "200"))
SOURCES = int(os.environ.get("SOURCES", "20"))
MINUTES = float(os.environ.get("MINUTES", "3"))
EVERY = float(os.environ.get("EVERY", "10"))
ROWS, TOLERATED, PATIENCE = 10_000, 30, 300

SHAPES = (
    "SELECT id, grp, amount FROM s{here} WHERE amount > 5000",
    "SELECT grp, count(*) AS n, sum(amount) AS total FROM s{here} GROUP BY grp",
    "SELECT a.id, a.amount, b.amount AS other FROM s{here} a JOIN s{there} b ON a.grp = b.id",
    "SELECT grp, count(*) AS n, sum(amount) AS total FROM t{above} GROUP BY grp",
)
CHANGE = "UPDATE s{here} SET amount = amount + 1 WHERE id % 100 = {turn} % 100"
"""Changes rows of each shape, so that each commit of a source asks for a commit of each of its readers."""


def make(spark: SparkSession) -> None:
    """Make the sources and the tables. They follow commits, and nobody refreshes them yet."""
    for here in range(SOURCES):
        values = f"id, id % 1000 AS grp, CAST((id + {here}) * 7 % 10007 AS DECIMAL(12,2)) AS amount"
        spark.sql(f"CREATE TABLE s{here} USING delta AS SELECT {values} FROM range({ROWS})")
    for number in range(TABLES):
        here = number // len(SHAPES) % SOURCES
        query = SHAPES[number % len(SHAPES)].format(here=here, there=(here + 7) % SOURCES, above=number - 3)
        spark.sql(f"CREATE STREAM TABLE t{number} SCHEDULE ON UPDATE AT MOST EVERY '5s' AS {query}")


class Looks:
    """Looks of a scheduler that refreshes nothing."""

    def __init__(self, spark: SparkSession) -> None:
        self._engine = SparkEngine(spark)
        self._graph: Graph | None = None

    def __call__(self) -> tuple[float, float]:
        """Return the milliseconds for each table: all, and those of Python's processor time."""
        began, busy = time.perf_counter(), time.process_time()
        self.seen = self._engine.observe()
        self._graph = graph_of(self.seen.tables.values(), self._graph)
        found = plan(self.seen.tables, self.seen.vector.at, {}, self._graph)
        taken, python = (1000 * each / TABLES for each in (time.perf_counter() - began, time.process_time() - busy))
        assert len(self.seen.tables) == TABLES and not found.work, "nothing changed"
        return taken, python


def unchanged(spark: SparkSession, console: Console) -> Observation:
    """Print what looks over unchanged tables cost, and return what they see."""
    look, poll = Looks(spark), POLL.default
    pauses = {"the first look": [0.0], "a look between two polls": [0.0] * 5, "a poll": [poll] * 13}
    table = Table("look", "ms for each table", "of it Python's processor time", "ms in all", title=f"{TABLES} unchanged tables")
    for what, several in pauses.items():
        found = list[tuple[float, float]]()
        for pause in several:
            time.sleep(pause)
            found.append(look())
        taken, python = (statistics.median(each) for each in zip(*found, strict=True))
        table.add_row(what, f"{taken:.2f}", f"{python:.3f}", f"{taken * TABLES:,.0f}")
    console.print(table)
    return look.seen


def change(spark: SparkSession, seconds: float) -> int:
    """Change all sources in turn, each once in EVERY seconds, and return the number of commits."""
    began = time.monotonic()
    for turn in range(round(seconds / EVERY * SOURCES)):
        time.sleep(max(0, began + turn * EVERY / SOURCES - time.monotonic()))
        spark.sql(CHANGE.format(here=turn % SOURCES, turn=turn // SOURCES))
    return turn + 1


def log(path: str) -> Iterator[tuple[int, float, Frontier | None]]:
    """Yield the commits of a table: version, time, and the frontier that a refresh left."""
    for file in sorted(Path(path.removeprefix("file:"), "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        domains = (each["domainMetadata"] for each in actions if "domainMetadata" in each)
        text = next((each["configuration"] for each in domains if each["domain"] == "streamtable"), None)
        yield int(file.stem), file.stat().st_mtime, Frontier.of(text)


class Lags:
    """What the logs say of the time from commits of sources to those of tables."""

    def __init__(self, seen: Observation) -> None:
        self._tables, self._before = seen.tables, seen.vector.versions
        self._log = cache(lambda path: list(log(path)))
        self._graph = graph_of(seen.tables.values())
        self._has = cache(self._first)

    def _first(self, path: str, source: str, version: int) -> tuple[int, float] | None:
        """Return the first commit of a table whose contents have a version of a source below it."""
        if path == source:
            return next((number, at) for number, at, _ in self._log(path) if number == version)
        below = [each for each in self._tables[path].sources if each == source or source in self._graph.all_sources([each])]
        needed = {each: self._has(each, source, version) for each in below}
        if None in needed.values():
            return None
        wanted = {each: commit[0] for each, commit in needed.items() if commit}
        for number, at, frontier in self._log(path):
            if frontier and all(frontier.sources[each].number >= least for each, least in wanted.items()):
                return number, at
        return None

    def of(self, path: str) -> Iterator[float | None]:
        """Yield the seconds from each commit of a source below a table since the start; None where the table lacks it."""
        for source in self._graph.all_sources([path]) - self._tables.keys():
            for number, committed, _ in self._log(source):
                if number > self._before[source].number:
                    has = self._has(path, source, number)
                    yield has[1] - committed if has else None

    def all(self) -> dict[str, list[float | None]]:
        """Return them for each table by name."""
        return {table.name: list(self.of(path)) for path, table in self._tables.items()}

    def refreshes(self) -> int:
        """Return how many commits of tables there are since the start."""
        return sum(number > self._before[path].number for path in self._tables for number, _, _ in self._log(path))


def wait_for(done: Callable[[], bool]) -> None:
    """Wait until it is done, but not for ever."""
    until = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < until:
        time.sleep(5)


def changing(spark: SparkSession, seen: Observation, console: Console) -> None:
    """Print how late tables are while all sources change, and what the processes hold."""
    with start_scheduler(spark):
        change(spark, min(60, MINUTES * 30))
        early, began = Held.by(os.getpid()), time.monotonic()
        commits = change(spark, MINUTES * 60)
        took = time.monotonic() - began
        late = Held.by(os.getpid())
        wait_for(lambda: all(None not in each for each in Lags(seen).all().values()))
    lags = Lags(seen)
    found = lags.all()
    known = [each for several in found.values() for each in several if each is not None]
    never = sum(several.count(None) for several in found.values())
    title = f"each of {SOURCES} sources has a commit once in {EVERY:g} s: {commits} in {took:.0f} s, {os.cpu_count()} cores"
    table = Table("refreshes", "late: median s", "p99 s", "most s", f"over {TOLERATED} s", "never", title=title)
    over = sum(each > TOLERATED for each in known) / len(known)
    numbers = (f"{statistics.median(known):.1f}", f"{p99(known):.1f}", f"{max(known):.1f}")
    table.add_row(f"{lags.refreshes():,}", *numbers, f"{over:.1%}", str(never))
    console.print(table)
    latest = sorted(((max(filter(None, several), default=0.0), name) for name, several in found.items()), reverse=True)
    console.print(f"the latest of them: {', '.join(f'{name} {seconds:.0f} s' for seconds, name in latest[:4])}")
    held = Table("", "after a warm-up", "at the end", title="what the processes hold")
    for what in ("threads", "files", "python_mib", "heap_mib", "sessions"):
        held.add_row(what, *(str(getattr(each, what)) for each in (early, late)))
    console.print(held)


def main() -> None:
    """Make the tables, and print what looks, changes and memory cost."""
    spark, console = session(Path(".bench").absolute()), Console(width=120)
    make(spark)
    seen = unchanged(spark, console)
    changing(spark, seen, console)
    for number in range(min(TABLES, 4 * len(SHAPES))):
        verified = spark.sql(f"VERIFY STREAM TABLE t{number}").collect()[0]["ok"]
        assert verified is True, f"t{number} is not exact"
    spark.stop()


if __name__ == "__main__":
    main()
