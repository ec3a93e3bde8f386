"""Names, times and numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from streamtable.catalog.entries import CATALOG

__all__ = ["ago", "amount", "cut", "duration", "milliseconds", "phases", "schema_of", "short", "size"]

BY_PATH = "by path"
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def short(name: str) -> str:
    """Return a full name without the catalog that all stream tables are in."""
    return name.removeprefix(f"{CATALOG}.")


def schema_of(name: str) -> str:
    """Return the schema of a full name, of a consumer that of its queue."""
    if name.startswith("delta.`"):
        return BY_PATH
    return short(name.partition(": ")[0]).rpartition(".")[0] or "?"


def cut(text: str, letters: int) -> str:
    """Cut a long text in its middle, because beginnings and ends tell names apart."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[len(text) - tail :]}"


def duration(span: timedelta) -> str:
    """Write a time that passed, by its two largest units."""
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    left, said = round(seconds), list[str]()
    for size_of, unit in _UNITS:
        number, left = divmod(left, size_of)
        if number or said:
            said.append(f"{number} {unit}")
    return " ".join(said[:2]).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")


def milliseconds(number: int) -> str:
    """Write a time that a refresh took."""
    return duration(timedelta(milliseconds=number))


def phases(took: Mapping[str, int]) -> str:
    """Write the milliseconds of each phase of a refresh."""
    return ", ".join(f"{phase} {milliseconds(ms)}" for phase, ms in took.items())


def ago(at: datetime | None, now: datetime) -> str:
    """Write a moment as seen from now."""
    if at is None:
        return "never"
    return f"{duration(now - at)} ago" if at <= now else f"in {duration(at - now)}"


def amount(number: int | None) -> str:
    """Write a number with its thousands apart."""
    return "?" if number is None else f"{number:,}".replace(",", "\u202f")


def size(number: int | None) -> str:
    """Write a number of bytes."""
    if number is None:
        return "?"
    value = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
