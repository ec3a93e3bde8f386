"""Everyday tables of a shop with scattered keys: each refreshed, merged by hand where that is known, and recomputed, in turn.

`./run bench shop` takes 4 M events, `SCALE=10 ./run bench shop` 40 M. `CHANGE` is mixed (three commits of inserts, updates and
deletions, the default), appends or late (corrections of old days). `MODE=AUTO` lets the engine choose.
`STATE=none|auto|all` is that of the tables. `ROUNDS` and `ONLY` choose less; `WARM` rounds come before
the measured ones.
"""

from __future__ import annotations

import math
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from bench.feed import latest
from bench.run import STATE, milliseconds, session
from bench.shop_by_hand import merge
from bench.shop_tables import CHANGES, SHAPES, Shop
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.spark.work import Work

EVENTS = round(float(os.environ.get("SCALE", "1")) * 4_000_000)
ROUNDS = int(os.environ.get("ROUNDS", "3"))
WARM = int(os.environ.get("WARM", "1"))
CHANGE = os.environ.get("CHANGE", "mixed")
MODE = os.environ.get("MODE", "DIFFERENTIAL")
CHOSEN = {name: query for name, query in SHAPES.items() if name in os.environ.get("ONLY", ",".join(SHAPES)).split(",")}
CHAIN = [name for name in CHOSEN if name.startswith("chain")]


@dataclass
class Measured:
    """What the rounds took for one shape, in milliseconds, and what the refresh read."""

    refresh: list[float] = field(default_factory=list)
    merge: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    actions: set[str] = field(default_factory=set)


def table_of(shape: str) -> str:
    """Return the name of the stream table of a shape."""
    return shape.replace(" ", "_")


def create(spark: SparkSession) -> None:
    """Make the stream tables, and those that MERGE maintains."""
    for shape, query in CHOSEN.items():
        name = table_of(shape)
        spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE {MODE} STATE {STATE} AS {query}")
        if merge(shape, name, dict.fromkeys(("since", "upto", "since_abroad", "upto_abroad"), 0)):
            properties = "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
            spark.sql(f"CREATE TABLE merged_{name} USING delta {properties} AS {query}")


def measure(spark: SparkSession, shape: str, versions: dict[str, int], found: Measured) -> None:
    """Run the sides of one shape, in turn."""
    name, before = table_of(shape), Work.so_far(spark)
    answer: list[str] = []
    found.refresh.append(milliseconds(lambda: answer.append(spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]["action"])))
    found.actions.update(answer)
    jobs, rows = before.since(spark)
    found.jobs.append(jobs)
    found.rows.append(rows)
    found.busy.append(before.busy(spark))
    found.megabytes.append(before.read(spark) / 1e6)
    by_hand = merge(shape, f"merged_{name}", versions)
    found.merge.append(milliseconds(lambda: spark.sql(by_hand)) if by_hand else math.nan)
    found.full.append(milliseconds(lambda: spark.sql(f"CREATE OR REPLACE TABLE full_{name} USING delta AS {CHOSEN[shape]}")))


def _versions(spark: SparkSession) -> dict[str, int]:
    return {"": latest(spark, "events"), "_abroad": latest(spark, "orders_abroad")}


def rounds(spark: SparkSession, shop: Shop) -> dict[str, Measured]:
    """Change and measure; the first rounds only warm up."""
    found = {shape: Measured() for shape in CHOSEN}
    for turn in range(WARM + ROUNDS):
        before = _versions(spark)
        shop.change(CHANGE)
        after = _versions(spark)
        versions = {f"since{of}": version + 1 for of, version in before.items()} | {f"upto{of}": v for of, v in after.items()}
        for shape in CHOSEN:
            measure(spark, shape, versions, found[shape] if turn >= WARM else Measured())
    return found


def _shown(number: float, places: int = 0) -> str:
    return "" if math.isnan(number) else f"{number:,.{places}f}"


def main() -> None:
    """Print a row per shape; all tables are verified at the end."""
    assert CHANGE in CHANGES, f"CHANGE is one of {', '.join(CHANGES)}"
    console = Console(width=170)
    spark = session(Path(".bench").absolute())
    shop = Shop(spark, EVENTS)
    shop.load()
    create(spark)
    found = rounds(spark, shop)
    sides = f"{CHANGE} changes, {MODE}, STATE {STATE}"
    title = f"a shop of {EVENTS:,} events, {sides}, {os.cpu_count()} cores, medians of {ROUNDS} after {WARM}"
    heads = ["shape", "refresh ms", "in jobs", "planning", "MERGE ms", "full ms", "refresh / MERGE", "full / refresh"]
    shown = Table(*heads, "jobs", "rows read", "MB read", "action", "verified", title=title)
    ratios = []
    for shape, each in found.items():
        refresh, busy, by_hand, full = map(statistics.median, (each.refresh, each.busy, each.merge, each.full))
        ratios.append(full / refresh)
        verified = spark.sql(f"VERIFY STREAM TABLE {table_of(shape)}").collect()[0]["ok"]
        times = (_shown(refresh), _shown(busy), f"{1 - busy / refresh:.0%}", _shown(by_hand), _shown(full))
        read = (
            f"{statistics.median(each.jobs):.0f}",
            _shown(statistics.median(each.rows)),
            _shown(statistics.median(each.megabytes)),
        )
        compared = (_shown(refresh / by_hand, 2), f"{full / refresh:.2f}")
        shown.add_row(shape, *times, *compared, *read, ", ".join(sorted(each.actions)), str(verified))
    console.print(shown)
    if CHAIN:
        chain = [sum(side) for side in zip(*(found[link].refresh for link in CHAIN), strict=True)]
        console.print(f"the chain of {len(CHAIN)}: {statistics.median(chain):,.0f} ms")
    least, median, reached = min(ratios), statistics.median(ratios), sum(each >= 1.5 for each in ratios)
    console.print(f"full / refresh: least {least:.2f}, median {median:.2f}; at least 1.5: {reached} of {len(ratios)}")


if __name__ == "__main__":
    main()
