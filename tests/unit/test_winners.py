"""max_by and min_by as states: the SQL of a refresh, run by SQLite, keeps a row of the extreme and reads no group but those that lost it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import scalar, scan, source

from streamtable.algebra.columns import POSITION, WEIGHT, Call, Item
from streamtable.algebra.operators import Aggregate
from streamtable.algebra.sources import Snapshot, Source
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.deltas import Deltas, Moved
from streamtable.differentiate.layout import layout_of
from streamtable.differentiate.registry import RULES, findings, obstacle
from streamtable.differentiate.states import Kind, states_of
from streamtable.differentiate.visible import visible_states
from streamtable.query.states import Decided, formed

Row = tuple[Any, ...]
T = scan("t", "k x y")
FILTERED = "x > 1"


def called(function: str, x: str = "x", y: str = "y", condition: str | None = None, of: str = "INT") -> Call:
    """Return max_by(x, y) or min_by(x, y), as Spark would compute it; `of` is the type of y."""
    name = {"MaxBy": "max_by", "MinBy": "min_by"}[function]
    counted = f"CASE WHEN {condition} THEN {y} END" if condition else y
    by = replace(scalar(y), type=of)
    value = replace(scalar(f"{name}({x}, {counted})"), text=f"{name}({x}, {y})")
    return Call(f"{function}_{x}", value, function, (scalar(x), by), filter=scalar(condition) if condition else None)


COUNT = Call("n", replace(scalar("count(1)"), type="BIGINT", nullable=False), "Count")
MOST = Call("m", scalar("max(y)"), "Max", (scalar("y"),))
LATEST, FIRST = called("MaxBy"), called("MinBy")
CALLS: dict[str, tuple[Call, ...]] = {
    "max_by": (LATEST,),
    "min_by": (FIRST,),
    "beside its extreme": (LATEST, MOST),
    "of several columns": (LATEST, called("MaxBy", "k"), FIRST, COUNT),
    "filtered": (called("MaxBy", condition=FILTERED), called("MinBy", condition=FILTERED)),
    "one filtered": (LATEST, replace(called("MaxBy", condition=FILTERED), id="filtered")),
}


def grouped(calls: tuple[Call, ...], keys: bool = True) -> Aggregate:
    return Aggregate(T, (Item("g", "g", scalar("k")),) if keys else (), calls)


class Best:
    """An aggregate of SQLite as Spark's max_by and min_by: rows with y NULL do not count, and of equal ones the last wins."""

    def __init__(self, beats: Callable[[Any, Any], bool]) -> None:
        self.beats = beats
        self.x: Any = None
        self.y: Any = None

    def step(self, x: Any, y: Any) -> None:
        if y is not None and (self.y is None or not self.beats(self.y, y)):
            self.x, self.y = x, y

    def finalize(self) -> Any:
        return self.x


def database() -> Any:
    of: Any = sqlite3.connect(":memory:")
    for name in ("max_by", "arg_max"):
        of.create_aggregate(name, 2, lambda: Best(lambda best, y: best > y))
    for name in ("min_by", "arg_min"):
        of.create_aggregate(name, 2, lambda: Best(lambda best, y: best < y))
    for name, function in (("greatest", max), ("least", min)):
        of.create_function(name, -1, lambda *args, f=function: f((a for a in args if a is not None), default=None))
    return of


def run(of: Any, name: str, query: str) -> list[Row]:
    """Keep the rows of a query as a table, and return them."""
    of.execute(f"CREATE TABLE {name} AS {query}")
    return list(of.execute(f"SELECT * FROM {name}"))


def keep(of: Any, name: str, columns: str, rows: list[Row]) -> None:
    of.execute(f"CREATE TABLE {name} ({columns})")
    of.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * (columns.count(',') + 1))})", rows)


@cache
def queries_of(aggregate: Aggregate) -> dict[str, str]:
    """Write the queries of a refresh of an aggregate for SQLite."""
    deltas = Deltas(frozenset({source("t")}), {aggregate: "groups"}, RULES)
    deltas.of(aggregate)
    (moved,) = deltas.steps
    assert isinstance(moved, Moved)
    step = AggregateStep("groups", moved.aggregate, moved.change, moved.child)
    initial = step.initial(lambda table, snapshot: "t_old")
    initial.set("sort", None)

    def named(table: Source | int, snapshot: Snapshot) -> str:
        return f"t_{snapshot.value}"

    queries = {
        "first": initial,
        "contents": step.stored(),
        "groups_partial": step.partial(named),
        "groups_merged": step.merge(),
        "groups_affected": step.affected(),
        "groups_recomputed": step.recomputed(named),
        "moved": step.moved(again=False),
        "moved again": step.moved(again=True),
        "gone": step.left(),
        "arrived": step.arrived(),
        "change": step.delta(),
    }
    return {name: query.sql("sqlite") for name, query in queries.items()}


@dataclass
class Refreshed:
    """What was stored and shown before and after a refresh, and the keys of the groups that it computed again."""

    states: list[Row]
    contents: Counter[Row]
    states_after: list[Row]
    after: Counter[Row]
    again: list[Any]


def refreshed(aggregate: Aggregate, before: list[Row], after: list[Row], extra: Sequence[Row] = ()) -> Refreshed:
    """Refresh an aggregate. `extra` are rows that came and went again in between."""
    of, queries = database(), queries_of(aggregate)
    keep(of, "t_old", "k, x, y", before)
    keep(of, "t_new", "k, x, y", after)
    signed = (
        (Counter(before) - Counter(after), -1),
        (Counter(after) - Counter(before), 1),
        (Counter(extra), -1),
        (Counter(extra), 1),
    )
    keep(of, "t_delta", f"k, x, y, {WEIGHT.id}", [(*row, sign) for rows, sign in signed for row in rows.elements()])
    states = run(of, "first", queries["first"])
    of.execute(f"CREATE TABLE groups_state AS SELECT *, 'f' AS {POSITION[0]}, rowid AS {POSITION[1]} FROM first")
    contents = Counter(run(of, "contents", queries["contents"]))
    for name in ("groups_partial", "groups_merged"):
        run(of, name, queries[name])
    affected = run(of, "groups_affected", queries["groups_affected"])
    if affected:
        run(of, "groups_recomputed", queries["groups_recomputed"])
    run(of, "groups_moved", queries["moved again" if affected else "moved"])
    gone = {row for _, row in run(of, "gone", queries["gone"])}
    kept = [row for at, row in enumerate(states, start=1) if at not in gone]
    moved = Counter(contents)
    for *row, weight in run(of, "change", queries["change"]):
        moved[tuple(row)] += weight
    assert min(moved.values(), default=0) >= 0
    again = [key for key, *_ in affected]
    return Refreshed(states, contents, kept + run(of, "arrived", queries["arrived"]), +moved, again)


def possible(call: Call, rows: list[Row]) -> set[Any]:
    """Return the values that max_by or min_by may have: of equal rows Spark takes any."""
    counted = [row for row in rows if row[2] is not None and (call.filter is None or (row[1] or 0) > 1)]
    if call.function not in ("MaxBy", "MinBy"):
        return {len(rows) if call.function == "Count" else max((row[2] for row in rows if row[2] is not None), default=None)}
    best = (max if call.function == "MaxBy" else min)((row[2] for row in counted), default=None)
    return {row["kxy".index(call.arguments[0].text)] for row in counted if row[2] == best} or {None}


INTS = st.sampled_from([None, 1, 2, 3])
ROWS = st.lists(st.tuples(st.sampled_from([None, 1, 2]), INTS, INTS), max_size=7)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("keys", [True, False], ids=["by key", "of all"])
@settings(max_examples=30, deadline=None)
@given(stay=ROWS, go=ROWS, come=ROWS, extra=ROWS)
def test_a_refresh_keeps_a_row_of_the_extreme(
    name: str, keys: bool, stay: list[Row], go: list[Row], come: list[Row], extra: list[Row]
) -> None:
    aggregate = grouped(CALLS[name], keys)
    done = refreshed(aggregate, stay + go, stay + come, extra)
    for rows, found in ((stay + go, done.contents), (stay + come, done.after)):
        groups = {row[0] for row in rows} if keys else {()}
        assert sorted(found.values()) == [1] * len(groups)
        for row in found:
            of_group = [each for each in rows if not keys or each[0] == row[0]]
            assert of_group or not keys
            values = zip(aggregate.calls, row[1:] if keys else row, strict=True)
            assert all(value in possible(call, of_group) for call, value in values), row
    # The next refresh finds what a first fill would have stored, but for the choice among equal rows.
    decided = [n for n, s in enumerate(states_of(aggregate), start=keys) if s.kind is not Kind.WINNER]
    places = [0, *decided] if keys else decided
    filled = refreshed(aggregate, stay + come, [])
    assert Counter(tuple(row[n] for n in places) for row in done.states_after) == Counter(
        tuple(row[n] for n in places) for row in filled.states
    )


def test_only_a_group_that_lost_its_winner_is_computed_again() -> None:
    before = [(1, 10, 1), (1, 11, 5), (2, 20, 1), (2, 21, 5), (3, 30, 5)]
    after = [(1, 11, 5), (1, 12, 9), (2, 20, 1), (3, 30, 5), (3, 31, 5), (4, 40, 1)]
    done = refreshed(grouped((LATEST,)), before, after)
    assert done.again == [2]
    assert done.after == Counter([(1, 12), (2, 20), (3, 30), (4, 40)]), "of equal rows the stored one stays"


def kinds(*calls: Call) -> list[Kind]:
    return [state.kind for state in states_of(grouped(calls))]


def test_winners_by_one_order_share_its_extreme_also_with_max() -> None:
    assert kinds(LATEST) == kinds(LATEST, MOST) == kinds(MOST, LATEST) == [Kind.COUNT, Kind.EXTREME, Kind.WINNER]
    assert kinds(LATEST, called("MaxBy", "k")) == [Kind.COUNT, Kind.EXTREME, Kind.WINNER, Kind.WINNER]
    assert kinds(LATEST, FIRST) == [Kind.COUNT, *[Kind.EXTREME, Kind.WINNER] * 2]
    assert kinds(LATEST, called("MaxBy", condition=FILTERED)) == [Kind.COUNT, *[Kind.EXTREME, Kind.WINNER] * 2]


def test_a_table_that_shows_the_order_and_the_count_is_its_own_arrangement() -> None:
    assert visible_states(grouped((COUNT, MOST, LATEST))) is not None
    assert visible_states(grouped((COUNT, LATEST))) is None


@pytest.mark.parametrize(
    "of",
    [
        "INTERVAL DAY TO SECOND",
        "STRING COLLATE UTF8_LCASE",
        "VOID",
        "TIME(6)",
        "STRUCT<at: TIMESTAMP, each: STRUCT<after: INTERVAL DAY TO SECOND>>",
        "STRUCT<k: INT, K: INT>",
        "STRUCT<`a b`: INT>",
    ],
)
def test_an_order_that_no_arrangement_can_hold_is_not_stored(of: str) -> None:
    """The group is computed again, as it was. A state of these types would have made the whole query run FULL."""
    assert kinds(called("MaxBy", of=of)) == [Kind.COUNT, Kind.VALUE]
    assert obstacle(grouped((called("MaxBy", of=of),))) is None
    assert layout_of(grouped((called("MaxBy", of=of),))) == ()


@pytest.mark.parametrize(
    "of", ["DOUBLE", "TIMESTAMP_NTZ", "STRUCT<at: TIMESTAMP, event: BIGINT NOT NULL>", "ARRAY<STRING>", "BINARY"]
)
def test_an_order_of_other_types_is_stored(of: str) -> None:
    assert kinds(called("MaxBy", of=of)) == [Kind.COUNT, Kind.EXTREME, Kind.WINNER]


def test_distinct_changes_nothing_that_is_stored() -> None:
    assert kinds(replace(LATEST, distinct=True)) == [Kind.COUNT, Kind.VALUE]


def test_tables_of_earlier_releases_are_computed_again() -> None:
    assert layout_of(grouped((LATEST,))) == ("winners stored",)
    assert layout_of(grouped((MOST, COUNT))) == ()


def test_explain_says_that_only_groups_without_their_winner_are_read() -> None:
    assert findings(grouped((LATEST,)))[0].reason.endswith("and all rows of groups that lost an extreme")


def test_what_is_stored_anew_is_part_of_the_plan() -> None:
    found = formed(grouped((LATEST,)), lambda _, state: Decided(True, "yes"))
    assert found.form == "winners stored"
    assert formed(grouped((MOST,)), lambda _, state: Decided(True, "yes")).form == ""
