"""What a refresh does, and why: the choice between a delta and a full refresh."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from tests.unit.trees import count_by, join, kept, left_join, scalar, scan, source, top, union, window

from streamtable.algebra.columns import NOW, Call
from streamtable.algebra.operators import Aggregate, Filter, JoinType, Operator
from streamtable.delta.tables import Version
from streamtable.differentiate.registry import RuleFinding, findings, prunes_nothing
from streamtable.errors import NotIncremental
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.choose import ASKED, NOT_POPULATED, Action, Choice, Facts, choose, permitted
from streamtable.refresh.cost import Costs
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.verdict import of_definition

L, R = scan("l", "k v"), scan("r", "w", rk="k")
COUNTED = count_by(R, g="rk")
WHOLE = "Window (count(1)): without PARTITION BY every row is computed, before and after, so that a full refresh is cheaper"

BEFORE = {"/l": Version("t", 1), "/r": Version("t", 1)}
FRONTIER = Frontier(BEFORE, {}, 0, 1, "plan", "FULL", exact=True)


@pytest.mark.parametrize(
    ("tree", "changed", "found"),
    [
        (top(L, "v k", 3), "l", True),
        (top(L, "v k", 3), "r", False),
        (top(COUNTED, "g n", 3), "r", False),  # of stored groups
        (window(L, "n"), "l", True),
        (window(L, "n", "k"), "l", False),
        (window(COUNTED, "m"), "r", False),
        (join(window(L, "n"), R, on="k = rk"), "l", True),
        (join(window(L, "n"), R, on="k = rk"), "r", False),
        (left_join(L, R, JoinType.LEFT_ANTI, "v < w"), "r", True),
        (left_join(L, R, JoinType.LEFT_ANTI, "v < w"), "l", False),  # linear in what it keeps
        (left_join(L, R, JoinType.LEFT_ANTI, "v = w"), "r", False),
        (left_join(L, COUNTED, JoinType.LEFT_ANTI, "v < n"), "r", True),  # every row of l is compared
    ],
)
def test_what_prunes_nothing(tree: Operator, changed: str, found: bool) -> None:
    assert (prunes_nothing(tree, frozenset({source(changed)})) is not None) is found


EQUAL = "the rows that can meet them"
STORED = "the changed rows of its input, and the stored states of their groups"


@pytest.mark.parametrize(
    ("tree", "read"),
    [
        (
            L,
            "reads the changed rows of the table: from its change data feed where that is on, else from the files that came and went",
        ),
        (Filter(L, (scalar("k = 1"),)), "reads the changed rows of its input"),
        (
            Filter(L, (scalar("v < __streamtable_now"),)),
            "reads the changed rows of its input, and the rows whose values change with the time",
        ),
        (kept(L, "k"), "reads the changed rows of its input"),
        (union("k v", L, R), "reads the changed rows of its input"),
        (join(L, R, on="k = rk"), f"reads the changed rows of each input, and {EQUAL} of the others"),
        (join(L, R, on="k < rk"), "reads the changed rows of each input, and every row of the others"),
        (
            left_join(L, R, JoinType.LEFT_ANTI, "v = w"),
            "reads the changed rows of both inputs, and the rows of the other input that can meet them",
        ),
        (
            left_join(L, R, JoinType.LEFT_ANTI, "v < w"),
            "without an equality to look partners up by, every row is compared, before and after",
        ),
        (COUNTED, f"reads {STORED}"),
        (Aggregate(L, (), (Call("m", scalar("max(v)"), "Max"),)), f"reads {STORED}, and all rows of groups that lost an extreme"),
        (
            Aggregate(L, (), (Call("m", scalar("percentile(v, 0.5)"), "Percentile"),)),
            "reads the changed rows of its input, and the stored states and all rows of their groups",
        ),
        (window(L, "n", "k"), "reads the changed rows of its input, and all rows of their partitions"),
        (window(L, "n"), "without PARTITION BY every row is computed, before and after"),
        (top(L, "v k", 3), "the first rows are found among all rows, before and after"),
    ],
)
def test_explain_says_what_is_read(tree: Operator, read: str) -> None:
    assert findings(tree)[0].reason.partition("; ")[2] == read


def test_explain_says_where_the_order_of_rows_decides() -> None:
    sorted_list = "listagg(v) WITHIN GROUP (ORDER BY v)"
    calls = [("first(v)", "First"), ("max(v)", "Max"), ("listagg(v)", "ListAgg"), (sorted_list, "ListAgg")]
    told, silent = (
        findings(Aggregate(L, (), tuple(Call(text, scalar(text), function) for text, function in some)))[0].reason
        for some in (calls, calls[1::2])
    )
    counted = Call("s", scalar("collect_set(v)"), "CollectSet", any_order=True)
    assert "order of rows" not in findings(Aggregate(L, (), (counted,)))[0].reason
    assert "; the value of first(v), listagg(v) depends on the order of rows, which Spark leaves open" in told
    assert "order of rows" not in silent


@pytest.mark.parametrize(
    ("mode", "action"),
    [(RefreshMode.AUTO, Action.FULL), (RefreshMode.DIFFERENTIAL, Action.DIFFERENTIAL), (RefreshMode.FULL, Action.FULL)],
)
def test_only_auto_prefers_a_full_refresh_where_nothing_prunes(mode: RefreshMode, action: Action) -> None:
    whole = prunes_nothing(window(L, "n"), frozenset({source("l")}))
    choice = choose(mode, False, FRONTIER, {**BEFORE, "/l": Version("t", 2)}, Facts("plan", full_scan=whole))
    assert choice.action is action
    if mode is RefreshMode.AUTO:
        assert choice.reason == WHOLE


@pytest.mark.parametrize(
    ("mode", "tree", "told"),
    [
        (RefreshMode.AUTO, window(L, "n"), (False, f"Each refresh is FULL: {WHOLE}")),
        (RefreshMode.AUTO, join(window(L, "n"), R, on="k = rk"), (True, f"Each refresh after a change of l is FULL: {WHOLE}")),
        (RefreshMode.AUTO, L, (True, "Each refresh is DIFFERENTIAL, as long as that costs less than a full one")),
        (RefreshMode.DIFFERENTIAL, window(L, "n"), (True, "Each refresh is DIFFERENTIAL")),
    ],
)
def test_explain_create_said_that_a_refresh_is_differential_where_auto_computes_everything(
    mode: RefreshMode, tree: Operator, told: tuple[bool, str]
) -> None:
    analysed = Mock(spec=AnalysedQuery, obstacle=None, tree=tree, bound=Mock(clock="date"))
    assert of_definition(mode, analysed) == ("Verdict", *told)


@pytest.mark.parametrize(
    ("granularity", "always", "when"), [("instant", True, ""), ("date", False, " after a change of l, the clock")]
)
def test_explain_create_took_the_clock_for_a_table_that_may_stay_as_it_is(granularity: str, always: bool, when: str) -> None:
    tree = join(window(Filter(L, (scalar(f"v < {NOW.id}"),)), "n"), R, on="k = rk")
    analysed = Mock(spec=AnalysedQuery, obstacle=None, tree=tree, bound=Mock(clock=granularity))
    assert of_definition(RefreshMode.AUTO, analysed) == ("Verdict", not always, f"Each refresh{when} is FULL: {WHOLE}")


def test_explain_create_took_one_table_with_two_names_for_two() -> None:
    by_path = replace(R, source=replace(L.source, name=None))
    analysed = Mock(spec=AnalysedQuery, obstacle=None, tree=join(window(L, "n"), by_path, on="k = rk"))
    assert of_definition(RefreshMode.AUTO, analysed) == ("Verdict", False, f"Each refresh is FULL: {WHOLE}")


def test_what_comes_before_the_cost() -> None:
    changed = {**BEFORE, "/l": Version("t", 2)}
    obstacle = RuleFinding("Limit", False, "no order")

    def action(frontier: Frontier | None, target: dict[str, Version], plan: str = "plan", **more: object) -> tuple[Action, str]:
        choice = choose(RefreshMode.AUTO, False, frontier, target, Facts(plan, **more))  # type: ignore[arg-type]
        return choice.action, choice.reason

    assert action(FRONTIER, BEFORE) == (Action.NO_DATA, "no source changed")
    assert action(FRONTIER, changed, resting={"/l"}) == (Action.NO_DATA, "no row of a source changed")
    both = {path: Version("t", 2) for path in BEFORE}
    assert action(FRONTIER, both, resting={"/l"}) == (Action.DIFFERENTIAL, "1 of 2 sources changed")
    assert action(FRONTIER, changed, resting={"/l"}, unversioned="rand()")[0] is Action.DIFFERENTIAL
    assert action(None, BEFORE)[0] is Action.REINITIALIZE
    assert action(FRONTIER, changed, "other")[0] is Action.REINITIALIZE
    assert action(FRONTIER, {**BEFORE, "/l": Version("u", 1)})[1] == "the source at /l was recreated"
    assert action(FRONTIER, {**BEFORE, "/l": Version("t", 0)})[1] == "the source at /l is at an older version than before"
    assert action(FRONTIER, changed, foreign="somebody wrote")[1] == "somebody wrote"
    assert action(FRONTIER, changed, lost="gone")[1] == "gone"
    assert action(FRONTIER, changed, obstacle=obstacle) == (Action.FULL, "Limit: no order")
    assert action(FRONTIER, changed, too_expensive="9 of 10 rows changed") == (Action.FULL, "9 of 10 rows changed")
    assert action(FRONTIER, changed) == (Action.DIFFERENTIAL, "1 of 2 sources changed")
    assert action(FRONTIER, changed, estimated=Costs(10, 2000))[1] == "1 of 2 sources changed; estimated 10 ms, in full 2,000 ms"


@pytest.mark.parametrize("action", [Action.FULL, Action.REINITIALIZE])
def test_strict_never_recomputes_by_itself(action: Action) -> None:
    choice = Choice(action, "the source at /l was recreated")
    with pytest.raises(NotIncremental, match="forbids: the source at /l was recreated"):
        permitted(RefreshMode.STRICT, "t", choice)
    assert permitted(RefreshMode.DIFFERENTIAL, "t", choice) is choice


@pytest.mark.parametrize(
    "choice",
    [
        Choice(Action.FULL, ASKED),
        Choice(Action.REINITIALIZE, NOT_POPULATED),
        Choice(Action.DIFFERENTIAL, "1 of 1 sources changed"),
        Choice(Action.NO_DATA, "no source changed"),
    ],
)
def test_strict_does_what_was_asked_for(choice: Choice) -> None:
    assert permitted(RefreshMode.STRICT, "t", choice) is choice
