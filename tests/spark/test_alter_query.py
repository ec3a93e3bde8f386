"""ALTER ... AS and CREATE OR REPLACE: what rebuilds the table, what changes the definition alone, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario

from streamtable.errors import DependencyCycle, DependentsExist, InvalidQuery, InvalidStatement, NotIncremental


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("t", "k INT, v INT", "(1, 10), (2, 20), (2, 30)")
        scenario.stream("sums", "SELECT k, sum(v) AS total FROM t GROUP BY k")
        yield scenario


def version(s: Scenario) -> int:
    return int(s.spark.sql("DESCRIBE HISTORY sums LIMIT 1").collect()[0]["version"])


def actions(s: Scenario) -> list[str]:
    return [row["action"] for row in s.spark.sql("SHOW REFRESH HISTORY FOR sums").collect()]


def test_another_query_keeps_schedule_history_and_readers(s: Scenario) -> None:
    s.spark.sql("ALTER STREAM TABLE sums SET SCHEDULE '1h'")
    s.stream("reader", "SELECT k, total FROM sums WHERE total > 15")
    s.queries["sums"] = "SELECT k, sum(v) AS total, count(*) AS n FROM t GROUP BY k"
    s.spark.sql(f"ALTER STREAM TABLE sums AS {s.queries['sums']}")
    assert_exact(s.spark, "sums", s.queries["sums"])
    assert actions(s) == ["REINITIALIZE", "REINITIALIZE"]
    shown = s.spark.sql("SHOW CREATE STREAM TABLE sums").collect()[0][0]
    assert "SCHEDULE '1h'" in shown
    assert "count(*)" in shown
    s.step("INSERT INTO t VALUES (1, 7), (3, 1)")


def test_the_same_plan_in_other_words_changes_the_definition_alone(s: Scenario) -> None:
    before = actions(s)
    for words in (
        "SELECT k,   sum(v) AS total /* the same */ FROM t GROUP BY k",
        "SELECT x.k, sum(x.v) AS total FROM t AS x GROUP BY 1",
    ):
        s.spark.sql(f"ALTER STREAM TABLE sums AS {words}")
        assert words in s.spark.sql("SHOW CREATE STREAM TABLE sums").collect()[0][0]
    done = s.spark.sql(
        "CREATE OR REPLACE STREAM TABLE sums COMMENT 'per key' AS SELECT k, sum(v) AS total FROM t GROUP BY k"
    ).first()
    assert done is not None
    assert (done["action"], done["version"]) == ("NO_DATA", version(s))
    assert actions(s) == before
    s.step("DELETE FROM t WHERE v = 20")


@pytest.mark.parametrize("change", ["CREATE OR REPLACE", "ALTER"])
def test_explain_says_beforehand_which_it_would_be(s: Scenario, change: str) -> None:
    def effect(query: str) -> str:
        mode = "REFRESH MODE DIFFERENTIAL" if change == "CREATE OR REPLACE" else ""
        rows = s.spark.sql(f"EXPLAIN {change} STREAM TABLE sums {mode} AS {query}").collect()
        return str(rows[-1]["reason"])

    assert effect("SELECT k, sum(v) AS total FROM t GROUP BY k") == "the definition is the same; nothing changes"
    assert effect("SELECT k, sum(v) AS total FROM t GROUP BY 1") == "the plan of the query is the same: only the definition changes"
    assert effect("SELECT k, max(v) AS total FROM t GROUP BY k") == "the table is rebuilt in one commit; its history stays"
    assert effect("SELECT k, sum(v) AS n FROM t GROUP BY k") == "the table is rebuilt in one commit; its history stays"
    s.spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 1 AS k, 2 AS v")
    same = effect("SELECT k, sum(v) AS total FROM t GROUP BY k")
    assert same == "the definition is the same; the table is rebuilt in one commit; its history stays"
    s.stream("reader", "SELECT k, total FROM sums")
    assert "it is refused: spark_catalog" in effect("SELECT k, sum(v) AS n FROM t GROUP BY k")


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("SELECT k, nothing FROM t", InvalidQuery, "nothing"),
        ("SELECT k, v AS k FROM t", InvalidStatement, "occurs twice"),
        ("SELECT k, total FROM reader", DependencyCycle, "would read itself"),
        ("SELECT k, rand() AS total FROM t", NotIncremental, "volatile"),
        ("SELECT k, count(*) AS n FROM t GROUP BY k", DependentsExist, "would lose or retype total"),
        ("SELECT k, CAST(sum(v) AS DOUBLE) AS total FROM t GROUP BY k", DependentsExist, "would lose or retype total"),
    ],
)
def test_what_is_refused_changes_nothing(s: Scenario, query: str, error: type[Exception], words: str) -> None:
    s.stream("reader", "SELECT k, total FROM sums")
    before = version(s), s.spark.sql("SHOW CREATE STREAM TABLE sums").collect()
    if error is DependentsExist:
        assert words in s.spark.sql(f"EXPLAIN ALTER STREAM TABLE sums AS {query}").collect()[-1]["reason"]
    else:
        with pytest.raises(error, match=words):
            s.spark.sql(f"EXPLAIN ALTER STREAM TABLE sums AS {query}")
    with pytest.raises(error, match=words):
        s.spark.sql(f"ALTER STREAM TABLE sums AS {query}")
    assert (version(s), s.spark.sql("SHOW CREATE STREAM TABLE sums").collect()) == before
