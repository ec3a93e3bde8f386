"""Aggregates whose values depend on the order of their rows, and inputs that have one, as the plan tells them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["is_open", "is_sorted", "takes_order"]

_ANY_ORDER = (
    *("Count", "CountIf", "Min", "Max", "MaxBy", "MinBy", "MaxMinByK", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg"),
    *("Percentile", "Median", "HyperLogLogPlusPlus", "BitmapConstructAgg", "BitmapOrAgg"),
)
"""Aggregates whose value is one for the bag of their rows."""

_BY_ORDER = re.compile(r"First|Last|AnyValue|CollectList|CollectSet|ListAgg|Mode|ApproximatePercentile|HistogramNumeric|Kll.*")
"""Functions whose value depends on the order in which Spark meets the rows of the group, or on chance."""


def takes_order(call: Mapping[str, Any]) -> bool:
    """Tell whether the value of an aggregate depends on the order of its rows, be it by rounding."""
    if call["function"] in ("Sum", "Average"):
        return any(each["type"] in ("DOUBLE", "FLOAT") for each in call["arguments"])
    return call["function"] not in _ANY_ORDER


def is_open(function: str, text: str, any_order: bool) -> bool:
    """Tell whether nothing decides the value of an aggregate, beside its rounding.

    `any_order`: what reads its list gives one value for all orders of the list.
    """
    return _BY_ORDER.fullmatch(function) is not None and "WITHIN GROUP" not in text and not any_order


def is_sorted(node: Mapping[str, Any]) -> bool:
    """Tell whether rows come in an order, which Spark keeps below an aggregate and a delta does not."""
    return node["op"] == "Sort" or (node["op"] in ("Project", "Filter") and is_sorted(node["children"][0]))
