"""A small change is planned once, without adaptive execution, which never takes an estimate of ours for a fact."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.work import Work

from streamtable.engine import limits
from streamtable.engine.load import Load
from streamtable.engine.tuning import planned_for
from streamtable.jvm.gateway import java_class
from streamtable.sessions.internal import without_wrong_rules

GIGABYTE = 1 << 30
QUERY = "SELECT n.name, count(*) AS n, max(s.amount) AS most FROM sales s JOIN names n ON s.region = n.region GROUP BY n.name"


def planning(session: SparkSession) -> tuple[str | None, str | None]:
    return session.conf.get("spark.sql.adaptive.enabled"), session.conf.get("spark.sql.shuffle.partitions")


@pytest.mark.parametrize(
    ("load", "partitions", "planned"),
    [
        (Load(10, 1000, 1000), "50", ("false", "2")),
        (Load(200_000, 10**9, GIGABYTE), "50", ("false", "18")),
        (Load(200_001, 10**9, GIGABYTE), "50", ("true", "50")),
        (Load(10, 10**9, 3 * GIGABYTE), "50", ("true", "50")),
        (Load(10, 10**9, 3 * GIGABYTE), "8", ("false", "8")),
        (None, "50", ("true", "50")),
    ],
)
def test_what_is_small(spark: SparkSession, load: Load | None, partitions: str, planned: tuple[str, str]) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    with planned_for(session, load):
        assert planning(session) == planned
    assert planning(session) == ("true", partitions)


@pytest.mark.parametrize(
    ("excluded", "number"), [("spark.sql.adaptive.optimizer.excludedRules", 3), ("spark.sql.optimizer.excludedRules", 1)]
)
def test_rules_that_give_wrong_answers_are_left_out_beside_those_of_the_user(
    spark: SparkSession, excluded: str, number: int
) -> None:
    session = spark.newSession()
    session.conf.set(excluded, "org.example.Mine")
    without_wrong_rules(session)
    own, *ours = str(session.conf.get(excluded)).split(",")
    assert own == "org.example.Mine" and len(ours) == number
    for each in ours:  # a name that Spark does not know would be excluded without a word
        java_class(session, "java.lang.Class").forName(f"{each}$")


def test_a_small_change_takes_fewer_jobs(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql("CREATE TABLE names USING delta AS SELECT * FROM VALUES ('north', 'N'), ('south', 'S') AS t (region, name)")
    shop.sql(f"CREATE STREAM TABLE most REFRESH MODE DIFFERENTIAL AS {QUERY}")

    def jobs(amount: int) -> int:
        shop.sql(f"UPDATE sales SET amount = {amount} WHERE id = 2")  # the greatest goes: the group is computed again
        before = Work.so_far(shop)
        shop.sql("REFRESH STREAM TABLE most")
        found, _ = before.since(shop)
        assert_exact(shop, "most", QUERY)
        return found

    calm = jobs(19)
    monkeypatch.setattr(limits, "ADAPTIVE_PARTITIONS", 0)
    assert calm < jobs(18)


@pytest.mark.parametrize("feed", ["true", "false"])
def test_an_update_of_a_column_that_the_query_does_not_read_joins_nothing(shop: SparkSession, feed: str) -> None:
    properties = f"TBLPROPERTIES ('delta.enableChangeDataFeed' = '{feed}', 'delta.enableDeletionVectors' = 'true')"
    rows = "FROM VALUES ('north', 'N', 1), ('south', 'S', 2) AS t (region, name, note)"
    shop.sql(f"CREATE TABLE names USING delta {properties} AS SELECT * {rows}")
    shop.sql("INSERT INTO sales SELECT id, 'north', 1 FROM range(1000)")
    shop.sql(f"CREATE STREAM TABLE most REFRESH MODE DIFFERENTIAL AS {QUERY}")
    shop.sql("UPDATE names SET note = 3 WHERE region = 'north'")
    before = Work.so_far(shop)
    assert [row["action"] for row in shop.sql("REFRESH STREAM TABLE most").collect()] == ["DIFFERENTIAL"]
    assert before.since(shop)[1] < 100
    shop.sql("UPDATE names SET note = 4, name = 'M' WHERE region = 'north'")
    shop.sql("REFRESH STREAM TABLE most")
    assert_exact(shop, "most", QUERY)
