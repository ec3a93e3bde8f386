"""Replication, case by case: what is published of a table, when a subscription begins and goes on, what it says no to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from tests.oracle.comparison import rows_of
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer, folder, vacuum
from tests.spark.test_replication import overtake
from tests.spark.work import Work

from streamtable.catalog import objects
from streamtable.catalog.kinds import PUBLICATION, SUBSCRIPTION
from streamtable.engine import limits
from streamtable.errors import (
    ConcurrentRefresh,
    HistoryLost,
    InvalidStatement,
    NotEnabled,
    ReplicationConflict,
    ReplicationObjectNotFound,
    StatementCancelled,
    StorageFailed,
)
from streamtable.language.names import Name
from streamtable.language.parse import parse_name
from streamtable.replication import operations, writer
from streamtable.replication import run as applying
from streamtable.replication.apply import AppliedTable
from streamtable.replication.publications import Published
from streamtable.replication.source import SourceTable, source_of

KEYED = "USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id')"


@pytest.fixture
def s(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session in the subscriber's schema; the publisher's is `sender`.

    The table `t` with the key `id` is at either end, that of the publisher has a row.
    """
    with planned_once(spark):
        run(spark, "CREATE DATABASE sender", "CREATE DATABASE receiver", "USE receiver")
        run(spark, f"CREATE TABLE sender.t (id INT, v INT) {KEYED}", "INSERT INTO sender.t VALUES (1, 1)")
        run(spark, "CREATE TABLE t (id INT, v INT) USING delta")
        yield spark
    dropped(spark, "receiver", "sender")


def run(s: SparkSession, *statements: str) -> None:
    for sql in statements:
        s.sql(sql)


def follow(s: SparkSession, publications: str = "p", options: str = "") -> None:
    """Subscribe as `s` and apply what is there."""
    run(s, f"CREATE SUBSCRIPTION s CONNECTION 'database=sender' PUBLICATION {publications} {options}", "APPLY SUBSCRIPTION s")


def applied(s: SparkSession, *statements: str) -> list[tuple[object, ...]]:
    """Return the subscriber's table after statements at the publisher."""
    run(s, *statements, "APPLY SUBSCRIPTION s")
    return rows_of(s, "t")


def another_process(s: SparkSession, monkeypatch: pytest.MonkeyPatch, behind: int = 0) -> None:
    """Apply as another process does, which saw the publisher's tables some commits ago."""

    def seen(spark: SparkSession, publications: list[Published]) -> SourceTable:
        source = source_of(spark, publications)
        return replace(source, version=source.version - behind)

    with monkeypatch.context() as process:
        process.setattr(applying, "_applying", {})  # no lock in common
        process.setattr(applying, "source_of", seen)
        s.sql("APPLY SUBSCRIPTION s")


def identified(s: SparkSession, identity: str) -> None:
    """Make the table `f` at either end, with two rows and a replica identity, and a publication and a subscription of it."""
    vectors = "delta.enableDeletionVectors = true"
    run(
        s,
        f"CREATE TABLE sender.f (id INT) USING delta TBLPROPERTIES (streamtable.replicaIdentity = '{identity}', {vectors})",
        f"CREATE TABLE f (id INT) USING delta TBLPROPERTIES ({vectors})",
        "INSERT INTO sender.f VALUES (1), (2)",
        "CREATE PUBLICATION sender.p FOR TABLE sender.f",
        "CREATE SUBSCRIPTION s CONNECTION 'database=sender' PUBLICATION p",
    )


def test_rows_that_went_by_an_overwrite_are_not_inserted_again(s: SparkSession) -> None:
    identified(s, "FULL")
    run(s, "APPLY SUBSCRIPTION s")
    merge = "MERGE INTO sender.f USING (VALUES (3), (4) AS n (x)) n ON id = x WHEN MATCHED THEN UPDATE SET id = 9"
    for changes, expected in (
        (("INSERT OVERWRITE sender.f VALUES (3)",), [(3,)]),
        ((f"{merge} WHEN NOT MATCHED THEN INSERT (id) VALUES (x)",), [(4,), (9,)]),
        (("INSERT INTO sender.f VALUES (5)", "INSERT OVERWRITE sender.f VALUES (6), (5)"), [(5,), (6,)]),
        (("RESTORE TABLE sender.f TO VERSION AS OF 1",), [(1,), (2,)]),
    ):
        run(s, *changes, "APPLY SUBSCRIPTION s")
        assert rows_of(s, "f") == rows_of(s, "sender.f") == expected, changes


def test_a_table_that_was_restored_is_not_taken_for_what_was_applied(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    run(
        s,
        "INSERT INTO sender.t VALUES (2, 2)",
        "APPLY SUBSCRIPTION s",
        "APPLY SUBSCRIPTION s",
        "RESTORE TABLE t TO VERSION AS OF 1",
    )
    for _ in range(2):
        with pytest.raises(HistoryLost, match="restored to an earlier version"):
            s.sql("APPLY SUBSCRIPTION s")
    with pytest.raises(HistoryLost, match="t still has rows that were applied before"):
        s.sql("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    run(s, "DELETE FROM t", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == [(1, 1), (2, 2)]


def test_what_came_under_a_name_that_stands_for_another_column_is_not_applied(s: SparkSession) -> None:
    mapped = KEYED.replace(")", ", delta.columnMapping.mode = 'name')")
    run(s, f"CREATE TABLE sender.m (id INT, v INT) {mapped}", "CREATE TABLE m (id INT, v INT) USING delta")
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.m")
    follow(s)
    run(s, "INSERT INTO sender.m VALUES (1, 1)", "ALTER TABLE sender.m DROP COLUMN v", "ALTER TABLE sender.m ADD COLUMN v INT")
    with pytest.raises(HistoryLost, match="the column v of .* is another one than at version 0"):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION", "INSERT INTO sender.m VALUES (2, 2)", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "m") == [(1, None), (2, 2)]


def test_files_of_another_type_are_not_applied_as_the_type_of_now(s: SparkSession) -> None:
    run(s, "CREATE TABLE sender.r (id INT, n INT) USING delta", "CREATE TABLE r (id INT, n BIGINT) USING delta")
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.r WITH (publish = 'insert')")
    follow(s)
    run(s, "INSERT INTO sender.r VALUES (1, 100000)")
    rows = (
        s.sql("SELECT 2 AS id, CAST(2 AS SMALLINT) AS n").write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    )
    rows.saveAsTable("sender.r")
    with pytest.raises(HistoryLost, match="the column n of .* is another one than at version 0"):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "r") == [(2, 2)]


def test_a_copy_into_a_table_that_is_gone_does_not_count(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t", "CREATE SUBSCRIPTION s CONNECTION 'database=sender' PUBLICATION p")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(AppliedTable, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            applying.apply(s, parse_name("s"))
    run(s, "CREATE OR REPLACE TABLE t (id INT, v INT) USING delta")
    with pytest.raises(HistoryLost, match="was created again"):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == [(1, 1)]


def test_a_missing_row_that_went_and_came_is_there_whenever_it_is_applied(s: SparkSession) -> None:
    """Of the rows 1 to 4 the subscriber has 0, 1, 2 and 0; a row that it has not is missed, and comes all the same with the next insert."""
    identified(s, "FULL")
    run(s, "INSERT INTO sender.f VALUES (3), (4)", "DROP SUBSCRIPTION s", "INSERT INTO f VALUES (2), (3), (3)")
    run(s, "CREATE SUBSCRIPTION s CONNECTION 'database=sender' PUBLICATION p WITH (copy_data = false)", "APPLY SUBSCRIPTION s")
    for ids in ("1, 2, 3", "4", "3"):
        run(s, f"DELETE FROM sender.f WHERE id IN ({ids})")
        run(
            s,
            f"INSERT INTO sender.f SELECT * FROM VALUES {', '.join('(4), (4)' if ids == '4' else f'({n})' for n in ids.split(', '))}",
        )
    run(s, "DELETE FROM sender.f WHERE id = 3", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "f") == [(1,), (2,), (3,), (4,), (4,)]
    assert answer(s, "SELECT delete_missing FROM subscription_stats('s')") == [(2,)]


def test_a_row_that_is_written_while_its_update_is_missed_stays(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    run(s, "INSERT INTO sender.t VALUES (2, 2)", "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    run(s, "DELETE FROM t WHERE id = 1", "UPDATE sender.t SET v = v + 1")
    overtake(monkeypatch, writer, "merge_once", lambda: run(s, "INSERT INTO t VALUES (1, 7)"))
    assert applied(s) == [(1, 7), (2, 3)]


def test_a_comment_in_a_nested_type_makes_no_other_type(s: SparkSession) -> None:
    run(s, f"CREATE TABLE sender.n (id INT, v STRUCT<a: INT COMMENT 'x', b: ARRAY<INT>>) {KEYED}")
    run(s, "CREATE TABLE n (id INT, v STRUCT<a: INT, b: ARRAY<INT>>) USING delta", "CREATE PUBLICATION sender.p FOR TABLE sender.n")
    run(s, "INSERT INTO sender.n VALUES (1, named_struct('a', 2, 'b', array(3)))")
    follow(s)
    assert answer(s, "SELECT id, v.a, v.b[0] FROM n") == [(1, 2, 3)]


def test_rows_that_a_merge_only_wrote_again_are_not_sent_again(s: SparkSession) -> None:
    for name in ("sender.log", "log"):
        run(s, f"CREATE TABLE {name} (id INT, v INT) USING delta TBLPROPERTIES (delta.enableDeletionVectors = false)")
    run(s, "INSERT INTO sender.log VALUES (1, 5), (2, 5)")
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.log WITH (publish = 'insert')")
    follow(s)
    merge = "MERGE INTO sender.log USING (VALUES (1), (3) AS n (x)) n ON id = x WHEN MATCHED AND v < 5 THEN UPDATE SET v = 5"
    run(s, f"{merge} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (x, 7)", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "log") == [(1, 5), (2, 5), (3, 7)]


@pytest.mark.parametrize("identity", ["id", "FULL"])
def test_rows_that_were_deleted_while_two_processes_copied_do_not_stay(
    s: SparkSession, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    identified(s, identity)
    run(s, "DELETE FROM sender.f WHERE id = 2")
    overtake(monkeypatch, operations, "snapshot", partial(another_process, s, monkeypatch, behind=1))
    with pytest.raises(ConcurrentRefresh):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "APPLY SUBSCRIPTION s", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "f") == [(1,)]


@pytest.mark.parametrize("identity", ["id", "FULL"])
def test_an_older_copy_does_not_come_after_one_that_found_no_rows(
    s: SparkSession, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    identified(s, identity)
    run(s, "DELETE FROM sender.f")
    overtake(monkeypatch, operations, "snapshot", partial(another_process, s, monkeypatch))
    with pytest.raises(ConcurrentRefresh):
        another_process(s, monkeypatch, behind=1)
    run(s, "APPLY SUBSCRIPTION s", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "f") == []


def test_the_position_does_not_go_back_where_changes_of_whole_rows_cancel_out(
    s: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    identified(s, "FULL")
    run(s, "APPLY SUBSCRIPTION s", "INSERT INTO sender.f VALUES (3)", "DELETE FROM sender.f WHERE id = 3")
    overtake(monkeypatch, writer, "commit", partial(another_process, s, monkeypatch))
    with pytest.raises(ConcurrentRefresh):
        another_process(s, monkeypatch, behind=1)
    run(s, "APPLY SUBSCRIPTION s", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "f") == [(1,), (2,)]


def test_a_copy_of_a_table_that_was_created_again_before_it_goes_on(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLES IN SCHEMA sender")
    run(s, "CREATE SUBSCRIPTION s CONNECTION 'database=sender' PUBLICATION p", "DROP TABLE sender.t")
    run(s, f"CREATE TABLE sender.t (id INT, v INT) {KEYED}", "INSERT INTO sender.t VALUES (5, 5)")
    assert applied(s) == [(5, 5)]
    assert applied(s, "INSERT INTO sender.t VALUES (6, 6)") == [(5, 5), (6, 6)]


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
    assert rows_of(s, "t") == []
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == applied(s) == [(1, 1), (2, 2), (3, 3)]


def test_a_subscribers_table_that_comes_back_from_a_backup_misses_no_changes(s: SparkSession, tmp_path: Path) -> None:
    def back(copy: str) -> None:
        shutil.rmtree(place)
        shutil.copytree(tmp_path / copy, place)

    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    place = folder(s, "t")
    shutil.copytree(place, tmp_path / "empty")
    follow(s)
    shutil.copytree(place, tmp_path / "copied")
    back("empty")
    with pytest.raises(HistoryLost, match="an older copy of"):
        s.sql("APPLY SUBSCRIPTION s")
    back("copied")
    assert applied(s, "INSERT INTO sender.t VALUES (2, 2)") == [(1, 1), (2, 2)]
    shutil.copytree(place, tmp_path / "older")
    changes = ("INSERT INTO sender.t VALUES (3, 3)", "UPDATE sender.t SET v = 9 WHERE id = 1", "DELETE FROM sender.t WHERE id = 2")
    assert applied(s, *changes) == [(1, 9), (3, 3)]
    back("older")
    assert applied(s) == applied(s) == [(1, 9), (3, 3)]
    back("older")
    assert applied(s, "INSERT INTO sender.t VALUES (4, 4)") == [(1, 9), (3, 3), (4, 4)]
    back("empty")
    for _ in range(2):
        with pytest.raises(
            HistoryLost, match=r"an older copy of spark_catalog.receiver.t took its place(?s:.)*REFRESH PUBLICATION"
        ):
            s.sql("APPLY SUBSCRIPTION s")
    assert rows_of(s, "t") == []
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == applied(s) == [(1, 9), (3, 3), (4, 4)]


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


def test_a_table_whose_changes_were_compacted_and_vacuumed_is_copied_anew(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    run(s, "INSERT INTO sender.t VALUES (2, 2)", "INSERT INTO sender.t VALUES (3, 3)", "OPTIMIZE sender.t")
    vacuum(s, "sender.t")
    with pytest.raises(HistoryLost, match="does not hold any more"):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "DELETE FROM t", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == [(1, 1), (2, 2), (3, 3)]


def test_a_slot_confirms_no_version_of_a_table_that_was_created_again(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    applied(s, "INSERT INTO sender.t VALUES (2, 2)", "INSERT INTO sender.t VALUES (3, 3)")
    look = "SELECT confirmed_version, lag FROM replication_slots('sender.s')"
    assert answer(s, look) == [(3, 0)]
    run(s, "DROP TABLE sender.t", f"CREATE TABLE sender.t (id INT, v INT) {KEYED}")
    with pytest.raises(HistoryLost, match="was dropped and created again"):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "INSERT INTO sender.t VALUES (4, 4)")
    assert answer(s, look) == [(0, 1)]


def test_since_when_a_slot_is_inactive(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    look = "SELECT active, inactive_since IS NULL, inactive_since < now() FROM replication_slots('sender.s')"
    assert answer(s, look) == [(True, True, None)]
    run(s, "ALTER SUBSCRIPTION s DISABLE")
    assert answer(s, look) == [(False, False, True)]


def test_one_of_several_conditions_is_enough_and_none_lets_all_through(s: SparkSession) -> None:
    run(s, "INSERT INTO sender.t VALUES (2, 50), (3, 99)")
    run(s, "CREATE PUBLICATION sender.low FOR TABLE sender.t WHERE (v < ALL (array(10, 11)))")
    run(s, "CREATE PUBLICATION sender.high FOR TABLE sender.t WHERE (v > 90)")
    run(s, "CREATE PUBLICATION sender.every FOR TABLE sender.t")
    follow(s, "low, high")
    assert rows_of(s, "t") == [(1, 1), (3, 99)]
    assert applied(s, "UPDATE sender.t SET v = 100 - v WHERE id <> 2", "INSERT INTO sender.t VALUES (4, 50)") == [(1, 99), (3, 1)]
    run(s, "ALTER SUBSCRIPTION s ADD PUBLICATION every")
    assert applied(s, "INSERT INTO sender.t VALUES (5, 50)", "UPDATE sender.t SET v = 51 WHERE id IN (1, 4)") == [
        (1, 51),
        (3, 1),
        (5, 50),
    ]  # 4 has not been sent, and is missed
    assert answer(s, "SELECT update_missing FROM subscription_stats('s')") == [(1,)]
    run(s, "ALTER SUBSCRIPTION s SET PUBLICATION high")
    assert applied(s, "INSERT INTO sender.t VALUES (6, 50), (7, 95)") == [(1, 51), (3, 1), (5, 50), (7, 95)]
    # Each kind of change has the conditions of those that publish it: below 10 for inserts, above 90 for updates and deletes.
    run(
        s, "ALTER PUBLICATION sender.low SET (publish = 'insert')", "ALTER PUBLICATION sender.high SET (publish = 'update, delete')"
    )
    run(s, "ALTER SUBSCRIPTION s SET PUBLICATION low, high")
    assert applied(
        s,
        "INSERT INTO sender.t VALUES (8, 8), (9, 95)",
        "UPDATE sender.t SET v = 96 WHERE id = 7",
        "DELETE FROM sender.t WHERE id = 3",
    ) == [(1, 51), (3, 1), (5, 50), (7, 96), (8, 8)]
    # One that has the whole table lets all through, for what it publishes.
    run(s, "CREATE PUBLICATION sender.whole FOR ALL TABLES WITH (publish = 'insert')", "ALTER SUBSCRIPTION s ADD PUBLICATION whole")
    assert applied(
        s,
        "INSERT INTO sender.t VALUES (10, 50)",
        "UPDATE sender.t SET v = v - 89 WHERE id = 7",
        "UPDATE sender.t SET v = 40 WHERE id = 8",
    ) == [(1, 51), (3, 1), (5, 50), (8, 8), (10, 50)]
    run(s, "ALTER PUBLICATION sender.whole SET TABLES IN SCHEMA sender", "ALTER PUBLICATION sender.whole SET (publish = 'delete')")
    some = ("DELETE FROM sender.t WHERE id IN (8, 10)", "INSERT INTO sender.t VALUES (11, 50), (12, 1)")
    assert applied(s, *some) == [(1, 51), (3, 1), (5, 50), (12, 1)]


def test_what_publications_are_for_is_altered(s: SparkSession) -> None:
    run(s, "CREATE TABLE sender.u (x INT) USING delta", "CREATE TABLE u (x INT) USING delta")
    run(
        s,
        "CREATE PUBLICATION sender.p FOR TABLES IN SCHEMA sender, TABLE sender.t",
        "CREATE PUBLICATION sender.q FOR TABLE sender.u",
    )
    follow(s)
    rows = 0

    def sent() -> tuple[str, int]:
        """Return what the publication is for, and how many rows come of one that is inserted into each table."""
        nonlocal rows
        rows += 1
        run(s, f"INSERT INTO sender.t VALUES (1{rows}, 0)", f"INSERT INTO sender.u VALUES ({rows})")
        inserted = sum(row[3] for row in answer(s, "APPLY SUBSCRIPTION s"))
        return answer(s, "SELECT tables FROM publications('sender.p')")[0][0].replace("spark_catalog.sender.", ""), inserted

    assert sent() == ("t, u", 2)
    for action, expected in (
        ("DROP TABLES IN SCHEMA sender", ("t", 1)),
        ("SET ALL TABLES EXCEPT (TABLE sender.t)", ("u", 2)),  # and the one that had come to u meanwhile
        ("SET ALL TABLES", ("t, u", 3)),
        ("SET TABLE sender.t", ("t", 1)),
    ):
        run(s, f"ALTER PUBLICATION sender.p {action}")
        assert sent() == expected, action
    for action, message in (
        ("ADD TABLE sender.t", "is for .*t.* already"),
        ("DROP TABLE sender.u", "is not for .*u"),
        ("DROP TABLES IN SCHEMA sender", "is not for"),
    ):
        with pytest.raises(InvalidStatement, match=message):
            s.sql(f"ALTER PUBLICATION sender.p {action}")
    for action in ("ADD ALL TABLES", "ADD TABLE sender.u"):
        with pytest.raises(InvalidStatement, match="FOR ALL TABLES cannot be combined"):
            s.sql(f"ALTER PUBLICATION sender.p {action}")
        run(s, "ALTER PUBLICATION sender.p SET ALL TABLES")
    for action, message in (("ADD PUBLICATION q, p", "p is already in"), ("DROP PUBLICATION q", "q is not in")):
        with pytest.raises(InvalidStatement, match=f"the publication {message} the subscription spark_catalog.receiver.s"):
            s.sql(f"ALTER SUBSCRIPTION s {action}")
    run(s, "ALTER SUBSCRIPTION s ADD PUBLICATION q WITH (copy_data = false)", "ALTER SUBSCRIPTION s DROP PUBLICATION p")
    assert answer(s, "SELECT table FROM subscription_tables('s')") == [("u",)]
    assert sent() == ("t, u", 1 + 1)  # the one that had come to u when nothing sent it


def test_a_publication_whose_tables_do_not_fit_changes_nothing(s: SparkSession) -> None:
    """Nor does a kill: the publications and the tables change in one commit, and the same statement may be given again."""
    run(s, "CREATE TABLE sender.u (x INT) USING delta", "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    run(s, "CREATE PUBLICATION sender.q FOR TABLE sender.u")
    follow(s)
    for action in ("ADD PUBLICATION q", "SET PUBLICATION q"):
        with pytest.raises(InvalidStatement, match="needs the Delta table"):
            s.sql(f"ALTER SUBSCRIPTION s {action}")
    assert answer(s, "SELECT publications FROM subscriptions('s')") == [("p",)]
    run(s, "CREATE TABLE u (x INT) USING delta")
    before = objects.load(s, SUBSCRIPTION, Name(("s",))).version
    run(s, "ALTER SUBSCRIPTION s ADD PUBLICATION q")
    assert objects.load(s, SUBSCRIPTION, Name(("s",))).version == before + 1
    assert answer(s, "SELECT `table` FROM subscription_tables('s') ORDER BY 1") == [("t",), ("u",)]


def test_a_publication_that_is_dropped_and_created_again_goes_on(s: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    follow(s)
    assert applied(s, "INSERT INTO sender.t VALUES (2, 2)", "DROP PUBLICATION sender.p") == [(1, 1)]
    assert "the publication spark_catalog.sender.p does not exist" in caplog.text
    slot = "SELECT confirmed_version, lag FROM replication_slots('sender.s')"
    assert answer(s, slot) == [(1, 1)]
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t", "UPDATE sender.t SET v = 3 WHERE id = 1")
    assert applied(s) == [(1, 3), (2, 2)]
    assert answer(s, slot) == [(3, 0)]


def test_a_slot_is_of_one_subscription(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    # One that named it before it was there cannot have it any more, nor drop it.
    run(s, "CREATE SUBSCRIPTION early CONNECTION 'database=sender' PUBLICATION p WITH (connect = false, slot_name = s)")
    follow(s)
    for statement in ("ALTER SUBSCRIPTION early ENABLE", "DROP SUBSCRIPTION early"):
        with pytest.raises(InvalidStatement, match="the slot s is that of the subscription spark_catalog.receiver.s"):
            s.sql(statement)
    run(s, "ALTER SUBSCRIPTION early SET (slot_name = NONE)", "DROP SUBSCRIPTION early")
    for options in ("create_slot = false, slot_name = S", "connect = false, slot_name = s"):
        with pytest.raises(InvalidStatement, match="the slot . is that of the subscription spark_catalog.receiver.s"):
            s.sql(f"CREATE SUBSCRIPTION s2 CONNECTION 'database=Sender' PUBLICATION p WITH ({options})")
    run(s, "CREATE SUBSCRIPTION s2 CONNECTION 'database=nowhere' PUBLICATION p WITH (connect = false, slot_name = s)")
    with pytest.raises(InvalidStatement, match="the slot s is that of"):
        s.sql("ALTER SUBSCRIPTION s2 CONNECTION 'database=sender'")
    run(s, "ALTER SUBSCRIPTION s2 SET (slot_name = NONE)", "ALTER SUBSCRIPTION s2 CONNECTION 'database=sender'")
    with pytest.raises(InvalidStatement, match="the slot s is that of"):
        s.sql("ALTER SUBSCRIPTION s2 SET (slot_name = s)")
    # It changes hands when the first lets go of it.
    run(
        s,
        "ALTER SUBSCRIPTION s DISABLE",
        "ALTER SUBSCRIPTION s SET (slot_name = NONE)",
        "ALTER SUBSCRIPTION s2 SET (slot_name = s)",
    )


def test_kinds_of_changes_of_a_table_with_a_key(s: SparkSession) -> None:
    run(s, "INSERT INTO sender.t VALUES (2, 2), (3, 3), (4, 4)")
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t WITH (publish = 'delete')")
    follow(s)
    assert rows_of(s, "t") == [(1, 1), (2, 2), (3, 3), (4, 4)]  # the copy takes all
    after = {}
    for n, kind in enumerate(("delete", "insert", "update"), 1):
        run(s, f"ALTER PUBLICATION sender.p SET (publish = '{kind}')", f"INSERT INTO sender.t VALUES (1{n}, 0)")
        after[kind] = applied(s, f"UPDATE sender.t SET v = 4{n} WHERE id = 4", f"DELETE FROM sender.t WHERE id = {n}")
    assert after == {
        "delete": [(2, 2), (3, 3), (4, 4)],
        "insert": [(2, 2), (3, 3), (4, 4), (12, 0)],
        "update": [(2, 2), (3, 3), (4, 43), (12, 0)],
    }


def test_a_key_of_columns_that_are_null(s: SparkSession) -> None:
    pair = "USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id, part')"
    run(
        s,
        f"CREATE TABLE sender.k (id INT, part STRING, v INT) {pair}",
        "CREATE TABLE k (id BIGINT, part STRING, v INT) USING delta",
    )
    run(
        s,
        "CREATE PUBLICATION sender.p FOR TABLE sender.k",
        "INSERT INTO sender.k VALUES (NULL, 'a', 1), (1, NULL, 1), (NULL, NULL, 1)",
    )
    follow(s)
    changes = (
        "INSERT INTO sender.k VALUES (2, NULL, 1)",
        "UPDATE sender.k SET v = 2 WHERE id IS NULL",
        "DELETE FROM sender.k WHERE id = 1",
    )
    for sql in changes:  # one by one; those after them are applied together
        run(s, sql, "APPLY SUBSCRIPTION s")
    assert rows_of(s, "k") == rows_of(s, "sender.k") == [(None, None, 2), (None, "a", 2), (2, None, 1)]
    run(
        s,
        "UPDATE sender.k SET v = 3 WHERE part IS NULL",
        "DELETE FROM sender.k WHERE part = 'a'",
        "INSERT INTO sender.k VALUES (3, 'c', 1)",
    )
    run(s, "UPDATE sender.k SET v = 4", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "k") == rows_of(s, "sender.k") == [(None, None, 4), (2, None, 4), (3, "c", 4)]


def test_of_a_large_subscriber_only_rows_near_the_changed_keys_are_read(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t", "INSERT INTO sender.t SELECT id, id FROM range(2, 200001)")
    run(s, *(f"ALTER TABLE {each} SET TBLPROPERTIES (delta.enableDeletionVectors = true)" for each in ("sender.t", "t")))
    follow(s)
    run(s, "UPDATE sender.t SET v = 0 WHERE id > 199990")
    before = Work.so_far(s)
    run(s, "APPLY SUBSCRIPTION s")
    assert before.since(s)[1] < 200_000  # the file that changed, and of the subscriber a page

    def jobs(v: int) -> int:
        run(s, f"UPDATE sender.t SET v = {v} WHERE id > 190000")  # more than the driver holds
        before = Work.so_far(s)
        run(s, "APPLY SUBSCRIPTION s")
        return before.since(s)[0]

    calm = jobs(1)
    monkeypatch.setattr(limits, "ADAPTIVE_PARTITIONS", 0)
    assert calm < jobs(2)  # nothing is planned again between stages
    assert answer(s, "SELECT count(*), sum(v) FROM t") == answer(s, "SELECT count(*), sum(v) FROM sender.t")


def test_an_update_of_the_key_is_an_update(s: SparkSession) -> None:
    run(s, "INSERT INTO sender.t VALUES (2, 2)", "CREATE PUBLICATION sender.p FOR TABLE sender.t WHERE (v < 10)")
    follow(s)
    merge = "MERGE INTO sender.t USING (SELECT 1) ON id % 10 = 2 WHEN MATCHED THEN UPDATE SET id = id + 10"
    for publish, update, expected in (
        ("insert, update, delete", "UPDATE sender.t SET id = 12 WHERE id = 2", [(1, 1), (12, 2)]),
        ("update", merge, [(1, 1), (22, 2)]),
        ("insert, delete", "UPDATE sender.t SET id = 32 WHERE id = 22", [(1, 1), (22, 2)]),
        ("update", "UPDATE sender.t SET id = 42 WHERE id = 32", [(1, 1), (22, 2), (42, 2)]),  # 32 is missed
        # In a MERGE that deletes as well, it is a delete and an insert.
        ("insert, delete", f"{merge} WHEN NOT MATCHED BY SOURCE THEN DELETE", [(22, 2), (52, 2)]),
        ("update", "UPDATE sender.t SET id = 62, v = 62 WHERE id = 52", [(22, 2)]),  # the new row is not sent
    ):
        run(s, f"ALTER PUBLICATION sender.p SET (publish = '{publish}')")
        assert applied(s, update) == expected, (publish, update)
    assert answer(s, "SELECT updates, update_missing, delete_missing FROM subscription_stats('s')") == [(0, 0, 1)]
    run(s, "UPDATE sender.t SET id = 22, v = 3 WHERE id = 62")  # the old one was not
    with pytest.raises(ReplicationConflict, match='insert_exists: spark_catalog.receiver.t has a row with {"id":22}'):
        s.sql("APPLY SUBSCRIPTION s")


def test_a_truncation_goes_past_the_condition_where_it_is_published(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t WHERE (v > 5) WITH (publish = 'insert')")
    run(s, "INSERT INTO t VALUES (9, 9)")
    follow(s, options="WITH (copy_data = false)")
    assert applied(s, "TRUNCATE TABLE sender.t", "INSERT INTO sender.t VALUES (3, 3), (6, 6)") == [(6, 6), (9, 9)]
    run(s, "ALTER PUBLICATION sender.p SET (publish = 'insert, truncate')")
    assert applied(s, "TRUNCATE TABLE sender.t", "INSERT INTO sender.t VALUES (7, 7)") == [(7, 7)]


def test_a_table_that_comes_later_is_taken_in_by_a_refresh(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLES IN SCHEMA sender", "CREATE PUBLICATION sender.q FOR TABLE sender.t")
    follow(s, "q")
    for name in ("late", "later"):
        run(s, f"CREATE TABLE sender.{name} (x INT) USING delta", f"CREATE TABLE {name} (x INT) USING delta")
        run(s, f"INSERT INTO sender.{name} VALUES (1)")
        if name == "late":
            run(s, "ALTER SUBSCRIPTION s ADD PUBLICATION p WITH (refresh = false)", "APPLY SUBSCRIPTION s")
            assert rows_of(s, name) == []
            run(s, "ALTER SUBSCRIPTION s SET PUBLICATION p WITH (copy_data = true)")
        else:
            run(s, "APPLY SUBSCRIPTION s", "ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)")
        run(s, f"INSERT INTO sender.{name} VALUES (2)", "APPLY SUBSCRIPTION s")
    assert [rows_of(s, name) for name in ("late", "later")] == [[(1,), (2,)], [(2,)]]


def test_a_slot_that_was_made_before_says_where_to_begin(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t", "CREATE REPLICATION SLOT sender.early FOR PUBLICATION p")
    run(s, "INSERT INTO sender.t VALUES (2, 2)")
    follow(s, options="WITH (create_slot = false, slot_name = early, copy_data = false)")
    assert rows_of(s, "t") == [(2, 2)]
    run(s, "CREATE SUBSCRIPTION s2 CONNECTION 'database=sender' PUBLICATION p WITH (create_slot = false)")
    with pytest.raises(ReplicationObjectNotFound, match="no replication slot spark_catalog.sender.s2"):
        s.sql("APPLY SUBSCRIPTION s2")


def test_a_subscription_is_connected_later_and_elsewhere(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t")
    run(s, "CREATE SUBSCRIPTION s CONNECTION 'database=nowhere' PUBLICATION p WITH (connect = false)")
    run(s, "ALTER SUBSCRIPTION s CONNECTION 'database=sender'", "CREATE REPLICATION SLOT sender.s FOR PUBLICATION p")
    run(s, "ALTER SUBSCRIPTION s ENABLE", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert applied(s) == [(1, 1)]
    warehouse = str(s.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    run(s, f"ALTER SUBSCRIPTION s CONNECTION 'warehouse={warehouse} database=sender'")
    assert applied(s, "INSERT INTO sender.t VALUES (2, 2)") == [(1, 1), (2, 2)]
    with pytest.raises(InvalidStatement, match="names no publisher"):
        s.sql("ALTER SUBSCRIPTION s CONNECTION 'schema=sender'")


def test_a_copy_that_fails_disables_where_that_is_wanted(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t", "INSERT INTO t VALUES (1, 0)")
    with pytest.raises(ReplicationConflict):
        follow(s, options="WITH (disable_on_error = true)")
    assert answer(s, "SELECT enabled, disable_on_error FROM subscriptions('s')") == [(False, True)]
    assert answer(s, "SELECT insert_exists, sync_errors, apply_errors FROM subscription_stats('s')") == [(1, 1, 0)]
    run(s, "DELETE FROM t", "ALTER SUBSCRIPTION s ENABLE")
    assert applied(s) == [(1, 1)]


def test_what_a_publisher_has_on_storage_that_is_away_is_not_forgotten(s: SparkSession, tmp_path: Path) -> None:
    disk, mounted = tmp_path / "disk", tmp_path / "mounted"
    mounted.mkdir()
    run(s, f"CREATE TABLE sender.e (n INT) USING delta LOCATION '{mounted}/in/e'", "INSERT INTO sender.e VALUES (1)")
    run(
        s,
        "CREATE TABLE e (n INT) USING delta",
        "CREATE PUBLICATION sender.p FOR TABLE sender.e, sender.t WITH (publish = 'insert')",
    )
    follow(s)
    mounted.rename(disk)
    mounted.mkdir()
    for statement in (
        "APPLY SUBSCRIPTION s",
        "ALTER SUBSCRIPTION s REFRESH PUBLICATION",
        "CREATE PUBLICATION sender.q FOR TABLE sender.e",
    ):
        with pytest.raises(StorageFailed, match="No such file or directory"):
            s.sql(statement)
    run(s, "INSERT INTO sender.t VALUES (2, 2)")
    with pytest.raises(StorageFailed, match="No such file or directory"):
        s.sql("APPLY SUBSCRIPTION s")
    assert rows_of(s, "t") == [(1, 1), (2, 2)], "the other table goes on"
    mounted.rmdir()
    disk.rename(mounted)
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION", "INSERT INTO sender.e VALUES (2)", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "e") == [(1,), (2,)]


def test_the_slot_keeps_a_table_that_is_away_before_anybody_follows_it(s: SparkSession, tmp_path: Path) -> None:
    disk, mounted = tmp_path / "disk", tmp_path / "mounted"
    mounted.mkdir()
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t WITH (publish = 'insert')")
    follow(s, options="WITH (disable_on_error = true)")
    run(s, f"CREATE TABLE sender.e (n INT) USING delta LOCATION '{mounted}/in/e'", "CREATE TABLE e (n INT) USING delta")
    run(s, "ALTER PUBLICATION sender.p ADD TABLE sender.e", "APPLY SUBSCRIPTION s", "INSERT INTO sender.e VALUES (1)")
    mounted.rename(disk)
    mounted.mkdir()
    with pytest.raises(StorageFailed, match="No such file or directory"):
        s.sql("APPLY SUBSCRIPTION s")
    assert answer(s, "SELECT enabled FROM subscriptions('s')") == [(True,)]
    mounted.rmdir()
    disk.rename(mounted)
    run(s, "ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)", "APPLY SUBSCRIPTION s")
    assert rows_of(s, "e") == [(1,)]


def test_a_publisher_on_storage_that_is_away_is_not_gone(s: SparkSession, tmp_path: Path) -> None:
    disk, mounted = tmp_path / "disk", tmp_path / "mounted"
    home = Path(folder(s, "sender.t")).parent.parent
    shutil.copytree(home / "sender.db", mounted / "wh" / "sender.db")
    run(s, "CREATE PUBLICATION sender.p FOR ALL TABLES")
    shutil.copytree(home / "sender.db" / "p", mounted / "wh" / "sender.db" / "p")
    run(s, f"CREATE SUBSCRIPTION s CONNECTION 'warehouse={mounted}/wh database=sender' PUBLICATION p", "APPLY SUBSCRIPTION s")
    mounted.rename(disk)
    mounted.mkdir()
    with pytest.raises(StorageFailed, match="No such file or directory"):
        s.sql("APPLY SUBSCRIPTION s")
    assert answer(s, "SELECT slot FROM replication_slots()") == []
    mounted.rmdir()
    disk.rename(mounted)
    assert applied(s) == [(1, 1)]


def test_an_apply_that_is_cancelled_ends_and_fails_no_table(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    run(s, f"CREATE TABLE sender.u (id INT) {KEYED}", "CREATE TABLE u (id INT) USING delta")
    run(s, "CREATE PUBLICATION sender.p FOR ALL TABLES")
    follow(s, options="WITH (disable_on_error = true)")
    run(s, *(f"INSERT INTO sender.t VALUES ({n}, {n})" for n in (2, 3)), "INSERT INTO sender.u VALUES (1)")
    asked = list[object]()

    def keyed(session: SparkSession, source: SourceTable, *_: object) -> None:
        asked.append(source.name)
        jvm: Any = session._jvm
        raise Py4JJavaError("a job", jvm.java.lang.IllegalStateException("[SPARK_JOB_CANCELLED] Job 7 cancelled by its user"))

    run(s, "INSERT INTO t VALUES (3, 0)")
    with pytest.raises(ReplicationConflict):
        s.sql("APPLY SUBSCRIPTION s")
    run(s, "ALTER SUBSCRIPTION s ENABLE", "INSERT INTO sender.u VALUES (2)")
    with monkeypatch.context() as cancelling:
        cancelling.setattr(operations, "keyed", keyed)
        with pytest.raises(StatementCancelled):
            s.sql("APPLY SUBSCRIPTION s")
    assert len(asked) == 1, "it went on with other commits or tables"
    stopped = "SELECT stopped_at, error IS NOT NULL FROM subscription_tables('s') WHERE table = 't'"
    assert answer(s, stopped) == [(3, True)], "it was not tried again"
    run(s, "DELETE FROM t WHERE id = 3")
    assert answer(s, "SELECT enabled FROM subscriptions('s')") == [(True,)]
    assert answer(s, "SELECT sum(apply_errors), sum(insert_exists) FROM subscription_stats('s')") == [(1, 1)]
    assert applied(s) == [(1, 1), (2, 2), (3, 3)] and rows_of(s, "u") == [(1,), (2,)]


def test_a_condition_on_a_column_that_is_not_sent(s: SparkSession) -> None:
    run(s, f"CREATE TABLE sender.w (id INT, v STRING, kind STRING) {KEYED}", "CREATE TABLE w (id INT, v INT) USING delta")
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.w (id, v) WHERE (kind = 'number')")
    follow(s)
    for change, expected in (
        ("INSERT INTO sender.w VALUES (1, 'many', 'text')", []),  # is no INT, and need not be
        ("UPDATE sender.w SET v = '5'", []),
        ("UPDATE sender.w SET kind = 'number'", [(1, 5)]),
        ("UPDATE sender.w SET kind = 'text'", []),
    ):
        run(s, change, "APPLY SUBSCRIPTION s")
        assert rows_of(s, "w") == expected, change


def test_columns_that_go_away_and_a_list_without_the_key(s: SparkSession) -> None:
    mapped = KEYED.replace(")", ", delta.columnMapping.mode = 'name')")
    run(s, f"CREATE TABLE sender.m (id INT, v INT, w INT) {mapped}", "CREATE TABLE m (v INT, w INT) USING delta")
    run(s, "INSERT INTO sender.m VALUES (1, 1, 1)")
    run(
        s,
        "CREATE PUBLICATION sender.p FOR TABLE sender.m (v, w) WHERE (id < 5) WITH (publish = 'insert')",
        "CREATE PUBLICATION sender.q FOR TABLE sender.t",
    )
    follow(s, "p, q")
    run(
        s,
        "INSERT INTO sender.m VALUES (2, 2, 2), (6, 6, 6)",
        "UPDATE sender.m SET v = 7 WHERE id = 2",
        "DELETE FROM sender.m WHERE id = 1",
    )
    run(s, "APPLY SUBSCRIPTION s")
    assert rows_of(s, "m") == [(1, 1), (2, 2)]
    for n, (gone, message, mended) in enumerate(
        (
            ("DROP COLUMN w", r"sender.p send the column w of \S*sender.m, which it does not have", "(v) WHERE (id < 5)"),
            ("RENAME COLUMN id TO number", r"\(id < 5\) is no condition on spark_catalog.sender.m", "(v)"),
            ("ADD COLUMN more INT", "identity of spark_catalog.sender.m is the column id, which it does not have", "(v)"),
        ),
        2,
    ):
        run(s, f"ALTER TABLE sender.m {gone}", f"INSERT INTO sender.t VALUES ({n}, 0)")
        with pytest.raises(InvalidStatement, match=message):
            s.sql("APPLY SUBSCRIPTION s")
        assert len(rows_of(s, "t")) == n, "the other table goes on"
        s.sql(f"ALTER PUBLICATION sender.p SET TABLE sender.m {mended}")
    run(
        s,
        "ALTER TABLE sender.m SET TBLPROPERTIES (streamtable.replicaIdentity = 'number')",
        "INSERT INTO sender.m VALUES (8, 8, 8)",
    )
    run(s, "APPLY SUBSCRIPTION s")
    assert rows_of(s, "m") == [(1, 1), (2, 2), (8, None)]


def test_a_skip_leaves_out_the_commit_of_one_table(s: SparkSession) -> None:
    run(s, f"CREATE TABLE sender.u (id INT, v INT) {KEYED}", "INSERT INTO sender.u VALUES (1, 1)")
    run(s, "CREATE TABLE u (id INT, v INT) USING delta", "CREATE PUBLICATION sender.p FOR TABLE sender.t, sender.u")
    follow(s)
    for name in ("t", "u"):
        run(s, f"INSERT INTO {name} VALUES (2, 0)", f"INSERT INTO sender.{name} VALUES (2, 2)")
    with pytest.raises(ReplicationConflict):
        s.sql("APPLY SUBSCRIPTION s")
    with pytest.raises(InvalidStatement, match=r"at their version 2: t, u(?s:.)*SKIP \(lsn = 2, table = 't'\)"):
        s.sql("ALTER SUBSCRIPTION s SKIP (lsn = 2)")
    with pytest.raises(InvalidStatement, match=r"no table w of spark_catalog.receiver.s stopped at 2 \(stopped: t at 2, u at 2\)"):
        s.sql("ALTER SUBSCRIPTION s SKIP (lsn = 2, table = w)")
    run(s, "ALTER SUBSCRIPTION s SKIP (lsn = 2, table = T)", "DELETE FROM u WHERE id = 2")
    assert applied(s) == [(1, 1), (2, 0)]
    assert rows_of(s, "u") == [(1, 1), (2, 2)]


def test_a_skip_that_is_taken_back(s: SparkSession) -> None:
    run(s, "CREATE PUBLICATION sender.p FOR TABLE sender.t", "INSERT INTO t VALUES (2, 0)")
    follow(s)
    for skip in ("INSERT INTO sender.t VALUES (2, 2)", "ALTER SUBSCRIPTION s SKIP (lsn = NONE)"):
        s.sql(skip)
        with pytest.raises(ReplicationConflict, match="version 2 of"):
            s.sql("APPLY SUBSCRIPTION s")
        run(s, "ALTER SUBSCRIPTION s SKIP (lsn = 2)")
    assert applied(s, "INSERT INTO sender.t VALUES (3, 3)") == [(1, 1), (2, 0), (3, 3)]
    assert answer(s, "SELECT skip, stopped_at FROM subscription_tables('s')") == [(None, None)]
    with pytest.raises(InvalidStatement, match=r"nothing stopped(?s:.)*subscription_tables\(\) tells where"):
        s.sql("ALTER SUBSCRIPTION s SKIP (lsn = 2)")
    run(s, "INSERT INTO sender.t VALUES (2, 5)")
    with pytest.raises(ReplicationConflict, match="version 4 of"):  # it was skipped once
        s.sql("APPLY SUBSCRIPTION s")


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
