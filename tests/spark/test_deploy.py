"""`streamtable deploy`: a folder of definitions, planned and carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer

from streamtable.errors import DependentsExist, InvalidQuery
from streamtable.hosts.cli.deploy import Step, carried_out, planned, wanted_in
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
    assert deploy(shop, tmp_path, base=smaller, a_top=top) == [("a_top", "rebuild"), ("base", "rebuild")]
    assert_exact(shop, "base", smaller)
    assert_exact(shop, "a_top", top)
    with pytest.raises(DependentsExist, match="a_top"):
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
