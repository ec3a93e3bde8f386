"""Storage that fails and is slow, before a write or a listing, or after it: a refresh ends exact or says what failed, and the next one is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.killed import ended, run
from tests.spark.scala import compile_scala
from tests.spark.test_crashes import CREATE, QUERIES

PROGRAM = f"""
import sys, time
from pyspark.errors import PySparkException
from streamtable import start_scheduler
from tests.oracle.comparison import assert_exact

spark = session(2, {{
    "spark.driver.extraClassPath": sys.argv[1],
    "spark.hadoop.fs.file.impl": "streamtable.tests.FaultyFileSystem",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",  # the usual one goes past the file system
}})
faults = spark._jvm.streamtable.tests.Faults
QUERIES = {QUERIES!r}
{CREATE}
def write(n):
    spark.sql(f"INSERT INTO l VALUES (2, {{n}}), ({{30 + n}}, 1)")
    spark.sql(f"MERGE INTO r USING (SELECT 2 AS k, {{n % 3}} AS w) s ON r.k = s.k AND r.w = s.w WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *")
    spark.sql(f"DELETE FROM l WHERE v = {{n - 1}}")

n = failed = 0
while n < 3 or failed < 3:
    n += 1
    write(n)
    faults.set(0.02, 0.05)
    for name in QUERIES:
        try:
            spark.sql(f"REFRESH STREAM TABLE {{name}}").collect()
        except PySparkException as error:
            failed += 1
            assert "injected fault" in str(error), error
    faults.set(0.0, 0.0)
for name, query in QUERIES.items():
    done = spark.sql(f"REFRESH STREAM TABLE {{name}}").first()
    assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
    assert_exact(spark, name, query)
told = spark.sql("SELECT count(*) FROM refresh_history() WHERE status = 'FAILED' AND error_message LIKE '%injected fault%'").first()[0]
assert 0 < told <= failed, (told, failed)

for name in QUERIES:
    spark.sql(f"ALTER STREAM TABLE {{name}} SET SCHEDULE '1s'")
write(n + 1)

def behind():
    try:
        return spark.sql("SELECT max(versions_behind) FROM source_health()").first()[0] > 0
    except PySparkException as error:
        assert "injected fault" in str(error), error
        return True

before = faults.injected()
faults.set(0.01, 0.2)
with start_scheduler(spark):
    until = time.monotonic() + 600
    while faults.injected() == before or behind():
        assert time.monotonic() < until
        time.sleep(0.5)
faults.set(0.0, 0.0)
for name, query in QUERIES.items():
    assert_exact(spark, name, query)
assert spark.sql("SELECT DISTINCT status FROM stream_tables()").first()[0] == "ACTIVE"
"""


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
def test_refreshes_over_faulty_storage_are_exact_or_say_what_failed(tmp_path: Path) -> None:
    compile_scala("Faults.scala", tmp_path)
    ended(run(tmp_path, PROGRAM, str(tmp_path), patience=1500), 0)
