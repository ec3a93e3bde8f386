"""Publications and subscriptions where PostgreSQL refuses, or means something particular."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import rows_of
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer

from streamtable.errors import InvalidStatement, ReplicationObjectExists, ReplicationObjectNotFound

FULL = "USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'FULL', delta.enableDeletionVectors = true)"
KEYED = "USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id')"


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session in the subscriber's schema `pgs`; the publisher's is `pgp`, with the table `t`."""
    with planned_once(spark):
        for sql in (
            "CREATE DATABASE pgp",
            "CREATE DATABASE pgs",
            "CREATE TABLE pgp.t (id INT, b INT, s STRING) USING delta",
            "USE pgs",
        ):
            spark.sql(sql)
        yield spark
    dropped(spark, "pgp", "pgs")


def refused(s: SparkSession, sql: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=message):
        s.sql(sql)


def published(s: SparkSession, name: str) -> str:
    """Return which tables a publication sends."""
    return str(answer(s, f"SELECT tables FROM publications('{name}')")[0][0])


def test_a_list_of_columns_does_not_stand_beside_a_schema(s: SparkSession) -> None:
    beside = "cannot stand beside TABLES IN SCHEMA"
    refused(s, "CREATE PUBLICATION pgp.x FOR TABLES IN SCHEMA pgp, TABLE pgp.t (id)", beside)
    s.sql("CREATE PUBLICATION pgp.listed FOR TABLE pgp.t (id)")
    refused(s, "ALTER PUBLICATION pgp.listed ADD TABLES IN SCHEMA pgp", beside)
    refused(s, "ALTER PUBLICATION pgp.listed SET TABLE pgp.t (id), TABLES IN SCHEMA pgp", beside)
    s.sql("ALTER PUBLICATION pgp.listed SET TABLES IN SCHEMA pgp, TABLE pgp.t WHERE (id > 1)")
    refused(s, "ALTER PUBLICATION pgp.listed ADD TABLES IN SCHEMA PGP", "is for .* already")
    refused(s, "ALTER PUBLICATION pgp.listed ADD TABLE pgp.T", "is for .* already")
    refused(s, "CREATE PUBLICATION pgp.x FOR TABLE pgp.t (id), pgp.T (b)", "is listed twice")
    s.sql("USE pgp")
    s.sql("CREATE PUBLICATION twice FOR TABLE t, T, TABLES IN SCHEMA CURRENT_SCHEMA, pgp")
    s.sql("USE pgs")
    assert published(s, "pgp.twice") == "spark_catalog.pgp.t"


def test_what_is_left_out_is_a_table_of_the_schema_and_stays_left_out(s: SparkSession) -> None:
    s.sql("CREATE VIEW pgp.v AS SELECT 1 AS x")
    for name in ("pgp.nope", "pgp.v", "pgp.listed", "pgs.t", "nope.t"):
        refused(s, f"CREATE PUBLICATION pgp.x FOR ALL TABLES EXCEPT (TABLE {name})", "there is no table .* to be left out")
    refused(s, "ALTER PUBLICATION pgp.listed SET ALL TABLES EXCEPT (TABLE pgp.nope)", "there is no table")
    s.sql("CREATE TABLE pgp.secret (x INT) USING delta")
    s.sql("CREATE PUBLICATION PGP.rest FOR ALL TABLES EXCEPT (TABLE PGP.Secret)")
    assert published(s, "pgp.rest") == "spark_catalog.pgp.t"
    s.sql("ALTER TABLE pgp.secret RENAME TO pgp.other")
    s.sql("ALTER PUBLICATION pgp.rest SET (publish = 'insert')")
    assert published(s, "pgp.rest") == "spark_catalog.pgp.t"
    s.sql("CREATE TABLE pgp.secret (x INT) USING delta")
    assert published(s, "pgp.rest") == "spark_catalog.pgp.t"
    s.sql("ALTER PUBLICATION pgp.rest SET ALL TABLES EXCEPT (TABLE pgp.secret)")
    assert published(s, "pgp.rest") == "spark_catalog.pgp.other, spark_catalog.pgp.t"
    s.sql("DROP TABLE pgp.other")
    s.sql("DROP TABLE pgp.secret")


def test_a_condition_is_on_the_columns_by_functions_of_spark_alone(s: SparkSession) -> None:
    s.sql("CREATE FUNCTION pgp.mine (x INT) RETURNS BOOLEAN RETURN x > 5")
    s.sql("CREATE TEMPORARY FUNCTION passing (x INT) RETURNS BOOLEAN RETURN x > 5")
    s.sql("DECLARE OR REPLACE VARIABLE bound INT DEFAULT 5")
    s.udf.register("by_python", lambda x: True, "boolean")
    for condition, message in (
        ("pgp.mine(id)", "calls pgp.mine, which is no function of Spark's own"),
        ("id > 0 AND (NOT spark_catalog.pgp.mine(b + 1))", "calls spark_catalog.pgp.mine"),
        ("exists(array(id), x -> passing(x))", "calls passing"),
        ("by_python(id)", "calls by_python"),
        ("IDENTIFIER('passing')(id)", "calls IDENTIFIER"),
        ("id > bound", "is not the same each time"),
        ("version() = s", "is not the same each time"),
        ("current_database() = s", "is not the same each time"),
        ("uuid() = s", "is not the same each time"),
        ("_metadata.file_size > 0", "is no condition on"),
        ("pgp.t.id > 0 AND nope", "is no condition on"),
        ("max(id) > 0", "is no condition on"),
        ("row_number() OVER (ORDER BY id) = 1", "is no condition on"),
        ("explode(array(id)) = 1", "is no condition on"),
        ("id", "is no condition on"),
        ("id = :parameter", "is no condition on"),
        ("EXISTS (SELECT 1)", "has a subquery"),
        (
            "from_xml(s, 'b INT', map('rowValidationXSDPath', '/etc/passwd')).b = 1",
            "calls from_xml, which runs code or reads files",
        ),
    ):
        refused(s, f"CREATE PUBLICATION pgp.x FOR TABLE pgp.t WHERE ({condition})", message)
    s.sql(
        "CREATE PUBLICATION pgp.fine FOR TABLE pgp.t WHERE (builtin.abs(id) > 1 OR trim(BOTH FROM s) LIKE 'a%' OR upper(s) IN ('B'))"
    )
    s.sql("DROP TEMPORARY FUNCTION passing")
    s.sql("DROP TEMPORARY VARIABLE bound")


def test_generated_columns_are_sent_if_they_are_asked_for(s: SparkSession) -> None:
    for sql in (
        "CREATE TABLE pgp.g (id INT, b INT GENERATED ALWAYS AS (id + 1), c INT) " + KEYED,
        "CREATE TABLE g (id INT, b INT GENERATED ALWAYS AS (id * 100), c INT) USING delta",
        "INSERT INTO pgp.g (id, c) VALUES (1, 1), (2, 2)",
        "CREATE PUBLICATION pgp.g1 FOR TABLE pgp.g",
        "CREATE PUBLICATION pgp.g2 FOR TABLE pgp.g (c, id)",
        "CREATE SUBSCRIPTION sg CONNECTION 'database=pgp' PUBLICATION g1, g2",
        "APPLY SUBSCRIPTION sg",
    ):
        s.sql(sql)
    assert rows_of(s, "g") == [(1, 100, 1), (2, 200, 2)]
    s.sql("UPDATE pgp.g SET c = 3 WHERE id = 1")
    s.sql("UPDATE pgp.g SET id = 7 WHERE id = 2")
    s.sql("APPLY SUBSCRIPTION sg")
    assert rows_of(s, "g") == [(1, 100, 3), (7, 700, 2)]
    s.sql("ALTER PUBLICATION pgp.g1 SET (publish_generated_columns = stored)")
    refused(s, "APPLY SUBSCRIPTION sg", "send different columns of spark_catalog.pgp.g")
    s.sql("ALTER PUBLICATION pgp.g2 SET TABLE pgp.g (id, b, c)")  # all columns are no list
    s.sql("UPDATE pgp.g SET c = 4 WHERE id = 1")
    refused(s, "APPLY SUBSCRIPTION sg", "the column b of spark_catalog.pgs.g is computed by Delta, and cannot take what")
    s.sql("CREATE OR REPLACE TABLE g (id INT, b BIGINT, c INT) USING delta")
    s.sql("ALTER SUBSCRIPTION sg REFRESH PUBLICATION")
    s.sql("APPLY SUBSCRIPTION sg")
    assert rows_of(s, "g") == [(1, 2, 4), (7, 8, 2)]
    s.sql("ALTER TABLE pgp.g SET TBLPROPERTIES (streamtable.replicaIdentity = 'FULL')")
    for publication in ("g1", "g2"):
        s.sql(f"ALTER PUBLICATION pgp.{publication} SET (publish_generated_columns = none)")
        s.sql(f"ALTER PUBLICATION pgp.{publication} SET TABLE pgp.g")
    refused(s, "APPLY SUBSCRIPTION sg", "the column b of spark_catalog.pgp.g is part of its replica identity, but is not sent")
    s.sql("DROP SUBSCRIPTION sg")


def test_whole_rows_follow_the_kinds_that_a_publication_sends(s: SparkSession) -> None:
    s.sql(f"CREATE TABLE pgp.w (id INT, b INT) {FULL}")
    s.sql(f"CREATE TABLE w (id INT, b INT) {FULL}")
    s.sql("CREATE PUBLICATION pgp.some FOR TABLE pgp.w WHERE (b > 0) WITH (publish = 'insert, delete')")
    s.sql("CREATE SUBSCRIPTION sw CONNECTION 'database=pgp' PUBLICATION some")
    deleting = "MERGE INTO pgp.w USING (SELECT 3 AS x) ON id = x WHEN MATCHED THEN DELETE"
    updating = "MERGE INTO pgp.w USING (SELECT 4 AS x) ON id = x WHEN MATCHED THEN UPDATE SET b = 44"
    for sql in (
        "INSERT INTO pgp.w VALUES (1, 1), (2, 2), (2, 2), (3, 3), (4, 4), (5, -5)",
        "APPLY SUBSCRIPTION sw",
        "DELETE FROM pgp.w WHERE id IN (1, 5)",
        "UPDATE pgp.w SET b = 22 WHERE id = 2",  # not sent
        deleting,
        updating,
        "INSERT INTO pgp.w VALUES (6, 6), (7, -7)",
        "APPLY SUBSCRIPTION sw",
    ):
        s.sql(sql)
    assert rows_of(s, "w") == [(2, 2), (2, 2), (4, 4), (6, 6)]
    # A condition is that of its own publication's kinds; what is updated out of it is deleted.
    s.sql("CREATE PUBLICATION pgp.moves FOR TABLE pgp.w WHERE (b < 100) WITH (publish = 'update')")
    s.sql("ALTER SUBSCRIPTION sw ADD PUBLICATION moves WITH (copy_data = false)")
    s.sql("UPDATE pgp.w SET b = b + 78 WHERE id IN (2, 6, 7)")
    s.sql("INSERT INTO pgp.w VALUES (8, -8)")
    s.sql("APPLY SUBSCRIPTION sw")
    assert rows_of(s, "w") == [(2, 2), (2, 2), (4, 4), (6, 84), (7, 71)]
    s.sql(
        "MERGE INTO pgp.w USING (SELECT x FROM VALUES (4), (9) AS v (x)) ON id = x WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, b) VALUES (x, x)"
    )
    refused(s, "APPLY SUBSCRIPTION sw", "insert and update and delete cannot be told from the rest without a key")
    s.sql("DROP SUBSCRIPTION sw")


def test_inserts_alone_heed_the_condition_of_inserts(s: SparkSession) -> None:
    s.sql("CREATE TABLE pgp.only (id INT) USING delta")
    s.sql("CREATE TABLE only (id INT) USING delta")
    s.sql("CREATE PUBLICATION pgp.i FOR TABLE pgp.only WHERE (id > 0) WITH (publish = 'insert')")
    s.sql("CREATE PUBLICATION pgp.r FOR TABLE pgp.only WITH (publish = 'truncate')")
    s.sql("CREATE SUBSCRIPTION so CONNECTION 'database=pgp' PUBLICATION i, r")
    for sql in ("APPLY SUBSCRIPTION so", "INSERT INTO pgp.only VALUES (-1), (1)", "APPLY SUBSCRIPTION so"):
        s.sql(sql)
    assert rows_of(s, "only") == [(1,)]
    # Delta commits nothing for a table that is empty, so that there is nothing to send.
    for sql in ("TRUNCATE TABLE pgp.only", "APPLY SUBSCRIPTION so", "INSERT INTO only VALUES (5)", "TRUNCATE TABLE pgp.only"):
        s.sql(sql)
    assert [row[5] for row in answer(s, "APPLY SUBSCRIPTION so")] == [0]
    assert rows_of(s, "only") == [(5,)]
    # Counters begin anew, and the slot of an enabled subscription may be another.
    counters = "SELECT inserts, deletes, stats_reset IS NOT NULL FROM subscription_stats('so')"
    assert answer(s, counters) == [(1, 1, False)]
    assert answer(s, "ALTER SUBSCRIPTION so RESET STATISTICS") == [("spark_catalog.pgs.so", "ALTERED")]
    assert answer(s, counters) == [(0, 0, True)]
    s.sql("CREATE REPLICATION SLOT pgp.spare FOR PUBLICATION i, r")
    refused(s, "ALTER SUBSCRIPTION so SET (slot_name = NONE)", "while it is enabled")
    s.sql("ALTER SUBSCRIPTION so SET (slot_name = spare)")
    s.sql("APPLY SUBSCRIPTION so")
    s.sql("DROP SUBSCRIPTION so RESTRICT")
    with pytest.raises(ReplicationObjectExists):
        s.sql("CREATE PUBLICATION pgp.so")  # its first slot stayed
    with pytest.raises(ReplicationObjectNotFound):
        s.sql("DROP PUBLICATION pgp.i, pgp.nope, pgp.r")
    assert published(s, "pgp.i") == "spark_catalog.pgp.only"
    assert answer(s, "DROP PUBLICATION IF EXISTS pgp.i, pgp.nope, pgp.r, pgp.I CASCADE") == [
        ("spark_catalog.pgp.i", "DROPPED"),
        ("spark_catalog.pgp.r", "DROPPED"),
    ]
