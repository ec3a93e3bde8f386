"""What CREATE accepts can be refreshed: the delta is planned before it is promised, and what Spark rejects is an obstacle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import FEED, Scenario
from tests.versions import needs

from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.errors import InvalidQuery, InvalidStatement, NotIncremental
from streamtable.refresh import dry_run
from streamtable.sql.builder import column, select, table


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("t", "k INT, v INT, d STRING", "(1, 10, 'x'), (1, 20, 'y'), (2, 5, 'X')", properties=FEED)
        yield scenario


@pytest.fixture(scope="module")
def kept(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("t", "k INT, v INT, d STRING", "(1, 10, 'x'), (1, 20, 'y'), (2, 5, 'X')", properties=FEED)
        scenario.source("tracked", "k INT", properties="'delta.enableRowTracking' = 'true'")
        spark.sql("CREATE VIEW of_files AS SELECT k, _metadata.file_path AS p FROM t")
        yield scenario


@pytest.fixture
def unchanged(kept: Scenario) -> Iterator[SparkSession]:
    """Return the session in a database that is made once, for statements that are refused."""
    kept.spark.sql(f"USE {kept.database}")
    yield kept.spark
    tables = [row["tableName"] for row in kept.spark.sql("SHOW TABLES").where("NOT isTemporary").collect()]
    kept.spark.sql("USE default")
    assert sorted(tables) == ["of_files", "t", "tracked"]


@pytest.fixture
def wrong_rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the rule of aggregates write a query that Spark rejects."""
    monkeypatch.setattr(AggregateStep, "left", lambda _: select([column("no_such_column")], table("nothing")))
    dry_run._verdicts.clear()
    yield
    dry_run._verdicts.clear()


SUMS = "SELECT k, sum(v) AS s FROM t GROUP BY k"


@pytest.mark.defects
def test_a_delta_that_spark_rejects_is_refused_at_create(s: Scenario, wrong_rule: None) -> None:
    with pytest.raises(NotIncremental, match="Spark rejects the delta of this query"):
        s.spark.sql(f"CREATE STREAM TABLE g REFRESH MODE DIFFERENTIAL AS {SUMS}")
    assert not s.spark.catalog.tableExists("g")
    verdict, first, *_ = s.spark.sql(f"EXPLAIN CREATE STREAM TABLE g AS {SUMS}").collect()
    assert (verdict.operator, verdict.incremental) == ("Verdict", False)
    assert (first.operator, first.incremental) == ("Delta", False)


@pytest.mark.defects
@pytest.mark.parametrize("known", [True, False], ids=["in this process", "in another one"])
def test_a_delta_that_spark_rejects_is_full_with_the_reason(s: Scenario, wrong_rule: None, known: bool) -> None:
    s.stream("g", SUMS, mode="AUTO")
    s.change("INSERT INTO t VALUES (1, 1, 'z')")
    if not known:
        dry_run._verdicts.clear()
    done = s.refresh("g", "FULL")
    assert "Spark rejects the delta" in done["reason"]


@pytest.mark.defects
def test_a_rule_that_went_wrong_since_create_falls_back(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    s.stream("g", SUMS, mode="AUTO")
    s.change("INSERT INTO t VALUES (1, 1, 'z')")
    with monkeypatch.context() as patched:
        patched.setattr(AggregateStep, "left", lambda _: select([column("no_such_column")], table("nothing")))
        done = s.refresh("g", "FULL")
        assert "no_such_column" in done["reason"] or "nothing" in done["reason"]
    dry_run._verdicts.clear()
    s.change("INSERT INTO t VALUES (1, 1, 'z')")
    s.refresh("g", "REINITIALIZE")  # its arrangement was not kept in the meantime
    s.change("INSERT INTO t VALUES (1, 1, 'z')")
    s.refresh("g")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT k, timestamp '2020-01-02' - timestamp '2020-01-01' AS d FROM t", "the column d: its type is INTERVAL DAY"),
        ("SELECT k, make_interval(0, 1, 0, k) AS d FROM t", "the column d: its type is INTERVAL"),
        ("SELECT k, array() AS n FROM t", r"the column n\[\]: its type is VOID"),
        ("SELECT k, null AS n FROM t", "the column n: its type is VOID"),
        ("SELECT named_struct('a', d COLLATE UTF8_LCASE) AS n FROM t", "the column n.a: its type is STRING COLLATE"),
        ("SELECT k AS _change_type FROM t", "_change_type belongs to Delta itself"),
        ("SELECT k AS _metadata FROM t", "_metadata belongs to Delta itself"),
        ("SELECT k AS `_Commit_Version` FROM t", "_Commit_Version belongs to Delta itself"),
    ],
)
@pytest.mark.parametrize("mode", ["AUTO", pytest.param("FULL", marks=pytest.mark.fuzz)])
def test_a_column_that_delta_cannot_store_is_refused_by_name(unchanged: SparkSession, query: str, said: str, mode: str) -> None:
    for start in ("CREATE", "EXPLAIN CREATE"):
        with pytest.raises(InvalidStatement, match=said):
            unchanged.sql(f"{start} STREAM TABLE c REFRESH MODE {mode} AS {query}")


def test_names_that_need_column_mapping_get_it(s: Scenario) -> None:
    s.stream("g", "SELECT k AS `30 days`, count(1) FROM t GROUP BY k")
    s.step("INSERT INTO t VALUES (1, 1, 'z')", "DELETE FROM t WHERE k = 2")
    with pytest.raises(InvalidStatement, match="without column mapping"):
        s.spark.sql("CREATE STREAM TABLE h TBLPROPERTIES ('delta.columnMapping.mode' = 'none') AS SELECT count(1) FROM t")


def test_a_source_may_have_a_column_named_metadata(s: Scenario) -> None:
    s.source("m", "_metadata INT, v INT", "(1, 1), (2, 2)", properties=FEED)
    s.stream("b", "SELECT _metadata AS m, count(*) AS n FROM m GROUP BY _metadata")
    s.stream("c", "SELECT _metadata + 1 AS k, v FROM m WHERE v > 0")
    s.step("UPDATE m SET v = 5 WHERE v = 1", "INSERT INTO m VALUES (1, 7)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, _metadata.file_name AS f FROM t",
        pytest.param("SELECT _metadata.file_size % 2 AS r, count(*) AS n FROM t GROUP BY 1", marks=pytest.mark.fuzz),
        pytest.param("SELECT k FROM t AS u WHERE u._metadata.file_size > 0", marks=pytest.mark.fuzz),
        "SELECT k FROM t WHERE k IN (SELECT _metadata.file_size FROM t)",
        "SELECT * FROM of_files",
        "SELECT k, _metadata.* FROM t VERSION AS OF 1",
        "SELECT k, _metadata.row_id AS r FROM tracked",
        pytest.param("SELECT max(_metadata.row_commit_version) AS v FROM tracked", marks=pytest.mark.fuzz),
    ],
)
def test_metadata_of_a_delta_table_is_refused(unchanged: SparkSession, query: str) -> None:
    starts = [
        f"{start} STREAM TABLE c REFRESH MODE {mode} AS " for start in ("CREATE", "EXPLAIN CREATE") for mode in ("AUTO", "FULL")
    ]
    for statement in (*(start + query for start in starts), f"CREATE QUEUE q FOR SUBSCRIBE ({query})", f"SUBSCRIBE ({query})"):
        with pytest.raises(InvalidQuery, match="_metadata of spark_catalog.*compacted"):
            unchanged.sql(statement)


def test_metadata_of_other_files_is_recomputed(s: Scenario) -> None:
    s.spark.sql("CREATE TABLE files USING parquet AS SELECT 1 AS k")
    s.spark.sql("CREATE STREAM TABLE named AS SELECT k, _metadata.file_name AS f FROM files")
    s.spark.sql("INSERT INTO files VALUES (2)")
    assert s.spark.sql("REFRESH STREAM TABLE named").collect()[0]["action"] == "FULL"
    assert s.spark.table("named").where("f LIKE 'part-%'").count() == 2
    assert s.spark.sql("VERIFY STREAM TABLE named").collect()[0]["ok"]


@needs("WITH RECURSIVE")
def test_a_recursion_that_is_not_linear(s: Scenario) -> None:
    s.source("c", "id INT, parent INT", "(1, 2), (2, 3)")
    query = "WITH RECURSIVE r AS (SELECT id, parent FROM c UNION ALL SELECT a.id, b.parent FROM r a JOIN r b ON a.parent = b.id) "
    s.stream("closure", query + "SELECT * FROM r")
    step = "SELECT c.id, c.parent, map_concat(r.way, map(c.id, c.parent)) FROM r JOIN c ON c.id = r.parent"
    s.stream("ways", f"WITH RECURSIVE r AS (SELECT id, parent, map(id, parent) AS way FROM c UNION ALL {step}) SELECT * FROM r")
    s.step("INSERT INTO c VALUES (3, 4)")
    s.step("DELETE FROM c WHERE id = 1")


def test_deep_and_wide_queries(s: Scenario) -> None:
    deep = "t"
    for n in range(40):
        deep = f"(SELECT k + 1 AS k, d FROM {deep} WHERE k <> {n * 100})"
    s.stream("deep", f"SELECT * FROM {deep}")
    verdict, *_ = s.spark.sql(f"EXPLAIN CREATE STREAM TABLE other AS SELECT * FROM {deep}").collect()
    assert verdict["incremental"], verdict
    branches = (f"SELECT k % {n + 2} AS k, CAST(v AS DECIMAL(9, {n % 3})) AS v FROM t WHERE v > {n}" for n in range(12))
    s.stream("wide", " UNION ".join(branches))
    s.step("UPDATE t SET v = v + 1 WHERE k = 1", "INSERT INTO t VALUES (7, 1, 'y'), (NULL, 2, 'z')")


def test_lambdas_inside_of_what_spark_replaces_leave_the_plan_as_it_is(s: Scenario) -> None:
    s.stream("a", "SELECT k, to_json(array_sort(collect_list(d))) AS j FROM t GROUP BY k")
    s.stream("b", "SELECT to_json(transform(array(v), x -> x + 1)) AS j, to_json(struct(k, d)) AS s FROM t")
    s.step("INSERT INTO t VALUES (1, 1, 'z')")


def test_the_order_of_a_lateral_top_n_need_not_be_selected(s: Scenario) -> None:
    s.source("li", "id INT, o INT, amount INT, at INT", "(1, 1, 10, 5), (2, 1, 20, 9), (3, 2, 7, 1)")
    inner = "SELECT amount FROM li WHERE li.o = t.k ORDER BY at DESC, li.id LIMIT 1"
    s.stream("latest", f"SELECT t.k, x.amount FROM t, LATERAL ({inner}) x")
    s.stream("scalar", f"SELECT t.k, ({inner}) AS amount FROM t")
    assert s.rows("latest") == [(1, 20), (1, 20), (2, 7)]
    s.step("INSERT INTO li VALUES (4, 1, 30, 11), (5, 2, 8, 1)", "DELETE FROM li WHERE id = 2")


def test_a_table_at_a_fixed_version_is_a_constant(s: Scenario) -> None:
    s.spark.sql("CREATE STREAM TABLE then AS SELECT t.k, o.v FROM t JOIN t VERSION AS OF 1 AS o ON t.k = o.k")
    s.change("INSERT INTO t VALUES (2, 1, 'z')", "DELETE FROM t WHERE v = 10")
    done = s.spark.sql("REFRESH STREAM TABLE then").first()
    assert done is not None
    assert done["action"] == "DIFFERENTIAL", done
    assert s.rows("then") == [(1, 10), (1, 20), (2, 5), (2, 5)]


def test_time_travel_to_a_computed_instant_is_no_constant(s: Scenario) -> None:
    at = s.spark.sql("DESCRIBE HISTORY t").where("version = 1").select("timestamp").first()
    assert at is not None
    instant = f"timestampadd(SECOND, 0, TIMESTAMP '{at[0]}')"  # as is current_timestamp() - INTERVAL 1 DAY
    s.spark.sql(f"CREATE STREAM TABLE moving AS SELECT k FROM t TIMESTAMP AS OF {instant}")
    s.spark.sql(f"CREATE STREAM TABLE fixed AS SELECT k FROM t TIMESTAMP AS OF TIMESTAMP '{at[0]}'")
    done = [s.spark.sql(f"REFRESH STREAM TABLE {each}").collect()[0]["action"] for each in ("moving", "fixed")]
    assert done == ["DIFFERENTIAL", "NO_DATA"]  # it is looked at again, and not left to the versions


def test_staleness_answers_beside_a_table_without_data(s: Scenario) -> None:
    s.spark.sql("CREATE STREAM TABLE un SCHEDULE '5m' WITH NO DATA AS SELECT k FROM t")
    (row,) = (each for each in s.spark.sql("SELECT * FROM staleness()").collect() if each["name"].endswith(".un"))
    assert (row["data_timestamp"], row["stale"]) == (None, True)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT a.k, size(collect_list(struct(a.v, b.v))) AS n FROM a JOIN a AS b ON a.k = b.k GROUP BY a.k", "two fields"),
        ("SELECT k, size(collect_list(named_struct('first name', v))) AS n FROM a GROUP BY k", "first name"),
    ],
)
def test_states_that_delta_cannot_store_are_told(s: Scenario, query: str, why: str) -> None:
    """CREATE failed in the words of Delta, when the states of the groups were written."""
    s.source("a", "k INT, v INT", "(1, 1), (1, 2)")
    s.spark.sql(f"CREATE STREAM TABLE states AS {query}")
    s.spark.sql("INSERT INTO a VALUES (2, 3)")
    done = s.spark.sql("REFRESH STREAM TABLE states").collect()[0]
    assert done["action"] == "FULL" and "Delta cannot store the states" in done["reason"] and why in done["reason"]
    assert_exact(s.spark, "states", query)


def test_a_table_at_a_fixed_version_is_made_anew(s: Scenario) -> None:
    """Another table got its name, and the stream table said that no source had changed."""
    s.source("a", "k INT", "(1), (2)")
    s.spark.sql("CREATE TABLE h (k INT) USING delta")
    s.spark.sql("INSERT INTO h VALUES (1)")
    query = "SELECT a.k FROM a JOIN h VERSION AS OF 1 AS h ON a.k = h.k"
    s.spark.sql(f"CREATE STREAM TABLE fixed AS {query}")
    assert s.spark.sql("REFRESH STREAM TABLE fixed").collect()[0]["action"] == "NO_DATA"
    s.spark.sql("DROP TABLE h")
    s.spark.sql("CREATE TABLE h (k INT) USING delta")
    s.spark.sql("INSERT INTO h VALUES (2)")
    assert s.spark.sql("REFRESH STREAM TABLE fixed").collect()[0]["action"] == "REINITIALIZE"
    assert_exact(s.spark, "fixed", query)
