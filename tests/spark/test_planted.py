"""What somebody who may write a table's folder puts there harms no other table, and is neither followed nor believed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, folder
from tests.spark.tampering import record, tamper

from streamtable.catalog.index import Index
from streamtable.errors import DefinitionNotAccepted, DefinitionUnreadable
from streamtable.refresh.frontier import Vector
from streamtable.schedule.engine import table_of

QUERY = "SELECT region, avg(amount) AS mean FROM sales GROUP BY region"


def instead(**changes: object) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **changes})


FRONTIERS: dict[str, Callable[[str], str]] = {
    "no JSON": lambda text: "nonsense",
    "nothing": lambda text: "{}",
    "too deep": lambda text: "[" * 100_000,
    "a number that is none": instead(number="x"),
    "a number that Java does not take": instead(number=2**70),
    "versions that are none": instead(sources={"/p": {"table_id": "x", "number": "y"}}),
    "no time": instead(at="yesterday"),
    "a time of no zone": instead(at="2026-01-01T00:00:00"),
    "no runs": instead(runs=[1]),
    "a plan that leads out of the folder": instead(fingerprint="../../../victim"),
    "an arrangement that leads out of the folder": instead(arrangements={"../../../victim": 3}),
}


def test_a_frontier_that_cannot_be_read_begins_the_table_anew_and_hides_no_other(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '1h' AS {QUERY}")
    shop.sql(f"CREATE STREAM TABLE other SCHEDULE '1h' AS {QUERY}")
    names = [("spark_catalog.shop.other",), ("spark_catalog.shop.st",)]
    for written in FRONTIERS.values():
        record(folder(shop, "st"), written, '{"streamtable": {"action": "FULL", "reason": 5, "duration_ms": "x"}}')
        found = Index(shop).poll()
        vector = Vector.read(shop, list(found))
        assert [table_of(entry, vector).since is None for _, entry in sorted(found.items())] == [False, True]
        assert [row[:1] for row in answer(shop, "SHOW STREAM TABLES")] == names
        assert done(shop, "REFRESH STREAM TABLE st")[:2] == ("REINITIALIZE", "the record of the last refresh cannot be read")
    for function in ("stream_tables", "staleness", "refresh_stats"):
        assert answer(shop, f"SELECT name FROM {function}() WHERE name LIKE '%.shop.%' ORDER BY name") == names
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1] is True


@pytest.mark.parametrize("key", in_turn(["status", "error", "resumed"], ["error"]))
def test_how_a_table_fares_that_cannot_be_read_hides_no_other(shop: SparkSession, key: str) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM sales")
    shop.sql("CREATE STREAM TABLE other AS SELECT id FROM sales")
    tamper(folder(shop, "st"), **{f"streamtable.{key}": '{"version": 1, "at": 1}'})
    with pytest.raises(DefinitionUnreadable, match=r"shop\.st cannot be read"):
        shop.sql("REFRESH STREAM TABLE st")
    shown = [("spark_catalog.shop.other", "ACTIVE"), ("spark_catalog.shop.st", "UNREADABLE")]
    assert [row[:2] for row in answer(shop, "SHOW STREAM TABLES")] == shown
    shop.sql("DROP STREAM TABLE st")


def test_a_link_in_place_of_a_hidden_table_is_not_followed(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    shop.sql(f"CREATE STREAM TABLE victim AS {QUERY}")
    for depth in (1, 2, 3):
        hidden, theirs = (next((folder(shop, name)).glob("_streamtable" + "/*" * (depth - 1))) for name in ("st", "victim"))
        before = sorted(path for path in theirs.rglob("*"))
        kept = Path(shutil.move(hidden, folder(shop, "st").parent / "kept"))
        hidden.symlink_to(theirs)
        shop.sql(f"INSERT INTO sales VALUES (7, 'west', {depth})")
        for statement in ("REFRESH STREAM TABLE st", "REFRESH STREAM TABLE st FULL"):
            with pytest.raises(DefinitionNotAccepted, match="is a link"):
                shop.sql(statement)
        assert sorted(path for path in theirs.rglob("*")) == before
        hidden.unlink()
        shutil.move(kept, hidden)
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1] is True


def test_a_link_in_place_of_a_log_is_not_followed(shop: SparkSession) -> None:
    """The log of a clone has the same definition, and may be one that its attacker cannot write."""
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM sales")
    shop.sql("CREATE TABLE copied SHALLOW CLONE st")
    log, theirs = (folder(shop, name) / "_delta_log" for name in ("st", "copied"))
    before = sorted(theirs.iterdir())
    shutil.rmtree(log)
    log.symlink_to(theirs)
    shop.sql("INSERT INTO sales VALUES (7, 'west', 1)")
    with pytest.raises(DefinitionNotAccepted, match="is a link|which the catalog has not accepted"):
        shop.sql("REFRESH STREAM TABLE st FULL")
    assert sorted(theirs.iterdir()) == before
    log.unlink()


def test_a_consumer_that_cannot_be_read_is_not_registered_any_more(shop: SparkSession) -> None:
    shop.sql("CREATE QUEUE q ON sales")
    for name in ("one", "two"):
        shop.sql(f"REGISTER CONSUMER {name} ON q")
    kept = folder(shop, "q") / "_streamtable" / "consumers" / b"one".hex()
    tamper(kept, **{"streamtable.consumer": '{"name": "one", "position": "x"}'})
    assert [row[0] for row in answer(shop, "SHOW CONSUMERS ON q")] == ["two"]
    shop.sql("REGISTER CONSUMER one ON q")
    shop.sql("INSERT INTO sales VALUES (7, 'west', 1)")
    assert len(answer(shop, "NEXT BATCH FROM q FOR one")) == 1
    shop.sql("DROP QUEUE q FORCE")
