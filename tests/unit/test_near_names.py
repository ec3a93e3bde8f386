"""What is suggested for a name that is not there, and what is said of a source that is gone."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from streamtable.catalog.definition import Definition
from streamtable.errors import InvalidQuery, SourceChanged, SourceUnavailable, StreamTableError, near_names
from streamtable.language.parse import parse
from streamtable.query import stored
from streamtable.query.fits import check_columns

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


@pytest.mark.parametrize(
    ("said", "kind", "source"),
    [
        ("[TABLE_OR_VIEW_NOT_FOUND] The table or view `shop`.`rates` cannot be found.", SourceUnavailable, "shop.rates"),
        ("[DELTA_TABLE_NOT_FOUND] Delta table `c`.`shop`.`rates` doesn't exist.", SourceUnavailable, "c.shop.rates"),
        ("[UNRESOLVED_ROUTINE] Cannot resolve routine `convert` on search path", SourceUnavailable, "convert"),
        ("[UNRESOLVED_COLUMN] a column cannot be resolved", SourceChanged, None),
    ],
)
def test_a_source_that_is_gone_is_named_with_the_ways_on(
    said: str, kind: type[StreamTableError], source: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stored, "analyse", MagicMock(side_effect=InvalidQuery(said)))
    definition = MagicMock(spec=Definition)
    definition.name, definition.sources = "c.shop.rated", {}
    definition.statement = parse("CREATE STREAM TABLE shop.rated AS SELECT 1 AS a")
    with pytest.raises(kind) as caught:
        stored.analyse_again(MagicMock(), MagicMock(definition=definition))
    error = caught.value
    assert error.reason.startswith(f"c.shop.rated reads {source}, which is gone" if source else "the query of c.shop.rated")
    assert error.hint
    for way in ("restore", "ALTER STREAM TABLE `shop`.`rated` AS", "DROP STREAM TABLE `shop`.`rated`"):
        assert way in error.hint
    if source:
        definition.sources = {f"file:{tmp_path}/mounted/rates": "rates"}
        away = stored.gone(definition, "rates", said)
        assert away.reason.endswith(f"which is gone: the storage failed: {tmp_path}/mounted: No such file or directory")
        assert "mount the storage again" in str(away)
    assert (
        str(error).splitlines()[0].startswith(f"[{kind.condition}] ")
        and str(error).splitlines()[-1] == f"SQLSTATE: {kind.sqlstate}"
    )


def test_a_query_that_gives_other_columns_is_told_both_kinds_with_the_ways_on() -> None:
    definition = MagicMock(spec=Definition)
    definition.name, definition.statement = "c.shop.rated", parse("CREATE STREAM TABLE shop.rated AS SELECT * FROM t")
    had, gives = (
        StructType().add("k", IntegerType()).add("v", IntegerType()),
        StructType().add("k", IntegerType()).add("v", LongType()),
    )
    entry = MagicMock(definition=definition)
    entry.state.schema, entry.state.schema_json = had, had.json()
    analysed = MagicMock()
    analysed.frame.schema, analysed.frame.columns = had, had.names
    check_columns(entry, analysed)
    analysed.frame.schema = gives
    with pytest.raises(SourceChanged) as caught:
        check_columns(entry, analysed)
    assert caught.value.reason == "the query of c.shop.rated gives k int, v bigint, and the table has k int, v int"
    assert "ALTER STREAM TABLE `shop`.`rated` AS SELECT" in (caught.value.hint or "")
