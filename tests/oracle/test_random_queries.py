"""Random queries under random DML: after each refresh exact, or refused with a reason; never wrong, never an internal error."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType
from tests.oracle.comparison import assert_exact, bag, spelled
from tests.oracle.copies import Copies
from tests.oracle.random_queries import queries
from tests.oracle.scenario import with_settings
from tests.oracle.together import together
from tests.oracle.workload import SETTINGS, SOURCES, create_sources, names, statements
from tests.oracle.workload import rows as some_rows
from tests.spark.statements import close_cursors

from streamtable.engine import limits
from streamtable.errors import InvalidQuery, NotIncremental, RefreshError
from streamtable.language.stream_table.state import StateMode

BATCH = 25
DEEP, TRIED = 15, 10
"""Of queries of three operators over each other, which take Spark twice as long to plan; and how many of them the pipeline tries."""
_numbers = count()


@contextmanager
def database(spark: SparkSession) -> Iterator[None]:
    """Keep each batch, and each step of the search for a smaller failure, apart."""
    name = f"random_queries_{next(_numbers)}"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    try:
        yield
    finally:
        close_cursors()
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {name} CASCADE")


def created(spark: SparkSession, name: str, query: str, layout: str = "") -> bool:
    """Create the stream table, or see that it is refused for a reason that holds without us."""
    try:
        state = tuple(StateMode)[crc32(query.encode()) % 3].value
        spark.sql(f"CREATE STREAM TABLE {name} {layout} STATE {state} REFRESH MODE DIFFERENTIAL AS {query}")
    except NotIncremental:
        return False
    except InvalidQuery:
        with pytest.raises(PySparkException):
            spark.sql(query)
        return False
    return True


def layout_of(spark: SparkSession, rnd: random.Random, query: str) -> str:
    """Draw whether a stream table is partitioned or clustered, by a number among its columns."""
    how = rnd.choice(("", "PARTITIONED BY", "CLUSTER BY"))
    try:
        fields = spark.sql(query).schema.fields if how else []
    except PySparkException:
        return ""
    number = next((each.name for each in fields if isinstance(each.dataType, (IntegerType, LongType))), None)
    return f"{how} ({number})" if number and len(fields) > 1 else ""


def refreshed(spark: SparkSession, copies: Copies, name: str, query: str, circumstances: str) -> None:
    """Refresh and compare, unless the query itself fails on this data. A view with another text has the table made anew."""
    try:
        done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
    except RefreshError:
        with pytest.raises(PySparkException):
            bag(spark, query)
        return
    assert done is not None
    wanted = ("DIFFERENTIAL", "NO_DATA", "REINITIALIZE") if "VIEW y" in circumstances else ("DIFFERENTIAL", "NO_DATA")
    assert done["action"] in wanted, (done, query, circumstances)
    try:
        assert_exact(copies.session(), name, query)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{circumstances}\n{query}") from error


def check(spark: SparkSession, drawn: list[str], seed: int, rounds: int, typed: bool = False) -> int:
    """Keep the queries as stream tables over a few rounds of DML; return how many could be kept.

    Where the sources are `typed`, layouts, settings and caches of users differ, and columns that no query reads come and go.
    """
    rnd = random.Random(seed)
    with different_settings(spark, rnd) if typed else nullcontext("") as under:
        create_sources(spark, seed, count=10, typed=typed)
        copies = Copies(spark, SOURCES, {each: names(each, typed) for each in SOURCES})
        layouts = [layout_of(spark, rnd, query) if typed else "" for query in drawn]
        numbered = list(enumerate(drawn))
        could = together(lambda each: created(spark, f"q{each[0]}", each[1], layouts[each[0]]), numbered)
        kept = [each for each, ok in zip(numbered, could, strict=True) if ok]
        for round_ in range(rounds):
            made = list(statements(rnd, typed))
            if typed and rnd.random() < 0.5:
                spark.sql(f"CACHE TABLE {rnd.choice(SOURCES)}")
            for statement in made:
                if statement.startswith("ALTER"):
                    spark.catalog.clearCache()
                spark.sql(statement)
            after = f"seed {seed}, round {round_}, {under} after {made}"
            together(lambda each, after=after: refreshed(spark, copies, f"q{each[0]}", each[1], after), kept)  # type: ignore[misc]
            if typed:
                spark.catalog.clearCache()
    return len(kept)


@contextmanager
def different_settings(spark: SparkSession, rnd: random.Random) -> Iterator[str]:
    """Give a session some other settings for a while, and say which."""
    drawn = {key: rnd.choice(values) for key, values in SETTINGS.items() if rnd.random() < 0.4}
    with with_settings(spark, drawn):
        yield f"under {drawn},"


def batches(number: int) -> settings:
    """Draw the same batches each time; there is no search for a smaller failure, which would take hours."""
    return settings(
        max_examples=number, derandomize=True, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )


@batches(1)
@given(drawn=st.lists(queries(depth=3, typed=True), min_size=DEEP, max_size=DEEP, unique=True), seed=st.integers(0, 1000))
def test_random_queries_stay_exact(spark: SparkSession, drawn: list[str], seed: int) -> None:
    with database(spark):
        assert check(spark, drawn[:TRIED], seed, rounds=1, typed=True) > TRIED / 2, "most queries were refused"


@batches(1)
@given(drawn=st.lists(queries(depth=2), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_shallow_random_queries_stay_exact(spark: SparkSession, drawn: list[str], seed: int) -> None:
    with database(spark):
        assert check(spark, drawn, seed, rounds=1) > BATCH / 2, "most queries were refused"


def followed(spark: SparkSession, copies: Copies, name: str, query: str, rows: Counter[str], circumstances: str = "") -> bool:
    """Add to `rows` what a cursor says until now, and compare; False when the query itself fails on this data."""
    try:
        found = spark.sql(f"FETCH ALL {name} WITH (TIMEOUT = '0s')").collect()
    except PySparkException:
        with pytest.raises(PySparkException):
            bag(spark, query)
        return False
    for _, diff, *values in found:
        rows[spelled(values)] += diff
    expected = bag(copies.session(), query)
    surplus = {row: n - expected[row] for row, n in rows.items() if n != expected[row]}
    assert not surplus and not expected - rows, f"surplus {surplus}, missing {expected - rows}\n{circumstances}\n{query}"
    return True


def check_followed(spark: SparkSession, drawn: list[str], seed: int) -> None:
    """Subscribe to the queries, change l and r: what was there, and the changes that are told, are what is there."""
    rnd, rows = random.Random(seed), [Counter[str]() for _ in drawn]

    def begun(n: int) -> bool:
        try:
            spark.sql(f"DECLARE q{n} CURSOR FOR SUBSCRIBE ({drawn[n]})")
        except InvalidQuery:
            with pytest.raises(PySparkException):
                spark.sql(drawn[n])
            return False
        return followed(spark, copies, f"q{n}", drawn[n], rows[n])

    with database(spark):
        create_sources(spark, seed, count=10)
        copies = Copies(spark, SOURCES)
        going = [n for n, ok in enumerate(together(begun, range(len(drawn)))) if ok]
        changes = [
            (
                "MERGE INTO l USING (SELECT 1 AS key, 'x' AS name UNION ALL SELECT 7, 'y') z ON l.k = z.key WHEN MATCHED AND v < 3 THEN DELETE "
                "WHEN MATCHED THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN INSERT (k, s) VALUES (z.key, z.name)"
            ),
            f"INSERT INTO r VALUES {some_rows(rnd, 'r', 3)}",
        ]
        for statement in changes:
            spark.sql(statement)
        together(lambda n: followed(spark, copies, f"q{n}", drawn[n], rows[n], f"seed {seed}, after {changes}"), going)
        assert len(going) > len(drawn) / 2, "most queries were refused"


@batches(1)
@given(drawn=st.lists(queries(depth=3), min_size=DEEP, max_size=DEEP, unique=True), seed=st.integers(0, 1000))
def test_random_queries_are_followed(spark: SparkSession, drawn: list[str], seed: int) -> None:
    check_followed(spark, drawn[:TRIED], seed)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@batches(200 // BATCH)
@given(drawn=st.lists(queries(depth=2), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_shallow_random_queries_stay_exact_for_long(spark: SparkSession, drawn: list[str], seed: int) -> None:
    with database(spark):
        assert check(spark, drawn, seed, rounds=1) > BATCH / 2, "most queries were refused"


# A batch takes a minute and a half of a busy core.
@pytest.mark.fuzz
@pytest.mark.timeout(0)
@batches(200 // BATCH)
@given(drawn=st.lists(queries(depth=3), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_queries_are_followed_for_long(spark: SparkSession, drawn: list[str], seed: int) -> None:
    check_followed(spark, drawn, seed)


# A query of five operators over each other takes Spark 20 seconds of a core to plan and compile: too long for every run.
@pytest.mark.fuzz
@pytest.mark.timeout(0)
@batches(200 // BATCH)
@given(drawn=st.lists(queries(), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_deep_queries_stay_exact(spark: SparkSession, drawn: list[str], seed: int) -> None:
    with database(spark):
        assert check(spark, drawn, seed, rounds=1) > BATCH / 2, "most queries were refused"


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@batches(200 // BATCH)
@given(drawn=st.lists(queries(depth=3, typed=True), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_queries_over_more_types_stay_exact(spark: SparkSession, drawn: list[str], seed: int) -> None:
    with database(spark):
        assert check(spark, drawn, seed, rounds=2, typed=True) > BATCH / 2, "most queries were refused"


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@batches(200 // BATCH)
@given(drawn=st.lists(queries(depth=3), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_queries_stay_exact_when_every_change_is_large(spark: SparkSession, drawn: list[str], seed: int) -> None:
    """Large changes are not held by the driver, and planned by adaptive execution."""
    with pytest.MonkeyPatch.context() as patched, database(spark):
        patched.setattr(limits, "SMALL_CHANGE", -1)
        assert check(spark, drawn, seed, rounds=1) > BATCH / 2, "most queries were refused"


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_as_many_random_queries_as_are_asked_for_stay_exact(
    spark: SparkSession, tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """QUERIES=10000 SEED=1: all of them, whatever is found on the way, with what happened in a file that grows."""
    asked, start = int(os.environ.get("QUERIES", "1000")), int(os.environ.get("SEED", "1"))
    happened, found, told = Counter[str](), list[str](), Path(os.environ.get("TOLD", tmp_path / "told"))
    for number in range(start, start + math.ceil(asked / BATCH)):
        typed, large = bool(number % 2), number % 7 == 0
        drawn = drawn_by(number, typed)
        with pytest.MonkeyPatch.context() as patched, database(spark):
            if large:
                patched.setattr(limits, "SMALL_CHANGE", -1)
            try:
                happened["kept"] += check(spark, drawn, number, rounds=2, typed=typed)
            except Exception as error:  # all are counted, and shown at the end
                found.append(f"batch {number}: {type(error).__name__} {error}")
        happened["queries"] += len(drawn)
        told.write_text("\n\n".join([str(dict(happened)), *found]))
    record_testsuite_property("random queries", dict(happened))
    assert not found, "\n\n".join(found)


def drawn_by(seed: int, typed: bool) -> list[str]:
    """Draw a batch of queries, the same for the same seed."""
    batch = list[str]()

    @hypothesis_seed(seed)
    @settings(
        max_examples=4 * BATCH, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(query=queries(depth=4, typed=typed))
    def draw(query: str) -> None:
        batch.append(query)

    draw()
    return random.Random(seed).sample(sorted(set(batch)), BATCH)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(query=queries(), seed=st.integers(0, 1000))
def test_random_queries_stay_exact_for_long(spark: SparkSession, query: str, seed: int) -> None:
    """One query at a time, so that a failure shrinks to a small one."""
    with database(spark):
        check(spark, [query], seed, rounds=3)
