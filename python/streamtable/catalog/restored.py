"""Dataclasses from JSON in the log of a table. The JSON may be anything, because other processes may write the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["UNREADABLE", "restored"]

UNREADABLE = (LookupError, TypeError, ValueError, RecursionError)
"""The errors that reading JSON of other writers may raise."""

Made = TypeVar("Made")


def restored(kind: type[Made], found: object, bits: int = 63) -> Made:
    """Make a dataclass of a JSON object. Missing fields have their defaults. Raises UNREADABLE for anything else.

    Numbers have at most `bits` bits, which Java accepts.
    """
    if not isinstance(found, dict):
        raise TypeError(f"{kind.__name__} is no object")
    hints = _hints(kind)  # type: ignore[arg-type]
    if unknown := found.keys() - hints.keys():
        raise TypeError(f"{kind.__name__} has no {min(unknown)}")
    return kind(**{name: _value(name, hints[name], value, bits) for name, value in found.items()})


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _value(name: str, hint: Any, found: Any, bits: int) -> Any:
    """Return a value of JSON as a value of a type. Raises UNREADABLE if it is none."""
    kind, of = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return None if found is None else _value(name, next(each for each in of if each is not NoneType), found, bits)
    if kind is tuple and isinstance(found, list):
        return tuple(_value(name, of[0], each, bits) for each in found)
    if kind is Mapping and isinstance(found, dict):
        return {_value(name, of[0], key, bits): _value(name, of[1], value, bits) for key, value in found.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return restored(kind, found, bits)
    if issubclass(kind, Enum):
        return kind(found)
    if kind is datetime and isinstance(found, str) and (at := datetime.fromisoformat(found)).tzinfo:
        return at
    if type(found) is not kind or (kind is int and found.bit_length() > bits):
        raise TypeError(f"{name} is no {kind.__name__}")
    if kind is str:
        found.encode()  # half a surrogate pair is a ValueError: Java takes none
    return found
