"""Change queues: durable positions, batches that repeat until they are finished, exactly once into Delta."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer

from streamtable import open_queue
from streamtable.errors import (
    ConsumerExists,
    ConsumerNotFound,
    InvalidQuery,
    InvalidStatement,
    QueueExists,
    QueueInUse,
    QueueNotFound,
)
from streamtable.queue.reader import ChangeQueue, OpenBatch


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE queued")
    spark.sql("USE queued")
    spark.sql(
        "CREATE TABLE accounts (id INT, owner STRING, balance INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql("CREATE QUEUE changes FOR SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id))")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE queued CASCADE")


def test_batches_repeat_until_they_are_finished(s: SparkSession) -> None:
    assert answer(s, "REGISTER CONSUMER mailer ON changes") == [("mailer", "REGISTERED")]
    assert answer(s, "NEXT BATCH FROM changes FOR mailer") == []
    s.sql("INSERT INTO accounts VALUES (1, 'a', 10), (2, 'b', 20)")
    first = set(answer(s, "NEXT BATCH FROM changes FOR mailer"))
    assert first == {(1, "insert", 1, None, None, "a", 10), (1, "insert", 2, None, None, "b", 20)}
    s.sql("UPDATE accounts SET balance = 15 WHERE id = 1")
    s.sql("DELETE FROM accounts WHERE id = 2")
    assert set(answer(s.newSession(), "NEXT BATCH FROM queued.changes FOR mailer")) == first  # of any session, after any crash
    ((name, position, end, batches, pending, _, _),) = answer(s, "SHOW CONSUMERS ON changes")
    assert (name, position, end, batches, pending) == ("mailer", 0, 1, 0, 3)
    assert answer(s, "FINISH BATCH FROM changes FOR mailer") == [("mailer", "FINISHED")]
    assert answer(s, "FINISH BATCH FROM changes FOR mailer") == [("mailer", "NO BATCH")]
    s.sql("REGISTER CONSUMER late ON changes AT 2")
    rest = [(2, "upsert", 1, "a", 10, "a", 15), (3, "delete", 2, "b", 20, None, None)]
    assert answer(s, "NEXT BATCH FROM changes FOR mailer") == rest
    assert answer(s, "NEXT BATCH FROM changes FOR late") == rest[1:]  # each has its own position
    s.sql("FINISH BATCH FROM changes FOR mailer")
    assert answer(s, "NEXT BATCH FROM changes FOR mailer") == []
    with pytest.raises(ConsumerExists):
        s.sql("REGISTER CONSUMER late ON changes")
    with pytest.raises(ConsumerNotFound, match="Did you mean `mailer`"):
        s.sql("NEXT BATCH FROM changes FOR mailr")
    s.sql("UNREGISTER CONSUMER late ON changes")
    assert [row[0] for row in answer(s, "SHOW CONSUMERS ON changes")] == ["mailer"]


def crash(queue: ChangeQueue) -> None:
    with queue.batch("copier") as batch:
        assert batch is not None
        batch.append_to("queued.copy")
        raise ZeroDivisionError


def test_exactly_once_whatever_fails(s: SparkSession) -> None:
    s.sql("CREATE TABLE copy (timestamp BIGINT, diff BIGINT, id INT, b INT) USING delta")
    s.sql("CREATE QUEUE IF NOT EXISTS balances FOR SUBSCRIBE (SELECT id, balance AS b FROM accounts WHERE balance > 0)")
    queue = open_queue(s, "balances")
    queue.register("copier")
    for n in (100, 101):
        s.sql(f"INSERT INTO accounts VALUES ({n}, 'x', {n})")
        for _ in range(2):  # the process ends between the consumer's commit and the queue's
            with pytest.raises(ZeroDivisionError):
                crash(queue)
        other = s.newSession()  # of another schema: names mean what they meant at CREATE QUEUE
        with open_queue(other, "queued.balances").batch("copier") as batch:
            assert batch is not None and batch.number == n - 99
            batch.append_to("queued.copy")
        with queue.batch("copier") as none:
            assert none is None
    assert [row[1:] for row in answer(s, "SELECT * FROM copy ORDER BY id")] == [(1, 100, 100), (1, 101, 101)]
    assert [(each.consumer.name, each.consumer.batches, each.pending_commits) for each in queue.consumers()] == [("copier", 2, 0)]
    # Consumers move side by side: one commit wins, the others see it and go on.
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(queue.register, ("p", "q", "r")))
    assert [each.consumer.name for each in queue.consumers()] == ["copier", "p", "q", "r"]


def test_what_could_not_be_done_comes_again(s: SparkSession) -> None:
    queue = open_queue(s, "changes")
    queue.register("picky", at=0)
    for _ in range(2):  # again after a crash: kept once
        with pytest.raises(ZeroDivisionError), queue.batch("picky") as batch:
            put_off(batch)
    with queue.batch("picky") as batch:
        assert batch is not None and batch.number == 1 and batch.retried.isEmpty()
        batch.retry(batch.events.where("id = 1 AND state = 'insert'"))
        batch.give_up(batch.events.where("state = 'delete'"))
    for n in (1, 2):
        with queue.batch("picky") as batch:
            assert batch is not None and batch.number == 1 + n
            assert (batch.events.count(), [tuple(row) for row in batch.retried.collect()]) == (
                0,
                [(1, "insert", 1, None, None, "a", 10, n)],
            )
            if n == 1:
                batch.retry(batch.retried)
            batch.retry(batch.retried, after_seconds=3600)
    with queue.batch("picky") as batch:
        assert batch is None
    assert [row["state"] for row in queue.dead_letters("picky").collect()] == ["delete"]
    queue.unregister("picky")


def put_off(batch: OpenBatch | None) -> None:
    assert batch is not None
    batch.retry(batch.events.where("id = 1 AND state = 'insert'"))
    raise ZeroDivisionError


def test_what_is_refused(s: SparkSession) -> None:
    with pytest.raises(QueueExists):
        s.sql("CREATE QUEUE accounts FOR SUBSCRIBE accounts")
    with pytest.raises(QueueNotFound, match="Did you mean"):
        s.sql("NEXT BATCH FROM change FOR c")
    with pytest.raises(QueueNotFound):
        s.sql("SHOW CONSUMERS ON accounts")
    with pytest.raises(InvalidStatement, match="column nothing does not exist"):
        s.sql("CREATE QUEUE wrong FOR SUBSCRIBE accounts ENVELOPE UPSERT (KEY (nothing))")
    with pytest.raises(InvalidQuery):
        s.sql("CREATE QUEUE wrong FOR SUBSCRIBE (SELECT nothing FROM accounts)")
    s.sql("CREATE QUEUE busy FOR SUBSCRIBE accounts")
    s.sql("REGISTER CONSUMER c ON busy")
    with pytest.raises(QueueInUse, match="the consumers c"):
        s.sql("DROP QUEUE busy")
    assert "busy" in {row[0].split(".")[-1] for row in answer(s, "SHOW QUEUES")}
    assert answer(s, "DROP QUEUE busy FORCE") == [("spark_catalog.queued.busy", "DROPPED")]
    assert answer(s, "DROP QUEUE IF EXISTS busy") == []
