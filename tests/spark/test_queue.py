"""Change queues: durable positions, batches that repeat until they are finished, exactly once into Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer
from tests.spark.test_replication import overtake

from streamtable import open_queue
from streamtable.delta.commit import Committed, commit
from streamtable.engine import clock
from streamtable.errors import (
    ConsumerExists,
    ConsumerNotFound,
    InvalidQuery,
    InvalidStatement,
    QueueExists,
    QueueInUse,
    QueueNotFound,
    SourceChanged,
)
from streamtable.language.names import Name
from streamtable.queue import definition, space
from streamtable.queue.reader import ChangeQueue, OpenBatch


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE queued")
        spark.sql("USE queued")
        spark.sql(
            "CREATE TABLE accounts (id INT, owner STRING, balance INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )
        spark.sql("CREATE QUEUE changes FOR SUBSCRIBE accounts ENVELOPE DEBEZIUM (KEY (id))")
        yield spark
    dropped(spark, "queued")


def test_batches_repeat_until_they_are_finished(s: SparkSession) -> None:
    assert answer(s, "REGISTER CONSUMER mailer ON changes") == [("mailer", "REGISTERED")]
    assert answer(s, "NEXT BATCH FROM changes FOR mailer") == []
    s.sql("INSERT INTO accounts VALUES (1, 'a', 10), (2, 'b', 20)")
    first = set(answer(s, "NEXT BATCH FROM changes FOR mailer"))
    assert first == {(1, "insert", 1, None, None, "a", 10, 0), (1, "insert", 2, None, None, "b", 20, 0)}
    s.sql("UPDATE accounts SET balance = 15 WHERE id = 1")
    s.sql("DELETE FROM accounts WHERE id = 2")
    assert set(answer(s.newSession(), "NEXT BATCH FROM queued.changes FOR mailer")) == first  # of any session, after any crash
    health = "SELECT source, state, versions_behind FROM source_health() WHERE name = 'spark_catalog.queued.changes: mailer'"
    assert answer(s, health) == [("spark_catalog.queued.accounts", "OK", 3)]
    (shown,) = s.sql("SHOW CONSUMERS ON changes").collect()
    assert (shown.consumer, shown.position, shown.batch, shown.batch_end, shown.batches) == ("mailer", 0, 1, 1, 0)
    assert (shown.pending_commits, shown.pending_events, shown.worker) == (3, 4, None) and 0 < shown.lag_seconds < 600
    assert answer(s, "FINISH BATCH FROM changes FOR mailer") == [("mailer", "FINISHED")]
    assert answer(s, "FINISH BATCH FROM changes FOR mailer") == [("mailer", "NO BATCH")]
    s.sql("REGISTER CONSUMER late ON changes AT 2")
    rest = [(2, "upsert", 1, "a", 10, "a", 15, 0), (3, "delete", 2, "b", 20, None, None, 0)]
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


def test_a_queue_over_distinct_over_a_top_k_brings_each_row_once(s: SparkSession) -> None:
    s.sql("CREATE TABLE repeated (k INT, w INT) USING delta")
    query = "SELECT DISTINCT k, w FROM (SELECT * FROM repeated ORDER BY w DESC, k LIMIT 5 OFFSET 1)"
    s.sql(f"CREATE QUEUE tops FOR SUBSCRIBE ({query})")
    s.sql("REGISTER CONSUMER c ON tops")
    s.sql("INSERT INTO repeated VALUES (1, 3), (1, 3), (1, 3), (1, 3), (1, 3), (1, 3)")
    for _ in range(2):
        assert answer(s, "NEXT BATCH FROM tops FOR c") == [(1, 1, 1, 3, 0)]
    with open_queue(s, "tops").batch("c") as batch:
        assert batch is not None
        assert [tuple(row) for row in batch.events.collect()] == [(1, 1, 1, 3, 0)]
        assert batch.events.where("w = 3").join(batch.events.select("k"), "k").count() == 1
        batch.append_to("once")
    assert answer(s, "SELECT * FROM once") == [(1, 1, 1, 3)]
    s.sql("INSERT INTO repeated VALUES (2, 1)")
    assert answer(s, "NEXT BATCH FROM tops FOR c") == []


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
    assert [(each.consumer.name, each.consumer.batches, each.pending_events) for each in queue.consumers()] == [("copier", 2, 0)]
    # Consumers move side by side: one commit wins, the others see it and go on; the first makes the table.
    s.sql("CREATE QUEUE crowd ON accounts")
    crowd = open_queue(s, "crowd")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(crowd.register, ("r", "p", "q")))
    assert [each.consumer.name for each in crowd.consumers()] == ["p", "q", "r"]


def test_a_table_that_forgets_its_batches_could_get_one_twice(s: SparkSession) -> None:
    s.sql("CREATE QUEUE told (n INT)")
    queue = open_queue(s, "told")
    queue.register("c")
    s.sql("INSERT INTO told VALUES (1)")
    s.sql("CREATE TABLE forgets (timestamp BIGINT, n INT) USING delta")
    s.sql("ALTER TABLE forgets SET TBLPROPERTIES (delta.setTransactionRetentionDuration = 'interval 1 day')")

    def copied() -> None:
        with queue.batch("c") as batch:
            assert batch is not None
            batch.append_to("forgets")

    with pytest.raises(InvalidStatement, match=r"forgets has the property delta.setTransactionRetentionDuration(.|\n)*UNSET"):
        copied()
    s.sql("ALTER TABLE forgets UNSET TBLPROPERTIES (delta.setTransactionRetentionDuration)")
    copied()
    assert answer(s, "SELECT * FROM forgets") == [(1, 1)]
    s.sql("DROP QUEUE told FORCE")


def test_what_could_not_be_done_comes_again(s: SparkSession) -> None:
    queue = open_queue(s, "changes")
    queue.register("picky", at=0)
    for _ in range(2):  # again after a crash: kept once
        with pytest.raises(ZeroDivisionError), queue.batch("picky") as batch:
            put_off(batch)
    with queue.batch("picky") as batch:
        assert batch is not None and batch.number == 1 and batch.events.where("retries > 0").isEmpty()
        batch.retry(batch.events.where("id = 1 AND state = 'insert'"))
        batch.give_up(batch.events.where("state = 'delete'"))
        with pytest.raises(InvalidStatement, match="leave their columns"):
            batch.give_up(batch.events.select("id"))
    again = (1, "insert", 1, None, None, "a", 10)
    for n in (1, 2):
        with queue.batch("picky") as batch:
            assert batch is not None and batch.number == 1 + n
            assert [tuple(row) for row in batch.events.collect()] == [(*again, n)]
            if n == 1:
                batch.retry(batch.events)
            batch.retry(batch.events, after=timedelta(hours=1))
    with queue.batch("picky") as batch:
        assert batch is None
    # The same in SQL. A dead letter stays one until it is replayed.
    dead = (3, "delete", 2, "b", 20, None, None, 1)
    assert answer(s, "SHOW DEAD LETTERS FROM changes FOR picky") == [dead]
    assert answer(s, "REPLAY DEAD LETTERS FROM changes FOR picky WHERE (id = ANY (ARRAY[77, 78]))") == [("picky", 0)]
    assert answer(s, "REPLAY DEAD LETTERS FROM changes FOR picky WHERE (id = 2)") == [("picky", 1)]
    assert answer(s, "SHOW DEAD LETTERS FROM changes FOR picky") == []
    assert answer(s, "NEXT BATCH FROM changes FOR picky") == [dead]
    for _ in range(2):
        assert answer(s, "GIVE UP EVENTS FROM changes FOR picky WHERE (state SIMILAR TO 'del%')") == [("picky", "GIVEN UP")]
    assert answer(s, "RETRY EVENTS FROM changes FOR picky WHERE (id = 77) AFTER '1m'") == [("picky", "TO BE RETRIED")]
    s.sql("FINISH BATCH FROM changes FOR picky")
    assert answer(s, "NEXT BATCH FROM changes FOR picky") == []
    assert answer(s, "SHOW DEAD LETTERS FROM changes FOR picky") == [(*dead[:-1], 2)]
    assert queue.replay("picky") == 1 and queue.dead_letters("picky").isEmpty()
    with pytest.raises(InvalidStatement, match="no batch"):
        s.sql("GIVE UP EVENTS FROM changes FOR picky WORKER nobody")
    queue.unregister("picky")


def crashing(queue: ChangeQueue, work: Callable[[OpenBatch], None]) -> None:
    def attempt() -> None:
        with queue.batch("c") as batch:
            assert batch is not None
            work(batch)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()


def test_a_repeated_batch_may_put_off_other_events(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    s.sql("CREATE QUEUE twins (n INT, at TIMESTAMP)")
    queue = open_queue(s, "twins")
    queue.register("c")
    s.sql("INSERT INTO twins SELECT n, timestamp_micros(n) FROM VALUES (1), (2), (2), (3), (4), (5) AS t(n)")
    crashing(queue, lambda batch: batch.retry(batch.events.where("n = 1")))
    crashing(queue, lambda batch: batch.retry(batch.events.where("n = 2").limit(1)))  # one of two equal ones
    crashing(queue, lambda batch: batch.give_up(batch.events.where("n IN (3, 4)")))
    with queue.batch("c") as batch:
        assert batch is not None and batch.number == 1 and batch.events.count() == 6
        batch.retry(batch.events.where("n IN (2, 3)"))  # of 3 this is the last word
        batch.give_up(batch.events.where("n IN (4, 5)"))
        batch.retry(batch.events.where("n = 5"))
        batch.retry(batch.events.where("n = 77"))
    assert [row[1] for row in answer(s, "SHOW DEAD LETTERS FROM twins FOR c")] == [4]
    assert sorted((row[1], row[3]) for row in answer(s, "NEXT BATCH FROM twins FOR c")) == [(1, 1), (2, 1), (2, 1), (3, 1), (5, 1)]
    # What is put off for a while comes in the first batch that begins when the while is over.
    began = clock.now()
    monkeypatch.setattr(clock, "now", lambda: began)
    s.sql("RETRY EVENTS FROM twins FOR c WHERE (n = 5) AFTER '10m'")
    s.sql("FINISH BATCH FROM twins FOR c")
    for seconds, events in ((0, []), (599, []), (600, [(5, 2)])):
        monkeypatch.setattr(clock, "now", partial(began.__add__, timedelta(seconds=seconds)))
        assert [(row[1], row[3]) for row in answer(s, "NEXT BATCH FROM twins FOR c")] == events, seconds
    s.sql("DROP QUEUE twins FORCE")


def test_what_is_put_off_while_another_batch_begins_is_in_one_of_them(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    s.sql("CREATE QUEUE raced (n INT) WITH (max_count = 1)")
    queue = open_queue(s, "raced")
    queue.register("c")
    for n in (1, 2, 3):
        s.sql(f"INSERT INTO raced VALUES ({n})")

    def batch_of(worker: str) -> list[int]:
        return [row[1] for row in answer(s, f"NEXT BATCH FROM raced FOR c WORKER {worker}")]

    assert batch_of("a") == [1]
    s.sql("RETRY EVENTS FROM raced FOR c WORKER a WHERE (n = 77)")
    committed = commit

    def late(*arguments: Any, **named: Any) -> Committed:
        monkeypatch.setattr("streamtable.queue.retries.commit", committed)
        assert batch_of("b") == [2]  # begun when the event is due, and not yet kept
        return committed(*arguments, **named)

    s.sql("GIVE UP EVENTS FROM raced FOR c WORKER a WHERE (n = 1)")  # the table is there from now on
    monkeypatch.setattr("streamtable.queue.retries.commit", late)
    s.sql("RETRY EVENTS FROM raced FOR c WORKER a WHERE (n = 1)")
    assert batch_of("b") == [2], "a batch that is repeated holds the same"
    s.sql("FINISH BATCH FROM raced FOR c WORKER b")
    assert sorted(batch_of("b")) == [1, 3]
    s.sql("GIVE UP EVENTS FROM raced FOR c WORKER a WHERE (n = 1)")  # it came again in b's batch already: that decides
    assert sorted(batch_of("b")) == [1, 3]
    assert answer(s, "SHOW DEAD LETTERS FROM raced FOR c") == []
    s.sql("DROP QUEUE raced FORCE")


def test_what_an_earlier_release_put_off_comes_again(s: SparkSession) -> None:
    s.sql("CREATE QUEUE older (n INT)")
    queue = open_queue(s, "older")
    queue.register("c")
    (lag,) = queue.consumers()
    internal = definition.load(s, Name(("older",)))
    columns = "named_struct('timestamp', bigint(1), 'n', n) AS __streamtable_event, 1 AS __streamtable_retries"
    due = "if(n = 1, current_timestamp(), NULL) AS __streamtable_due_at"
    mine = f"'{lag.consumer.application(internal)}' AS __streamtable_application"
    rows = s.sql(f"SELECT {mine}, {due}, {columns} FROM VALUES (1), (2) AS t(n)")
    path = f"{internal.path}/_streamtable/retries"
    rows.limit(0).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    rows.write.format("delta").mode("append").save(path)
    assert answer(s, "NEXT BATCH FROM older FOR c") == [(1, 1, 1)]
    s.sql("FINISH BATCH FROM older FOR c")
    assert answer(s, "NEXT BATCH FROM older FOR c") == []
    assert answer(s, "REPLAY DEAD LETTERS FROM older FOR c") == [("c", 1)]
    assert answer(s, "NEXT BATCH FROM older FOR c") == [(1, 2, 1)]
    s.sql("RETRY EVENTS FROM older FOR c")
    s.sql("ALTER TABLE older ADD COLUMN (m INT)")
    s.sql("FINISH BATCH FROM older FOR c")
    s.sql("INSERT INTO older VALUES (3, 4)")
    assert sorted(answer(s, "NEXT BATCH FROM older FOR c")) == [(1, 2, None, 2), (2, 3, 4, 0)]
    s.sql("RETRY EVENTS FROM older FOR c")
    s.sql("FINISH BATCH FROM older FOR c")
    assert sorted(answer(s, "NEXT BATCH FROM older FOR c")) == [(1, 2, None, 3), (2, 3, 4, 1)]
    s.sql("DROP QUEUE older FORCE")


def test_columns_of_any_name_come_again(s: SparkSession) -> None:
    mapped = "TBLPROPERTIES (delta.columnMapping.mode = 'name')"
    s.sql(f"CREATE TABLE named (`a b` INT, `q``t` STRUCT<`x,y`: INT>) USING delta {mapped}")
    s.sql("CREATE QUEUE odd FOR SUBSCRIBE named")
    s.sql("REGISTER CONSUMER w ON odd")
    s.sql("INSERT INTO named SELECT n, named_struct('x,y', n) FROM VALUES (1), (2) AS t(n)")

    def batch() -> list[tuple[object, ...]]:
        return sorted(row[-3:] for row in answer(s, "NEXT BATCH FROM odd FOR w"))

    assert batch() == [(1, (1,), 0), (2, (2,), 0)]
    s.sql("RETRY EVENTS FROM odd FOR w WHERE (`a b` = 1) AFTER '0s'")
    s.sql("GIVE UP EVENTS FROM odd FOR w WHERE (`q``t`.`x,y` = 2)")
    s.sql("FINISH BATCH FROM odd FOR w")
    assert batch() == [(1, (1,), 1)]
    s.sql("FINISH BATCH FROM odd FOR w")
    assert [row[-3:] for row in answer(s, "SHOW DEAD LETTERS FROM odd FOR w")] == [(2, (2,), 1)]
    assert answer(s, "REPLAY DEAD LETTERS FROM odd FOR w WHERE (`a b` = 2)") == [("w", 1)]
    assert batch() == [(2, (2,), 1)]
    s.sql("DROP QUEUE odd FORCE")


def test_an_event_with_a_null_was_put_off_once_for_each_session_that_asked(s: SparkSession) -> None:
    s.sql("CREATE QUEUE nulls (n INT, m INT)")
    s.sql("REGISTER CONSUMER c ON nulls")
    s.sql("INSERT INTO nulls VALUES (1, NULL)")
    s.sql("NEXT BATCH FROM nulls FOR c")
    for kept in ("true", "false"):
        session = s.newSession()
        session.sql("USE queued")
        session.conf.set("spark.sql.jsonGenerator.ignoreNullFields", kept)
        session.sql("RETRY EVENTS FROM nulls FOR c")
    s.sql("FINISH BATCH FROM nulls FOR c")
    assert answer(s, "NEXT BATCH FROM nulls FOR c") == [(1, 1, None, 1)]
    s.sql("DROP QUEUE nulls FORCE")


def test_events_are_put_off_after_a_column_got_a_wider_type(s: SparkSession) -> None:
    s.sql("CREATE QUEUE wider (n INT, p STRUCT<q: INT>, l ARRAY<INT>)")
    s.sql("ALTER TABLE wider SET TBLPROPERTIES (delta.enableTypeWidening = true)")
    for consumer in ("c", "other"):
        s.sql(f"REGISTER CONSUMER {consumer} ON wider")
    s.sql("INSERT INTO wider SELECT n, named_struct('q', n), array(n) FROM VALUES (1), (2), (3) AS t(n)")
    s.sql("NEXT BATCH FROM wider FOR c")
    s.sql("NEXT BATCH FROM wider FOR other")
    s.sql("RETRY EVENTS FROM wider FOR c WHERE (n = 1) AFTER '0s'")
    s.sql("GIVE UP EVENTS FROM wider FOR c WHERE (n = 2)")
    s.sql("FINISH BATCH FROM wider FOR c")
    for column in ("n", "p.q", "l.element"):
        s.sql(f"ALTER TABLE wider ALTER COLUMN {column} TYPE BIGINT")
    s.sql("ALTER TABLE wider ADD COLUMNS (p.z STRING, m INT)")
    big = 2**40
    s.sql(f"INSERT INTO wider VALUES ({big}, named_struct('q', {big}, 'z', 'z'), array({big}), 7)")
    late = (big, (big, "z"), [big], 7)

    def events(statement: str) -> list[tuple[object, ...]]:
        return sorted(row[1:] for row in answer(s, statement))

    assert events("SHOW DEAD LETTERS FROM wider FOR c") == [(2, (2, None), [2], None, 1)]
    assert events("NEXT BATCH FROM wider FOR c") == [(1, (1, None), [1], None, 1), (*late, 0)]
    s.sql("RETRY EVENTS FROM wider FOR c")
    s.sql("FINISH BATCH FROM wider FOR c")
    assert events("NEXT BATCH FROM wider FOR c") == [(1, (1, None), [1], None, 2), (*late, 1)]
    assert events("SHOW DEAD LETTERS FROM wider FOR c") == [(2, (2, None), [2], None, 1)]
    s.sql("RETRY EVENTS FROM wider FOR other WHERE (n = 3)")
    s.sql("FINISH BATCH FROM wider FOR other")
    assert events("NEXT BATCH FROM wider FOR other") == [(3, (3, None), [3], None, 1), (*late, 0)]
    s.sql("DROP QUEUE wider FORCE")


def test_events_of_a_type_that_does_not_hold_those_put_off_are_refused(s: SparkSession) -> None:
    s.sql("CREATE OR REPLACE TABLE retyped (n STRING) USING delta")
    s.sql("CREATE QUEUE of_retyped FOR SUBSCRIBE retyped")
    s.sql("REGISTER CONSUMER c ON of_retyped")
    s.sql("INSERT INTO retyped VALUES ('x'), ('y')")
    s.sql("NEXT BATCH FROM of_retyped FOR c")
    s.sql("GIVE UP EVENTS FROM of_retyped FOR c WHERE (n = 'x')")
    s.sql("FINISH BATCH FROM of_retyped FOR c")
    s.sql("DELETE FROM retyped")
    s.sql("NEXT BATCH FROM of_retyped FOR c")
    s.sql("FINISH BATCH FROM of_retyped FOR c")
    s.sql("CREATE OR REPLACE TABLE retyped (n INT) USING delta")
    s.sql("INSERT INTO retyped VALUES (1)")
    with pytest.raises(SourceChanged, match="the column n of .*retyped is another one than at version"):
        s.sql("NEXT BATCH FROM of_retyped FOR c")
    s.sql("REGISTER CONSUMER d ON of_retyped AT 3")
    assert [row[-2:] for row in answer(s, "NEXT BATCH FROM of_retyped FOR d")] == [(1, 0)]
    for statement in ("RETRY EVENTS FROM of_retyped FOR d", "SHOW DEAD LETTERS FROM of_retyped FOR c"):
        with pytest.raises(SourceChanged, match=r"the column n of .*of_retyped had another type when a consumer put events off"):
            s.sql(statement).collect()
    s.sql("UNREGISTER CONSUMER c ON of_retyped")
    s.sql("RETRY EVENTS FROM of_retyped FOR d")
    s.sql("FINISH BATCH FROM of_retyped FOR d")
    assert [row[-2:] for row in answer(s, "NEXT BATCH FROM of_retyped FOR d")] == [(1, 1)]
    s.sql("DROP QUEUE of_retyped FORCE")


def put_off(batch: OpenBatch | None) -> None:
    assert batch is not None
    batch.retry(batch.events.where("id = 1 AND state = 'insert'"))
    raise ZeroDivisionError


def test_what_is_captured(s: SparkSession) -> None:
    s.sql("CREATE TABLE people (id INT, name STRING, seen INT, v INT) USING delta")
    s.sql("INSERT INTO people VALUES (1, 'a', 0, 1)")
    queues = {
        "full": "",
        "filtered": "KEY (id) IGNORE (seen) WHEN (v > 0 AND name <> ')') OLD ROW COLUMNS (upper(name) AS u, v + 1 AS w)",
        "keyed": "KEY (id) KEYS ONLY",
        "keyed_old": "KEY (id) IGNORE (seen) KEYS ONLY OLD ROW",
    }
    for name, said in queues.items():
        s.sql(f"CREATE QUEUE {name} ON people {said}")
        s.sql(f"REGISTER CONSUMER c ON {name}")
    s.sql("INSERT INTO people VALUES (2, 'b', 0, 2), (3, 'c', 0, 0)")  # commit 2
    s.sql("UPDATE people SET seen = 7 WHERE id = 1")  # 3
    s.sql("UPDATE people SET id = 4 WHERE id = 2")  # 4
    s.sql("UPDATE people SET v = -1 WHERE id = 1")  # 5
    s.sql("INSERT INTO people VALUES (5, 'e', 0, 5)")  # 6
    s.sql("DELETE FROM people WHERE id IN (3, 5)")  # 7
    events = {name: set(answer(s, f"NEXT BATCH FROM {name} FOR c")) for name in queues}
    assert (4, -1, 2, "b", 0, 2, 0) in events["full"] and (4, 1, 4, "b", 0, 2, 0) in events["full"] and len(events["full"]) == 11
    assert events["filtered"] == {
        (2, "insert", 2, None, None, None, None, "b", 2, "B", 3, 0),
        (4, "delete", 2, "b", 2, "B", 3, None, None, None, None, 0),  # a key change is a delete and an insert
        (4, "insert", 4, None, None, None, None, "b", 2, "B", 3, 0),
        (5, "delete", 1, "a", 1, "A", 2, None, None, None, None, 0),  # it does not fit any more
        (6, "insert", 5, None, None, None, None, "e", 5, "E", 6, 0),
        (7, "delete", 5, "e", 5, "E", 6, None, None, None, None, 0),
    }
    # One event per key, with the values at the end of the batch; what came and went in between is none.
    assert events["keyed"] == {(7, "upsert", 1, "a", 7, -1, 0), (7, "upsert", 4, "b", 0, 2, 0)}
    assert events["keyed_old"] == {(7, "upsert", 1, "a", 1, "a", -1, 0), (7, "insert", 4, None, None, "b", 2, 0)}
    s.sql("RETRY EVENTS FROM keyed_old FOR c WHERE (id = 4)")
    s.sql("FINISH BATCH FROM keyed_old FOR c")
    assert answer(s, "NEXT BATCH FROM keyed_old FOR c") == [(7, "insert", 4, None, None, "b", 2, 1)]  # and nothing new
    s.sql("UPDATE people SET v = 100")
    assert set(answer(s, "NEXT BATCH FROM keyed FOR c")) == events["keyed"]  # current as of its end, however late it is read
    # A change of the schema is an event in its place.
    for name, said in {"ddl": "", "ddl_keyed": "KEY (id) IGNORE (seen)", "ddl_merged": "KEY (id) KEYS ONLY"}.items():
        s.sql(f"CREATE QUEUE {name} ON people {said} SCHEMA CHANGES")
        s.sql(f"REGISTER CONSUMER c ON {name}")
    s.sql("ALTER TABLE people SET TBLPROPERTIES ('said' = 'so')")  # 9
    assert answer(s, "NEXT BATCH FROM ddl FOR c") == []
    s.sql("DELETE FROM people WHERE id = 4")  # 10
    s.sql("ALTER TABLE people ADD COLUMN (x DOUBLE)")  # 11
    s.sql("INSERT INTO people VALUES (8, 'h', 0, 8, 8.5)")  # 12
    told = "spark_catalog.queued.people (id INT,name STRING,seen INT,v INT,x DOUBLE)"
    assert answer(s, "NEXT BATCH FROM ddl FOR c") == [
        (10, -1, 4, "b", 0, 100, None, None, 0),
        (11, 0, None, None, None, None, None, told, 0),
        (12, 1, 8, "h", 0, 8, 8.5, None, 0),
    ]
    assert answer(s, "NEXT BATCH FROM ddl_keyed FOR c") == [
        (10, "delete", 4, None, None, None, None, 0),
        (11, "schema", None, None, None, None, told, 0),
        (12, "upsert", 8, "h", 8, 8.5, None, 0),
    ]
    assert [row[1:3] for row in answer(s, "NEXT BATCH FROM ddl_merged FOR c") if row[1] == "schema"] == [("schema", None)]
    shown = dict(answer(s, "SHOW QUEUES"))
    assert "KEYS ONLY" in shown["spark_catalog.queued.keyed"] and "EXCEPT" in shown["spark_catalog.queued.filtered"]


def test_a_queue_of_its_own(s: SparkSession) -> None:
    s.sql("CREATE QUEUE mails (recipient STRING, body STRING) WITH (max_count = 3)")
    queue = open_queue(s, "mails")
    for name in ("c", "slow"):
        queue.register(name)
    s.sql("INSERT INTO mails VALUES ('a', 'x'), ('a', 'x')")
    s.sql("INSERT INTO mails VALUES ('b', 'y')")
    s.sql("INSERT INTO mails SELECT 'c', id FROM range(5)")
    s.sql("INSERT INTO mails VALUES ('d', 'z')")
    # Batches are bounded, a commit is not divided; each repeats until it is finished.
    sizes = []
    while events := answer(s, "NEXT BATCH FROM mails FOR c"):
        assert sorted(events) == sorted(answer(s, "NEXT BATCH FROM mails FOR c"))
        sizes.append([row[0] for row in events])
        s.sql("FINISH BATCH FROM mails FOR c")
    assert sizes == [[1, 1, 2], [3] * 5, [4]]
    assert answer(s, "NEXT BATCH FROM mails FOR slow WITH (min_lag = '1h')") == []
    assert answer(s, "NEXT BATCH FROM mails FOR slow WITH (min_count = 100, max_count = 1000)") == []
    assert answer(s, "NEXT BATCH FROM mails FOR slow WITH (min_count = 4)") != []  # it is full
    assert answer(s, "FINISH BATCH FROM mails FOR slow") == [("slow", "FINISHED")]
    assert [(row.consumer, row.position, row.pending_events) for row in s.sql("SHOW CONSUMERS ON mails").collect()] == [
        ("c", 4, 0),
        ("slow", 2, 6),
    ]
    # What the slowest has finished goes; the rest is there for it, and nobody takes the purge for an event.
    assert answer(s, "PURGE QUEUE mails") == [("spark_catalog.queued.mails", 3)]
    assert s.table("mails").count() == 6
    assert answer(s, "NEXT BATCH FROM mails FOR c") == []
    with queue.batch("slow", max_count=100, max_interval=timedelta(hours=1)) as batch:
        assert batch is not None and (batch.info.start, batch.info.end) == (2, 5) and batch.events.count() == 6
    assert queue.purge() == 6 and queue.purge() == 0 and s.table("mails").isEmpty()
    with pytest.raises(InvalidStatement, match="no events of its own"):
        s.sql("PURGE QUEUE changes")
    with pytest.raises(InvalidStatement, match="Spark rejects the columns"):
        s.sql("CREATE QUEUE wrong (a NOTHING)")
    with pytest.raises(InvalidStatement, match="each name once"):
        s.sql("CREATE QUEUE wrong (Retries INT)")


def test_events_that_nobody_is_to_get_go_by_purge(s: SparkSession) -> None:
    s.sql("CREATE QUEUE unread (body STRING)")
    s.sql("INSERT INTO unread VALUES ('x'), ('y')")
    assert answer(s, "PURGE QUEUE unread") == [("spark_catalog.queued.unread", 2)]
    assert s.table("unread").isEmpty()


def test_a_purge_goes_on_where_the_files_were_rewritten_meanwhile(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    s.sql("CREATE QUEUE rewritten (body STRING)")
    for body in "xyz":
        s.sql(f"INSERT INTO rewritten VALUES ('{body}')")
    overtake(monkeypatch, space, "commit", lambda: s.sql("OPTIMIZE rewritten").show())
    assert answer(s, "PURGE QUEUE rewritten") == [("spark_catalog.queued.rewritten", 3)]
    assert s.table("rewritten").isEmpty()


def test_the_last_consumer_to_finish_frees_the_space(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_COMMITS", 1)
    s.sql("CREATE QUEUE freed (n INT)")
    for name in ("first", "last"):
        s.sql(f"REGISTER CONSUMER {name} ON freed")
    s.sql("INSERT INTO freed VALUES (1), (2)")
    for name, left in (("first", 2), ("last", 0)):
        assert len(answer(s, f"NEXT BATCH FROM freed FOR {name}")) == 2
        s.sql(f"FINISH BATCH FROM freed FOR {name}")
        assert s.table("freed").count() == left


def test_workers_share_a_position(s: SparkSession) -> None:
    s.sql("CREATE QUEUE jobs (n INT) WITH (max_count = 1)")
    s.sql("CREATE TABLE job_log (timestamp BIGINT, n INT) USING delta")
    queue = open_queue(s, "jobs")
    queue.register("pool")
    for n in range(4):
        s.sql(f"INSERT INTO jobs VALUES ({n})")
    assert answer(s, "NEXT BATCH FROM jobs FOR pool WORKER dead") == [(1, 0, 0)]
    with queue.batch("pool", worker="a") as second, queue.batch("pool", worker="b") as third:
        assert second is not None and third is not None
        third.append_to("queued.job_log")
        second.append_to("queued.job_log")  # an earlier number later: nothing is skipped
        dead = s.sql("SHOW CONSUMERS ON jobs").collect()[0]
        assert (dead.position, dead.batches, dead.worker, dead.batch) == (0, 0, "dead", 1)
    with queue.batch("pool", worker="a", take_over_after=timedelta(hours=1)) as fourth:
        assert fourth is not None and fourth.number == 4  # the time of the dead one is not up
        fourth.append_to("queued.job_log")
    with queue.batch("pool", worker="a", take_over_after=timedelta()) as taken:
        assert taken is not None and taken.number == 1
        for _ in range(2):
            taken.append_to("queued.job_log")
    assert answer(s, "FINISH BATCH FROM jobs FOR pool WORKER dead") == [("pool", "NO BATCH")]
    assert sorted(answer(s, "SELECT * FROM job_log")) == [(n + 1, n) for n in range(4)]
    assert [(each.consumer.finished, each.pending_commits) for each in queue.consumers()] == [(4, 0)]


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
    s.sql("CREATE QUEUE busy FOR SUBSCRIBE accounts")
    assert answer(s, "SHOW CONSUMERS ON busy") == [], "something was left of the one before"
    for statement in (
        "REGISTER CONSUMER `a/b` ON busy",
        "UNREGISTER CONSUMER `a/b` ON busy",
        "REGISTER CONSUMER `a/b` ON busy AT 0",
    ):
        s.sql(statement)
    assert [row[:3] for row in answer(s, "SHOW CONSUMERS ON busy")] == [("a/b", 0, 0)]
    s.sql("DROP QUEUE busy FORCE")
