"""Types that Delta lets a column widen to, whose older files are read rightly as the wider type."""

from __future__ import annotations

import re

__all__ = ["widens"]

_WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
"""Types as schemas in a log call them, and the wider types; decimals besides."""

_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""The digits before the point that a decimal has at least, to which Delta widens an integer."""

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def widens(before: str, now: str) -> bool:
    """Tell whether a type is the same as the one before it, or a wider one."""
    if before == now or now in _WIDER.get(before, ()):
        return True
    wide = _DECIMAL.fullmatch(now)
    if wide is None:
        return False
    digits, scale = int(wide[1]) - int(wide[2]), int(wide[2])
    if before in _DIGITS:
        return digits >= _DIGITS[before] and scale >= 0
    narrow = _DECIMAL.fullmatch(before)
    return narrow is not None and digits >= int(narrow[1]) - int(narrow[2]) and scale >= int(narrow[2])
