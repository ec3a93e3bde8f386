"""Stream tables, queues, replicas and SUBSCRIBE to queries under random statements and deaths, against a model in plain Python.

After each round every follower catches up: what it was told since the beginning is then what its query, or its publication, says of
the model's tables. It may be told in several batches, again after a death, and by another session.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.oracle.comparison import rows_of
from tests.oracle.model import Row, State, Table
from tests.oracle.scenario import dropped
from tests.oracle.workload import SETTINGS

from streamtable import open_queue
from streamtable.algebra.columns import WEIGHT
from streamtable.catalog import objects
from streamtable.catalog.entries import load
from streamtable.delta.commit import RowChange, Transaction, commit
from streamtable.errors import InvalidStatement, SourceChanged, StreamTableError
from streamtable.language.names import Name
from streamtable.language.queue.ast import Limits
from streamtable.queue import consumers, retries
from streamtable.queue.reader import OpenBatch
from streamtable.refresh import execute
from streamtable.refresh.run import refresh
from streamtable.replication import run, writer
from streamtable.replication.source import SourceTable
from streamtable.subscribing.output import Output

KINDS = ("insert", "insert", "update", "update", "delete", "merge", "merge", "overwrite", "truncate", "restore", "optimize")
FEED, VECTORS = "delta.enableChangeDataFeed = true", "delta.enableDeletionVectors = true"
LAYOUTS = {"rows": "PARTITIONED BY (id)", "grouped": "PARTITIONED BY (g)", "joined": "CLUSTER BY (id)", "top": "CLUSTER BY (v)"}
Bag = Counter[Any]


def _joined(k: State, b: State) -> Bag:
    return Counter((x["id"], y["v"]) for x in k.rows for y in b.rows if x["g"] is not None and x["g"] == y["g"])


def _grouped(b: State) -> Bag:
    groups = {row["g"] for row in b.rows}
    of = {g: [row["v"] for row in b.rows if row["g"] == g] for g in groups}
    return Counter((g, len(of[g]), sum(of[g]), max(of[g])) for g in groups)


def _top(b: State) -> Bag:
    ordered = sorted(b.rows, key=lambda row: (-row["v"], row["g"] is not None, row["g"] or 0))
    return Counter(dict.fromkeys(((row["g"], row["v"]) for row in ordered[1:5]), 1))


def _outer(k: State, b: State) -> Bag:
    largest = {x["g"]: max((y["v"] for y in b.rows if y["g"] == x["g"]), default=None) for x in k.rows if x["g"] is not None}
    return Counter((row["id"], largest.get(row["g"])) for row in k.rows)


QUERIES: dict[str, tuple[str, tuple[str, ...], Callable[..., Bag]]] = {
    "rows": ("SELECT v, id FROM b WHERE v > 3", ("b",), lambda b: b.bag(("v", "id"), lambda row: row["v"] > 3)),
    "joined": ("SELECT k.id, b.v FROM k JOIN b ON k.g = b.g", ("k", "b"), _joined),
    "grouped": ("SELECT g, count(*) AS n, sum(v) AS s, max(v) AS m FROM b GROUP BY g", ("b",), _grouped),
    "distinct": ("SELECT DISTINCT g FROM k", ("k",), lambda k: Counter(set(k.bag(("g",))))),
    "top": ("SELECT DISTINCT g, v FROM (SELECT g, v FROM b ORDER BY v DESC, g LIMIT 4 OFFSET 1)", ("b",), _top),
    "outer": ("SELECT k.id, max(b.v) AS m FROM k LEFT JOIN b ON k.g = b.g GROUP BY k.id", ("k", "b"), _outer),
}


class Killed(BaseException):
    """The process died here."""


@dataclass
class World:
    """The tables, who follows them, and how often what happened."""

    spark: SparkSession
    rnd: random.Random
    tables: dict[str, Table] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    def session(self) -> SparkSession:
        """Return the session, or another one with settings of its own."""
        if self.rnd.random() < 0.8:
            return self.spark
        other = self.spark.newSession()
        other.sql("USE flw")
        for key, values in SETTINGS.items():
            if self.rnd.random() < 0.4:
                other.conf.set(key, self.rnd.choice(values))
        return other

    def contents(self, query: str, time: int | None = None) -> Bag:
        """Return what a query gives now, or at a time, by the model."""
        _, names, answer = QUERIES[query]
        states = [self.tables[name].states for name in names]
        versions = [len(each) - 1 for each in states]
        if time is not None:
            versions = [time] if len(names) == 1 else list(divmod(time, 10**9))
        return answer(*(each[version] for each, version in zip(states, versions, strict=True)))

    @contextmanager
    def dying(self, often: float = 0.4) -> Iterator[None]:
        """Kill what is done here, now and then, before or after one of its commits."""
        if self.rnd.random() > often:
            yield
            return
        left, after = [self.rnd.randint(1, 4)], self.rnd.random() < 0.5

        def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                left[0] -= 1
                if left[0] == 0 and not after:
                    raise Killed
                done = real(*arguments, **named)
                if left[0] == 0:
                    raise Killed
                return done

            return call

        places: list[tuple[Any, str]] = [(objects, "commit"), (writer, "commit"), (consumers, "commit"), (retries, "commit")]
        places += [(writer.Writer, "_merge"), (execute, "commit")]
        patches = [patch.object(place, name, deadly(getattr(place, name))) for place, name in places]
        try:
            for each in patches:
                each.start()
            yield
        except Killed:
            self.happened["deaths"] += 1
        finally:
            for each in patches:
                each.stop()


def negative(bag: Bag) -> list[Any]:
    return [row for row, count in bag.items() if count < 0]


@dataclass
class Maintained:
    """A stream table of a query, which is replaced when a column that it shows gets another type."""

    world: World
    query: str
    replaced: bool = False

    def __post_init__(self) -> None:
        self._create("CREATE")

    def catch_up(self) -> None:
        reached = changed = False
        while not reached and not changed:
            with self.world.dying():
                session = self.world.session()
                try:
                    done = refresh(session, load(session, Name((f"st_{self.query}",))))
                    self.world.happened[done.action.value] += 1
                    reached = True
                except SourceChanged:
                    changed = True
        if changed:
            assert not self.replaced and any(self.world.tables[each].widened for each in QUERIES[self.query][1]), self.query
            self.replaced = True
            self._create("CREATE OR REPLACE")
        columns = self.world.spark.table(f"st_{self.query}").columns
        assert Counter(rows_of(self.world.spark, f"st_{self.query}", *columns)) == self.world.contents(self.query), self.query

    def _create(self, how: str) -> None:
        self.world.spark.sql(f"{how} STREAM TABLE st_{self.query} {LAYOUTS.get(self.query, '')} AS {QUERIES[self.query][0]}")


@dataclass
class Subscriber:
    """Reads SUBSCRIBE to a query, a statement at a time, from the last progress on."""

    world: World
    query: str
    progress: int | None = None
    rows: Bag = field(default_factory=Counter)

    def catch_up(self) -> None:
        start = "" if self.progress is None else f"AS OF {self.progress} - 1 "
        options = "PROGRESS" if self.progress is None else "PROGRESS, SNAPSHOT = FALSE"
        answer = self.world.session().sql(f"SUBSCRIBE ({QUERIES[self.query][0]}) {start}WITH ({options})").collect()
        last, told = -1, set[Any]()
        for time, progressed, diff, *row in answer:
            assert time >= last, f"{self.query}: time {time} comes after {last}"
            if time > last >= 0:
                self._check(last)
            last = int(time)
            if progressed:
                self.progress = last
            else:
                assert diff != 0 and (time, *row) not in told, f"{self.query}: {row} twice at {time}"
                told.add((time, *row))
                self.rows[tuple(row)] += diff
        self.world.happened["subscribed"] += len(told)
        assert +self.rows == self.world.contents(self.query), self.query

    def _check(self, time: int) -> None:
        assert not negative(self.rows), f"{self.query} at {time}: more rows went than were there"
        if len(QUERIES[self.query][1]) == 1:
            assert +self.rows == self.world.contents(self.query, time), f"{self.query} at {time}"


@dataclass
class Consumer:
    """Reads a queue: what it got in batches that it finished, and what is to come again, or may, because it died when it said so."""

    world: World
    query: str
    name: str
    rows: Bag = field(default_factory=Counter)
    seen: list[Any] | None = None
    said: dict[Any, int] = field(default_factory=dict)
    unsure: dict[Any, int] = field(default_factory=dict)
    put_off: dict[Any, int] = field(default_factory=dict)
    perhaps: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = self.world.contents(self.query)
        open_queue(self.world.spark, f"q_{self.query}").register(self.name)

    def catch_up(self) -> None:
        while self._batch():
            pass
        assert not self.put_off, f"{self.query}: {self.put_off} did not come again"
        assert not negative(self.rows) and +self.rows == self.world.contents(self.query), self.query

    def _batch(self) -> bool:
        """Work a batch off, and tell whether there may be more. A death leaves it as it was."""
        queue, limits = open_queue(self.world.session(), f"q_{self.query}"), Limits()
        if self.world.rnd.random() < 0.5:
            limits = Limits(max_count=self.world.rnd.randint(1, 6))
        more = True
        with self.world.dying(), queue.batch(self.name, **vars(limits)) as batch:
            more = batch is not None
            if batch is not None:
                self._look(batch)
        if (
            self.seen is not None and not consumers.load(self.world.spark, queue._queue, self.name).in_work
        ):  # also where it died then
            self._finished(self.seen)
        return more

    def _look(self, batch: OpenBatch) -> None:
        events = [tuple(row) for row in batch.events.collect()]
        times = [event[0] for event in events]
        assert times == sorted(times), f"{self.query}: the order of times"
        events.sort(key=repr)
        assert self.seen in (None, events), f"{self.query}: a batch is another when it is read again"
        self.seen = events
        if events and self.world.rnd.random() < 0.3:
            chosen = self.world.rnd.choice(times)
            rows = {event[:-1]: 1 for event in events if event[0] == chosen and not event[-1]}
            self.unsure |= rows
            batch.retry(batch.events.where((F.col("timestamp") == chosen) & (F.col("retries") == 0)), timedelta())
            self.said |= rows
            self.world.happened["put off"] += len(rows)

    def _finished(self, events: list[Any]) -> None:
        for *event, retried in events:
            _, diff, *row = event
            if retried:
                known = self.put_off if tuple(event) in self.put_off else self.perhaps
                assert known.pop(tuple(event), None), f"{self.query}: {event} came again, and was not put off"
            else:
                self.rows[tuple(row)] += diff
        self.put_off |= self.said
        self.perhaps |= {row: 1 for row in self.unsure if row not in self.said}
        self.said, self.unsure, self.seen = {}, {}, None
        self.world.happened["batches"] += 1


@dataclass
class Replica:
    """A table under a subscription; `kinds` are those that it publishes, if not all."""

    world: World
    source: str
    name: str
    columns: tuple[str, ...] = ()
    where: str | None = None
    passes: Callable[[Row], bool] = lambda row: True
    kinds: tuple[str, ...] = ()
    position: int = 0
    rows: Bag = field(default_factory=Counter)

    def __post_init__(self) -> None:
        spark, table = self.world.spark, self.world.tables[self.source]
        listed = f" ({', '.join(self.columns)})" if self.columns else ""
        where = f" WHERE ({self.where})" if self.where else ""
        publish = f" WITH (publish = '{', '.join(self.kinds)}')" if self.kinds else ""
        spark.sql(f"CREATE DATABASE IF NOT EXISTS flw_{self.name}")
        place, feature = f"flw_{self.name}.{self.source}", "delta.columnMapping.mode = 'name', delta.enableTypeWidening = true"
        spark.sql(
            f"CREATE TABLE {place} USING delta TBLPROPERTIES ({VECTORS}, {feature}) AS SELECT * FROM {self.source} WHERE false"
        )
        spark.sql(f"CREATE PUBLICATION p_{self.name} FOR TABLE {self.source}{listed}{where}{publish}")
        spark.sql(
            f"CREATE SUBSCRIPTION flw_{self.name}.s CONNECTION 'database=flw' PUBLICATION p_{self.name} WITH (slot_name = {self.name})"
        )
        if self.kinds:  # the copy is what was there when it was made
            run.apply(spark, Name((f"flw_{self.name}", "s")))
            self.position, self.rows = table.version, table.now.bag(self.columns, self.passes)

    def catch_up(self) -> None:
        table, reached = self.world.tables[self.source], False
        while not reached:
            stopped = None
            with self.world.dying():
                try:
                    run.apply(self.world.session(), Name((f"flw_{self.name}", "s")))
                    reached = True
                except InvalidStatement as error:
                    stopped = str(error)
            if stopped:
                self._skip(stopped)
        self.expect(table.version)
        sent = self.columns or table.now.columns
        assert Counter(rows_of(self.world.spark, f"flw_{self.name}.{self.source}", *sent)) == self.rows, (
            f"{self.name} at {table.version}"
        )

    def _skip(self, error: str) -> None:
        """Leave out a commit whose changes are of several kinds."""
        assert self.kinds, error
        assert "cannot be told" in error
        (stopped,) = self.world.spark.sql(f"SELECT stopped_at FROM subscription_tables('flw_{self.name}.s')").collect()[0]
        kind = self.world.tables[self.source].states[stopped].kind
        assert kind == "mixed", f"{self.name}: {kind} at {stopped} can be told"
        self.expect(stopped - 1)
        self.position = stopped
        self.world.spark.sql(f"ALTER SUBSCRIPTION flw_{self.name}.s SKIP (lsn = {stopped})")
        self.world.happened["skipped"] += 1

    def expect(self, upto: int) -> None:
        """Do to the rows what the commits up to a version send."""
        table = self.world.tables[self.source]
        if not self.kinds:  # all is sent: it is the table
            self.rows = table.states[upto].bag(self.columns, self.passes)
        for version in range(self.position + 1, upto + 1) if self.kinds else ():
            before, after = (table.states[each].bag(self.columns, self.passes) for each in (version - 1, version))
            kind = table.states[version].kind
            if kind in self.kinds:
                self.rows = self.rows - (before - after) + (after - before)  # a row that is missing is passed over
        self.position = upto

    def altered(self, statement: str, reshaped: Callable[[Row], Row], before: State) -> None:
        """Follow a change of the columns; what is sent has another shape from there on."""
        self.world.spark.sql(statement.format(name=f"flw_{self.name}.{self.source}"))
        table = self.world.tables[self.source]
        if self.kinds:
            rows = [reshaped(dict(zip(before.columns, row, strict=True))) for row in self.rows.elements()]
            self.rows, self.position = Counter(tuple(row.values()) for row in rows), table.version


REPLICAS: tuple[tuple[Any, ...], ...] = (
    ("k", "whole"),
    ("k", "some", ("v", "id"), "v > 2 OR g = 1", lambda row: row["v"] > 2 or row["g"] == 1),
    ("b", "every"),
    ("b", "picked", (), "v < 8", lambda row: row["v"] < 8, ("insert", "delete")),
)


def live(world: World, rounds: int, queries: Sequence[str] = tuple(QUERIES), replicas: Sequence[Any] = REPLICAS) -> Counter[str]:
    """Let followers live through rounds of random statements; return how often what happened."""
    spark, rnd = world.spark, world.rnd
    for name, keyed, identity in (("k", True, "id"), ("b", False, "FULL")):
        properties = [f"streamtable.replicaIdentity = '{identity}'", *(each for each in (FEED, VECTORS) if rnd.random() < 0.5)]
        world.tables[name] = Table(spark, name, rnd, keyed, ", ".join(properties))
        world.tables[name].act(("insert",))
    followers: list[Any] = [Replica(world, *each) for each in replicas]
    for query in queries:
        spark.sql(f"CREATE QUEUE q_{query} FOR SUBSCRIBE ({QUERIES[query][0]})")
        followers += [Maintained(world, query), Subscriber(world, query), Consumer(world, query, "first")]
    for n in range(rounds):
        for _ in range(rnd.randint(1, 5)):
            world.tables[rnd.choice("kb")].act(KINDS)
            world.happened["statements"] += 1
        if rnd.random() < 0.5:
            spark.sql(f"CACHE TABLE {rnd.choice('kb')}")
        for each in followers:
            if rnd.random() < 0.8:
                each.catch_up()
        if rnd.random() < 0.4 or (n == rounds - 1 and not world.happened["ddl"]):
            _alter(world, followers)
        if n == rounds // 2:
            followers += [Consumer(world, query, "second") for query in queries]
    for each in followers:
        each.catch_up()
    return world.happened


def _alter(world: World, followers: list[Any]) -> None:
    """Change the columns of a table; before that all catch up, because Delta cannot read what was before a column went."""
    for each in followers:
        each.catch_up()
    for cached in "kb":
        world.spark.sql(f"UNCACHE TABLE IF EXISTS {cached}")
    name = world.rnd.choice("kb")
    before, done = world.tables[name].now, world.tables[name].ddl()
    if done is None:
        return
    statement, reshaped = done
    for each in followers:
        if isinstance(each, Replica) and each.source == name:
            each.altered(statement, reshaped, before)
    world.happened["ddl"] += 1


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a test the publisher's schema, and take those of the subscribers away at the end."""
    spark.sql("CREATE DATABASE flw")
    spark.sql("USE flw")
    yield spark
    dropped(spark, "flw", "flw_whole", "flw_some", "flw_every", "flw_picked")


@pytest.mark.timeout(900)
def test_followers_are_told_what_the_model_says(database: SparkSession) -> None:
    happened = live(World(database, random.Random(7)), rounds=2, queries=("top",), replicas=REPLICAS[1:])
    assert {"statements", "deaths", "ddl"} <= happened.keys(), happened


def _without_position(session: SparkSession, path: str, version: int, by: Transaction, rows: RowChange) -> Any:
    return commit(session, path, version, replace(by, application="nobody"), rows)


def _without_retractions(output: Output, changes: DataFrame, several: bool = True) -> DataFrame:
    return frame(output, changes.where(F.col(WEIGHT.id) > 0), several)


frame = Output.frame
BROKEN: dict[str, Any] = {
    "conditions are not heeded": patch.object(SourceTable, "passes", lambda source, kind=None: F.lit(True)),
    "rows are committed without their position": patch.object(writer, "commit", _without_position),
    "what went is forgotten": patch.object(Output, "frame", _without_retractions),
}


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("what", BROKEN)
def test_followers_that_are_told_something_else_are_found(database: SparkSession, what: str) -> None:
    with BROKEN[what], pytest.raises((AssertionError, StreamTableError)):
        live(World(database, random.Random(7)), rounds=8, queries=("rows",), replicas=REPLICAS[1::2])


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 130))
def test_followers_are_told_what_the_model_says_for_long(
    database: SparkSession, seed: int, record_testsuite_property: Callable[[str, object], None]
) -> None:
    record_testsuite_property(f"seed {seed}", live(World(database, random.Random(seed)), rounds=12))
