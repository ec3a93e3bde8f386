"""Sessions, which Spark merges by a mark in a column's metadata: late rows join two, deletions split one, keys move."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

from streamtable.errors import NotIncremental

GAP = "session_window(z, '10 minutes')"
KEPT = {
    "by_key": f"SELECT k, session_window.start AS a, session_window.end AS b, sum(v) AS s, count(*) AS n, max(v) AS m FROM t GROUP BY k, {GAP}",
    "by_expression": f"SELECT k % 2 AS p, session_window, sum(v + k % 2) AS s FROM t GROUP BY k % 2, {GAP}",
    "no_key_shown": f"SELECT session_window.end AS b, min(v) AS m FROM t GROUP BY k, {GAP} HAVING count(*) > 1",
    "alone": f"SELECT session_window AS w, count(*) AS n FROM t GROUP BY {GAP} HAVING count(*) > 1",
    "gap_of_row": "SELECT session_window, k, sort_array(collect_list(v)) AS l, count(DISTINCT v) AS d FROM t GROUP BY session_window(z, g), k",
    "joined": f"SELECT t.id, w.session_window, w.n FROM t JOIN (SELECT session_window, k, count(*) AS n FROM t GROUP BY {GAP}, k) w "
    "ON t.k = w.k AND t.z >= w.session_window.start AND t.z < w.session_window.end",
    "of_sessions": f"SELECT session_window AS w, sum(n) AS n FROM (SELECT session_window, k, count(*) AS n FROM t GROUP BY {GAP}, k) GROUP BY session_window",
    "by_levels": f"SELECT session_window, k, count(*) AS n FROM t GROUP BY GROUPING SETS (({GAP}, k), ({GAP}))",
    "of_tables": "SELECT w, count(*) AS n FROM kept GROUP BY w",
    "kept_as_is": "SELECT w, k FROM kept",
    "sliding": "SELECT window, k, count(*) AS n, max(x) AS x FROM (SELECT window, window_time(window) AS x, k FROM "
    "(SELECT window(z, '10 minutes', '5 minutes') AS window, k FROM t)) GROUP BY window, k",
}
REFUSED = {
    "several DISTINCT": f"SELECT session_window, count(DISTINCT v) AS a, count(DISTINCT id) AS b FROM t GROUP BY {GAP}",
    "DISTINCT with FILTER": f"SELECT session_window, count(DISTINCT v) FILTER (WHERE id > 2) AS a FROM t GROUP BY {GAP}",
    "a condition": f"SELECT * FROM (SELECT session_window.start AS a, count(*) AS n FROM t GROUP BY {GAP}) WHERE a > '2026-01-01 00:30:00'",
    "an equality": f"SELECT t.id, w.n FROM t JOIN (SELECT session_window.start AS a, count(*) AS n FROM t GROUP BY {GAP}) w ON t.z = w.a",
    "an aggregate of them": f"SELECT session_window, min(session_window.end) AS e FROM t GROUP BY {GAP}",
    "a set operation": f"SELECT {GAP} AS w FROM t INTERSECT SELECT {GAP} FROM t",
    "a key of floats": f"SELECT session_window, count(*) AS n FROM t GROUP BY {GAP}, CAST(v AS DOUBLE)",
}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        scenario.source("t", "id INT, k INT, z TIMESTAMP, v INT, g STRING", values(random.Random(5), range(12)))
        scenario.change("INSERT INTO t VALUES (100, 1, NULL, 1, '1 minute'), (101, NULL, '2026-01-01 00:07:00', 1, '0 minutes')")
        spark.sql(f"CREATE TABLE kept USING delta AS SELECT {GAP} AS w, k, id FROM t")
        yield scenario


def values(rnd: random.Random, ids: range) -> str:
    rows = (
        f"({n}, {rnd.choice((1, 1, 2))}, '2026-01-01 00:{rnd.randrange(60):02}:00', {rnd.randrange(4)}, '{rnd.choice((1, 7, 15))} minutes')"
        for n in ids
    )
    return ", ".join(rows)


def test_sessions_merge_and_split_as_rows_come_and_go(s: Scenario) -> None:
    for name, query in KEPT.items():
        s.stream(name, query)
    s.step(
        f"INSERT INTO t VALUES {values(random.Random(6), range(20, 23))}",
        "DELETE FROM t WHERE id % 5 = 1",
        "UPDATE t SET k = 3 - k, z = z + INTERVAL 4 MINUTES WHERE id % 4 = 1",
        f"INSERT INTO kept SELECT {GAP}, k, id FROM t WHERE id >= 20",
        "DELETE FROM kept WHERE id = 5",
    )
    assert all(s.spark.sql(f"VERIFY STREAM TABLE {name}").first()["ok"] for name in ("by_key", "kept_as_is"))  # type: ignore[index]


def test_what_spark_answers_otherwise_than_by_sessions_is_not_maintained(s: Scenario) -> None:
    for query in REFUSED.values():
        with pytest.raises(NotIncremental, match="Session window"):
            s.spark.sql(f"CREATE STREAM TABLE refused REFRESH MODE DIFFERENTIAL AS {query}")
    s.stream("condition", REFUSED["a condition"], mode="AUTO")
    s.step(
        "INSERT INTO t VALUES (50, 1, '2026-01-01 00:29:30', 1, '1 minute'), (51, 1, '2026-01-01 00:35:30', 1, '1 minute')",
        action="FULL",
    )


def test_metadata_of_no_known_meaning_is_not_maintained(s: Scenario) -> None:
    frame = s.spark.table("t")
    marked = frame.select(frame.id, frame.v.alias("v", metadata={"someone.decides": True}))
    marked.write.format("delta").saveAsTable("of_others")
    s.spark.sql("CREATE STREAM TABLE without_it REFRESH MODE DIFFERENTIAL AS SELECT id FROM of_others")
    with pytest.raises(NotIncremental, match=r"Column v .* metadata someone.decides"):
        s.spark.sql("CREATE STREAM TABLE with_it REFRESH MODE DIFFERENTIAL AS SELECT sum(v) AS s FROM of_others")
