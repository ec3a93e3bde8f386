"""What queues count on: their tables are the same, keep their history, and are changed by others as well."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer

from streamtable import open_queue
from streamtable.delta.rows import read
from streamtable.delta.tables import find_table, state
from streamtable.errors import HistoryLost, InvalidStatement, QueueNotFound, RefreshError, SourceChanged
from streamtable.jvm.gateway import java_class
from streamtable.language.names import Name
from streamtable.queue import definition, space


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE past")
        spark.sql("USE past")
        yield spark
    dropped(spark, "past")


def test_a_captured_table_that_is_dropped_and_created_again_is_another_one(s: SparkSession) -> None:
    s.sql("CREATE TABLE t (n INT) USING delta")
    s.sql("CREATE QUEUE q ON t")
    with pytest.raises(InvalidStatement, match=r"not come to the time 1(.|\n)*0 is the latest"):
        s.sql("REGISTER CONSUMER c ON q AT 1")
    s.sql("REGISTER CONSUMER c ON q")
    s.sql("INSERT INTO t VALUES (1)")
    assert answer(s, "NEXT BATCH FROM q FOR c") == [(1, 1, 1, 0)]
    s.sql("FINISH BATCH FROM q FOR c")
    # Replaced where it is, it goes on.
    s.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 2 AS n")
    assert sorted(answer(s, "NEXT BATCH FROM q FOR c")) == [(2, -1, 1, 0), (2, 1, 2, 0)]
    again = "SELECT state FROM source_health() WHERE name LIKE '%past.q: c'"
    assert answer(s, again) == [("OK",)]
    s.sql("DROP TABLE t")
    s.sql("CREATE TABLE t (n INT) USING delta")
    for n in range(4):
        for _ in range(2):  # the batch in work, and the next one, however far the new table has come
            with pytest.raises(HistoryLost, match=r"t was dropped and created again since c of(.|\n)*UNREGISTER CONSUMER c"):
                s.sql("NEXT BATCH FROM q FOR c")
            s.sql("FINISH BATCH FROM q FOR c")
        s.sql(f"INSERT INTO t VALUES ({n})")
    assert answer(s, again) == [("RECREATED",)]
    assert [lag.pending_commits for lag in open_queue(s, "q").consumers()] == [None], "nothing of the table before can be counted"
    s.sql("UNREGISTER CONSUMER c ON q")
    s.sql("REGISTER CONSUMER c ON q AT 0")
    assert len(answer(s, "NEXT BATCH FROM q FOR c")) == 4


def test_consumers_and_dead_letters_are_shown_whatever_became_of_the_source(s: SparkSession) -> None:
    s.sql("CREATE TABLE read (n INT, `a.b` STRING) USING delta")
    s.sql("CREATE VIEW seen AS SELECT * FROM read")
    for name in ("given_up", "untouched"):
        s.sql(f"CREATE QUEUE {name} FOR SUBSCRIBE seen")
        s.sql(f"REGISTER CONSUMER c ON {name}")
    s.sql("INSERT INTO read VALUES (1, 'x')")
    (event,) = answer(s, "NEXT BATCH FROM given_up FOR c")
    s.sql("GIVE UP EVENTS FROM given_up FOR c")
    dead = [(*event[:-1], 1)]
    columns = s.sql("SHOW DEAD LETTERS FROM given_up FOR c").columns
    for change in ("CREATE OR REPLACE VIEW seen AS SELECT n + 1 AS n, `a.b` FROM read", "DROP TABLE read", "DROP VIEW seen"):
        s.sql(change)
        shown = s.sql("SHOW DEAD LETTERS FROM given_up FOR c")
        assert (shown.columns, list(map(tuple, shown.collect()))) == (columns, dead)
        assert [tuple(row) for row in open_queue(s, "given_up").dead_letters("c").collect()] == dead
        assert answer(s, "SHOW DEAD LETTERS FROM untouched FOR c") == []
        for name, batch in (("given_up", 1), ("untouched", None)):
            (row,) = s.sql(f"SHOW CONSUMERS ON {name}").collect()
            assert (row.consumer, row.batch, row.pending_commits, row.pending_events, row.lag_seconds) == (
                "c",
                batch,
                None,
                None,
                None,
            )
        with pytest.raises(RefreshError):
            s.sql("NEXT BATCH FROM untouched FOR c")
    assert answer(s, "REPLAY DEAD LETTERS FROM given_up FOR c WHERE (n = 1)") == [("c", 1)]
    for name in ("given_up", "untouched"):
        s.sql(f"UNREGISTER CONSUMER c ON {name}")
        s.sql(f"DROP QUEUE {name}")


@pytest.mark.parametrize("versions", [0, 3], ids=["behind", "ahead"])
def test_a_stream_whose_table_is_dropped_and_created_again_ends(s: SparkSession, tmp_path: Path, versions: int) -> None:
    def run() -> None:
        rows = s.readStream.format("streamtable").option("subscribe", "streamed").load()
        written = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        written.toTable(f"received{versions}", format="delta").awaitTermination()

    s.sql("CREATE OR REPLACE TABLE streamed (n INT) USING delta")
    s.sql("INSERT INTO streamed VALUES (1)")
    run()
    s.sql("CREATE OR REPLACE TABLE streamed (n INT) USING delta")
    s.sql("INSERT INTO streamed VALUES (2)")
    run()
    assert sorted(answer(s, f"SELECT diff, n FROM received{versions}")) == [(-1, 1), (1, 1), (1, 2)], "what is replaced goes on"
    s.sql("DROP TABLE streamed")
    s.sql("CREATE TABLE streamed (n INT) USING delta")
    for n in range(versions):
        s.sql(f"INSERT INTO streamed VALUES ({n})")
    with pytest.raises(Exception, match="was dropped and created again since"):
        run()


@pytest.mark.parametrize("change", ["older_copy", "replaced"])
def test_a_stream_lost_rows_when_another_table_took_the_place_of_its_own(s: SparkSession, tmp_path: Path, change: str) -> None:
    name = f"stood_{change}"

    def run() -> None:
        rows = s.readStream.format("streamtable").option("subscribe", name).load()
        written = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        written.toTable(f"received_{change}", format="delta").awaitTermination()

    def insert(*values: int) -> None:
        for n in values:
            s.sql(f"INSERT INTO {name} VALUES ({n})")

    s.sql(f"CREATE TABLE {name} (n INT) USING delta")
    place = Path(find_table(s, [name]).path.removeprefix("file:"))
    insert(1, 2)
    shutil.copytree(place, tmp_path / "copy")
    insert(3)
    run()
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    told = offsets[-1].read_text().splitlines()
    assert json.loads(told[-1])["time"] == 3
    if change == "older_copy":
        shutil.rmtree(place)
        shutil.copytree(tmp_path / "copy", place)
        java_class(s, "org.apache.spark.sql.delta.DeltaLog").clearCache()
        insert(4, 5, 6)
    else:
        s.sql(f"DROP TABLE {name}")
        s.sql(f"CREATE TABLE {name} (n INT) USING delta")
        insert(4, 5, 6)
        s.sql(f"CREATE OR REPLACE TABLE {name} (n INT) USING delta")
        insert(7)
    with pytest.raises(Exception, match=f"{name} has other commits than when the stream of .* came to 3"):
        run()


def test_two_columns_of_one_name_in_a_stream_which_an_earlier_release_began(s: SparkSession, tmp_path: Path) -> None:
    def run() -> None:
        rows = s.readStream.format("streamtable").option("subscribe", "(SELECT n, n + 1 AS n FROM long_read)").load()
        written = rows.toDF("time", "diff", "a", "b").writeStream.option("checkpointLocation", str(tmp_path))
        written.trigger(availableNow=True).toTable("received_of_both", format="delta").awaitTermination()

    s.sql("CREATE TABLE long_read (n INT) USING delta")
    s.sql("INSERT INTO long_read VALUES (1)")
    run()
    (offset,) = (tmp_path / "offsets").glob("[0-9]*")
    (tmp_path / "offsets" / f".{offset.name}.crc").unlink(missing_ok=True)
    offset.write_text("\n".join([*offset.read_text().splitlines()[:-1], "1"]))
    s.sql("INSERT INTO long_read VALUES (2)")
    run()
    assert sorted(answer(s, "SELECT * FROM received_of_both")) == [(1, 1, 1, 2), (2, 1, 2, 3)]


@pytest.mark.parametrize(
    "ddl",
    [
        ("DROP COLUMN v", "ADD COLUMN v STRING"),
        ("RENAME COLUMN v TO x", "RENAME COLUMN w TO v", "RENAME COLUMN x TO w"),
        ("DROP COLUMN p.a", "ADD COLUMN p.a INT"),
    ],
    ids=["again", "swapped", "nested"],
)
def test_what_came_under_a_name_that_stands_for_another_column_is_not_read(s: SparkSession, ddl: Sequence[str]) -> None:
    mapped = "TBLPROPERTIES (delta.columnMapping.mode = 'name')"
    s.sql(f"CREATE OR REPLACE TABLE regrown (id INT, v STRING, w STRING, p STRUCT<a: INT, b: INT>) USING delta {mapped}")
    for sql in (
        "CREATE QUEUE of_regrown ON regrown",
        "REGISTER CONSUMER c ON of_regrown",
        "DECLARE slow CURSOR FOR SUBSCRIBE (SELECT id, v, p FROM regrown) WITH (SNAPSHOT = FALSE)",
        "INSERT INTO regrown VALUES (1, 'v', 'w', named_struct('a', 1, 'b', 2))",
        "INSERT INTO regrown VALUES (2, 'v', 'w', named_struct('a', 1, 'b', 2))",
    ):
        s.sql(sql)
    assert len(answer(s, "NEXT BATCH FROM of_regrown FOR c")) == 2
    assert len(answer(s, "FETCH 1 slow")) == 1
    for each in ddl:
        s.sql(f"ALTER TABLE regrown {each}")
    with pytest.raises(SourceChanged, match="is another one than at version"):
        s.sql("NEXT BATCH FROM of_regrown FOR c").collect()
    with pytest.raises(SourceChanged):
        s.sql("FETCH 1 slow").collect()
    s.sql("DROP QUEUE of_regrown FORCE")
    s.sql("CLOSE slow")


def test_files_of_another_type_are_not_read_as_the_type_of_now(s: SparkSession, tmp_path: Path) -> None:
    s.sql("CREATE TABLE retyped (id INT, n INT, p DECIMAL(10,2)) USING delta")
    s.sql("CREATE QUEUE of_retyped ON retyped")
    s.sql("REGISTER CONSUMER c ON of_retyped")
    s.sql("INSERT INTO retyped VALUES (1, 100000, 1.50)")
    s.sql("CREATE OR REPLACE TABLE retyped (id INT, n SMALLINT, p BIGINT) USING delta")
    told = "the column n of .*retyped is another one than at version"
    for sql in ("NEXT BATCH FROM of_retyped FOR c", "SUBSCRIBE retyped AS OF 1", "SUBSCRIBE (SELECT n FROM retyped) AS OF 1"):
        with pytest.raises(SourceChanged, match=told):
            s.sql(sql).collect()
    rows = s.readStream.format("streamtable").option("subscribe", "retyped AS OF 1").load()
    stream = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).format("noop").start()
    with pytest.raises(Exception, match=told):
        stream.awaitTermination()
    assert sorted(answer(s, "SUBSCRIBE (SELECT id FROM retyped) AS OF 1")) == [(1, 1, 1), (2, -1, 1)], "it is as it was"


@pytest.mark.parametrize(
    ("before", "now", "properties"),
    [("n INT", "n INT NOT NULL", ""), ("n INT", None, "delta.columnMapping.mode = 'name'")],
    ids=["without NULL", "without a mapping"],
)
def test_what_the_columns_of_now_do_not_tell_is_not_read(s: SparkSession, before: str, now: str | None, properties: str) -> None:
    s.sql(f"CREATE OR REPLACE TABLE stored ({before}) USING delta TBLPROPERTIES ({properties or 'x = 1'})")
    s.sql("CREATE QUEUE of_stored ON stored")
    s.sql("REGISTER CONSUMER c ON of_stored")
    s.sql("INSERT INTO stored VALUES (NULL), (1)")
    if now:
        s.sql(f"CREATE OR REPLACE TABLE stored ({now}) USING delta")
    else:
        s.sql("ALTER TABLE stored SET TBLPROPERTIES (delta.columnMapping.mode = 'none')")
    with pytest.raises(SourceChanged, match="the column n of .*stored is another one than at version"):
        s.sql("NEXT BATCH FROM of_stored FOR c").collect()
    s.sql("DROP QUEUE of_stored FORCE")


def test_files_of_a_narrower_type_are_read_as_the_wider_type_of_now(s: SparkSession) -> None:
    kinds = "b TINYINT, i INT, j INT, l BIGINT, f FLOAT, d DATE, p DECIMAL(4,2), a ARRAY<INT>"
    s.sql(f"CREATE TABLE widened ({kinds}) USING delta")
    values = "1, 2, 3, 4, 0.5, DATE '2026-01-02', 1.25, array(7)"
    s.sql(f"INSERT INTO widened VALUES ({values})")
    wider = "b INT, i DOUBLE, j DECIMAL(12,2), l DECIMAL(20,0), f DOUBLE, d TIMESTAMP_NTZ, p DECIMAL(8,4), a ARRAY<BIGINT>"
    s.sql(f"CREATE OR REPLACE TABLE widened ({wider}) USING delta TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
    (expected,) = answer(s, f"SELECT 1L, 1L, * EXCEPT (col6), col6 :: TIMESTAMP_NTZ FROM VALUES ({values})")
    came = s.sql("SUBSCRIBE widened AS OF 1 UP TO 2").collect()
    assert [(*row[:7], *row[8:], row.d) for row in came] == [expected]


def test_a_consumer_that_stays_behind_for_longer_than_the_history_is_kept_is_told(s: SparkSession) -> None:
    s.sql("CREATE TABLE old (n INT) USING delta TBLPROPERTIES (delta.checkpointInterval = 2)")
    s.sql("CREATE QUEUE of_old ON old")
    s.sql("REGISTER CONSUMER slow ON of_old")
    s.sql("REGISTER CONSUMER slower ON of_old")
    for n in range(4):
        s.sql(f"INSERT INTO old VALUES ({n})")
    assert len(answer(s, "NEXT BATCH FROM of_old FOR slow")) == 4
    log = Path(find_table(s, ["old"]).path.removeprefix("file:")) / "_delta_log"
    for version in (0, 1):
        (log / f"{version:020}.json").unlink()
    s._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    for name in ("slow", "slower"):
        told = rf"{name} stayed behind on .*of_old for longer(.|\n)*UNREGISTER CONSUMER {name} ON(.|\n)*delta.logRetentionDuration"
        with pytest.raises(HistoryLost, match=told):
            s.sql(f"NEXT BATCH FROM of_old FOR {name}").collect()
    s.sql("CREATE TABLE taken (n INT) USING delta")
    s.sql("CREATE QUEUE of_taken ON taken")
    s.sql("REGISTER CONSUMER slow ON of_taken")
    s.sql("INSERT INTO taken VALUES (1)")
    s.sql("DELETE FROM taken")
    s.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    s.sql("VACUUM taken RETAIN 0 HOURS")
    s.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(HistoryLost, match=r"slow stayed behind on .*of_taken(.|\n)*delta.deletedFileRetentionDuration"):
        s.sql("NEXT BATCH FROM of_taken FOR slow").collect()


def test_rows_that_others_replace_in_a_free_standing_queue_are_events(s: SparkSession) -> None:
    s.sql("CREATE QUEUE own (n INT)")
    s.sql("REGISTER CONSUMER c ON own")
    kept = state(s, find_table(s, ["own"]).path).properties
    assert kept["delta.deletedFileRetentionDuration"] == kept["delta.logRetentionDuration"] == "interval 365 days"
    s.sql("INSERT INTO own VALUES (1)")
    s.sql("INSERT OVERWRITE own VALUES (2), (3)")
    s.sql("DELETE FROM own WHERE n = 3")
    assert [(lag.pending_commits, (lag.pending_events or 0) > 1) for lag in open_queue(s, "own").consumers()] == [(2, True)]
    assert sorted(answer(s, "NEXT BATCH FROM own FOR c")) == [(1, 1, 0), (2, 2, 0), (2, 3, 0)]
    s.sql("FINISH BATCH FROM own FOR c")
    s.sql("INSERT OVERWRITE own VALUES (4)")
    assert answer(s, "NEXT BATCH FROM own FOR c") == [(4, 4, 0)]
    s.sql("FINISH BATCH FROM own FOR c")
    s.sql("PURGE QUEUE own")
    s.sql("TRUNCATE TABLE own")
    assert answer(s, "NEXT BATCH FROM own FOR c") == []
    assert answer(s, "FINISH BATCH FROM own FOR c") == [("c", "NO BATCH")]


def test_rows_that_a_rewritten_file_keeps_are_no_events(s: SparkSession) -> None:
    s.sql("CREATE QUEUE kept (diff DOUBLE, tags MAP<STRING, INT>)")
    s.sql("REGISTER CONSUMER c ON kept")
    s.sql("INSERT INTO kept SELECT /*+ COALESCE(1) */ n, map('a', n) FROM VALUES (1), (1), (2), (3) AS t(n)")
    s.sql("NEXT BATCH FROM kept FOR c")
    s.sql("FINISH BATCH FROM kept FOR c")
    s.conf.set("spark.databricks.delta.delete.deletionVectors.persistent", "false")
    s.conf.set("spark.databricks.delta.update.deletionVectors.persistent", "false")
    try:
        s.sql("DELETE FROM kept WHERE diff = 3")
        s.sql("UPDATE kept SET diff = 1 WHERE diff = 2")
    finally:
        s.conf.unset("spark.databricks.delta.delete.deletionVectors.persistent")
        s.conf.unset("spark.databricks.delta.update.deletionVectors.persistent")
    s.sql("INSERT INTO kept SELECT -0D, map('a', n) FROM VALUES (4), (4) AS t(n)")
    s.sql("INSERT OVERWRITE kept VALUES (0, map('a', 4)), (1, map('a', 1))")  # what it brings are events, also those that are there
    events = answer(s, "NEXT BATCH FROM kept FOR c")
    assert sorted(((time, str(diff), tags) for time, diff, tags, _ in events), key=str) == [
        (3, "1.0", {"a": 2}),
        (4, "-0.0", {"a": 4}),
        (4, "-0.0", {"a": 4}),
        (5, "0.0", {"a": 4}),
        (5, "1.0", {"a": 1}),
    ]


def test_rows_that_restored_files_bring_again_are_no_events(s: SparkSession) -> None:
    s.sql("CREATE QUEUE restored (n INT)")
    s.sql("REGISTER CONSUMER c ON restored")
    for n in (1, 2):
        s.sql(f"INSERT INTO restored VALUES ({n})")
    s.sql("OPTIMIZE restored")
    assert sorted(row[1] for row in answer(s, "NEXT BATCH FROM restored FOR c")) == [1, 2]
    s.sql("FINISH BATCH FROM restored FOR c")
    s.sql("RESTORE TABLE restored TO VERSION AS OF 2")
    s.sql("INSERT INTO restored VALUES (3)")
    assert [row[1] for row in answer(s, "NEXT BATCH FROM restored FOR c")] == [3]


def test_a_client_that_comes_back_late_finishes_its_own_batch_alone(s: SparkSession) -> None:
    s.sql("CREATE QUEUE late (n INT) WITH (max_count = 1)")
    s.sql("REGISTER CONSUMER c ON late")
    for n in (1, 2):
        s.sql(f"INSERT INTO late VALUES ({n})")
        s.sql("NEXT BATCH FROM late FOR c")
        assert [row.batch for row in s.sql("SHOW CONSUMERS ON late").collect()] == [n]
        if n == 1:
            assert answer(s, "FINISH BATCH 1 FROM late FOR c") == [("c", "FINISHED")]
    # What ALTER QUEUE says holds from the next batch on; the one in work stays as it is.
    for n in (3, 4):
        s.sql(f"INSERT INTO late VALUES ({n})")
    assert answer(s, "ALTER QUEUE late SET (max_count = 2, min_count = 3)") == [("spark_catalog.past.late", "ALTERED")]
    assert answer(s, "FINISH BATCH 1 FROM late FOR c") == [("c", "NO BATCH")]
    assert answer(s, "NEXT BATCH FROM late FOR c") == [(2, 2, 0)]
    assert answer(s, "FINISH BATCH 2 FROM late FOR c") == [("c", "FINISHED")]
    assert answer(s, "NEXT BATCH FROM late FOR c") == [], "two events are there, and a commit behind them; three are waited for"
    s.sql("ALTER QUEUE late SET (min_count = NONE)")
    assert [shown for name, shown in answer(s, "SHOW QUEUES") if name.endswith(".late")] == [
        "CREATE QUEUE `spark_catalog`.`past`.`late` (n INT) WITH (max_count = 2)"
    ]
    assert answer(s, "NEXT BATCH FROM late FOR c") == [(3, 3, 0), (4, 4, 0)]
    with pytest.raises(QueueNotFound):
        s.sql("ALTER QUEUE lat SET (max_count = 2)")


def test_a_batch_of_a_statement_is_bounded(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("statements.queue", "queue.limits"):
        monkeypatch.setattr(f"streamtable.{module}.MOST_HELD", 3)
    s.sql("CREATE QUEUE many (n INT)")
    s.sql("REGISTER CONSUMER c ON many")
    for values in ("VALUES (1), (2)", "VALUES (3), (4)", "SELECT id FROM range(10)"):
        s.sql(f"INSERT INTO many {values}")
    for expected in ([1, 2], [3, 4]):
        assert sorted(n for _, n, _ in answer(s, "NEXT BATCH FROM many FOR c")) == expected
        s.sql("FINISH BATCH FROM many FOR c")
    with pytest.raises(InvalidStatement, match=r"(?s)batch 3 of c has more than 9 events.*open_queue\(spark, .*max_count = 90"):
        s.sql("NEXT BATCH FROM many FOR c")
    assert len(answer(s, "NEXT BATCH FROM many FOR c WITH (max_count = 90)")) == 10  # it is the same batch
    s.sql("GIVE UP EVENTS FROM many FOR c")
    with pytest.raises(InvalidStatement, match="c has given up more than 3 events"):
        s.sql("SHOW DEAD LETTERS FROM many FOR c")
    assert open_queue(s, "many").dead_letters("c").count() == 10


def test_updates_of_a_consumer_that_is_far_behind_are_answered(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log counts an updated row once, and without a key it is two events; what is to come again is beside them."""
    for module in ("statements.queue", "queue.limits"):
        monkeypatch.setattr(f"streamtable.{module}.MOST_HELD", 4)
    s.sql("CREATE TABLE moved USING delta AS SELECT CAST(id AS INT) AS n, 0 AS v FROM range(2)")
    s.sql("CREATE QUEUE moves FOR SUBSCRIBE moved")
    s.sql("REGISTER CONSUMER c ON moves")
    for v in range(1, 5):
        s.sql(f"UPDATE moved SET v = {v}")
    for again in (0, 1):
        assert len(answer(s, "NEXT BATCH FROM moves FOR c")) == 8 + again
        s.sql("RETRY EVENTS FROM moves FOR c WHERE (n = 0 AND diff = 1 AND v = 1)")
        s.sql("FINISH BATCH FROM moves FOR c")


def test_what_came_again_and_was_finished_takes_no_space(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_COMMITS", 2)
    maintenance = {"smallFiles": "1", "vacuum": "true"}
    for key, value in maintenance.items():
        s.conf.set(f"spark.streamtable.maintenance.{key}", value)
    s.sql("CREATE QUEUE tried (n INT)")
    for name in ("c", "gone"):
        s.sql(f"REGISTER CONSUMER {name} ON tried")
    s.sql("INSERT INTO tried VALUES (1), (2), (3)")
    for name in ("c", "gone"):
        s.sql(f"NEXT BATCH FROM tried FOR {name}")
        s.sql(f"RETRY EVENTS FROM tried FOR {name} WHERE (n = 1)")
        s.sql(f"GIVE UP EVENTS FROM tried FOR {name} WHERE (n = 2)")
    s.sql("GIVE UP EVENTS FROM tried FOR c WHERE (n = 3)")
    path = f"{definition.load(s, Name(('tried',))).path}/_streamtable/retries"

    def left() -> list[int]:
        rows = read(s, path, state(s, path).version)
        return sorted(row[0] for row in rows.select("__streamtable_event.n").collect())

    assert left() == [1, 1, 2, 2, 3]
    s.sql("UNREGISTER CONSUMER gone ON tried")
    assert left() == [1, 2, 3]
    s.sql("FINISH BATCH FROM tried FOR c")
    assert answer(s, "NEXT BATCH FROM tried FOR c") == [(1, 1, 1)]
    s.sql("PURGE QUEUE tried")
    assert left() == [1, 2, 3], "the batch in work may be repeated"
    assert answer(s, "NEXT BATCH FROM tried FOR c") == [(1, 1, 1)]
    s.sql("FINISH BATCH FROM tried FOR c")
    assert left() == [2, 3], "a dead letter stays"
    assert answer(s, "REPLAY DEAD LETTERS FROM tried FOR c") == [("c", 2)]
    s.sql("PURGE QUEUE tried")
    assert sorted(answer(s, "NEXT BATCH FROM tried FOR c")) == [(1, 2, 1), (1, 3, 1)]
    operations = {row["operation"] for row in s.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()}
    assert operations == {"OPTIMIZE", "WRITE"}, "a VACUUM that commits moves the version of what is put off meanwhile"
    for key in maintenance:
        s.conf.unset(f"spark.streamtable.maintenance.{key}")
