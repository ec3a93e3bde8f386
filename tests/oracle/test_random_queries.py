"""Random queries under random DML: after each refresh exact, or refused with a reason; never wrong, never an internal error."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact, bag, spelled
from tests.oracle.copies import Copies
from tests.oracle.random_queries import queries
from tests.oracle.together import together
from tests.oracle.workload import SOURCES, create_sources, statements
from tests.oracle.workload import rows as some_rows
from tests.spark.statements import close_cursors

from streamtable.engine import limits
from streamtable.errors import InvalidQuery, NotIncremental, RefreshError

BATCH = 25
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


def created(spark: SparkSession, name: str, query: str) -> bool:
    """Create the stream table, or see that it is refused for a reason that holds without us."""
    try:
        spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
    except NotIncremental:
        return False
    except InvalidQuery:
        with pytest.raises(PySparkException):
            spark.sql(query)
        return False
    return True


def refreshed(spark: SparkSession, copies: Copies, name: str, query: str, circumstances: str) -> None:
    """Refresh and compare, unless the query itself fails on this data."""
    try:
        done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
    except RefreshError:
        with pytest.raises(PySparkException):
            bag(spark, query)
        return
    assert done is not None
    assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), (done, query, circumstances)
    try:
        assert_exact(copies.session(), name, query)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{circumstances}\n{query}") from error


def check(spark: SparkSession, drawn: list[str], seed: int, rounds: int) -> int:
    """Keep the queries as stream tables over a few rounds of DML; return how many could be kept."""
    rnd = random.Random(seed)
    create_sources(spark, seed, count=10)
    copies = Copies(spark, SOURCES)
    numbered = list(enumerate(drawn))
    could = together(lambda each: created(spark, f"q{each[0]}", each[1]), numbered)
    kept = [each for each, ok in zip(numbered, could, strict=True) if ok]
    for round_ in range(rounds):
        made = list(statements(rnd))
        for statement in made:
            spark.sql(statement)
        after = f"seed {seed}, round {round_}, after {made}"
        together(lambda each, after=after: refreshed(spark, copies, f"q{each[0]}", each[1], after), kept)  # type: ignore[misc]
    return len(kept)


def batches(number: int) -> settings:
    """Draw the same batches each time; there is no search for a smaller failure, which would take hours."""
    return settings(
        max_examples=number, derandomize=True, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )


@batches(1)
@given(drawn=st.lists(queries(depth=3), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_queries_stay_exact(spark: SparkSession, drawn: list[str], seed: int) -> None:
    with database(spark):
        assert check(spark, drawn, seed, rounds=1) > BATCH / 2, "most queries were refused"


@batches(150 // BATCH)
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
        going = [n for n, ok in enumerate(together(begun, range(BATCH))) if ok]
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
        assert len(going) > BATCH / 2, "most queries were refused"


@batches(1)
@given(drawn=st.lists(queries(depth=3), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_queries_are_followed(spark: SparkSession, drawn: list[str], seed: int) -> None:
    check_followed(spark, drawn, seed)


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
@given(drawn=st.lists(queries(depth=3), min_size=BATCH, max_size=BATCH, unique=True), seed=st.integers(0, 1000))
def test_random_queries_stay_exact_when_every_change_is_large(spark: SparkSession, drawn: list[str], seed: int) -> None:
    """Large changes are not held by the driver, and planned by adaptive execution."""
    with pytest.MonkeyPatch.context() as patched, database(spark):
        patched.setattr(limits, "SMALL_CHANGE", -1)
        assert check(spark, drawn, seed, rounds=1) > BATCH / 2, "most queries were refused"


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(query=queries(), seed=st.integers(0, 1000))
def test_random_queries_stay_exact_for_long(spark: SparkSession, query: str, seed: int) -> None:
    """One query at a time, so that a failure shrinks to a small one."""
    with database(spark):
        check(spark, [query], seed, rounds=3)
