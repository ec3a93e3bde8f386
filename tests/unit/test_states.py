"""STATE: which optional states are stored, which of the rows' origins and files decide that, and that no row depends on it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_stored_forms import ANTI, DISTINCT, PARTNERS, SEMI, TABLES, VALUES, L, R, grouped
from tests.unit.trees import World, bag, count_by, ids, join, left_join, project, scalar, source, union

from streamtable.algebra.operators import Filter, Operator
from streamtable.algebra.optional import OptionalState, Origin
from streamtable.catalog.entries import Entry
from streamtable.delta.spans import Span, _span, scattered
from streamtable.language.stream_table.state import StateMode
from streamtable.query import states
from streamtable.query.states import Decided, Formed, Plan, decide_by_files, formed, plan_of, stored
from streamtable.refresh.frontier import Frontier

YES, NO = Decided(True, "yes"), Decided(False, "no")
BOTH = left_join(grouped(DISTINCT), R, ANTI, "g = rk")
"""Has a state of each kind."""


def chosen(tree: Operator, *decided: Decided) -> Formed:
    return formed(tree, lambda n, _: decided[n])


@pytest.mark.parametrize("name", [*VALUES, *PARTNERS])
@settings(max_examples=40, deadline=None)
@given(before=TABLES, after=TABLES)
def test_no_row_depends_on_what_is_stored(name: str, before: Any, after: Any) -> None:
    tree = {**VALUES, **PARTNERS}[name]
    none, each = (formed(tree, lambda n, _, to=decided: to).tree for decided in (NO, YES))  # type: ignore[misc]
    assert none != each and ids(none) == ids(each)
    for world in (World(before, before, {}), World(after, before, {})):
        assert bag(none, world) == bag(each, world) == bag(tree, world)


@settings(max_examples=40, deadline=None)
@given(tables=TABLES)
def test_no_row_depends_on_which_of_two_are_stored(tables: Any) -> None:
    world = World(tables, tables, {})
    found = [chosen(BOTH, *each) for each in product((YES, NO), repeat=2)]
    assert all(bag(each.tree, world) == bag(BOTH, world) for each in found)
    assert len({each.form for each in found}) == len({repr(each.tree) for each in found}) == 4


def test_what_is_stored_is_part_of_the_form_and_nothing_else_changes_it() -> None:
    """Tables of earlier releases, which stored each state, keep their plans."""
    assert chosen(BOTH, YES, YES).form == "values stored, partners stored"
    assert chosen(BOTH, NO, NO).form == "" and chosen(BOTH, NO, NO).tree == BOTH
    two = left_join(left_join(L, R, ANTI, "k = rk"), R, SEMI, "k = rk")
    assert (chosen(two, YES, NO).form, chosen(two, NO, YES).form) == ("partners stored: [0]", "partners stored: [1]")


def text_of(tree: Operator) -> str:
    ((state, _),) = chosen(tree, YES).states
    return state.text


def keys_of(tree: Operator) -> Sequence[Origin]:
    ((state, _),) = chosen(tree, YES).states
    return state.keys


def test_states_have_names() -> None:
    assert text_of(PARTNERS["by two"]) == "keys rk, w of the right side of a left anti join"
    assert text_of(VALUES["count"]) == "values of count(DISTINCT v) by k"
    assert text_of(VALUES["without keys"]) == "values of count(DISTINCT v)"


RK = Origin(source("r"), "k")


@pytest.mark.parametrize(
    ("tree", "keys"),
    [
        (left_join(L, R, SEMI, "k = rk"), (RK,)),
        (left_join(L, R, SEMI, "k = rk AND v = w"), (RK, Origin(source("r"), "w"))),
        (left_join(L, project(Filter(R, (scalar("w < 2"),)), a="rk"), ANTI, "k = a"), (RK,)),
        (left_join(L, count_by(R, a="rk", b="w"), ANTI, "k = a"), (RK,)),
        (left_join(L, R, SEMI, "k = rk + 1"), ()),
        (left_join(L, project(R, a="rk + 1"), SEMI, "k = a"), ()),
        (left_join(L, union("a b", R, R), SEMI, "k = a"), ()),
        (left_join(L, join(R, project(L, c="k"), on="rk = c"), SEMI, "k = rk"), ()),
        (grouped(DISTINCT), (Origin(source("l"), "k"),)),
        (grouped(DISTINCT, by=None), ()),
        (grouped(DISTINCT, by="k + 1"), ()),
    ],
)
def test_the_origin_of_a_key_is_a_column_of_the_one_table_that_is_read(tree: Operator, keys: tuple[Origin, ...]) -> None:
    assert keys_of(tree) == keys


def spans(*files: tuple[Any, Any], size: int = 100) -> list[Span]:
    return [Span(size, least, most) for least, most in files]


@pytest.mark.parametrize(
    ("files", "scatters"),
    [
        (spans((0, 9), (10, 19)), False),
        (spans((0, 10), (10, 19)), False),  # an order's line items may end one file and begin the next
        (spans(("a", "b"), ("b", "c"), ("d", "d")), False),
        (spans((0, 999), (1, 998)), True),
        (spans(("2026-01-01", "2026-06-30"), ("2026-01-01", "2026-06-30")), True),
        (spans((7, 7), (7, 7), (7, 7)), True),
        (spans((7, 7), (8, 8), (9, 9)), False),
        ([*spans((0, 9), (10, 19), (20, 29)), Span(1, 0, 29)], False),  # a small update of scattered rows
        (spans((0, 9), (0, 9), (0, 9)) + spans(*((n, n) for n in range(9)), size=1), True),
        (spans((0, 9)), None),
        (spans((0, 9)) + [Span(1, 3, 3)] * 5, None),
        (spans((None, None), (None, None)), None),
        ([*spans((0, 9), (10, 19)), Span(300, None, None)], None),
        ([*spans((0, 9), (10, 19)), Span(10, None, None)], False),
        (spans((0.5, 1.5), (2, 3.5)), False),
        (spans((0.5, 1.5), ("Infinity", "Infinity")), None),
        ([], None),
        ([Span(0, 1, 1)], None),
    ],
)
def test_spans_tell_whether_values_are_scattered(files: list[Span], scatters: bool | None) -> None:
    assert scattered(files) is scatters
    assert scattered(random.Random(1).sample(files, len(files))) is scatters


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9))
def test_the_overlap_of_spans_is_that_of_each_two(found: list[tuple[int, int, int]]) -> None:
    files = [Span(size, min(a, b), max(a, b)) for size, a, b in found]
    whole = sum(each.bytes for each in files)

    def overlap(one: Span, other: Span, same: bool) -> bool:
        alike = (one.least, one.most) == (other.least, other.most)
        return same or alike or (one.least < other.most and other.least < one.most)

    pairs = [(n, m) for n in range(len(files)) for m in range(len(files))]
    met = sum(files[n].bytes * files[m].bytes for n, m in pairs if overlap(files[n], files[m], n == m)) / whole**2
    least = sum((each.bytes / whole) ** 2 for each in files)
    part = (met - least) / (1 - least)
    if abs(part - 0.5) > 1e-9:
        assert scattered(files) is (None if least > 0.75 else part > 0.5)


@pytest.mark.parametrize(("least", "most"), [(None, None), (1, None), ({"a": 1}, {"a": 2}), ([1], [2]), (1, "2"), (None, "x")])
def test_what_is_no_span_of_plain_values_tells_nothing(least: object, most: object) -> None:
    assert _span(5, least, most) == Span(5, None, None)


WHERE = (Origin(source("r"), "k"), Origin(source("r"), "w"))


@pytest.mark.parametrize(
    ("told", "is_stored", "words"),
    [
        ((True, True), True, "k are scattered over the files of r"),
        ((True, None), True, "k are scattered"),
        ((None, True), True, "w are scattered"),
        ((True, False), False, "w lie together in the files of r"),
        ((None, False), False, "w lie together"),
        ((None, None), True, "do not tell"),
        ((), True, "no column of one table"),
    ],
)
def test_auto_stores_unless_a_key_lies_together(told: tuple[bool | None, ...], is_stored: bool, words: str) -> None:
    by_origin = dict(zip(WHERE, told, strict=False))
    decided = decide_by_files(OptionalState("a state", tuple(by_origin)), by_origin.__getitem__)
    assert decided.stored is is_stored and words in decided.reason


def test_auto_keeps_to_what_it_decided_until_the_plan_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read(_: object, path: str, column: str) -> tuple[Span, ...]:
        asked.append(f"{path} {column}")
        return tuple(spans((0, 9), (10, 19)))

    monkeypatch.setattr(states, "spans", read)

    def plan(mode: StateMode, before: Plan | None) -> tuple[list[bool], str]:
        found, fingerprint = stored(None, BOTH, mode, before, lambda form: f"<{form}>")  # type: ignore[arg-type]
        return [decided.stored for _, decided in found.states], fingerprint

    all_of, none = ([True, True], "<values stored, partners stored>"), ([False, False], "<>")
    assert (plan(StateMode.ALL, None), plan(StateMode.NONE, Plan("<values stored, partners stored>"))) == (all_of, none)
    assert plan(StateMode.AUTO, Plan(all_of[1], (YES, YES))) == all_of
    assert plan(StateMode.AUTO, Plan(all_of[1])) == all_of  # of an earlier release
    assert plan(StateMode.AUTO, Plan("<values stored>", (YES, NO))) == ([True, False], "<values stored>")
    assert asked == []
    assert plan(StateMode.AUTO, None) == none
    assert asked == ["/l k", "/r k"]
    assert plan(StateMode.AUTO, Plan("of another query", (YES, YES))) == none


@pytest.mark.parametrize(
    ("states_", "plan"),
    [((), Plan("f")), ((YES, NO), Plan("f", (YES, NO)))],
)
def test_the_plan_of_a_table_is_in_its_frontier(states_: tuple[Decided, ...], plan: Plan) -> None:
    frontier = Frontier({}, {}, 4, 2, "f", "FULL", exact=True, states=states_)
    assert Frontier.of(frontier.to_json()) == frontier
    assert plan_of(entry_with(frontier.to_json())) == plan


@pytest.mark.parametrize(
    "text", [None, "", "null", "[1]", "{", '{"fingerprint": 1}', '{"states": []}', '{"fingerprint": "f", "states": [1]}']
)
def test_what_is_no_frontier_has_no_plan(text: str | None) -> None:
    assert plan_of(entry_with(text)) is None


def test_the_frontier_of_an_earlier_release_has_a_plan_without_decisions() -> None:
    assert plan_of(entry_with('{"fingerprint": "f", "number": 3}')) == Plan("f")


def entry_with(frontier: str | None) -> Entry:
    return SimpleNamespace(state=SimpleNamespace(frontier=frontier))  # type: ignore[return-value]
