"""ALTER ... AS and CREATE OR REPLACE: what rebuilds the table, what changes the definition alone, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario

from streamtable.errors import DependencyCycle, DependentsExist, InvalidQuery, InvalidStatement, NotIncremental, SourceChanged


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
    rows = s.spark.sql(f"EXPLAIN {change} STREAM TABLE sums AS SELECT k, sum(v) AS n FROM t GROUP BY k").collect()
    *told, (replaced, possible, why) = [tuple(row) for row in rows[-4:]]
    assert [(label, of.rpartition(".")[2]) for label, _, of in told] == [
        ("Columns", "The table gets other columns: without total; with n BIGINT"),
        ("Reads", "t"),
        ("Read by", "reader"),
    ]
    assert (replaced, possible) == ("Replace", False) and why.endswith("; keep the columns, or change those tables first")


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


def test_a_comment_and_a_source_that_lost_a_column_do_not_put_columns_under_wrong_names(s: Scenario) -> None:
    s.spark.sql("CREATE TABLE wide (id INT, qty INT, amount INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode'='name')")
    s.spark.sql("INSERT INTO wide VALUES (1, 2, 3)")
    s.spark.sql("CREATE STREAM TABLE narrow AS SELECT id, qty, amount FROM wide")
    s.spark.sql("ALTER STREAM TABLE narrow ALTER COLUMN id COMMENT 'key'")
    s.spark.sql("ALTER TABLE wide DROP COLUMN qty")
    query = "SELECT id, amount, id * 2 AS twice FROM wide"
    with pytest.raises(InvalidStatement, match=r"whether the column list \(`id`, `qty`, `amount`\) gives its columns other names"):
        s.spark.sql(f"ALTER STREAM TABLE narrow AS {query}")
    s.spark.sql("ALTER STREAM TABLE narrow AS SELECT id, id AS qty, amount FROM wide")
    assert s.spark.table("narrow").collect() == [(1, 1, 3)]
    s.spark.sql(f"CREATE OR REPLACE STREAM TABLE narrow AS {query}")
    assert s.spark.table("narrow").columns == ["id", "amount", "twice"]
    assert_exact(s.spark, "narrow", query)


def test_a_copy_of_the_source_s_files_is_another_source(s: Scenario, tmp_path: Path) -> None:
    place = s.spark.sql("DESCRIBE DETAIL t").collect()[0]["location"].removeprefix("file:")
    shutil.copytree(place, tmp_path / "copy")
    s.spark.sql(f"CREATE TABLE copied USING delta LOCATION '{tmp_path / 'copy'}'")
    s.spark.sql("INSERT INTO copied VALUES (9, 9)")
    query = "SELECT k, sum(v) AS total FROM copied GROUP BY k"
    s.spark.sql(f"ALTER STREAM TABLE sums AS {query}")
    assert_exact(s.spark, "sums", query)
    s.spark.sql("INSERT INTO copied VALUES (9, 1)")
    done = s.spark.sql("REFRESH STREAM TABLE sums").first()
    assert done is not None
    assert done["action"] == "DIFFERENTIAL"
    assert_exact(s.spark, "sums", query)


def test_a_statement_that_resumes_a_suspended_table_says_so_before(s: Scenario) -> None:
    s.spark.sql("ALTER STREAM TABLE sums SUSPEND")
    query = "SELECT k, sum(v) AS total FROM t GROUP BY k"
    told = s.spark.sql(f"EXPLAIN CREATE OR REPLACE STREAM TABLE sums COMMENT 'new' AS {query}").collect()[-1]["reason"]
    assert told == "the plan of the query is the same: only the definition changes. The table is suspended, and is resumed"
    assert (
        "resumed"
        not in s.spark.sql(f"EXPLAIN CREATE OR REPLACE STREAM TABLE sums REFRESH MODE DIFFERENTIAL AS {query}").collect()[-1][
            "reason"
        ]
    )
    assert "resumed" not in s.spark.sql(f"EXPLAIN ALTER STREAM TABLE sums AS {query} HAVING sum(v) > 0").collect()[-1]["reason"]


def test_a_comment_of_a_nested_field_is_no_other_column(s: Scenario) -> None:
    s.spark.sql("CREATE TABLE nested (k INT, s STRUCT<a: INT COMMENT 'first', b: ARRAY<STRUCT<c: INT>>>) USING delta")
    s.spark.sql("INSERT INTO nested VALUES (1, named_struct('a', 1, 'b', array()))")
    s.spark.sql("CREATE STREAM TABLE held AS SELECT * FROM nested")
    s.spark.sql("CREATE STREAM TABLE above AS SELECT s FROM held")
    s.spark.sql("ALTER TABLE nested ALTER COLUMN s.a COMMENT 'euros'")
    s.spark.sql("ALTER TABLE nested ALTER COLUMN s.b.element.c COMMENT 'cents'")
    done = s.spark.sql("CREATE OR REPLACE STREAM TABLE held AS SELECT * FROM nested").first()
    assert done is not None
    assert done["action"] == "NO_DATA"
    told = s.spark.table("held").schema["s"].dataType.json()
    assert '"metadata":{"comment":"euros"},"name":"a"' in told
    assert '"metadata":{"comment":"cents"},"name":"c"' in told
    s.spark.sql("ALTER STREAM TABLE held SET FROZEN WHERE (k = 1)")
    s.spark.sql("DROP STREAM TABLE above")


def test_a_source_with_another_type_does_not_retype_a_table_whose_query_stays(s: Scenario) -> None:
    s.spark.sql("CREATE TABLE typed (id INT, v INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening'='true')")
    s.spark.sql("CREATE STREAM TABLE keeps AS SELECT id, v FROM typed")
    s.spark.sql("ALTER TABLE typed ALTER COLUMN v TYPE BIGINT")
    for change in ("ADD CONSTRAINT c EXPECT (v > 0)", "SET FROZEN WHERE (id = 1)"):
        with pytest.raises(SourceChanged, match="gives id int, v bigint, and the table has id int, v int"):
            s.spark.sql(f"ALTER STREAM TABLE keeps {change}")
    s.spark.sql("ALTER STREAM TABLE keeps AS SELECT id, v FROM typed")
    assert s.spark.table("keeps").schema["v"].dataType.simpleString() == "bigint"
