"""Times that people write in other words than a schedule has, and the schedule that is meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from streamtable.language.stream_table.in_words import scheduled, spelt

__all__ = ["NO_SCHEDULE", "TIMES", "Advice"]

Advice: TypeAlias = tuple[str, str, str | Callable[[re.Match[str]], str | None]]
"""Terminals that were all expected, what stands in their place, and what to do about it; None where it does not fit."""

NO_SCHEDULE = (
    "SCHEDULE takes whole seconds, minutes, hours, days and weeks ('30s', '1h30m', '1d'); "
    "SCHEDULE CRON takes the days of a calendar"
)
_OF_CALENDAR = "SCHEDULE CRON '0 6 * * mon' is each Monday at 06:00: minute, hour, day of month, month, day of week"
_ON_UPDATE = "write SCHEDULE ON UPDATE"

_SPANS = (
    r"((?:EVERY\b\s*)?(?:INTERVAL\b\s*)?"
    r"(?:'?(?:(?:\d+(?:\.\d+)?|\.\d+)'?\s*)?(?:WEEK|DAY|HOUR|HR|MINUTE|MIN|SECOND|SEC|[wdhms](?=\b|\d))S?'?\s*)+)"
)
_CLAUSE = "AS|BACKFILL|CLUSTER|COMMENT|FROZEN|LOCATION|PARTITIONED|REFRESH|STATE|TBLPROPERTIES|TRIGGER|WITH"
_REST = rf"([^;]{{1,100}}?)(?=\s+(?:{_CLAUSE})\b|\s*(?:;|\Z))"
"""What stands there up to the next clause."""


def _meant(text: str) -> str | None:
    said = scheduled(text)
    if said and said[0] == "'":
        return f"write the time between two refreshes as a string: SCHEDULE {said}"
    return f"write SCHEDULE {said}" if said else None


def _if_meant(rest: re.Match[str]) -> str | None:
    return _meant(rest[1])


def _as_string(spans: re.Match[str]) -> str:
    at = re.compile(r"\s*AT\b", re.IGNORECASE).match(spans.string, spans.end())
    return _OF_CALENDAR if at else _meant(spans[1]) or NO_SCHEDULE


def _after_every(at: re.Match[str]) -> str | None:
    """Tell of `EVERY 1 DAY AT '06:00'`, of which the grammar reads the span."""
    every = re.search(r"\b(EVERY\s+\d+\s+\w+\s*)$", at.string[max(0, at.start() - 100) : at.start()], re.IGNORECASE)
    return (_meant(f"{every[1]}{at[0]}") or _OF_CALENDAR) if every else None


def _quoted(rest: re.Match[str]) -> str | None:
    said = scheduled(rest[1])
    return f"put it in quotes: {said}" if said and said.startswith("CRON") else None


def _by_calendar(unit: re.Match[str]) -> str:
    number = re.search(r"\d*\s*$", unit.string[max(0, unit.start() - 100) : unit.start()])
    return _meant(f"{number[0] if number else ''} {unit[0]}") or NO_SCHEDULE


def _at_most(spans: re.Match[str]) -> str:
    said = spelt(spans[1])
    return f"write ON UPDATE AT MOST EVERY '{said}'" if said else NO_SCHEDULE


def _in_one(more: re.Match[str]) -> str:
    """Tell of `EVERY 1 HOUR 30 MINUTES`, of which the grammar reads the first span."""
    before, _, first = more.string[: more.start()].upper().rpartition("EVERY")
    if not first.strip():
        return NO_SCHEDULE
    if before.split()[-2:] == ["AT", "MOST"]:
        said = spelt(f"{first}{more[0]}")
        return f"write ON UPDATE AT MOST EVERY '{said}'" if said else NO_SCHEDULE
    return _meant(f"{first}{more[0]}") or NO_SCHEDULE


def _of_fields(to: re.Match[str]) -> str:
    """Tell of `AT MOST EVERY INTERVAL '1:30' HOUR TO MINUTE`, of which the grammar reads the part up to TO."""
    told = re.search(r"'([\d :]{1,40})'\s*(\w+)\s*$", to.string[: to.start()])
    fields = ["DAY", "HOUR", "MINUTE", "SECOND"]
    first, last = (fields.index(told[2].upper()) if told and told[2].upper() in fields else 0), fields.index(to[1].upper())
    numbers = re.findall(r"\d+", told[1]) if told else []
    if len(numbers) != last - first + 1:
        return NO_SCHEDULE
    said = spelt(" ".join(f"{number} {field}" for number, field in zip(numbers, fields[first:], strict=False) if int(number)))
    return f"write ON UPDATE AT MOST EVERY '{said}'" if said else NO_SCHEDULE


TIMES: tuple[Advice, ...] = (
    ("_AT", rf"(?<=UPDATE\s){_SPANS}", _at_most),
    ("_EVERY", rf"(?<=MOST\s){_SPANS}", _at_most),
    ("INTEGER _INTERVAL", rf"(?<=EVERY\s){_SPANS}", _at_most),
    ("_UPDATE", r"COMMIT|CHANGES?|INSERT|WRITES?", _ON_UPDATE),
    ("_CRON", _REST, _if_meant),
    ("_CRON", r"TRIGGER", _ON_UPDATE),
    ("_CRON", _SPANS, _as_string),
    ("_CRON", rf"=\s*{_SPANS}", _as_string),
    ("_CRON", r"(?:EVERY\s+|DAILY\s+|\w+DAYS?\s+)?AT\b|@|[\d*?/,-]+\s+[\d*]|\*|(?:HOUR|DAI|WEEK|MONTH|YEAR)LY\b", _OF_CALENDAR),
    ("_CRON", r"(\d{1,9})\b", lambda number: f"write the number with its unit, as a string: SCHEDULE '{number[1]}m' for minutes"),
    ("STRING", rf"(?<=CRON\s){_REST}", _quoted),
    ("_MODE", r"(?:FAST\s+)?ON\s+(?:COMMIT|UPDATE|CHANGE)", _ON_UPDATE),
    ("_MODE", rf"(?=EVERY|AT|ON){_REST}", _if_meant),
    ("_MODE", rf"EVERY\s+(?!'){_SPANS}", _as_string),
    ("_NO", rf"\(\s*REFRESH\s+{_SPANS}", _as_string),
    ("_SCHEDULE", rf"TARGET_LAG\s*=\s*{_SPANS}", _as_string),
    ("_SCHEDULE", r"TARGET_LAG\s*=\s*'?DOWNSTREAM", "write SCHEDULE CALCULATED"),
    ("_SCHEDULE", r"ON\s+UPDATE", _ON_UPDATE),
    ("_SCHEDULE _AS", rf"(?:LAG|INTERVAL|EVERY)\b\s*(?:=\s*)?{_REST}", _if_meant),
    ("_SCHEDULE _AS", rf"(?:LAG|INTERVAL|EVERY)\b\s*(?:=\s*)?{_SPANS}", _as_string),
    ("INTEGER", r"(?<=EVERY\s)('(?:\d+[wdhms])+')", lambda found: f"write SCHEDULE {found[1]}, without EVERY"),
    ("INTEGER", rf"(?<=EVERY\s){_REST}", _if_meant),
    ("INTEGER", rf"(?<=EVERY\s){_SPANS}", _as_string),
    ("UNIT", r"MINS?\b", "write MINUTES"),
    ("UNIT", r"HRS?\b", "write HOURS"),
    ("UNIT", r"SECS?\b", "write SECONDS"),
    ("UNIT", r"(?:MONTH|QUARTER|YEAR)S?\b", _by_calendar),
    ("", rf"AT\b{_REST}", _after_every),
    ("", r"\d+\s*(?:DAY|HOUR|MINUTE|SECOND)S?\b", _in_one),
    ("", r"TO\s+(HOUR|MINUTE|SECOND)\b", _of_fields),
)
