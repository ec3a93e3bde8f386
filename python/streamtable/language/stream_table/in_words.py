"""Times in words, as people write them elsewhere, put into the words of our schedules."""

from __future__ import annotations

import re
from fractions import Fraction

from streamtable.sql.literals import quote_string

__all__ = ["DIGITS", "LONGEST", "MAXIMUM_SECONDS", "MINIMUM_SECONDS", "UNITS", "scheduled", "spelt"]

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
    """Return what stands after SCHEDULE for a time in words; None for one that no schedule says, as '5 months'."""
    if len(text) > LONGEST:
        return None
    if said := spelt(text):
        return quote_string(said)
    found = _CALENDAR.fullmatch(_LEADING.sub("", text.strip().strip("'\"").casefold()).strip(" ,'"))
    months = int(found[1] or 1) * _MONTHS[found[2]] if found else 0
    if months == 0 or 12 % months:
        return None
    return f"CRON {quote_string({1: '@monthly', 12: '@yearly'}.get(months, f'0 0 1 */{months} *'))}"
