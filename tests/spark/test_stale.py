"""Tables without versions are read as they are now, whatever other sessions and caches know of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline import in_turn
from tests.spark.statements import answer, done


@pytest.fixture
def cached(shop: SparkSession) -> Iterator[SparkSession]:
    yield shop
    shop.catalog.clearCache()


@pytest.mark.parametrize(
    "form", in_turn(["parquet", "csv", "orc", "json", "parquet PARTITIONED BY (id)"], ["csv", "parquet PARTITIONED BY (id)"])
)
def test_files_that_came_are_read(cached: SparkSession, form: str) -> None:
    cached.sql(f"CREATE TABLE plain (v INT, id INT) USING {form}")
    cached.sql("INSERT INTO plain VALUES (7, 1)")
    cached.sql("CACHE TABLE plain")
    cached.sql("CREATE STREAM TABLE joined AS SELECT s.id, p.v FROM sales s JOIN plain p ON s.id = p.id")
    cached.newSession().sql("INSERT INTO shop.plain VALUES (8, 3)")
    action, reason = done(cached, "REFRESH STREAM TABLE joined")
    assert (action, reason) == ("FULL", "Scan: source spark_catalog.shop.plain is not a Delta table: it has no change history")
    assert sorted(answer(cached, "SELECT * FROM joined")) == [(1, 7), (3, 8)]
    cached.newSession().sql("INSERT INTO shop.plain VALUES (9, 2)")
    assert answer(cached, "VERIFY STREAM TABLE joined")[0][1:] == (False, 2, 0)
    done(cached, "REFRESH STREAM TABLE joined FULL")
    assert sorted(answer(cached, "SELECT * FROM joined")) == [(1, 7), (2, 9), (2, 9), (3, 8)]
    assert answer(cached, "VERIFY STREAM TABLE joined")[0][1]
    assert cached.catalog.isCached("plain")


@pytest.mark.parametrize("form", in_turn(["text", "orc", "json", "jdbc"], ["orc", "jdbc"]))
def test_rows_that_came_beside_the_catalog_are_read(cached: SparkSession, form: str, tmp_path: Path) -> None:
    """Nothing tells Spark of them: neither its list of files nor its cache is made anew."""
    kind, place = "STRING" if form == "text" else "BIGINT", tmp_path / "plain"
    database = {"url": "jdbc:derby:memory:stale;create=true", "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}

    def write(id_: int) -> None:
        rows = cached.range(id_, id_ + 1).selectExpr(f"CAST(id AS {kind}) AS value").write
        if form == "jdbc":
            rows.format("jdbc").options(**database, dbtable="kept").mode("append" if id_ > 1 else "overwrite").save()
            return
        rows.format(form).save(str(tmp_path / f"made{id_}"))
        for file in (tmp_path / f"made{id_}").glob("part-*"):
            shutil.copy(file, place)

    place.mkdir()
    write(1)
    options = ", ".join(f"{key} '{value}'" for key, value in database.items())
    at = f"OPTIONS ({options}, dbtable 'kept')" if form == "jdbc" else f"LOCATION '{place}'"
    cached.sql(f"CREATE TABLE plain {'' if form == 'jdbc' else f'(value {kind})'} USING {form} {at}")
    cached.sql("CACHE TABLE plain")
    cached.sql("CREATE STREAM TABLE st AS SELECT value, count(*) AS n FROM plain GROUP BY value")
    write(2)
    assert answer(cached, "VERIFY STREAM TABLE st")[0][1:] == (False, 1, 0)
    assert done(cached, "REFRESH STREAM TABLE st")[0] == "FULL"
    assert sorted(int(value) for value, _ in answer(cached, "SELECT * FROM st")) == [1, 2]
    assert answer(cached, "VERIFY STREAM TABLE st")[0][1]
    assert answer(cached, "SELECT count(*) FROM plain") == [(1,)]  # the user's cache is the user's


def test_a_cache_does_not_hide_what_another_program_wrote(cached: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("1\n")
    cached.sql(f"CREATE VIEW files AS SELECT CAST(_c0 AS INT) AS id FROM csv.`{tmp_path}`")
    cached.sql("CACHE TABLE files")
    cached.table("files").cache().count()
    cached.sql("CREATE STREAM TABLE listed AS SELECT id, (SELECT count(*) FROM files) AS n FROM files")
    (tmp_path / "2.csv").write_text("2\n")
    done(cached, "REFRESH STREAM TABLE listed")
    assert sorted(answer(cached, "SELECT * FROM listed")) == [(1, 2), (2, 2)]
    assert answer(cached, "SELECT count(*) FROM files") == [(1,)]  # the user's cache is the user's
