"""Which batches a table has, by what stands in its log: without Spark, and with consumers that are older than the table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.delta.tables import Version
from streamtable.errors import HistoryLost
from streamtable.queue import appends
from streamtable.queue.consumers import Batch, Consumer

NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)
S = timedelta(seconds=1)
QUEUE: Any = SimpleNamespace(id="q")
FAR = 10**36


def consumer(position: int = 0, batches: int = 0) -> Consumer:
    return Consumer("c.d", position, batches, NOW, NOW, NOW)


class Table:
    """A table, as `append_to` writes it."""

    def __init__(self) -> None:
        self.log, self.events = dict[str, int](), Counter[int]()

    def append(self, read: Consumer, batch: Batch, now: Consumer | None = None) -> bool:
        """Append a batch as who read the consumer, which is another one `now`; tell whether it was written."""
        if appends.has_batch(QUEUE, read, batch, "t", self.log, lambda: now or read):
            return False
        application = f"{read.application(QUEUE)}.{batch.lane}"
        assert self.log.get(application, 0) < batch.number, "Delta would skip it"
        self.log |= {application: batch.number, **appends.marks(batch, application)}
        assert all(abs(number) < 1 << 63 for number in self.log.values())
        self.events.update(range(batch.start + 1, batch.end + 1) if batch.end < FAR else [batch.end])
        return True

    def without_marks(self) -> Mapping[str, int]:
        return {name: number for name, number in self.log.items() if name.rpartition(".")[2].isdigit()}


def appended(*ends: int) -> tuple[Table, Consumer, list[Consumer]]:
    """Return a table with batches up to some ends, the consumer, and what it was before each of them."""
    table, moved, before = Table(), consumer(), list[Consumer]()
    for end in ends:
        before.append(moved)
        moved = moved.begin(None, end, NOW + len(before) * S)
        assert table.append(moved, moved.in_work[0])
        moved = moved.finish(None, None, NOW)
    return table, moved, before


def test_a_batch_that_comes_again_is_written_once() -> None:
    table, _, before = appended(10, 20)
    begun = before[1].begin(None, 20, NOW + 2 * S)
    for again in (begun, before[1].begin("another", 20, NOW + 99 * S)):  # nothing was put off, so it is the same whenever it began
        assert not table.append(again, again.in_work[0])
    assert table.events == Counter(range(1, 21))


@pytest.mark.parametrize(("back", "end"), [(1, 30), (1, 15), (2, 30), (2, 10), (2, 20), (3, 20)])
def test_events_of_an_older_consumer_are_not_taken_for_those_of_its_numbers(back: int, end: int) -> None:
    table, _, before = appended(5, 10, 20)
    older = before[-back].begin(None, end, NOW)
    with pytest.raises(HistoryLost, match="t has batches of c.d of .* an older copy of its folder took its place") as error:
        table.append(older, older.in_work[0])
    assert "UNREGISTER CONSUMER c.d ON" in str(error.value) and "t has events up to 20" in str(error.value)
    assert table.events == Counter(range(1, 21))


def test_events_that_were_put_off_are_part_of_a_batch() -> None:
    table, begun = Table(), consumer().begin(None, 10, NOW, Version("r", 4, "x"))
    assert table.append(begun, begun.in_work[0]) and not table.append(begun, begun.in_work[0])
    for retries in (None, Version("r", 5, "y"), Version("r", 4, "x")):
        older = consumer().begin(None, 10, NOW + S, retries)
        with pytest.raises(HistoryLost, match="an older copy"):
            table.append(older, older.in_work[0])


def test_an_older_consumer_that_came_to_the_number_by_other_batches_appends_nothing_twice() -> None:
    table, _, before = appended(10, 20, 30)
    beside = replace(before[0], position=15, batches=1).begin(None, 20, NOW)
    with pytest.raises(HistoryLost, match="an older copy"):
        table.append(beside, beside.in_work[0])
    older = replace(before[0], position=16, batches=3).begin(None, 40, NOW)  # what was between went elsewhere
    with pytest.raises(HistoryLost, match="an older copy"):
        table.append(older, older.in_work[0])


def test_a_worker_that_comes_back_late_appends_nothing_twice() -> None:
    late = consumer().begin("late", 10, NOW)
    taken = late.take_over("b", NOW + S, NOW + S)
    table = Table()
    assert table.append(taken, taken.in_work[0])
    after = taken.finish("b", 1, NOW).begin("b", 20, NOW)
    assert table.append(after, after.in_work[0])
    assert not table.append(late, late.in_work[0], now=after)
    for registered in (None, replace(after, registered_at=NOW + S)):
        assert appends.has_batch(QUEUE, late, late.in_work[0], "t", table.log, lambda registered=registered: registered)  # type: ignore[misc]
    with pytest.raises(HistoryLost, match="an older copy"):
        table.append(late, late.in_work[0], now=replace(late, batches=2))  # it is open, and there is a later one of its lane
    with pytest.raises(HistoryLost, match="an older copy"):
        table.append(late, late.in_work[0], now=late)


def test_a_batch_of_another_lane_is_the_same_batch_if_its_events_are() -> None:
    table, begun = Table(), consumer().begin("a", 10, NOW).begin("b", 20, NOW)
    a, b = begun.in_work
    assert table.append(begun, b) and table.append(begun, a)
    b_first = consumer(10, 1).begin("b", 20, NOW)
    assert b_first.in_work[0].lane != b.lane and not table.append(b_first, b_first.in_work[0])
    more = consumer(10, 1).begin("b", 21, NOW)
    with pytest.raises(HistoryLost, match="an older copy"):
        table.append(more, more.in_work[0])


def test_times_of_several_tables_fit_into_the_numbers_of_a_log() -> None:
    table = Table()
    begun = consumer(FAR).begin(None, FAR + 5, NOW)
    assert table.append(begun, begun.in_work[0])
    then = begun.finish(None, None, NOW).begin(None, FAR + 6, NOW)
    assert table.append(then, then.in_work[0])
    older = consumer(FAR + 4, 2).begin(None, FAR + 7, NOW)
    with pytest.raises(HistoryLost, match=f"t has events up to {FAR + 6}"):
        table.append(older, older.in_work[0])


def test_batches_of_an_earlier_release_or_of_another_writer_go_by_their_number() -> None:
    table, moved, before = appended(10, 20)
    table.log = dict(table.without_marks())
    again = before[1].begin(None, 20, NOW)
    assert not table.append(again, again.in_work[0])
    then = moved.begin(None, 30, NOW)
    assert table.append(then, then.in_work[0]), "the next one has them"
    other = moved.finish(None, None, NOW)
    other = replace(other, position=30, batches=3).begin(None, 40, NOW)
    table.log[f"{other.application(QUEUE)}.0"] = 4  # a writer with `options`
    assert not table.append(other, other.in_work[0])
    table.log["streamtable.queue.q.c.d.5"] = 99  # of somebody else
    after = other.finish(None, None, NOW).begin(None, 50, NOW)
    assert table.append(after, after.in_work[0])


@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_backup_brings_back_no_event_is_lost_or_comes_twice(seed: int) -> None:
    chance, table, moved, now = random.Random(seed), Table(), consumer(), NOW
    states, source, written, refused = [moved], 0, 0, 0
    backups = chance.random() < 0.8
    for _ in range(120):
        now += S
        source += chance.randrange(4)
        worker = chance.choice("abc")
        batch = moved.batch_of(worker)
        if backups and chance.random() < 0.04:
            states = states[: chance.randint(1, len(states))]
            moved = states[-1]  # of a backup
            continue
        if batch is None:
            if source > moved.position:
                moved = moved.begin(worker, chance.randint(moved.position + 1, source), now)
        else:
            try:
                written += table.append(moved, batch)
                assert all(table.events[each] == 1 for each in range(batch.start + 1, batch.end + 1))
            except HistoryLost:
                refused += 1
            else:
                if chance.random() < 0.7:
                    moved = moved.finish(worker, batch.number, now)
        states.append(moved)
    assert written and max(table.events.values()) == 1
    assert backups or not refused, "an older consumer alone is refused"
