"""What a statement leaves to Python's search for cycles, which begins when it likes: nothing that the JVM would have to hold till then."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from py4j.java_collections import JavaArray, JavaIterator, JavaList, JavaMap, JavaSet
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from streamtable.delta.bridge import JavaRows

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


def test_a_statement_leaves_no_handle_of_the_jvm_in_a_cycle(shop: SparkSession) -> None:
    for statement in STATEMENTS:
        with only_cycles() as found:
            shop.sql(statement).collect()
        # Collections keep methods by py4j's construction; here they hold names and settings.
        held = [type(each) for each in found if isinstance(each, HELD) and not isinstance(each, COLLECTIONS)]
        assert not held, statement


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
