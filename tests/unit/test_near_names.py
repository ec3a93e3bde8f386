"""What is suggested for a name that is not there."""

from __future__ import annotations

import pytest

from streamtable.errors import near_names

NAMES = [
    f"spark_catalog.{each}" for each in ("shop.by_region", "shop.daily_sales", "shop.orders", "shop.order_items", "office.large")
]


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [
        ("shop.by_regoin", "shop.by_region"),
        ("shop.byregion", "shop.by_region"),
        ("shop.sales_daily", "shop.daily_sales"),
        ("shop.region", "shop.by_region"),
        ("default.by_region", "shop.by_region"),
        ("shop.larg", "office.large"),
        ("shop.order", "shop.orders"),
        ("shop.nobody", None),
        ("shop.weekly_costs", None),
        ("shop.daily_costs", "shop.daily_sales"),
        ("shop.x", None),
    ],
)
def test_names_are_near_by_their_words_and_not_by_their_schema(wanted: str, nearest: str | None) -> None:
    said = near_names(f"spark_catalog.{wanted}", NAMES)
    assert said.startswith(f" Did you mean `spark_catalog.{nearest}`") if nearest else said == ""


def test_at_most_three_names_are_suggested_the_nearest_first() -> None:
    assert near_names("abcd", ["abcd_", "abce", "abcf", "abcg"]) == " Did you mean `abcd_`, `abce`, `abcf`?"
    assert near_names("%", ["a", "%"]) == " Did you mean `%`?"
