"""SCHEDULE IMMEDIATE with real tables: an author reads his own writes, and no write fails by what follows it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, folder, unshared, version
from tests.spark.test_schedule import TOTALS, current, described, eventually, history, write

from streamtable import start_scheduler
from streamtable.catalog.shared import share, shared
from streamtable.definitions.table import publish
from streamtable.delta.tables import home
from streamtable.errors import InvalidStatement
from streamtable.jvm.gateway import java_class
from streamtable.jvm.handles import local_property


@pytest.fixture
def at_once(hurried: SparkSession) -> Iterator[SparkSession]:
    """Return the hurried shop, and take away the mark of tables IMMEDIATE, which other tests would pay for."""
    yield hurried
    share(hurried, "streamtable.immediate", "false")


INITIATORS = "SELECT initiated_by FROM refresh_history('a') ORDER BY version"


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(9, "west", 90)], "id INT, region STRING, amount INT")


def merged(spark: SparkSession) -> object:
    new = rows(spark).alias("new")
    return DeltaTable.forName(spark, "sales").alias("old").merge(new, "old.id = new.id").whenMatchedDelete().execute()


def planned(spark: SparkSession, statement: str) -> str:
    """Return what a statement is after its analysis, without running it."""
    state = spark._jsparkSession.sessionState()
    mode = java_class(spark, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    return str(state.executePlan(state.sqlParser().parsePlan(statement), mode).analyzed())


def without_numbers(plan: str) -> str:
    """Return the text of a plan without the numbers of its expressions, and of objects."""
    return re.sub(r"#\d+L?|@[0-9a-f]+|\[plan_id=\d+\]", "", plan)


WRITES: dict[str, Callable[[SparkSession], object]] = {
    "INSERT": lambda spark: spark.sql("INSERT INTO sales VALUES (7, 'north', 70)"),
    "several INSERTs": lambda spark: spark.sql("FROM sales INSERT INTO sales SELECT id + 10, region, 1 INSERT INTO sales SELECT *"),
    "UPDATE": lambda spark: spark.sql("UPDATE sales SET amount = amount + 1 WHERE id = 7"),
    "DELETE": lambda spark: spark.sql("DELETE FROM sales WHERE id = 7"),
    "MERGE": lambda spark: spark.sql(
        "MERGE INTO sales USING (SELECT 8 AS id, 'east' AS region, 80 AS amount) AS new ON sales.id = new.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "a DataFrame": lambda spark: rows(spark).write.format("delta").mode("append").save(str(folder(spark, "sales"))),
    "DeltaTable.merge()": merged,
    "overwrite": lambda spark: rows(spark).write.format("delta").mode("overwrite").saveAsTable("sales"),
    "TRUNCATE": lambda spark: spark.sql("TRUNCATE TABLE sales"),
}


SOME = ("INSERT", "UPDATE", "MERGE", "a DataFrame", "overwrite")
"""A write of each shape: rows, conditions, both, by a path, and the whole table; `./run fuzz -k whichever_way` has all."""


@pytest.mark.parametrize("ways", [SOME, pytest.param((*WRITES,), marks=pytest.mark.fuzz)], ids=["some", "all"])
def test_an_author_reads_his_own_writes_whichever_way_he_writes(at_once: SparkSession, ways: tuple[str, ...]) -> None:
    at_once.sql(f"CREATE STREAM TABLE a SCHEDULE IMMEDIATE AS {TOTALS}")
    for name in ways:
        before = version(at_once, "sales")
        WRITES[name](at_once)
        assert version(at_once, "sales") > before and current(at_once, "a"), f"{name} returned before a had it"
    assert_exact(at_once, "a", TOTALS)
    initiators = answer(at_once, "SELECT DISTINCT initiated_by FROM refresh_history('a') WHERE action <> 'REINITIALIZE'")
    assert initiators == [("IMMEDIATE",)]
    assert answer(at_once, "UPDATE sales SET id = 1 WHERE false") == [(0,)], "its answer is what it was"


def test_what_lies_between_is_refreshed_and_what_has_another_schedule_is_not(at_once: SparkSession) -> None:
    at_once.sql(f"CREATE STREAM TABLE a AS {TOTALS}")
    at_once.sql("CREATE STREAM TABLE b SCHEDULE ON UPDATE AS SELECT count(*) AS n FROM a")
    at_once.sql("CREATE STREAM TABLE c AS SELECT sum(total) AS total FROM a")
    insert = "INSERT INTO sales VALUES (5, 'north', 5)"
    before = answer(at_once, f"EXPLAIN {insert}")
    assert "FollowedCommand" not in planned(at_once, insert), "no table is IMMEDIATE: a write asks for none"
    at_once.sql("ALTER STREAM TABLE c SET SCHEDULE IMMEDIATE")
    assert "FollowedCommand" in planned(at_once, insert)
    explained = answer(at_once, f"EXPLAIN {insert}")
    assert [without_numbers(row[0]) for row in explained] == [without_numbers(row[0]) for row in before], "the plan of the write"
    write(at_once, 5)
    assert current(at_once, "a", "c") and not current(at_once, "b")
    assert "SCHEDULE IMMEDIATE" in answer(at_once, "SHOW CREATE STREAM TABLE c")[0][0]


def test_a_failure_above_is_told_and_never_speaks_against_the_write(at_once: SparkSession) -> None:
    at_once.sql("CREATE STREAM TABLE c SCHEDULE IMMEDIATE AS SELECT id, 100 / (id - 77) AS x FROM sales")
    at_once.sql(f"CREATE STREAM TABLE a SCHEDULE IMMEDIATE AS {TOTALS}")
    write(at_once, 77)
    assert answer(at_once, "SELECT count(*) FROM sales WHERE id = 77") == [(2,)]
    assert current(at_once, "a") and not current(at_once, "c")
    told = "SELECT action, initiated_by FROM refresh_history('c') WHERE action = 'FAILED'"
    assert answer(at_once, told) == [("FAILED", "IMMEDIATE")]
    for number in (78, 79):
        write(at_once, number)
    assert described(at_once, "c")["status"] == "SUSPENDED"
    assert len(answer(at_once, told)) == 2, "a suspended table costs the next writes nothing"
    assert current(at_once, "a")


def test_a_refresh_that_hangs_keeps_a_writer_no_longer_than_the_setting_says(at_once: SparkSession) -> None:
    slow = "SELECT id, reflect('java.lang.Thread', 'sleep', 20000L) AS slept FROM sales"
    at_once.sql(f"CREATE STREAM TABLE c SCHEDULE IMMEDIATE WITH NO DATA AS {slow}")
    at_once.sql("CREATE STREAM TABLE d SCHEDULE IMMEDIATE WITH NO DATA AS SELECT id FROM c")
    at_once.conf.set("spark.streamtable.immediate.timeoutSeconds", "2")
    try:
        began = time.monotonic()
        with local_property(at_once, "spark.job.interruptOnCancel", "true"):  # a sleeping task would keep its core
            write(at_once, 7)
        took = time.monotonic() - began
    finally:
        at_once.conf.unset("spark.streamtable.immediate.timeoutSeconds")
    assert 2 <= took < 60, "the rows sleep for 20 s each, one after the other"
    assert answer(at_once, "SELECT count(*) FROM sales WHERE id = 7") == [(2,)]
    told = answer(at_once, "SELECT initiated_by, reason FROM refresh_history('c') WHERE action = 'SKIPPED'")
    assert [initiator for initiator, _ in told] == ["IMMEDIATE"]
    assert "a write waits 2 s at most (spark.streamtable.immediate.timeoutSeconds)" in told[0][1]
    assert described(at_once, "c")["status"] == "ACTIVE" and answer(at_once, "SELECT * FROM d") == []
    assert not at_once.sparkContext.getJobTags()


def test_what_no_session_follows_is_left_to_a_scheduler(at_once: SparkSession, tmp_path: Path) -> None:
    at_once.sql(f"CREATE STREAM TABLE a SCHEDULE IMMEDIATE AS {TOTALS}")
    at_once.sql("CREATE TABLE incoming (id INT, region STRING, amount INT) USING delta")
    at_once.sql("INSERT INTO incoming VALUES (5, 'north', 5)")
    stream = at_once.readStream.table("incoming").writeStream.format("delta").option("checkpointLocation", str(tmp_path))
    stream.trigger(availableNow=True).toTable("sales").awaitTermination()
    assert not current(at_once, "a"), "a streaming write waits for nobody"
    with start_scheduler(at_once):
        eventually(lambda: current(at_once, "a"))
    assert_exact(at_once, "a", TOTALS)
    assert [action for action, _ in history(at_once, "a")][-1] == "DIFFERENTIAL"


def test_what_is_written_while_a_table_is_filled_is_in_it_when_its_create_returns(
    at_once: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*made: Any) -> None:
        write(at_once, 5)  # its author cannot see the table yet
        publish(*made)

    at_once.sql("CREATE STREAM TABLE between AS SELECT * FROM sales")
    monkeypatch.setattr("streamtable.definitions.create.publish", late)
    created = answer(at_once, f"CREATE STREAM TABLE a SCHEDULE IMMEDIATE AS {TOTALS.replace('sales', 'between')}")
    assert [row[2] for row in created] == ["the table was created"]
    assert current(at_once, "a", "between")
    assert_exact(at_once, "a", TOTALS)


def test_a_create_that_was_refused_left_the_mark_of_tables_immediate(at_once: SparkSession) -> None:
    place = Path(home(at_once, "shop").removeprefix("file:"), "refused")
    share(at_once, "streamtable.immediate", "false")
    place.mkdir()
    (place / "file").touch()
    with pytest.raises(InvalidStatement, match="is not empty"):
        at_once.sql(f"CREATE STREAM TABLE refused SCHEDULE IMMEDIATE AS {TOTALS}")
    (place / "file").unlink()
    place.rmdir()
    with pytest.raises(PySparkException):
        at_once.sql("CREATE STREAM TABLE refused SCHEDULE IMMEDIATE AS SELECT id, raise_error('no') AS e FROM sales")
    assert shared(at_once, "streamtable.immediate") != "true"


def test_writes_never_waited_again_after_the_mark_of_the_catalog_was_lost(at_once: SparkSession) -> None:
    """The mark of tables IMMEDIATE is lost, as with a catalog from a backup: who refreshes such a table sets it again."""
    at_once.sql(f"CREATE STREAM TABLE a SCHEDULE IMMEDIATE AS {TOTALS}")
    unshared(at_once, "streamtable.immediate")
    write(at_once, 5)
    assert not current(at_once, "a"), "nothing tells a write of the table"
    with start_scheduler(at_once):
        eventually(lambda: current(at_once, "a"))
    write(at_once, 6)
    assert [initiator for initiator, *_ in answer(at_once, INITIATORS)] == ["INITIAL", "SCHEDULER", "IMMEDIATE"]
    unshared(at_once, "streamtable.immediate")
    write(at_once, 7)
    at_once.sql("REFRESH STREAM TABLE a")
    write(at_once, 8)
    assert [initiator for initiator, *_ in answer(at_once, INITIATORS)][-2:] == ["MANUAL", "IMMEDIATE"]
    assert_exact(at_once, "a", TOTALS)
