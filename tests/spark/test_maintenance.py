"""Small files of a stream table are compacted: nobody sees a row come or go, and refreshes go on from where they were."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, done, folder, version
from tests.spark.tampering import record

from streamtable.catalog.entries import Entry, load
from streamtable.delta.tables import drop_files, state
from streamtable.engine.arrangements import path_of
from streamtable.errors import DefinitionNotAccepted
from streamtable.language.names import Name
from streamtable.refresh.compact import maintain
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.schedule.cycle import Task
from streamtable.schedule.engine import SparkEngine

QUERY = "SELECT DISTINCT region FROM sales"
READER = "SELECT region FROM st WHERE region LIKE 'r%'"


def files(spark: SparkSession, path: str) -> int:
    return int(spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]["numFiles"])


def arrangement(entry: Entry) -> str:
    """Return the path of the only arrangement of a stream table."""
    frontier = Frontier.of(entry.state.frontier)
    assert frontier is not None
    (name,) = frontier.arrangements
    return path_of(entry.path, frontier.fingerprint, name)


def test_a_crowded_table_is_compacted_after_a_scheduled_refresh(shop: SparkSession, tmp_path: Path) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    shop.sql(f"CREATE STREAM TABLE reader AS {READER}")
    for number in range(3):
        shop.sql(f"INSERT INTO sales VALUES ({number}, 'r{number}', 1)")
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    shop.sql("REFRESH STREAM TABLE reader")
    assert shop.sparkContext.statusTracker().getJobIdsForGroup("streamtable spark_catalog.shop.st")
    st = load(shop, Name(("st",)))
    before, hidden, rows = st.state.version, state(shop, arrangement(st)).version, sorted(answer(shop, "SELECT * FROM st"), key=str)
    assert min(files(shop, st.path), files(shop, arrangement(st))) > 2

    former = [Path(st.path.removeprefix("file:"), "_streamtable", name) for name in ("of-a-former-plan", "being-built")]
    for each in former:
        each.mkdir()
        (each / "file").touch()
    os.utime(former[0] / "file", (0, 0))

    reading = shop.table("st").toLocalIterator()
    next(reading)
    shop.sql("DECLARE following CURSOR FOR SUBSCRIBE st WITH (SNAPSHOT = FALSE)")
    assert answer(shop, "FETCH ALL following WITH (TIMEOUT = '0s')") == []
    feed = shop.readStream.option("readChangeFeed", "true").option("startingVersion", before).table("st")
    # Not as often as it can, which keeps a core busy until it is stopped.
    consumer = feed.writeStream.format("memory").queryName("fed").trigger(processingTime="1 second").start()

    shop.conf.set("spark.streamtable.maintenance.smallFiles", "1")
    shop.conf.set("spark.streamtable.maintenance.vacuum", "true")
    try:
        task = Task(st.path, "spark_catalog.shop.st", Vector.read(shop, []), joins=False)
        SparkEngine(shop).refresh(task, 1, Event())
    finally:
        shop.conf.unset("spark.streamtable.maintenance.smallFiles")
        shop.conf.unset("spark.streamtable.maintenance.vacuum")
    assert len(list(reading)) == len(rows) - 1
    assert [each.exists() for each in former] == [False, True]
    assert (files(shop, st.path), files(shop, arrangement(st))) == (1, 1)
    operations = [row["operation"] for row in shop.sql("DESCRIBE HISTORY st").collect() if row["version"] > before]
    assert operations == ["VACUUM END", "VACUUM START", "OPTIMIZE"]
    assert sorted(answer(shop, "SELECT * FROM st"), key=str) == rows
    assert answer(shop, f"SELECT * FROM table_changes('st', {before + 1})") == []
    assert answer(shop, f"SELECT count(*) FROM st VERSION AS OF {before}") == [(len(rows),)]
    assert shop.table("reader").count() == 3

    compacted = state(shop, arrangement(st)).version
    assert compacted == hidden + 3
    assert answer(shop, "REFRESH STREAM TABLE reader")[0][3:5] == (0, 0)
    shop.sql("DELETE FROM sales WHERE id IN (1, 2)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert state(shop, arrangement(st)).version == compacted + 1, "the compaction was rolled back"
    assert done(shop, "REFRESH STREAM TABLE reader")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", QUERY)
    assert_exact(shop, "reader", READER)
    assert version(shop, "st") == before + 4
    consumer.processAllAvailable()
    consumer.stop()
    gone = {"north", "south", "r1", "r2"}
    assert set(answer(shop, f"SELECT _commit_version, _change_type, region FROM fed WHERE _commit_version > {before}")) == {
        (before + 4, "delete", each) for each in gone
    }
    assert set(answer(shop, "FETCH ALL following WITH (TIMEOUT = '0s')")) == {(before + 4, -1, each) for each in gone}
    shop.sql("CLOSE following")
    shop.catalog.dropTempView("fed")


def test_vacuum_of_a_scheduler_deleted_the_files_of_others_behind_a_link(shop: SparkSession, tmp_path: Path) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id, region FROM sales")
    for number in range(3):
        shop.sql(f"INSERT INTO sales VALUES ({number}, 'west', 40)")
        shop.sql("REFRESH STREAM TABLE st")
    st, theirs = load(shop, Name(("st",))), tmp_path / "theirs"
    Path(st.path.removeprefix("file:"), "link").symlink_to(tmp_path)
    theirs.touch()
    os.utime(theirs, (0, 0))
    shop.conf.set("spark.streamtable.maintenance.smallFiles", "1")
    shop.conf.set("spark.streamtable.maintenance.vacuum", "true")
    try:
        assert maintain(shop, st) == [st.path]
    finally:
        shop.conf.unset("spark.streamtable.maintenance.smallFiles")
        shop.conf.unset("spark.streamtable.maintenance.vacuum")
    assert theirs.exists()
    assert files(shop, st.path) == 1


def test_a_frontier_in_the_log_had_a_scheduler_delete_the_folders_of_others(shop: SparkSession, tmp_path: Path) -> None:
    """Neither by the frontier, nor by who asks for it, nor by way of a link: only what a table keeps as its own is deleted."""
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    for number in range(3):
        shop.sql(f"INSERT INTO sales VALUES ({number}, 'r{number}', 1)")
        shop.sql("REFRESH STREAM TABLE st")
    at = folder(shop, "st")
    victim = tmp_path / "home" / "victim"
    victim.mkdir(parents=True)
    (victim / "file").touch()
    for each in (victim / "file", victim, victim.parent):
        os.utime(each, (0, 0))
    upwards = os.path.relpath(victim.parent, at / "_streamtable")
    record(at, lambda text: json.dumps({**json.loads(text), "fingerprint": upwards}))
    shop.conf.set("spark.streamtable.maintenance.smallFiles", "1")
    shop.conf.set("spark.streamtable.maintenance.vacuum", "true")
    try:
        maintain(shop, load(shop, Name(("st",))))
    finally:
        shop.conf.unset("spark.streamtable.maintenance.smallFiles")
        shop.conf.unset("spark.streamtable.maintenance.vacuum")
    (link := at / "_streamtable" / "link").symlink_to(victim.parent)
    own = f"file:{at}"
    planted = (
        str(victim), f"{own}/_streamtable/{upwards}/victim", f"{own}/_streamtable/link/victim", f"{own}/_streamtable", own,
        f"{own}/_streamtable/.", f"{own}/_streamtable/a/..", f"{own}_streamtable/a0", f"s3a://bucket{at}/_streamtable/a0",
    )  # fmt: skip
    for path in planted:
        with pytest.raises(DefinitionNotAccepted, match="is not below|is a link"):
            drop_files(shop, own, path)
        assert (victim / "file").exists() and link.is_symlink(), path
    assert (victim / "file").exists() and link.is_symlink()
    link.unlink()
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "REINITIALIZE"
    assert_exact(shop, "st", QUERY)
