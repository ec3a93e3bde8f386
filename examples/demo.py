"""TPC-H on Delta: a chain of stream tables, changes as TPC-H makes them, refreshes, and what each of them cost.

    ./run demo            scale factor 0.1 (600,000 line items)
    SF=1 ./run demo       6,000,000 line items

All is made anew in `.demo/` of the current folder, and stays there to be looked at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Row, SparkSession
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from streamtable import configure
from streamtable.jvm.output import jvm_output

FOLDER = Path(".demo")
SOURCES = ("nation", "customer", "orders", "lineitem")

# In dependency order: the last one reads the one before it.
STREAM_TABLES = {
    "returned_items": """
        SELECT l_orderkey, l_linenumber, l_partkey, l_quantity, l_receiptdate
        FROM lineitem
        WHERE l_returnflag = 'R' AND l_receiptdate > l_commitdate""",
    "order_lines": """
        SELECT o_orderkey, l_linenumber, o_orderdate, o_orderpriority, c_name, c_mktsegment,
               l_extendedprice * (1 - l_discount) AS revenue
        FROM orders
        JOIN lineitem ON l_orderkey = o_orderkey
        JOIN customer ON c_custkey = o_custkey""",
    "nation_months": """
        SELECT n_name AS nation, trunc(o_orderdate, 'MM') AS month, count(*) AS items,
               sum(l_extendedprice * (1 - l_discount)) AS revenue, avg(l_quantity) AS quantity
        FROM orders
        JOIN lineitem ON l_orderkey = o_orderkey
        JOIN customer ON c_custkey = o_custkey
        JOIN nation ON n_nationkey = c_nationkey
        GROUP BY n_name, trunc(o_orderdate, 'MM')""",
    "nation_years": """
        SELECT nation, year(month) AS year, sum(items) AS items, sum(revenue) AS revenue, max(revenue) AS best_month
        FROM nation_months
        GROUP BY nation, year(month)""",
}

# One round of changes: title, table, statement; {r} is the round. TPC-H uses 8 of each 32 keys of orders: new ones go between.
CHANGES = (
    (
        "new orders",
        "orders",
        """INSERT INTO orders SELECT o_orderkey + 8 * {r} AS o_orderkey, * EXCEPT (o_orderkey)
        FROM orders WHERE o_orderkey % 32 < 8 AND pmod(hash(o_orderkey), 1000) = {r}""",
    ),
    (
        "with line items",
        "lineitem",
        """INSERT INTO lineitem SELECT l_orderkey + 8 * {r} AS l_orderkey, * EXCEPT (l_orderkey)
        FROM lineitem WHERE l_orderkey % 32 < 8 AND pmod(hash(l_orderkey), 1000) = {r}""",
    ),
    ("deleted line items", "lineitem", "DELETE FROM lineitem WHERE pmod(hash(l_orderkey), 1000) = 500 + {r}"),
    ("deleted orders", "orders", "DELETE FROM orders WHERE pmod(hash(o_orderkey), 1000) = 500 + {r}"),
    ("updated line items", "lineitem", "UPDATE lineitem SET l_discount = 0.1 WHERE pmod(hash(l_orderkey), 5000) = 100 + {r}"),
    ("updated customers", "customer", "UPDATE customer SET c_nationkey = 24 - c_nationkey WHERE pmod(hash(c_custkey), 5000) = {r}"),
)
ROUNDS = 2  # the first one warms Spark up, for the refreshes as for the recomputations; the last one is shown


@dataclass(frozen=True)
class Measured:
    """What one refresh did, and what the same cost by full recomputation."""

    name: str
    action: str
    inserted: int
    deleted: int
    seconds: float
    recomputed: float
    verdict: Row


class Demo:
    """The steps of the demo, each under its name on the progress bar."""

    def __init__(self, scale: float, progress: Progress) -> None:
        self.scale = scale
        self.progress = progress
        steps = 2 + len(SOURCES) + 2 * len(STREAM_TABLES) + ROUNDS * (len(CHANGES) + 3 * len(STREAM_TABLES))
        self.task = progress.add_task("", total=steps)

    def step(self, text: str, work: Callable[[], object]) -> float:
        """Do `work` under the title `text`; return the seconds that it took."""
        self.progress.update(self.task, description=text)
        if not self.progress.console.is_terminal:  # a log shows no bar
            self.progress.console.print(text)
        started = time.perf_counter()
        work()
        self.progress.advance(self.task)
        return time.perf_counter() - started

    def sql(self, text: str, statement: str) -> tuple[Row, float]:
        """Run a statement; return the first row of its answer and the seconds."""
        rows: list[Row] = []
        seconds = self.step(text, lambda: rows.extend(self.spark.sql(statement).collect()))
        return (rows[0] if rows else Row()), seconds

    def run(self) -> tuple[list[Measured], dict[str, int]]:
        """Do everything; return the measurements and the changed rows of the round that is shown."""
        self.step(f"generating TPC-H, scale factor {self.scale:g}", lambda: generate(self.scale))
        self.step("starting Spark", self.start)
        for name in SOURCES:
            self.sql(
                f"loading {name} into Delta",
                f"CREATE TABLE {name} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
                f" AS SELECT * FROM parquet.`{Path('tpch', name + '.parquet').absolute()}`",
            )
        for name, query in STREAM_TABLES.items():
            self.sql(f"CREATE STREAM TABLE {name}", f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
            self.recompute(name)
        measured: list[Measured] = []
        changed: dict[str, int] = {}
        for r in range(1, ROUNDS + 1):
            changed = {title: self.change(title, table, dml.format(r=r)) for title, table, dml in CHANGES}
            measured = [self.refresh(name) for name in STREAM_TABLES]
        return measured, changed

    def start(self) -> None:
        """Start Spark with stream tables; what its JVM prints goes into a file."""
        builder = configure(SparkSession.builder.master("local[*]").appName("streamtable demo"))
        with jvm_output(Path("spark.log")):
            self.spark = (
                builder.config("spark.driver.memory", "4g")
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .config("spark.log.level", "ERROR")
                .config("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
                .getOrCreate()
            )

    def change(self, title: str, table: str, dml: str) -> int:
        """Run one DML statement on a source; return the number of rows that it changed, as Delta's history tells it."""
        self.sql(title, dml)
        metrics = self.spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["operationMetrics"]
        of_dml = (metrics.get(name) for name in ("numUpdatedRows", "numDeletedRows", "numOutputRows"))
        return next(int(rows) for rows in of_dml if rows is not None)

    def recompute(self, name: str) -> float:
        """Compute the whole table again, as one would without streamtable; return the seconds."""
        query = STREAM_TABLES[name]
        _, seconds = self.sql(f"the same in full: {name}", f"CREATE OR REPLACE TABLE {name}_in_full USING delta AS {query}")
        return seconds

    def refresh(self, name: str) -> Measured:
        """Refresh the stream table, compute the same in full, and verify."""
        done, seconds = self.sql(f"REFRESH STREAM TABLE {name}", f"REFRESH STREAM TABLE {name}")
        recomputed = self.recompute(name)
        verdict, _ = self.sql(f"VERIFY STREAM TABLE {name}", f"VERIFY STREAM TABLE {name}")
        return Measured(name, done["action"], done["rows_inserted"], done["rows_deleted"], seconds, recomputed, verdict)


def generate(scale: float) -> None:
    """Write the sources as Parquet files into `tpch`; the generator stands next to this Python."""
    program = Path(sysconfig.get_path("scripts"), "tpchgen-cli")
    options = ["-s", f"{scale:g}", f"--tables={','.join(SOURCES)}", "--output-dir=tpch", "--quiet"]
    subprocess.run([program if program.exists() else "tpchgen-cli", "parquet", *options], check=True)


def report(console: Console, scale: float, measured: list[Measured], changed: dict[str, int]) -> None:
    """Show what changed in the sources, and what each refresh did."""
    console.print("Changed in the sources: " + ", ".join(f"{title} {rows:,}" for title, rows in changed.items()))
    table = Table(title=f"Refreshes at scale factor {scale:g}, sources before readers", box=SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("stream table", no_wrap=True)
    for column in ("changed", "refresh", "in full", "speedup"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("action", no_wrap=True)
    table.add_column("VERIFY")
    for each in measured:
        verdict = each.verdict
        table.add_row(
            each.name,
            f"+{each.inserted:,} -{each.deleted:,}",
            f"{each.seconds:.2f} s",
            f"{each.recomputed:.2f} s",
            f"{each.recomputed / each.seconds:.1f}x",
            each.action,
            "[green]exact[/]" if verdict["ok"] else f"[red]{verdict['missing']} missing, {verdict['surplus']} surplus[/]",
        )
    console.print(table)
    console.print(
        "in full: CREATE OR REPLACE TABLE ... AS with the same query. VERIFY: the query, evaluated afresh, compared row by row.",
        style="dim",
    )


def main() -> int:
    """Run the demo; return 0 when every table is exact."""
    try:
        scale = float(os.environ.get("SF", "0.1"))
    except ValueError:
        scale = 0.0
    if scale <= 0:
        print(f"SF must be a number above 0, such as 0.1; it is {os.environ['SF']!r}", file=sys.stderr)
        return 2
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    os.chdir(FOLDER)  # the metastore and the warehouse are kept in the current folder
    console = Console(width=None if sys.stdout.isatty() else 120)
    columns = (BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        demo = Demo(scale, progress)
        measured, changed = demo.run()
    report(console, scale, measured, changed)
    demo.spark.stop()
    return 0 if all(each.verdict["ok"] for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
