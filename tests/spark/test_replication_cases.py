"""Replication, case by case: what is published of a table, when a subscription begins and goes on, what it says no to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer

from streamtable.catalog import objects
from streamtable.errors import HistoryLost, InvalidStatement, NotEnabled
from streamtable.replication.errors import ReplicationConflict, ReplicationObjectNotFound
from streamtable.replication.kinds import PUBLICATION, SUBSCRIPTION
from streamtable.sql.statements import Name

KEYED = "USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id')"


@pytest.fixture(scope="module")
def schemas(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session in the subscriber's schema; the publisher's is `sender`."""
    for schema in ("sender", "receiver"):
        spark.sql(f"CREATE DATABASE {schema}")
    spark.sql("USE receiver")
    yield spark
    spark.sql("USE default")
    for schema in ("sender", "receiver"):
        spark.sql(f"DROP DATABASE {schema} CASCADE")


@pytest.fixture
def s(schemas: SparkSession) -> Iterator[SparkSession]:
    """Return the session; the table `t` with the key `id` is at either end, that of the publisher has a row."""
    run(schemas, f"CREATE TABLE sender.t (id INT, v INT) {KEYED}", "INSERT INTO sender.t VALUES (1, 1)")
    run(schemas, "CREATE TABLE t (id INT, v INT) USING delta")
    yield schemas
    for row in answer(schemas, "SELECT name, enabled, slot_name FROM subscriptions()"):
        run(schemas, f"ALTER SUBSCRIPTION {row[0]} DISABLE", f"ALTER SUBSCRIPTION {row[0]} SET (slot_name = NONE)")
        run(schemas, f"DROP SUBSCRIPTION {row[0]}")
    for schema in ("sender", "receiver"):
        for row in answer(schemas, f"SHOW TABLES IN {schema}"):
            run(schemas, f"DROP TABLE {schema}.{row[1]}")


def run(s: SparkSession, *statements: str) -> None:
    for sql in statements:
        s.sql(sql)


def follow(s: SparkSession, publications: str = "p", options: str = "") -> None:
    """Subscribe as `s` and apply what is there."""
    run(s, f"CREATE SUBSCRIPTION s CONNECTION 'database=sender' PUBLICATION {publications} {options}", "APPLY SUBSCRIPTION s")


def contents(s: SparkSession, table: str = "t") -> list[tuple[object, ...]]:
    return answer(s, f"SELECT * FROM {table} ORDER BY ALL")


def applied(s: SparkSession, *statements: str) -> list[tuple[object, ...]]:
    """Return the subscriber's table after statements at the publisher."""
    run(s, *statements, "APPLY SUBSCRIPTION s")
    return contents(s)


def test_a_subscribers_table_that_was_created_again_is_copied_anew(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    # As earlier versions stored it; from the next time on the table is known.
    stored = objects.load(s, SUBSCRIPTION, Name(("s",)))
    older = [{key: value for key, value in each.items() if key != "target_id"} for each in stored.content["tables"]]
    objects.change(s, stored, {**stored.content, "tables": older})
    assert applied(s, "INSERT INTO sender.t VALUES (2, 2)") == [(1, 1), (2, 2)]
    run(s, "DROP TABLE t", "CREATE TABLE t (id INT, v INT) USING delta", "INSERT INTO sender.t VALUES (3, 3)")
    for _ in range(2):
        with pytest.raises(HistoryLost, match=r"receiver.t was dropped and created again: (?s:.)*REFRESH PUBLICATION"):
            s.sql("APPLY SUBSCRIPTION s")
    assert contents(s) == []
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == applied(s) == [(1, 1), (2, 2), (3, 3)]


def test_a_publication_is_of_the_tables_of_its_own_schema(s: SparkSession) -> None:
    with pytest.raises(InvalidStatement, match="spark_catalog.sender cannot be for the tables in spark_catalog.receiver"):
        s.sql("CREATE PUBLICATION sender.p FOR TABLES IN SCHEMA receiver")
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    for action in ("ADD", "SET"):
        with pytest.raises(InvalidStatement, match="create a publication in each schema"):
            s.sql(f"ALTER PUBLICATION sender.p {action} TABLES IN SCHEMA receiver")
    stored = objects.load(s, PUBLICATION, Name(("sender", "p")))  # of an earlier version
    objects.change(s, stored, {"sql": "CREATE PUBLICATION spark_catalog.sender.p FOR TABLES IN SCHEMA spark_catalog.receiver"})
    with pytest.raises(InvalidStatement, match=r"publishes spark_catalog.receiver, of another schema"):
        follow(s)


@pytest.mark.parametrize("several", [True, False], ids=["at once", "one by one"])
def test_a_row_that_is_inserted_again_has_the_defaults_of_the_other_columns(s: SparkSession, several: bool) -> None:
    defaults = "TBLPROPERTIES (delta.feature.allowColumnDefaults = 'enabled')"
    columns = "id INT, v INT, shelf STRING, n INT DEFAULT 7, twice INT GENERATED ALWAYS AS (v * 2)"
    run(s, "DROP TABLE t", f"CREATE TABLE t ({columns}) USING delta {defaults}")
    run(s, "INSERT INTO sender.t VALUES (2, 2), (3, 3)", "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    run(s, "UPDATE t SET shelf = 'A', n = 0")
    for sql in (
        "DELETE FROM sender.t WHERE id < 3",
        "INSERT INTO sender.t VALUES (1, 10), (2, 20)",
        "UPDATE sender.t SET v = v + 1 WHERE id > 1",
    ):
        s.sql(sql)
        if not several:
            s.sql("APPLY SUBSCRIPTION s")
    assert applied(s) == [(1, 10, None, 7, 20), (2, 21, None, 7, 42), (3, 4, "A", 0, 8)]


def test_a_condition_without_subqueries(s: SparkSession) -> None:
    for condition in ("v > (SELECT avg(v) FROM sender.t)", "id IN (SELECT id FROM t)", "EXISTS (SELECT 1 FROM t WHERE t.id = v)"):
        with pytest.raises(InvalidStatement, match=r"the condition on spark_catalog.sender.t has a subquery"):
            s.sql(f"CREATE PUBLICATION sender.p FOR TABLE sender.t WHERE ({condition})")


def test_since_when_a_slot_is_inactive(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    look = "SELECT active, inactive_since IS NULL, inactive_since < now() FROM replication_slots('sender.s')"
    assert answer(s, look) == [(True, True, None)]
    run(s, "ALTER SUBSCRIPTION s DISABLE")
    assert answer(s, look) == [(False, False, True)]


@pytest.mark.parametrize(
    ("connection", "error", "message"),
    [
        ("database=nowhere", ReplicationObjectNotFound, "which is not there"),
        ("warehouse=/nowhere database=sender", ReplicationObjectNotFound, "which is not there"),
        ("remote=sc://localhost:1 database=sender", NotEnabled, "nobody answers at sc://localhost:1"),
    ],
)
def test_a_publisher_that_is_gone_keeps_a_subscription_until_it_has_no_slot(
    s: SparkSession, connection: str, error: type[Exception], message: str
) -> None:
    run(s, f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p WITH (connect = false)")
    with pytest.raises(error, match=rf"{message}(?s:.)*DISABLE it, SET \(slot_name = NONE\)"):
        s.sql("DROP SUBSCRIPTION s")
    run(s, "ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s")
