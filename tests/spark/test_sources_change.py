"""Sources that change their shape or their place: each change has one defined answer, and no contents are wrong after it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact, bag_of, contents
from tests.oracle.copies import Copies
from tests.oracle.scenario import Scenario
from tests.oracle.together import together
from tests.pipeline import in_turn
from tests.spark.statements import done, folder, version

from streamtable.catalog.entries import load
from streamtable.delta.rows import change_set
from streamtable.delta.tables import find_table
from streamtable.errors import DependentsExist, HistoryLost, SourceChanged, SourceUnavailable, StreamTableError
from streamtable.jvm.gateway import java_class
from streamtable.language.names import Name
from streamtable.refresh.choose import Action
from streamtable.refresh.run import refresh

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true', 'delta.enableTypeWidening' = 'true'"
QUERY = "SELECT k, sum(v) AS total FROM t GROUP BY k"
ROWS = "(1, 10, 'a', 7), (1, 20, 'b', 8), (2, 30, 'a', 9)"


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("t", "k INT, v INT, s STRING, other INT", ROWS, properties=MAPPED)
        scenario.spark.sql("CREATE VIEW w AS SELECT k, v FROM t WHERE v > 5")
        scenario.streams({"sums": QUERY, "through_view": "SELECT k, v FROM w"})
        scenario.stream("above", "SELECT count(*) AS n, max(total) AS m FROM sums")
        yield scenario


def answer(s: Scenario, name: str) -> str:
    """Refresh, and return the action, or the error's class; the contents are the query's, or what they were before."""
    before = bag_of(contents(s.spark, name))
    try:
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}").first()
    except StreamTableError as error:
        assert bag_of(contents(s.spark, name)) == before
        return type(error).__name__
    assert done is not None
    assert_exact(s.spark, name, s.queries[name])
    return str(done["action"])


WIDEN = "ALTER TABLE t ALTER COLUMN v TYPE BIGINT"  # the view casts to the type that it was created with
KEEP = "DIFFERENTIAL"
REST = "NO_DATA"

CASES = {
    "a column that is used is dropped": (["ALTER TABLE t DROP COLUMN v"], SourceChanged.__name__, SourceChanged.__name__),
    "a column that is used is renamed": (["ALTER TABLE t RENAME COLUMN v TO w"], SourceChanged.__name__, SourceChanged.__name__),
    "rows come, and columns that are not used go": (
        [
            "INSERT INTO t VALUES (3, 33, 'c', 1), (3, 34, 'd', 2)",
            "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
            "ALTER TABLE t DROP COLUMN s",
            "DELETE FROM t WHERE v IN (10, 34)",
            "ALTER TABLE t ALTER COLUMN other TYPE BIGINT",
            "INSERT INTO t (k, v, other) VALUES (3, 35, 1L << 40)",
            "ALTER TABLE t RENAME COLUMN other TO another",
        ],
        KEEP,
        KEEP,
    ),
    "a write brings a column": (
        [
            "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 8 AS k, 1 AS v, 2 AS more) n ON t.k = n.k WHEN NOT MATCHED THEN INSERT *"
        ],
        KEEP,
        KEEP,
    ),
    "a column is dropped and added again": (
        ["ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMNS (v INT)"],
        "REINITIALIZE",
        "REINITIALIZE",
    ),
    "two columns change their names": (
        ["ALTER TABLE t RENAME COLUMN v TO x", "ALTER TABLE t RENAME COLUMN other TO v", "ALTER TABLE t RENAME COLUMN x TO other"],
        "REINITIALIZE",
        "REINITIALIZE",
    ),
    "a type is widened": ([WIDEN], "REINITIALIZE", "REINITIALIZE"),
    "the table is clustered": (
        ["ALTER TABLE t CLUSTER BY (k)", "INSERT INTO t (k, v) VALUES (5, 50)", "OPTIMIZE t FULL"],
        KEEP,
        KEEP,
    ),
    "the table is partitioned otherwise": (
        [
            "CREATE TABLE u USING delta AS SELECT * FROM t",
            "CREATE OR REPLACE TABLE t USING delta PARTITIONED BY (k) AS SELECT * FROM u",
        ],
        "REINITIALIZE",
        "REINITIALIZE",
    ),
    "the table is renamed": (["ALTER TABLE t RENAME TO u"], SourceUnavailable.__name__, SourceUnavailable.__name__),
    "columns that are not used come and go, and a comment, a property and a constraint": (
        [
            "ALTER TABLE t ADD COLUMNS (more INT)",
            "ALTER TABLE t RENAME COLUMN other TO another",
            "ALTER TABLE t DROP COLUMN s",
            "ALTER TABLE t ALTER COLUMN v COMMENT 'how much'",
            "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
            "ALTER TABLE t ADD CONSTRAINT c CHECK (v > 0)",
        ],
        REST,
        REST,
    ),
    "the table is replaced": (
        [
            "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
            "CREATE OR REPLACE TABLE t USING delta AS SELECT 5 AS k, 6 AS v",
        ],
        "REINITIALIZE",
        "REINITIALIZE",
    ),
    "the table is replaced, and replaced back": (
        [
            "CREATE TABLE u USING delta AS SELECT * FROM t",
            "CREATE OR REPLACE TABLE t USING delta AS SELECT 5 AS k, DATE '2026-01-01' AS v",
            "INSERT INTO t VALUES (6, DATE '2026-01-02')",
            "CREATE OR REPLACE TABLE t USING delta AS SELECT k, v + 1 AS v FROM u",
        ],
        "REINITIALIZE",
        "REINITIALIZE",
    ),
    "the table is dropped and created": (
        ["DROP TABLE t", "CREATE TABLE t (k INT, v INT) USING delta", "INSERT INTO t VALUES (7, 8)"],
        "REINITIALIZE",
        "REINITIALIZE",
    ),
    "the table is dropped": (["DROP TABLE t"], SourceUnavailable.__name__, SourceUnavailable.__name__),
    "the view has another text": (["CREATE OR REPLACE VIEW w AS SELECT k, v FROM t WHERE v > 15"], "NO_DATA", "REINITIALIZE"),
    "the view is dropped": (["DROP VIEW w"], REST, SourceUnavailable.__name__),
    "the view is renamed": (["ALTER VIEW w RENAME TO w2"], REST, SourceUnavailable.__name__),
    "the view has another column": (["CREATE OR REPLACE VIEW w AS SELECT k, s AS v FROM t"], "NO_DATA", SourceChanged.__name__),
}


SOME = (
    "a column that is used is dropped",
    "rows come, and columns that are not used go",
    "a column is dropped and added again",
    "a type is widened",
    "columns that are not used come and go, and a comment, a property and a constraint",
    "the table is replaced, and replaced back",
    "the table is dropped and created",
    "the table is dropped",
    "the view has another text",
    "the view is dropped",
)
"""A change of each kind; `./run fuzz -k source_changes` has all."""


@pytest.mark.parametrize("change", in_turn(CASES, SOME))
def test_a_source_changes(s: Scenario, change: str) -> None:
    statements, of_sums, of_view = CASES[change]
    for statement in statements:
        s.spark.sql(statement)
    assert (answer(s, "sums"), answer(s, "through_view")) == (of_sums, of_view)
    assert answer(s, "above") in ("NO_DATA", "DIFFERENTIAL")
    if "dropped" not in change and "renamed" not in change and SourceChanged.__name__ not in (of_sums, of_view):
        s.step("INSERT INTO t (k, v) VALUES (9, 90)")


def test_a_view_moves_to_another_stream_table(s: Scenario) -> None:
    """Who reads whom is what the query reads now: for DROP, CASCADE and the health of sources."""
    s.spark.sql("CREATE OR REPLACE VIEW w AS SELECT k, CAST(total AS INT) AS v FROM sums")
    assert answer(s, "through_view") == "REINITIALIZE"
    with pytest.raises(DependentsExist, match="through_view"):
        s.spark.sql("DROP STREAM TABLE sums")
    shown = s.spark.sql("SHOW STREAM TABLE DEPENDENCIES FOR through_view").collect()
    assert [(row["source"].split(".")[-1], row["kind"]) for row in shown] == [("sums", "stream table"), ("w", "view")]
    s.change("INSERT INTO t (k, v) VALUES (1, 5), (4, 4)")
    assert s.spark.sql("REFRESH STREAM TABLE through_view CASCADE").collect()[0]["action"] == "DIFFERENTIAL"
    assert s.rows("through_view") == [(1, 35), (2, 30), (4, 4)]
    (health,) = s.spark.sql("SELECT state, version_read = latest_version AS current FROM source_health('through_view')").collect()
    assert tuple(health) == ("OK", True)


def test_a_function_gets_another_text(spark: SparkSession) -> None:
    """Sessions of refreshes have called it before, and keep what they looked up."""
    with Scenario(spark) as s:
        s.source("t", "k INT, v INT", "(1, 10), (1, 20), (2, 30)")
        functions = {
            "plus(x INT)": ("INT", "x + 1", "x + 2"),
            "nested(x INT)": ("INT", "plus(x)", "plus(x)"),
            "most()": ("INT", "(SELECT max(v) FROM t)", "(SELECT min(v) FROM t)"),
            "above(x INT)": ("TABLE(k INT)", "SELECT k FROM t WHERE v > x", "SELECT k FROM t WHERE v >= x"),
        }
        for name, (kind, before, _) in functions.items():
            spark.sql(f"CREATE FUNCTION {name} RETURNS {kind} RETURN {before}")
        queries = {
            "called": "SELECT k, plus(v) AS v FROM t",
            "deep": "SELECT nested(k) AS k, sum(nested(v)) AS v FROM t GROUP BY nested(k)",
            "filtered": "SELECT k, v FROM t WHERE plus(v) > 21",
            "scalar": "SELECT k, most() AS v FROM t",
            "rows": "SELECT * FROM above(20)",
        }
        s.streams(queries)

        def answers() -> list[str]:
            return together(lambda name: answer(s, name), queries)

        s.step("INSERT INTO t (k, v) VALUES (3, 15)")
        assert {*answers()} == {"NO_DATA"}
        for name, (kind, _, after) in functions.items():
            spark.sql(f"CREATE OR REPLACE FUNCTION {name} RETURNS {kind} RETURN {after}")
        s.copies = Copies(spark, s.sources)  # what the session of the old ones looked up, it keeps
        assert answers() == ["REINITIALIZE"] * len(queries)
        assert {*answers()} == {"NO_DATA"}
        s.step("INSERT INTO t (k, v) VALUES (3, 20)")
        spark.sql("DROP FUNCTION plus")
        assert (answer(s, "called"), answer(s, "rows")) == (SourceUnavailable.__name__, "NO_DATA")


def test_a_change_that_the_columns_of_the_stream_table_would_follow(s: Scenario) -> None:
    s.stream("everything", "SELECT * FROM t")
    s.spark.sql(WIDEN)
    s.spark.sql("INSERT INTO t (k, v) VALUES (9, 90)")
    assert answer(s, "everything") == SourceChanged.__name__
    with pytest.raises(SourceChanged, match=r"gives .*, and the table has .*(.|\n)*ALTER STREAM TABLE .* AS SELECT"):
        s.spark.sql("REFRESH STREAM TABLE everything FULL")
    s.spark.sql("CREATE OR REPLACE STREAM TABLE everything AS SELECT * FROM t")
    assert s.spark.table("everything").schema == s.spark.table("t").schema
    assert answer(s, "everything") == "NO_DATA"


def test_reorg_changes_no_row(s: Scenario) -> None:
    s.step("DELETE FROM t WHERE v = 20")
    before = version(s.spark, "t")
    s.spark.sql("REORG TABLE t APPLY (PURGE)")
    assert version(s.spark, "t") > before
    assert s.refresh("through_view", action="NO_DATA")["reason"] == "no row of a source changed"
    s.step("INSERT INTO t (k, v) VALUES (9, 90)")


@pytest.mark.parametrize("how", ["created again", "moved"])
def test_an_external_table_is_at_another_location(spark: SparkSession, tmp_path: Path, how: str) -> None:
    with Scenario(spark) as s:
        for place, rows in (("one", "(1, 10), (2, 20)"), ("two", "(1, 10), (3, 30)")):
            spark.sql(f"CREATE TABLE {place} (k INT, v INT) USING delta LOCATION '{tmp_path / place}'")
            spark.sql(f"INSERT INTO {place} VALUES {rows}")
        spark.sql("ALTER TABLE one RENAME TO t")
        s.sources.append("t")
        s.stream("sums", QUERY)
        if how == "moved":
            spark.sql(f"ALTER TABLE t SET LOCATION '{tmp_path / 'two'}'")
        else:
            spark.sql("DROP TABLE t")
            spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path / 'two'}'")
        s.refresh("sums", action="REINITIALIZE")
        s.step("INSERT INTO t VALUES (3, 1)")
        spark.conf.set("spark.streamtable.blockSourceDdl", "true")
        try:
            with pytest.raises(DependentsExist, match="sums read it"):
                spark.sql("ALTER TABLE t ADD COLUMNS (more INT)")
        finally:
            spark.conf.unset("spark.streamtable.blockSourceDdl")


def test_a_source_whose_folder_was_replaced_by_an_older_copy_and_written_to(shop: SparkSession, tmp_path: Path) -> None:
    """It came to the version that was read, or beyond it, with other rows. A copy of all of it has other times, and the same rows."""

    def refreshed(*rows: str) -> tuple[str, str]:
        for row in rows:
            shop.sql(f"INSERT INTO sales VALUES {row}")
        found = done(shop, "REFRESH STREAM TABLE st")
        assert_exact(shop, "st", query)
        return found

    def back(copy: str) -> None:
        shutil.rmtree(place)
        shutil.copytree(tmp_path / copy, place, copy_function=shutil.copy)

    place, query = folder(shop, "sales"), "SELECT region, amount FROM sales WHERE id > 6"
    shutil.copytree(place, tmp_path / "older")
    for statement in (f"CREATE STREAM TABLE st AS {query}", "CREATE QUEUE q ON sales", "REGISTER CONSUMER c ON q"):
        shop.sql(statement)
    assert refreshed("(7, 'west', 1)")[0] == "DIFFERENTIAL"
    assert len(shop.sql("NEXT BATCH FROM q FOR c").collect()) == 1
    shop.sql("FINISH BATCH FROM q FOR c")
    shutil.copytree(place, tmp_path / "whole")
    back("whole")
    assert refreshed()[0] == "NO_DATA"
    assert shop.sql("NEXT BATCH FROM q FOR c").collect() == []
    back("whole")
    assert refreshed("(8, 'west', 2)")[0] == "DIFFERENTIAL"
    for other in (("(9, 'east', 3)", "(9, 'east', 4)"), ("(9, 'east', 5)", "(9, 'east', 6)", "(9, 'east', 7)")):
        back("older")
        action, reason = refreshed(*other)
        assert (action, "an older copy of its folder took its place" in reason) == ("REINITIALIZE", True), reason
        with pytest.raises(HistoryLost, match=r"an older copy of(.|\n)*UNREGISTER CONSUMER c"):
            shop.sql("NEXT BATCH FROM q FOR c")
    assert refreshed("(9, 'east', 8)")[0] == "DIFFERENTIAL"


def test_spark_analyses_no_delta_table(spark: SparkSession) -> None:
    """Were it allowed one day, docs/reference/sources.md would have to say what follows."""
    with Scenario(spark) as s:
        s.source("t", "k INT")
        with pytest.raises(AnalysisException, match="ANALYZE TABLE"):
            spark.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")


def test_a_log_without_checksums_is_read_by_any_thread(spark: SparkSession) -> None:
    """As other writers of Delta leave it, or a process that was killed after its commit. A scheduler's threads have no active session."""
    spark.sql("CREATE TABLE bare (id INT) USING delta TBLPROPERTIES (delta.checkpointInterval = 2)")
    spark.sql("CREATE STREAM TABLE of_bare AS SELECT id FROM bare")
    for n in range(3):
        spark.sql(f"INSERT INTO bare VALUES ({n})")
    place = Path(find_table(spark, ["bare"]).path.removeprefix("file:")) / "_delta_log"
    assert list(place.glob("*.checkpoint.parquet"))
    for checksum in place.glob("*.crc"):
        checksum.unlink()
    java_class(spark, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(lambda: refresh(spark, load(spark, Name(("of_bare",))))).result()
    assert (outcome.action, outcome.rows_inserted) == (Action.DIFFERENTIAL, 3)
    assert_exact(spark, "of_bare", "SELECT id FROM bare")
    spark.sql("DROP STREAM TABLE of_bare")
    spark.sql("DROP TABLE bare")


def test_column_mapping_is_turned_on(spark: SparkSession) -> None:
    with Scenario(spark) as scenario:
        scenario.source("t", "k INT, v INT", "(1, 10), (2, 20)")
        scenario.stream("sums", QUERY)
        scenario.change("INSERT INTO t VALUES (1, 30)")
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        scenario.step("UPDATE t SET v = v + 1 WHERE k = 2", action="REINITIALIZE")
        scenario.step("UPDATE t SET v = v + 1 WHERE k = 1")
        spark.sql("ALTER TABLE t RENAME COLUMN v TO w")
        assert answer(scenario, "sums") == SourceChanged.__name__


SWITCHED = {
    "on": (("false", "true"), ["cdf", "cdf"]),
    "off": (("true", "false"), ["diff", "diff"]),
    "off and on": (("true", "false", "true"), ["diff", "cdf"]),
}


@pytest.mark.parametrize(
    ("switched", "vectors"),
    [
        *(pytest.param(each, "true", id=f"{each}, marked", marks=[pytest.mark.fuzz] * (each != "off and on")) for each in SWITCHED),
        pytest.param("off and on", "false", id="off and on, rewritten"),
    ],
)
def test_the_feed_is_switched_between_two_refreshes(spark: SparkSession, switched: str, vectors: str) -> None:
    (at_first, *later), modes = SWITCHED[switched]
    with Scenario(spark) as s:
        properties = f"'delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = '{at_first}'"
        s.source("t", "k INT, v INT", "(1, 10), (1, 20), (2, 30), (2, 30), (3, 40)", properties=properties)
        s.stream("rows", "SELECT v, k FROM t WHERE k < 9")
        s.stream("sums", QUERY)
        s.change("UPDATE t SET v = v + 1 WHERE k = 1")
        s.change("UPDATE t SET v = 0 WHERE v = 30", "INSERT INTO t VALUES (4, 1)")
        for state in later:
            spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{state}')")
            s.change("UPDATE t SET v = v + 1 WHERE k = 1")
        s.step("UPDATE t SET k = 3 WHERE v = 0", "DELETE FROM t WHERE k = 4")
        more = len(later)
        assert s.rows("rows") == [(0, 3), (0, 3), (11 + more, 1), (21 + more, 1), (40, 3)]
        assert s.rows("sums") == [(1, 32 + 2 * more), (3, 40)]
        path, latest = find_table(spark, ["t"]).path, version(spark, "t")
        assert [change_set(spark, path, 1, latest).mode, change_set(spark, path, latest - 2, latest).mode] == modes


def test_an_upstream_stream_table_gets_another_query(s: Scenario) -> None:
    s.queries["sums"] = "SELECT k, sum(v) + 1 AS total FROM t GROUP BY k"
    s.spark.sql(f"ALTER STREAM TABLE sums AS {s.queries['sums']}")
    assert answer(s, "above") == "DIFFERENTIAL"
    assert_exact(s.spark, "sums", s.queries["sums"])
