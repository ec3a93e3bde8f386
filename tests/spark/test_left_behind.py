"""What a statement leaves to Python's search for cycles, which begins when it likes: nothing that the JVM would have to hold till then."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.java_collections import JavaArray, JavaIterator, JavaList, JavaMap, JavaSet
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import SALES
from tests.spark.killed import ended, run

from streamtable.jvm.gateway import JavaRows

STATEMENTS = (
    "CREATE STREAM TABLE st AS SELECT region, count(*) AS n, sum(amount) AS total FROM sales GROUP BY region",
    "CREATE STREAM TABLE top AS SELECT region FROM st ORDER BY n, region LIMIT 2",
    "INSERT INTO sales VALUES (70, 'north', 7)",
    "REFRESH STREAM TABLE top CASCADE",
    "EXPLAIN STREAM TABLE st",
    "DESCRIBE STREAM TABLE st",
    "SHOW STREAM TABLES",
    "SHOW CREATE STREAM TABLE st",
    "SHOW REFRESH HISTORY",
    "SELECT * FROM stream_tables()",
    "SELECT * FROM source_health()",
    "VERIFY STREAM TABLE st",
    "ALTER STREAM TABLE top RENAME TO first",
    "DECLARE c CURSOR FOR SUBSCRIBE st",
    "FETCH 2 c",
    "CLOSE c",
    "DECLARE q CURSOR FOR SUBSCRIBE (SELECT region, total FROM st)",
    "FETCH 2 q",
    "CLOSE q",
    "CREATE QUEUE changed ON sales",
    "REGISTER CONSUMER reader ON changed AT 0",
    "NEXT BATCH FROM changed FOR reader",
    "FINISH BATCH FROM changed FOR reader",
    "DROP QUEUE changed FORCE",
    "DROP STREAM TABLE st CASCADE",
)
HELD = (SparkSession, DataFrame, JavaObject)
COLLECTIONS = (JavaArray, JavaIterator, JavaList, JavaMap, JavaSet)


@contextmanager
def only_cycles() -> Iterator[list[object]]:
    """Yield what is found in the end, after the block, in cycles that nobody refers to."""
    found = list[object]()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def handles_in_cycles(spark: SparkSession) -> dict[str, list[str]]:
    """Return, by statement, the kinds of handles that it left in cycles."""
    left = dict[str, list[str]]()
    for statement in STATEMENTS:
        with only_cycles() as found:
            spark.sql(statement).collect()
        # Collections keep methods by py4j's construction; here they hold names and settings.
        kinds = [type(each).__name__ for each in found if isinstance(each, HELD) and not isinstance(each, COLLECTIONS)]
        left |= {statement: kinds} if kinds else {}
    return left


# In a process of its own: threads of other modules' tests come to their ends at any time.
PROGRAM = f"""
from tests.spark.test_left_behind import handles_in_cycles

spark = session(2)
spark.sql("CREATE TABLE sales (id INT, region STRING, amount INT) USING delta")
spark.sql("INSERT INTO sales VALUES {SALES}")
left = handles_in_cycles(spark)
assert not left, left
"""


def test_a_statement_leaves_no_handle_of_the_jvm_in_a_cycle(tmp_path: Path) -> None:
    ended(run(tmp_path, PROGRAM), 0)


def test_rows_belong_to_the_jvm_once_they_are_handed_over(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql("DECLARE s CURSOR FOR SUBSCRIBE sales").collect()
    empty, made = JavaRows.empty, list[JavaRows]()

    def noted(spark: SparkSession) -> JavaRows:
        made.append(empty(spark))
        return made[-1]

    monkeypatch.setattr(JavaRows, "empty", noted)
    assert len(shop.sql("FETCH ALL s").collect()) == 3

    def until_it_is_gone() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:  # py4j tells the JVM by a thread of its own
            len(made[0])
            time.sleep(0.1)

    with pytest.raises(Py4JError, match="does not exist"):
        until_it_is_gone()
    shop.sql("CLOSE s")


def test_the_test_finds_a_frame_in_a_cycle(shop: SparkSession) -> None:
    with only_cycles() as found:
        cycle: list[object] = [shop.range(1)]
        cycle.append(cycle)
        del cycle
    assert any(isinstance(each, DataFrame) for each in found)
