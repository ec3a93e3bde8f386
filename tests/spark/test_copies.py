"""What the catalog accepted is of one name and one table: no copy has it, however it came to be and whatever it is called later."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, folder
from tests.spark.test_definition_is_code import accepted

from streamtable.catalog.index import Index
from streamtable.errors import DefinitionNotAccepted, DirectWriteRefused, StreamTableNotFound

QUERY = "SELECT id, region FROM sales"

COPIES: dict[str, Callable[[SparkSession], object]] = {
    "LIKE": lambda spark: spark.sql("CREATE TABLE c LIKE st"),
    "a clone": lambda spark: spark.sql("CREATE TABLE c SHALLOW CLONE st"),
    "an option": lambda spark: by_hand(spark, "OPTIONS ('streamtable.accepted' = '{}')"),
    "a property": lambda spark: by_hand(spark, "TBLPROPERTIES ({more}'option.streamtable.accepted' = '{}')"),
}


def by_hand(spark: SparkSession, clause: str) -> None:
    """Make a table with all that statements can copy of a stream table: its columns, its properties, and the digests in its entry."""
    shown = {key: value for key, value in answer(spark, "SHOW TBLPROPERTIES st") if key.startswith("streamtable.")}
    more = "".join(f"'{key}' = '{value}', " for key, value in shown.items())
    said = clause.replace("{more}", more).replace("{}", json.dumps(accepted(spark, "st")))
    properties = f"TBLPROPERTIES ({more.rstrip(', ')})" if said.startswith("OPTIONS") else ""
    spark.sql(f"CREATE TABLE c (id INT, region STRING) USING delta {said} {properties}")


@pytest.mark.parametrize("how", in_turn(COPIES, COPIES.keys() - {"an option"}))
def test_a_copy_that_gets_the_name_of_the_original_is_no_stream_table(shop: SparkSession, how: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    COPIES[how](shop)
    for away, back in (("ALTER STREAM TABLE st RENAME TO kept", "kept"), ("DROP STREAM TABLE kept", "")):
        shop.sql(away)
        shop.sql("ALTER TABLE c RENAME TO st")
        assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == [f"spark_catalog.shop.{back}"] * bool(back)
        assert len(Index(shop).poll()) == bool(back)
        for statement in ("REFRESH STREAM TABLE st", "DROP STREAM TABLE st"):
            with pytest.raises((DefinitionNotAccepted, StreamTableNotFound)):
                shop.sql(statement)
        shop.sql("INSERT INTO st VALUES (9, 'x')")
        shop.sql("ALTER TABLE st RENAME TO c")
        if back:
            assert done(shop, f"REFRESH STREAM TABLE {back}")[0] == "NO_DATA"
    shop.sql("DROP TABLE c")


def test_statements_that_show_a_table_do_not_show_what_the_catalog_accepted(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    shop.sql("CREATE QUEUE q ON sales")
    for name in ("st", "q"):
        for statement in ("SHOW TBLPROPERTIES {}", "DESCRIBE TABLE EXTENDED {}", "DESCRIBE DETAIL {}"):
            assert "accepted" not in str(answer(shop, statement.format(name))), (name, statement)
    assert dict(answer(shop, "SHOW TBLPROPERTIES st"))["streamtable.format"] == "1"
    assert len(accepted(shop, "st")) == 1
    shop.sql("DROP QUEUE q")


def test_a_managed_table_that_was_led_to_the_files_of_a_stream_table_does_not_take_them_along(shop: SparkSession) -> None:
    """Spark deletes or moves the files of a managed table with its name."""
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    shop.sql("CREATE TABLE c LIKE st")
    shop.sql(f"ALTER TABLE c SET LOCATION '{folder(shop, 'st')}'")
    for statement in ("DROP TABLE c", "ALTER TABLE c RENAME TO d"):
        with pytest.raises(DirectWriteRefused, match=r"shop\.st"):
            shop.sql(statement)
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1] is True
    shop.sql("DROP STREAM TABLE st")
    shop.sql("DROP TABLE c")
