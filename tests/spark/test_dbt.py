"""dbt, as people run it, against `streamtable server`: the example's project is built, changed in many ways, and built again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.spark.serving import Running, serving
from tests.spark.shop_of_dbt import PACKAGE, Built, Project, dbt_python, environment_of_dbt, project_of

pytestmark = pytest.mark.dbt

STREAM_TABLES = {
    "stg_products",
    "stg_orders",
    "stg_order_lines",
    "order_totals",
    "revenue_by_day",
    "revenue_by_region",
    "revenue_by_product",
    "best_of_category",
    "customer_value",
    "customers_without_orders",
    "open_orders",
    "first_orders",
    "regions",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server"), "--no-scheduler") as running:
        yield running


@pytest.fixture(scope="module")
def shop(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Give the project, built once; each test goes on from where the one before left it, as people do."""
    with project_of(server, tmp_path_factory.mktemp("dbt") / "shop") as project:
        project.done("deps")
        built = project.done("build")
        assert set(actions(built)) == STREAM_TABLES
        assert set(actions(built).values()) == {"REINITIALIZE"}
        yield project


def rows(server: Running, sql: str) -> list[tuple[object, ...]]:
    with server.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def there(server: Running) -> set[str]:
    return {str(row[0]).rpartition(".")[2] for row in rows(server, "SHOW STREAM TABLES IN shop")}


def verified(server: Running) -> None:
    """Hold every stream table to its query, whatever dbt did to it."""
    assert [row for row in rows(server, "VERIFY STREAM TABLES IN shop") if not row[1]] == []


def actions(built: Built) -> dict[str, str]:
    return {name: message.split()[0] for name, (_, message) in built.nodes.items() if name in STREAM_TABLES}


def test_a_changed_seed_is_a_small_change_above_it(shop: Project, server: Running) -> None:
    shop.edit("seeds/order_lines.csv", "7,5,1\n", "7,5,2\n6,1,1\n")
    built = shop.done("build", "--exclude-resource-type", "snapshot")
    assert "FULL" not in actions(built).values()
    assert "REINITIALIZE" not in actions(built).values()
    assert built.message("stg_order_lines") == "DIFFERENTIAL +2 -1"
    assert built.message("revenue_by_day") == "DIFFERENTIAL +1 -1"
    assert built.message("stg_orders").endswith(" +0 -0")  # dbt loads each seed again
    sold = rows(server, "SELECT revenue FROM shop.revenue_by_day WHERE ordered_on = DATE '2026-01-08'")
    assert sold == [(Decimal("50.00"),)]


def test_edits_change_what_they_have_to(shop: Project, server: Running) -> None:
    cosmetic = "-- per region\nselect c.region,\n       sum(o.amount) as revenue"
    shop.edit("models/marts/revenue_by_region.sql", "select c.region, sum(o.amount) as revenue", cosmetic)
    compatible = "sum(a.amount) as revenue, count(*) as lines"
    shop.edit("models/marts/revenue_by_product.sql", "sum(a.amount) as revenue", compatible)
    shop.edit("models/marts/open_orders.sql", "status = 'open'", "status <> 'paid'")
    built = shop.done("run", "-s", "revenue_by_region", "revenue_by_product", "open_orders")
    assert actions(built) == {
        "revenue_by_region": "NO_DATA",
        "revenue_by_product": "REINITIALIZE",
        "open_orders": "REINITIALIZE",
    }
    assert rows(server, "SELECT count(*) FROM shop.open_orders") == [(3,)]
    assert "-- per region" in str(rows(server, "SHOW CREATE STREAM TABLE shop.revenue_by_region"))


def test_a_column_that_is_renamed_upstream(shop: Project, server: Running) -> None:
    shop.edit("models/staging/stg_orders.sql", "status from", "status as order_status from")
    shop.edit("models/schema.yml", "name: status", "name: order_status")
    shop.edit("models/schema.yml", ", status:", ", order_status:")
    built = shop.dbt("run", "-s", "stg_orders", "open_orders")
    assert (built.nodes["stg_orders"][0], built.nodes["open_orders"][0]) == ("success", "error")
    assert "stg_orders__dbt_backup" in there(server)  # which those that were not built go on with
    verified(server)
    shop.edit("models/marts/order_totals.sql", "o.status", "o.order_status")
    shop.edit("models/marts/revenue_by_day.sql", "status =", "order_status =")
    shop.edit("models/marts/open_orders.sql", "status <>", "order_status <>")
    shop.done("build", "-s", "stg_orders+")
    assert there(server) == STREAM_TABLES
    verified(server)


def test_a_model_that_is_deleted(shop: Project, server: Running) -> None:
    (shop.folder / "models" / "marts" / "first_orders.sql").unlink()
    shop.done("run-operation", "streamtable.drop_removed")
    assert there(server) == STREAM_TABLES
    assert "no model has: shop.first_orders\n" in shop.log()
    shop.done("run-operation", "streamtable.drop_removed", "--args", "{drop: true}")
    assert there(server) == STREAM_TABLES - {"first_orders"}


def test_a_model_becomes_a_table_a_view_and_a_stream_table(shop: Project, server: Running) -> None:
    """A stream table reads it all the while; where it reads the old one, that stays until it is built."""
    was = (shop.folder / "models/marts/order_totals.sql").read_text()
    kinds = ("table", "TABLE"), ("view", "VIEW"), ("table", "TABLE"), ("stream_table", "TABLE")
    for kind, _ in kinds:
        (shop.folder / "models/marts/order_totals.sql").write_text(
            f"{{{{ config(materialized='{kind}', file_format='delta') }}}}\n{was}"
        )
        shop.done("run", "-s", "order_totals", "customer_value", "revenue_by_day", "revenue_by_region")
        assert ("order_totals" in there(server)) == (kind == "stream_table")
        assert not any(name.endswith(("__dbt_backup", "__dbt_tmp")) for name in there(server))
        assert rows(server, "SELECT count(*) FROM shop.order_totals") == [(7,)]
        verified(server)


def test_what_may_change_and_what_not(shop: Project, server: Running) -> None:
    path = "models/marts/customers_without_orders.sql"
    was = (shop.folder / path).read_text()

    def ran(config: str, *options: str) -> tuple[str, str]:
        (shop.folder / path).write_text(f"{{{{ config({config}) }}}}\n{was}")
        return shop.dbt("run", "-s", "customers_without_orders", *options).nodes["customers_without_orders"]

    assert ran("on_configuration_change='fail'") == ("success", "NO_DATA +0 -0")
    status, message = ran("on_configuration_change='fail', schedule='9m'")
    assert (status, "only the definition changes" in message) == ("error", True)
    assert ran("on_configuration_change='continue', schedule='9m'")[1] == "skip shop.customers_without_orders"
    assert ran("schedule='9m'") == ("success", "NO_DATA +0 -0")
    assert "'9m'" in str(rows(server, "SHOW STREAM TABLES IN shop LIKE 'customers_without_orders'"))
    assert ran("schedule='9m'", "--full-refresh")[1].startswith("FULL ")
    for config, words in {
        "grants={'select': ['ada']}": "`grants` are not there",
        "file_format='parquet'": "a stream table is a Delta table",
        "trigger='at will'": "expected ON UPDATE",
    }.items():
        status, message = ran(config)
        assert (status, words in message) == ("error", True), message
    assert ran("schedule='9m'") == ("success", "NO_DATA +0 -0")
    shop.edit("models/schema.yml", "{name: last_order, data_type: date}", "{name: last_order, data_type: string}")
    status, message = shop.dbt("run", "-s", "customer_value").nodes["customer_value"]
    assert (status, "enforced contract that failed" in message) == ("error", True), message
    shop.edit("models/schema.yml", "{name: last_order, data_type: string}", "{name: last_order, data_type: date}")


def test_what_would_lose_frozen_rows_is_refused(shop: Project, server: Running) -> None:
    path, name = "models/marts/customers_without_orders.sql", "customers_without_orders"
    was = (shop.folder / path).read_text()
    frozen = f"{{{{ config(frozen_where='customer_id < 3 -- of old') }}}}\n{was}"

    def ran(text: str, *options: str) -> tuple[str, str]:
        (shop.folder / path).write_text(text)
        return shop.dbt("run", "-s", name, *options).nodes[name]

    assert ran(frozen)[0] == "success"
    assert "FROZEN WHERE (customer_id < 3 -- of old" in str(rows(server, f"SHOW CREATE STREAM TABLE shop.{name}"))
    assert ran(frozen, "--full-refresh")[1].startswith("FULL ")
    for text, said in {
        frozen.replace("c.name", "c.name, 1 as more"): "would lose its frozen rows",
        was: "has frozen rows, which a definition without FROZEN WHERE would lose",
    }.items():
        status, message = ran(text)
        assert (status, said in message) == ("error", True), message
    rows(server, f"ALTER STREAM TABLE shop.{name} DROP FROZEN")
    assert ran(was)[0] == "success"
    verified(server)


def test_a_table_that_a_queue_follows_is_not_dropped_where_its_replacement_is_refused(shop: Project, server: Running) -> None:
    path, name = "models/marts/customers_without_orders.sql", "customers_without_orders"
    was = (shop.folder / path).read_text()
    rows(server, f"CREATE QUEUE shop.lost_customers ON shop.{name}")
    (shop.folder / path).write_text(f"{{{{ config(partition_by='customer_id') }}}}\n{was}")
    status, message = shop.dbt("run", "-s", name).nodes[name]
    assert (status, "would not be followed by spark_catalog.shop.lost_customers; drop these first" in message) == ("error", True)
    rows(server, "DROP QUEUE shop.lost_customers")
    (shop.folder / path).write_text(was)
    assert shop.dbt("run", "-s", name).nodes[name][0] == "success"
    verified(server)


def test_rows_that_fail_are_counted_dropped_or_make_the_build_fail(shop: Project, server: Running) -> None:
    name, path = "customers_without_orders", "models/marts/customers_without_orders.sql"
    was = (shop.folder / path).read_text()
    early = {"name": "early", "condition": "customer_id < 6"}

    def ran(**config: object) -> tuple[str, str]:
        written = ", ".join(f"{key}={value!r}" for key, value in config.items())
        (shop.folder / path).write_text(f"{{{{ config({written}) }}}}\n{was}" if config else was)
        return shop.dbt("run", "-s", name).nodes[name]

    def counted() -> list[tuple[object, ...]]:
        return rows(server, f"SELECT expectation, on_violation, passed, failed FROM expectations('shop.{name}')")

    assert ran(expectations=[early])[0] == "success"
    assert counted() == [("early", "KEEP", 0, 1)]
    dropping = [{**early, "on_violation": "drop row"}]
    status, message = ran(expectations=dropping, on_configuration_change="fail")
    assert (status, "Configuration changes were identified" in message) == ("error", True), message
    assert ran(expectations=dropping)[0] == "success"
    assert counted() == [("early", "DROP ROW", 0, 1)]
    assert rows(server, f"SELECT count(*) FROM shop.{name}") == [(0,)]
    status, message = ran(expectations=[{**early, "on_violation": "fail update"}])
    assert (status, "STREAMTABLE_EXPECTATION_FAILED" in message) == ("error", True), message
    assert counted() == [("early", "DROP ROW", 0, 1)]
    status, message = ran(target_lag="1 hour")
    assert (status, "there is no config `target_lag`: write `schedule`" in message) == ("error", True), message
    assert ran(trigger="on update")[0] == "success"
    assert "ON UPDATE" in str(rows(server, f"SHOW STREAM TABLES IN shop LIKE '{name}'"))
    constrained = f"  - name: {name}\n    columns: [{{name: name, constraints: [{{type: not_null}}]}}]\n  - name: customer_value\n"
    shop.edit("models/schema.yml", "  - name: customer_value\n", constrained)
    assert ran()[0] == "success"
    assert counted() == [("name_not_null", "FAIL UPDATE", 1, 0)]
    shop.edit("models/schema.yml", constrained, "  - name: customer_value\n")
    (shop.folder / path).write_text(was)
    shop.done("run", "-s", name)
    assert counted() == []
    verified(server)


def test_docs_show_stream_tables(shop: Project, server: Running) -> None:
    shop.done("docs", "generate")
    nodes = json.loads((shop.folder / "target" / "catalog.json").read_text())["nodes"]
    assert list(nodes["model.shop.revenue_by_day"]["columns"]) == ["ordered_on", "revenue", "orders"]
    assert nodes["model.shop.revenue_by_day"]["columns"]["ordered_on"]["type"] == "date"
    comments = {row[0]: row[2] for row in rows(server, "DESCRIBE TABLE shop.stg_orders")}
    assert comments["order_id"] == "The shop's number of the order."
    assert "One row per order." in str(rows(server, "DESCRIBE TABLE EXTENDED shop.stg_orders"))


@pytest.mark.parametrize("file", ["test_basic.py", "test_materialized_view.py"])
def test_dbt_s_own_tests_of_adapters(server: Running, file: str, tmp_path: Path) -> None:
    folder = str(PACKAGE / "adapter_tests")
    command = [
        str(dbt_python()),
        "-m",
        "pytest",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),  # where dbt's fixtures write logs
        "-p",
        "no:cacheprovider",
        f"{folder}/{file}",
    ]
    done = subprocess.run(command, env=environment_of_dbt(server), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-10_000:]
