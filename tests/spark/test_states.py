"""STATE: rows are the same whatever is stored, and AUTO stores what the files of the sources do not save."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, shown

VISITS = "(1, 'ann', 5), (1, 'ann', 6), (1, 'bob', 1), (2, 'cid', 2), (2, NULL, 3), (NULL, 'ann', 4)"
PER_DAY = "SELECT day, count(DISTINCT who) AS people, count(*) AS visits, max(minutes) AS most FROM visits GROUP BY day"
NEVER = "SELECT who FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.who = p.who AND v.minutes > 1)"


def optional(spark: SparkSession, statement: str) -> list[str]:
    """Return what EXPLAIN says of the optional states."""
    return [reason for operator, _, reason in answer(spark, f"EXPLAIN {statement}") if operator == "Optional state"]


def arrangements(spark: SparkSession, name: str) -> list[str]:
    """Return the arrangements of which EXPLAIN tells the size; DESCRIBE EXTENDED knows the same."""
    told = [row for row in answer(spark, f"EXPLAIN STREAM TABLE {name}") if row[0].startswith("State ")]
    sized = [row[0].removeprefix("State ") for row in told if " rows, " in row[2] and row[2].endswith(" bytes")]
    described = [row[0] for row in answer(spark, f"DESCRIBE STREAM TABLE EXTENDED {name}")]
    assert [f"arrangement {each}" for each in sized] == sorted(each for each in described if each.startswith("arrangement "))
    return sized


def test_rows_are_the_same_with_each_state_and_the_way_between_changes_none(spark: SparkSession) -> None:
    changes = (
        ("INSERT INTO visits VALUES (2, 'ann', 7), (3, 'dan', 1)", "INSERT INTO people VALUES ('eve')"),
        ("DELETE FROM visits WHERE who = 'cid'", "UPDATE visits SET who = 'bob' WHERE minutes = 6"),
        ("UPDATE visits SET minutes = 9 WHERE who = 'dan'", "DELETE FROM visits WHERE who = 'ann' AND day = 1"),
    )
    with Scenario(spark) as s:
        s.source("visits", "day INT, who STRING, minutes INT", VISITS)
        s.source("people", "who STRING", "('ann'), ('bob'), ('cid'), ('dan'), (NULL)")
        s.stream("per_day", PER_DAY)
        s.stream("never", NEVER)
        spark.sql("CREATE STREAM TABLE reader AS SELECT who FROM never")
        stored = {}
        for state, change in zip(("NONE", "ALL", "NONE"), changes, strict=True):
            for name, query in s.queries.items():
                spark.sql(f"ALTER STREAM TABLE {name} SET STATE = {state}")
                assert_exact(s.copies.session(), name, query)
                (said,) = optional(spark, f"STREAM TABLE {name}")
                assert said.endswith(f": {'stored' if state == 'ALL' else 'not stored'}, because the table has STATE {state}")
                assert f"\nSTATE {state}\n" in shown(spark, name) and ("state", state) in answer(spark, f"DESC STREAM TABLE {name}")
            stored[state] = [arrangements(spark, name) for name in s.queries]
            if state == "ALL":  # the reader of the table has nothing to read
                (told,) = answer(spark, "SHOW REFRESH HISTORY FOR never LIMIT 1")
                assert (told[3], told[5:7]) == ("REINITIALIZE", (0, 0))
            s.step(*change)
            spark.sql("REFRESH STREAM TABLE reader")
        (grouped, keys), (grouped_alone, none) = stored["ALL"], stored["NONE"]
        assert (len(grouped) > len(grouped_alone), keys, none) == (True, ["a0"], [])
        assert answer(spark, "VERIFY STREAM TABLE per_day") == [(f"spark_catalog.{s.database}.per_day", True, 0, 0)]


def filled(spark: SparkSession, table: str, *ranges: str) -> None:
    """Add a file for each range."""
    for each in ranges:
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ CAST(id AS INT) AS id, id % 2 AS half FROM range({each})")


PLACES = {
    "together": ("", ("0, 50", "50, 100"), False),
    "scattered": ("", ("0, 100, 2", "1, 100, 2"), True),
    "one file": ("", ("0, 100",), None),
    "mapped": ("TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", ("0, 50", "50, 100"), False),
    "no statistics": ("TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')", ("0, 50", "50, 100"), None),
    "other partitions": ("PARTITIONED BY (half)", ("0, 100, 2", "1, 100, 2"), True),
}


@pytest.mark.parametrize("place", in_turn(PLACES, ["mapped", "scattered", "no statistics"]))
def test_auto_looks_where_equal_keys_lie(shop: SparkSession, place: str) -> None:
    options, ranges, scatters = PLACES[place]
    shop.sql(f"CREATE TABLE src (id INT, half BIGINT) USING delta {options}")
    filled(shop, "src", *ranges)
    (said,) = optional(shop, "CREATE STREAM TABLE st AS SELECT * FROM sales LEFT ANTI JOIN src ON src.id = sales.id")
    assert said.startswith("keys id of the right side of a left anti join: ")
    words = {
        True: ": stored, because rows with equal id are scattered over the files of spark_catalog.shop.src",
        False: ": not stored, because rows with equal id lie together in the files of spark_catalog.shop.src",
        None: ": stored, because the files do not tell whether rows with equal keys lie together",
    }
    assert said.endswith(words[scatters])


def test_auto_looks_at_the_values_of_partitions(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE src (id INT, half BIGINT) USING delta PARTITIONED BY (half)")
    filled(shop, "src", "0, 100")
    (said,) = optional(shop, "CREATE STREAM TABLE st AS SELECT half, count(DISTINCT id) AS n FROM src GROUP BY half")
    assert said.startswith("values of count(DISTINCT id) by half: not stored, because rows with equal half lie together")


def test_auto_keeps_to_its_decision_until_a_full_refresh_or_another_plan(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE src (id INT, half BIGINT) USING delta")
    filled(shop, "src", "0, 50", "50, 100")
    query = "SELECT id, region FROM sales LEFT SEMI JOIN src ON src.id = sales.id"
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")
    shop.sql("CREATE VIEW v AS SELECT id FROM src")
    shop.sql("CREATE STREAM TABLE by_view AS SELECT id FROM sales LEFT SEMI JOIN v ON v.id = sales.id")

    def is_stored(name: str = "st") -> bool:
        (said,) = optional(shop, f"STREAM TABLE {name}")
        return ": stored, because rows" in said

    assert not is_stored() and "STATE" not in shown(shop, "st")
    filled(shop, "src", "0, 100", "0, 100")
    for change in ("SELECT 1", "INSERT INTO sales VALUES (7, 'west', 1)"):
        shop.sql(change)
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL" and not is_stored()
    again = f"CREATE OR REPLACE STREAM TABLE st SCHEDULE '1h' REFRESH MODE DIFFERENTIAL AS {query}"
    assert done(shop, again)[0] == "NO_DATA" and not is_stored()
    shop.sql("ALTER STREAM TABLE st RENAME TO again")
    shop.sql("ALTER STREAM TABLE again RENAME TO st")
    assert done(shop, "REFRESH STREAM TABLE st FULL")[0] == "FULL" and is_stored()
    assert not is_stored("by_view")
    shop.sql("CREATE OR REPLACE VIEW v AS SELECT id FROM src WHERE id <> 3")
    assert done(shop, "REFRESH STREAM TABLE by_view")[0] == "REINITIALIZE"
    assert ": stored, because" in optional(shop, "STREAM TABLE by_view")[0]
    shop.sql("DELETE FROM src WHERE id = 2")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL" and is_stored()
    assert_exact(shop, "st", query)


def test_auto_after_all_decides_anew_and_a_table_without_data_waits_for_its_first_refresh(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE src (id INT, half BIGINT) USING delta")
    filled(shop, "src", "0, 50", "50, 100")
    query = "SELECT id FROM sales LEFT ANTI JOIN src ON src.id = sales.id"
    shop.sql(f"CREATE STREAM TABLE st STATE ALL WITH NO DATA AS {query}")
    shop.sql("ALTER STREAM TABLE st SET STATE NONE")
    assert shop.table("st").count() == 0
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "REINITIALIZE" and arrangements(shop, "st") == []
    shop.sql("ALTER STREAM TABLE st SET STATE ALL")
    assert arrangements(shop, "st") == ["a0"]
    shop.sql("ALTER STREAM TABLE st SET STATE AUTO")
    assert arrangements(shop, "st") == [] and ": not stored, because rows" in optional(shop, "STREAM TABLE st")[0]
    again = f"CREATE OR REPLACE STREAM TABLE st STATE NONE AS {query}"
    assert done(shop, again)[0] == "NO_DATA"  # AUTO had decided the same
    assert optional(shop, "STREAM TABLE st")[0].endswith("not stored, because the table has STATE NONE")
    shop.sql("ALTER STREAM TABLE st SET STATE AUTO")
    shop.sql("INSERT INTO src VALUES (100, 0)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", query)
