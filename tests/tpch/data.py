"""TPC-H's tables in Delta, and changes like its refresh functions, spread over several tables."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

__all__ = ["TABLES", "changes", "load"]

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
_FEED = ("orders", "lineitem", "customer")


def load(spark: SparkSession, folder: Path, scale: float) -> None:
    """Generate the tables and load them into the current database: some with a change feed, some without."""
    generator = Path(sysconfig.get_path("scripts"), "tpchgen-cli")
    command = [str(generator), "parquet", "-s", f"{scale:g}", f"--output-dir={folder}", "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    for table in TABLES:
        feed = str(table in _FEED).lower()
        properties = f"'delta.enableChangeDataFeed' = '{feed}', 'delta.enableDeletionVectors' = 'true'"
        parquet = (folder / f"{table}.parquet").absolute()
        spark.sql(f"CREATE TABLE {table} USING delta TBLPROPERTIES ({properties}) AS SELECT * FROM parquet.`{parquet}`")


def changes(r: int, one_in: int = 200) -> Iterator[str]:
    """Yield the DML of round `r`: about one order in `one_in` comes (with its line items), goes, or is changed."""
    # TPC-H uses 8 of each 32 order keys; the new ones go between.
    some = f"pmod(hash({{key}}), {one_in}) = {r % one_in}"
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        where = some.format(key=key)
        yield f"INSERT INTO {table} SELECT {key} + 8 * {r % 3 + 1} AS {key}, * EXCEPT ({key}) FROM {table} WHERE {key} % 32 < 8 AND {where}"
    gone = f"pmod(hash({{key}}), {one_in}) = {(r + one_in // 2) % one_in}"
    yield f"DELETE FROM lineitem WHERE {gone.format(key='l_orderkey')}"
    yield f"DELETE FROM orders WHERE {gone.format(key='o_orderkey')}"
    yield f"UPDATE lineitem SET l_discount = 0.06, l_quantity = l_quantity + 1 WHERE pmod(hash(l_orderkey, l_linenumber), {one_in}) = {r}"
    yield f"UPDATE lineitem SET l_receiptdate = l_receiptdate + INTERVAL 20 DAYS WHERE pmod(hash(l_partkey), {one_in}) = {r}"
    yield f"UPDATE orders SET o_orderdate = o_orderdate + INTERVAL 40 DAYS WHERE pmod(hash(o_custkey), {one_in}) = {r}"
    yield f"UPDATE customer SET c_mktsegment = 'BUILDING', c_nationkey = 24 - c_nationkey WHERE pmod(hash(c_custkey), 40) = {r}"
    yield f"UPDATE partsupp SET ps_supplycost = ps_supplycost * 0.9, ps_availqty = ps_availqty + 7 WHERE pmod(hash(ps_partkey), 50) = {r}"
    yield f"UPDATE supplier SET s_comment = 'Customer of many Complaints', s_nationkey = 3 WHERE s_suppkey = {r + 1}"
    yield f"UPDATE part SET p_brand = 'Brand#23', p_container = 'MED BOX' WHERE pmod(hash(p_partkey), 60) = {r}"
    if r % 2:
        yield "UPDATE nation SET n_name = concat(n_name, '') WHERE n_nationkey = 7"
        yield f"UPDATE nation SET n_regionkey = {r % 5} WHERE n_nationkey = 9"
