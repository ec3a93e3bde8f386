"""Schedules: which durations, cron expressions and time zones there are, and why others are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import TypeVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtable.errors import InvalidStatement
from streamtable.language.stream_table.schedule import Cron, Every, cron, duration, next_time, session_zone

UTC = timezone.utc
T = TypeVar("T")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("30s", 30),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5_400),
        ("2m30s", 150),
        ("1d", 86_400),
        ("1w", 604_800),
        ("1w2d3h4m5s", 788_645),
        (" 1h  30 m ", 5_400),
        ("0h5m", 300),
        ("007m", 420),
        ("5217w", 3_155_241_600),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    assert duration(text) == Every(seconds, text.strip())


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "'' is not a duration", "'1h30m'"),
        ("soon", "'soon' is not a duration", "'1h30m'"),
        ("-5m", "'-5m' is not a duration", "whole numbers"),
        ("1.5h", "'1.5h' is not a duration", "whole numbers"),
        ("5m!", "'5m!' is not a duration", "'5m'"),
        ("٣m", "'٣m' is not a duration", "whole numbers"),
        ("*/5 * * * *", "'*/5 * * * *' is not a duration", "write SCHEDULE CRON '*/5 * * * *'"),
        ("@hourly", "'@hourly' is not a duration", "write SCHEDULE CRON '@hourly'"),
        ("calculated", "'calculated' is not a duration", "write SCHEDULE CALCULATED, without quotes"),
        ("Manual", "'Manual' is not a duration", "write SCHEDULE MANUAL, without quotes"),
        ("5", "the duration '5' has a number without a unit", "units w, d, h, m, s"),
        ("1h30", "the duration '1h30' has a number without a unit", "units w, d, h, m, s"),
        ("5 minutes", "the duration '5 minutes' has the unknown unit 'minutes'", "write '5m'; write minutes as m"),
        ("every 90 minutes", "'every 90 minutes' is not a duration", "write '1h30m'; "),
        ("PT1H30M", "'PT1H30M' is not a duration", "write '1h30m'; "),
        ("2.5 hours", "'2.5 hours' is not a duration", "write '2h30m'; "),
        ("none", "'none' is not a duration", "write SCHEDULE MANUAL, without quotes"),
        ("1hour", "the duration '1hour' has the unknown unit 'hour'", "write hours as h"),
        ("10sec", "the duration '10sec' has the unknown unit 'sec'", "write seconds as s"),
        ("10S", "the duration '10S' has the unknown unit 'S'", "write seconds as s"),
        ("1M", "the duration '1M' has the unknown unit 'M'", "write minutes as m"),
        ("100ms", "the duration '100ms' has the unknown unit 'ms'", "units w, d, h, m, s"),
        ("1y", "the duration '1y' has the unknown unit 'y'", "units w, d, h, m, s"),
        ("30m1h", "the duration '30m1h' has 1h behind a smaller or the same unit", "largest first"),
        ("1h2h", "the duration '1h2h' has 2h behind a smaller or the same unit", "largest first"),
        ("0s", "the duration '0s' is shorter than 1s", "write at least '1s'"),
        ("5300w", "the duration '5300w' is longer than a hundred years", "SCHEDULE MANUAL"),
        pytest.param("9" * 99 + "s", "is longer than a hundred years", "SCHEDULE MANUAL", id="99 digits"),
        pytest.param("9" * 5000 + "s", "'99999999999999999999...' is not a duration", "whole numbers", id="5000 digits"),
    ],
)
def test_refused_durations(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidStatement, match=re.escape(message)) as caught:
        duration(text)
    assert hint in str(caught.value.hint)


def test_a_number_too_long_for_python_is_no_duration() -> None:
    for text in ("9" * 5000 + " minutes", "9" * 5000 + "m"):
        with pytest.raises(InvalidStatement):
            duration(text)


def test_the_minimum_can_be_set() -> None:
    assert duration("60s", minimum=60) == Every(60, "60s")
    with pytest.raises(InvalidStatement, match="the duration '59s' is shorter than 60s"):
        duration("59s", minimum=60)


@pytest.mark.parametrize(
    ("expression", "first_after_new_year"),  # 1 January 2026 is a Thursday
    [
        ("* * * * *", "2026-01-01 00:01:00"),
        ("*/5 * * * *", "2026-01-01 00:05:00"),
        ("0 6 * * 1-5", "2026-01-01 06:00:00"),
        ("0 6 * * mon-FRI", "2026-01-01 06:00:00"),
        ("0 0 1 feb,mar *", "2026-02-01 00:00:00"),
        ("0 0 * * 0", "2026-01-04 00:00:00"),
        ("0 0 * * 7", "2026-01-04 00:00:00"),
        ("0 0 L * *", "2026-01-31 00:00:00"),
        ("0 0 * * fri#2", "2026-01-09 00:00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00:00"),
        ("*/10 * * * * *", "2026-01-01 00:00:10"),
        ("30 0 12 * * *", "2026-01-01 12:00:30"),
        ("  0   12 * * *  ", "2026-01-01 12:00:00"),
        ("@hourly", "2026-01-01 01:00:00"),
        ("@DAILY", "2026-01-02 00:00:00"),
        ("@midnight", "2026-01-02 00:00:00"),
        ("@weekly", "2026-01-04 00:00:00"),
        ("@monthly", "2026-02-01 00:00:00"),
        ("@yearly", "2027-01-01 00:00:00"),
        ("@annually", "2027-01-01 00:00:00"),
    ],
)
def test_cron_expressions(expression: str, first_after_new_year: str) -> None:
    schedule = cron(expression)
    assert schedule == Cron(expression.strip())
    found = next_time(schedule, datetime(2026, 1, 1, tzinfo=UTC))
    assert found == datetime.fromisoformat(first_after_new_year).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("", "the cron expression '' has 0 fields, not five or six", "five fields"),
        ("* * * *", "has 4 fields, not five or six", "five fields"),
        ("* * * * * * *", "has 7 fields, not five or six", "with the second in front"),
        ("CRON_TZ=UTC 0 6 * * *", "'CRON_TZ=UTC' is not a second", "write 0-59"),
        ("TZ=Europe/Rome 0 6 * * * *", "has 7 fields", "CRON '0 6 * * * *' AT TIME ZONE 'Europe/Rome'"),
        ("60 * * * *", "'60' is not a minute in the cron expression '60 * * * *'", "write 0-59"),
        ("0 24 * * *", "'24' is not an hour in", "write 0-23"),
        ("0 0 0 * *", "'0' is not a day of month in", "write 1-31"),
        ("0 0 * 13 *", "'13' is not a month in", "write 1-12 or jan-dec"),
        ("0 0 * january *", "'january' is not a month in", "write 1-12 or jan-dec"),
        ("0 0 * * 8", "'8' is not a day of week in", "sun-sat"),
        ("60 0 0 * * *", "'60' is not a second in", "write 0-59"),
        ("a b c d e", "'a' is not a minute in", "write 0-59"),
        ("*/0 * * * *", "'*/0' is not a minute in", "a step"),
        ("1,,2 * * * *", "'1,,2' is not a minute in", "a list"),
        ("-1 * * * *", "'-1' is not a minute in", "write 0-59"),
        ("H * * * *", "'H' is not a minute in", "write 0-59"),
        ("R * * * *", "'R' is not a minute in", "write 0-59"),
        ("R(0-9) * * * *", "'R(0-9)' is not a minute in", "write 0-59"),
        ("@reboot", "there is no cron macro '@reboot'", "@hourly"),
        ("@hourli", "there is no cron macro '@hourli'. Did you mean `@hourly`", "@hourly"),
        ("@every 5m", "there is no cron macro '@every 5m'", "@hourly"),
        ("0 0 30 2 *", "the cron expression '0 0 30 2 *' never comes", "day of month and the month"),
        ("0 0 31 4,6,9,11 *", "never comes", "day of month and the month"),
    ],
)
def test_refused_cron_expressions(expression: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidStatement, match=re.escape(message)) as caught:
        cron(expression)
    assert hint in str(caught.value.hint)


def test_a_cron_expression_follows_the_clock_of_its_zone() -> None:
    berlin = cron("0 6 * * *", "Europe/Berlin")
    assert berlin == Cron("0 6 * * *", "Europe/Berlin")
    assert next_time(berlin, datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 5, tzinfo=UTC)
    assert next_time(berlin, datetime(2026, 7, 1, tzinfo=UTC)) == datetime(2026, 7, 1, 4, tzinfo=UTC)


def test_a_cron_expression_without_a_zone_follows_the_clock_that_is_asked() -> None:
    rome = ZoneInfo("Europe/Rome")
    assert next_time(cron("0 6 * * *"), datetime(2026, 1, 1, tzinfo=rome)) == datetime(2026, 1, 1, 6, tzinfo=rome)


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Mars", "there is no time zone 'Mars'"),
        ("Europe/Berln", "there is no time zone 'Europe/Berln'. Did you mean `Europe/Berlin`"),
        ("Europe", "there is no time zone 'Europe'"),
        ("+02:00", "there is no time zone '+02:00'"),
        ("", "there is no time zone ''"),
        ("../etc/passwd", "there is no time zone '../etc/passwd'"),
        ("/etc/localtime", "there is no time zone '/etc/localtime'"),
        ("a\0b", "there is no time zone"),
    ],
)
def test_refused_time_zones(zone: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=re.escape(message)):
        cron("@daily", zone)


def firings(expression: str, zone: str, first: datetime, until: datetime) -> list[str]:
    """Return the times that match, as the clocks of the zone show them."""
    schedule, found = cron(expression, zone), [first]
    while (following := next_time(schedule, found[-1])) < until:
        found.append(following)
    return [each.strftime("%d %H:%M %z") for each in found[1:]]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]),
        ("0 3 * * *", ["28 03:00 +0100", "29 03:00 +0200", "30 03:00 +0200"]),
        (
            "0 */12 * * *",
            ["28 00:00 +0100", "28 12:00 +0100", "29 00:00 +0100", "29 12:00 +0200", "30 00:00 +0200", "30 12:00 +0200"],
        ),
    ],
)
def test_no_time_is_skipped_or_doubled_in_spring(expression: str, expected: list[str]) -> None:
    first, until = datetime(2026, 3, 27, 22, 59, tzinfo=UTC), datetime(2026, 3, 30, 21, tzinfo=UTC)
    assert firings(expression, "Europe/Berlin", first, until) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["24 02:30 +0200", "25 02:30 +0200", "26 02:30 +0100"]),
        ("0 0 2 * * *", ["24 02:00 +0200", "25 02:00 +0200", "26 02:00 +0100"]),
        ("@daily", ["24 00:00 +0200", "25 00:00 +0200", "26 00:00 +0100"]),
    ],
)
def test_no_time_is_skipped_or_doubled_in_autumn(expression: str, expected: list[str]) -> None:
    first, until = datetime(2026, 10, 23, 21, 59, tzinfo=UTC), datetime(2026, 10, 26, 22, tzinfo=UTC)
    assert firings(expression, "Europe/Berlin", first, until) == expected


@pytest.mark.parametrize("expression", ["@hourly", "0 * * * *", "0 0 * * * *"])
@pytest.mark.parametrize("month", [3, 10])
def test_every_hour_is_every_hour_when_the_clocks_change(expression: str, month: int) -> None:
    first = datetime(2026, month, 24, 23, 59, tzinfo=UTC)
    assert len(firings(expression, "Europe/Berlin", first, first + timedelta(days=2))) == 48


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC"])
@given(hour=st.integers(0, 23), minute=st.integers(0, 59), day=st.integers(0, 364))
def test_a_daily_time_comes_once_on_every_day(zone: str, hour: int, minute: int, day: int) -> None:
    midnight = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(days=day)
    before = (midnight - timedelta(days=1)).replace(hour=23, minute=59, second=59)
    found = firings(f"{minute} {hour} * * *", zone, before, midnight + timedelta(days=3))
    assert [each[:2] for each in found] == [f"{(midnight + timedelta(days=n)).day:02}" for n in range(3)]


@pytest.mark.parametrize(
    ("name", "hours"),
    [("Europe/Berlin", 2), ("UTC", 0), ("Z", 0), ("+02:00", 2), ("-0330", -3.5), ("GMT+2", 2), ("UTC-11:30:00", -11.5), ("GMT", 0)],
)
def test_the_zone_of_a_session(name: str, hours: float) -> None:
    assert datetime(2026, 7, 1, tzinfo=session_zone(name)).utcoffset() == timedelta(hours=hours)


def test_a_zone_of_a_session_that_only_java_knows_is_refused() -> None:
    with pytest.raises(InvalidStatement, match="there is no time zone 'CTT'"):
        session_zone("CTT")


@given(st.lists(st.sampled_from("wdhms"), min_size=1, unique=True), st.integers(1, 99))
def test_any_compound_is_the_sum_of_its_parts(units: list[str], number: int) -> None:
    largest_first = sorted(units, key="wdhms".index)
    seconds = sum(duration(f"{number}{unit}").seconds for unit in units)
    assert duration("".join(f"{number}{unit}" for unit in largest_first)).seconds == seconds


def refusal_or(read: Callable[[str], T], text: str) -> T | InvalidStatement:
    try:
        return read(text)
    except InvalidStatement as error:
        return error


@given(st.text() | st.text("0123456789wdhms "))
def test_any_text_is_a_duration_or_is_refused(text: str) -> None:
    match refusal_or(duration, text):
        case Every(seconds):
            assert seconds >= 1
        case InvalidStatement() as error:
            assert error.hint


fields = st.text("0123456789*,-/#lwhr?aefjmnosu()", min_size=1, max_size=6)


@given(st.lists(fields, min_size=4, max_size=7).map(" ".join) | st.text())
def test_any_text_is_a_cron_expression_that_comes_or_is_refused(text: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    match refusal_or(cron, text):
        case Cron() as schedule:
            assert next_time(schedule, start) > start
        case InvalidStatement() as error:
            assert error.hint
