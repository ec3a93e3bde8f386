"""Measure refreshes against full recomputation and against the hand-written MERGE, warm, in one run.

`./run bench` takes 1 M rows, `SCALE=10 ./run bench` 10 M. Ratios count, not milliseconds: all sides run in the same session over
the same changes, and in turn, so that what disturbs one disturbs the others.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.by_hand import merge
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import configure

ROWS = round(float(os.environ.get("SCALE", "1")) * 1_000_000)
ROUNDS = int(os.environ.get("ROUNDS", "5"))
STATE = os.environ.get("STATE", "auto").upper()
SIDES = os.environ.get("SIDES", "refresh,merge,full").split(",")

CHANGES = {
    "0.01 % at scattered keys": f"id % 10000 = {{turn}} AND id < {ROWS}",
    "1 % at scattered keys": "id % 100 = {turn}",
    "1 % at contiguous keys": f"id >= {{turn}} * {ROWS // 100} AND id < ({{turn}} + 1) * {ROWS // 100}",
    "10 % at scattered keys": "id % 10 = {turn} % 10",
}
"""Which rows one round updates; `turn` counts up over the whole run."""

QUERIES = {
    "scan": "SELECT * FROM src",
    "filter": "SELECT id, amount, name FROM src WHERE amount > 5000",
    "aggregate": "SELECT grp, count(*) AS n, sum(amount) AS total FROM src GROUP BY grp",
    "join": "SELECT s.id, s.amount, d.region, d.label FROM src s JOIN dim d ON s.dim = d.dim",
    "join + aggregate": "SELECT region, count(*) AS n, sum(amount) AS total FROM src JOIN dim USING (dim) GROUP BY region",
}
NUMBERS = {name: number for number, name in enumerate(QUERIES)}
FEATURES = "'delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='true'"

_turns = itertools.count()


def session(folder: Path) -> SparkSession:
    """Start Spark with its tables in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.chdir(folder)
    builder = configure(SparkSession.builder.master("local[2]").appName("streamtable bench"))
    settings = {
        "spark.driver.memory": "6g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def create(spark: SparkSession) -> None:
    """Make the sources, and per query a stream table and the table that MERGE maintains."""
    columns = "id BIGINT, grp BIGINT, dim BIGINT, amount DECIMAL(12,2) NOT NULL, name STRING"
    spark.sql(f"CREATE TABLE src ({columns}) USING delta TBLPROPERTIES ({FEATURES})")
    values = "id, id % 1000, id % 50000, CAST(id * 7 % 10007 AS DECIMAL(12,2)), concat('customer ', id)"
    spark.sql(f"INSERT INTO src SELECT {values} FROM range({ROWS})")
    spark.sql("CREATE TABLE dim USING delta AS SELECT id AS dim, id % 25 AS region, concat('d', id) AS label FROM range(50000)")
    for name, query in QUERIES.items():
        spark.sql(f"CREATE STREAM TABLE st{NUMBERS[name]} REFRESH MODE DIFFERENTIAL AS {query}")
        spark.sql(f"CREATE TABLE merged{NUMBERS[name]} USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true') AS {query}")


def milliseconds(action: Callable[[], object]) -> float:
    """Time one call."""
    started = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - started)


def p99(times: list[float]) -> float:
    """Return the time that one in a hundred exceeds."""
    return sorted(times)[int(len(times) * 0.99) - 1]


def measure(spark: SparkSession, change: str) -> dict[str, dict[str, float]]:
    """Return, per query, the medians of the sides: refresh, MERGE and full recomputation. The first round only warms up."""
    times: dict[str, dict[str, list[float]]] = {name: {"refresh": [], "merge": [], "full": []} for name in QUERIES}
    for turn in range(ROUNDS + 1):
        spark.sql(f"UPDATE src SET amount = amount + 1 WHERE {change.format(turn=next(_turns))}")
        version = spark.sql("DESCRIBE HISTORY src LIMIT 1").collect()[0]["version"]
        for name, query in QUERIES.items():
            number = NUMBERS[name]
            sides = {
                "refresh": f"REFRESH STREAM TABLE st{number}",
                "merge": merge(name, f"merged{number}", version, version),
                "full": f"CREATE OR REPLACE TABLE full{number} USING delta AS {query}",
            }
            for side, statement in sides.items():
                if side not in SIDES:
                    continue
                taken = milliseconds(lambda s=statement: spark.sql(s))  # type: ignore[misc]
                if turn:
                    times[name][side].append(taken)
    return {name: {side: statistics.median(taken or [math.nan]) for side, taken in sides.items()} for name, sides in times.items()}


def main() -> None:
    """Print one table per kind of change, then what a refresh without a change costs, and whether all tables are exact."""
    console = Console(width=110)
    spark = session(Path(".bench").absolute())
    create(spark)
    only = os.environ.get("ONLY", "")
    for title, change in CHANGES.items():
        if only not in title:
            continue
        heading = f"{ROWS:,} rows, {title}, {os.cpu_count()} cores, medians of {ROUNDS}"
        shown = Table("query", "refresh ms", "MERGE ms", "full ms", "refresh / MERGE", "full / refresh", title=heading)
        for name, taken in measure(spark, change).items():
            refresh, by_hand, full = taken["refresh"], taken["merge"], taken["full"]
            ratios = (f"{refresh / by_hand:.2f}", f"{full / refresh:.1f}")
            shown.add_row(name, f"{refresh:,.0f}", f"{by_hand:,.0f}", f"{full:,.0f}", *ratios)
        console.print(shown)
    unchanged = [milliseconds(lambda: spark.sql("REFRESH STREAM TABLE st0")) for _ in range(max(ROUNDS, 5) * 4)]
    inside = [spark.sql("REFRESH STREAM TABLE st0").collect()[0]["duration_ms"] for _ in range(9)]
    console.print(
        f"NO_DATA: {statistics.median(unchanged):.1f} ms as a statement, {statistics.median(inside)} ms of it the refresh"
    )
    for name, number in NUMBERS.items():
        verified = spark.sql(f"VERIFY STREAM TABLE st{number}").collect()[0]["ok"]
        console.print(f"{name}: verified {verified}")
        if "merge" in SIDES:
            surplus = spark.sql(f"SELECT * FROM st{number} EXCEPT ALL SELECT * FROM merged{number}").count()
            console.print(f"{name}: rows that MERGE has otherwise {surplus}")


if __name__ == "__main__":
    main()
