"""Columns count by their names: `*` is what it was when the statement was made, in every place where Spark goes by positions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import bag_of, contents, spelled
from tests.oracle.together import together
from tests.spark.statements import answer, done

from streamtable.errors import DependentsExist, SourceChanged

MAPPED = "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"

STARS = {
    "all": "SELECT * FROM s",
    "dotted": "SELECT s.*, t.w FROM s JOIN t ON s.k = t.k",
    "counted": "SELECT count(*) AS n, count(DISTINCT *) AS d FROM s",
    "natural_join": "SELECT * FROM s NATURAL JOIN t",
    "padded": "SELECT * FROM s LEFT JOIN t USING (k)",
    "appended": "SELECT k, v FROM s UNION ALL SELECT * FROM t",
    "of_an_open_view": "SELECT * FROM evolving",
    "of_a_union": "SELECT * FROM both",
    "of_with": "WITH s AS (SELECT * FROM s WHERE v > 0) SELECT * FROM s",
    "pivoted": "SELECT * FROM s PIVOT (sum(v) FOR z IN ('a', 'b'))",
    "renamed": "SELECT a, b, c FROM s AS q (a, b, c)",
    "top": "SELECT * FROM s ORDER BY z LIMIT 1",
    "outer_reference": "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k AND v = 10)",
}


@pytest.fixture
def stars(shop: SparkSession) -> SparkSession:
    for statement in (
        f"CREATE TABLE s (k INT, v INT, z STRING) {MAPPED}",
        f"CREATE TABLE t (k INT, w INT) {MAPPED}",
        "INSERT INTO s VALUES (1, 10, 'a'), (2, 20, 'b')",
        "INSERT INTO t VALUES (1, 100), (3, 300)",
        "CREATE VIEW vw AS SELECT * FROM s",
        "CREATE VIEW evolving WITH SCHEMA EVOLUTION AS SELECT * FROM s",
        "CREATE VIEW both AS SELECT * FROM t UNION ALL SELECT k, v FROM s",
    ):
        shop.sql(statement)
    return shop


def wanted(rows: list[tuple[Any, ...]]) -> Any:
    return Counter(map(spelled, rows))


def bag(spark: SparkSession, relation: str) -> tuple[list[str], Any]:
    return spark.table(relation).columns, bag_of(contents(spark, relation))


SOME = ("all", "natural_join", "appended", "of_an_open_view", "of_with", "pivoted", "renamed")
"""A star of a table, of both sides, below a union, of a view and of WITH, and two that hide it; `./run fuzz -k move_or_come` has all."""


@pytest.mark.parametrize("names", [SOME, pytest.param((*STARS,), marks=pytest.mark.fuzz)], ids=["some", "all"])
def test_columns_that_move_or_come_change_nothing(stars: SparkSession, names: tuple[str, ...]) -> None:
    together(lambda name: stars.sql(f"CREATE STREAM TABLE {name} AS {STARS[name]}"), names)
    before = {name: bag(stars, name) for name in names}
    for statement in (
        "ALTER TABLE s ALTER COLUMN v FIRST",
        "ALTER TABLE t ALTER COLUMN w FIRST",
        "ALTER TABLE s ADD COLUMN w INT",
        "ALTER TABLE t ADD COLUMN v INT",
    ):
        stars.sql(statement)
    assert {action for action, _ in together(lambda name: done(stars, f"REFRESH STREAM TABLE {name}"), names)} == {"NO_DATA"}
    stars.sql("INSERT INTO s (k, v, z, w) VALUES (3, 30, 'a', 7)")
    stars.sql("INSERT INTO t (k, w, v) VALUES (2, 200, 9)")
    assert done(stars, "REFRESH STREAM TABLE all")[0] == "DIFFERENTIAL"
    assert bag(stars, "all") == (["k", "v", "z"], wanted([(1, 10, "a"), (2, 20, "b"), (3, 30, "a")]))
    stars.sql("DELETE FROM s WHERE k = 3")
    stars.sql("DELETE FROM t WHERE k = 2")

    def refresh(name: str) -> None:
        stars.sql(f"REFRESH STREAM TABLE {name}")
        assert bag(stars, name) == before[name], name

    together(refresh, names)
    assert answer(stars, "VERIFY STREAM TABLE all")[0][1]
    stars.sql(f"ALTER STREAM TABLE all AS {STARS['all']}")  # written again, the same text means the columns of now
    stars.sql("REFRESH STREAM TABLE all")
    assert stars.table("all").columns == ["v", "k", "z", "w"]


def test_a_column_that_is_gone_is_an_error_only_where_it_is_read(stars: SparkSession) -> None:
    stars.sql("CREATE STREAM TABLE every AS SELECT * FROM s")
    stars.sql("CREATE STREAM TABLE some AS SELECT k, v FROM s")
    stars.sql("CREATE STREAM TABLE number AS SELECT count(*) AS n FROM s")
    stars.sql("ALTER TABLE s RENAME COLUMN z TO zz")
    stars.sql("INSERT INTO s VALUES (3, 30, 'c')")
    with pytest.raises(SourceChanged, match="the column z that the query reads is not there any more, among k, v, zz"):
        stars.sql("REFRESH STREAM TABLE every")
    for name in ("some", "number"):
        assert done(stars, f"REFRESH STREAM TABLE {name}")[0] == "DIFFERENTIAL"
    stars.sql("ALTER TABLE s RENAME COLUMN zz TO z")
    assert done(stars, "REFRESH STREAM TABLE every")[0] == "DIFFERENTIAL"
    assert bag(stars, "every") == (["k", "v", "z"], wanted([(1, 10, "a"), (2, 20, "b"), (3, 30, "c")]))


def test_a_replaced_view_is_read_by_its_names(stars: SparkSession) -> None:
    stars.sql("CREATE STREAM TABLE of_view AS SELECT * FROM vw")
    stars.sql("CREATE OR REPLACE VIEW vw AS SELECT z, v + 1 AS v, k, 5 AS more FROM s")
    stars.sql("REFRESH STREAM TABLE of_view")
    assert bag(stars, "of_view") == (["k", "v", "z"], wanted([(1, 11, "a"), (2, 21, "b")]))
    assert answer(stars, "VERIFY STREAM TABLE of_view")[0][1]


def test_a_queue_over_a_query_keeps_its_columns(stars: SparkSession) -> None:
    stars.sql("CREATE QUEUE q FOR SUBSCRIBE (SELECT * FROM t)")
    stars.sql("REGISTER CONSUMER c ON q")
    stars.sql("ALTER TABLE t ALTER COLUMN w FIRST")
    stars.sql("ALTER TABLE t ADD COLUMN more INT")
    stars.sql("INSERT INTO t (k, w, more) VALUES (5, 500, 1)")
    assert [row[1:] for row in answer(stars, "NEXT BATCH FROM q FOR c")] == [(1, 5, 500, 0)]


def test_a_queue_over_a_view_keeps_its_columns(stars: SparkSession) -> None:
    stars.sql("CREATE QUEUE q FOR SUBSCRIBE vw")
    stars.sql("REGISTER CONSUMER c ON q")
    stars.sql("ALTER TABLE s ALTER COLUMN z FIRST")
    stars.sql("ALTER TABLE s ADD COLUMN more INT FIRST")
    stars.sql("CREATE OR REPLACE VIEW vw AS SELECT * FROM s")
    stars.sql("INSERT INTO s (k, v, z) VALUES (5, 50, 'e')")
    for _ in range(2):
        assert [row[1:] for row in answer(stars, "NEXT BATCH FROM q FOR c")] == [(1, 5, 50, "e", 0)]
    assert "SUBSCRIBE TO `spark_catalog`.`shop`.`vw`" in str(answer(stars, "SHOW QUEUES"))
    stars.sql("ALTER TABLE s RENAME COLUMN v TO vv")
    with pytest.raises(SourceChanged, match=r"cannot be read any more(.|\n)*DROP QUEUE"):
        stars.sql("NEXT BATCH FROM q FOR c")
    stars.sql("DROP QUEUE q FORCE")


def test_a_view_that_is_written_again_with_the_same_text_is_read_by_its_names(stars: SparkSession) -> None:
    stars.sql("CREATE STREAM TABLE of_view AS SELECT * FROM vw")
    stars.sql("ALTER TABLE s ADD COLUMN more INT FIRST")
    stars.sql("CREATE OR REPLACE VIEW vw AS SELECT * FROM s")
    stars.sql("INSERT INTO s (k, v, z) VALUES (5, 50, 'e')")
    stars.sql("REFRESH STREAM TABLE of_view")
    assert bag(stars, "of_view") == (["k", "v", "z"], wanted([(1, 10, "a"), (2, 20, "b"), (5, 50, "e")]))


def test_a_queue_does_not_go_on_from_its_position_with_another_text(stars: SparkSession) -> None:
    """What a consumer was told comes from the text before: changes of another one do not fit."""
    stars.sql("CREATE FUNCTION more(x INT) RETURNS INT RETURN x + 1")
    stars.sql("CREATE FUNCTION rows_of(x INT) RETURNS TABLE (k INT) RETURN SELECT k FROM s WHERE v > x")
    stars.sql("CREATE VIEW over AS SELECT k, v FROM vw")
    reads = {
        "of_view": "vw",
        "of_views": "over",
        "of_changes": "vw SCHEMA CHANGES",
        "of_query": "(SELECT k, v FROM vw)",
        "of_function": "(SELECT k, more(more(v)) AS v FROM s)",
        "of_rows": "(SELECT * FROM rows_of(1))",
    }
    for name, relation in reads.items():
        stars.sql(f"CREATE QUEUE {name} FOR SUBSCRIBE {relation}")
        stars.sql(f"REGISTER CONSUMER c ON {name}")
    stars.sql("INSERT INTO s VALUES (5, 50, 'e')")
    assert len(answer(stars, "NEXT BATCH FROM of_views FOR c")) == 1
    for text in (
        "VIEW vw AS SELECT k, v + 1 AS v, z FROM s",
        "FUNCTION more(x INT) RETURNS INT RETURN x + 2",
        "FUNCTION rows_of(x INT) RETURNS TABLE (k INT) RETURN SELECT k FROM s WHERE v < x",
    ):
        stars.sql(f"CREATE OR REPLACE {text}")
    for name in reads:
        with pytest.raises(SourceChanged, match=r"the (view|function) \S+ got another text(.|\n)*DROP QUEUE"):
            stars.sql(f"NEXT BATCH FROM {name} FOR c")
        stars.sql(f"DROP QUEUE {name} FORCE")


def test_a_stream_keeps_the_columns_that_it_began_with(stars: SparkSession) -> None:
    appended = "(SELECT k, w FROM t UNION ALL SELECT * FROM t)"
    rows = stars.readStream.format("streamtable").option("subscribe", f"{appended} WITH (SNAPSHOT FALSE)").load()
    stream = rows.writeStream.format("memory").queryName("told").trigger(processingTime="1 second").start()
    try:
        stream.processAllAvailable()
        stars.sql("ALTER TABLE t ALTER COLUMN w FIRST")
        stars.sql("INSERT INTO t (k, w) VALUES (5, 500)")
        stream.processAllAvailable()
        assert answer(stars, "SELECT k, w, diff FROM told") == [(5, 500, 2)]
    finally:
        stream.stop()
        stars.sql("DROP VIEW told")


def test_a_stream_does_not_go_on_from_its_checkpoint_with_another_text(stars: SparkSession, tmp_path: Path) -> None:
    def run() -> None:
        rows = stars.readStream.format("streamtable").option("subscribe", "vw").load()
        written = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        written.toTable("told", format="delta").awaitTermination()

    run()
    stars.sql("INSERT INTO s VALUES (5, 50, 'e')")
    stars.sql("CREATE OR REPLACE VIEW vw AS SELECT * FROM s")  # the same text
    run()
    assert stars.table("told").count() == 3
    stars.sql("CREATE OR REPLACE VIEW vw AS SELECT * FROM s WHERE k > 1")
    with pytest.raises(Exception, match="vw got another text"):
        run()


def test_fields_of_a_struct_that_the_query_does_not_read_change_nothing(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE nested (k INT, st STRUCT<a: INT, b: STRUCT<c: INT>>) USING delta")
    shop.sql("INSERT INTO nested VALUES (1, named_struct('a', 1, 'b', named_struct('c', 2)))")
    shop.sql("CREATE STREAM TABLE parts AS SELECT k, st.a, st.b.c FROM (SELECT * FROM nested) WHERE st.a > 0")
    shop.sql("ALTER TABLE nested ADD COLUMN st.d STRING")
    shop.sql("ALTER TABLE nested ADD COLUMN st.b.e STRING FIRST")
    assert done(shop, "REFRESH STREAM TABLE parts")[0] == "NO_DATA"
    shop.sql("INSERT INTO nested VALUES (2, named_struct('a', 3, 'b', named_struct('e', 'x', 'c', 4), 'd', 'y'))")
    assert done(shop, "REFRESH STREAM TABLE parts")[0] == "DIFFERENTIAL"
    assert bag(shop, "parts")[1] == wanted([(1, 1, 2), (2, 3, 4)])


def test_fields_of_a_struct_that_move_are_found_by_their_names(shop: SparkSession) -> None:
    shop.sql(f"CREATE TABLE nested (k INT, st STRUCT<a: INT, b: INT>, many ARRAY<STRUCT<a: INT, b: INT>>) {MAPPED}")
    shop.sql("INSERT INTO nested VALUES (1, named_struct('a', 1, 'b', 2), array(named_struct('a', 1, 'b', 2)))")
    shop.sql("CREATE STREAM TABLE spread (k, x, y) AS SELECT k, st.* FROM nested")
    shop.sql("CREATE STREAM TABLE lines AS SELECT k, x, y FROM nested LATERAL VIEW inline(many) AS x, y")
    shop.sql("ALTER TABLE nested ALTER COLUMN st.b FIRST")
    shop.sql("ALTER TABLE nested ALTER COLUMN many.element.b FIRST")
    shop.sql("ALTER TABLE nested ADD COLUMN st.c INT")
    shop.sql("INSERT INTO nested SELECT 2, named_struct('b', 4, 'a', 3, 'c', 5), array(named_struct('b', 4, 'a', 3))")
    shop.sql("REFRESH STREAM TABLE spread")
    assert bag(shop, "spread") == (["k", "x", "y"], wanted([(1, 1, 2), (2, 3, 4)]))
    assert answer(shop, "VERIFY STREAM TABLE spread")[0][1]
    shop.sql("REFRESH STREAM TABLE lines")
    assert bag(shop, "lines") == (["k", "x", "y"], wanted([(1, 1, 2), (2, 3, 4)]))
    shop.sql("ALTER TABLE nested RENAME COLUMN many.element.a TO z")
    with pytest.raises(SourceChanged, match="reads the struct many as a whole, which lacks fields"):
        shop.sql("REFRESH STREAM TABLE lines")


WHOLE = {
    "every": "SELECT * FROM nested",
    "told": "SELECT k, to_json(st) AS j, st.b AS b FROM nested",
    "grouped": "SELECT st, count(*) AS n FROM nested GROUP BY st",
    "different": "SELECT DISTINCT many FROM nested",
    "joined": "SELECT a.k, b.k AS other, m['x'] AS x FROM nested a JOIN (SELECT k, st FROM open) b ON a.st = b.st",
}
NESTED = "k INT, st STRUCT<a: INT COMMENT 'first', b: STRUCT<c: INT>>, many ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"


def row(k: int, a: int, st: str = "", b: str = "", many: str = "", m: str = "") -> str:
    """Spell a row; what is written for a struct stands behind its first field."""
    struct = f"named_struct('a', {a}, 'b', named_struct('c', 1{b}){st})"
    return f"SELECT {k}, {struct}, array(named_struct('a', {a}{many}), NULL), map('x', named_struct('a', {a}{m}))"


@pytest.mark.parametrize(
    "properties",
    ["'delta.enableChangeDataFeed' = 'true'", pytest.param("'delta.columnMapping.mode' = 'name'", marks=pytest.mark.fuzz)],
)
def test_fields_that_are_added_to_a_struct_that_is_read_whole_change_nothing(shop: SparkSession, properties: str) -> None:
    shop.sql(f"CREATE TABLE nested ({NESTED}) USING delta TBLPROPERTIES ({properties})")
    shop.sql(f"CREATE TABLE model ({NESTED}) USING delta")
    shop.sql("CREATE VIEW open WITH SCHEMA EVOLUTION AS SELECT * FROM nested")
    for table in ("nested", "model"):
        shop.sql(f"INSERT INTO {table} {row(1, 1)} UNION ALL {row(2, 2)} UNION ALL SELECT 3, NULL, NULL, NULL")
    for name, query in WHOLE.items():
        shop.sql(f"CREATE STREAM TABLE {name} AS {query}")
    for field in ("st.d STRING", "st.b.e INT FIRST", "many.element.f INT", "m.value.g INT"):
        shop.sql(f"ALTER TABLE nested ADD COLUMN {field}")
    shop.sql("ALTER TABLE nested ALTER COLUMN st.a COMMENT 'the first'")
    rested = {name: done(shop, f"REFRESH STREAM TABLE {name}")[0] for name in WHOLE}
    assert rested == dict.fromkeys(WHOLE, "NO_DATA") | {"joined": "REINITIALIZE"}  # once, because its view follows the table
    more = {"st": ", 'd', 'y'", "many": ", 'f', 5", "m": ", 'g', 6"}
    wide = row(4, 1, **more).replace("named_struct('c', 1)", "named_struct('e', 9, 'c', 1)")
    shop.sql(f"INSERT INTO nested {wide}")
    shop.sql(f"INSERT INTO model {row(4, 1)}")
    for table in ("nested", "model"):
        shop.sql(f"DELETE FROM {table} WHERE k = 2")
    expected = {name: bag_of(shop.sql(query.replace("nested", "model").replace("open", "model"))) for name, query in WHOLE.items()}
    for full in ("", " FULL"):
        for name in WHOLE:
            assert done(shop, f"REFRESH STREAM TABLE {name}{full}")[0] == ("FULL" if full else "DIFFERENTIAL"), name
            assert bag(shop, name)[1] == expected[name], (name, full)
    assert answer(shop, "VERIFY STREAM TABLE every")[0][1]


def test_views_of_one_text_in_two_databases_have_columns_of_their_own(stars: SparkSession) -> None:
    stars.sql("CREATE DATABASE elsewhere")
    try:
        stars.sql("CREATE TABLE elsewhere.t USING delta AS SELECT 7 AS q")
        stars.sql("CREATE VIEW same AS SELECT * FROM t")
        stars.sql("USE elsewhere")
        stars.sql("CREATE VIEW same AS SELECT * FROM t")
        stars.sql("USE shop")
        stars.sql("CREATE STREAM TABLE crossed AS SELECT * FROM same JOIN elsewhere.same ON w > q")
        stars.sql("ALTER TABLE t ALTER COLUMN w FIRST")
        assert done(stars, "REFRESH STREAM TABLE crossed")[0] == "NO_DATA"
        assert bag(stars, "crossed") == (["k", "w", "q"], wanted([(1, 100, 7), (3, 300, 7)]))
    finally:
        stars.sql("USE shop")
        stars.sql("DROP DATABASE elsewhere CASCADE")


def test_another_query_may_drop_columns_that_no_reader_uses(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE upper AS SELECT id, amount, region FROM sales")
    shop.sql("CREATE STREAM TABLE lower AS SELECT id, amount FROM upper")
    shop.sql("ALTER STREAM TABLE upper AS SELECT id, amount FROM sales")
    shop.sql("INSERT INTO sales VALUES (9, 'west', 90)")
    shop.sql("REFRESH STREAM TABLE lower CASCADE")
    assert answer(shop, "VERIFY STREAM TABLE lower")[0][1] and shop.table("lower").count() == 5
    with pytest.raises(DependentsExist, match="would lose or retype amount"):
        shop.sql("ALTER STREAM TABLE upper AS SELECT id FROM sales")
