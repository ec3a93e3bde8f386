"""Schedules, and how they are read: durations such as '1h30m', and cron expressions with a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from croniter import CroniterBadDateError, croniter

from streamtable.errors import InvalidStatement, near_names
from streamtable.language.stream_table.in_words import (
    DIGITS,
    LONGEST,
    MACROS,
    MAXIMUM_SECONDS,
    MINIMUM_SECONDS,
    UNITS,
    scheduled,
    spelt,
)
from streamtable.sql.literals import quote_string

DEBOUNCE_SECONDS = 1  # of ON UPDATE without AT MOST EVERY: a writer that never rests takes the place of nobody else

_UNIT_NAMES = ("weeks", "days", "hours", "minutes", "seconds")
_PART = re.compile(r"\s*([0-9]+)\s*([^\W\d_]*)")
_EXAMPLES = "write whole numbers with the units w, d, h, m, s, largest first: '30s', '5m', '1h30m', '1d'"

_FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of month", "1-31 or L"),
    ("month", "1-12 or jan-dec"),
    ("day of week", "0-7 or sun-sat, where 0 and 7 are Sunday"),
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?(?::?[0-9]{2})?")
_CRON_EXAMPLES = (
    "write five fields (minute, hour, day of month, month, day of week) or six (with the second in front), such as "
    f"'*/5 * * * *' or '0 6 * * mon-fri', or one of {', '.join(MACROS)}"
)


@dataclass(frozen=True)
class Manual:
    """Refresh only when told to."""

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return "MANUAL"


@dataclass(frozen=True)
class Unsaid(Manual):
    """No clause SCHEDULE: the schedule is that of the setting for new tables."""


@dataclass(frozen=True)
class Every:
    """Refresh when the table is `seconds` old; `text` is the duration as it was written."""

    seconds: int
    text: str

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return quote_string(self.text)


@dataclass(frozen=True)
class Cron:
    """Refresh when the clock of `time_zone` (or of the session, if None) matches the expression."""

    expression: str
    time_zone: str | None = None

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        zone = "" if self.time_zone is None else f" AT TIME ZONE {quote_string(self.time_zone)}"
        return f"CRON {quote_string(self.expression)}{zone}"


@dataclass(frozen=True)
class Calculated:
    """Refresh as often as the most frequent of the stream tables that read this one."""

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return "CALCULATED"


@dataclass(frozen=True)
class OnUpdate:
    """Refresh when a source has a new commit; not sooner than `at_most` after the refresh before."""

    at_most: Every | None = None

    @property
    def seconds(self) -> int:
        """Return the least time between two refreshes."""
        return self.at_most.seconds if self.at_most else DEBOUNCE_SECONDS

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return f"ON UPDATE AT MOST EVERY {self.at_most.sql()}" if self.at_most else "ON UPDATE"


@dataclass(frozen=True)
class Immediate(OnUpdate):
    """Refresh before the statement that writes to a source returns. For a scheduler it is ON UPDATE."""

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return "IMMEDIATE"


Schedule: TypeAlias = Manual | Every | Cron | Calculated | OnUpdate


def duration(text: str, minimum: int = MINIMUM_SECONDS) -> Every:
    """Read a duration; raise InvalidStatement for what is none, or is shorter than `minimum` seconds."""
    if len(text) > LONGEST:
        raise InvalidStatement(f"'{text[:20]}...' is not a duration: it has more than {LONGEST} characters", hint=_EXAMPLES)
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise _no_duration(text)
    seconds, largest = 0, None
    for number, unit in parts:
        if unit not in UNITS:
            raise _no_unit(text, unit)
        if largest is not None and UNITS[unit] >= largest:
            raise InvalidStatement(f"the duration {text!r} has {number}{unit} behind a smaller or the same unit", hint=_EXAMPLES)
        largest = UNITS[unit]
        seconds += (int(number) if len(number) <= DIGITS else MAXIMUM_SECONDS + 1) * largest
    if seconds < minimum:
        raise InvalidStatement(f"the duration {text!r} is shorter than {minimum}s", hint=f"write at least '{minimum}s'")
    if seconds > MAXIMUM_SECONDS:
        raise InvalidStatement(f"the duration {text!r} is longer than a hundred years", hint="write SCHEDULE MANUAL")
    return Every(seconds, text.strip())


def on_update(at_most: Every | None, minimum: int = MINIMUM_SECONDS) -> OnUpdate:
    """Return the schedule; raise InvalidStatement if it would refresh more often than once in `minimum` seconds."""
    if at_most is None:
        _allow(f"ON UPDATE refreshes up to once in {DEBOUNCE_SECONDS}s", minimum)
    return OnUpdate(at_most and duration(at_most.text, minimum))


def immediate(minimum: int = MINIMUM_SECONDS) -> Immediate:
    """Return the schedule; raise InvalidStatement where `minimum` seconds have to lie between two refreshes."""
    _allow("IMMEDIATE refreshes with each write", minimum)
    return Immediate()


def _allow(how_often: str, minimum: int) -> None:
    if minimum > DEBOUNCE_SECONDS:
        message = f"{how_often}, and {minimum}s is the shortest schedule here"
        raise InvalidStatement(message, hint=f"write ON UPDATE AT MOST EVERY '{minimum}s'")


def interval(text: str, minimum: int = MINIMUM_SECONDS) -> Every:
    """Read a time as it stands after INTERVAL, in words; raise InvalidStatement for what is none, or is too short."""
    return duration(spelt(text) or text, minimum)


def cron(expression: str, time_zone: str | None = None, *, stored: bool = False) -> Cron:
    """Read a cron expression; raise InvalidStatement for what is none, for one that never comes, or an unknown zone.

    A table holds no expression of Quartz: they are stored as ours. A `?` there is of a release for which it meant any day.
    """
    expression = expression.replace("?", "*") if stored else _from_quartz(expression)
    fields = expression.split()
    if expression.strip().startswith("@"):
        _check_macro(expression.strip())
    elif len(fields) not in (5, 6):
        raise _wrong_number_of_fields(expression, fields)
    else:
        for (name, values), field in zip(_FIELDS[-len(fields) :], fields, strict=True):
            _check_field(expression, name, values, field)
    schedule = Cron(expression.strip(), None if time_zone is None else zone(time_zone))
    try:
        next_time(schedule, datetime(2000, 1, 1, tzinfo=timezone.utc))
    except CroniterBadDateError:
        raise InvalidStatement(
            f"the cron expression {expression!r} never comes: no month that it names has such a day",
            hint="check the day of month and the month",
        ) from None
    return schedule


def _from_quartz(expression: str) -> str:
    """Spell an expression of Quartz, which a `?` tells, as ours: there Sunday is day 1, and a year may stand at the end."""
    fields = expression.split()
    if "?" not in fields or len(fields) not in (6, 7):
        return expression
    *fields, days = ("*" if field == "?" else field for field in fields[:6])
    if expression.split()[6:] not in ([], ["*"]):
        raise InvalidStatement(f"the cron expression {expression!r} names years", hint="write * in the place of the year")
    return " ".join((*fields, re.sub(r"(?<![#/])\b[1-7]\b", lambda day: str(int(day[0]) - 1), days)))


def zone(name: str) -> str:
    """Return the name of a time zone; raise InvalidStatement for one that is unknown."""
    try:
        return ZoneInfo(name).key
    except (LookupError, ValueError, OSError):  # OSError: the name of a folder of the database, such as Europe
        raise InvalidStatement(
            f"there is no time zone {name!r}.{near_names(name, available_timezones())}",
            hint="name a zone of the IANA database, such as 'UTC' or 'Europe/Berlin'",
        ) from None


def session_zone(name: str) -> tzinfo:
    """Return what `spark.sql.session.timeZone` names: a zone of the database, or an offset such as +02:00, GMT+2 or Z.

    Raises InvalidStatement for a name that only Java knows.
    """
    if offset := _OFFSET.fullmatch(name):
        sign = -1 if offset["sign"] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0)))
    return timezone.utc if name == "Z" else ZoneInfo(zone(name))


def next_time(schedule: Cron, after: datetime) -> datetime:
    """Return the first time later than `after`, an aware time, that matches: in the schedule's zone or `after`'s.

    A time that the clocks skip in spring comes when they have moved on. Of the hour that comes twice in autumn, an expression
    with a named hour takes the first: '30 2 * * *' comes once on every day of the year.
    """
    start = after if schedule.time_zone is None else after.astimezone(ZoneInfo(schedule.time_zone))
    times: Any = croniter(schedule.expression, start, ret_type=datetime, second_at_beginning=True)
    found = times.get_next()
    while _comes_again(found) and not _every_hour(schedule.expression):
        found = times.get_next()
    assert isinstance(found, datetime)
    return found


def _comes_again(time: datetime) -> bool:
    """Tell whether the clocks showed this time an hour before as well."""
    return time.utcoffset() != time.replace(fold=0).utcoffset()


def _every_hour(expression: str) -> bool:
    return expression.lower() == "@hourly" or (not expression.startswith("@") and expression.split()[-4] == "*")


def _no_duration(text: str) -> InvalidStatement:
    said = scheduled(text)
    if said and said[0] != "'":
        hint = f"write SCHEDULE {said}" + ("" if "'" in said else ", without quotes")
    elif text.strip().startswith("@") or len(text.split()) in (5, 6):
        hint = f"if it is a cron expression, write SCHEDULE CRON {text!r}"
    else:
        hint = _with(spelt(text), _EXAMPLES)
    return InvalidStatement(f"{text!r} is not a duration", hint=hint)


def _with(meant: str | None, hint: str) -> str:
    return f"write '{meant}'; {hint}" if meant else hint


def _no_unit(text: str, unit: str) -> InvalidStatement:
    if not unit:
        return InvalidStatement(f"the duration {text!r} has a number without a unit", hint=_EXAMPLES)
    meant = next((name for name in _UNIT_NAMES if name.startswith(unit.lower().rstrip("s") or "s")), None)
    hint = f"write {meant} as {meant[0]}: {_EXAMPLES.removeprefix('write ')}" if meant else _EXAMPLES
    return InvalidStatement(f"the duration {text!r} has the unknown unit {unit!r}", hint=_with(spelt(text), hint))


def _check_macro(expression: str) -> None:
    if expression.lower() not in MACROS:
        raise InvalidStatement(f"there is no cron macro {expression!r}.{near_names(expression, MACROS)}", hint=_CRON_EXAMPLES)


def _wrong_number_of_fields(expression: str, fields: list[str]) -> InvalidStatement:
    hint = _CRON_EXAMPLES
    if fields and "TZ=" in fields[0].upper():
        hint = f"write CRON '{' '.join(fields[1:])}' AT TIME ZONE '{fields[0].partition('=')[2]}'"
    return InvalidStatement(f"the cron expression {expression!r} has {len(fields)} fields, not five or six", hint=hint)


def _check_field(expression: str, name: str, values: str, field: str) -> None:
    """Raise InvalidStatement unless `field` is valid on its own; the names of no month and no day open with H or R."""
    position = [known for known, _ in _FIELDS].index(name)
    alone = " ".join(field if index == position else "*" for index in range(len(_FIELDS)))
    if field[0] not in "hHrR" and croniter.is_valid(alone, second_at_beginning=True):
        return
    article = "an" if name == "hour" else "a"
    raise InvalidStatement(
        f"{field!r} is not {article} {name} in the cron expression {expression!r}",
        hint=f"write {values}, or a list (1,2), a range (1-5), a step (*/5) of them, or *",
    )
