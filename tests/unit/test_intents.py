"""Files in the folder of intents, whoever wrote them, and how they are settled. The storage is played."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.cases.every import KILLED

from streamtable.catalog import halves, intents
from streamtable.catalog.definition import FORMATTED, Definition
from streamtable.catalog.entries import Entry
from streamtable.catalog.halves import FOLDER, Intent, Kind, Part
from streamtable.definitions import accompany, leftovers, settle
from streamtable.definitions.leftovers import Leftover
from streamtable.delta.tables import Located
from streamtable.delta.unreadable import Unreadable
from streamtable.errors import HistoryLost, SourceUnavailable, StatementSyntaxError
from streamtable.hosts.cli import doctor
from streamtable.language.parse import AnyStatement, parse
from streamtable.language.stream_table.ast import CreateStreamTable, Rename
from streamtable.statements import atomic

SPARK = cast("SparkSession", None)
PART = {"name": ["c", "shop", "st"], "path": "file:/shop/st", "mark": ["id", "1"], "alone": True}
TOLD = {"kind": "CREATE", "parts": [PART], "statement": "CREATE", "catalog": "here", "by": "process 1 of x", "file": "?"}
FILE = "elsewhere-1-1-0.json"


def with_part(**values: object) -> str:
    return json.dumps({**TOLD, "parts": [{**PART, **values}]})


STRANGE = {
    "an empty object": "{}",
    "a list": "[]",
    "a text": '"CREATE"',
    "null": "null",
    "deep": "[" * 100_000 + "]" * 100_000,
    "a long number": "1" * 5_000,
    "no parts at all": '{"kind": "CREATE"}',
    "another kind": json.dumps({**TOLD, "kind": "MERGE"}),
    "a kind that is a list": json.dumps({**TOLD, "kind": []}),
    "a field of a later release": json.dumps({**TOLD, "priority": 1}),
    "no tables": json.dumps({**TOLD, "parts": []}),
    "parts that are a number": json.dumps({**TOLD, "parts": 5}),
    "a part that is a text": json.dumps({**TOLD, "parts": ["st"]}),
    "a RENAME of one table": json.dumps({**TOLD, "kind": "RENAME"}),
    "a name that is a text": with_part(name="st"),
    "a short name": with_part(name=["st"]),
    "a name of numbers": with_part(name=[1, 2, 3]),
    "no path": with_part(path=None),
    "a path that is a number": with_part(path=5),
    "half a mark": with_part(mark=["id"]),
    "a mark that many tables have": with_part(mark=["delta.checkpointInterval", "100"]),
    "a path that Java takes not": with_part(path="file:/\ud800"),
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Give the files in the folder of intents, which nobody has written into for long."""
    files = dict[str, str]()
    monkeypatch.setattr(intents, "read_small", lambda spark, at: [(name, 0, text) for name, text in files.items()])
    monkeypatch.setattr(intents, "delete_small", lambda spark, file: files.pop(file.removeprefix(f"/shop/{FOLDER}/")))
    monkeypatch.setattr(intents, "_catalog", lambda spark: "here")
    yield files


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_a_file_that_is_no_intent_stops_nobody_and_is_told_once(
    strange: str, folder: dict[str, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamtable.delta.unreadable._told", set[str]())
    folder |= {FILE: strange, FILE.replace("0", "1"): json.dumps(TOLD)}
    with caplog.at_level(logging.WARNING):
        first, second = (list(intents.dead(SPARK, "/shop")) for _ in range(2))
    part = Part(("c", "shop", "st"), "file:/shop/st", ("id", "1"))
    intent = Intent(Kind.CREATE, (part,), "CREATE", "here", "process 1 of x", f"/shop/{FOLDER}/{FILE.replace('0', '1')}")
    assert first == second == [intent] and first[0].seen == 40_000, (
        "a process that is gone may have written after its last sign of life"
    )
    assert len(folder) == 2 and caplog.text.count(f"/shop/{FOLDER}/{FILE}") == 1
    (unreadable,) = (each for each in intents.left(SPARK, "/shop") if isinstance(each, Unreadable))
    assert FILE in unreadable.reason


@pytest.mark.parametrize("half", ["", '{"kind": "CREATE", "par'])
def test_half_an_intent_goes(half: str, folder: dict[str, str]) -> None:
    folder[FILE] = half
    assert list(intents.left(SPARK, "/shop")) == [] and not folder


def test_doctor_lists_a_file_that_is_no_intent_and_deletes_it_never(
    folder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder[FILE] = "{}"
    monkeypatch.setattr(leftovers, "schemas", lambda spark: [("c", "shop")])
    monkeypatch.setattr(leftovers, "home_of", lambda spark, name: "/shop")
    monkeypatch.setattr(leftovers, "table_names", lambda spark, schema: [])
    monkeypatch.setattr(leftovers, "children", lambda spark, home: [])
    for fix in (False, True):
        check = doctor._leftovers(SPARK, fix)
        assert not check.ok and FILE in check.found and "delete the file" in check.found
    assert folder


def test_what_doctor_cannot_mend_keeps_it_from_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    mended = list[str]()

    def broken() -> None:
        raise SourceUnavailable("there is no table")

    def mend(name: str) -> Callable[[], object]:
        return lambda: mended.append(name)

    left = [Leftover("one", mend("one")), Leftover("two", broken), Leftover("three", mend("three"))]
    monkeypatch.setattr(doctor, "leftovers", lambda spark: left)
    check = doctor._leftovers(SPARK, fix=True)
    assert mended == ["one", "three"] and not check.ok
    assert "two: [STREAMTABLE_SOURCE_UNAVAILABLE]" in check.found and check.found.endswith("mended: one; three")


def test_doctor_goes_on_after_a_table_that_cannot_be_read_and_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it cannot read is not taken for a leftover: nothing of it is mended away."""
    here = {"/b/closed", "/b/half"}
    broken = ("c", "b", "broken")

    def find_table(spark: object, name: tuple[str, ...]) -> Located:
        if name == broken and "broken" in bad:
            raise SourceUnavailable("its entry is damaged")
        return Located(name, "delta", f"/b/{name[-1]}", ({},))

    def properties_at(spark: object, path: str) -> object:
        if path == "/b/closed":
            raise SourceUnavailable("permission denied")
        return {}

    def home_of(spark: object, name: tuple[str, ...]) -> str:
        if name[1] == "a":
            raise SourceUnavailable("no such database")
        return "/b"

    monkeypatch.setattr(leftovers, "schemas", lambda spark: [("c", "a"), ("c", "b")])
    monkeypatch.setattr(leftovers, "home_of", home_of)
    monkeypatch.setattr(leftovers, "left", lambda spark, home: [])
    monkeypatch.setattr(leftovers, "table_names", lambda spark, schema: [broken, ("c", "b", "closed"), ("c", "b", "lost")])
    monkeypatch.setattr(leftovers, "find_table", find_table)
    monkeypatch.setattr(leftovers, "children", lambda spark, home: list(here))
    monkeypatch.setattr(leftovers, "properties_at", properties_at)
    monkeypatch.setattr(leftovers, "names", lambda spark, path: ["_streamtable"])
    for bad in ({"broken"}, set[str]()):
        check = doctor._leftovers(SPARK, fix=False)
        told = check.found.split("; ")
        assert not check.ok and told[0].startswith("c.a cannot be read: [STREAMTABLE_SOURCE_UNAVAILABLE] no such database")
        assert any(each.startswith("/b/closed cannot be read: [STREAMTABLE_SOURCE_UNAVAILABLE] permission") for each in told)
        assert "c.b.lost has no folder any more: /b/lost" in told and "c.b.closed has no folder" not in check.found
        assert ("/b/half holds what is left of a table" in told) == (not bad)
        assert any(each.startswith("c.b.broken cannot be read") for each in told) == bool(bad)


def test_a_definition_that_is_not_accepted_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[str]()

    def sql(statement: str) -> None:
        tried.append(statement)
        if statement == "one":
            raise SourceUnavailable("there is no table")

    spark = cast("SparkSession", SimpleNamespace(sql=sql))
    monkeypatch.setattr(doctor, "unaccepted", lambda spark: iter(["one", "two"]))
    assert doctor._definitions(spark, accept=False).found == "one; two" and not tried
    check = doctor._definitions(spark, accept=True)
    assert tried == ["one", "two"] and not check.ok and check.found.startswith("one: [STREAMTABLE_SOURCE_UNAVAILABLE]")
    tried.clear()
    monkeypatch.setattr(doctor, "unaccepted", lambda spark: iter(["two"]))
    assert doctor._definitions(spark, accept=True) == doctor.Check("accepted", True, "two", doctor._definitions(spark, True).remedy)


def test_a_schema_that_cannot_be_read_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    intent = Intent(Kind.CREATE, (Part(("c", "b", "st"), "/b/st", ("id", "1")),), "CREATE", "here", "process 1", "/b/x.json")

    def dead(spark: Any, home: str) -> Iterator[Intent]:
        if home == "/a":
            raise AnalysisException(message="gone", errorClass="SCHEMA_NOT_FOUND", messageParameters={})
        yield intent

    monkeypatch.setattr(settle, "schemas", lambda spark: [("c", "a"), ("c", "b")])
    monkeypatch.setattr(settle, "home_of", lambda spark, name: f"/{name[1]}")
    monkeypatch.setattr(settle, "dead", dead)
    monkeypatch.setattr(settle, "settle_one", lambda spark, intent: True)
    assert [each.intent for each in settle.settle_everywhere(SPARK)] == [intent]


@pytest.mark.parametrize("error", [SourceUnavailable("there is no table"), HistoryLost("the log has a hole")])
def test_a_replace_whose_table_cannot_be_read_is_settled_once_it_can(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays till then, and blocks nobody: not even a DROP of its name."""
    name, removed, withdrawn = ("c", "shop", "st"), list[Intent](), list[str]()
    intent = Intent(Kind.REPLACE, (Part(name, "/shop/st", ("id", "1")),), "REPLACE", "here", "process 1", "/shop/x.json")

    def unreadable(spark: object, path: str) -> object:
        raise error

    monkeypatch.setattr(halves, "find_table", lambda spark, parts: Located(name, "delta", "/shop/st"))
    monkeypatch.setattr(halves, "of_table", lambda located, table_id: table_id)
    monkeypatch.setattr(halves, "knows", lambda table_id, code: table_id == "1")
    monkeypatch.setattr(halves, "children", lambda spark, folder: [])
    monkeypatch.setattr(halves, "withdraw", lambda spark, located, table_id: withdrawn.append(table_id))
    monkeypatch.setattr(halves, "remove", lambda spark, intent: removed.append(intent))
    monkeypatch.setattr(settle, "home_of", lambda spark, name: "/shop")
    monkeypatch.setattr(settle, "dead", lambda spark, home: iter([intent]))
    monkeypatch.setattr(halves, "storage_failed", lambda error: None)
    monkeypatch.setattr(intents, "storage_failed", lambda error: None)
    monkeypatch.setattr(halves, "state", unreadable)
    with pytest.raises(SourceUnavailable, match="/shop/st cannot be read"):
        settle.settle_one(SPARK, intent)
    assert list(settle.settle_schema(SPARK, name)) == [] and removed == []
    monkeypatch.setattr(halves, "state", lambda spark, path: SimpleNamespace(properties={}, table_id="2"))
    assert [each.done for each in settle.settle_schema(SPARK, name)] == [True]
    assert removed == [intent] and withdrawn == ["1"]


@pytest.mark.parametrize(
    ("properties", "table_id", "at", "frontier", "cleared"),
    [
        ({}, "2", "", "{}", True),  # dropped by DROP TABLE, whose files at a LOCATION stay
        ({}, "2", "/elsewhere", "{}", True),
        ({}, "2", "/ext/st", "{}", True),  # and made again
        ({}, "2", "", None, False),  # it never was a stream table: somebody wrote the intent
        ({}, "2", "/ext/st", None, False),
        ({}, "1", "", "{}", False),
        ({"streamtable.id": "x"}, "2", "", "{}", False),  # a stream table or queue of somebody has states of its own there
        (None, "", "", None, False),
    ],
)
def test_a_replace_clears_the_hidden_states_of_what_was_a_stream_table_and_of_no_other(
    properties: dict[str, str] | None,
    table_id: str,
    at: str,
    frontier: str | None,
    cleared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, dropped, beside = ("c", "shop", "st"), list[str](), ["other"]

    def read(spark: object, path: str) -> object:
        if properties is None:
            raise SourceUnavailable("there is no table")
        return SimpleNamespace(properties=properties, table_id=table_id, frontier=frontier)

    monkeypatch.setattr(halves, "find_table", lambda spark, parts: Located(name, "delta" if at else "none", at))
    monkeypatch.setattr(halves, "of_table", lambda located, table_id: table_id)
    monkeypatch.setattr(halves, "knows", lambda table_id, code: False)
    monkeypatch.setattr(halves, "state", read)
    monkeypatch.setattr(halves, "names", lambda spark, path: beside if path == "/ext/" else [])
    monkeypatch.setattr(halves, "children", lambda spark, folder: [f"{folder}/aggregate"])
    monkeypatch.setattr(halves, "drop_files", lambda spark, table, folder: dropped.append(folder))
    monkeypatch.setattr(halves, "storage_failed", lambda error: None)
    assert halves.make_ordinary(SPARK, Part(name, "/ext/st", ("id", "1"))) == (table_id == "2" and frontier is not None)
    assert dropped == (["/ext/st/_streamtable/aggregate"] if cleared else [])
    if properties is None:
        beside.clear()
        with pytest.raises(SourceUnavailable):
            halves.make_ordinary(SPARK, Part(name, "/ext/st", ("id", "1")))
        monkeypatch.setattr(halves, "names", lambda spark, path: ["_delta_log", "_streamtable"])
        with pytest.raises(SourceUnavailable):
            halves.make_ordinary(SPARK, Part(name, "/ext/st", ("id", "1")))


@pytest.mark.parametrize("error", [SourceUnavailable("there is no table"), HistoryLost("the log has a hole")])
def test_a_rename_whose_table_cannot_be_read_is_settled_once_it_can(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays till then. Its new name is not given to another table, and its old one can be dropped."""
    old, new, free = ("c", "shop", "old"), ("c", "shop", "new"), ("c", "shop", "free")
    parts = (Part(old, "/shop/old", ("id", "1")), Part(new, "/shop/new", ("id", "1")))
    intent = Intent(Kind.RENAME, parts, "RENAME", "here", "process 1", f"/shop/{FOLDER}/x.json")
    removed, moved, there, in_the_way = list[Intent](), list[tuple[str, str]](), set[str](), ["_streamtable"]

    def read(spark: object, path: str) -> object:
        if path in there:
            return SimpleNamespace(properties={}, table_id="1")
        raise error

    monkeypatch.setattr(settle, "find", lambda spark, name: (None, None))
    monkeypatch.setattr(halves, "find_table", lambda spark, name: Located(name, "delta", "/shop/old" if name == old else ""))
    monkeypatch.setattr(halves, "state", read)
    monkeypatch.setattr(halves, "names", lambda spark, path: in_the_way if path == "/shop/old" else [])
    monkeypatch.setattr(halves, "move", lambda spark, path, to: moved.append((path, to)))
    monkeypatch.setattr(halves, "remove", lambda spark, intent: removed.append(intent))
    monkeypatch.setattr(settle, "home_of", lambda spark, name: "/shop")
    monkeypatch.setattr(settle, "dead", lambda spark, home: iter([intent]))
    for module in (halves, intents):
        monkeypatch.setattr(module, "storage_failed", lambda error: None)
    for name in (old, new):
        with pytest.raises(SourceUnavailable, match="neither at /shop/old nor at /shop/new"):
            list(settle.settle_schema(SPARK, name))
    with pytest.raises(SourceUnavailable):
        list(settle.settle_schema(SPARK, new, drops=True))
    assert list(settle.settle_schema(SPARK, old, drops=True)) == list(settle.settle_schema(SPARK, free)) == []
    assert removed == [] and moved == []
    there.add("/shop/new")
    with pytest.raises(SourceUnavailable, match="another folder is in its place"):
        list(settle.settle_schema(SPARK, old))
    assert removed == [] and moved == [], "Hadoop would move the folder into the other one"
    in_the_way.clear()
    assert [each.done for each in settle.settle_schema(SPARK, old)] == [False]
    assert removed == [intent] and moved == [("/shop/new", "/shop/old")]
    there.add("/shop/old")
    assert [each.done for each in settle.settle_schema(SPARK, new)] == [False]
    assert removed == [intent] * 2 and len(moved) == 1


@pytest.mark.parametrize("calls_itself", [True, False])
def test_a_rename_whose_old_name_was_dropped_leaves_the_folder_under_the_tables_own_name(
    calls_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There doctor finds it; a table that calls itself otherwise had been renamed to the end, or is somebody else's."""
    parts = tuple(Part(("c", "shop", name), f"/shop/{name}", ("id", "1")) for name in ("old", "new"))
    intent = Intent(Kind.RENAME, parts, "RENAME", "here", "process 1", f"/shop/{FOLDER}/x.json")
    removed, moved = list[Intent](), list[tuple[str, str]]()

    monkeypatch.setattr(settle, "find", lambda spark, name: (None, None))
    monkeypatch.setattr(halves, "find_table", lambda spark, name: Located(name, "none", ""))
    monkeypatch.setattr(halves, "properties_at", lambda spark, path: {"id": "1"} if path == "/shop/new" else {})
    monkeypatch.setattr(halves, "calls_itself", lambda properties, name: calls_itself and name == parts[0].name)
    monkeypatch.setattr(halves, "names", lambda spark, path: [])
    monkeypatch.setattr(halves, "move", lambda spark, path, to: moved.append((path, to)))
    monkeypatch.setattr(halves, "remove", lambda spark, intent: removed.append(intent))
    assert settle.settle_one(SPARK, intent) is False
    assert moved == ([("/shop/new", "/shop/old")] if calls_itself else []) and removed == [intent]


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.DROP])
def test_what_is_left_in_storage_that_is_away_goes_once_it_is_back(
    kind: Kind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Till then the intent stays, and its name is free. A CREATE that failed by itself may not have made anything."""
    name, there, dropped, removed = ("c", "shop", "st"), dict[str, list[str]](), list[str](), list[Intent]()
    file = f"/shop/{FOLDER}/{kind.value}.json"
    intent = Intent(kind, (Part(name, "/away/st", ("id", "1"), alone=False),), "text", "here", "1", file)

    monkeypatch.setattr(intents, "_told", set())
    monkeypatch.setattr(settle, "home_of", lambda spark, name: "/shop")
    monkeypatch.setattr(settle, "dead", lambda spark, home: iter([intent]))
    monkeypatch.setattr(halves, "find_table", lambda spark, parts: Located(parts, "none", ""))
    monkeypatch.setattr(halves, "properties_at", lambda spark, path: {"id": "1"} if "_delta_log" in there.get(path, []) else {})
    monkeypatch.setattr(halves, "is_believed", lambda spark, part, found, located: part.name == name)
    monkeypatch.setattr(halves, "names", lambda spark, path: there.get(path, []))
    monkeypatch.setattr(halves, "drop_own", lambda spark, path, until: dropped.append(path))
    monkeypatch.setattr(halves, "remove", lambda spark, intent: removed.append(intent))
    monkeypatch.setattr(intents, "storage_failed", lambda error: None)
    with pytest.raises(SourceUnavailable, match="it is unknown whether files of c.shop.st are left"):
        settle.settle_one(SPARK, intent)
    for _ in range(3):  # a scheduler looks each minute, however long it stays so
        assert list(settle.settle_schema(SPARK, name)) == [] and not dropped and not removed
    (told,) = caplog.messages
    assert "nothing is at /away/st, nor beside it" in told and told.endswith(f"If none are left, delete {file}")
    there |= {"/away/": ["st"], "/away/st": ["_delta_log"]}
    assert [each.done for each in settle.settle_schema(SPARK, name)] == [kind is Kind.DROP]
    assert dropped == ["/away/st"] and removed == [intent]
    there |= {"/away/": ["other"], "/away/st": []}
    assert settle.settle_one(SPARK, intent) is (kind is Kind.DROP)
    there.clear()
    lonely = replace(
        intent, parts=(replace(intent.parts[0], beside=False),)
    )  # nothing lay beside it: that nothing does now says nothing
    assert halves.settle(SPARK, lonely) is (kind is Kind.DROP) and removed[-1] == lonely
    if kind is Kind.CREATE:
        assert halves.settle(SPARK, intent, failed=True) is False
    else:
        with pytest.raises(SourceUnavailable):
            halves.settle(SPARK, intent, failed=True)


def test_every_statement_that_is_more_than_one_commit_is_killed_in_the_tests() -> None:
    """So is each RENAME; statements of Spark's and Delta's are tried besides."""
    tried = list[AnyStatement]()
    for case in KILLED.values():
        with suppress(StatementSyntaxError):
            tried.append(parse(case.statement))
    every = {kind for kinds in (atomic._Made, atomic._Dropped, atomic._Altered) for kind in get_args(kinds)}
    assert every <= set(map(type, tried))
    renamed = {type(each) for each in tried if isinstance(getattr(each, "action", None), Rename)}
    assert renamed == set(get_args(atomic._Altered))


def test_many_tables_of_a_schema_that_are_dropped_at_once_need_one_look_at_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """DROP SCHEMA ... CASCADE of ten thousand tables listed the folder, with ten thousand names, for each of them."""
    asked, written = list[str](), list[dict[str, Any]]()
    tables = [Part(("c", "shop", f"t{n}"), f"file:/shop/t{n}", ("id", str(n))) for n in range(100)]
    alone = Part(("c", "shop", "other"), "file:/elsewhere/other", ("id", "o"))
    inside = {"file:/shop/": [part.path.rpartition("/")[2] for part in tables], "file:/elsewhere/": ["other"]}

    def away(spark: object, name: tuple[str, ...]) -> None:
        asked.append(".".join(name[:-1]))

    def names(spark: object, folder: str) -> list[str]:
        asked.append(folder)
        return inside[folder]

    monkeypatch.setattr(intents, "home_away", away)
    monkeypatch.setattr(intents, "home_of", lambda spark, name: "file:/shop")
    monkeypatch.setattr(intents, "names", names)
    monkeypatch.setattr(intents, "_catalog", lambda spark: "here")
    monkeypatch.setattr(intents, "write_small", lambda spark, file, text: written.append(json.loads(text)))
    monkeypatch.setattr(intents, "remove", lambda spark, intent: None)
    with intents.intended(SPARK, Kind.DROP, *tables, alone):
        pass
    assert asked == ["c.shop", "file:/shop/", "file:/elsewhere/"]
    assert [part["beside"] for part in written[0]["parts"]] == [True] * 100 + [False]


def test_drop_schema_knows_a_folder_that_a_user_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took all files in the folder for its own, and took those of a table that nobody can read."""
    mark = [{"token": "t", "digest": "d", "parts": {FORMATTED: "1"}}]
    places = {name: f"file:/shop/{name}" for name in ("st", "located", "strange", "other", "jobs")} | {
        "away": "file:/elsewhere/away"
    }
    located = {
        name: Located(
            ("c", "shop", name), "delta", place, tuple(mark if name != "jobs" else [{**mark[0], "parts": {"queue": "1"}}])
        )
        for name, place in places.items()
    }
    dropped = list[Part]()
    monkeypatch.setattr(accompany, "home_of", lambda spark, name: "file:/shop")
    monkeypatch.setattr(accompany, "table_names", lambda spark, schema: [(*schema, name) for name in places])
    monkeypatch.setattr(accompany, "find_table", lambda spark, name: located[name[-1]])
    monkeypatch.setattr(accompany, "marked", lambda spark, name, path: Part(name, path, ("id", "1")))
    monkeypatch.setattr(accompany, "drop_parts", lambda spark, *parts: dropped.extend(parts))

    def entry(clause: str) -> Entry:
        statement = cast("CreateStreamTable", parse(f"CREATE STREAM TABLE c.shop.t {clause} AS SELECT 1 AS one"))
        return Entry(Definition(statement, "1", (), {}, {}), cast("Any", None), ("c", "shop", "t"))

    tables: dict[str, Entry | Unreadable] = {
        places["st"]: entry(""),
        places["located"]: entry("LOCATION '/shop/located'"),
        places["strange"]: Unreadable("why"),
        places["away"]: entry("LOCATION '/elsewhere/away'"),
    }
    accompany._drop_ours(SPARK, ("c", "shop"), tables)
    assert {part.name[-1]: part.alone for part in dropped} == {"st": True, "located": False, "jobs": True}
