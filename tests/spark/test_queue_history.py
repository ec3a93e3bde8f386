"""What queues count on: their tables are the same, keep their history, and are changed by others as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE past")
    spark.sql("USE past")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE past CASCADE")


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
