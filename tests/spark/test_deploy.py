"""`streamtable deploy`: a folder of definitions, planned and carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer

from streamtable.errors import InvalidQuery, InvalidStatement
from streamtable.hosts.cli.deploy import Step, StepKind, carried_out, planned
from streamtable.hosts.cli.folder import wanted_in
from streamtable.hosts.cli.uninstall import DROPPED, removals, removed

BASE = "SELECT region, amount, id FROM sales"
TOP = "SELECT region, sum(amount) AS total FROM base GROUP BY region"


def plan(shop: SparkSession, place: Path, prune: bool = False, **files: str) -> list[tuple[str, str]]:
    return [(step.name.rpartition(".")[2], step.kind.value) for step in steps(shop, place, prune, **files)]


def steps(shop: SparkSession, place: Path, prune: bool = False, **files: str) -> list[Step]:
    for name, query in files.items():
        (place / f"{name}.sql").write_text(f"CREATE STREAM TABLE {name} AS {query};", encoding="utf-8")
    return planned(shop, wanted_in(place, ("spark_catalog", "shop")), prune)


def deploy(shop: SparkSession, place: Path, prune: bool = False, **files: str) -> list[tuple[str, str]]:
    done = carried_out(shop, steps(shop, place, prune, **files))
    return [(step.name.rpartition(".")[2], step.kind.value) for step in done]


def test_a_deployment_does_what_is_needed_and_nothing_the_second_time(shop: SparkSession, tmp_path: Path) -> None:
    assert deploy(shop, tmp_path, base=BASE, a_top=TOP) == [("base", "create"), ("a_top", "create")]
    assert plan(shop, tmp_path) == [("base", "nothing"), ("a_top", "nothing")]
    assert deploy(shop, tmp_path) == []
    assert deploy(shop, tmp_path, base=BASE.replace("SELECT", "SELECT /* all */")) == [("base", "alter")]
    assert deploy(shop, tmp_path, a_top=TOP.replace("sum", "max")) == [("a_top", "rebuild")]
    assert_exact(shop, "a_top", TOP.replace("sum", "max"))


def test_a_column_that_nobody_reads_any_more_goes_in_one_deployment(shop: SparkSession, tmp_path: Path) -> None:
    deploy(shop, tmp_path, base=BASE, a_top="SELECT id, amount FROM base")
    smaller, top = "SELECT region, id FROM sales", "SELECT id FROM base"
    waits = steps(shop, tmp_path, base=smaller, a_top=top)[0]
    assert (waits.kind, waits.why) == (StepKind.REBUILD, "the table is rebuilt once spark_catalog.shop.a_top is as planned")
    assert deploy(shop, tmp_path) == [("a_top", "rebuild"), ("base", "rebuild")]
    assert_exact(shop, "base", smaller)
    assert_exact(shop, "a_top", top)
    with pytest.raises(InvalidStatement, match="a_top, and would lose or retype id"):
        deploy(shop, tmp_path, base="SELECT region FROM sales")
    assert_exact(shop, "base", smaller)


def test_a_column_that_comes_is_there_before_its_reader(shop: SparkSession, tmp_path: Path) -> None:
    deploy(shop, tmp_path, base="SELECT region FROM sales", a_top="SELECT region FROM base")
    assert deploy(shop, tmp_path, base=BASE, a_top=TOP) == [("base", "rebuild"), ("a_top", "rebuild")]
    assert_exact(shop, "a_top", TOP)
    with pytest.raises(InvalidQuery, match="no_such"):
        plan(shop, tmp_path, a_top="SELECT no_such FROM base")


def test_prune_drops_what_no_file_defines_readers_first(shop: SparkSession, tmp_path: Path) -> None:
    deploy(shop, tmp_path, base=BASE, a_top=TOP, other="SELECT id FROM sales")
    (tmp_path / "base.sql").unlink()
    (tmp_path / "a_top.sql").unlink()
    assert plan(shop, tmp_path) == [("other", "nothing")]
    assert sorted(plan(shop, tmp_path, prune=True)) == [("a_top", "drop"), ("base", "drop"), ("other", "nothing")]
    assert deploy(shop, tmp_path, prune=True)[-1] == ("base", "drop")
    assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == ["spark_catalog.shop.other"]


def refused(steps: list[Step]) -> dict[str, str]:
    return {step.name.rpartition(".")[2]: step.why for step in steps if step.kind is StepKind.REFUSED}


def test_a_deployment_that_cannot_end_does_not_begin(shop: SparkSession, tmp_path: Path) -> None:
    shop.sql(f"CREATE STREAM TABLE kept FROZEN WHERE (id = 1) AS {BASE}")
    shop.sql("CREATE STREAM TABLE placed AS SELECT id FROM sales")
    shop.sql("CREATE STREAM TABLE followed AS SELECT id, region FROM sales")
    shop.sql("CREATE QUEUE q FOR SUBSCRIBE TO followed")
    shop.sql("CREATE TABLE taken USING delta AS SELECT 1 AS one")
    shop.sql(f"CREATE TABLE away USING delta LOCATION '{tmp_path}/there' AS SELECT 1 AS one")
    before = answer(shop, "SHOW CREATE STREAM TABLE kept"), answer(shop, "SHOW TABLES")
    statements = {
        "base": f"base AS {BASE}",
        "kept": "kept FROZEN WHERE (id = 1) AS SELECT region, id FROM sales",
        "placed": f"placed LOCATION '{tmp_path}/elsewhere' AS SELECT id FROM sales",
        "followed": "followed CLUSTER BY (id) AS SELECT id, region FROM sales",
        "taken": "taken AS SELECT id FROM sales",
        "full": f"full LOCATION '{tmp_path}/there' AS SELECT id FROM sales",
    }
    (tmp_path / "files").mkdir()
    for name, statement in statements.items():
        (tmp_path / "files" / f"{name}.sql").write_text(f"CREATE STREAM TABLE {statement}", encoding="utf-8")
    found = steps(shop, tmp_path / "files")
    assert {name: why.split(";")[0].replace("spark_catalog.shop.", "") for name, why in refused(found).items()} == {
        "kept": "kept keeps frozen rows, and cannot be given other columns",
        "placed": "CREATE OR REPLACE cannot change where the table is",
        "followed": "followed is read by q, and cannot be laid out anew",
        "taken": "taken is a table or view already",
        "full": f"file:{tmp_path}/there, the folder of full, is not empty: it holds "
        + refused(found)["full"].split("holds ")[1].split(";")[0],
    }
    with pytest.raises(InvalidStatement, match="here 5 of 6:"):
        list(carried_out(shop, found))
    assert (answer(shop, "SHOW CREATE STREAM TABLE kept"), answer(shop, "SHOW TABLES")) == before


def test_frozen_rows_that_fit_after_another_step_are_deployed_after_it(shop: SparkSession, tmp_path: Path) -> None:
    deploy(shop, tmp_path, base=BASE, z_last="SELECT amount FROM base")
    shop.sql("CREATE STREAM TABLE kept FROZEN WHERE (id = 1) AS SELECT region, id FROM base")
    file = tmp_path / "kept.sql"
    file.write_text("CREATE STREAM TABLE kept FROZEN WHERE (id = 1) AS SELECT * FROM base", encoding="utf-8")
    assert list(refused(steps(shop, tmp_path, base=BASE.replace("FROM", "/* all */ FROM")))) == ["kept"]
    assert deploy(shop, tmp_path, base="SELECT region, id FROM sales", z_last="SELECT id FROM base") == [
        ("z_last", "rebuild"),
        ("base", "rebuild"),
        ("kept", "rebuild"),
    ]
    assert [row[0] for row in answer(shop, "DESCRIBE kept")][:2] == ["region", "id"]


def test_a_column_that_its_only_reader_gets_under_another_name_is_refused_at_once(shop: SparkSession, tmp_path: Path) -> None:
    deploy(shop, tmp_path, base=BASE, a_top="SELECT amount FROM base", other="SELECT id FROM sales")
    found = steps(
        shop,
        tmp_path,
        other="SELECT region FROM sales",
        base=BASE.replace("amount", "amount AS price"),
        a_top="SELECT price FROM base",
    )
    assert refused(found).keys() == {"base", "a_top"} and "price" in refused(found)["a_top"]
    with pytest.raises(InvalidStatement, match="here 2 of 3:"):
        list(carried_out(shop, found))
    assert [row[0] for row in answer(shop, "DESCRIBE other")][:1] == ["id"]


def test_prune_does_not_begin_while_a_table_that_stays_reads_what_goes(shop: SparkSession, tmp_path: Path) -> None:
    deploy(shop, tmp_path, base=BASE, a_top=TOP)
    (tmp_path / "base.sql").unlink()
    found = steps(shop, tmp_path, prune=True, other="SELECT id FROM sales")
    assert list(refused(found)) == ["base"] and "is read by spark_catalog.shop.a_top" in refused(found)["base"]
    with pytest.raises(InvalidStatement, match="here 1 of 3:"):
        list(carried_out(shop, found))
    assert len(answer(shop, "SHOW STREAM TABLES")) == 2
    assert deploy(shop, tmp_path, prune=True, a_top=TOP.replace("base", "sales"))[-1] == ("base", "drop")


def test_uninstall_leaves_ordinary_tables_alone(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE base AS {BASE}")
    shop.sql(f"CREATE STREAM TABLE a_top AS {TOP}")
    shop.sql("CREATE QUEUE q FOR SUBSCRIBE TO sales")
    shop.sql("REGISTER CONSUMER c ON q")
    shop.sql("CREATE PUBLICATION p FOR TABLE sales")
    shop.sql("CREATE REPLICATION SLOT s FOR PUBLICATION p")
    found = list(removals(shop))
    assert [(each.kind, each.name.rpartition(".")[2]) for each in found] == [
        ("publication", "p"),
        ("replication slot", "s"),
        ("queue", "q"),
        ("stream table", "a_top"),
        ("stream table", "base"),
    ]
    assert [removed(shop, each) for each in found] == [DROPPED] * 5
    assert list(removals(shop)) == []
    assert [row["tableName"] for row in shop.sql("SHOW TABLES").collect()] == ["sales"]
