"""What a source is to a query: its layout, its names in the files, the session that names it, and the order of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import done
from tests.versions import needs

from streamtable import subscribe
from streamtable.delta.rows import change_set, read
from streamtable.errors import DependencyCycle, HistoryLost, InvalidStatement, NotIncremental, StreamTableError


def test_a_source_gets_other_partitions_and_keeps_its_id(shop: SparkSession, tmp_path: Path) -> None:
    """Files of before were read as if they had no value of the partition: rows that went were taken for others."""
    place = f"{tmp_path}/laid"
    shop.sql(f"CREATE TABLE laid (p INT, v STRING) USING delta PARTITIONED BY (p) LOCATION '{place}'")
    shop.sql("INSERT INTO laid VALUES (1, 'a'), (2, 'b')")
    shop.sql("CREATE STREAM TABLE st AS SELECT v FROM laid WHERE p = 1")
    frame = shop.createDataFrame([(1, "a"), (2, "b")], "p INT, v STRING")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(place)
    assert done(shop, "REFRESH STREAM TABLE st")[0] in ("REINITIALIZE", "FULL")
    assert_exact(shop, "st", "SELECT v FROM laid WHERE p = 1")


def test_columns_whose_names_in_the_files_look_like_ids_change_their_names(shop: SparkSession) -> None:
    mapped = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
    shop.sql("CREATE TABLE named (c1 INT, c2 INT) USING delta")
    shop.sql(f"ALTER TABLE named SET TBLPROPERTIES ({mapped})")
    shop.sql("INSERT INTO named VALUES (1, 100)")
    shop.sql("ALTER TABLE named RENAME COLUMN c1 TO id")
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM named")
    shop.sql("ALTER TABLE named RENAME COLUMN id TO old")
    shop.sql("ALTER TABLE named RENAME COLUMN c2 TO id")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "REINITIALIZE"
    assert_exact(shop, "st", "SELECT id FROM named")


def test_a_partition_by_its_path_is_that_partition(shop: SparkSession, tmp_path: Path) -> None:
    place = f"{tmp_path}/parted"
    shop.sql(f"CREATE TABLE parted (p INT, v INT) USING delta PARTITIONED BY (p) LOCATION '{place}'")
    shop.sql("INSERT INTO parted VALUES (1, 10), (2, 20)")
    query = f"SELECT v FROM delta.`{place}/p=1`"
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    assert_exact(shop, "st", query)
    shop.sql("INSERT INTO parted VALUES (1, 11), (2, 21)")
    shop.sql("REFRESH STREAM TABLE st")
    assert_exact(shop, "st", query)


@pytest.fixture
def hiding(shop: SparkSession) -> Iterator[SparkSession]:
    shop.sql("CREATE TABLE old USING delta AS SELECT 1 AS id")
    shop.sql("CREATE TEMPORARY VIEW old AS SELECT 77 AS id")
    yield shop
    shop.sql("DROP VIEW old")


def test_a_temporary_view_that_hides_a_table_is_refused(hiding: SparkSession) -> None:
    for query in ("SELECT id FROM old", "SELECT id FROM sales WHERE id IN (SELECT id FROM old)"):
        with pytest.raises(InvalidStatement, match="temporary view old"):
            hiding.sql(f"CREATE STREAM TABLE st AS {query}")
        with pytest.raises(InvalidStatement, match="temporary view old"), subscribe(hiding, f"({query})"):
            pass
    hiding.sql("CREATE STREAM TABLE st AS SELECT id FROM shop.old")
    hiding.sql("CREATE STREAM TABLE of_with AS WITH old AS (SELECT 3 AS id) SELECT id FROM old")
    assert hiding.sql("SELECT st.id, of_with.id FROM st, of_with").collect() == [(1, 3)]


def test_two_names_of_one_table_one_of_which_is_another_table_now(shop: SparkSession, tmp_path: Path) -> None:
    shop.sql(f"CREATE TABLE a (x INT) USING delta LOCATION '{tmp_path}/one'")
    shop.sql(f"CREATE TABLE b USING delta LOCATION '{tmp_path}/one'")
    shop.sql("INSERT INTO a VALUES (1)")
    query = "SELECT x FROM a UNION ALL SELECT x FROM b"
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    shop.sql("DROP TABLE a")
    shop.sql(f"CREATE TABLE a (x INT) USING delta LOCATION '{tmp_path}/other'")
    shop.sql("INSERT INTO a VALUES (7)")
    shop.sql("REFRESH STREAM TABLE st")
    assert_exact(shop, "st", query)


def test_a_view_cannot_have_a_table_read_itself(shop: SparkSession) -> None:
    """The table kept its own rows for ever, and no scheduler looked at any table again."""
    shop.sql("CREATE VIEW v AS SELECT id FROM sales")
    for name, source in (("st", "v"), ("above", "st")):
        shop.sql(f"CREATE STREAM TABLE {name} SCHEDULE '1m' AS SELECT id FROM {source}")
    for source in ("st", "above"):
        shop.sql(f"CREATE OR REPLACE VIEW v AS SELECT id FROM {source}")
        with pytest.raises(DependencyCycle, match="would read itself"):
            shop.sql("REFRESH STREAM TABLE st")
    assert "would read itself" in str(shop.sql("EXPLAIN STREAM TABLE st").collect()[0])
    assert len(shop.sql("SHOW STREAM TABLES").collect()) == 2
    shop.sql("CREATE OR REPLACE VIEW v AS SELECT id FROM sales WHERE id > 1")
    shop.sql("REFRESH STREAM TABLE above CASCADE")
    assert_exact(shop, "above", "SELECT id FROM sales WHERE id > 1")


@pytest.mark.parametrize(("before", "after"), [(["p"], []), ([], ["p"]), (["p"], ["v"])])
def test_rows_of_before_a_table_got_other_partitions_are_read_by_nobody(
    shop: SparkSession, tmp_path: Path, before: list[str], after: list[str]
) -> None:
    """A subscriber who took commits one by one was told the rows of the one before that with NULL in the place of `p`."""
    place, frame = str(tmp_path / "laid"), shop.createDataFrame([(1, "a"), (None, "b")], "p INT, v STRING")

    def write(mode: str, partitions: list[str]) -> None:
        frame.write.format("delta").mode(mode).option("overwriteSchema", "true").partitionBy(*partitions).save(place)

    write("overwrite", before)
    write("append", before)
    shop.sql(f"DELETE FROM delta.`{place}` WHERE p IS NULL")
    assert sorted(change_set(shop, place, 0, 1).frame.select("v").collect()) == [("a",), ("b",)]
    write("overwrite", after)
    for attempt in (
        lambda: change_set(shop, place, 0, 1),
        lambda: change_set(shop, place, 1, 2),
        lambda: change_set(shop, place, 2, 3),
        lambda: read(shop, place, 1),
    ):
        with pytest.raises(HistoryLost, match="other partitions"):
            attempt()
    assert read(shop, place, 3).where("p = 1").count() == 1
    write("append", after)
    assert change_set(shop, place, 3, 4).frame.where("p = 1").count() == 1


def test_words_for_moments_with_a_time_zone_behind_them(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE days USING delta AS SELECT date_sub(current_date(), CAST(id AS INT)) AS d FROM range(3)")
    query = "SELECT d FROM days WHERE d = CAST('yesterday UTC' AS DATE)"
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    assert_exact(shop, "st", query)
    for literal in ('TIMESTAMP "now"', "DATE 'today UTC'", "DATE r'today'"):
        with pytest.raises(StreamTableError, match="another time each time"):
            shop.sql(f"CREATE STREAM TABLE moving AS SELECT {literal} AS n, id FROM sales")


UNORDERED = {
    "SORT BY": "SELECT id FROM sales SORT BY id LIMIT 2",
    "CLUSTER BY": "SELECT id FROM sales CLUSTER BY id LIMIT 2",
    "handed out anew": "SELECT * FROM (SELECT /*+ REPARTITION(3) */ * FROM (SELECT id FROM sales ORDER BY id)) LIMIT 2",
    "first of a sorted table": "SELECT region, first(id) AS f FROM (SELECT * FROM sales ORDER BY id DESC) GROUP BY region",
    "ties of a sorted table": "SELECT region, listagg(id) WITHIN GROUP (ORDER BY amount) AS l FROM (SELECT * FROM sales ORDER BY id) GROUP BY 1",
    "a floating sum of a sorted table": "SELECT region, sum(CAST(id AS DOUBLE)) AS s FROM (SELECT * FROM sales ORDER BY id) GROUP BY 1",
}


@pytest.mark.parametrize("name", UNORDERED)
def test_an_order_that_is_none_for_a_delta_is_refused(shop: SparkSession, name: str) -> None:
    with pytest.raises(NotIncremental):
        shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {UNORDERED[name]}")


def test_a_value_that_is_one_for_the_bag_takes_no_order(shop: SparkSession) -> None:
    values = "percentile(id, 0.5) AS p, median(id) AS m, approx_count_distinct(id) AS n"
    query = f"SELECT region, {values} FROM (SELECT * FROM sales ORDER BY id) GROUP BY region"
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")
    shop.sql("INSERT INTO sales VALUES (0, 'EU', 5)")
    shop.sql("REFRESH STREAM TABLE st")
    assert_exact(shop, "st", query)


def test_an_order_within_a_view_or_with_is_completed(shop: SparkSession) -> None:
    """Of groups with one count, another one could be the first each time, and the sum over it kept the old one."""
    shop.sql("CREATE TABLE t USING delta AS SELECT CAST(id AS INT) AS k FROM range(1, 6)")
    groups = "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n"
    shop.sql(f"CREATE VIEW of_groups AS {groups}")
    queries = {
        "by_with": f"WITH c AS ({groups}) SELECT sum(k) AS total FROM (SELECT k, n FROM c LIMIT 1)",
        "by_view": "SELECT sum(k) AS total FROM (SELECT k, n FROM of_groups LIMIT 1)",
    }
    for name, query in queries.items():
        shop.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        assert shop.sql(f"SELECT total FROM {name}").collect() == [(1,)], "the least of them"
    for k in (1, 2):
        shop.sql(f"INSERT INTO t VALUES ({k})")
        for name in queries:
            shop.sql(f"REFRESH STREAM TABLE {name}")
            assert shop.sql(f"SELECT total FROM {name}").collect() == [(k + 1,)], name
            assert shop.sql(f"VERIFY STREAM TABLE {name}").collect()[0]["ok"]


@needs("WITH RECURSIVE")
def test_a_left_join_over_a_recursion_is_maintained(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE e (k INT, v INT) USING delta")
    shop.sql("CREATE TABLE u (k INT, t INT) USING delta")
    shop.sql("INSERT INTO e VALUES (1, 2), (2, 3), (3, 4)")
    shop.sql("INSERT INTO u VALUES (2, 20), (3, 30)")
    walk = "WITH RECURSIVE p AS (SELECT k, 0 AS d FROM e UNION ALL SELECT e.v, p.d + 1 FROM p JOIN e ON e.k = p.k WHERE p.d < 3)"
    query = f"{walk} SELECT p.k + p.d AS a, u.t FROM p LEFT JOIN u ON u.k = p.k"
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")
    for change in (
        "INSERT INTO u VALUES (4, 40)",
        "DELETE FROM e WHERE k = 2",
        "UPDATE u SET t = t + 1",
        "INSERT INTO e VALUES (2, 1)",
    ):
        shop.sql(change)
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
        assert_exact(shop, "st", query)
