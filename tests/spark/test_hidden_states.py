"""Arrangements that are not what the frontier says: the table is computed anew, with the reason, and is exact."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, done, folder, version
from tests.versions import needs

from streamtable import open_queue
from streamtable.errors import ConsumerNotFound, HistoryLost

GROUPS = "SELECT region AS r, count(*) * 2 AS n, avg(amount) AS mean FROM sales GROUP BY region"
LEVELS = """WITH RECURSIVE r AS (SELECT id, amount FROM sales WHERE region = 'north'
            UNION ALL SELECT s.id, s.amount FROM sales s JOIN r ON s.id = r.id + 1) SELECT * FROM r"""

Harm = Callable[[Path], None]


def log_of(arrangement: Path) -> list[Path]:
    """Return the commits of an arrangement, the latest last."""
    return sorted(arrangement.glob("_delta_log/0*.json"))


def forget_checksums(arrangement: Path) -> None:
    """Delete the checksums of commits and files, and what this process remembers of logs."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    for each in (*arrangement.glob("_delta_log/*.crc"), *arrangement.glob("_delta_log/.*.crc"), *arrangement.glob(".*.crc")):
        each.unlink(missing_ok=True)


def loses_its_last_commit(arrangement: Path) -> None:
    last = log_of(arrangement)[-1]
    for each in (last, last.with_suffix(".crc"), *last.parent.glob(f".{last.stem}.*")):
        each.unlink(missing_ok=True)


def loses_its_first_commit(arrangement: Path) -> None:
    log_of(arrangement)[0].unlink()
    forget_checksums(arrangement)


def is_deleted(arrangement: Path) -> None:
    shutil.rmtree(arrangement)


def loses_its_log(arrangement: Path) -> None:
    shutil.rmtree(arrangement / "_delta_log")


def is_deleted_with_all_others(arrangement: Path) -> None:
    shutil.rmtree(arrangement.parents[1])


def has_half_a_commit(arrangement: Path) -> None:
    last = log_of(arrangement)[-1]
    forget_checksums(arrangement)
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])


def loses_its_files(arrangement: Path) -> None:
    for each in arrangement.glob("*.parquet"):
        each.unlink(missing_ok=True)


def has_truncated_files(arrangement: Path) -> None:
    forget_checksums(arrangement)
    for each in arrangement.glob("*.parquet"):
        each.write_bytes(each.read_bytes()[:50])


def is_another_table(arrangement: Path) -> None:
    """Put a table of the same columns there that is as many versions old, and empty."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    schema, versions = spark.read.format("delta").load(str(arrangement)).schema, len(log_of(arrangement))
    shutil.rmtree(arrangement)
    for _ in range(versions):
        spark.createDataFrame([], schema).write.format("delta").mode("append").save(str(arrangement))


HARMS: dict[Harm, str] = {
    loses_its_last_commit: "backup",
    loses_its_first_commit: "arrangement",
    is_deleted: "is gone",
    loses_its_log: "is gone",
    is_deleted_with_all_others: "is gone",
    has_half_a_commit: "arrangement",
    loses_its_files: "is gone",
    has_truncated_files: "arrangement",
    is_another_table: "another table",
}
"""What can happen to an arrangement, and what the reason says then."""

SOME = {loses_its_last_commit, is_deleted, has_half_a_commit, has_truncated_files, is_another_table}
"""Harm to the log and to the files, all of it and a part, and a stranger; `./run fuzz -k built_anew` has all."""


def case(harm: Harm, query: str, some: bool, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(harm, query, marks=[*marks, *[pytest.mark.fuzz] * (not some)])


CASES = [
    *(case(harm, GROUPS, harm in SOME) for harm in HARMS),
    case(loses_its_last_commit, LEVELS, True, needs("WITH RECURSIVE")),
    case(is_deleted, LEVELS, False, needs("WITH RECURSIVE")),
]


@pytest.mark.parametrize(("harm", "query"), CASES)
def test_an_arrangement_that_is_not_what_the_frontier_says_is_built_anew(shop: SparkSession, harm: Harm, query: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")
    shop.sql("INSERT INTO sales VALUES (2, 'west', 100)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    (arrangement,) = (each.parent for each in (folder(shop, "st") / "_streamtable").rglob("_delta_log"))
    harm(arrangement)
    shop.sql("INSERT INTO sales VALUES (3, 'west', 300)")
    action, reason = done(shop, "REFRESH STREAM TABLE st")
    assert (action, HARMS[harm] in reason) == ("REINITIALIZE", True), reason
    assert_exact(shop, "st", query)
    shop.sql("DELETE FROM sales WHERE amount = 100")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", query)


def test_a_consumer_whose_events_to_come_again_are_lost_is_told_so(shop: SparkSession) -> None:
    for statement in (
        "CREATE QUEUE q ON sales",
        "REGISTER CONSUMER reader ON q",
        "INSERT INTO sales VALUES (4, 'east', 1)",
        "NEXT BATCH FROM q FOR reader",
        "RETRY EVENTS FROM q FOR reader",
        "FINISH BATCH FROM q FOR reader",
        "NEXT BATCH FROM q FOR reader",
        "FINISH BATCH FROM q FOR reader",
    ):
        shop.sql(statement).collect()
    shutil.rmtree(folder(shop, "q") / "_streamtable" / "retries")
    shop.sql("INSERT INTO sales VALUES (5, 'east', 1)")
    with pytest.raises(HistoryLost, match="UNREGISTER CONSUMER reader"):
        shop.sql("NEXT BATCH FROM q FOR reader").collect()
    shop.sql("UNREGISTER CONSUMER reader ON q")
    shop.sql("REGISTER CONSUMER reader ON q")
    shop.sql("INSERT INTO sales VALUES (6, 'east', 1)")
    assert [row["id"] for row in shop.sql("NEXT BATCH FROM q FOR reader").collect()] == [6]
    shutil.rmtree(folder(shop, "q") / "_streamtable" / "consumers")
    with pytest.raises(ConsumerNotFound):
        shop.sql("NEXT BATCH FROM q FOR reader").collect()


def put_back(place: Path, copy: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(copy, place)


def test_a_consumer_that_comes_back_from_a_backup_loses_no_events(shop: SparkSession, tmp_path: Path) -> None:
    def append() -> list[int]:
        with queue.batch("c") as batch:
            assert batch is not None
            batch.append_to("sink")
        return [row[0] for row in answer(shop, "SELECT id FROM sink ORDER BY id")]

    shop.sql("CREATE QUEUE q ON sales")
    queue = open_queue(shop, "q")
    queue.register("c")
    consumers = folder(shop, "q") / "_streamtable" / "consumers"
    shutil.copytree(consumers, tmp_path / "new")
    shop.sql("INSERT INTO sales VALUES (11, 'east', 1)")
    assert append() == [11], "which makes the table"
    put_back(consumers, tmp_path / "new")
    assert append() == [11], "the batch comes again, and is the same"
    shutil.copytree(consumers, tmp_path / "older")
    shop.sql("INSERT INTO sales VALUES (12, 'east', 1)")
    assert append() == [11, 12]
    put_back(consumers, tmp_path / "older")
    assert append() == [11, 12]
    reached = version(shop, "sales")
    for copy in ("older", "new"):
        put_back(consumers, tmp_path / copy)
        shop.sql("INSERT INTO sales VALUES (13, 'east', 1)")
        for _ in range(2):
            with pytest.raises(HistoryLost, match=r"sink has batches of c of (?s:.)*an older copy of its folder") as error:
                append()
            assert "UNREGISTER CONSUMER c ON" in str(error.value)
            assert f"sink has events up to {reached}" in str(error.value)
    queue.unregister("c")
    queue.register("c", at=reached)
    assert append() == [11, 12, 13, 13]


def test_events_to_come_again_are_not_looked_for_in_an_older_copy(shop: SparkSession, tmp_path: Path) -> None:
    def put_off(consumer: str) -> None:
        for statement in ("NEXT BATCH FROM q FOR {}", "RETRY EVENTS FROM q FOR {}", "FINISH BATCH FROM q FOR {}"):
            shop.sql(statement.format(consumer)).collect()

    shop.sql("CREATE QUEUE q ON sales")
    for consumer in ("a", "b"):
        shop.sql(f"REGISTER CONSUMER {consumer} ON q")
    shop.sql("INSERT INTO sales VALUES (4, 'east', 1)")
    put_off("a")
    retries = folder(shop, "q") / "_streamtable" / "retries"
    shutil.copytree(retries, tmp_path / "older")
    put_off("a")
    assert [row["id"] for row in shop.sql("NEXT BATCH FROM q FOR a").collect()] == [4]
    shop.sql("FINISH BATCH FROM q FOR a")
    seen = version(shop, f"delta.`{retries}`")
    put_back(retries, tmp_path / "older")
    put_off("b")
    assert version(shop, f"delta.`{retries}`") >= seen
    shop.sql("INSERT INTO sales VALUES (5, 'east', 1)")
    with pytest.raises(HistoryLost, match="events that a put off are lost"):
        shop.sql("NEXT BATCH FROM q FOR a").collect()
    assert sorted(row["id"] for row in shop.sql("NEXT BATCH FROM q FOR b").collect()) == [4, 5]
