"""Publications and subscriptions: tables that follow other tables, exactly once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import rows_of
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer

from streamtable import start_scheduler
from streamtable.errors import (
    ConcurrentRefresh,
    DirectWriteRefused,
    HistoryLost,
    InvalidStatement,
    ReplicationConflict,
    ReplicationObjectNotFound,
    SourceChanged,
    StatementFailed,
)
from streamtable.replication import apply, operations, run, writer
from streamtable.replication.publications import Published
from streamtable.replication.source import SourceTable, source_of
from streamtable.replication.worker import ApplyWorker
from streamtable.settings.session import REPLICATION_POLL

KEYED = "USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id', delta.enableChangeDataFeed = true)"


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session in the subscriber's schema; the publisher's is `pub`."""
    with planned_once(spark):
        spark.sql("CREATE DATABASE pub")
        spark.sql("CREATE DATABASE sub")
        spark.sql("USE sub")
        yield spark
    dropped(spark, "pub", "sub")


def test_a_table_follows_another_by_its_key(s: SparkSession) -> None:
    s.sql(f"CREATE TABLE pub.t (id INT, name STRING, n INT) {KEYED}")
    s.sql("INSERT INTO pub.t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)")
    # Other order, another type, a column more.
    tracked = "TBLPROPERTIES (delta.enableRowTracking = true)"  # so that the table knows who wrote a row
    s.sql(f"CREATE TABLE t (n STRING, more STRING, name STRING, id INT) USING delta {tracked}")
    s.sql("CREATE PUBLICATION pub.p FOR TABLE pub.t")
    assert answer(s, "CREATE SUBSCRIPTION s CONNECTION 'database=pub' PUBLICATION p") == [("spark_catalog.sub.s", "CREATED")]
    assert answer(s, "APPLY SUBSCRIPTION s") == [("t", "finished copy", 1, 3, 0, 0, 0, 0, 0, 0)]
    assert rows_of(s, "t") == [("10", None, "a", 1), ("20", None, "b", 2), ("30", None, "c", 3)]
    s.sql("UPDATE t SET more = 'kept' WHERE id = 2")
    s.sql("DELETE FROM t WHERE id = 3")
    s.sql("INSERT INTO pub.t VALUES (4, 'd', 40)")
    s.sql("UPDATE pub.t SET n = n + 1")
    s.sql("DELETE FROM pub.t WHERE id = 1")
    assert answer(s, "APPLY SUBSCRIPTION s") == [("t", "synced", 4, 1, 3, 1, 1, 0, 1, 0)]
    assert rows_of(s, "t") == [("21", "kept", "b", 2), ("41", None, "d", 4)]
    assert answer(s, "APPLY SUBSCRIPTION s") == [("t", "ready", 4, 0, 0, 0, 0, 0, 0, 0)]
    s.sql("UPDATE t SET more = 'changed here' WHERE id = 4")
    s.sql("DELETE FROM pub.t WHERE id = 4")
    s.sql("TRUNCATE TABLE pub.t")
    s.sql("INSERT INTO pub.t VALUES (5, 'e', 50)")
    assert answer(s, "APPLY SUBSCRIPTION s") == [("t", "ready", 7, 1, 0, 2, 0, 0, 0, 1)]
    assert rows_of(s, "t") == [("50", None, "e", 5)]


def test_rows_columns_kinds_and_identities(s: SparkSession) -> None:
    for sql in (
        f"CREATE TABLE pub.filtered (id INT, n INT, secret STRING) {KEYED}",
        "INSERT INTO pub.filtered VALUES (1, 1, 'x'), (2, 9, 'x'), (3, 9, 'x'), (4, NULL, 'x')",
        "CREATE TABLE pub.whole (a INT, m MAP<STRING, INT>) USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'FULL')",
        "INSERT INTO pub.whole VALUES (1, map('k', 1)), (1, map('k', 1)), (1, map('k', 1)), (NULL, NULL)",
        "CREATE TABLE pub.log (at INT) USING delta",
        "INSERT INTO pub.log VALUES (1)",
        "CREATE TABLE filtered (id INT, n INT, d INT DEFAULT 7) USING delta TBLPROPERTIES (delta.feature.allowColumnDefaults = 'enabled')",
        "CREATE TABLE whole (m MAP<STRING, INT>, a BIGINT) USING delta TBLPROPERTIES (delta.enableDeletionVectors = true)",
        "CREATE TABLE log (at INT) USING delta",
        "CREATE PUBLICATION pub.rows FOR TABLE pub.filtered (id, n) WHERE (n > 5)",
        "CREATE PUBLICATION pub.schema FOR TABLES IN SCHEMA pub WITH (publish = 'insert')",
        "ALTER PUBLICATION pub.schema SET TABLE pub.log",
        "ALTER PUBLICATION pub.rows ADD TABLE pub.whole",
        "CREATE SUBSCRIPTION several CONNECTION 'database=pub' PUBLICATION rows, schema",
    ):
        s.sql(sql)
    copied = {row[0]: row[1:4] for row in answer(s, "APPLY SUBSCRIPTION several")}
    assert copied == {"filtered": ("finished copy", 1, 2), "whole": ("finished copy", 1, 4), "log": ("finished copy", 1, 1)}
    for sql in (
        "UPDATE pub.filtered SET n = n + 5 WHERE id <> 3",  # 1: none to match; 2: match to match; 4: none to none
        "UPDATE pub.filtered SET n = 0 WHERE id = 3",  # match to none
        "UPDATE pub.filtered SET secret = 'y'",  # nothing that is sent
        "INSERT INTO pub.whole VALUES (2, map('k', 2)), (2, map('k', 2))",
        "UPDATE pub.log SET at = 2",
        "INSERT INTO pub.log VALUES (3)",
        "DELETE FROM pub.log WHERE at = 3",
    ):
        s.sql(sql)
    s.sql("MERGE INTO pub.whole USING (SELECT 2 AS x) ON a = x WHEN MATCHED THEN DELETE")
    s.sql("DELETE FROM whole WHERE a IS NULL")
    s.sql("DELETE FROM pub.whole WHERE a IS NULL")
    s.sql("INSERT INTO pub.whole VALUES (3, NULL)")
    done = {row[0]: row[3:] for row in answer(s, "APPLY SUBSCRIPTION several")}
    assert done == {"filtered": (1, 1, 1, 0, 0, 0, 0), "whole": (1, 0, 0, 0, 1, 0, 0), "log": (1, 0, 0, 0, 0, 0, 0)}
    assert rows_of(s, "filtered") == [(1, 6, 7), (2, 14, 7)]
    assert answer(s, "SELECT a, m['k'], count(*) FROM whole GROUP BY ALL ORDER BY 1") == [(1, 1, 3), (3, None, 1)]
    assert rows_of(s, "log") == [(1,), (3,)]
    # Without an identity, an update stops a table that sends updates, and it alone.
    s.sql("ALTER PUBLICATION pub.schema SET (publish = 'insert, update')")
    s.sql("UPDATE pub.log SET at = 5")
    s.sql("DELETE FROM pub.whole WHERE a = 1")
    with pytest.raises(InvalidStatement, match="pub.log has no replica identity"):
        s.sql("APPLY SUBSCRIPTION several")
    assert answer(s, "SELECT m, a FROM whole") == [(None, 3)]
    s.sql("DROP SUBSCRIPTION several")


def test_conflicts_stop_or_are_counted(s: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    s.sql(f"CREATE TABLE pub.c (id INT, v STRING) {KEYED}")
    s.sql("INSERT INTO pub.c VALUES (1, 'a'), (2, 'b')")
    s.sql("CREATE TABLE c (id INT, v INT) USING delta")
    s.sql("INSERT INTO c VALUES (2, 0)")
    s.sql("CREATE PUBLICATION pub.pc FOR TABLE pub.c")
    s.conf.set("spark.sql.ansi.enabled", "false")  # which makes NULL of what is no number, elsewhere
    s.sql("CREATE SUBSCRIPTION sc CONNECTION 'database=pub' PUBLICATION pc, later WITH (slot_name = 'its_slot')")
    s.conf.unset("spark.sql.ansi.enabled")
    assert "the publication spark_catalog.pub.later does not exist" in caplog.text
    # The copy is stuck on a value that is no number, then on a row that is there, and recovers.
    value = "the subscriber's column v is int, to which this value cannot be converted: [ab]"
    with pytest.raises(StatementFailed, match=rf"the table c of \S*sc cannot go on: (.|\n)*{value}"):
        s.sql("APPLY SUBSCRIPTION sc")
    s.sql("UPDATE pub.c SET v = id")
    with pytest.raises(ReplicationConflict, match='insert_exists: spark_catalog.sub.c has a row with {"id":2}'):
        s.sql("APPLY SUBSCRIPTION sc")
    assert answer(s, "SELECT table, state FROM subscription_tables('sc')") == [("c", "data copy")]
    s.sql("DELETE FROM c")
    s.sql("APPLY SUBSCRIPTION sc")
    # Five commits are one step; the third is at fault, and the two before it are applied.
    s.sql("INSERT INTO c VALUES (5, 0)")
    for sql in (
        "INSERT INTO pub.c VALUES (3, 3)",
        "UPDATE pub.c SET v = 30 WHERE id = 3",
        "INSERT INTO pub.c VALUES (5, 5), (6, 6)",
    ):
        s.sql(sql)
    s.sql("DELETE FROM pub.c WHERE id IN (1, 6)")
    s.sql("INSERT INTO pub.c VALUES (7, 7)")
    with pytest.raises(ReplicationConflict, match=r'{"id":5} already, which version 5 of spark_catalog.pub.c inserts'):
        s.sql("APPLY SUBSCRIPTION sc")
    assert rows_of(s, "c") == [(1, 1), (2, 2), (3, 30), (5, 0)]
    s.sql("ALTER SUBSCRIPTION sc SET (disable_on_error = true)")
    with pytest.raises(ReplicationConflict):
        s.sql("APPLY SUBSCRIPTION sc")
    with pytest.raises(InvalidStatement, match="is disabled"):
        s.sql("APPLY SUBSCRIPTION sc")
    with pytest.raises(InvalidStatement, match="not allowed while"):
        s.sql("ALTER SUBSCRIPTION sc REFRESH PUBLICATION")
    s.sql("ALTER SUBSCRIPTION sc SKIP (lsn = 5)")
    s.sql("ALTER SUBSCRIPTION sc ENABLE")
    assert answer(s, "APPLY SUBSCRIPTION sc") == [("c", "synced", 7, 1, 0, 1, 0, 1, 0, 0)]
    assert rows_of(s, "c") == [(2, 2), (3, 30), (5, 0), (7, 7)]
    stats = answer(
        s, "SELECT insert_exists, update_missing, delete_missing, apply_errors, sync_errors FROM subscription_stats('sc')"
    )
    assert stats == [(3, 0, 1, 2, 2)]
    # A key that is none.
    s.sql("INSERT INTO pub.c VALUES (8, 8), (8, 8)")
    with pytest.raises(ReplicationConflict, match="several rows with the replica identity"):
        s.sql("APPLY SUBSCRIPTION sc")
    assert answer(s, "SELECT insert_exists, apply_errors FROM subscription_stats('sc')") == [(3, 3)]
    # A slot that is gone keeps a subscription from being dropped with it.
    s.sql("ALTER SUBSCRIPTION sc ENABLE")
    s.sql("DROP TABLE pub.its_slot")
    with pytest.raises(ReplicationObjectNotFound, match="its_slot"):
        s.sql("DROP SUBSCRIPTION sc")
    with pytest.raises(InvalidStatement, match="while it is enabled"):
        s.sql("ALTER SUBSCRIPTION sc SET (slot_name = NONE)")
    for sql in ("ALTER SUBSCRIPTION sc DISABLE", "ALTER SUBSCRIPTION sc SET (slot_name = NONE)"):
        s.sql(sql)
    with pytest.raises(InvalidStatement, match="no replication slot"):
        s.sql("ALTER SUBSCRIPTION sc ENABLE")
    assert answer(s, "DROP SUBSCRIPTION sc") == [("spark_catalog.sub.sc", "DROPPED")]
    assert answer(s, "DROP SUBSCRIPTION IF EXISTS sc") == []


def test_tables_come_and_go_and_changes_go_round_once(s: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    for schema in ("pub", "sub"):
        s.sql(f"CREATE TABLE {schema}.both (id INT, v INT) {KEYED}")
    s.sql("CREATE PUBLICATION pub.there FOR ALL TABLES EXCEPT (TABLE pub.t, pub.c, pub.filtered, pub.whole, pub.log)")
    s.sql("CREATE PUBLICATION sub.back FOR TABLE both")
    for name, other, publication in (("sub.a", "pub", "there"), ("pub.b", "sub", "back")):
        options = "WITH (copy_data = false, origin = none)"
        s.sql(f"CREATE SUBSCRIPTION {name} CONNECTION 'database={other}' PUBLICATION {publication} {options}")
    s.sql("INSERT INTO pub.both VALUES (1, 1)")
    s.sql("INSERT INTO sub.both VALUES (2, 2)")
    turns = iter([False, False, True])
    ApplyWorker(s).start(lambda _: next(turns)).join()
    assert rows_of(s, "pub.both") == rows_of(s, "sub.both") == [(1, 1), (2, 2)]
    assert answer(s, "SELECT sum(apply_errors + inserts) FROM subscription_stats() WHERE table = 'both'") == [(2,)]
    for sql in ("UPDATE pub.both SET v = 20 WHERE id = 2", "DELETE FROM sub.both WHERE id = 1", *("a", "pub.b") * 2):
        s.sql(sql if " " in sql else f"APPLY SUBSCRIPTION {sql}")
    assert rows_of(s, "pub.both") == rows_of(s, "sub.both") == [(2, 20)]
    counts = "sum(inserts), sum(updates), sum(deletes), sum(apply_errors + update_missing + delete_missing)"
    assert answer(s, f"SELECT {counts} FROM subscription_stats() WHERE table = 'both'") == [(2, 1, 1, 0)]
    # A table that comes later is copied, the others are not again.
    s.sql("CREATE TABLE pub.late USING delta AS SELECT 1 AS x")
    s.sql("CREATE TABLE late (x BIGINT) USING delta")
    s.sql("DELETE FROM both")
    s.sql("ALTER SUBSCRIPTION a REFRESH PUBLICATION")
    assert answer(s, "SELECT table, state FROM subscription_tables('a')") == [("both", "ready"), ("late", "init")]
    assert [row[:4] for row in answer(s, "APPLY SUBSCRIPTION a")] == [("both", "ready", 4, 0), ("late", "finished copy", 0, 1)]
    # What is copied is copied with what others wrote to it, which is warned of.
    assert "in spite of origin" not in caplog.text
    s.sql("CREATE SUBSCRIPTION whole_copy CONNECTION 'database=pub' PUBLICATION there WITH (origin = none)")
    assert "rows that other subscriptions wrote to spark_catalog.pub.both, in spite of origin = none" in caplog.text
    s.sql("DROP SUBSCRIPTION whole_copy")
    s.sql("ALTER PUBLICATION pub.there SET TABLE pub.late")
    s.sql("ALTER SUBSCRIPTION a REFRESH PUBLICATION")
    s.sql("ALTER SUBSCRIPTION a RENAME TO renamed")
    s.sql("APPLY SUBSCRIPTION renamed")  # what left the publication leaves the slot
    s.sql("INSERT INTO pub.late VALUES (2)")
    slots = (
        "SELECT table, active, invalidation_reason, restart_version, confirmed_version, lag, status FROM replication_slots('pub.a')"
    )
    assert answer(s, slots) == [("spark_catalog.pub.late", True, None, 1, 0, 1, "reserved")]
    kept = ", ".join(f"delta.{name}RetentionDuration = 'interval 0 seconds'" for name in ("deletedFile", "log"))
    s.sql(f"ALTER TABLE pub.late SET TBLPROPERTIES ({kept})")
    assert [row[-1] for row in answer(s, slots)] == ["unreserved"]
    warned = "SELECT warning FROM source_health() WHERE name = 'spark_catalog.pub.a' AND state = 'EXPIRING'"
    assert "the subscription has to copy it anew" in answer(s, warned)[0][0]
    told = "SELECT alert, text LIKE '%copy it anew' FROM alerts() WHERE name = 'spark_catalog.pub.a'"
    assert answer(s, told) == [("HISTORY_EXPIRING", True)]
    with pytest.raises(InvalidStatement, match="is that of the subscription"):
        s.sql("DROP REPLICATION SLOT pub.a")
    for name in ("renamed", "pub.b"):
        s.sql(f"DROP SUBSCRIPTION {name}")


def test_a_publisher_of_which_only_the_folder_is_in_sight(s: SparkSession, tmp_path: Path) -> None:
    for sql in (
        "CREATE DATABASE away",
        "CREATE TABLE away.parts (id INT, n INT) USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id')",
        "INSERT INTO away.parts VALUES (1, 1), (2, -2)",
        "CREATE TABLE away.notes USING delta AS SELECT 'a' AS note",
        "CREATE TABLE away.hidden USING delta AS SELECT 'b' AS secret",
        "CREATE PUBLICATION away.Positive FOR TABLE away.parts WHERE (n > 0)",
        "CREATE PUBLICATION away.rest FOR ALL TABLES EXCEPT (TABLE away.parts, away.hidden)",
        "CREATE TABLE parts (n INT, id INT) USING delta",
        "CREATE TABLE notes (note STRING) USING delta",
    ):
        s.sql(sql)
    warehouse, folder = Path(str(s.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")), tmp_path / "away.db"
    shutil.copytree(warehouse / "away.db", folder)
    s.sql("DROP DATABASE away CASCADE")

    s.sql(f"CREATE SUBSCRIPTION far CONNECTION 'warehouse={tmp_path} database=away' PUBLICATION Positive, rest")
    assert [row[:4] for row in answer(s, "APPLY SUBSCRIPTION far")] == [
        ("notes", "finished copy", 0, 1),
        ("parts", "finished copy", 1, 1),
    ]
    s.sql(f"UPDATE delta.`{folder}/parts` SET n = n + 3")
    slots = "SELECT slot, table, active, lag FROM replication_slots() WHERE slot LIKE '%away.db/far' ORDER BY table"
    name = f"spark_catalog.delta.{folder}/far"
    assert answer(s, slots) == [(name, "spark_catalog.away.notes", True, 0), (name, "spark_catalog.away.parts", True, 1)]
    assert answer(s, "APPLY SUBSCRIPTION far")[1][:6] == ("parts", "synced", 2, 1, 1, 0)
    assert (rows_of(s, "parts"), rows_of(s, "notes")) == ([(1, 2), (4, 1)], [("a",)])

    # What is needed is cleaned up: the error says how to go on, and so it goes on.
    s.sql(f"INSERT INTO delta.`{folder}/parts` VALUES (3, 3)")
    s.sql(f"DELETE FROM delta.`{folder}/parts` WHERE id = 3")
    s.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    s.sql(f"VACUUM delta.`{folder}/parts` RETAIN 0 HOURS")
    s.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    lost = (
        "SELECT status, invalidation_reason LIKE 'VACUUM took files of version 4%' FROM replication_slots() WHERE slot LIKE '%/far'"
    )
    assert answer(s, f"{lost} ORDER BY table") == [("reserved", None), ("lost", True)]
    with pytest.raises(HistoryLost, match="What to do: empty spark_catalog.sub.parts; then ALTER"):
        s.sql("APPLY SUBSCRIPTION far")
    s.sql("DELETE FROM parts")
    s.sql("ALTER SUBSCRIPTION far REFRESH PUBLICATION")
    assert answer(s, "SELECT table, state FROM subscription_tables('far')") == [("notes", "ready"), ("parts", "init")]
    s.sql("APPLY SUBSCRIPTION far")
    assert rows_of(s, "parts") == [(1, 2), (4, 1)]
    s.sql("DROP SUBSCRIPTION far")
    assert not (folder / "far").exists() and (folder / "positive").exists()


def test_of_two_that_apply_at_once_one_moves_the_subscription(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, identity in (("by_key", "id"), ("by_row", "FULL")):
        for schema in ("pub", "sub"):
            properties = f"streamtable.replicaIdentity = '{identity}', delta.enableDeletionVectors = true"
            s.sql(f"CREATE TABLE {schema}.{name} (id INT, v INT) USING delta TBLPROPERTIES ({properties})")
        s.sql(f"INSERT INTO pub.{name} VALUES (1, 0), (2, 0)")
    s.sql("CREATE PUBLICATION pub.race FOR TABLE pub.by_key, pub.by_row")
    s.sql("CREATE SUBSCRIPTION raced CONNECTION 'database=pub' PUBLICATION race")
    s.sql("APPLY SUBSCRIPTION raced")

    def another_process(source: Callable[[SparkSession, list[Published]], SourceTable] = source_of) -> None:
        with monkeypatch.context() as process:
            process.setattr(run, "_applying", {})  # no lock in common
            process.setattr(run, "source_of", source)
            s.sql("APPLY SUBSCRIPTION raced")

    def earlier(spark: SparkSession, publications: list[Published]) -> SourceTable:
        source = source_of(spark, publications)
        return replace(source, version=source.version - 1)

    def an_older_process() -> None:
        another_process(earlier)

    # Before a table is opened, between opening and committing, and that by one which saw a commit less.
    moments: tuple[tuple[ModuleType, str, Callable[[], None]], ...] = (
        (apply, "commits", another_process),
        (operations, "weighted", another_process),
        (operations, "keyed", an_older_process),
    )
    for n, (module, function, meanwhile) in enumerate(moments):
        s.sql(f"INSERT INTO pub.by_key VALUES (10, {n})")
        s.sql("DELETE FROM pub.by_key WHERE id = 10")
        s.sql("UPDATE pub.by_row SET v = v + 1 WHERE id = 1")
        overtake(monkeypatch, module, function, meanwhile)
        with pytest.raises(ConcurrentRefresh):
            s.sql("APPLY SUBSCRIPTION raced")
        s.sql("APPLY SUBSCRIPTION raced")
        assert rows_of(s, "by_key") == [(1, 0), (2, 0)], (function, meanwhile)
        assert rows_of(s, "by_row") == [(1, n + 1), (2, 0)], (function, meanwhile)
    # One that saw a commit less is overtaken, by a commit without rows, right before its own: the position must not go back.
    s.sql("INSERT INTO pub.by_key VALUES (10, 9)")
    s.sql("DELETE FROM pub.by_key WHERE id = 10")
    overtake(monkeypatch, writer, "commit", another_process)
    with pytest.raises(ConcurrentRefresh):
        an_older_process()
    s.sql("APPLY SUBSCRIPTION raced")
    assert rows_of(s, "by_key") == [(1, 0), (2, 0)]
    # One that is overtaken in the middle of what it has to do does not do the rest.
    s.sql("INSERT INTO pub.by_key VALUES (10, 10)")
    s.sql("TRUNCATE TABLE pub.by_key")
    s.sql("INSERT INTO pub.by_key VALUES (3, 0)")
    overtake(monkeypatch, writer, "commit", another_process)
    with pytest.raises(ConcurrentRefresh):
        s.sql("APPLY SUBSCRIPTION raced")
    assert rows_of(s, "by_key") == [(3, 0)]
    (inserts, errors) = answer(s, "SELECT max(inserts), sum(apply_errors) FROM subscription_stats('raced')")[0]
    assert inserts <= 2 + len(moments) + 3 and errors == 0  # nothing is counted twice


def test_no_subscription_writes_to_a_stream_table(s: SparkSession) -> None:
    for schema in ("pub", "sub"):
        s.sql(f"CREATE TABLE {schema}.base (id INT) {KEYED}")
    s.sql("CREATE STREAM TABLE made AS SELECT id FROM base")
    s.sql(f"CREATE TABLE pub.made (id INT) {KEYED}")
    s.sql("CREATE PUBLICATION pub.one_made FOR TABLE pub.made")
    with pytest.raises(DirectWriteRefused, match="cannot write to spark_catalog.sub.made: it is a stream table"):
        s.sql("CREATE SUBSCRIPTION of_made CONNECTION 'database=pub' PUBLICATION one_made")
    s.sql("DROP STREAM TABLE made")
    s.sql("CREATE TABLE made (id INT) USING delta")
    s.sql("CREATE SUBSCRIPTION of_made CONNECTION 'database=pub' PUBLICATION one_made")
    s.sql("DROP TABLE made")
    s.sql("CREATE STREAM TABLE made AS SELECT id FROM base")
    with pytest.raises(DirectWriteRefused):
        s.sql("APPLY SUBSCRIPTION of_made")
    s.sql("DROP SUBSCRIPTION of_made")
    s.sql("DROP STREAM TABLE made")


def test_a_scheduler_applies(s: SparkSession) -> None:
    for schema in ("pub", "sub"):
        s.sql(f"CREATE TABLE {schema}.scheduled (id INT) USING delta")
    s.sql("CREATE PUBLICATION pub.on_schedule FOR TABLE pub.scheduled")
    s.sql("CREATE SUBSCRIPTION scheduled_sub CONNECTION 'database=pub' PUBLICATION on_schedule")
    s.conf.set(REPLICATION_POLL.key, "0.1")
    scheduler = start_scheduler(s)
    try:
        s.sql("INSERT INTO pub.scheduled VALUES (3)")
        until = time.monotonic() + 120
        while rows_of(s, "scheduled") != [(3,)] and time.monotonic() < until:
            time.sleep(0.2)
    finally:
        scheduler.stop(60)
        s.conf.unset(REPLICATION_POLL.key)
    assert rows_of(s, "scheduled") == [(3,)]


def overtake(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, meanwhile: Callable[[], None]) -> None:
    """Have something happen once, right before a function is called for the first time."""
    function = getattr(module, name)

    def after(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(module, name, function)
        meanwhile()
        return function(*arguments, **named)

    monkeypatch.setattr(module, name, after)


def test_types_partitions_and_columns_that_come_later(s: SparkSession) -> None:
    types = "d DECIMAL(9, 2), day DATE, at TIMESTAMP, raw BINARY, x DOUBLE, many ARRAY<INT>, pair STRUCT<a: INT, b: STRING>"
    values = "1.50, DATE '2026-02-28', TIMESTAMP '2026-02-28 12:00:00.5', X'6162', double('NaN'), array(1, NULL), named_struct('a', 1, 'b', 'ö')"
    s.sql(
        f"CREATE TABLE pub.kinds (id BIGINT, {types}) USING delta PARTITIONED BY (day) TBLPROPERTIES (streamtable.replicaIdentity = 'id, day')"
    )
    s.sql(
        "CREATE TABLE kinds (id STRING, d STRING, day STRING, at DATE, raw STRING, x FLOAT, many STRING, pair STRING) USING delta PARTITIONED BY (id)"
    )
    s.sql(f"INSERT INTO pub.kinds SELECT id, {values} FROM range(2)")
    s.sql("INSERT INTO pub.kinds (id) VALUES (7)")  # the rest of the key is NULL
    s.sql("CREATE PUBLICATION pub.kinds_of_all FOR TABLE pub.kinds")
    s.sql("CREATE PUBLICATION pub.some FOR TABLE pub.kinds (id, day, d)")
    s.sql("CREATE PUBLICATION pub.keyless FOR TABLE pub.kinds (id, d)")
    for publications, message in (
        ("kinds_of_all, some", "send different columns"),
        ("keyless", "day .* is part of its replica identity"),
    ):
        with pytest.raises(InvalidStatement, match=message):
            s.sql(f"CREATE SUBSCRIPTION kinds_sub CONNECTION 'database=pub' PUBLICATION {publications}")
    s.sql("CREATE SUBSCRIPTION kinds_sub CONNECTION 'database=pub' PUBLICATION kinds_of_all")
    s.sql("APPLY SUBSCRIPTION kinds_sub")
    text = ("1.50", "2026-02-28", date(2026, 2, 28), "ab", "[1, null]", "{1, ö}")
    assert answer(s, "SELECT d, day, at, raw, many, pair FROM kinds WHERE id < 7") == [text, text]
    assert answer(s, "SELECT isnan(x) FROM kinds WHERE id = 0") == [(True,)]
    s.sql("UPDATE pub.kinds SET d = id WHERE id > 0")
    s.sql("DELETE FROM pub.kinds WHERE id = 0")
    s.sql("APPLY SUBSCRIPTION kinds_sub")
    assert answer(s, "SELECT id, d, day FROM kinds ORDER BY id") == [("1", "1.00", "2026-02-28"), ("7", "7.00", None)]
    # A column that comes later is asked for with the first change that might have it, and then the table goes on.
    s.sql("ALTER TABLE pub.kinds ADD COLUMNS (later INT)")
    assert answer(s, "APPLY SUBSCRIPTION kinds_sub")[0][3:6] == (0, 0, 0)
    s.sql("UPDATE pub.kinds SET later = 5 WHERE id = 7")
    with pytest.raises(SourceChanged, match="of spark_catalog.pub.kinds has no column later"):
        s.sql("APPLY SUBSCRIPTION kinds_sub")
    s.sql("ALTER TABLE kinds ADD COLUMNS (later STRING)")
    s.sql("APPLY SUBSCRIPTION kinds_sub")
    assert answer(s, "SELECT id, later FROM kinds ORDER BY id") == [("1", None), ("7", "5")]
