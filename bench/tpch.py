"""TPC-H with 0.1 % of the orders coming and going (RF1 and RF2): each of the 22 queries refreshed, and recomputed in full, in turn.

`./run bench tpch` takes scale factor 1, `SCALE=10 ./run bench tpch` 10; `ROUNDS` and `ONLY=q3,q5` choose less.
The orders that come and go lie together, as those of TPC-H's generator do; with `KEYS=scattered` they lie all over the table.
`STATE=none|auto|all` is that of the tables.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from bench.run import STATE, milliseconds, session
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.spark.work import Work
from tests.tpch.data import load
from tests.tpch.queries import QUERIES

SCALE = float(os.environ.get("SCALE", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
CHOSEN = {name: QUERIES[name] for name in os.environ.get("ONLY", ",".join(QUERIES)).split(",")}
ONE_IN = 1000
SCATTERED = os.environ.get("KEYS") == "scattered"


def change(spark: SparkSession, turn: int) -> None:
    """Insert one order in a thousand with its line items (RF1), and delete as many (RF2); each time others."""
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        # TPC-H uses 8 of each 32 order keys: the new ones go between.
        some = f"{key} % 32 < 8 AND {_chosen(key, turn)}"
        spark.sql(f"INSERT INTO {table} SELECT {key} + 8 AS {key}, * EXCEPT ({key}) FROM {table} WHERE {some}")
        spark.sql(f"DELETE FROM {table} WHERE {some}")


def _chosen(key: str, turn: int) -> str:
    if SCATTERED:
        return f"pmod(hash({key}), {ONE_IN}) = {turn}"
    # As TPC-H's own generator does: the n-th refresh replaces the n-th thousandth of the orders, whose keys follow each other.
    first, last = (1_500_000 * SCALE * n / ONE_IN // 8 * 32 for n in (turn, turn + 1))
    return f"{key} BETWEEN {first:.0f} AND {last - 1:.0f}"


def measure(spark: SparkSession, name: str) -> tuple[float, float, float, int, int]:
    """Return the milliseconds of a refresh, of it while jobs ran, and of a full recomputation; the refresh's jobs and rows read."""
    before = Work.so_far(spark)
    refresh = milliseconds(lambda: spark.sql(f"REFRESH STREAM TABLE {name}"))
    busy, (jobs, rows) = before.busy(spark), before.since(spark)
    full = milliseconds(lambda: spark.sql(f"CREATE OR REPLACE TABLE full_{name} USING delta AS {CHOSEN[name]}"))
    return refresh, busy, full, jobs, rows


def main() -> None:
    """Print a row per query; all tables are verified at the end."""
    console = Console(width=110)
    folder = Path(".bench").absolute()
    spark = session(folder)
    load(spark, folder / "parquet", SCALE)
    for name, query in CHOSEN.items():
        spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL STATE {STATE} AS {query}")
    found: dict[str, list[tuple[float, float, float, int, int]]] = {name: [] for name in CHOSEN}
    for turn in range(ROUNDS + 1):
        change(spark, turn)
        for name in CHOSEN:
            if turn:
                found[name].append(measure(spark, name))
            else:  # the first round only warms up; CREATE has computed the query in full already
                spark.sql(f"REFRESH STREAM TABLE {name}")
    where = "scattered" if SCATTERED else "together"
    title = f"TPC-H at scale factor {SCALE:g}, one order in {ONE_IN} comes and goes, {where}"
    title += f", STATE {STATE}, {os.cpu_count()} cores, medians of {ROUNDS}"
    shown = Table("query", "refresh ms", "in jobs", "full ms", "full / refresh", "jobs", "rows read", "verified", title=title)
    ratios = []
    for name, rounds in found.items():
        refresh, busy, full, jobs, rows = (statistics.median(each) for each in zip(*rounds, strict=True))
        ratios.append(full / refresh)
        verified = spark.sql(f"VERIFY STREAM TABLE {name}").collect()[0]["ok"]
        numbers = (f"{refresh:,.0f}", f"{busy:,.0f}", f"{full:,.0f}", f"{full / refresh:.2f}", f"{jobs:.0f}", f"{rows:,.0f}")
        shown.add_row(name, *numbers, str(verified))
    console.print(shown)
    faster, twice = sum(each > 1 for each in ratios), sum(each >= 2 for each in ratios)
    console.print(f"faster than full: {faster} of {len(ratios)}; at least twice: {twice}; median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
