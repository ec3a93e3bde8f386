"""Which intents are trusted for tables outside of the folder that they were found in. Catalog and storage are played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest
from pyspark.sql import SparkSession

from streamtable.catalog import halves, parts
from streamtable.catalog.accepted import NAME
from streamtable.catalog.definition import IDENTITY, Definition
from streamtable.catalog.halves import FOLDER, ID, Intent, Kind, Part
from streamtable.catalog.kinds import PUBLICATION, SLOT
from streamtable.delta.tables import ALWAYS, NEVER, Located
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable

SPARK = cast("SparkSession", None)
TABLE, OBJECT, PATH = ("c", "shop", "st"), ("c", "other", "goods"), ("spark_catalog", "delta", "/far/slot")
CHECKPOINTS = ("delta.checkpointInterval", "100")
SEEN, TOKEN = 5_000, "a token"


@dataclass
class World:
    """Tables by path, the catalog by name, and what was done to them."""

    tables: dict[str, Mapping[str, str]] = field(default_factory=dict)
    names: dict[tuple[str, ...], Located] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    forgotten: list[tuple[str, ...]] = field(default_factory=list)
    around: set[str] = field(default_factory=set)

    def settle(self, kind: Kind, *told: Part, failed: bool = False) -> bool:
        """Settle an intent in the folder of the schema `shop`, whose first table never was."""
        nobody = Part(("c", "shop", "nobody"), "file:/w/shop/nobody", (ID, "0"))
        intent = Intent(kind, (nobody, *told), "", "here", "", f"file:/w/shop/{FOLDER}/x-1-1-0.json", SEEN)
        return halves.settle(SPARK, intent, failed=failed)

    def untouched(self) -> bool:
        return not self.dropped.keys() - {"file:/w/shop/nobody"} and not self.forgotten


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def forget(spark: object, name: tuple[str, ...]) -> None:
        made.forgotten.append(name)
        del made.names[name]

    def place(spark: object, name: tuple[str, ...], location: str | None) -> str:
        return f"file:{location}" if location else f"file:/w/{name[1]}/{name[2]}"

    monkeypatch.setattr(halves, "find_table", lambda spark, name: made.names.get(name, Located(name, "none", "")))
    monkeypatch.setattr(halves, "properties_at", lambda spark, path: made.tables.get(path, {}))
    monkeypatch.setattr(halves, "names", lambda spark, path: ["something"])
    monkeypatch.setattr(halves, "drop_own", lambda spark, path, until: made.dropped.update({path: until}))
    monkeypatch.setattr(halves, "forget", forget)
    monkeypatch.setattr(halves, "remove", lambda spark, intent: None)
    monkeypatch.setattr(parts, "place", place)
    monkeypatch.setattr(parts, "table_around", lambda spark, path: path if path in made.around else None)
    return made


def stream_table(location: str | None = "/ext/st") -> Mapping[str, str]:
    """Return the properties of the stream table shop.st, made at a location."""
    clause = f"LOCATION '{location}'" if location else ""
    statement = cast("CreateStreamTable", parse(f"CREATE STREAM TABLE c.shop.st {clause} AS SELECT 1 AS one"))
    made = Definition(statement, "d", ("c", "shop"), {}, {}).properties()
    return {**{key: value for key, value in made.items() if value is not None}, ID: "t", **dict([CHECKPOINTS])}


def stored(kind: object = PUBLICATION, name: tuple[str, ...] = OBJECT) -> Mapping[str, str]:
    key = cast("str", kind.key)  # type: ignore[attr-defined]
    return {key: "{}", NAME: json.dumps(list(name)), ID: "o", **dict([CHECKPOINTS])}


def accepted(name: tuple[str, ...], path: str) -> Located:
    return Located(name, "delta", path, ({"token": TOKEN, "digest": "", "parts": {}},))


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.DROP])
@pytest.mark.parametrize("mark", [(ID, "t"), (IDENTITY, "d"), CHECKPOINTS])
@pytest.mark.parametrize("registered", [True, False], ids=["the original has its name", "the original is gone"])
@pytest.mark.parametrize("location", ["/ext/st", None])
def test_a_planted_intent_deleted_the_backup_of_a_stream_table(
    world: World, kind: Kind, mark: tuple[str, str], registered: bool, location: str | None
) -> None:
    """A copy has the ids and the name of the original. Only its place is another one."""
    for path in ("file:/backups/st", "file:/w/other/st"):
        world.tables[path] = stream_table(location)
        if registered:
            world.names[TABLE] = accepted(TABLE, f"file:{location or '/w/shop/st'}")
        world.settle(kind, Part(TABLE, path, mark))
        assert world.untouched()


def test_a_stream_table_was_deleted_whose_name_lies_elsewhere_now(world: World) -> None:
    """Somebody moved the table and kept the old folder, or another catalog has it."""
    world.tables["file:/ext/st"] = stream_table()
    world.names[TABLE] = accepted(TABLE, "file:/new/st")
    world.settle(Kind.DROP, Part(TABLE, "file:/ext/st", (ID, "t")))
    assert world.untouched()


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.DROP])
@pytest.mark.parametrize("mark", [(ID, "o"), (PUBLICATION.key, "{}"), CHECKPOINTS])
@pytest.mark.parametrize("name", [OBJECT, ("c", "other", "nobody"), ("spark_catalog", "delta", "/w/other/goods")])
def test_a_planted_intent_deleted_a_publication_of_another_schema(
    world: World, kind: Kind, mark: tuple[str, str], name: tuple[str, ...]
) -> None:
    path = "file:/w/other/goods"
    world.tables[path] = stored()
    world.names[OBJECT] = accepted(OBJECT, path)
    world.names[("spark_catalog", "delta", "/w/other/goods")] = Located(name, "delta", path)
    for token in ("", "guessed"):
        world.settle(kind, Part(name, path, mark, token=token))
        assert world.untouched()


def test_a_copy_of_a_publication_was_deleted(world: World) -> None:
    world.tables["file:/backups/goods"] = stored()
    world.settle(Kind.DROP, Part(OBJECT, "file:/backups/goods", (ID, "o")))
    assert world.untouched()


@pytest.mark.parametrize(("kind", "mark"), [(Kind.CREATE, (SLOT.key, "{}")), (Kind.DROP, (ID, "o"))])
def test_the_slot_of_a_killed_statement_goes_with_its_subscription(world: World, kind: Kind, mark: tuple[str, str]) -> None:
    """It may have its name, or not yet, or not any more, or be half made; by a path it has none."""
    path, slot = "file:/w/other/goods", ("c", "other", "goods")
    part = Part(slot, path, mark, token=TOKEN)
    world.tables[path], world.names[slot] = stored(SLOT), accepted(slot, path)
    world.settle(kind, part)
    assert world.forgotten == [slot] and path in world.dropped
    world.dropped.clear()
    world.settle(kind, part)
    assert path in world.dropped
    for there in ({}, stored(SLOT, PATH)):
        world.dropped.clear()
        world.tables["/far/slot"] = there
        world.settle(kind, Part(PATH, "/far/slot", mark))
        assert "/far/slot" in world.dropped
    world.dropped.clear()
    world.tables["/far/slot"] = stored(SLOT, ("c", "far", "slot"))
    world.settle(kind, Part(PATH, "/far/slot", mark))
    assert "/far/slot" not in world.dropped, "somebody made it under a name"


@pytest.mark.parametrize(("kind", "mark", "until"), [(Kind.CREATE, (IDENTITY, "d"), SEEN), (Kind.DROP, (ID, "t"), NEVER)])
def test_a_killed_statement_on_a_table_at_a_location_is_settled(
    world: World, kind: Kind, mark: tuple[str, str], until: int
) -> None:
    """Files that only their names make ours go if they came while the CREATE ran, whatever the intent says of its folder."""
    world.tables["file:/ext/st"] = stream_table()
    world.settle(kind, Part(TABLE, "file:/ext/st", mark))
    assert world.dropped["file:/ext/st"] == until
    world.tables.clear()  # half of it is left
    world.settle(kind, Part(TABLE, "file:/ext/st", mark))
    assert world.dropped["file:/ext/st"] == NEVER
    world.dropped.clear()
    world.tables["file:/ext/st"] = {ID: "another"}
    world.settle(kind, Part(TABLE, "file:/ext/st", mark))
    assert world.untouched()


@pytest.mark.parametrize("alone", [True, False])
def test_a_create_at_a_location_in_the_schema_deleted_what_came_after_it_was_killed(world: World, alone: bool) -> None:
    world.tables["file:/w/shop/place"] = stream_table("/w/shop/place")
    world.settle(Kind.CREATE, Part(TABLE, "file:/w/shop/place", (IDENTITY, "d"), alone))
    assert world.dropped["file:/w/shop/place"] == (ALWAYS if alone else SEEN)


def test_a_folder_inside_of_a_table_was_taken_for_half_a_table(world: World) -> None:
    """Delta's vectors may lie in folders of two letters: what is deleted there is somebody's."""
    world.around.add("file:/ext/theirs")
    world.settle(Kind.DROP, Part(TABLE, "file:/ext/theirs/ab", (ID, "t")))
    assert world.untouched()


@pytest.mark.parametrize("own", ["..", ".", ""])
def test_a_folder_above_was_taken_for_one_in_the_schema(world: World, own: str) -> None:
    world.tables[path := f"file:/w/shop/{own}"] = {ID: "t"}
    world.settle(Kind.DROP, Part(TABLE, path, (ID, "t")))
    assert path not in world.dropped


def test_a_statement_that_failed_trusts_its_own_intent(world: World) -> None:
    """Its slot has the name already; another session may have taken the name of its table."""
    slot = ("c", "other", "goods")
    world.tables |= {"file:/w/other/goods": stored(SLOT), "file:/ext/st": stream_table()}
    world.names |= {slot: accepted(slot, "file:/w/other/goods"), TABLE: accepted(TABLE, "file:/new/st")}
    told = Part(TABLE, "file:/ext/st", (IDENTITY, "d"), alone=False), Part(slot, "file:/w/other/goods", (SLOT.key, "{}"))
    assert world.settle(Kind.CREATE, *told, failed=True) is False
    assert world.forgotten == [slot] and world.dropped.keys() >= {"file:/ext/st", "file:/w/other/goods"}
