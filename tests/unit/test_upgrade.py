"""What version 0.1.0 wrote into tables is read by this one. The fixture is what 0.1.0 printed; it is never written again."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from streamtable.catalog.definition import ACTIVE, SUSPENDED, Definition, Failure, Resumed, code_of
from streamtable.catalog.kinds import PUBLICATION, QUEUE, SUBSCRIPTION, CatalogObject, statement_of
from streamtable.catalog.requests import requests_of
from streamtable.delta.tables import Version
from streamtable.language.queue.ast import CreateQueue, Limits
from streamtable.language.replication.ast import CreatePublication
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.language.stream_table.schedule import Calculated, Cron, Every, Manual, next_time
from streamtable.language.stream_table.state import StateMode
from streamtable.queue.definition import Queue
from streamtable.refresh.choose import Action
from streamtable.refresh.cost import Ran
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.records import Record
from streamtable.replication.subscriptions import Subscription

WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "fixtures/upgrade/0.1.0.json").read_text("utf-8"))
TABLES: dict[str, dict[str, str]] = WRITTEN["stream tables"]
SALES = "file:/w/shop.db/sales"
AT = datetime(2026, 11, 27, 12, 30, 15, 250, tzinfo=timezone.utc)


def definition(name: str) -> Definition:
    found = Definition.of(TABLES[name])
    assert found is not None
    return found


@pytest.mark.parametrize("name", TABLES)
def test_the_definition_of_each_table_is_read(name: str) -> None:
    found = definition(name)
    assert (found.name, found.id) == ("spark_catalog.shop.st", "9f0c5f1c3f5e4b6e8d2a1b0c9d8e7f60")
    assert (found.namespace, found.sources) == (("spark_catalog", "shop"), {SALES: "spark_catalog.shop.sales"})
    assert found.settings == {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "true"}
    assert (found.statement.state, found.statement.expectations, found.statement.with_data) == (StateMode.AUTO, (), True)
    assert requests_of(TABLES[name]) == ()


@pytest.mark.parametrize("name", TABLES)
def test_a_statement_that_stores_it_again_changes_nothing_but_what_is_new(name: str) -> None:
    """The first ALTER after the upgrade adds the name to the properties, and keeps the rows and the query."""
    again = {key: value for key, value in definition(name).properties().items() if value is not None}
    after = {**TABLES[name], **again}
    assert Definition.of(after) == definition(name)
    changed = {key for key in after if after[key] != TABLES[name].get(key)}
    assert changed <= {"streamtable.name", "streamtable.error", "streamtable.resumed", "streamtable.definition"}
    assert {"streamtable.definition", "streamtable.id"} <= code_of(TABLES[name]).keys(), "ACCEPT DEFINITION accepts these"


def test_schedules_modes_layouts_and_comments_mean_what_they_meant() -> None:
    plain, suspended, resumed, calculated = (definition(name).statement for name in TABLES)
    assert (plain.schedule, plain.comment, plain.mode) == (Every(300, "5m"), "it's", RefreshMode.AUTO)
    assert (suspended.schedule, suspended.mode) == (Manual(), RefreshMode.DIFFERENTIAL)
    assert (suspended.partitioned_by, suspended.properties) == (("region",), (("team", "a"),))
    assert isinstance(resumed.schedule, Cron) and resumed.clustered_by == ("a",)
    assert next_time(resumed.schedule, AT).strftime("%A") == "Tuesday", "the days of 0.1.0 began with Sunday as 0"
    assert [(each.name, each.comment) for each in resumed.columns] == [("a", "x"), ("b", None)]
    assert (calculated.schedule, calculated.mode) == (Calculated(), RefreshMode.FULL)


def test_suspensions_and_resumes_are_kept() -> None:
    failure = Failure("the source is gone", "STREAMTABLE_SOURCE_UNAVAILABLE", AT.replace(microsecond=0), 3)
    assert (definition("suspended").status, definition("suspended").error) == (SUSPENDED, failure)
    assert (definition("resumed").status, definition("resumed").resumed) == (ACTIVE, Resumed(7, AT))


def test_a_refresh_goes_on_from_the_frontier() -> None:
    found = Frontier.of(WRITTEN["frontier"])
    assert found is not None
    assert (found.sources, found.base, found.number, found.at) == ({SALES: Version("f00d", 3)}, 4, 3, AT)
    assert found.arrangement("by_region_1") == Version("beef", 2)
    assert found.runs == (Ran(True, 1, 20, 300), Ran(False, 20, 20, 900, False))
    assert (found.counts, found.states) == (None, ())
    assert Frontier.of(found.to_json()) == found


def test_the_history_is_read() -> None:
    created, failed = map(Record.of, WRITTEN["records"])
    assert created == Record(Action.REINITIALIZE, "the table was created", 900, {SALES: 1}, 4, 0, "INITIAL")
    assert failed == Record(Action.FAILED, "[STREAMTABLE_REFRESH_FAILED] why", 5, initiated_by="SCHEDULER")


def test_queues_publications_and_subscriptions_are_read() -> None:
    content = {"id": "2d", "sql": WRITTEN["queue"], "namespace": ["spark_catalog", "shop"], "settings": {}}
    queue = Queue.of(CatalogObject(QUEUE, ("spark_catalog", "shop", "q"), "/q", 0, content))
    assert isinstance(queue.statement, CreateQueue) and queue.statement.limits == Limits(max_count=5)
    published = statement_of(CatalogObject(PUBLICATION, ("p",), "/p", 0, {"sql": WRITTEN["publication"]}), CreatePublication)
    assert isinstance(published, CreatePublication) and published.objects is not None
    found = Subscription.of(CatalogObject(SUBSCRIPTION, ("spark_catalog", "shop", "s"), "/s", 0, WRITTEN["subscription"]))
    assert (found.enabled, found.publications, found.slot) == (True, ("p",), "s")
    assert [(each.table, each.position, each.error) for each in found.tables] == [("sales", 4, None), ("gone", None, "no column")]
