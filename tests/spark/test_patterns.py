"""Patterns 1-6, 9 and 18-23 of the known wrong results of other systems: joins, filters and plain aggregates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        yield scenario


def two_tables(s: Scenario) -> None:
    """Create l with a change feed and r without one."""
    s.source("l", "k INT, v INT", "(1, 10), (1, 10), (2, 20), (NULL, 30)")
    s.source("r", "k INT, w STRING", "(1, 'a'), (2, 'b'), (2, 'b'), (NULL, 'n')", properties="")


def test_pattern_01_both_sides_change_in_one_refresh(s: Scenario) -> None:
    two_tables(s)
    s.stream("j", "SELECT l.k, l.v, r.w FROM l JOIN r ON l.k = r.k")
    s.step("INSERT INTO l VALUES (3, 31), (3, 31)", "INSERT INTO r VALUES (3, 'c')")
    assert s.rows("j").count((3, 31, "c")) == 2
    s.step("DELETE FROM l WHERE k = 3", "DELETE FROM r WHERE k = 3")
    s.step("UPDATE l SET v = v + 1 WHERE k = 1", "UPDATE r SET w = 'z' WHERE k = 1")


def test_pattern_02_left_key_update_with_delete_of_the_old_partner(s: Scenario) -> None:
    two_tables(s)
    s.stream("j", "SELECT l.k, l.v, r.w FROM l JOIN r ON l.k = r.k")
    s.step("UPDATE l SET k = 2 WHERE k = 1", "DELETE FROM r WHERE k = 1")
    assert (1, 10, "a") not in s.rows("j")


def test_pattern_03_combined_deletes_on_three_tables(s: Scenario) -> None:
    two_tables(s)
    s.source("x", "k INT, t STRING", "(1, 'p'), (2, 'q'), (2, 'q')")
    s.stream("j", "SELECT l.v, r.w, x.t FROM l JOIN r ON l.k = r.k JOIN x ON r.k = x.k")
    s.step("DELETE FROM l WHERE k = 1", "DELETE FROM r WHERE k = 2", "DELETE FROM x WHERE k = 2")
    assert s.rows("j") == []
    s.step("INSERT INTO r VALUES (2, 'e')", "INSERT INTO x VALUES (2, 'f')", "DELETE FROM l WHERE k IS NULL")
    assert s.rows("j") == [(20, "e", "f")]


def test_pattern_04_the_order_of_the_sides_gives_rows_no_other_identity(s: Scenario) -> None:
    s.source("l", "k INT, v STRING", "(1, 'a'), (1, 'b')")
    s.source("r", "k INT, v STRING", "(1, 'b'), (1, 'a')")
    s.stream("j", "SELECT l.v AS x, r.v AS y FROM l JOIN r ON l.k = r.k")
    s.step("UPDATE l SET v = 'b' WHERE v = 'a'", "INSERT INTO r VALUES (1, 'c')")
    s.step("DELETE FROM r WHERE v = 'b'", "INSERT INTO l VALUES (1, 'c')")


def test_pattern_05_equal_output_rows_of_distinct_input_rows_survive(s: Scenario) -> None:
    two_tables(s)
    s.stream("j", "SELECT r.w FROM l JOIN r ON l.k = r.k")
    s.step("INSERT INTO l VALUES (2, 21), (2, 22)")
    assert s.rows("j").count(("b",)) == 6
    s.step("DELETE FROM l WHERE v = 21")
    assert s.rows("j").count(("b",)) == 4


def test_pattern_06_insert_and_delete_of_an_equal_row_are_netted(s: Scenario) -> None:
    two_tables(s)
    s.stream("scan", "SELECT * FROM l")
    s.stream("j", "SELECT l.v, r.w FROM l JOIN r ON l.k = r.k")
    before = s.rows("scan"), s.rows("j")
    for statement in (
        "INSERT INTO l VALUES (7, 7)",
        "DELETE FROM l WHERE k = 7",
        "DELETE FROM l WHERE k = 2",
        "INSERT INTO l VALUES (2, 20)",
    ):
        s.change(statement)
    done = [s.refresh(name) for name in s.queries]
    assert before == (s.rows("scan"), s.rows("j"))
    assert [(d["rows_inserted"], d["rows_deleted"]) for d in done] == [(0, 0), (0, 0)]


PATTERN_09 = {
    "reverse_order": "SELECT l.v, r.w FROM l JOIN r ON r.k = l.k",
    "not_equi": "SELECT a.v AS x, b.v AS y FROM l a JOIN l b ON a.v < b.v",
    "null_safe": "SELECT l.v, r.w FROM l JOIN r ON l.k <=> r.k",
    "natural_join": "SELECT * FROM l NATURAL JOIN r",
}


def test_pattern_09_unusual_join_conditions(s: Scenario) -> None:
    two_tables(s)
    s.streams(PATTERN_09)
    s.step("INSERT INTO l VALUES (NULL, 31), (2, 5)", "INSERT INTO r VALUES (NULL, 'm'), (1, 'a')")
    s.step("DELETE FROM l WHERE k IS NULL AND v = 30", "UPDATE r SET k = NULL WHERE k = 2")


def test_pattern_18_filter_on_a_column_outside_the_output(s: Scenario) -> None:
    s.source("t", "a INT, hidden INT", "(1, 1), (1, 9), (2, 9), (2, NULL)")
    s.stream("f", "SELECT a FROM t WHERE hidden > 5")
    s.step("UPDATE t SET hidden = 9 WHERE hidden = 1")
    assert s.rows("f") == [(1,), (1,), (2,)]
    s.step("UPDATE t SET hidden = NULL WHERE a = 1", "UPDATE t SET hidden = 6 WHERE a = 2 AND hidden IS NULL")
    assert s.rows("f") == [(2,), (2,)]


def test_pattern_19_the_winner_of_min_and_max_is_deleted(s: Scenario) -> None:
    """Of group 1 without a tie, of group 3 with one."""
    s.source("t", "k INT, v INT, id INT", "(1, 5, 0), (1, 7, 1), (2, 3, 2), (3, 5, 0), (3, 7, 1)")
    for winners in ("(1, 9, 10), (3, 9, 10)", "(3, 9, 11)"):
        s.spark.sql(f"INSERT INTO t VALUES {winners}")
    s.stream("m", "SELECT k, min(v) AS lo, max(v) AS hi FROM t GROUP BY k")
    s.step("DELETE FROM t WHERE id = 10")
    assert s.rows("m") == [(1, 5, 7), (2, 3, 3), (3, 5, 9)]
    s.step("DELETE FROM t WHERE v = 5 OR v = 9", "INSERT INTO t VALUES (1, 6, 20), (3, 6, 20)")
    assert s.rows("m") == [(1, 6, 7), (2, 3, 3), (3, 6, 7)]
    s.step("UPDATE t SET v = NULL WHERE k = 2")
    assert s.rows("m") == [(1, 6, 7), (2, None, None), (3, 6, 7)]


def test_pattern_20_null_group_keys_then_delete(s: Scenario) -> None:
    s.source("t", "a INT, b STRING, v INT", "(NULL, 'x', 1), (NULL, NULL, 2), (1, NULL, 3), (NULL, 'x', 4)")
    s.stream("g", "SELECT a, b, count(*) AS n, sum(v) AS s, max(v) AS m FROM t GROUP BY a, b")
    s.stream("d", "SELECT DISTINCT a, b FROM t")
    s.step("DELETE FROM t WHERE v = 4", "INSERT INTO t VALUES (NULL, NULL, 5)")
    assert s.rows("g") == [(1, None, 1, 3, 3), (None, "x", 1, 1, 1), (None, None, 2, 7, 5)]
    s.step("DELETE FROM t WHERE a IS NULL AND b IS NULL")
    assert s.rows("d") == [(1, None), (None, "x")]


def test_pattern_21_sum_and_avg_after_the_last_value_are_null(s: Scenario) -> None:
    s.source("t", "k INT, v INT, d DECIMAL(9,2)", "(1, 5, 1.50), (1, NULL, NULL), (2, 1, 2.25)")
    s.stream("g", "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a, sum(d) AS t, avg(d) AS b FROM t GROUP BY k")
    s.step("DELETE FROM t WHERE v = 5")
    assert s.rows("g")[0] == (1, 1, None, None, None, None)
    s.step("UPDATE t SET v = 8, d = 0.75 WHERE k = 1", "UPDATE t SET v = NULL WHERE k = 2")


def test_pattern_22_having_crossed_in_both_directions(s: Scenario) -> None:
    s.source("t", "k INT, v INT", "(1, 10), (2, 3), (2, 3)")
    s.stream("h", "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 5 AND count(*) < 3")
    s.step("DELETE FROM t WHERE k = 1", "INSERT INTO t VALUES (2, 1), (3, 6)")
    assert s.rows("h") == [(3, 6)]
    s.step("UPDATE t SET v = 5 WHERE k = 3", "DELETE FROM t WHERE v = 1", "INSERT INTO t VALUES (1, 6)")
    assert s.rows("h") == [(1, 6), (2, 6)]


def test_pattern_23_sum_of_a_case_whose_deciding_column_is_updated(s: Scenario) -> None:
    s.source("t", "k INT, c STRING, v INT", "(1, 'a', 1), (1, 'b', 2), (1, 'z', 4), (2, NULL, 8)")
    s.stream("g", "SELECT k, sum(CASE WHEN c IN ('a', 'b') THEN v END) AS s, count(*) AS n FROM t GROUP BY k")
    s.step("UPDATE t SET c = 'z' WHERE c = 'a'", "UPDATE t SET c = 'b' WHERE c IS NULL")
    assert s.rows("g") == [(1, 2, 3), (2, 8, 1)]
    s.step("UPDATE t SET c = NULL WHERE c = 'b'")
    assert s.rows("g") == [(1, None, 3), (2, None, 1)]
