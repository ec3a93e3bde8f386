"""What a subscriber's table is like makes no difference to what comes to be in it; each way to write it is taken by one of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import rows_of
from tests.oracle.scenario import dropped, planned_once
from tests.pipeline import in_turn
from tests.spark.statements import answer

from streamtable.replication.writer import Writer

VECTORS, FEED, ROWS = "delta.enableDeletionVectors", "delta.enableChangeDataFeed", "delta.enableRowTracking"
COLUMNS = "id INT, v INT, text STRING"
TARGETS: dict[str, tuple[str, dict[str, str], bool]] = {
    # its columns, its properties, and whether its rows are replaced by position
    "with vectors": (COLUMNS, {VECTORS: "true"}, True),
    "without vectors": (COLUMNS, {VECTORS: "false"}, False),
    "with a change feed": (COLUMNS, {VECTORS: "true", FEED: "true"}, False),
    "with row tracking": (COLUMNS, {VECTORS: "true", ROWS: "true"}, False),
    "with a column that is computed": (f"{COLUMNS}, twice INT GENERATED ALWAYS AS (v * 2)", {VECTORS: "true"}, True),
    "with a column of its own": (f"{COLUMNS}, own INT", {VECTORS: "true"}, False),
    "with a number for each row": (f"{COLUMNS}, n BIGINT GENERATED ALWAYS AS IDENTITY", {VECTORS: "true"}, False),
    "in other letters and another order": ("Text STRING, V INT, ID INT", {VECTORS: "true"}, True),
}


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        for schema in ("sends", "gets"):
            spark.sql(f"CREATE DATABASE {schema}")
        spark.sql("USE gets")
        yield spark
    dropped(spark, "sends", "gets")


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables that were written by MERGE, as they come."""
    found: list[str] = []
    merge = Writer._merge

    def counted(writer: Writer, *arguments: Any) -> None:
        found.append(writer.name)
        merge(writer, *arguments)

    monkeypatch.setattr(Writer, "_merge", counted)
    return found


def subscribe(s: SparkSession, name: str, columns: str, properties: dict[str, str]) -> None:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    s.sql(
        f"CREATE TABLE sends.{name} ({COLUMNS}) USING delta TBLPROPERTIES ('streamtable.replicaIdentity' = 'id', '{FEED}' = 'true')"
    )
    s.sql(f"CREATE TABLE {name} ({columns}) USING delta TBLPROPERTIES ({listed})")
    s.sql(f"INSERT INTO sends.{name} SELECT id, id % 3, concat('row ', id) FROM range(20)")
    s.sql(f"CREATE PUBLICATION sends.pub_{name} FOR TABLE sends.{name}")
    s.sql(f"CREATE SUBSCRIPTION sub_{name} CONNECTION 'database=sends' PUBLICATION pub_{name}")
    apply(s, name)


def apply(s: SparkSession, name: str) -> None:
    s.sql(f"APPLY SUBSCRIPTION sub_{name}")
    found, sent = (rows_of(s, f"{schema}.{name}", "id", "v", "text") for schema in ("gets", "sends"))
    assert found == sent


def changes(rnd: random.Random, name: str) -> list[str]:
    one, other, new = rnd.sample(range(20), 1)[0], rnd.randrange(20), rnd.randrange(100, 1000)
    return [
        f"UPDATE sends.{name} SET v = v + 1, text = NULL WHERE id IN ({one}, {other})",
        f"DELETE FROM sends.{name} WHERE id = {one}",
        f"INSERT INTO sends.{name} SELECT {one}, 7, 'again' WHERE NOT EXISTS (SELECT 1 FROM sends.{name} WHERE id = {one})",
        f"INSERT INTO sends.{name} SELECT {new}, 8, 'new' WHERE NOT EXISTS (SELECT 1 FROM sends.{name} WHERE id = {new})",
        f"UPDATE sends.{name} SET text = 'odd' WHERE v % 2 = 1",
        f"DELETE FROM sends.{name} WHERE id = {new}",
    ]


SOME = ("with vectors", "without vectors", "with a column that is computed", "in other letters and another order")
"""One that is written by MERGE, and three that are not; `./run fuzz -k subscribers_table` has all."""


@pytest.mark.parametrize("kind", in_turn(TARGETS, SOME))
def test_a_subscribers_table(s: SparkSession, merges: list[str], kind: str) -> None:
    columns, properties, by_position = TARGETS[kind]
    name, rnd = kind.replace(" ", "_"), random.Random(kind)
    subscribe(s, name, columns, properties)
    assert not merges, "the first copy looks for no rows"
    for _ in range(2 if "vectors" in kind else 1):  # files that have deleted rows already
        some = [rnd.choice(changes(rnd, name)) for _ in range(rnd.randint(2, 4))]
        for statement in [*some, f"UPDATE sends.{name} SET v = v + 2 WHERE id < 5"]:
            s.sql(statement)
        apply(s, name)
    s.sql(f"DELETE FROM sends.{name} WHERE id > 10")  # nothing comes
    apply(s, name)
    assert bool(merges) != by_position
    merges.clear()
    s.sql(f"INSERT INTO sends.{name} VALUES (5000, 1, 'a'), (5001, 1, 'b')")
    apply(s, name)
    assert not merges, "no row is to be looked for"
    if "computed" in kind:
        assert answer(s, f"SELECT count(*) FROM {name} WHERE twice <> v * 2 OR twice IS NULL") == [(0,)]


def test_all_rows_of_a_key_change_where_there_are_several(s: SparkSession, merges: list[str]) -> None:
    subscribe(s, "several", COLUMNS, {VECTORS: "true"})
    s.sql("INSERT INTO several VALUES (1, 9, 'a second'), (2, 9, 'a second')")
    s.sql("UPDATE sends.several SET text = 'one' WHERE id = 1")
    s.sql("DELETE FROM sends.several WHERE id = 2")
    s.sql("APPLY SUBSCRIPTION sub_several")
    assert merges
    assert answer(s, "SELECT * FROM several WHERE id < 3 ORDER BY id") == [(0, 0, "row 0"), (1, 1, "one"), (1, 1, "one")]


def test_who_writes_at_the_same_time_loses_nothing(s: SparkSession, merges: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe(s, "busy", COLUMNS, {VECTORS: "true"})
    commit = Writer._commit

    def late(writer: Writer, *arguments: Any) -> Any:
        s.sql("INSERT INTO busy VALUES (-1, 0, 'of others')")
        return commit(writer, *arguments)

    monkeypatch.setattr(Writer, "_commit", late)
    for statement in ("INSERT INTO sends.busy VALUES (77, 7, 'came')", "UPDATE sends.busy SET v = 5 WHERE id IN (1, 77)"):
        s.sql(statement)
        s.sql("APPLY SUBSCRIPTION sub_busy")
    assert len(merges) == 2
    expected = [(-1, 0, "of others"), (-1, 0, "of others"), (1, 5, "row 1"), (77, 5, "came")]
    assert answer(s, "SELECT * FROM busy WHERE id IN (-1, 1, 77) ORDER BY id") == expected
