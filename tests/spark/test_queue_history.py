"""What queues count on: their tables are the same, keep their history, and are changed by others as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer

from streamtable import open_queue
from streamtable.delta.tables import locate, state


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE past")
    spark.sql("USE past")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE past CASCADE")


def test_rows_that_others_replace_in_a_free_standing_queue_are_events(s: SparkSession) -> None:
    s.sql("CREATE QUEUE own (n INT)")
    s.sql("REGISTER CONSUMER c ON own")
    kept = state(s, locate(s, ["own"]).path).properties
    assert kept["delta.deletedFileRetentionDuration"] == kept["delta.logRetentionDuration"] == "interval 365 days"
    s.sql("INSERT INTO own VALUES (1)")
    s.sql("INSERT OVERWRITE own VALUES (2), (3)")
    s.sql("DELETE FROM own WHERE n = 3")
    assert [(lag.pending_commits, lag.pending_events > 1) for lag in open_queue(s, "own").consumers()] == [(2, True)]
    assert sorted(answer(s, "NEXT BATCH FROM own FOR c")) == [(1, 1, 0), (2, 2, 0), (2, 3, 0)]
    s.sql("FINISH BATCH FROM own FOR c")
    s.sql("INSERT OVERWRITE own VALUES (4)")
    assert answer(s, "NEXT BATCH FROM own FOR c") == [(4, 4, 0)]
    s.sql("FINISH BATCH FROM own FOR c")
    s.sql("PURGE QUEUE own")
    s.sql("TRUNCATE TABLE own")
    assert answer(s, "NEXT BATCH FROM own FOR c") == []
    assert answer(s, "FINISH BATCH FROM own FOR c") == [("c", "NO BATCH")]


def test_a_client_that_comes_back_late_finishes_its_own_batch_alone(s: SparkSession) -> None:
    s.sql("CREATE QUEUE late (n INT) WITH (max_count = 1)")
    s.sql("REGISTER CONSUMER c ON late")
    for n in (1, 2):
        s.sql(f"INSERT INTO late VALUES ({n})")
        s.sql("NEXT BATCH FROM late FOR c")
        assert [row.batch for row in s.sql("SHOW CONSUMERS ON late").collect()] == [n]
        if n == 1:
            assert answer(s, "FINISH BATCH 1 FROM late FOR c") == [("c", "FINISHED")]
    assert answer(s, "FINISH BATCH 1 FROM late FOR c") == [("c", "NO BATCH")]
    assert answer(s, "NEXT BATCH FROM late FOR c") == [(2, 2, 0)]
    assert answer(s, "FINISH BATCH 2 FROM late FOR c") == [("c", "FINISHED")]
