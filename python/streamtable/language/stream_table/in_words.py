"""Times in words, as people write them elsewhere, put into the words of our schedules."""

from __future__ import annotations

import re
from fractions import Fraction

from croniter import croniter

from streamtable.sql.literals import quote_string

__all__ = ["DIGITS", "LONGEST", "MACROS", "MAXIMUM_SECONDS", "MINIMUM_SECONDS", "UNITS", "scheduled", "spelt"]

MINIMUM_SECONDS = 1
MAXIMUM_SECONDS = 100 * 366 * 86_400  # dates further away are beyond what Python can add to now

UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LEADING = re.compile(r"^(?:every\b|interval\b|pt(?=\d)|[\s='])+")
_TIME = re.compile(r"((?:\d+(?:\.\d+)?)?)'?\s*([a-z]+)")
_WORDS = {
    "w": ("w", "week", "weeks"),
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_MONTHS = {"mon": 1, "month": 1, "quarter": 3, "year": 12}
_CALENDAR = re.compile(rf"(\d{{0,3}})'?\s*({'|'.join(_MONTHS)})s?")

MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
"""Cron expressions in a word."""

_OF_THE_CLOCK = re.compile(
    r"(?:(?P<every>(?:1\s+)?day|daily|weekdays?)|(?P<day>(?:sun|mon|tues|wednes|thurs|fri|satur)day)s?)?\s*"
    r"(?P<at>\bat\b[\s']*(?P<hour>[01]?\d|2[0-3])(?::(?P<minute>[0-5]\d))?(?::00)?(?=[\s']|$)\s*(?P<half>[ap]m)?)?[\s']*"
)
_FIELD = r"(?:[\d*?][\w*?/,#-]*|(?:sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[\w/,#-]*)"
_FIELDS = re.compile(rf"{_FIELD}(?:\s+{_FIELD}){{4,6}}", re.IGNORECASE)
_ZONE = re.compile(r"\s+AT\s+TIME\s+ZONE\s+('[^'\\]+')$", re.IGNORECASE)
_ON_UPDATE = re.compile(
    r"(?:trigger\s+)?(?:on|after)\s+(?:update|commit|change|write|insert)s?(?:\s+(?:(?:at\s+most\s+)?every\s+)(?P<period>.+))?"
)
_OF_ONE_WORD = {
    **dict.fromkeys(("manual", "none", "null", "never", "off", "disable", "disabled", "on demand"), "MANUAL"),
    **dict.fromkeys(("calculated", "downstream"), "CALCULATED"),
    "immediate": "IMMEDIATE",
}
DIGITS = 12  # more of them are too long a time in any unit
LONGEST = 100  # characters of a time; a regular expression may take the square of them


def spelt(text: str) -> str | None:
    """Spell a time in words, as people write it elsewhere, as a duration; None for what is no time."""
    if len(text) > LONGEST:
        return None
    left = _LEADING.sub("", text.strip().strip("'\"").casefold())
    parts = _TIME.findall(left)
    if not parts or _TIME.sub("", left).strip(" ,'") or any(len(number) > DIGITS for number, _ in parts):
        return None
    units = [next((unit for unit, words in _WORDS.items() if word in words), None) for _, word in parts]
    if None in units:
        return None
    seconds = sum(Fraction(number or "1") * UNITS[unit] for (number, _), unit in zip(parts, units, strict=True) if unit)
    if seconds.denominator != 1 or not MINIMUM_SECONDS <= seconds <= MAXIMUM_SECONDS:
        return None
    said, whole = "", int(seconds)
    for unit, length in UNITS.items():
        number, whole = divmod(whole, length)
        said += f"{number}{unit}" if number else ""
    return said


def scheduled(text: str) -> str | None:
    """Return what stands after SCHEDULE for what people say of times; None for what no schedule says, as '5 months'."""
    if len(text) > LONGEST:
        return None
    if said := spelt(text):
        return quote_string(said)
    zone = _ZONE.search(text.strip())
    plain = _ZONE.sub("", text.strip()).strip("'\"").strip()
    left = _LEADING.sub("", plain.casefold()).strip(" ,'")
    if left in _OF_ONE_WORD:
        return _OF_ONE_WORD[left]
    if written := _ON_UPDATE.fullmatch(left):
        period = spelt(written["period"]) if written["period"] else None
        if period is None:
            return None if written["period"] else "ON UPDATE"
        return f"ON UPDATE AT MOST EVERY {quote_string(period)}"
    expression = _cron(plain.lstrip("= '"))
    return expression and f"CRON {quote_string(expression)}{f' AT TIME ZONE {zone[1]}' if zone else ''}"


def _cron(text: str) -> str | None:
    """Return the cron expression that is written without quotes, or said in words; None for any other text."""
    plain = re.sub(r"^cron\s+'?", "", text, flags=re.IGNORECASE)
    if _FIELDS.fullmatch(plain):
        fields = plain.replace("?", "*").split()
        return plain if croniter.is_valid(" ".join(fields[:6]), second_at_beginning=True) else None
    if (macro := f"@{plain.casefold().removeprefix('@')}") in MACROS:
        return macro
    left = _LEADING.sub("", plain.casefold()).strip(" ,'")
    if found := _CALENDAR.fullmatch(left):
        months = int(found[1] or 1) * _MONTHS[found[2]]
        return None if months == 0 or 12 % months else {1: "@monthly", 12: "@yearly"}.get(months, f"0 0 1 */{months} *")
    clock = _OF_THE_CLOCK.fullmatch(left)
    if not left or clock is None or not (clock["day"] or clock["at"]):
        return None
    hour, minute = int(clock["hour"] or 0), int(clock["minute"] or 0)
    if clock["half"]:
        hour = hour % 12 + (12 if clock["half"] == "pm" else 0)
    days = clock["day"][:3] if clock["day"] else "mon-fri" if (clock["every"] or "").startswith("weekday") else "*"
    return f"{minute} {hour} * * {days}"
