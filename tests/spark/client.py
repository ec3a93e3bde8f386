"""What somebody does who has nothing but pyspark-client: run by hosts.py with the URL of the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark import hosts


def use_frames(spark: SparkSession) -> None:
    """Use the DataFrame API over a stream table, and catch Spark's own class of exception."""
    spark.range(10).withColumn("even", F.col("id") % 2 == 0).write.format("delta").saveAsTable("of_client")
    spark.sql("CREATE STREAM TABLE evens AS SELECT id FROM of_client WHERE even")
    spark.sql("CREATE STREAM TABLE large AS SELECT id FROM of_client WHERE id > :n", args={"n": 7})
    assert sorted(row.id for row in spark.sql("SELECT id FROM large WHERE id < ?", args=[9]).collect()) == [8]
    spark.sql("DROP STREAM TABLE large")
    spark.sql("DELETE FROM of_client WHERE id < 4")
    (refreshed,) = spark.sql("REFRESH STREAM TABLE evens").collect()
    assert (refreshed.action, refreshed.rows_deleted) == ("DIFFERENTIAL", 2), refreshed
    evens = spark.table("evens")
    assert evens.join(spark.table("of_client"), "id").agg(F.sum("id")).first()[0] == 18  # type: ignore[index]
    assert sorted(evens.toArrow().column("id").to_pylist()) == [4, 6, 8]
    assert refused(lambda: evens.limit(1).write.format("delta").mode("append").saveAsTable("evens")) == "STREAMTABLE_DIRECT_WRITE"
    assert refused(lambda: spark.sql("REFRESH STREAM TABLE nobody")) == "STREAMTABLE_NOT_FOUND"
    spark.sql("DROP STREAM TABLE evens")
    spark.sql("DROP TABLE of_client")


def refused(act: Callable[[], object]) -> str | None:
    try:
        act()
    except AnalysisException as error:
        return error.getCondition()
    return None


def try_another_token(url: str) -> None:
    address, _, token = url.partition("token=")
    assert token
    said = "somebody came in who had guessed"
    try:
        SparkSession.builder.remote(f"{address}token=guessed").create().sql("SELECT 1").collect()
    except PySparkException as error:
        said = str(error)
    assert "Invalid authentication token" in said and token not in said, said


if __name__ == "__main__":
    assert not hosts.JARS.exists() and not find_spec("streamtable"), "this is to run where there is pyspark-client alone"
    remote = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    sys.stdout.write(hosts.written(hosts.in_session(remote.sql, json.load(sys.stdin))))
    use_frames(remote)
    remote.stop()
    try_another_token(sys.argv[1])
