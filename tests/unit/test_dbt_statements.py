"""What the macros of dbt write is what the grammar reads."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.macros_of_dbt import Config, Package, statement

from streamtable.language.names import Condition
from streamtable.language.stream_table.ast import CreateStreamTable


@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        ("5m", "'5m'"),
        ("every 2 hours", "'2h'"),
        ("calculated", "CALCULATED"),
        ("immediate", "IMMEDIATE"),
        ("manual", "MANUAL"),
        ("cron '0 6 * * *' at time zone 'Europe/Berlin'", "CRON '0 6 * * *' AT TIME ZONE 'Europe/Berlin'"),
        ({"cron": "0 0 6 ? * MON-FRI", "time_zone_value": "UTC"}, "CRON '0 0 6 * * MON-FRI' AT TIME ZONE 'UTC'"),
        ({"cron": "0 6 * * *"}, "CRON '0 6 * * *'"),
        ({"every": "1 HOUR"}, "'1h'"),
        ("on update at most every '10s'", "ON UPDATE AT MOST EVERY '10s'"),
        ({"on_update": True}, "ON UPDATE"),
        ({"on_update": True, "at_most_every": "5 MINUTES"}, "ON UPDATE AT MOST EVERY '5m'"),
    ],
)
def test_schedules(written: object, schedule: str) -> None:
    assert statement({"schedule": written}).schedule.sql() == schedule


def test_a_trigger_of_a_model_goes_before_the_schedule_that_it_inherits() -> None:
    """A folder's `+schedule` and a model's `trigger` are two clauses of which the statement takes one."""
    assert statement({"schedule": "5m", "trigger": "on update"}).schedule.sql() == "ON UPDATE"
    assert statement({"schedule": "5m", "trigger": None}).schedule.sql() == "'5m'"


def test_every_clause() -> None:
    found = statement(
        {
            "refresh_mode": "differential strict",
            "state": "none",
            "frozen_where": "day < 5 -- )",
            "partition_by": "day",
            "location_root": "/srv/a'b",
            "tblproperties": {"team": "sales'\\", "delta.logRetentionDuration": "7 days", "flag": True},
            "persist_docs": True,
        },
        description="it's\nthe shop's",
        columns={"day": {"name": "DAY", "description": "when, 'local'"}},
    )
    assert (found.mode.value, found.state.value) == ("DIFFERENTIAL STRICT", "NONE")
    assert found.frozen == Condition("day < 5 -- )")
    assert found.partitioned_by == ("day",)
    assert found.location == "/srv/a'b/t"
    assert found.properties == (("team", "sales'\\"), ("delta.logRetentionDuration", "7 days"), ("flag", "true"))
    assert found.comment == "it's\nthe shop's"
    assert [(each.name, each.comment) for each in found.columns] == [("Day", "when, 'local'"), ("a b", None)]


def test_no_clause() -> None:
    found = statement({})
    assert found == CreateStreamTable(found.name, found.query, or_replace=True, or_refresh=True)


@pytest.mark.parametrize("word", ["cluster_by", "liquid_clustered_by"])
def test_clustering(word: str) -> None:
    assert statement({word: ["day", "`a b`", "c`d"]}).clustered_by == ("day", "a b", "c`d")


class Server:
    """Answers what macros ask, and keeps what they do."""

    def __init__(self, *tables: str) -> None:
        self.tables, self.done = tables, list[str]()

    def run(self, sql: str) -> SimpleNamespace:
        if sql.startswith("show stream tables in `shop`"):
            return SimpleNamespace(rows=[{"name": f"spark_catalog.shop.{table}"} for table in self.tables])
        if not sql.startswith("show "):
            self.done.append(sql)
        return SimpleNamespace(rows=[])


@pytest.mark.parametrize("keep", [["shop.paused"], "`shop`.`Paused`"], ids=str)
def test_what_is_no_model_any_more_goes_but_no_source_and_no_disabled_model(keep: object) -> None:
    server = Server("orders", "bought", "paused", "gone", "orders__dbt_backup")
    model = SimpleNamespace(resource_type="model", schema="shop", alias="Orders")
    source = SimpleNamespace(schema="Shop", identifier="Bought", name="raw")
    graph = SimpleNamespace(nodes={"m": model}, sources={"s": source})
    package = Package(graph=graph, run_query=server.run, log=lambda *_, **__: "")
    package.drop_removed(drop=True, keep=keep)
    assert server.done == ["drop stream table if exists `shop`.`gone`"]


class Relation:
    """A relation of dbt, as far as these macros ask."""

    def __init__(self, identifier: str, schema: str = "shop") -> None:
        self.identifier, self.schema, self.is_view = identifier, schema, False

    def incorporate(self, path: dict[str, str], type: str) -> Relation:  # noqa: A002  (dbt's name)
        return Relation(path["identifier"], self.schema)

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


def test_what_a_killed_run_left_of_either_kind_is_in_no_models_way() -> None:
    server, dropped = Server(), list[str]()
    adapter = SimpleNamespace(drop_relation=lambda relation: dropped.append(str(relation)))
    ignored = {name: lambda *_, **__: "" for name in ("write", "log", "store_raw_result")}
    done = {"name": "t", "action": "REINITIALIZE", "reason": "", "rows_inserted": 1, "rows_deleted": 0}
    answers = {"create": [done]}

    def run(sql: str) -> SimpleNamespace:
        server.run(sql)
        return SimpleNamespace(rows=answers.get(sql.split(maxsplit=1)[0], []))

    package = Package(config=Config(), run_query=run, adapter=adapter, execute=True, **ignored)
    package.put_in_place(Relation("t"), Relation("t"), "", "select 1 as one")
    assert server.done[0] == "drop table if exists shop.t__dbt_tmp"
    assert server.done[-1] == "alter stream table shop.t__dbt_tmp rename to shop.t" and dropped == ["shop.t"]


def refused(server: Server, **config: object) -> str:
    """Replace a table that a queue follows, whose replacement is refused, and return why the macro does nothing."""

    def refuse(text: str) -> None:
        raise ValueError(text)

    exceptions = SimpleNamespace(raise_compiler_error=refuse)
    package = Package(config=Config(**config), run_query=server.run, exceptions=exceptions, execute=True)
    told = [{"operator": "Held by", "reason": "shop.q"}, {"operator": "Replace", "reason": "it is refused: other columns"}]
    with pytest.raises(ValueError, match=r"shop\.t: a table made beside it would .*: it is refused: other columns") as found:
        package.replace(Relation("t"), Relation("t"), "", "select 1 as one", told)
    return str(found.value)


def test_no_table_without_the_frozen_rows_takes_the_place_of_one_that_has_them() -> None:
    server = Server()
    assert "would lose its frozen rows" in refused(server, frozen_where="day < 5")
    assert server.done == []


def test_no_table_takes_the_place_of_one_that_a_queue_follows() -> None:
    server = Server()
    assert "would not be followed by shop.q; drop these first" in refused(server)
    assert server.done == []


class Shop(Server):
    """A shop whose `t` is read, with ordinary tables beside the stream tables."""

    def __init__(self, *tables: str, ordinary: tuple[str, ...] = (), marked: tuple[str, ...] = ()) -> None:
        super().__init__(*tables)
        self.every, self.marked = {*tables, *ordinary}, marked

    def run(self, sql: str) -> SimpleNamespace:
        if found := re.fullmatch(r"show (stream )?tables in `2024-shop` like '(.*)'", sql):
            names = [each for each in (self.tables if found[1] else self.every) if fnmatch(each, found[2])]
            return SimpleNamespace(rows=[{"name": f"spark_catalog.2024-shop.{each}"} for each in names])
        if found := re.fullmatch(r"show tblproperties `spark_catalog`.`2024-shop`.`(.*)` \('dbt.backup'\)", sql):
            mark = f"2024-shop.{found[1]}" if found[1] in self.marked else f"Table {found[1]} does not have property: dbt.backup"
            return SimpleNamespace(rows=[{"key": "dbt.backup", "value": mark}])
        if sql == "show stream table dependencies":
            return SimpleNamespace(rows=[{"name": "spark_catalog.2024-shop.reader", "source": "spark_catalog.2024-shop.t"}])
        return super().run(sql)


def package_of(shop: Shop) -> Package:
    ignored: dict[str, Any] = {"log": lambda *_, **__: ""}
    adapter = SimpleNamespace(cache_renamed=lambda *_: "", cache_dropped=lambda *_: "")
    relation = SimpleNamespace(create=lambda schema, identifier, **_: Relation(identifier, schema))
    models = {"m": SimpleNamespace(resource_type="model", schema="2024-shop", alias="own__dbt_backup")}
    graph = SimpleNamespace(nodes=models, sources={})
    api = SimpleNamespace(Relation=relation)
    refused = SimpleNamespace(raise_compiler_error=pytest.fail)
    return Package(run_query=shop.run, adapter=adapter, graph=graph, api=api, exceptions=refused, execute=True, **ignored)


@pytest.mark.parametrize(
    ("tables", "ordinary", "aside"),
    [
        (("t",), (), "t__dbt_backup"),
        (("t",), ("t__dbt_backup",), "t_2__dbt_backup"),
        (("t", "t__dbt_backup"), ("t_2__dbt_backup",), "t_3__dbt_backup"),
    ],
)
def test_a_table_steps_aside_under_a_name_that_nothing_has(tables: tuple[str, ...], ordinary: tuple[str, ...], aside: str) -> None:
    shop = Shop(*tables, ordinary=ordinary)
    package_of(shop).make_room(Relation("t", "2024-shop"))
    assert shop.done == [
        f"alter stream table 2024-shop.t set tblproperties ('dbt.backup' = '2024-shop.{aside}')",
        f"alter stream table 2024-shop.t rename to 2024-shop.{aside}",
    ], "a run that is killed in between leaves no backup without its mark, which would stay for ever"


def test_a_stream_table_that_merely_has_the_name_of_a_backup_stays() -> None:
    """Only what stepped aside goes: neither a table of somebody else's, nor one that a model has by now, nor a copy of a backup."""
    marked = ("t__dbt_backup", "own__dbt_backup")
    shop = Shop("t", *marked, "users__dbt_backup", ordinary=("u__dbt_backup",), marked=marked)
    package_of(shop).drop_unread_backups("2024-shop")
    assert shop.done == ["drop stream table if exists `spark_catalog`.`2024-shop`.`t__dbt_backup`"]
