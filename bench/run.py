"""Measure refreshes against full recomputation, warm, in one run: `./run bench` (SCALE=10 for 10 M rows).

Ratios count, not milliseconds: both sides run in the same session over the same changes. The hand-written MERGE of each query is
not measured here yet.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import configure

ROWS = int(os.environ.get("SCALE", "1")) * 1_000_000
ROUNDS = int(os.environ.get("ROUNDS", "5"))
FRACTIONS = {"0.01 %": 10_000, "1 %": 100, "10 %": 10}  # one row in so many is updated

QUERIES = {
    "scan": "SELECT * FROM src",
    "filter": "SELECT id, amount, name FROM src WHERE amount > 5000",
    "aggregate": "SELECT grp, count(*) AS n, sum(amount) AS total FROM src GROUP BY grp",
    "join": "SELECT s.id, s.amount, d.region, d.label FROM src s JOIN dim d ON s.dim = d.dim",
    "join + aggregate": "SELECT region, count(*) AS n, sum(amount) AS total FROM src JOIN dim USING (dim) GROUP BY region",
}


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
    """Make the sources and one stream table per query."""
    features = "'delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='true'"
    columns = "id BIGINT, grp BIGINT, dim BIGINT, amount DECIMAL(12,2) NOT NULL, name STRING"
    spark.sql(f"CREATE TABLE src ({columns}) USING delta TBLPROPERTIES ({features})")
    values = "id, id % 1000, id % 50000, CAST(id * 7 % 10007 AS DECIMAL(12,2)), concat('customer ', id)"
    spark.sql(f"INSERT INTO src SELECT {values} FROM range({ROWS})")
    spark.sql("CREATE TABLE dim USING delta AS SELECT id AS dim, id % 25 AS region, concat('d', id) AS label FROM range(50000)")
    for number, query in enumerate(QUERIES.values()):
        spark.sql(f"CREATE STREAM TABLE st{number} REFRESH MODE DIFFERENTIAL AS {query}")


def milliseconds(action: Callable[[], object]) -> float:
    """Time one call."""
    started = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - started)


def measure(spark: SparkSession, one_in: int) -> dict[str, tuple[float, float]]:
    """Return, per query, the median of the refreshes and of the full recomputations; the first round only warms up."""
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in QUERIES}
    for turn in range(ROUNDS + 1):
        spark.sql(f"UPDATE src SET amount = amount + 1 WHERE id % {one_in} = {turn}")
        for number, (name, query) in enumerate(QUERIES.items()):
            refresh, full = f"REFRESH STREAM TABLE st{number}", f"CREATE OR REPLACE TABLE full{number} USING delta AS {query}"
            ours, recomputed = milliseconds(lambda s=refresh: spark.sql(s)), milliseconds(lambda s=full: spark.sql(s))  # type: ignore[misc]
            if turn:
                times[name][0].append(ours)
                times[name][1].append(recomputed)
    return {name: (statistics.median(ours), statistics.median(full)) for name, (ours, full) in times.items()}


def main() -> None:
    """Print one table per fraction, then what a refresh without a change costs, and whether all tables are exact."""
    console = Console()
    spark = session(Path(".bench").absolute())
    create(spark)
    for fraction, one_in in FRACTIONS.items():
        shown = Table(
            "query", "refresh ms", "full ms", "full / refresh", title=f"{ROWS:,} rows, {fraction} changed, {os.cpu_count()} cores"
        )
        for name, (ours, full) in measure(spark, one_in).items():
            shown.add_row(name, f"{ours:,.0f}", f"{full:,.0f}", f"{full / ours:.1f}")
        console.print(shown)
    unchanged = [milliseconds(lambda: spark.sql("REFRESH STREAM TABLE st0")) for _ in range(ROUNDS)]
    console.print(f"NO_DATA: {statistics.median(unchanged):.1f} ms")
    exact = all(spark.sql(f"VERIFY STREAM TABLE st{number}").collect()[0]["ok"] for number in range(len(QUERIES)))
    console.print(f"all tables exact: {exact}")


if __name__ == "__main__":
    main()
