"""Patterns 35-40 and 42 of the known wrong results of other systems: chains of tables, unusual writes, positions, names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import FEED, Scenario
from tests.oracle.together import together
from tests.spark.statements import files, folder, vacuum


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        yield scenario


def groups(s: Scenario, properties: str = FEED) -> None:
    s.source("t", "k INT, v INT", "(1, 10), (1, 20), (2, 5), (3, 7)", properties=properties)


def consumers(s: Scenario, properties: str, scan: str, g: str) -> None:
    """Keep both queries over a source with a feed; groups without one get the changes that the rows get, and are left out."""
    s.stream("scan", scan)
    if properties == FEED:
        s.stream("g", g)


def test_pattern_35_a_diamond_over_a_stream_table_and_its_source(s: Scenario) -> None:
    groups(s)
    s.stream("up", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    s.stream("down", "SELECT up.s, t.v FROM up JOIN t ON up.k = t.k")
    s.stream("top", "SELECT count(*) AS n, sum(s) AS s FROM down")
    s.step("UPDATE t SET v = v + 1 WHERE k = 1", "INSERT INTO t VALUES (4, 1)")
    s.step("DELETE FROM t WHERE k = 2", "UPDATE t SET k = 4 WHERE k = 3")


def test_pattern_35_a_full_upstream_refresh_is_a_small_delta_downstream(s: Scenario) -> None:
    s.source("t", "k INT, v INT")
    s.spark.sql("INSERT INTO t SELECT CAST(id % 100 AS INT), CAST(id AS INT) FROM range(400)")
    s.stream("up", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    s.stream("down", "SELECT k, s * 2 AS twice FROM up")
    s.change("UPDATE t SET v = v + 1 WHERE k = 7")
    assert s.spark.sql("REFRESH STREAM TABLE up FULL").collect()[0]["action"] == "FULL"
    done = s.refresh("down")
    assert (done["rows_inserted"], done["rows_deleted"]) == (1, 1)


@pytest.mark.parametrize("properties", [FEED, "'delta.enableDeletionVectors'='false'"], ids=["feed", "no feed"])
def test_pattern_36_truncate_and_overwrite(s: Scenario, properties: str) -> None:
    groups(s, properties)
    consumers(s, properties, scan="SELECT * FROM t", g="SELECT k, count(*) AS n, max(v) AS m FROM t GROUP BY k")
    s.step("TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 10), (9, 9)")
    s.step("INSERT OVERWRITE t VALUES (1, 10), (1, 10), (2, 6)")
    s.step("TRUNCATE TABLE t")
    assert [s.rows(name) for name in s.queries] == [[] for _ in s.queries]


@pytest.mark.parametrize("properties", [FEED, ""], ids=["feed", "no feed"])
def test_pattern_36_restore(s: Scenario, properties: str) -> None:
    groups(s, properties)
    consumers(s, properties, scan="SELECT * FROM t", g="SELECT k, sum(v) AS s FROM t GROUP BY k")
    s.step("DELETE FROM t WHERE k = 1", "INSERT INTO t VALUES (8, 8)")
    s.step("RESTORE TABLE t TO VERSION AS OF 1")


@pytest.mark.parametrize("properties", [FEED, ""], ids=["feed", "no feed"])
def test_pattern_36_partitions_are_overwritten(s: Scenario, properties: str) -> None:
    s.source("t", "p INT, v INT", "(1, 10), (1, 20), (2, 5), (3, 7)", properties=properties, partitioned_by="p")
    consumers(s, properties, scan="SELECT v FROM t WHERE p < 3", g="SELECT p, sum(v) AS s FROM t GROUP BY p")
    s.step("INSERT INTO t REPLACE WHERE p = 1 VALUES (1, 20), (1, 21)")
    s.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        s.step("INSERT OVERWRITE t VALUES (2, 6), (4, 1)")
    finally:
        s.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert s.rows("scan") == [(20,), (21,), (6,)]
    if "g" in s.queries:
        assert s.rows("g") == [(1, 41), (2, 6), (3, 7), (4, 1)]


def test_pattern_36_streams_and_frames_write_into_a_source(s: Scenario, tmp_path: Path) -> None:
    groups(s)
    s.source("incoming", "k INT, v INT", "(1, 1), (5, 5)")
    s.stream("g", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    for number in range(2):
        s.change(f"INSERT INTO incoming VALUES (5, {number})")
        writer = s.spark.readStream.table("incoming").writeStream.format("delta").option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).toTable("t").awaitTermination()
        rows = s.spark.sql(f"SELECT 6 AS k, {number + 1} AS v").write.format("delta").mode("append")
        rows.save(str(folder(s.spark, "t")))
        rows.saveAsTable("t")
        s.refresh("g")
    assert s.rows("g") == [(1, 31), (2, 5), (3, 7), (5, 6), (6, 6)]


@pytest.mark.parametrize("properties", [FEED, ""], ids=["feed", "no feed"])
def test_pattern_36_optimize_and_vacuum_change_nothing(s: Scenario, properties: str) -> None:
    groups(s, properties)
    s.spark.sql("INSERT INTO t VALUES (1, 10)")
    consumers(s, properties, scan="SELECT * FROM t", g="SELECT k, sum(v) AS s FROM t GROUP BY k")
    before = [s.rows(name) for name in s.queries]
    for clean in (lambda: s.spark.sql("OPTIMIZE t ZORDER BY (k)").collect(), lambda: vacuum(s.spark, "t")):
        clean()  # VACUUM only when the tables stand for what OPTIMIZE left: it keeps nothing of the past
        for name in s.queries:
            done = s.spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]
            assert (done["action"], done["reason"]) == ("NO_DATA", "no row of a source changed"), done
            assert (done["rows_inserted"], done["rows_deleted"]) == (0, 0)
    assert [s.rows(name) for name in s.queries] == before
    s.step("DELETE FROM t WHERE k = 1")


def test_pattern_36_optimize_and_vacuum_of_a_stream_table_leave_its_arrangements(s: Scenario) -> None:
    groups(s)
    s.stream("g", "SELECT k, avg(v) AS a, max(v) AS m FROM t GROUP BY k")
    s.stream("above", "SELECT m, count(*) AS n FROM g GROUP BY m")
    s.step("INSERT INTO t VALUES (1, 30), (4, 1)")
    hidden = folder(s.spark, "g") / "_streamtable"
    kept = sorted(hidden.rglob("*"))
    assert any(each.suffix == ".parquet" for each in kept)
    s.spark.sql("OPTIMIZE g").collect()
    vacuum(s.spark, "g")
    assert sorted(hidden.rglob("*")) == kept
    assert s.spark.sql("REFRESH STREAM TABLE g").collect()[0]["action"] == "NO_DATA"
    assert s.spark.sql("REFRESH STREAM TABLE above").collect()[0]["rows_inserted"] == 0
    s.step("DELETE FROM t WHERE v = 30", "UPDATE t SET v = 2 WHERE k = 4")


def test_pattern_37_different_subtrees_under_one_alias_have_their_own_deltas(s: Scenario) -> None:
    groups(s)
    s.source("u", "k INT, v INT", "(1, 1), (2, 2)")
    one = "(SELECT k, sum(v) AS s FROM {0} x {1} GROUP BY k)"
    s.streams(
        {
            "halves": "SELECT x.v FROM (SELECT v FROM t x WHERE v > 8) x UNION ALL SELECT x.v FROM (SELECT -v AS v FROM t x WHERE v <= 8) x",
            "joined": f"SELECT a.k, a.s, b.s AS r FROM {one.format('t', '')} a JOIN {one.format('u', '')} b ON a.k = b.k",
            "filtered": f"SELECT a.k, a.s, b.s AS r FROM {one.format('t', '')} a JOIN {one.format('t', 'WHERE v > 8')} b ON a.k = b.k",
        }
    )
    s.step("UPDATE t SET v = v - 5 WHERE k = 1", "INSERT INTO u VALUES (1, 5), (3, 5)")
    s.step("UPDATE t SET v = v + 5", "DELETE FROM u WHERE k = 2")


def test_pattern_38_a_consumer_that_lags_behind_loses_nothing(s: Scenario) -> None:
    groups(s)
    s.stream("slow", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    s.stream("quick", "SELECT k, v FROM t WHERE v > 5")
    for n in range(4):
        s.change(f"INSERT INTO t VALUES ({n}, {10 + n})", f"DELETE FROM t WHERE v = {9 + n}")
        s.refresh("quick")
    s.spark.sql("DROP STREAM TABLE quick")
    del s.queries["quick"]
    before = files(s.spark, "t")
    s.spark.sql("VACUUM t").collect()
    assert files(s.spark, "t") == before, "VACUUM heeds the time for which files are kept"
    s.refresh("slow")
    s.step("DELETE FROM t WHERE v > 10")
    vacuum(s.spark, "t")
    s.step("UPDATE t SET v = v + 1 WHERE k = 2")


def test_pattern_38_what_a_consumer_still_needs_is_deleted_by_force(s: Scenario) -> None:
    groups(s)
    s.stream("scan", "SELECT v FROM t")
    s.change("UPDATE t SET v = v + 1", "INSERT INTO t VALUES (5, 5)")
    s.change("DELETE FROM t WHERE k = 1")
    vacuum(s.spark, "t")
    done = s.refresh("scan", action="REINITIALIZE")
    assert "a file of the history is gone, as after VACUUM" in done["reason"]
    s.step("UPDATE t SET v = v + 1 WHERE k = 2")


@pytest.mark.parametrize("properties", [FEED, ""], ids=["feed", "no feed"])
def test_pattern_38_what_was_appended_is_compacted_and_deleted_by_force(s: Scenario, properties: str) -> None:
    groups(s, properties)
    s.stream("scan", "SELECT k, v FROM t")  # appends alone: the change is first read by the commit
    s.stream("g", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    s.change("INSERT INTO t VALUES (5, 5)", "INSERT INTO t VALUES (6, 6)")
    s.spark.sql("OPTIMIZE t").collect()
    vacuum(s.spark, "t")
    states = s.spark.sql("SELECT DISTINCT state FROM source_health()").collect()
    assert [row["state"] for row in states] == ["LOST"]
    for name in s.queries:
        assert "a file of the history is gone, as after VACUUM" in s.refresh(name, action="REINITIALIZE")["reason"]
    s.step("UPDATE t SET v = v + 1 WHERE k = 2")


def test_pattern_39_empty_commits_move_the_position_past_nothing(s: Scenario) -> None:
    groups(s)
    s.stream("scan", "SELECT * FROM t")
    s.stream("g", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    for n, empty in enumerate(
        ("DELETE FROM t WHERE k = 99", "ALTER TABLE t SET TBLPROPERTIES ('note'='x')", "UPDATE t SET v = 0 WHERE false")
    ):
        s.spark.sql(empty)
        for name in s.queries:
            assert s.spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]["action"] == "NO_DATA"
        s.step(f"INSERT INTO t VALUES (1, {n})", empty)


def test_pattern_39_a_failed_refresh_applies_its_changes_later(s: Scenario) -> None:
    groups(s)
    s.stream("quotients", "SELECT 100 / v AS q FROM t")
    s.change("INSERT INTO t VALUES (5, 4)", "INSERT INTO t VALUES (6, 0)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        s.spark.sql("REFRESH STREAM TABLE quotients").collect()
    s.step("DELETE FROM t WHERE v = 0")
    assert (25.0,) in s.rows("quotients")


def test_pattern_39_a_gap_in_the_log_is_found(s: Scenario) -> None:
    groups(s, "'delta.checkpointInterval'='2'")
    s.stream("g", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    s.change(*(f"INSERT INTO t VALUES ({n}, {n})" for n in range(4)))
    *_, before_the_checkpoint, _, _ = sorted(folder(s.spark, "t").glob("_delta_log/*.json"))
    before_the_checkpoint.unlink()
    s.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    assert "does not hold all versions" in s.refresh("g", action="REINITIALIZE")["reason"]
    s.step("INSERT INTO t VALUES (1, 7)")


def test_pattern_39_a_gap_in_the_log_of_the_stream_table_itself(s: Scenario) -> None:
    """As the cleaning of its log leaves it, when others (OPTIMIZE, RESUME) wrote versions since its last refresh."""
    groups(s)
    full = {"g": "", "f": " FULL"}
    s.streams(dict.fromkeys(full, "SELECT k, sum(v) AS s FROM t GROUP BY k"))
    s.streams({f"above_{name}": f"SELECT count(*) AS n FROM {name}" for name in full})

    def cleaned(name: str) -> None:
        s.spark.sql(f"ALTER STREAM TABLE {name} SET TBLPROPERTIES ('delta.checkpointInterval'='2')")
        for action in ("SUSPEND", "RESUME", "SUSPEND", "RESUME"):
            s.spark.sql(f"ALTER STREAM TABLE {name} {action}")
        place = folder(s.spark, name) / "_delta_log"
        newest = max(int(each.name.partition(".")[0]) for each in place.glob("*.checkpoint*.parquet"))
        for commit in place.glob("*.json"):
            if int(commit.stem) < newest:
                commit.unlink()

    together(cleaned, full)
    s.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    for name, how in full.items():
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}{how}").collect()[0]
        assert done["action"] == ("FULL" if how else "REINITIALIZE")
        assert how or "does not hold all versions" in done["reason"]
        s.refresh(f"above_{name}", action="REINITIALIZE")  # it had read a version before those that are gone
    s.step("INSERT INTO t VALUES (1, 7)")


def test_pattern_40_a_second_refresh_applies_nothing_twice(s: Scenario) -> None:
    groups(s)
    query = "WITH c AS (SELECT k, sum(v) AS s, max(v) AS m FROM t GROUP BY k) SELECT a.k, a.s, b.m FROM c a JOIN c b ON a.s >= b.m"
    s.stream("twice_read", query)
    s.stream("g", "SELECT count(*) AS n, sum(v) AS s FROM t")
    done = s.step("UPDATE t SET v = v + 3 WHERE k < 3", "INSERT INTO t VALUES (1, 10)")
    for name, first in zip(s.queries, done, strict=True):
        assert s.refresh(name, action="NO_DATA")["version"] == first["version"]
    s.step("DELETE FROM t WHERE v > 20")


def test_pattern_42_names_of_every_kind(s: Scenario) -> None:
    s.source(
        "`Order`",
        "`select` INT, `Group` STRING, `dot.ted` INT, `bäck``tick` INT, __weight INT, __net INT, sign INT",
        "(1, 'a', 2, 3, 4, 5, 6)",
        properties="",  # Delta itself cannot write the change feed of a name with a backquote
    )
    s.stream(
        "`From`", "SELECT `SELECT` AS `where`, `group`, `dot.ted` AS `new.dot`, `bäck``tick`, __weight, __net, sign FROM `order`"
    )
    s.stream(
        "grouped",
        "SELECT `Group` AS __weight, sum(__weight) AS `sum`, max(__net) AS change, count(*) AS __row FROM `Order` GROUP BY `Group`",
    )
    s.stream(
        "joined",
        "SELECT a.`dot.ted` AS copy, b.__weight AS __net, a.sign AS net FROM `Order` a JOIN `Order` b ON a.`select` = b.`select`",
    )
    s.step("INSERT INTO `Order` VALUES (1, 'b', 2, 3, 4, 5, 6), (2, 'a', NULL, 3, 4, 5, 6)")
    s.step("UPDATE `Order` SET __weight = -1 WHERE `select` = 1", "DELETE FROM `Order` WHERE `dot.ted` IS NULL")


def test_pattern_42_nested_types_in_the_output(s: Scenario) -> None:
    s.source("t", "k INT, st STRUCT<a: INT, b: STRUCT<c: STRING>>, ar ARRAY<INT>, m MAP<STRING, INT>, b BINARY")
    row = "({0}, named_struct('a', {0}, 'b', named_struct('c', 'x')), array({0}, NULL), map('p', {0}, 'q', NULL), X'00{0}{0}')"
    s.spark.sql(f"INSERT INTO t VALUES {row.format(1)}, {row.format(1)}, (2, NULL, NULL, NULL, NULL)")
    s.streams(
        {
            "scan": "SELECT * FROM t",
            "inner_fields": "SELECT st.b.c, st.a, get(ar, 0) AS first_one, m['p'] AS p FROM t",
            "by_struct": "SELECT st, ar, count(*) AS n FROM t GROUP BY st, ar",
        }
    )
    s.step(f"INSERT INTO t VALUES {row.format(3)}", "UPDATE t SET st.b.c = 'y' WHERE k = 1")
    s.step("DELETE FROM t WHERE k = 2", "UPDATE t SET ar = array(), m = map() WHERE k = 3")


def test_pattern_42_variant_in_the_output(s: Scenario) -> None:
    s.source("t", "k INT, v VARIANT")
    s.spark.sql("""INSERT INTO t SELECT 1, parse_json('{"a": 1}')""")
    s.spark.sql("CREATE STREAM TABLE variants REFRESH MODE DIFFERENTIAL AS SELECT k, v FROM t")
    s.spark.sql("CREATE STREAM TABLE parts REFRESH MODE DIFFERENTIAL AS SELECT k, first(v) AS v FROM t GROUP BY k")
    s.spark.sql("""INSERT INTO t SELECT 2, parse_json('[1, null]')""")
    s.spark.sql("INSERT INTO t SELECT 3, parse_json('null') UNION ALL SELECT 4, NULL")
    s.spark.sql("UPDATE t SET k = 5 WHERE k = 1")
    for name in ("variants", "parts"):
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]
        assert (done["action"], done["rows_inserted"], done["rows_deleted"]) == ("DIFFERENTIAL", 4, 1)
        found = s.spark.sql(f"SELECT k, to_json(v) AS j FROM {name} ORDER BY k").collect()
        assert [tuple(row) for row in found] == [(2, "[1,null]"), (3, "null"), (4, None), (5, '{"a":1}')]
        s.spark.sql(f"DROP STREAM TABLE {name}")


def test_pattern_42_a_thousand_columns(s: Scenario) -> None:
    s.source("wide", ", ".join(f"c{n} INT" for n in range(1000)))
    s.spark.sql("INSERT INTO wide (c0, c999) VALUES (1, 2), (3, 4)")
    s.stream("all_of_them", "SELECT * FROM wide")
    s.step("UPDATE wide SET c500 = 7 WHERE c0 = 1")


def test_pattern_42_long_queries_comments_and_semicolons_in_strings(s: Scenario) -> None:
    groups(s)
    query = f"""SELECT k, -- a comment; with a semicolon and 'a quote
        'x; -- no comment /* nor this */' AS a, "it''s; AS SELECT" AS b /* REFRESH ; */
        FROM t WHERE v IN ({", ".join(str(n) for n in range(3000))})"""
    s.stream("long_one", query)
    s.step("INSERT INTO t VALUES (4, 2999), (5, 3000)", "DELETE FROM t WHERE k = 1")
    assert len(s.rows("long_one")) == 3
