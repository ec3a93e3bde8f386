"""A statement of many characters is read, or refused, in a time in proportion to them: meanwhile no other statement runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtable.errors import InvalidStatement, StreamTableError
from streamtable.language.comments import blanked, pieces
from streamtable.language.parse import parse
from streamtable.language.scripts import split
from streamtable.language.stream_table.in_words import LONGEST, scheduled, spelt
from streamtable.language.stream_table.schedule import Every, duration
from streamtable.sql.builder import _Spark, column, select, subquery, table, text

LENGTH, SECONDS = 6_000, 2.0
CLASSES = ["9", " ", "\n", "a", "é", "1s", "1 d ", "1.", "(", "'", "CLUSTER BY (", "IMMUTABLE WHERE (", "a.", "a,"]
PLACES = [
    "CREATE STREAM TABLE t SCHEDULE '{} !' AS SELECT 1",
    "CREATE STREAM TABLE t SCHEDULE {} x AS SELECT 1",
    "CREATE STREAM TABLE t SCHEDULE EVERY {} x",
    "CREATE STREAM TABLE t SCHEDULE = {} x",
    "CREATE STREAM TABLE t SCHEDULE ON UPDATE AT MOST EVERY {} x",
    "CREATE STREAM TABLE `{}!` SCHEDULE EVERY 5 MONTHS AS SELECT 1",
    "CREATE STREAM TABLE t EVERY {} x",
    "CREATE STREAM TABLE t REFRESH EVERY {} x",
    "CREATE STREAM TABLE t WITH (REFRESH {} x",
    "CREATE DYNAMIC TABLE t TARGET_LAG = '{} !' AS SELECT 1",
    "CREATE DYNAMIC TABLE t COMMENT {} x AS SELECT 1",
    "CREATE DYNAMIC TABLE t IMMUTABLE WHERE ({} x AS SELECT 1",
    "ALTER DYNAMIC TABLE t SET TARGET_LAG = '{} !'",
    "ALTER DYNAMIC TABLE {} x",
    "CREATE DYNAMIC TABLE t (a {} COMMENT 'x') AS SELECT 1",
    "CREATE MATERIALIZED LAKE VIEW t (CONSTRAINT c CHECK {} ON MISMATCH DROP x) AS SELECT 1",
]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt a regular expression that takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("place", PLACES)
def test_a_long_text_of_any_characters_is_read_at_once(place: str) -> None:
    with suppress(StreamTableError):
        parse(place)  # the grammar is read once
    for characters in CLASSES:
        with at_most(SECONDS), suppress(StreamTableError):
            parse(place.replace("{}", characters * (LENGTH // len(characters))))


def test_an_error_behind_a_long_list_is_told_at_once() -> None:
    with at_most(SECONDS), suppress(StreamTableError):
        parse(f"CREATE STREAM TABLE t ({'a, ' * 5_000}) AS SELECT 1")


@pytest.mark.parametrize("escaped", [r"\'", r"\"", r"\'\"", r"(\'", "/*\\'*/", r"' \' \"", "`' \\'", "()"])
@pytest.mark.parametrize("opening", ["CREATE QUEUE q ON /**/ ", "SUBSCRIBE ("])
def test_many_quotes_that_nothing_closes_and_many_brackets_are_read_at_once(opening: str, escaped: str) -> None:
    text = opening + escaped * (60_000 // len(escaped))
    with at_most(SECONDS):
        assert len("".join(text[start:end] for _, start, end in pieces(text, strict=False))) == len(text)
        assert len(blanked(text)) == len(text)
        assert len(split(text)) == 1


@given(st.text(r"'\"`;-/*ar \\" + "\n", max_size=12))
def test_pieces_are_those_that_each_place_gives_alone(text: str) -> None:
    """What is known of quotes that nothing closes is what trying each of them finds."""
    alone, position = list[tuple[str, int, int]](), 0
    while position < len(text):
        alone.append(next(pieces(text, position, strict=False)))
        position = alone[-1][2]
    assert list(pieces(text, strict=False)) == alone


def test_a_query_of_many_nested_selects_is_written_as_one_of_few() -> None:
    """The generator of sqlglot goes down by ten calls a level: forty nested SELECTs met Python's limit in their delta."""
    query = select([column("k")], table("t"))
    for n in range(1, 1000):
        query = select([column("k")], subquery(query, f"input{n}"))
        if n == 10:
            assert text(query) == text(query) == query.sql(dialect=_Spark, comments=False)
    with at_most(SECONDS):
        assert text(query).count("SELECT") == 1000


def test_a_time_of_many_characters_is_none_and_is_not_repeated_whole() -> None:
    assert duration(f"1h{' ' * (LONGEST - 2)}") == Every(3600, "1h")
    long = f"1h{' ' * LONGEST}"
    assert spelt(long) is None and scheduled(long) is None
    with pytest.raises(InvalidStatement, match="not a duration: it has more than 100 characters") as refused:
        duration("9" * LENGTH)
    assert len(str(refused.value)) < 500
