"""The clock as a source: its version is the instant at which the query is evaluated, in microseconds since 1970."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streamtable.algebra.sources import CLOCK
from streamtable.delta.tables import Version

__all__ = ["day_ends", "instant", "microseconds", "now", "tick"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now() -> datetime:
    """Read the machine's clock."""
    return datetime.now(timezone.utc)


def tick(granularity: str, before: Version | None, zone: str, at: datetime) -> Version:
    """Return the instant `at`. The instant never goes back. A query that reads the "date" alone gets one instant per day."""
    latest = Version(CLOCK.path, (at - _EPOCH) // timedelta(microseconds=1))
    if before is None:
        return latest
    if before.number > latest.number or (granularity == "date" and _date(before, zone) == _date(latest, zone) is not None):
        return before
    return latest


def instant(version: Version) -> str:
    """Spell an instant so that Spark reads the same instant in every time zone."""
    return _datetime(version).isoformat(timespec="microseconds")


def microseconds(version: Version | None) -> int:
    """Return the instant as a number; 0 for a query that does not read the clock."""
    return 0 if version is None else version.number


def _datetime(version: Version) -> datetime:
    return _EPOCH + timedelta(microseconds=version.number)


def day_ends(version: Version, zone: str) -> datetime | None:
    """Return the end of an instant's date in the time zone; None for a zone that only Spark knows."""
    if (today := _date(version, zone)) is None:
        return None
    return datetime.combine(today + timedelta(days=1), time.min, ZoneInfo(zone)).astimezone(timezone.utc)


def _date(version: Version, zone: str) -> date | None:
    try:
        return _datetime(version).astimezone(ZoneInfo(zone)).date()
    except (ZoneInfoNotFoundError, ValueError):
        return None  # Spark knows more names of zones than Python (GMT+3); without a date the clock moves at each refresh.
