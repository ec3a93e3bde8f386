"""Every setting of streamtable: key, default, what it does. All are read from the session, so that SET changes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """Describe one setting; `parse` turns its text into a value and raises ValueError for what is not one."""

    key: str
    default: T
    doc: str
    parse: Callable[[str], T]


SETTINGS: tuple[Setting[Any], ...] = ()


def read(spark: SparkSession, setting: Setting[T]) -> T:
    """Return the session's value of `setting`, or its default; raise InvalidStatement for what is no value of it."""
    text = spark.conf.get(setting.key, None)
    if text is None:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError as error:
        raise InvalidStatement(
            f"the setting {setting.key} cannot be {text!r}: {error}",
            hint=f"RESET {setting.key} (the default is {setting.default!r}) or set another value: {setting.doc}",
        ) from error
