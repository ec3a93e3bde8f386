"""Tables whose folder is gone, whose log cannot be read, or in whose place a link or another table is: the name goes, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.pipeline import in_turn
from tests.spark.statements import answer, folder
from tests.spark.tampering import tamper

from streamtable.catalog.halves import FOLDER
from streamtable.definitions.leftovers import leftovers
from streamtable.errors import (
    DependentsExist,
    DirectWriteRefused,
    InvalidStatement,
    SourceUnavailable,
    StorageFailed,
    StreamTableError,
    StreamTableNotFound,
)
from streamtable.jvm.gateway import java_class

ALL = "SELECT id, amount FROM sales"
GROUPS = "SELECT id, max(amount) AS most FROM sales GROUP BY id HAVING count(*) < 9"
NAME = "spark_catalog.shop.st"


def forgotten(spark: SparkSession) -> None:
    java_class(spark, "org.apache.spark.sql.delta.DeltaLog").clearCache()


@pytest.mark.parametrize("at", in_turn(["", "LOCATION '{}/st'"], ["LOCATION '{}/st'"]))
def test_a_table_whose_folder_is_gone_does_not_block_its_name(shop: SparkSession, tmp_path: Path, at: str) -> None:
    create = f"CREATE STREAM TABLE st {at.format(tmp_path)} AS {GROUPS}"
    shop.sql(create)
    shutil.rmtree(folder(shop, "st"))
    forgotten(shop)
    for statement in (
        create,
        create.replace("CREATE", "CREATE OR REPLACE"),
        create.replace("TABLE", "TABLE IF NOT EXISTS"),
        "REFRESH STREAM TABLE st",
        "ALTER STREAM TABLE st SUSPEND",
        "ALTER STREAM TABLE st RENAME TO other",
        "DESCRIBE STREAM TABLE st",
        "VERIFY STREAM TABLE st",
    ):
        with pytest.raises(SourceUnavailable, match="forget the name: DROP STREAM TABLE `spark_catalog`.`shop`.`st`"):
            shop.sql(statement)
    ((name, status, *nothing, error),) = answer(shop, "SHOW STREAM TABLES")
    assert (name, status, set(nothing)) == (NAME, "UNREADABLE", {None}) and "there is no Delta table at" in error
    assert answer(shop, "SELECT name, status, state, error FROM stream_tables() WHERE name LIKE '%.shop.%'") == [
        (NAME, "UNREADABLE", None, error)
    ]
    assert answer(shop, "DROP TABLE st" if at else "DROP STREAM TABLE st") == [(NAME, "DROPPED")]
    assert answer(shop, "DROP STREAM TABLE IF EXISTS st") == []
    shop.sql(create)
    assert_exact(shop, "st", GROUPS)
    shop.sql("DROP STREAM TABLE st")


def test_an_ordinary_table_whose_folder_is_gone_says_so(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE st (id INT) USING delta")
    shutil.rmtree(folder(shop, "st"))
    forgotten(shop)
    with pytest.raises(SourceUnavailable, match="(?s)where the table .* forget the name: DROP TABLE"):
        shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    with pytest.raises(SourceUnavailable, match="forget the name: DROP TABLE"):
        shop.sql("DROP STREAM TABLE st")
    shop.sql("DROP TABLE st")


@pytest.mark.parametrize("how", ["no log", "no JSON", "a gap"])
def test_a_drop_without_a_log_leaves_the_files_and_names_their_folder(shop: SparkSession, how: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {GROUPS}")
    shop.sql("CREATE STREAM TABLE reader WITH NO DATA AS SELECT id FROM st")
    place = folder(shop, "st")
    log = place / "_delta_log"
    if how == "no log":
        shutil.rmtree(log)
    elif how == "no JSON":
        (log / f"{len(list(log.glob('*.json'))):020}.json").write_text("{")
    else:
        for each in {*log.glob("*.crc"), *log.glob(f"{0:020}*")}:
            each.unlink()
    forgotten(shop)
    before = sorted(place.rglob("*"))
    with pytest.raises(DependentsExist, match="read by spark_catalog.shop.reader"):
        shop.sql("DROP TABLE st")
    shop.sql("DROP STREAM TABLE reader")
    (told,) = answer(shop, "DROP STREAM TABLE st" if how == "no log" else "DROP TABLE st")
    assert told == (NAME, f"DROPPED; kept files that are not the table's: file:{place}")
    assert sorted(place.rglob("*")) == before
    with pytest.raises(InvalidStatement, match="is not empty: it holds"):
        shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shutil.rmtree(place)
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")


def test_a_link_in_place_of_a_folder_is_not_followed(shop: SparkSession, tmp_path: Path) -> None:
    """Whoever may write into the folder of the schema, but not to the victim, cannot have a DROP delete it."""
    shop.sql(f"CREATE STREAM TABLE victim LOCATION '{tmp_path}/victim' AS {GROUPS}")
    before = sorted((tmp_path / "victim").rglob("*"))
    for what in ("folder", "hidden", "log", "moved"):
        shop.sql(f"CREATE STREAM TABLE st AS {GROUPS}")
        place = folder(shop, "st")
        kept = tmp_path / "kept"
        linked = {"folder": place, "hidden": place / "_streamtable", "log": place / "_delta_log", "moved": place}[what]
        shutil.move(linked, kept)
        theirs = kept if what == "moved" else tmp_path / "victim" / linked.relative_to(place)
        linked.symlink_to(theirs)
        forgotten(shop)
        own = sorted(kept.rglob("*"))
        try:
            told = answer(shop, "DROP STREAM TABLE st")
        except StreamTableNotFound:  # another table is there; Spark's DROP TABLE drops what there is
            assert what in ("folder", "log")
            if what == "log":
                shop.sql("DROP TABLE st")
            else:
                with pytest.raises(DirectWriteRefused, match=r"files of the stream table .*victim(.|\n)*remove a link"):
                    shop.sql("DROP TABLE st")
        else:
            assert told[0][1].startswith("DROPPED"), (what, told)
        assert sorted((tmp_path / "victim").rglob("*")) == before, what
        assert sorted(kept.rglob("*")) == own, what
        shutil.rmtree(kept)
        if place.is_symlink():
            place.unlink()
        shutil.rmtree(place, ignore_errors=True)
        forgotten(shop)
        shop.sql("DROP STREAM TABLE IF EXISTS st")
    assert_exact(shop, "victim", GROUPS)
    shop.sql("DROP STREAM TABLE victim")


@pytest.mark.parametrize("there", in_turn([True, False], [True]))
def test_a_link_is_no_place_for_a_new_table(shop: SparkSession, tmp_path: Path, there: bool) -> None:
    """DROP follows no link, and could not take back what a CREATE made behind one."""
    behind = tmp_path / "behind"
    if there:
        behind.mkdir()
    (tmp_path / "link").symlink_to(behind)
    managed = folder(shop, "sales").parent / "st"
    managed.symlink_to(behind)
    shop.sql(f"CREATE STREAM TABLE kept AS {ALL}")
    for statement in (
        f"CREATE STREAM TABLE other LOCATION '{tmp_path}/link' AS {ALL}",
        f"CREATE STREAM TABLE st AS {ALL}",
        "CREATE QUEUE st ON sales",
        "ALTER STREAM TABLE kept RENAME TO st",
    ):
        with pytest.raises(InvalidStatement, match="is a symbolic link"):
            shop.sql(statement)
    assert list(behind.rglob("*")) == []
    managed.unlink()
    (tmp_path / "through").symlink_to(tmp_path)
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{tmp_path}/through/st' AS {ALL}")  # a link on the way there is the owner's
    assert answer(shop, "DROP STREAM TABLE st") == [(NAME, "DROPPED")]
    assert not (tmp_path / "st").exists()


def test_a_second_name_that_was_accepted_takes_no_files_along(shop: SparkSession) -> None:
    """Whoever may write the folder made the definition that of the second name, had it accepted, and put the first one back."""
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    place = folder(shop, "st")
    kept = dict(answer(shop, "SHOW TBLPROPERTIES st"))
    names = {key: kept[key] for key in ("streamtable.definition", "streamtable.name")}
    shop.sql(f"CREATE TABLE second USING delta LOCATION '{place}'")
    tamper(
        place,
        **{
            key: value.replace("st", "second", 1) if key.endswith("name") else value.replace("`st`", "`second`", 1)
            for key, value in names.items()
        },
    )
    assert answer(shop, "ALTER STREAM TABLE second ACCEPT DEFINITION") == [("spark_catalog.shop.second", "ACTIVE")]
    tamper(place, **names)
    before = sorted(place.rglob("*"))
    (told,) = answer(shop, "DROP STREAM TABLE second")
    assert told == ("spark_catalog.shop.second", f"DROPPED; kept files that are not the table's: file:{place}")
    assert sorted(place.rglob("*")) == before
    assert_exact(shop, "st", ALL)
    assert answer(shop, "DROP STREAM TABLE st") == [(NAME, "DROPPED")]


def test_links_do_not_lead_the_probe_or_an_intent_elsewhere(shop: SparkSession, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "drop").write_text("kept")
    home = folder(shop, "sales").parent
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    hidden = folder(shop, "st") / "_streamtable"
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.symlink_to(theirs)
    (home / FOLDER).symlink_to(theirs)
    with pytest.raises(StorageFailed, match="is a link"):
        shop.sql("DROP STREAM TABLE st")
    assert [each.name for each in theirs.iterdir()] == ["drop"]
    (home / FOLDER).unlink()
    assert answer(shop, "DROP STREAM TABLE st") == [(NAME, "DROPPED")]
    assert (theirs / "drop").read_text() == "kept" and len(list(theirs.iterdir())) == 1


def test_objects_whose_folders_are_gone_say_how_the_name_becomes_free(shop: SparkSession) -> None:
    objects = {"QUEUE": "ON sales", "PUBLICATION": "FOR TABLE sales"}
    for noun, more in objects.items():
        shop.sql(f"CREATE {noun} o {more}")
        shutil.rmtree(folder(shop, "o"))
        forgotten(shop)
        for statement in (f"CREATE {noun} o {more}", f"DROP {noun} o"):
            with pytest.raises(StreamTableError, match="forget the name by DROP TABLE `spark_catalog`.`shop`.`o`"):
                shop.sql(statement)
        shop.sql("DROP TABLE o")
        shop.sql(f"CREATE {noun} o {more}")
        shop.sql(f"DROP {noun} o")


def test_no_statement_names_a_queue_or_a_subscription_by_a_path(shop: SparkSession, tmp_path: Path) -> None:
    for statement in (
        "CREATE QUEUE {} ON sales",
        "REGISTER CONSUMER w ON {}",
        "NEXT BATCH FROM {} FOR w",
        "CREATE SUBSCRIPTION {} CONNECTION 'database=shop' PUBLICATION p",
        "APPLY SUBSCRIPTION {}",
    ):
        with pytest.raises(InvalidStatement, match="cannot be named by a path"):
            shop.sql(statement.format(f"delta.`{tmp_path}/o`"))


def test_doctor_forgets_no_name_of_others_and_none_while_the_storage_is_not_mounted(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("CREATE TABLE theirs (id INT) USING delta")
    home = folder(shop, "sales").parent
    shutil.rmtree(home / "theirs")
    forgotten(shop)
    assert list(leftovers(shop)) == []
    home.rename(home.with_suffix(".away"))
    forgotten(shop)
    assert list(leftovers(shop)) == []
    home.with_suffix(".away").rename(home)
    forgotten(shop)
    assert_exact(shop, "st", ALL)
    shop.sql("DROP TABLE theirs")


def test_files_that_were_written_and_not_committed_stay_at_a_location_and_are_named(shop: SparkSession, tmp_path: Path) -> None:
    """Nobody can tell whose they are; VACUUM deletes them while the table is there, and DROP in a folder of the catalog's own."""
    for at in ("", f"LOCATION '{tmp_path}/st'"):
        shop.sql(f"CREATE STREAM TABLE st {at} AS {ALL}")
        place = folder(shop, "st")
        written = min(place.glob("part-*.parquet"))
        left = place / written.name.replace("part-0", "part-1")
        shutil.copy(written, left)
        (told,) = answer(shop, "DROP STREAM TABLE st")
        named = f"DROPPED; kept files that are not the table's: file:{left}" if at else "DROPPED"
        assert told == (NAME, named)
        assert left.exists() == bool(at)
