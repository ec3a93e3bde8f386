"""What a statement leaves to Python's search for cycles, which begins when it likes: nothing that the JVM would have to hold till then."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

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
        # Collections keep their methods, as py4j makes them; they hold rows and names, no plan and no session.
        held = [each for each in found if isinstance(each, HELD) and not type(each).__name__.startswith("Java")]
        assert not held, statement


def test_the_test_finds_a_frame_in_a_cycle(shop: SparkSession) -> None:
    with only_cycles() as found:
        cycle: list[object] = [shop.range(1)]
        cycle.append(cycle)
        del cycle
    assert any(isinstance(each, DataFrame) for each in found)
