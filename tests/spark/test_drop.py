"""Only what is the table's own is deleted; what is left half done by a killed statement, or by earlier releases, is found and mended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, folder
from tests.spark.tampering import tamper

from streamtable.catalog import intents, objects
from streamtable.catalog.halves import FOLDER, ID, Kind, Part, forget, marked, properties_at
from streamtable.catalog.intents import intended
from streamtable.catalog.kinds import SLOT, SUBSCRIPTION
from streamtable.definitions import create
from streamtable.definitions.accompany import accompany
from streamtable.definitions.leftovers import leftovers
from streamtable.delta.ddl import as_engine
from streamtable.delta.tables import find_table
from streamtable.errors import InvalidStatement, SourceUnavailable, StorageFailed, StreamTableError, StreamTableNotFound
from streamtable.jvm.gateway import java_class
from streamtable.language.names import Name

ALL = "SELECT id, amount FROM sales"
GROUPS = "SELECT id, max(amount) AS most FROM sales GROUP BY id HAVING count(*) < 9"
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def in_folder(place: Path) -> set[str]:
    return {each.name for each in place.iterdir()} if place.exists() else set()


def test_drop_of_a_table_with_a_location_leaves_what_others_put_there(shop: SparkSession, tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{place}' AS {GROUPS}")
    shop.sql("UPDATE sales SET amount = 11 WHERE id = 1")
    shop.sql("REFRESH STREAM TABLE st")
    (place / "notes.txt").write_text("mine")
    (place / "link").symlink_to(outside)
    (place / "_streamtable" / "link").symlink_to(outside)
    own = {each.name for each in place.glob("part-*")}
    shop.range(3).write.parquet(str(tmp_path / "made"))
    shutil.copytree(tmp_path / "made", place, dirs_exist_ok=True)  # files that are called like Delta's
    shop.range(3).write.format("delta").save(str(place / "inner"))
    ((name, status),) = answer(shop, "DROP STREAM TABLE st")
    assert name == "spark_catalog.shop.st"
    assert status.startswith("DROPPED; kept files") and all(f"{place}/{each}" in status for each in ("notes.txt", "link", "inner"))
    left = in_folder(place)
    assert {"notes.txt", "link", "inner", "_SUCCESS"} <= left and not {"_delta_log", "_streamtable", "_change_data"} & left
    assert not own & left
    assert (outside / "kept.txt").read_text() == "kept"
    assert shop.read.format("delta").load(str(place / "inner")).count() == 3
    assert shop.read.parquet(*(str(each) for each in place.glob("part-*"))).count() == 3


@pytest.mark.parametrize("clause", in_turn(["PARTITIONED BY (id)", MAPPED, ""], [MAPPED]))
def test_drop_leaves_no_folder(shop: SparkSession, tmp_path: Path, clause: str) -> None:
    for location in ("", f"LOCATION '{tmp_path}/place'"):
        shop.sql(f"CREATE STREAM TABLE st {location} {clause} AS {ALL}")
        shop.sql("UPDATE sales SET amount = amount + 1")
        shop.sql("REFRESH STREAM TABLE st")
        place = folder(shop, "st")
        assert answer(shop, "DROP STREAM TABLE st") == [("spark_catalog.shop.st", "DROPPED")]
        assert not place.exists()


def test_a_folder_that_is_not_empty_is_named(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    place = folder(shop, "st")
    (place / "notes.txt").write_text("mine")
    assert "notes.txt" in answer(shop, "DROP STREAM TABLE st")[0][1]
    for statement in (f"CREATE STREAM TABLE st AS {ALL}", "CREATE QUEUE st (body STRING)"):
        with pytest.raises(InvalidStatement, match=r"is not empty: it holds notes\.txt"):
            shop.sql(statement)
    (place / "notes.txt").unlink()
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that becomes read-only when `mount -o remount,ro` is said of it."""
    place = tmp_path / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_storage_that_does_not_let_go_keeps_the_table(shop: SparkSession, read_only: Path) -> None:
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{read_only}/st' AS {ALL}")
    subprocess.run(["mount", "-o", "remount,ro", read_only], check=True)
    with pytest.raises(StorageFailed, match="Read-only file system"):
        shop.sql("DROP STREAM TABLE st")
    assert_exact(shop, "st", ALL)
    shop.sql("DELETE FROM sales WHERE id = 3")
    with pytest.raises(StreamTableError, match="Read-only file system"):
        shop.sql("REFRESH STREAM TABLE st")
    subprocess.run(["mount", "-o", "remount,rw", read_only], check=True)
    assert answer(shop, "DROP STREAM TABLE st") == [("spark_catalog.shop.st", "DROPPED")]
    assert not in_folder(read_only)


def test_a_name_that_the_catalog_refuses_leaves_nothing(shop: SparkSession) -> None:
    home = folder(shop, "sales").parent
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    before = in_folder(home)
    for name in ("`a b`", "`ä`", "`a.b`", "`a/b`"):
        for statement in (
            f"CREATE STREAM TABLE {name} AS {ALL}",
            f"CREATE QUEUE {name} (body STRING)",
            f"CREATE PUBLICATION {name} FOR TABLE sales",
            f"ALTER STREAM TABLE st RENAME TO {name}",
        ):
            with pytest.raises(InvalidStatement, match="letters, digits and underscores|cannot be named by a path"):
                shop.sql(statement)
            assert in_folder(home) == before, statement
    assert_exact(shop, "st", ALL)


def test_intents_of_statements_that_run_are_left_alone(shop: SparkSession) -> None:
    """Those of another process here that lives and of another machine are; those of a process that is gone or says nothing are not."""
    home = folder(shop, "sales").parent
    path = f"file:{home}/no"
    with intended(shop, Kind.CREATE, Part(("spark_catalog", "shop", "no"), path, ("streamtable.id", "none"))):
        (file,) = (home / FOLDER).glob("*.json")
        machine, pid, started, number = file.stem.split("-")
        text = file.read_text()
        assert list(intents.dead(shop, f"file:{home}")) == []
    assert not (home / FOLDER).exists()
    now = time.time()
    init = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    for owner, at, is_dead in (
        (f"{machine}-{pid}-{started}", now, True),
        (f"{machine}-1-{init}", now, False),
        (f"{machine}-1-{init}0", now, True),
        (f"{machine}-999999999-1", now, True),
        ("elsewhere-1-1", now, False),
        ("elsewhere-1-1", now - 600, True),
    ):
        (home / FOLDER).mkdir()
        left = home / FOLDER / f"{owner}-{number}.json"
        left.write_text(text)
        os.utime(left, (at, at))
        assert [each.name for each in intents.dead(shop, f"file:{home}")] == ["spark_catalog.shop.no"] * is_dead, (owner, at)
        left.unlink()
        (home / FOLDER).rmdir()


def planted(shop: SparkSession, kind: Kind, *parts: Part) -> Path:
    """Write an intent as somebody may who can write into the folder of the schema, and nothing else."""
    home = folder(shop, "sales").parent
    with intended(shop, Kind.CREATE, Part(("spark_catalog", "shop", "no"), f"file:{home}/no", ("streamtable.id", "none"))):
        (file,) = (home / FOLDER).glob("*.json")
        told = json.loads(file.read_text())
    file = home / FOLDER / "elsewhere-1-1-0.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({**told, "kind": kind.value, "parts": [asdict(part) for part in parts]}))
    os.utime(file, (time.time() - 600, time.time() - 600))
    return file


def test_an_intent_that_somebody_planted_harms_nobody_elsewhere(shop: SparkSession, tmp_path: Path) -> None:
    shop.sql(f"CREATE TABLE theirs USING delta LOCATION '{tmp_path}/theirs' AS SELECT 1 AS one")
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{tmp_path}/st' AS {ALL}")
    shop.range(3).write.format("delta").save(f"{tmp_path}/unnamed")
    shop.range(3).write.parquet(f"{tmp_path}/plain")
    (tmp_path / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "_delta_log" / f"{7:020}.json").write_text("{}")
    (tmp_path / "broken" / "_streamtable").mkdir()
    (tmp_path / "theirs" / "_streamtable" / "kept").mkdir(parents=True)
    before = sorted(map(str, tmp_path.rglob("*")))
    for place in ("theirs", "st", "unnamed", "plain", "broken"):
        path = f"file:{tmp_path}/{place}"
        named, unnamed = ("spark_catalog", "shop", place), ("spark_catalog", "shop", "nobody")
        found = properties_at(shop, path)
        mark = (key := "streamtable.id" if "streamtable.id" in found else ID, found.get(key, ""))
        for name in (named, unnamed):
            for kind in (Kind.CREATE, Kind.DROP):
                first = Part(unnamed, f"file:{tmp_path}/nothing", mark)
                file = planted(shop, kind, first, Part(name, path, mark))
                shop.sql("DROP STREAM TABLE IF EXISTS other")
                assert sorted(map(str, tmp_path.rglob("*"))) == before, (place, name, kind)
                assert file.exists() == (place == "broken"), (place, name, kind)
                file.unlink(missing_ok=True)
            file = planted(shop, Kind.REPLACE, Part(name, path, (ID, "another")))
            shop.sql("DROP STREAM TABLE IF EXISTS other")
            assert sorted(map(str, tmp_path.rglob("*"))) == before, (place, name)
            file.unlink(missing_ok=True)
    assert shop.table("theirs").count() == 1
    assert_exact(shop, "st", ALL)


@pytest.fixture
def extra(shop: SparkSession) -> Iterator[Path]:
    """Give the folder of another schema, with a publication, and with the slot of a subscription in the shop."""
    shop.sql("CREATE DATABASE extra")
    for schema in ("extra", "shop"):
        shop.sql(f"CREATE TABLE {schema}.parts (id INT) USING delta")
    shop.sql("CREATE PUBLICATION extra.goods FOR TABLE extra.parts")
    shop.sql("CREATE SUBSCRIPTION shelf CONNECTION 'database=extra' PUBLICATION goods WITH (slot_name = 'shelf')")
    yield folder(shop, "extra.parts").parent
    shop.sql("DROP SUBSCRIPTION IF EXISTS shelf")
    shop.sql("DROP DATABASE extra CASCADE")


def test_an_intent_that_somebody_planted_deletes_no_backup_and_no_object_of_another_schema(
    shop: SparkSession, extra: Path, tmp_path: Path
) -> None:
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{tmp_path}/st' AS {ALL}")
    shop.sql(f"CREATE STREAM TABLE inside AS {ALL}")
    shutil.copytree(tmp_path / "st", tmp_path / "a backup")
    shutil.copytree(folder(shop, "inside"), tmp_path / "backup of inside")
    shutil.copytree(extra / "goods", tmp_path / "backup of goods")
    home = folder(shop, "inside").parent
    shop.sql("DROP STREAM TABLE inside")
    before = sorted(map(str, [*tmp_path.rglob("*"), *extra.rglob("*")]))
    for schema, name, place in (
        ("shop", "st", tmp_path / "a backup"),
        ("shop", "inside", tmp_path / "backup of inside"),
        ("extra", "goods", tmp_path / "backup of goods"),
        ("extra", "goods", extra / "goods"),
        ("extra", "shelf", extra / "shelf"),
    ):
        found = properties_at(shop, f"file:{place}")
        (own,) = (key for key in found if key == "streamtable.id" or key.startswith("streamtable.object."))
        for kind, called, key in (
            (Kind.DROP, name, ID),
            (Kind.DROP, "nobody", ID),
            (Kind.CREATE, name, own),
            (Kind.DROP, name, "delta.checkpointInterval"),
        ):
            first = Part(("spark_catalog", "shop", "nobody"), f"file:{home}/nobody", (ID, "none"))
            file = planted(shop, kind, first, Part(("spark_catalog", schema, called), f"file:{place}", (key, found[key])))
            shop.sql("DROP STREAM TABLE IF EXISTS other")
            assert sorted(map(str, [*tmp_path.rglob("*"), *extra.rglob("*")])) == before, (called, place, key, kind)
            assert file.exists() == (key == "delta.checkpointInterval"), "many tables have it: doctor names the file"
            file.unlink(missing_ok=True)
    assert [row.name for row in shop.sql("SELECT name FROM publications()").collect()] == ["spark_catalog.extra.goods"]
    assert_exact(shop, "st", ALL)


def test_a_killed_drop_of_a_subscription_takes_the_slot_of_another_schema_along(shop: SparkSession, extra: Path) -> None:
    """Only the catalog tells the token of the slot, by which its intent is believed."""
    stored = [objects.load(shop, kind, Name((schema, "shelf"))) for kind, schema in ((SUBSCRIPTION, "shop"), (SLOT, "extra"))]
    file = planted(shop, Kind.DROP, *(objects._dropping(shop, each) for each in stored))
    forget(shop, ("spark_catalog", "shop", "shelf"))  # this is how far it came
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not file.exists() and not (folder(shop, "sales").parent / "shelf").exists()
    assert not (extra / "shelf").exists() and find_table(shop, ("extra", "shelf")).kind == "none"


def test_what_came_to_a_location_after_a_create_was_killed_is_somebodys(
    shop: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted by the names of the files, which are those of all that Spark writes."""
    place, told = tmp_path / "place", list[Part]()

    def recorded(spark: SparkSession, kind: Kind, *parts: Part) -> AbstractContextManager[None]:
        told.extend(parts)
        return intended(spark, kind, *parts)

    monkeypatch.setattr(create, "intended", recorded)
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{place}' AS {ALL}")
    (ours,) = list(place.glob("part-*"))[:1]
    began = ours.with_name(ours.name.replace(ours.name[11:19], "00000000"))  # as a write leaves it that was killed
    shutil.copy(ours, began)
    os.utime(began, (time.time() - 600, time.time() - 600))
    planted(shop, Kind.CREATE, *told)
    forget(shop, told[0].name)
    shop.range(3).write.parquet(str(tmp_path / "made"))
    shutil.copytree(tmp_path / "made", place, dirs_exist_ok=True)
    made = time.time()
    for each in (tmp_path / "made").iterdir():
        os.utime(place / each.name, (made, made))
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not began.exists() and "_delta_log" not in in_folder(place)
    assert {each for each in in_folder(place) if each[0] != "."} == {
        each for each in in_folder(tmp_path / "made") if each[0] != "."
    }
    assert shop.read.parquet(*(str(each) for each in place.glob("part-*"))).count() == 3


def test_a_killed_create_or_replace_table_leaves_the_stream_table_or_nothing_of_it(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {GROUPS}")
    place, located = folder(shop, "st"), find_table(shop, ("spark_catalog", "shop", "st"))
    part = marked(shop, located.name, located.path)
    file = planted(shop, Kind.REPLACE, part)
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not file.exists() and in_folder(place / "_streamtable")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    planted(shop, Kind.REPLACE, part)
    with as_engine(shop):  # this is how far a killed statement came
        shop.sql("CREATE OR REPLACE TABLE st USING delta AS SELECT 1 AS id")
    assert find_table(shop, located.name).accepted and in_folder(place / "_streamtable")
    place.rename(place.with_suffix(".away"))
    java_class(shop, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert file.exists()
    place.with_suffix(".away").rename(place)
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not find_table(shop, located.name).accepted and not in_folder(place / "_streamtable")
    assert shop.table("st").count() == 1


def test_a_killed_create_or_replace_table_leaves_no_hidden_state_where_the_table_is_dropped(
    shop: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{place}' AS {GROUPS}")
    located = find_table(shop, ("spark_catalog", "shop", "st"))
    file = planted(shop, Kind.REPLACE, marked(shop, located.name, located.path))
    with as_engine(shop):
        shop.sql("CREATE OR REPLACE TABLE st USING delta AS SELECT 1 AS id")
    shop.sql("DROP TABLE st")
    assert in_folder(place / "_streamtable")
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not in_folder(place / "_streamtable") and not file.exists()
    assert shop.read.format("delta").load(str(place)).count() == 1


def test_a_killed_rename_waits_for_its_table_to_be_readable(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    place, located = folder(shop, "st"), find_table(shop, ("spark_catalog", "shop", "st"))
    mark = ("streamtable.id", properties_at(shop, located.path)["streamtable.id"])
    moved = Part((*located.name[:2], "moved"), f"{located.path.rpartition('/')[0]}/moved", mark)
    file = planted(shop, Kind.RENAME, Part(located.name, located.path, mark), moved)
    away = place.rename(place.with_name("away"))
    java_class(shop, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    with pytest.raises(SourceUnavailable, match="may have moved it"):
        shop.sql(f"CREATE STREAM TABLE moved AS {ALL}")
    assert file.exists()
    away.rename(place.with_name("moved"))
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not file.exists() and not place.with_name("moved").exists()
    assert_exact(shop, "st", ALL)


def renaming(shop: SparkSession) -> tuple[Path, Path]:
    """Make a stream table whose RENAME was killed when it had moved the folder; return the intent, and the folder."""
    shop.sql(f"CREATE STREAM TABLE st AS {GROUPS}")
    place, located = folder(shop, "st"), find_table(shop, ("spark_catalog", "shop", "st"))
    mark = ("streamtable.id", properties_at(shop, located.path)["streamtable.id"])
    after = Part((*located.name[:2], "moved"), f"{located.path.rpartition('/')[0]}/moved", mark)
    file = planted(shop, Kind.RENAME, Part(located.name, located.path, mark), after)
    place = place.rename(place.with_name("moved"))
    java_class(shop, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    return file, place


def test_a_drop_takes_the_folder_along_that_a_killed_rename_had_moved(shop: SparkSession) -> None:
    home, named = folder(shop, "sales").parent, ("spark_catalog.shop.st", "DROPPED")
    renaming(shop)
    assert answer(shop, "DROP STREAM TABLE st") == [named]
    assert in_folder(home) == {"sales"}
    file, moved = renaming(shop)
    (home / "st").mkdir()
    (home / "st" / "notes.txt").write_text("mine")  # so that it cannot go back
    (told,) = answer(shop, "DROP STREAM TABLE st")
    assert told[1].startswith("DROPPED; kept files") and told[1].endswith("/st")
    assert not moved.exists() and in_folder(home / "st") == {"notes.txt"}
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not file.exists()
    (home / "st" / "notes.txt").unlink()
    (home / "st").rmdir()


def test_doctor_finds_the_table_of_a_killed_rename_whose_name_was_dropped(shop: SparkSession) -> None:
    file, moved = renaming(shop)
    away = moved.rename(moved.with_name("away"))
    forget(shop, ("spark_catalog", "shop", "st"))  # as DROP does while nobody can read the table
    away.rename(moved)
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not file.exists() and not moved.exists()
    (found,) = leftovers(shop)
    assert found.mend and "a whole table that the catalog does not know" in found.found
    found.mend()
    shop.sql("ALTER STREAM TABLE st ACCEPT DEFINITION")
    assert_exact(shop, "st", GROUPS)


@pytest.mark.parametrize("again", [False, True], ids=["its name is free", "another table has its name"])
def test_a_killed_drop_is_finished_when_its_storage_is_back(
    shop: SparkSession, tmp_path: Path, again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If another table has its name by then, its files stay: an intent that somebody planted would say the same."""
    storage = tmp_path / "mounted"
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{storage}/st' AS {GROUPS}")
    located = find_table(shop, ("spark_catalog", "shop", "st"))
    file = planted(shop, Kind.DROP, replace(marked(shop, located.name, located.path), alone=False))
    forget(shop, located.name)
    away = storage.rename(tmp_path / "away")
    storage.mkdir()  # the place where it was mounted
    java_class(shop, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    if again:
        shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    (found,) = leftovers(shop)
    assert file.exists() and "DROP of spark_catalog.shop.st was not finished" in found.found and found.mend
    with pytest.raises(SourceUnavailable, match="unknown whether files of spark_catalog.shop.st are left"):
        found.mend()
    storage.rmdir()
    away.rename(storage)
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert not file.exists() and in_folder(storage) == ({"st"} if again else set())
    if again:
        assert "as it is: nothing says that the files are those of its table" in caplog.text
        assert_exact(shop, "st", ALL)


def test_a_drop_schema_that_is_killed_leaves_nothing_of_ours(shop: SparkSession) -> None:
    make = (f"CREATE STREAM TABLE extra.st AS {GROUPS}", "CREATE QUEUE extra.jobs (body STRING)")
    shop.sql("CREATE DATABASE extra")
    for statement in make:
        shop.sql(statement)
    home = folder(shop, "extra.st").parent

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        accompany(shop, "DROP SCHEMA", ("spark_catalog", "extra"), killed)
    assert in_folder(home) == set(), "Spark deletes a folder that holds nothing of ours any more"
    for statement in make:
        shop.sql(statement)
    parts = [marked(shop, located.name, located.path) for located in (find_table(shop, ("extra", each)) for each in ("st", "jobs"))]
    file = planted(shop, Kind.DROP, *parts)  # and killed between the two names
    (home / FOLDER).mkdir()
    file.rename(home / FOLDER / file.name)
    file.parent.rmdir()
    forget(shop, ("spark_catalog", "extra", "st"))
    assert answer(shop, "DROP DATABASE extra CASCADE") == []
    assert not home.exists()


def test_drop_schema_leaves_to_spark_what_others_put_at_a_location_in_its_folder(shop: SparkSession, tmp_path: Path) -> None:
    """Files that are called like Delta's were deleted, and so was a table whose definition nobody can read."""
    shop.sql("CREATE DATABASE extra")
    shop.sql(f"CREATE STREAM TABLE extra.st AS {GROUPS}")
    home = folder(shop, "extra.st").parent
    place = home / "place"
    shop.sql(f"CREATE STREAM TABLE extra.located LOCATION '{place}' AS {GROUPS}")
    shop.sql(f"CREATE STREAM TABLE extra.strange AS {GROUPS}")
    tamper(home / "strange", **{"streamtable.definition": "CREATE STREAM TABLE of somebody else"})
    own = {each.name for each in place.glob("part-*")}
    shop.range(3).write.parquet(str(tmp_path / "made"))
    for each in (home / "st", place):
        shutil.copytree(tmp_path / "made", each, dirs_exist_ok=True)

    def fails() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        accompany(shop, "DROP SCHEMA", ("spark_catalog", "extra"), fails)
    assert not list((home / "st").glob("part-*")) and not in_folder(place) & {"_delta_log", "_streamtable", *own}
    assert shop.read.parquet(*(str(each) for each in place.glob("part-*"))).count() == 3
    assert "_delta_log" in in_folder(home / "strange")
    shop.sql("DROP DATABASE extra CASCADE")
    assert answer(shop, "SHOW DATABASES LIKE 'extra'") == []


def test_what_lies_beside_intents_is_in_nobodys_way(shop: SparkSession) -> None:
    beside = folder(shop, "sales").parent / FOLDER
    beside.mkdir()
    for name in ("notes.json", ".DS_Store", "a-b-c-d.json"):
        (beside / name).write_text("mine")
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("DROP STREAM TABLE st")
    assert len(in_folder(beside)) == 3
    subprocess.run(["rm", "-r", beside], check=True)


def test_an_empty_folder_of_intents_that_a_kill_left_goes_with_the_next_statement(shop: SparkSession) -> None:
    left = folder(shop, "sales").parent / FOLDER
    left.mkdir()
    shop.sql("DROP STREAM TABLE IF EXISTS st")
    assert not left.exists()


def test_a_file_that_is_no_intent_is_in_nobodys_way_and_doctor_lists_it(shop: SparkSession) -> None:
    file = planted(shop, Kind.CREATE, Part(("spark_catalog", "shop", "no"), "file:/nowhere", ("streamtable.id", "none")))
    for text in ("{}", "[]", json.dumps({**json.loads(file.read_text()), "kind": "X"})):
        file.write_text(text)
        os.utime(file, (time.time() - 600, time.time() - 600))
        shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
        shop.sql("DROP STREAM TABLE st")
        with pytest.raises(StreamTableNotFound):
            shop.sql("REFRESH STREAM TABLE st")
        (listed,) = leftovers(shop)
        assert listed.mend is None and file.name in listed.found
    file.unlink()
    file.parent.rmdir()


def test_a_table_that_came_to_the_place_of_a_killed_create_is_somebodys(shop: SparkSession, tmp_path: Path) -> None:
    part = Part(("spark_catalog", "shop", "st"), f"file:{tmp_path}/place", ("streamtable.id", "none"))
    planted(shop, Kind.CREATE, part)
    shop.range(3).write.format("delta").save(f"{tmp_path}/place")
    shop.sql("DROP STREAM TABLE IF EXISTS other")
    assert shop.read.format("delta").load(f"{tmp_path}/place").count() == 3


def test_doctor_finds_what_earlier_releases_left(shop: SparkSession) -> None:
    home = folder(shop, "sales").parent
    for name in ("whole", "lost", "moved"):
        shop.sql(f"CREATE STREAM TABLE {name} AS {GROUPS}")
    shop.sql(f"CREATE STREAM TABLE empty WITH NO DATA AS {ALL}")
    shop.sql("CREATE QUEUE jobs (body STRING)")
    assert list(leftovers(shop)) == []
    for name in ("whole", "empty"):
        forget(shop, ("spark_catalog", "shop", name))
    subprocess.run(["rm", "-r", home / "lost", home / "jobs" / "_delta_log"], check=True)
    (home / "jobs" / "_streamtable").mkdir(exist_ok=True)
    forget(shop, ("spark_catalog", "shop", "jobs"))
    (home / "moved").rename(home / "elsewhere")
    (home / "half" / "_delta_log").mkdir(parents=True)
    (home / "theirs").mkdir()
    (home / "theirs" / "notes.txt").write_text("mine")
    found = list(leftovers(shop))
    assert len(found) == 6, [each.found for each in found]
    for each in found:
        assert each.mend
        each.mend()
    assert list(leftovers(shop)) == []
    assert_exact(shop, "whole", GROUPS)
    assert_exact(shop, "moved", GROUPS)
    assert in_folder(home) == {"sales", "whole", "moved", "theirs"}
    with pytest.raises(StreamTableNotFound):
        shop.sql("REFRESH STREAM TABLE lost")
    shop.sql(f"CREATE STREAM TABLE lost AS {ALL}")
    subprocess.run(["rm", "-r", home / "theirs"], check=True)
