"""The delta rules: the delta of each operator, what it reads in which form, and what is refused with which reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import (
    Row,
    World,
    bag,
    columns,
    count_by,
    explode,
    ids,
    join,
    kept,
    left_join,
    look,
    minus,
    project,
    rows,
    scalar,
    scan,
    source,
    union,
)

from streamtable.algebra.columns import WEIGHT, Call, Item, Scalar, itself
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Filter,
    Generate,
    Join,
    JoinType,
    Operator,
    Project,
    StoredRows,
    UnionAll,
    Unsupported,
)
from streamtable.algebra.sources import CLOCK
from streamtable.algebra.trees import walk
from streamtable.differentiate.deltas import Deltas, Moved, Shared
from streamtable.differentiate.registry import RULES, TITLES, findings, obstacle
from streamtable.errors import InternalError
from streamtable.sql.builder import text

L, R, X = scan("l", "k v"), scan("r", "w", rk="k"), scan("x", "t", xk="k")
CONSTANT = Constant(0, columns("c"))
LR = join(L, R, on="k = rk")
LRX = join(L, R, X, on="k = rk AND rk = xk")


def deltas_of(changed: str, arrangements: Mapping[Aggregate, str] | None = None) -> Deltas:
    return Deltas(frozenset(map(source, changed.split())), arrangements or {}, RULES)


def delta(tree: Operator, changed: str) -> Operator:
    found = deltas_of(changed).of(tree)
    assert found is not None
    return found


def terms(tree: Operator) -> list[str]:
    """Draw each term of the delta of a join, without the projection that gives it its weight."""
    assert isinstance(tree, UnionAll)
    return [look(term.child) if isinstance(term, Project) else look(term) for term in tree.inputs]


TREES: dict[str, Operator] = {
    "scan": L,
    "filter": Filter(L, (scalar("v < 2"), scalar("k = 1"))),
    "project": project(L, a="v", b="v + 1", c="v"),
    "join of two": LR,
    "join of three": LRX,
    "join of three, each with each": join(L, R, X, on="k = rk AND k = xk AND rk = xk AND v < t"),
    "join without a condition": join(R, L),
    "join on an inequality": join(L, R, on="v < w"),
    "join with itself": join(L, scan("l", "", k2="k", v2="v"), on="k = k2"),
    "the same table three times": join(L, scan("l", "", k2="k"), scan("l", "", k3="k"), on="k = k2 AND k2 = k3"),
    "join of joins": join(kept(LR, "v rk"), X, on="rk = xk"),
    "join of unions": join(union("k v", L, kept(R, "rk w")), X, on="k = xk"),
    "union": union("a b", L, kept(R, "w rk"), L),
    "union of the same": union("a b", L, L),
    "generate": explode(project(L, k="k", many="v"), "many", "each"),
    "generate, outer": explode(project(L, k="k", many="v"), "many", "each", outer=True),
    "generate over a join": explode(LR, "many", "each"),
    "left outer": left_join(L, R, JoinType.LEFT_OUTER, "k = rk"),
    "left outer, more than an equality": left_join(L, R, JoinType.LEFT_OUTER, "k = rk AND v < w"),
    "left outer without an equality": left_join(L, R, JoinType.LEFT_OUTER, "v < w"),
    "left outer without a condition": left_join(L, R, JoinType.LEFT_OUTER),
    "left outer by expressions": left_join(L, R, JoinType.LEFT_OUTER, "k + 1 = w"),
    "semi": left_join(L, R, JoinType.LEFT_SEMI, "k = rk"),
    "semi without a condition": left_join(L, R, JoinType.LEFT_SEMI),
    "anti": left_join(L, R, JoinType.LEFT_ANTI, "k = rk"),
    "anti on an inequality": left_join(L, R, JoinType.LEFT_ANTI, "v < w"),
    "anti with itself": left_join(L, scan("l", "", k2="k", v2="v"), JoinType.LEFT_ANTI, "k = v2"),
    "outer of outer": left_join(left_join(L, R, JoinType.LEFT_OUTER, "k = rk"), X, JoinType.LEFT_OUTER, "rk = xk"),
    "outer of anti": left_join(L, left_join(R, X, JoinType.LEFT_ANTI, "w = t"), JoinType.LEFT_OUTER, "k = rk"),
    "anti under a join": join(left_join(L, R, JoinType.LEFT_ANTI, "k = rk"), X, on="k = xk"),
    "anti over a union": left_join(union("a b", L, kept(R, "rk w")), X, JoinType.LEFT_ANTI, "a = xk"),
    "filter by the clock": Filter(L, (scalar("v < __streamtable_now"), scalar("k = 1"))),
    "filter by the clock over a join": Filter(LR, (scalar("v < w + __streamtable_now"),)),
    "project the clock": project(L, a="v", b="v < __streamtable_now", c="__streamtable_now * 2"),
    "join by the clock": join(
        project(L, k="k", late="v + __streamtable_now"), Filter(R, (scalar("w < __streamtable_now"),)), on="late = w"
    ),
    "anti by the clock": left_join(L, Filter(R, (scalar("__streamtable_now < w"),)), JoinType.LEFT_ANTI, "k = rk"),
    "filter over a union of joins": Filter(union("a b", kept(LR, "v w"), kept(X, "xk t")), (scalar("a < b"),)),
}
MAY_FAIL: dict[str, Operator] = {
    "project": Project(LR, (Item("a", "a", scalar("v + w", fails=True)),)),
    "filter": Filter(kept(LRX, "v t"), (scalar("v < t", fails=True),)),
    "condition": Join(LRX.inputs, (*LRX.conjuncts, scalar("v < t", fails=True))),
    "filter over project": Filter(
        Project(LRX, (Item("a", "a", scalar("v + t", fails=True)), *map(itself, columns("k")))), (scalar("a < 3", fails=True),)
    ),
    "union": Project(union("a b", kept(LR, "v w"), kept(X, "xk t")), (Item("c", "c", scalar("a + b", fails=True)),)),
    "outer": Project(
        left_join(LR, X, JoinType.LEFT_OUTER, "rk = xk"), (Item("a", "a", scalar("w + t", fails=True)), *map(itself, columns("k")))
    ),
}
TREES |= {f"may fail: {name}": tree for name, tree in MAY_FAIL.items()}
INTS = st.sampled_from([None, 1, 2])
MANY = st.sampled_from([(), (1,), (1, 1, 2)])


def tables(many: bool) -> st.SearchStrategy[dict[str, list[dict[str, object]]]]:
    """Draw small tables with NULLs and duplicates; with `many`, l.v holds arrays."""
    named = {"l": ("k", "v"), "r": ("k", "w"), "x": ("k", "t")}
    values = {"many": MANY, "v": MANY if many else INTS}
    return st.fixed_dictionaries(
        {
            table: st.lists(st.fixed_dictionaries({name: values.get(name, INTS) for name in names}), max_size=3)
            for table, names in named.items()
        }
    )


@pytest.mark.parametrize("name", [name for name in TREES if "generate over" not in name])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_new_is_old_plus_delta(name: str, data: st.DataObject) -> None:
    tree, many = TREES[name], name.startswith("generate")
    old, new = data.draw(tables(many)), data.draw(tables(many))
    changed = data.draw(st.sets(st.sampled_from("lrx")))
    clock = data.draw(st.sampled_from([(1, 1), (1, 2), (1, 3)]))
    stored: dict[str, list[Row]] = {}
    world = World(old, {table: (new if table in changed else old)[table] for table in old}, stored, clock, data.draw(st.booleans()))
    deltas = Deltas(frozenset([*map(source, changed), *([CLOCK] if clock != (1, 1) else [])]), {}, RULES)
    moved = deltas.of(tree)
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
    expected = minus(bag(tree, world), bag(tree, World(world.old, world.old, {}, (clock[0], clock[0]))))
    assert (bag(moved, world) if moved else {}) == expected


@pytest.mark.parametrize("name", MAY_FAIL)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_may_fail_meets_only_rows_that_the_query_has(name: str, data: st.DataObject) -> None:
    met: list[tuple[Row, bool]] = []

    def look_at(tree: Operator, world: World, query: bool) -> None:
        """Remember the values that expressions which may fail are given."""
        for node in walk(tree):
            given, scalars = list[Row](), list[Scalar]()
            match node:
                case Filter(child, conjuncts):
                    given, scalars = rows(child, world), list(conjuncts)
                case Project(child, items):
                    given, scalars = rows(child, world), [item.value for item in items]
                case Join(inputs, conjuncts):
                    given = rows(Join(inputs, tuple(each for each in conjuncts if not each.fails)), world)
                    scalars = list(conjuncts)
            failing = (each for each in scalars if each.fails)
            met.extend(({"of": each.text} | {c: row[c] for c in each.inputs}, query) for each in failing for row in given)

    old, new = data.draw(tables(many=False)), data.draw(tables(many=False))
    stored: dict[str, list[Row]] = {}
    world = World(old, new, stored, netted=True)
    for tables_ in (old, new):
        look_at(MAY_FAIL[name], World(tables_, tables_, {}), query=True)
    deltas = deltas_of("l r x")
    moved = deltas.of(MAY_FAIL[name])
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
        look_at(step.tree, world, query=False)
    assert moved is not None
    look_at(moved, world, query=False)
    asked = [row for row, query in met if query]
    assert all(row in asked for row, query in met if not query)


@pytest.mark.parametrize("name", TREES)
def test_a_delta_has_the_columns_of_its_operator_and_a_weight(name: str) -> None:
    assert ids(delta(TREES[name], "l")) == [*ids(TREES[name]), WEIGHT.id]


@pytest.mark.parametrize("name", TREES)
def test_what_no_changed_source_is_below_has_no_delta(name: str) -> None:
    assert deltas_of("other").of(TREES[name]) is None


def test_scan_reads_its_own_changes() -> None:
    assert look(delta(L, "l r")) == "delta l"


def test_constant_never_changes() -> None:
    assert deltas_of("l").of(CONSTANT) is None
    assert terms(delta(join(CONSTANT, L, on="c = k"), "l")) == ["Join(delta l, constant 0)"]


def test_filter_and_project_work_on_the_delta_alone() -> None:
    assert look(delta(Filter(L, (scalar("v < 2"),)), "l")) == "Filter(delta l)"
    moved = delta(project(L, a="v + 1"), "l")
    assert look(moved) == "Project(delta l)"
    assert isinstance(moved, Project)
    assert [text(item.value.sql) for item in moved.items] == ["v + 1", f"`{WEIGHT.id}`"]


@pytest.mark.parametrize(
    ("tree", "changed", "expected"),
    [
        (LR, "l", ["Join(delta l, new r)"]),
        (LR, "r", ["Join(delta r, new l)"]),
        (LR, "l r", ["Join(delta l, new r)", "Join(delta r, old l)"]),
        (
            LRX,
            "l r x",
            ["Join(delta l, new r, new x)", "Join(delta r, old l, SemiJoin(new x by xk))", "Join(delta x, old r, old l)"],
        ),
        (LRX, "l x", ["Join(delta l, new r, new x)", "Join(delta x, new r, old l)"]),
        (join(L, scan("l", "", k2="k"), on="k = k2"), "l", ["Join(delta l, new l)", "Join(delta l, old l)"]),
    ],
)
def test_join_has_a_term_per_changed_input(tree: Join, changed: str, expected: list[str]) -> None:
    """Left of the changed input the frontier is read, right of it the target; what did not change is never read in the past."""
    assert terms(delta(tree, changed)) == expected


def test_inputs_that_changed_and_are_compared_are_one_where_others_did_not_change() -> None:
    """What did not change is read once, with the conjuncts that are not asked of the change already."""
    deltas = deltas_of("l r")
    moved = deltas.of(join(X, R, L, on="k = rk AND rk = xk AND v < t"))
    assert moved is not None
    assert terms(moved) == ["Join(shared_0, new x)"]
    assert [terms(each.tree) for each in deltas.steps] == [["Join(delta r, new l)", "Join(delta l, old r)"]]  # type: ignore[union-attr]
    assert isinstance(moved, UnionAll) and isinstance(whole := moved.inputs[0], Project) and isinstance(whole.child, Join)
    assert [each.text for each in whole.child.conjuncts] == ["rk = xk", "v < t"]
    assert ids(moved) == ["t", "xk", "w", "rk", "k", "v", WEIGHT.id]
    assert terms(delta(join(L, X, R, on="k = xk"), "l r")) == ["Join(delta l, new x, new r)", "Join(delta r, old l, new x)"]


def test_join_goes_on_along_the_conjuncts() -> None:
    chain = join(L, X, R, on="k = rk AND rk = xk")  # l and x share no conjunct: after l comes r
    assert terms(delta(chain, "l")) == ["Join(delta l, new r, new x)"]
    assert terms(delta(join(L, X, R), "l")) == ["Join(delta l, new x, new r)"]


def test_only_partners_of_a_small_change_are_moved() -> None:
    """They are picked by the keys of the change, which every task gets; of a large change they would be as many as the rest."""
    star = join(R, L, X, on="rk = k AND rk = xk")
    assert terms(delta(star, "r")) == ["Join(delta r, new l, SemiJoin(new x by xk))"]
    outer = left_join(L, R, JoinType.LEFT_OUTER, "k = rk")
    assert terms(delta(outer, "l")) == ["LEFT_OUTER(delta l, SemiJoin(new r by rk))"]
    large = Deltas(frozenset({source("r")}), {}, RULES, small=False)
    assert terms(large.of(star)) == ["Join(delta r, new l, new x)"]  # type: ignore[arg-type]


def test_join_reads_an_aggregate_from_what_is_stored_before_and_after() -> None:
    counted = count_by(R, g="rk")
    moved = deltas_of("l r", {counted: "a0"}).of(join(L, counted, on="k = g"))
    assert moved is not None
    assert terms(moved) == ["Join(delta l, a0_new)", "Join(a0_delta, old l)"]


def test_union_sums_the_deltas_of_what_changed() -> None:
    tree = union("a b", L, kept(R, "w rk"), L)
    assert look(delta(tree, "l r")) == "UnionAll(delta l, delta r, delta l)"
    assert look(delta(tree, "r")) == "UnionAll(delta r)"


def test_generate_puts_the_weight_last() -> None:
    moved = delta(explode(L, "v", "each"), "l")
    assert look(moved) == "Generate(delta l)"
    assert ids(moved) == ["k", "v", "each", WEIGHT.id]


def test_aggregate_is_read_from_what_its_step_stores() -> None:
    counted = count_by(L, g="k")
    deltas = deltas_of("l", {counted: "a0"})
    assert deltas.of(counted) == StoredRows("a0_delta", (*counted.columns, WEIGHT))
    assert [(step.aggregate, look(step.change)) for step in deltas.steps if isinstance(step, Moved)] == [(counted, "delta l")]
    assert deltas.old(counted) == StoredRows("a0_old", counted.columns)


def test_aggregate_whose_input_did_not_change_has_no_step() -> None:
    counted = count_by(L, g="k")
    deltas = deltas_of("r", {counted: "a0"})
    assert look(deltas.of(join(counted, R, on="g = rk")) or CONSTANT) == "UnionAll(Join(delta r, a0_old))"
    assert deltas.steps == []


def test_aggregate_that_is_read_twice_has_one_step() -> None:
    counted = count_by(L, g="k")
    deltas = deltas_of("l", {counted: "a0"})
    twice = deltas.of(union("a b", counted, counted))
    assert look(twice or CONSTANT) == "UnionAll(a0_delta, a0_delta)"
    assert len(deltas.steps) == 1


def test_aggregate_comes_after_the_one_that_it_reads() -> None:
    inner = count_by(L, g="k", h="v")
    outer = count_by(inner, o="g")
    deltas = deltas_of("l", {outer: "a0", inner: "a1"})
    deltas.of(outer)
    assert [(step.aggregate, look(step.change)) for step in deltas.steps if isinstance(step, Moved)] == [
        (inner, "delta l"),
        (outer, "a1_delta"),
    ]


def test_what_has_no_rule_says_its_own_reason() -> None:
    sorted_ = Unsupported("GlobalLimit", (L,), L.columns, "GlobalLimit has no delta rule yet")
    (first, second) = findings(sorted_)
    assert (first.operator, first.incremental, first.reason) == ("GlobalLimit", False, "GlobalLimit has no delta rule yet")
    assert second.incremental
    with pytest.raises(InternalError, match="GlobalLimit"):
        deltas_of("l").of(sorted_)


PLACES: dict[str, Callable[[Scalar], Operator]] = {
    "Filter": lambda bad: Filter(L, (scalar("k = 1"), bad)),
    "Project": lambda bad: Project(L, (Item("k", "k", scalar("k")), Item("a", "a", bad))),
    "Join": lambda bad: Join((L, R), (scalar("k = rk"), bad)),
    "Aggregate": lambda bad: Aggregate(L, (Item("g", "g", bad),), (Call("n", scalar("count(1)"), "Count"),)),
    "Distinct": lambda bad: Aggregate(L, (Item("g", "g", bad),), ()),
    "Aggregate of": lambda bad: Aggregate(L, (), (Call("s", scalar("sum(v)"), "Sum", (bad,)),)),
    "Aggregate FILTER": lambda bad: Aggregate(L, (), (Call("s", scalar("sum(v)"), "Sum", (scalar("v"),), filter=bad),)),
    "Aggregate itself": lambda bad: Aggregate(L, (), (Call("s", bad, "PythonUDAF"),)),
    "Generate": lambda bad: Generate(L, bad, False, columns("each")),
}
REFUSED = {
    "volatile": (scalar("k < v", deterministic=False), "volatile expression k < v: a retraction would not compute"),
    "user": (scalar("CURRENT_USER() = k", deterministic=False), "which a view over the stream table gives"),
    "time of day": (scalar("current_time(6) = k", deterministic=False), "write date_format("),
    "clock": (scalar("k < v", clock=True), "k < v depends on the clock"),
    "subquery": (scalar("k < v", subqueries=("Exists",)), "subquery expression (Exists) has no delta rule yet"),
}


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.parametrize("place", PLACES)
def test_refusal(place: str, reason: str) -> None:
    bad, expected = REFUSED[reason]
    tree = PLACES[place](bad)
    if reason == "clock" and place in ("Filter", "Project"):
        assert obstacle(tree) is None  # these two have a rule for it, and the reading leaves it to them
        return
    found = findings(tree)
    assert [each.incremental for each in found] == [False, *[True] * (len(found) - 1)]
    assert found[0].operator.startswith(place.split(maxsplit=1)[0])
    assert expected in found[0].reason
    assert obstacle(Filter(tree, (scalar("k = 1"),))) == found[0]


@pytest.mark.parametrize("place", PLACES)
def test_without_a_refusal_the_rule_names_itself(place: str) -> None:
    found = findings(PLACES[place](scalar("k < v")))
    assert all(each.incremental and each.reason.startswith("Delta of ") for each in found)
    assert obstacle(PLACES[place](scalar("k < v"))) is None


def test_findings_come_root_first_with_what_each_operator_is_about() -> None:
    tree = Filter(count_by(union("k v", kept(LR, "k v"), L), g="k"), (scalar("n < 3"),))
    assert [each.operator for each in findings(tree)] == [
        "Filter (n < 3)",
        "Aggregate (k, count(1))",
        "UnionAll",
        "Project",
        "Join of 2 (k = rk)",
        "Scan l",
        "Scan r",
        "Scan l",
    ]


def test_every_rule_has_a_title_also_without_docstrings() -> None:
    assert TITLES.keys() == RULES.keys()
    code = "from streamtable.differentiate.registry import findings; from streamtable.algebra.operators import Constant"
    code += "; print(findings(Constant(0, ()))[0].reason)"
    said = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith(TITLES[Constant])
