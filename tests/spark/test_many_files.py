"""Tables of more files than Delta's checksum lists: their size, their files and their refreshes are as of those of few files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact, bag, bag_of
from tests.pipeline import in_turn
from tests.spark.statements import folder, jobs, version

from streamtable.delta.rows import read
from streamtable.delta.tables import size

LISTED = "spark.databricks.delta.allFilesInCrc.thresholdNumFiles"
CHANGES = (
    "DELETE FROM {t} WHERE k % 100 = 7",  # a deletion vector for each file
    "UPDATE {t} SET v = -v WHERE k < 20",
    "INSERT INTO {t} VALUES (7, 7), (7, 7), (NULL, 1)",
    "DELETE FROM {t} WHERE k % 100 = 8",  # another one
    "OPTIMIZE {t}",
    "DELETE FROM {t} WHERE k < 300",
    "RESTORE TABLE {t} TO VERSION AS OF 2",  # files come back
    "INSERT OVERWRITE {t} SELECT /*+ REPARTITION(5) */ id, id FROM range(50)",
    "TRUNCATE TABLE {t}",
    "INSERT INTO {t} SELECT /*+ REPARTITION(6) */ id, 2 * id FROM range(60)",
)


@pytest.fixture
def many(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session, in a database of its own, in which three files are many."""
    spark.conf.set(LISTED, "2")
    spark.sql("CREATE DATABASE many_files")
    spark.sql("USE many_files")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE many_files CASCADE")
    spark.conf.unset(LISTED)


def numbered(spark: SparkSession, name: str, files: int = 8) -> str:
    """Create a table with 800 rows in so many files; return where it is."""
    spark.sql(f"CREATE TABLE {name} (k BIGINT, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO {name} SELECT /*+ REPARTITION({files}) */ id, id FROM range(800)")
    return folder(spark, name).as_uri()


def test_files_of_a_version_are_listed_by_the_log_from_those_of_one_before(many: SparkSession) -> None:
    place = numbered(many, "t")

    def read_at(number: int) -> int:
        before = jobs(many)
        frame = read(many, place, number)
        listed = jobs(many) - before
        assert bag_of(frame) == bag(many, f"SELECT * FROM t VERSION AS OF {number}"), f"version {number}"
        return listed

    assert read_at(1) > 0, "nothing of the table was known"
    for number, change in enumerate(CHANGES, 2):
        many.sql(change.format(t="t"))
        assert version(many, "t") == number
        assert read_at(number) == 0, change
    for number in reversed(range(2, version(many, "t") + 1)):
        assert read_at(number) == 0, "it was read before"


@pytest.mark.parametrize("lost", in_turn([(), (2, 3)], [(2, 3)]))
def test_several_commits_at_once_and_a_log_that_begins_after_what_is_known(many: SparkSession, lost: tuple[int, ...]) -> None:
    place = numbered(many, "t")
    read(many, place, 1)
    for change in CHANGES:
        many.sql(change.format(t="t"))
    for number in lost:  # there is a checkpoint of version 10
        (folder(many, "t") / "_delta_log" / f"{number:020}.json").unlink()
    last, before = version(many, "t"), jobs(many)
    frame = read(many, place, last)
    assert (jobs(many) > before) is bool(lost), "what the log does not have is looked for in Delta's state"
    assert bag_of(frame) == bag(many, "SELECT * FROM t")


def test_a_copied_folder_is_another_table(many: SparkSession, tmp_path: Path) -> None:
    place = numbered(many, "t")
    read(many, place, 1)
    shutil.copytree(folder(many, "t"), tmp_path / "copy")
    copy = f"delta.`{tmp_path}/copy`"
    many.sql("DELETE FROM t WHERE k < 100")
    many.sql(f"DELETE FROM {copy} WHERE k >= 100")
    assert bag_of(read(many, place, 2)) == bag(many, "SELECT * FROM t")
    assert bag_of(read(many, (tmp_path / "copy").as_uri(), 2)) == bag(many, f"SELECT * FROM {copy}")


def test_rows_are_estimated_until_the_files_are_known(many: SparkSession) -> None:
    place = numbered(many, "t")

    def rows(number: int) -> int:
        before = jobs(many)
        found = size(many, place, number)
        assert found is not None and found.bytes > 0 and jobs(many) == before
        return found.rows

    assert rows(1) == 800, "the commit has the rows of all files"
    many.sql("INSERT INTO t VALUES (1, 1)")
    assert 0 < rows(2) != 801, "estimated by the one row"
    many.sql("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')")
    assert 0 < rows(3) != 801, "estimated by the columns"
    read(many, place, 3)
    assert rows(3) == 801
    many.sql("DELETE FROM t WHERE k < 100")
    assert rows(4) == 700


def test_a_refresh_is_planned_as_for_few_files(many: SparkSession) -> None:
    query = "SELECT t.k, t.v, n.name FROM {0} t JOIN {0}_names n ON t.k = n.k"
    taken = {}
    for name, files in (("few", 2), ("lots", 8)):
        numbered(many, name, files)
        many.sql(
            f"CREATE TABLE {name}_names USING delta AS SELECT /*+ REPARTITION({files}) */ id AS k, 'x' AS name FROM range(800)"
        )
        many.sql(f"CREATE STREAM TABLE {name}_joined AS {query.format(name)}")
        for change in CHANGES[:3]:
            many.sql(change.format(t=name))
            before = jobs(many)
            refreshed = many.sql(f"REFRESH STREAM TABLE {name}_joined").first()
            taken[name] = jobs(many) - before
            assert refreshed is not None and refreshed["action"] == "DIFFERENTIAL"
            assert_exact(many, f"{name}_joined", query.format(name))
    assert taken["lots"] == taken["few"]
