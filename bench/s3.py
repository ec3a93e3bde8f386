"""Count the requests to a server of S3: of NO_DATA, refreshes, CREATE and a look of the scheduler, beside those of Delta's INSERT.

`./run bench s3`. Numbers of requests do not depend on the machine. `TABLES` are the stream tables that the scheduler looks at.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.spark.s3 import BUCKET, REQUESTS, Store, storing

from streamtable import configure
from streamtable.schedule.engine import SparkEngine

TABLES = int(os.environ.get("TABLES", "100"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))

QUERIES = {
    "filter": "SELECT id, amount FROM orders WHERE amount > 10",
    "aggregate": "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
    "join": "SELECT o.id, o.amount, c.region FROM orders o JOIN customers c ON o.customer = c.customer",
}


def session(folder: Path, store: Store) -> SparkSession:
    """Start Spark with its tables in the store."""
    os.chdir(folder)
    settings: dict[str, bool | float | int | str | None] = {
        **store.settings,
        "spark.driver.memory": os.environ.get("MEMORY", "2g"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"s3a://{BUCKET}/warehouse",
        "spark.log.level": "OFF",
    }
    return configure(SparkSession.builder.master("local[2]").config(map=settings)).getOrCreate()


def counted(store: Store, action: Callable[[], object]) -> Counter[str]:
    """Count the requests of an action."""
    with store.counting() as requests:
        action()
    return requests


def measure(spark: SparkSession, store: Store) -> dict[str, Counter[str]]:
    """Return the requests of each action; of those that come again and again, in the last round."""
    sql: Callable[[str], object] = lambda text: spark.sql(text).collect()  # noqa: E731
    done = dict[str, Counter[str]]()
    sql("CREATE TABLE orders (id INT, customer INT, amount INT) USING delta")
    sql("CREATE TABLE customers USING delta AS SELECT CAST(id AS INT) AS customer, id % 3 AS region FROM range(20)")
    sql("INSERT INTO orders SELECT id, id % 20, id % 50 FROM range(1000)")
    done["Delta: CREATE TABLE AS"] = counted(store, partial(sql, f"CREATE TABLE made USING delta AS {QUERIES['filter']}"))
    for name, query in QUERIES.items():
        statement = f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {query}"
        done[f"CREATE STREAM TABLE, {name}"] = counted(store, partial(sql, statement))
    for n in range(ROUNDS):
        done["Delta: INSERT"] = counted(store, partial(sql, f"INSERT INTO orders VALUES ({1000 + n}, {n}, 30)"))
        for name in QUERIES:
            done[f"refresh, {name}"] = counted(store, partial(sql, f"REFRESH STREAM TABLE {name}_st"))
    for name in QUERIES:
        sql(f"REFRESH STREAM TABLE {name}_st")
        done[f"NO_DATA, {name}"] = counted(store, partial(sql, f"REFRESH STREAM TABLE {name}_st"))
    for n in range(TABLES - len(QUERIES)):
        sql(f"CREATE STREAM TABLE t{n} AS {QUERIES['filter']}")
    engine = SparkEngine(spark)
    engine.observe()
    done[f"a look of the scheduler, {TABLES} tables"] = counted(store, engine.observe)
    return done


def shown(done: dict[str, Counter[str]], kinds: Sequence[str] = REQUESTS) -> Table:
    """Return the counts as a table, each beside those of an INSERT."""
    table = Table("", *kinds, "all", "/ INSERT", title="requests to the store")
    insert = done["Delta: INSERT"].total()
    for name, counts in done.items():
        table.add_row(name, *(str(counts[kind]) for kind in kinds), str(counts.total()), f"{counts.total() / insert:.1f}")
    return table


def main() -> None:
    folder = Path(".bench").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with storing(folder) as store:
        spark = session(folder, store)
        try:
            Console(width=110).print(shown(measure(spark, store)))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
