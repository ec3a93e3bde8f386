"""From a commit to the refreshed row: tables ON UPDATE and IMMEDIATE against Structured Streaming with a MERGE in foreachBatch.

`./run bench on_update`; `ROUNDS` and `TABLES=1,10` choose less. All sides are in one run. Each table sums the rows of a source
of its own. Commits go to five of the tables at most, in turn, while all of them are followed. A pause after each commit keeps
the least time between two refreshes out of the measurement. Both ends are times of files: of the commit in the source's log,
and of the commit in the result's. The time of the writer's statement stands beside it, because a write waits for the tables
IMMEDIATE above it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.feed import PATIENCE
from bench.run import p99, session
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import start_scheduler

ROUNDS = int(os.environ.get("ROUNDS", "30"))
TABLES = [int(each) for each in os.environ.get("TABLES", "1,10,100").split(",")]
WARM, BUSY, PAUSE = 2, 5, 1.2
QUERY = "SELECT grp, count(*) AS n, sum(amount) AS total FROM {source} GROUP BY grp"


class Log:
    """The commits of a table, as files."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        location = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"]
        self._folder = Path(location.removeprefix("file:")) / "_delta_log"

    def newest(self) -> int:
        return max(int(each.stem) for each in self._folder.glob("*.json"))

    def wait(self, version: int) -> float:
        """Return the time of a commit in milliseconds, when it is there."""
        file, until = self._folder / f"{version:020d}.json", time.monotonic() + PATIENCE
        while not file.exists():
            assert time.monotonic() < until, f"{file} is missing"
            time.sleep(0.005)
        return file.stat().st_mtime_ns / 1e6


@dataclass(frozen=True)
class Lag:
    """Milliseconds from the commit of a source to that of its result, and of the statement that wrote to the source."""

    commits: float
    statement: float


def measure(spark: SparkSession, pairs: Sequence[tuple[str, str]]) -> list[Lag]:
    """Write to the sources in turn; the first rounds of each only warm up."""
    logs, found = [(source, Log(spark, source), Log(spark, result)) for source, result in pairs[:BUSY]], list[Lag]()
    for n in range(ROUNDS + WARM * len(logs)):
        name, source, result = logs[n % len(logs)]
        before, began = result.newest(), time.perf_counter()
        spark.sql(f"INSERT INTO {name} SELECT id % 1000, CAST(id AS DECIMAL(12,2)) FROM range({n}, {n + 100})")
        took = 1000 * (time.perf_counter() - began)
        lag = result.wait(before + 1) - source.wait(source.newest())
        found += [Lag(lag, took)] if n >= WARM * len(logs) else []
        time.sleep(PAUSE)
    return found


def merging(result: str) -> Callable[[DataFrame, int], None]:
    """Return what adds the sums of a batch to the result, as a skilled person writes it for a source that only grows."""

    def write(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            f"MERGE INTO {result} t USING ({QUERY.format(source='batch')}) s ON t.grp = s.grp "
            "WHEN MATCHED THEN UPDATE SET n = t.n + s.n, total = t.total + s.total WHEN NOT MATCHED THEN INSERT *"
        )

    return write


@contextmanager
def streams(spark: SparkSession, pairs: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Follow each source by a stream."""
    with ExitStack() as stack:
        for source, result in pairs:
            spark.sql(f"CREATE TABLE {result} USING delta AS {QUERY.format(source=source)} LIMIT 0")
            folder = Path("checkpoints", result).resolve()
            writer = spark.readStream.table(source).writeStream.option("checkpointLocation", str(folder))
            query = writer.foreachBatch(merging(result)).trigger(processingTime="0 seconds").start()
            stack.callback(query.stop)
            Log(spark, result).wait(1)  # the rows that were there
        yield


@contextmanager
def scheduled(spark: SparkSession, pairs: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Follow each source by a table ON UPDATE."""
    for source, result in pairs:
        spark.sql(f"CREATE STREAM TABLE {result} SCHEDULE ON UPDATE AS {QUERY.format(source=source)}")
    with start_scheduler(spark):
        yield


@contextmanager
def at_once(spark: SparkSession, pairs: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Follow each source by a table IMMEDIATE; the other sides write in a catalog without its mark."""
    for source, result in pairs:
        spark.sql(f"CREATE STREAM TABLE {result} SCHEDULE IMMEDIATE AS {QUERY.format(source=source)}")
    yield
    spark.sql("ALTER DATABASE default SET DBPROPERTIES ('streamtable.immediate' = 'false')")


SIDES: dict[str, Callable[[SparkSession, Sequence[tuple[str, str]]], AbstractContextManager[None]]] = {
    "foreachBatch MERGE": streams,
    "ON UPDATE": scheduled,
    "IMMEDIATE": at_once,
}


def follow(spark: SparkSession, number: int, side: str) -> list[Lag]:
    """Make the sources and results of one side, measure them, compare each result with its query, and drop them."""
    kind = side.rsplit(maxsplit=1)[-1].lower()
    pairs = [(f"source_{kind}_{number}_{each}", f"{kind}_{number}_{each}") for each in range(number)]
    for source, _ in pairs:
        spark.sql(f"CREATE TABLE {source} (grp BIGINT, amount DECIMAL(12,2)) USING delta")
        spark.sql(f"INSERT INTO {source} SELECT id % 1000, CAST(id AS DECIMAL(12,2)) FROM range(100000)")
    with SIDES[side](spark, pairs):
        found = measure(spark, pairs)
    for source, result in pairs[:BUSY]:
        there, query = f"SELECT * FROM {result}", QUERY.format(source=source)
        for surplus in (f"({there}) EXCEPT ALL ({query})", f"({query}) EXCEPT ALL ({there})"):
            assert spark.sql(surplus).count() == 0, f"{result} is not exact"
    for source, result in pairs:
        spark.sql(f"DROP TABLE {result}")
        spark.sql(f"DROP TABLE {source}")
    return found


def main() -> None:
    spark = session(Path(".bench").absolute())
    columns = ("tables", "side", "median ms", "p99", "ratio", "statement, median ms")
    table = Table(*columns, title=f"from commit to refreshed row, {ROUNDS} commits")
    for number in TABLES:
        found = {side: follow(spark, number, side) for side in SIDES}
        by_hand = statistics.median(each.commits for each in found["foreachBatch MERGE"])
        for side, lags in found.items():
            commits = [each.commits for each in lags]
            median, wrote = statistics.median(commits), statistics.median(each.statement for each in lags)
            table.add_row(str(number), side, f"{median:,.0f}", f"{p99(commits):,.0f}", f"{median / by_hand:.2f}", f"{wrote:,.0f}")
        Console(width=100).print(table)
    spark.stop()


if __name__ == "__main__":
    main()
