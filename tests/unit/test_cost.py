"""What a refresh is taken to cost, and when AUTO recomputes for that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtable.delta.tables import Version
from streamtable.engine.load import Load
from streamtable.refresh.cost import Costs, Ran, costs, full_share, remembered, too_much
from streamtable.refresh.frontier import Frontier

MILLION = 1_000_000
FULL = Ran(False, 0, MILLION, 8_000)


def ran(changed: int, ms: int) -> Ran:
    return Ran(True, changed, MILLION, ms)


@pytest.mark.parametrize(
    ("runs", "known"),
    [
        ((), False),
        ((FULL, ran(100, 900)), False),
        ((ran(100, 900), ran(100, 800)), False),
        ((FULL, ran(100, 900), ran(100, 800)), True),
        ((Ran(False, 0, 10, 300), ran(100, 900), ran(100, 800)), False),  # a full refresh of a table that was much smaller
    ],
)
def test_what_must_have_been_seen(runs: tuple[Ran, ...], known: bool) -> None:
    assert (costs(Load(1_000, MILLION), runs) is not None) is known


def test_a_small_delta_costs_the_fixed_part_and_a_full_refresh_grows_with_the_table() -> None:
    runs = (FULL, ran(100, 900), ran(200, 800))
    assert costs(Load(0, MILLION), runs) == Costs(800, 8_000)
    assert costs(Load(0, 2 * MILLION), runs) == Costs(800, 16_000)


def test_what_large_deltas_took_is_learnt() -> None:
    few = (FULL, ran(100, 900), ran(100, 900))
    cheap, dear = (*few, ran(300_000, 1_200)), (*few, ran(300_000, 30_000))
    load = Load(300_000, MILLION)
    at_first, after_cheap, after_dear = costs(load, few), costs(load, cheap), costs(load, dear)
    assert at_first and after_cheap and after_dear
    assert after_cheap.differential < at_first.differential < after_dear.differential
    assert too_much(load, after_cheap, None) is None
    assert too_much(load, after_dear, None) == f"300,000 changed rows for 1,000,000 rows: {after_dear}"
    assert str(Costs(1_500, 2_000)) == "estimated 1,500 ms, in full 2,000 ms"


def test_appends_tell_about_appends_and_what_must_be_located_about_that() -> None:
    appended = tuple(replace(ran(200_000 + n, 1_000), removes=False) for n in range(3))
    located = (ran(200_000, 20_000), ran(100, 900))
    appends, deletes = Load(200_000, MILLION, removes=False), Load(200_000, MILLION)
    cheap, dear = costs(appends, (FULL, *appended, *located)), costs(deletes, (FULL, *appended, *located))
    assert cheap and dear
    assert 10 * cheap.differential < dear.differential
    assert costs(deletes, (FULL, *appended)) == costs(appends, (FULL, *appended)), "better than nothing"


def test_noise_decides_nothing() -> None:
    assert too_much(Load(1, 10), Costs(1_900, 1_000), None) is None
    assert too_much(Load(1, 10), Costs(2_001, 1_000), None) is not None


@pytest.mark.parametrize(
    ("load", "share", "reason"),
    [
        (Load(9_000, 9_000), None, None),  # too few to matter
        (Load(150_000, MILLION), None, None),
        (Load(150_001, MILLION), None, "150,001 changed rows for 1,000,000 rows, over the limit of 15%"),
        (Load(2, 3), 0.5, "2 changed rows for 3 rows, over the limit of 50%"),
        (Load(2, 3, most="b", advice="Try it"), 0.5, "2 changed rows for 3 rows, most of them in b, over the limit of 50%. Try it"),
        (Load(1, 3), 0.5, None),
        (Load(3, 3), 1.0, None),
    ],
)
def test_a_share_decides_where_it_is_set_or_nothing_is_known(load: Load, share: float | None, reason: str | None) -> None:
    assert too_much(load, None, share) == reason


@given(
    st.lists(st.builds(Ran, st.booleans(), st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 10**7))),
    st.builds(Load, st.integers(0, 10**9), st.integers(0, 10**9)),
)
def test_estimates_are_never_negative_and_grow_with_the_change(runs: list[Ran], load: Load) -> None:
    found, larger = costs(load, runs), costs(Load(load.changed * 2, load.rows), runs)
    if found is not None:
        assert larger is not None
        assert 0 <= found.differential <= larger.differential
        assert found.full >= 0


@pytest.mark.parametrize("more", [(), (ran(300_000, 30_000), ran(100, 700)), (ran(10_000, 2_000),)])
def test_the_share_that_is_told_is_the_one_that_decides(more: tuple[Ran, ...]) -> None:
    runs = (FULL, ran(100, 900), ran(200, 800), *more)
    share = full_share(runs)
    assert share is not None
    below, above = (Load(round(share * MILLION * each), MILLION) for each in (0.99, 1.01))
    assert too_much(below, costs(below, runs), None) is None
    assert too_much(above, costs(above, runs), None) is not None


@pytest.mark.parametrize("runs", [(), (FULL,), (ran(1, 1), ran(1, 1)), (FULL, ran(1, 1))])
def test_no_share_is_told_until_enough_is_known(runs: tuple[Ran, ...]) -> None:
    assert full_share(runs) is None


def test_the_last_full_run_is_remembered() -> None:
    runs: tuple[Ran, ...] = (ran(1, 1), FULL)
    for n in range(20):
        runs = remembered(runs, ran(1, n))
    assert runs == (FULL, *(ran(1, n) for n in range(13, 20)))
    later = Ran(False, 0, MILLION, 7_000)
    assert remembered(runs, later) == (*runs[1:], later)
    assert remembered((), FULL) == (FULL,)


def test_the_frontier_remembers_runs() -> None:
    frontier = Frontier({"/l": Version("t", 1)}, {}, 0, 1, "plan", "FULL", exact=True, runs=(FULL, ran(1, 2)))
    assert Frontier.of(frontier.to_json()) == frontier
