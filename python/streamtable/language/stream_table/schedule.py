"""Schedules, and how they are read: durations such as '1h30m', and cron expressions with a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from croniter import CroniterBadDateError, croniter

from streamtable.errors import InvalidStatement, near_names
from streamtable.sql.literals import quote_string

MINIMUM_SECONDS = 1
MAXIMUM_SECONDS = 100 * 366 * 86_400  # dates further away are beyond what Python can add to now

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_UNIT_NAMES = ("weeks", "days", "hours", "minutes", "seconds")
_PART = re.compile(r"\s*([0-9]+)\s*([^\W\d_]*)")
_LEADING = re.compile(r"^(?:every\b|interval\b|pt(?=\d)|[\s='])+")
_TIME = re.compile(r"((?:\d+(?:\.\d+)?)?)'?\s*([a-z]+)")
_WORDS = {
    "w": ("w", "week", "weeks"),
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_DIGITS = 12  # more of them are too long a time in any unit
_EXAMPLES = "write whole numbers with the units w, d, h, m, s, largest first: '30s', '5m', '1h30m', '1d'"

_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
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
    f"'*/5 * * * *' or '0 6 * * mon-fri', or one of {', '.join(_MACROS)}"
)


@dataclass(frozen=True)
class Manual:
    """Refresh only when told to."""

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return "MANUAL"


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


Schedule: TypeAlias = Manual | Every | Cron | Calculated


def duration(text: str, minimum: int = MINIMUM_SECONDS) -> Every:
    """Read a duration; raise InvalidStatement for what is none, or is shorter than `minimum` seconds."""
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise _no_duration(text)
    seconds, largest = 0, None
    for number, unit in parts:
        if unit not in _UNITS:
            raise _no_unit(text, unit)
        if largest is not None and _UNITS[unit] >= largest:
            raise InvalidStatement(f"the duration {text!r} has {number}{unit} behind a smaller or the same unit", hint=_EXAMPLES)
        largest = _UNITS[unit]
        seconds += (int(number) if len(number) <= _DIGITS else MAXIMUM_SECONDS + 1) * largest
    if seconds < minimum:
        raise InvalidStatement(f"the duration {text!r} is shorter than {minimum}s", hint=f"write at least '{minimum}s'")
    if seconds > MAXIMUM_SECONDS:
        raise InvalidStatement(f"the duration {text!r} is longer than a hundred years", hint="write SCHEDULE MANUAL")
    return Every(seconds, text.strip())


def spelt(text: str) -> str | None:
    """Spell a time in words, as people write it elsewhere, as a duration; None for what is no time."""
    left = _LEADING.sub("", text.strip().strip("'\"").casefold())
    parts = _TIME.findall(left)
    if not parts or _TIME.sub("", left).strip(" ,'") or any(len(number) > _DIGITS for number, _ in parts):
        return None
    units = [next((unit for unit, words in _WORDS.items() if word in words), None) for _, word in parts]
    if None in units:
        return None
    seconds = sum(Fraction(number or "1") * _UNITS[unit] for (number, _), unit in zip(parts, units, strict=True) if unit)
    if seconds.denominator != 1 or not MINIMUM_SECONDS <= seconds <= MAXIMUM_SECONDS:
        return None
    said, whole = "", int(seconds)
    for unit, length in _UNITS.items():
        number, whole = divmod(whole, length)
        said += f"{number}{unit}" if number else ""
    return said


def cron(expression: str, time_zone: str | None = None) -> Cron:
    """Read a cron expression; raise InvalidStatement for what is none, for one that never comes, or an unknown zone."""
    expression = _from_quartz(expression)
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
    hint = _with(spelt(text), _EXAMPLES)
    if text.strip().startswith("@") or len(text.split()) in (5, 6):
        hint = f"if it is a cron expression, write SCHEDULE CRON {text!r}"
    elif text.strip().upper() in ("MANUAL", "CALCULATED"):
        hint = f"write SCHEDULE {text.strip().upper()}, without quotes"
    elif text.strip().upper() in ("NONE", "NEVER", "OFF", "ON DEMAND"):
        hint = "write SCHEDULE MANUAL, without quotes"
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
    if expression.lower() not in _MACROS:
        raise InvalidStatement(f"there is no cron macro {expression!r}.{near_names(expression, _MACROS)}", hint=_CRON_EXAMPLES)


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
