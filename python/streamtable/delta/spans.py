"""Where the values of a column lie in the files of a table, by the statistics in its log."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pyspark.sql import SparkSession

from streamtable.delta.bridge import bridge, translated

__all__ = ["Span", "scattered", "spans"]

_MOST = 0.5
"""The share of the bytes whose files must tell their values, and how far from `least` to 1 values count as scattered."""

_ALONE = 0.75
"""The value of `least` from which on nearly all bytes are in one file, so that files tell nothing."""


@dataclass(frozen=True)
class Span:
    """The size of a file, and the least and the greatest value of a column in it: both None where the log does not tell.

    The log writes infinity as a string, so that values of one column may be of two kinds, which have no order.
    """

    bytes: int
    least: Any
    most: Any


def spans(session: SparkSession, path: str, column: str) -> tuple[Span, ...]:
    """Return the spans of a column in the files of the table's latest version; of many files, of a sample."""
    with translated(path):
        found = json.loads(bridge(session).spans(session._jsparkSession, path, column))
    return tuple(_span(each["bytes"], each.get("least"), each.get("most")) for each in found)


def _span(size: int, least: object, most: object) -> Span:
    plain = all(isinstance(each, (int, float, str)) for each in (least, most)) and isinstance(least, str) == isinstance(most, str)
    return Span(size, least, most) if plain else Span(size, None, None)


def scattered(files: Sequence[Span]) -> bool | None:
    """Tell whether equal values of a column may lie all over the files; None where their spans do not tell.

    Take two bytes at random. `met` is the chance that the spans of their files overlap. It is `least`, the chance of the same file,
    where no two spans overlap, and 1 where all do. Spans that only touch do not overlap: a value may end one file and begin the
    next.
    """
    told = [each for each in files if each.least is not None]
    whole = sum(each.bytes for each in told)
    if not whole or whole < _MOST * sum(each.bytes for each in files) or len({isinstance(each.least, str) for each in told}) > 1:
        return None
    least = sum((each.bytes / whole) ** 2 for each in told)
    if least > _ALONE:
        return None
    begins, ends = _Weights((each.least, each.bytes) for each in told), _Weights((each.most, each.bytes) for each in told)
    single = Counter[Any]()
    for each in told:
        if each.least == each.most:
            single[each.least] += each.bytes
    met = 0.0
    for each in told:
        apart = ends.upto(each.least) + whole - begins.below(each.most)
        if each.least == each.most:  # equal spans of one value overlap, and were counted on both sides
            apart -= 2 * single[each.least]
        met += each.bytes / whole * (1 - apart / whole)
    return (met - least) / (1 - least) > _MOST


class _Weights:
    """The sums of the weights of the least values."""

    def __init__(self, pairs: Iterable[tuple[Any, int]]) -> None:
        ordered = sorted(pairs)
        self._values = [value for value, _ in ordered]
        self._sums = [0, *accumulate(weight for _, weight in ordered)]

    def upto(self, value: Any) -> int:
        return self._sums[bisect_right(self._values, value)]

    def below(self, value: Any) -> int:
        return self._sums[bisect_left(self._values, value)]
