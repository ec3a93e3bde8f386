"""Where a batch ends, and how consumers and their workers move: without Spark."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from streamtable.catalog.restored import restored
from streamtable.delta.tables import Version
from streamtable.errors import InvalidStatement
from streamtable.language.queue.ast import Limits
from streamtable.queue.consumers import Consumer
from streamtable.queue.limits import MOST_HELD, bearable, cut, held
from streamtable.statements.queue import _few
from streamtable.subscribing.inputs import Step

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
S = timedelta(seconds=1)


def steps(*events: int) -> list[Step]:
    """Return commits of so many events, each ten seconds after the one before it, the last ten seconds ago."""
    ages = range(10 * len(events), 0, -10)
    return [Step(n, NOW - age * S, count) for n, (count, age) in enumerate(zip(events, ages, strict=True), 1)]


CUTS = [
    # commits, limits, up to where, begun
    (steps(), Limits(), 0, False),
    (steps(5, 5), Limits(), 2, True),
    (steps(0, 0), Limits(), 2, False),  # passed over
    (steps(0, 5, 0), Limits(), 3, True),
    (steps(5, 5, 5), Limits(max_count=10), 2, True),
    (steps(5, 0, 5, 5), Limits(max_count=10), 3, True),
    (steps(50, 5), Limits(max_count=10), 1, True),  # a commit is not divided
    (steps(1, 1, 1, 1), Limits(max_interval=20 * S), 3, True),
    (steps(1, 1, 1), Limits(min_lag=15 * S), 2, True),
    (steps(1, 1, 1), Limits(min_lag=60 * S), 0, False),
    (steps(1, 1, 1), Limits(min_count=4), 0, False),
    (steps(0, 1), Limits(min_count=4), 0, False),
    (steps(1, 1, 1), Limits(min_count=3), 3, True),
    (steps(1, 1, 1), Limits(min_count=4, max_count=2), 2, True),  # full: not waited for
    (steps(1, 1), Limits(min_interval=20 * S), 2, True),
    (steps(1, 1), Limits(min_interval=21 * S), 0, False),
]


@pytest.mark.parametrize(("commits", "limits", "end", "begun"), CUTS)
def test_where_a_batch_ends(commits: list[Step], limits: Limits, end: int, begun: bool) -> None:
    assert cut(0, commits, limits, NOW) == (end, begun)


def test_a_batch_that_the_driver_holds_ends_by_itself() -> None:
    far_behind = steps(*[MOST_HELD // 2] * 5)
    assert cut(0, far_behind, Limits(), NOW) == (5, True)
    assert cut(0, far_behind, held(Limits()), NOW) == (2, True)
    assert cut(0, far_behind, held(Limits(min_count=2 * MOST_HELD)), NOW) == (4, True)
    assert held(Limits(max_count=7)) == Limits(max_count=7)


@pytest.mark.parametrize("said", [Limits(), Limits(max_count=7), Limits(max_count=2 * MOST_HELD), Limits(min_count=2 * MOST_HELD)])
def test_a_full_batch_of_updates_is_answered_with_what_comes_again(said: Limits) -> None:
    """The log counts an updated row once, and without a key it is two events."""
    counted = held(said).max_count
    assert counted is not None and bearable(held(said)) > 2 * counted + counted // 2
    assert bearable(held(said)) >= MOST_HELD


@pytest.mark.parametrize("events", [2, 3, 4])
def test_an_answer_has_no_more_events_than_the_driver_may_hold(events: int) -> None:
    asked = list[int]()

    def limit(most: int) -> Any:
        asked.append(most)
        return MagicMock(**{"_jdf.collectAsList.return_value.size.return_value": min(events, most)})

    found: Any = SimpleNamespace(limit=limit, sparkSession=None)
    if events <= 3:
        assert len(_few(found, 3, "batch 1 of c has", "")) == events
    else:
        with pytest.raises(InvalidStatement, match="batch 1 of c has more than 3 events"):
            _few(found, 3, "batch 1 of c has", "in parts")
    assert asked == [4]


def consumer() -> Consumer:
    return Consumer("c", 0, 0, NOW, NOW, NOW)


def test_a_batch_is_the_workers_until_it_is_finished() -> None:
    a = consumer().begin("a", 3, NOW)
    both = a.begin("b", 5, NOW + S)
    assert [(each.worker, each.number, each.lane, each.start, each.end) for each in both.in_work] == [
        ("a", 1, 0, 0, 3),
        ("b", 2, 1, 3, 5),
    ]
    assert both.finish("c", None, NOW) is both and both.finish("a", 2, NOW) is both
    b_first = both.finish("b", 2, NOW)
    assert (b_first.finished, b_first.position) == (0, 5)  # a has its batch still
    assert b_first.finish("a", None, NOW).finished == 5


def test_the_batch_of_the_dead_is_taken_over_when_its_time_is_up() -> None:
    both = consumer().begin("a", 3, NOW).begin("b", 5, NOW + S)
    assert both.take_over("c", NOW, NOW) is both
    taken = both.take_over("c", NOW + 2 * S, NOW + 9 * S)  # that of a, the older one
    assert taken.batch_of("a") is None
    assert taken.batch_of("c") == replace(both.in_work[0], worker="c", taken_at=NOW + 9 * S)


def test_a_batch_redelivers_what_came_to_the_retries_since_the_one_before_it_began() -> None:
    first = consumer().begin("a", 3, NOW, Version("r", 4, "x"))
    both = first.begin("b", 3, NOW + S, Version("r", 9, "y"))
    assert [(each.retries_after, each.retries_at, each.retried_after, each.begun_at) for each in both.in_work] == [
        (0, 4, NOW, NOW),
        (4, 9, NOW, NOW + S),
    ]
    assert (both.retries_table, both.retries_at, both.retries_commit) == ("r", 9, "y")
    assert both.begin("c", 3, NOW + 2 * S).retries_commit == "y"


def test_a_consumer_of_an_earlier_release_is_read() -> None:
    times = {"registered_at": NOW.isoformat(), "seen_at": NOW.isoformat(), "begun_at": NOW.isoformat()}
    batch: dict[str, object] = {"number": 1, "lane": 0, "worker": None, "start": 0, "end": 3}
    batch |= {each: NOW.isoformat() for each in ("retried_after", "begun_at", "taken_at")}
    assert restored(Consumer, {"name": "c", "position": 3, "batches": 1, **times, "in_work": [batch]}) == consumer().begin(
        None, 3, NOW
    )


@pytest.mark.parametrize("seed", range(20))
def test_in_a_lane_numbers_grow_whoever_finishes_first(seed: int) -> None:
    chance, now, moved = random.Random(seed), NOW, consumer()
    written, seen = dict[int, int](), list[tuple[int, int]]()
    for _ in range(200):
        now += S
        worker = chance.choice("abcd")
        batch = moved.batch_of(worker)
        if batch is None:
            taken = moved.take_over(worker, now - 20 * S, now)
            moved = taken if taken is not moved else moved.begin(worker, moved.position + 1, now)
        elif chance.random() < 0.5:
            assert written.get(batch.lane, 0) < batch.number  # Delta would skip it otherwise
            written[batch.lane] = batch.number
            seen.append((batch.start, batch.end))
            moved = moved.finish(worker, batch.number, now)
    assert len(seen) > 20 and max(written) <= 3
    everything = sorted([*seen, *((each.start, each.end) for each in moved.in_work)])
    assert everything[0][0] == 0 and all(before[1] == after[0] for before, after in pairwise(everything))
