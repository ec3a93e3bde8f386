"""Rounds in which sources only grow: rows of a stream table may go all the same, because a partner, a rank or a value came.

The random rounds nearly always delete something somewhere, which hides a shortcut that looks at the sources alone.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

QUERIES = {
    "left_outer": "SELECT l.k, l.v, r.w FROM l LEFT JOIN r ON l.k = r.k",
    "full_outer": "SELECT l.k AS a, l.v, r.k AS b, r.w FROM l FULL JOIN r ON l.k = r.k",
    "anti": "SELECT k, v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "not_in": "SELECT k, v FROM l WHERE v NOT IN (SELECT w FROM r)",
    "not_not_in": "SELECT k, v FROM l WHERE NOT (k NOT IN (SELECT w FROM r))",
    "neither": "SELECT k, v FROM l WHERE NOT (v < 15 AND k NOT IN (SELECT w FROM r WHERE w <> 3))",
    "scalar": "SELECT k, v, (SELECT max(w) FROM r WHERE r.k = l.k) AS m FROM l",
    "window_sum": "SELECT v, sum(v) OVER (PARTITION BY k) AS s FROM l",
    "top": "SELECT k, v FROM l ORDER BY v DESC, k LIMIT 2",
    "top_per_row": "SELECT l.v, q.w FROM l, LATERAL (SELECT w FROM r WHERE r.k = l.k ORDER BY w DESC LIMIT 1) q",
}


def test_appends_take_rows_away(spark: SparkSession) -> None:
    with Scenario(spark) as scenario:
        scenario.source("l", "k INT, v INT", "(1, 10), (1, 20), (2, 40), (NULL, 50)")
        scenario.source("r", "k INT, w INT", "(1, 1), (3, 3)")
        for name, query in QUERIES.items():
            scenario.stream(name, query)
        scenario.change("INSERT INTO r VALUES (2, 7), (1, 20), (3, NULL)")
        for name in QUERIES:
            scenario.refresh(name, "NO_DATA" if name in ("window_sum", "top") else "DIFFERENTIAL")
        scenario.change("INSERT INTO l VALUES (3, 60), (1, 15)")
        for name in QUERIES:
            scenario.refresh(name)
