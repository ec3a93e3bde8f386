"""Patterns 25, 27-29, 31 and 32 of the known wrong results of other systems: numbers, global aggregates, duplicates, identity."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario
from tests.oracle.together import together
from tests.versions import needs

from streamtable.algebra.sources import Snapshot, Source
from streamtable.engine.sources import Sources
from streamtable.errors import InvalidStatement


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        yield scenario


def test_pattern_25_special_floats_enter_and_leave(s: Scenario) -> None:
    guests = {1: "double('NaN')", 2: "double('Infinity')", 3: "double('-Infinity')", 4: "1e20D"}
    s.source("t", "k INT, v DOUBLE", ", ".join(f"({k}, 1.0), ({k}, 2.0)" for k in guests) + ", (5, 0.5)")
    s.stream("g", "SELECT k, sum(v) AS s, avg(v) AS a, min(v) AS lo, max(v) AS hi, count(*) AS n FROM t GROUP BY k")
    s.stream("scan", "SELECT v FROM t")
    s.step("INSERT INTO t " + " UNION ALL ".join(f"SELECT {k}, {guest}" for k, guest in guests.items()))
    s.step("DELETE FROM t WHERE " + " OR ".join(f"v = {guest}" for guest in guests.values()))
    assert s.rows("g") == [*((k, 3.0, 1.5, 1.0, 2.0, 2) for k in guests), (5, 0.5, 0.5, 0.5, 0.5, 1)]


def test_pattern_27_chained_joins_on_aggregates_into_a_populated_group(s: Scenario) -> None:
    s.source("c", "id INT, name STRING", "(1, 'a'), (2, 'b')")
    s.source("o", "customer INT, amount INT", "(1, 10), (1, 30), (2, 5)")
    s.source("v", "customer INT, day INT", "(1, 100), (2, 200)", properties="")
    query = """WITH spent AS (SELECT customer, sum(amount) AS total FROM o GROUP BY customer),
        seen AS (SELECT customer, max(day) AS latest FROM v GROUP BY customer)
        SELECT c.name, spent.total, seen.latest
        FROM c {how} JOIN spent ON c.id = spent.customer {how} JOIN seen ON c.id = seen.customer"""
    s.stream("inner_ones", query.format(how=""))
    s.stream("left_ones", query.format(how="LEFT"), mode="AUTO")
    for statements in (
        ["INSERT INTO o VALUES (1, 7), (2, 1)", "INSERT INTO v VALUES (1, 150), (2, 20)"],
        ["DELETE FROM v WHERE day = 150", "DELETE FROM o WHERE customer = 2"],
        ["INSERT INTO c VALUES (3, 'new')", "UPDATE o SET customer = 2 WHERE amount = 30"],
    ):
        s.step(*statements)


def test_pattern_28_a_global_aggregate_goes_to_empty_and_back(s: Scenario) -> None:
    s.source("t", "k INT, v INT")
    s.streams(
        {
            "totals": "SELECT count(*) AS n, sum(v) AS s, min(v) AS lo, max(v) AS hi, avg(v) AS a FROM t",
            "distincts": "SELECT count(DISTINCT k) AS a, count(DISTINCT v) AS b, sum(DISTINCT v) AS c, count(*) FILTER (WHERE v > 5) AS d FROM t",
            "filtered": "SELECT sum(v) FILTER (WHERE k = 1) AS s, count(DISTINCT v) FILTER (WHERE k = 1) AS d FROM t",
            "kept": "SELECT count(*) AS n FROM t HAVING count(*) < 2",
        }
    )
    assert s.rows("totals") == [(0, None, None, None, None)]
    s.step("INSERT INTO t VALUES (1, 5), (1, 9), (NULL, 9), (2, NULL)")
    assert s.rows("kept") == []
    s.step("DELETE FROM t WHERE true")
    assert s.rows("totals") == [(0, None, None, None, None)]
    assert s.rows("kept") == [(0,)]
    s.step("INSERT INTO t VALUES (2, 7)")


def test_columns_of_one_name_in_two_tables_are_aggregated_apart(s: Scenario) -> None:
    """Both counts were that of the first table, and so were sums, averages and counts of distinct values."""
    s.source("a", "k INT, v INT", "(1, 1), (1, 2), (2, 5)")
    s.source("b", "k INT, v INT", "(1, 10), (1, NULL), (2, NULL)")
    joined = "FROM a JOIN b ON a.k = b.k GROUP BY a.k"
    s.streams(
        {
            "sums": f"SELECT a.k, count(a.v) AS m, count(b.v) AS n, sum(a.v) AS s, sum(b.v) AS t, avg(b.v) AS u {joined}",
            "differences": f"SELECT a.k, sum(a.v - b.v) AS s, sum(b.v - a.v) AS t {joined}",
            "filtered": f"SELECT a.k, count(*) FILTER (WHERE a.v > 4) AS m, count(*) FILTER (WHERE b.v > 4) AS n {joined}",
            "distincts": f"SELECT a.k, count(DISTINCT a.v) AS m, count(DISTINCT b.v) AS n {joined}",
        }
    )
    s.step("INSERT INTO a VALUES (2, 6), (3, 7)", "INSERT INTO b VALUES (2, 20), (3, 30), (3, NULL)")
    s.step("DELETE FROM a WHERE v = 2", "UPDATE b SET v = 3 WHERE v = 10")


def test_of_rows_with_one_order_max_by_takes_the_greatest_value(s: Scenario) -> None:
    """Spark takes any of them, so that a refresh kept one and VERIFY computed another."""
    s.source("t", "k INT, x STRING, y INT", "(1, 'b', 5), (1, 'a', 5), (1, 'z', 4), (2, NULL, 1), (2, 'c', 1)")
    s.spark.sql("CREATE STREAM TABLE ties AS SELECT k, max_by(x, y) AS hi, min_by(x, y) AS lo FROM t GROUP BY k")
    for change, expected in (
        ("INSERT INTO t VALUES (1, 'aa', 5), (2, 'd', 1)", [(1, "b", "z"), (2, "d", None)]),
        ("DELETE FROM t WHERE x = 'b'", [(1, "aa", "z"), (2, "d", None)]),
        ("UPDATE t SET y = 5", [(1, "z", "a"), (2, "d", None)]),
    ):
        s.change(change)
        assert s.spark.sql("REFRESH STREAM TABLE ties").collect()[0]["action"] == "DIFFERENTIAL"
        assert s.rows("ties") == expected
        assert s.spark.sql("VERIFY STREAM TABLE ties").collect()[0]["ok"]


@needs("max_by(x, y, k)")
def test_of_rows_with_one_order_max_by_of_several_takes_the_greatest_values(s: Scenario) -> None:
    """Spark takes any of them, so that a refresh kept some and VERIFY computed others."""
    s.source("t", "k INT, x STRING, y INT", "(1, 'b', 5), (1, 'a', 5), (1, 'z', 4), (2, NULL, 1), (2, 'c', 1), (2, 'n', NULL)")
    s.spark.sql("CREATE STREAM TABLE several AS SELECT k, max_by(x, y, 2) AS hi, min_by(x, y, 2) AS lo FROM t GROUP BY k")
    over = "max_by(x, y, 2) OVER (PARTITION BY k)"
    s.spark.sql(f"CREATE STREAM TABLE windowed AS SELECT k, x, {over} AS hi FROM t")
    for change, expected in (
        ("INSERT INTO t VALUES (1, 'aa', 5), (2, 'd', 1)", [(1, ["b", "aa"], ["z", "a"]), (2, ["d", "c"], [None, "c"])]),
        ("DELETE FROM t WHERE x = 'b'", [(1, ["aa", "a"], ["z", "a"]), (2, ["d", "c"], [None, "c"])]),
        ("UPDATE t SET y = 5 WHERE y IS NOT NULL", [(1, ["z", "aa"], ["a", "aa"]), (2, ["d", "c"], [None, "c"])]),
    ):
        s.change(change)
        assert s.spark.sql("REFRESH STREAM TABLE several").collect()[0]["action"] == "DIFFERENTIAL"
        s.spark.sql("REFRESH STREAM TABLE windowed")
        assert s.rows("several") == expected
        for name in ("several", "windowed"):
            assert s.spark.sql(f"VERIFY STREAM TABLE {name}").collect()[0]["ok"]


def test_the_winner_of_a_group_comes_goes_and_changes(s: Scenario) -> None:
    """By orders with NULL, NaN and both zeros, filtered, of maps, and by orders that Delta does not store."""
    s.source("t", "k INT, x STRING, y DOUBLE, n INT, m MAP<STRING, INT>")
    s.source("u", "n INT", "(1), (2), (3), (4)")
    some = "max_by(x, y) AS hi, min_by(x, y) AS lo, max_by(m, y) AS of_maps, max_by(x, struct(n, x)) AS by_two"
    joined = (
        "SELECT t.k, max_by(t.x, u.n) AS a, min_by(t.n, u.n) AS b, max_by(u.n, t.n) AS c FROM t JOIN u ON t.n = u.n GROUP BY t.k"
    )
    s.streams(
        {
            "winners": f"SELECT k, {some}, max_by(n, y) FILTER (WHERE n > 2) AS filtered FROM t GROUP BY k",
            "of_all": f"SELECT {some}, count(*) AS n FROM t",
            "shown": "SELECT k, count(*) AS n, max(y) AS y, max_by(x, y) AS x FROM t GROUP BY k",
            "not_kept": "SELECT k, max_by(x, make_dt_interval(n)) AS a, min_by(x, struct(n, n AS N)) AS b FROM t GROUP BY k",
            "of_a_join": joined,
        }
    )

    def inserted(*rows: str) -> str:
        return f"INSERT INTO t SELECT k, x, y, n, map('a', n) FROM VALUES {', '.join(rows)} AS v(k, x, y, n)"

    s.step(inserted("(1, 'a', 1.5D, 1)", "(1, 'b', -0.0D, 2)", "(2, 'c', NULL, 3)"))
    s.step(inserted("(1, 'd', double('NaN'), 4)", "(2, 'e', -1e300D, 1)", "(3, NULL, 1.0D, NULL)"))
    s.step("DELETE FROM t WHERE n = 4", "UPDATE t SET x = 'other' WHERE n = 2", inserted("(4, 'g', 0.25D, 4)"))
    s.step("UPDATE t SET y = 0.0D WHERE y = -0.0D", inserted("(3, 'z', 0.5D, 2)"), "DELETE FROM t WHERE k = 2 AND n = 1")
    s.step("DELETE FROM t WHERE y IS NOT NULL")
    assert s.rows("winners") == [(2, None, None, None, "c", None)]
    s.step("DELETE FROM t WHERE true")
    assert s.rows("of_all") == [(None, None, None, None, 0)]


def test_pattern_29_decimals_grow_and_intervals_add_up(s: Scenario) -> None:
    s.source("t", "k INT, d DECIMAL(38,2), e DECIMAL(10,4), i BIGINT, m INT", properties="")
    s.stream("g", "SELECT k, sum(d) AS d, avg(d) AS f, sum(e) AS e, avg(e) AS h FROM t GROUP BY k", mode="AUTO")
    s.stream("scan", "SELECT k, d + e AS total, CAST(make_dt_interval(i) AS STRING) AS days FROM t")
    # Delta stores no intervals, so no arrangement can hold their sums: that table is recomputed, and says so.
    s.spark.sql("CREATE STREAM TABLE lengths AS SELECT k, CAST(sum(make_dt_interval(0, 0, 0, i)) AS STRING) AS i FROM t GROUP BY k")
    large = "999999999999999999999999999999.99"
    s.step(f"INSERT INTO t SELECT 1, {large}, 999999.9999, 93784, 14")
    s.step(f"INSERT INTO t SELECT 1, {large}, 0.0001, -259200, NULL", "INSERT INTO t (k) VALUES (2)")
    s.step("DELETE FROM t WHERE e > 1")
    done = s.spark.sql("REFRESH STREAM TABLE lengths").collect()[0]
    assert (done["action"], "interval" in done["reason"].lower()) == ("FULL", True)
    assert s.rows("lengths") == [(1, "INTERVAL '-3 00:00:00' DAY TO SECOND"), (2, None)]
    s.spark.sql("DROP STREAM TABLE lengths")


def test_pattern_29_integer_overflow_under_ansi_fails_and_recovers(s: Scenario) -> None:
    s.source("t", "id INT, v BIGINT", "(1, 9223372036854775807), (2, -5)")
    s.stream("g", "SELECT count(*) AS n, sum(v) AS s FROM t")
    before = s.rows("g")
    s.change("INSERT INTO t VALUES (3, 6)")
    with pytest.raises(PySparkException, match="(?i)overflow"):
        s.spark.sql("REFRESH STREAM TABLE g").collect()
    assert s.rows("g") == before
    s.step("DELETE FROM t WHERE id = 1")
    assert s.rows("g") == [(2, 1)]


def test_pattern_29_overflow_without_ansi_is_null_or_wraps_and_goes_again(s: Scenario) -> None:
    s.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        s.source("t", "k INT, d DECIMAL(38,2), e DECIMAL(28,2), v BIGINT", "(1, 5, 1, 7), (2, 1, 1, 1)")
        s.stream("g", "SELECT k, sum(d) AS d, avg(d) AS a, sum(e) AS e, sum(v) AS v FROM t GROUP BY k")
        large = "CAST('999999999999999999999999999999999999.99' AS DECIMAL(38,2)), 2, 9223372036854775807"
        s.step(f"INSERT INTO t VALUES (1, {large})")  # over the top together with the old value
        assert s.rows("g")[0] == (1, None, None, Decimal("3.00"), -9223372036854775802)
        s.step(f"INSERT INTO t VALUES (2, {large}), (2, {large})")  # by what is new alone
        assert s.rows("g")[1][1:3] == (None, None)
        s.step("DELETE FROM t WHERE e = 2")
        assert s.rows("g") == [
            (1, Decimal("5.00"), Decimal("5.000000"), Decimal("1.00"), 7),
            (2, Decimal("1.00"), Decimal("1.000000"), Decimal("1.00"), 1),
        ]
    finally:
        s.spark.conf.unset("spark.sql.ansi.enabled")


def test_pattern_29_timestamps_around_a_clock_change_keep_the_time_zone_of_create(s: Scenario) -> None:
    zone = s.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    s.source("t", "id INT, at TIMESTAMP")
    try:
        s.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        s.stream("hours", "SELECT hour(at) AS h, date_trunc('HOUR', at) AS begun, count(*) AS n FROM t GROUP BY 1, 2")
        s.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        at = "timestamp'2024-10-26 23:30:00Z' + make_interval(0, 0, 0, 0, id, 0, 0)"
        s.change(f"INSERT INTO t SELECT CAST(id AS INT), {at} FROM range(4)")
        done = s.spark.sql("REFRESH STREAM TABLE hours").collect()[0]
        assert done["action"] == "DIFFERENTIAL"
        assert sorted(row["h"] for row in s.spark.table("hours").collect()) == [1, 2, 2, 3]
        s.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        s.step("DELETE FROM t WHERE id = 1")
    finally:
        s.spark.conf.set("spark.sql.session.timeZone", zone)


def test_pattern_31_one_of_several_equal_rows_is_deleted_or_updated(s: Scenario) -> None:
    s.source("t", "a INT, b STRING, id INT", "(1, 'x', 1), (1, 'x', 2), (1, 'x', 3), (NULL, NULL, 4), (NULL, NULL, 5)")
    s.source("u", "a INT", "(1), (1), (1), (2)", properties="")
    s.stream("keyless", "SELECT a, b FROM t")
    s.stream("scan", "SELECT * FROM u")
    done = s.step("DELETE FROM t WHERE id IN (2, 5)", "INSERT OVERWRITE u VALUES (1), (2), (1)")
    assert s.rows("keyless") == [(1, "x"), (1, "x"), (None, None)]
    assert s.rows("scan") == [(1,), (1,), (2,)]
    assert [(d["rows_inserted"], d["rows_deleted"]) for d in done] == [(0, 2), (0, 1)]
    s.step("UPDATE t SET b = 'y' WHERE id = 3", "INSERT INTO u VALUES (2)")
    assert s.rows("keyless") == [(1, "x"), (1, "y"), (None, None)]


def test_pattern_32_identity_is_exact(s: Scenario) -> None:
    texts = """('a', 'bc', 1), ('ab', 'c', 2), (NULL, 'x', 3), ('NULL', 'x', 4), ('', 'x', 5), ('a,', 'b', 6),
        ('a', ',b', 7), ('A', 'bc', 8), ('a ', 'bc', 9)"""
    s.source("t", "p STRING, q STRING, id INT", texts)
    s.streams(
        {
            "rows_of": "SELECT p, q FROM t",
            "groups_of": "SELECT p, q, count(*) AS n FROM t GROUP BY p, q",
            "distinct_of": "SELECT DISTINCT p, q FROM t",
            "nested_of": "SELECT struct(p, q) AS s, array(p, q) AS a FROM t",
        }
    )
    for gone in ("1, 6", "4, 9"):  # of two rows that a careless spelling makes the same, one at a time
        s.step(f"DELETE FROM t WHERE id IN ({gone})")
    s.step("UPDATE t SET p = 'NULL' WHERE p IS NULL", "UPDATE t SET p = NULL WHERE p = ''")


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_above_a_sum_of_floats_is_computed_of_the_stored_sums(
    s: Scenario, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Each evaluation may add up in another order: here each reads the source in the order that the one before did not have."""
    read, turns = Sources.__call__, itertools.count(first)

    def turned(self: Sources, source: Source | int, snapshot: Snapshot) -> str:
        name, turn = read(self, source, snapshot), next(turns)
        rows = self.workspace.session.table(name).coalesce(1)
        return self.workspace.name(f"{name}_{turn}", rows.sortWithinPartitions("v", ascending=turn % 2 == 0))

    s.source(
        "sold", "region STRING, customer STRING, v DOUBLE", "('n', 'a', 0.1D), ('n', 'a', 0.2D), ('n', 'a', 0.3D), ('s', 'b', 1D)"
    )
    sums = "SELECT region, customer, sum(v) AS total FROM sold GROUP BY region, customer"
    with monkeypatch.context() as patched:
        patched.setattr(Sources, "__call__", turned)
        s.stream("most", f"SELECT region, max(total) AS m FROM ({sums}) GROUP BY region")
        s.stream("counted", f"SELECT region, max(total) AS m, count(*) AS n FROM ({sums}) GROUP BY region")
        top = "SELECT region, max(total) AS m FROM sums GROUP BY region"
        s.stream("best", f"WITH sums AS ({sums}) SELECT s.*, t.m FROM sums s JOIN ({top}) t ON s.region = t.region")
        up, down = "0.1D + 0.2D + 0.3D", "0.3D + 0.2D + 0.1D"
        for total in (up, up, down):  # the query's own evaluation gives one of them, or both in turn
            rows = f"VALUES ('n', {total}, 1L), ('s', 1D, 1L) AS t (region, m, n)"
            s.spark.sql(f"CREATE OR REPLACE TABLE old USING delta AS SELECT * FROM {rows}")
            with suppress(InvalidStatement):
                s.spark.sql(f"CREATE STREAM TABLE given REFRESH MODE DIFFERENTIAL BACKFILL FROM old AS {s.queries['counted']}")
                s.queries["given"] = s.queries["counted"]
                break
        assert "given" in s.queries
        s.stream("few", "SELECT customer, sum(v) AS total, count(*) AS n FROM sold GROUP BY customer HAVING sum(v) <= 0.6D")
        s.stream("many", "SELECT customer, sum(v) AS total, count(*) AS n FROM sold GROUP BY customer HAVING sum(v) > 0.6D")
    for change in ("DELETE FROM sold WHERE v = 0.1D", "DELETE FROM sold WHERE customer = 'a'"):
        s.change(change)
        for name, query in s.queries.items():
            done = s.spark.sql(f"REFRESH STREAM TABLE {name}").first()
            assert done is not None
            assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
            assert_exact(s.spark, name, query)


def test_a_condition_that_tells_equal_keys_apart_is_not_asked_of_the_group(s: Scenario) -> None:
    """Spark asks the condition of each row, before it groups: the states of a group cannot tell its rows apart."""
    s.source("t", "id INT, g INT, x DOUBLE", "(1, 1, 0.0D), (2, 1, 1.5D)")
    numbered = "SELECT g, x, count(*) OVER (PARTITION BY x ORDER BY id) AS n FROM t"
    told = {
        "having": "SELECT x, count(*) AS n FROM t GROUP BY x HAVING CAST(x AS STRING) = '0.0'",
        "twice": "SELECT DISTINCT CAST(x AS STRING) AS s FROM (SELECT DISTINCT x FROM t)",
        "numbered": f"SELECT g, max(n) AS m FROM ({numbered}) WHERE CAST(x AS STRING) = '0.0' GROUP BY g",
        "grouped": "SELECT s, count(*) AS n FROM (SELECT CAST(x AS STRING) AS s FROM (SELECT DISTINCT x FROM t)) GROUP BY s HAVING s = '0.0'",
        "greatest": "SELECT CAST(x AS STRING) AS s, max(g) AS m FROM (SELECT DISTINCT x, g FROM t) GROUP BY CAST(x AS STRING)",
        "between": "SELECT n FROM (SELECT CAST(x AS STRING) AS s, n FROM (SELECT x, count(*) AS n FROM t GROUP BY x)) WHERE s = '0.0'",
    }
    s.streams(told, mode="AUTO")
    fair = {
        "compared": "SELECT x, count(*) AS n FROM t GROUP BY x HAVING x < 1 OR x IN (0, 1.5) OR x IS NULL OR round(x, 1) + x / 2 > 9",
        "shown": "SELECT CAST(x AS STRING) AS s, n FROM (SELECT x, count(*) AS n FROM t WHERE CAST(x AS STRING) <> '-0.0' GROUP BY x)",
        "squared": "SELECT g, sum(power(x, 2)) AS q, count(*) AS n FROM (SELECT DISTINCT g, x FROM t) GROUP BY g",
        "by": "SELECT CAST(x AS STRING) AS s, count(*) AS n FROM t GROUP BY CAST(x AS STRING) HAVING s = '0.0'",
    }
    s.streams(fair)

    def refresh(name: str) -> None:
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        assert (done["action"] == "FULL") == (name in told), done
        if name not in told:
            assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
        assert_exact(s.copies.session(), name, s.queries[name])

    for change in ("INSERT INTO t VALUES (3, 1, -0.0D), (4, 1, 0.0D)", "DELETE FROM t WHERE id = 4", "DELETE FROM t WHERE id = 1"):
        s.change(change)
        together(refresh, s.queries)
