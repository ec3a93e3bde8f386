"""Queries over l(k, v, d, s), r(k, w) and x(k, t) with every operator of Spark SQL; what they answer is never left open."""

from __future__ import annotations

from tests.versions import known

__all__ = ["QUERIES"]

_JOINS = {
    "unused_scalar": "SELECT DISTINCT k FROM (SELECT k, (SELECT max(w) FROM r) AS m FROM l)",
    "left_outer": "SELECT l.k, l.v, r.w FROM l LEFT JOIN r ON l.k = r.k AND l.v <> r.w",
    "right_outer": "SELECT l.v, r.k, r.w FROM l RIGHT JOIN r ON l.k = r.k",
    "full_outer": "SELECT l.k AS a, l.v, r.k AS b, r.w FROM l FULL JOIN r ON l.k = r.k AND l.v > r.w",
    "full_outer_using": "SELECT k, v, w FROM l FULL JOIN r USING (k)",
    "null_safe_outer": "SELECT l.v, r.w FROM l LEFT JOIN r ON l.k <=> r.k",
    "left_semi": "SELECT * FROM l LEFT SEMI JOIN r ON l.k = r.k",
    "left_anti": "SELECT k, v FROM l LEFT ANTI JOIN r ON l.k = r.k AND r.w > 1",
    "outer_without_equality": "SELECT l.v, r.w FROM l LEFT JOIN r ON l.v < r.w",
    "outer_by_expression": "SELECT l.v, r.w FROM l LEFT JOIN r ON l.v + 1 = r.w * 2",
    "outer_of_outer": "SELECT l.v, r.w, x.t FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN x ON r.k = x.k",
    "outer_self": "SELECT a.v AS x, b.v AS y FROM l a LEFT JOIN l b ON a.v = b.k",
    "outer_under_groups": "SELECT r.w, count(*) AS n, count(l.v) AS c, sum(l.v) AS s FROM r LEFT JOIN l ON l.k = r.k GROUP BY r.w",
    "one_name_in_two_tables": "SELECT l.v, count(l.k) AS a, count(r.k) AS b, sum(r.k) AS c, sum(l.k - r.k) AS d, sum(r.k - l.k) AS e FROM l LEFT JOIN r ON l.k < r.k GROUP BY l.v",
    "distinct_in_two_tables": "SELECT r.w, count(DISTINCT l.k) AS a, count(DISTINCT r.k) AS b FROM r LEFT JOIN l ON l.k > r.k GROUP BY r.w",
    "outer_of_groups": "SELECT l.v, g.n FROM l LEFT JOIN (SELECT k, count(*) AS n FROM r GROUP BY k) g ON g.k = l.k",
    "groups_left_of_outer": "SELECT g.k, g.n, x.t FROM (SELECT k, sum(v) AS n FROM l GROUP BY k) g LEFT JOIN x ON x.k = g.k",
    "distinct_over_outer": "SELECT DISTINCT l.k, r.w FROM l LEFT JOIN r ON l.k = r.k",
    "inner_over_outer": "SELECT q.v, x.t FROM (SELECT l.k, l.v FROM l LEFT JOIN r ON l.k = r.k) q JOIN x ON x.k = q.k",
}

_SUBQUERIES = {
    "exists": "SELECT k, v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.w < l.v)",
    "not_exists": "SELECT k, v FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "exists_uncorrelated": "SELECT k, v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE w = 3)",
    "in_rows": "SELECT k, v FROM l WHERE v IN (SELECT w FROM r)",
    "in_two_columns": "SELECT k, v FROM l WHERE (k, v) IN (SELECT k, w FROM r)",
    "not_in_with_nulls": "SELECT k, v FROM l WHERE v NOT IN (SELECT w FROM r WHERE k > 1)",
    "not_in_correlated": "SELECT k, v FROM l WHERE v NOT IN (SELECT w FROM r WHERE w IS NOT NULL AND r.k = l.k)",
    "in_under_or": "SELECT k, v FROM l WHERE v IN (SELECT w FROM r) OR k IN (SELECT k FROM x)",
    "exists_in_case": "SELECT k, CASE WHEN EXISTS (SELECT 1 FROM x WHERE x.k = l.k) THEN 'yes' ELSE 'no' END AS c FROM l",
    "in_the_select": "SELECT k, v IN (SELECT w FROM r WHERE w IS NOT NULL) AS i FROM l WHERE v IS NOT NULL",
    "scalar_max": "SELECT k, v, (SELECT max(w) FROM r WHERE r.k = l.k) AS m FROM l",
    "scalar_count": "SELECT k, v, (SELECT count(*) FROM r WHERE r.k = l.k) AS m FROM l",
    "scalar_in_filter": "SELECT k, v FROM l WHERE v > (SELECT avg(w) FROM r WHERE r.k = l.k)",
    "scalar_uncorrelated": "SELECT k, v FROM l WHERE v > (SELECT avg(w) FROM r)",
    "two_uncorrelated": "SELECT k, v, (SELECT count(*) FROM x) AS n FROM l WHERE EXISTS (SELECT 1 FROM r WHERE w = 2)",
    "scalar_beside_sum": "SELECT k, sum(v) - (SELECT min(w) FROM r) AS n FROM l GROUP BY k",
    "in_beside_a_computed_key": "SELECT k % 2 AS odd, max(v) IN (SELECT w FROM r) AS i FROM l GROUP BY k % 2",
    "scalar_in_having": "SELECT k, count(*) AS n FROM l GROUP BY k HAVING count(*) > (SELECT count(*) FROM x WHERE x.k = 1)",
    "nested_exists": "SELECT k FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.w IN (SELECT k FROM x))",
    "lateral": "SELECT l.k, l.v, q.m FROM l, LATERAL (SELECT max(w) AS m FROM r WHERE r.k = l.k) q",
    "lateral_left": "SELECT l.k, q.w FROM l LEFT JOIN LATERAL (SELECT w FROM r WHERE r.k = l.k AND r.w > 0) q",
    "lateral_explode": "SELECT l.k, e.col FROM l, LATERAL explode(array(l.v, l.k)) e WHERE e.col > 1",
}

_SETS = {
    "intersect": "SELECT k FROM l INTERSECT SELECT k FROM r",
    "intersect_all": "SELECT k, v FROM l INTERSECT ALL SELECT k, w FROM r",
    "except": "SELECT k FROM l EXCEPT SELECT k FROM r",
    "except_all": "SELECT k FROM l EXCEPT ALL SELECT k FROM r",
    "union": "SELECT k FROM l UNION SELECT w FROM r",
    "nested_sets": "(SELECT k FROM l UNION SELECT k FROM x) EXCEPT (SELECT k FROM r INTERSECT SELECT k FROM x)",
    "coerced_sets": "SELECT k, s FROM l EXCEPT SELECT CAST(k AS BIGINT), t FROM x",
}

_GROUPS = {
    "cube": "SELECT k, s, count(*) AS n, sum(v) AS t, grouping(k) AS g, grouping_id() AS i FROM l GROUP BY CUBE (k, s)",
    "rollup": "SELECT k, s, count(*) AS n FROM l GROUP BY ROLLUP (k, s)",
    "grouping_sets": "SELECT k, s, max(v) AS n FROM l GROUP BY GROUPING SETS ((k), (s), ())",
    "cube_of_join": "SELECT l.s, r.w, sum(l.v) AS t FROM l JOIN r ON l.k = r.k GROUP BY CUBE (l.s, r.w)",
    "pivot": "SELECT * FROM (SELECT k, s, v FROM l) PIVOT (sum(v) FOR s IN ('a', 'b'))",
    "unpivot": "SELECT * FROM (SELECT k, v, k + 1 AS z FROM l) UNPIVOT (val FOR col IN (v, z))",
    "group_by_all": "SELECT k % 2 AS odd, s, count(*) AS n FROM l GROUP BY ALL",
    "sessions": "SELECT k, unix_seconds(session_window.start) AS a, unix_seconds(session_window.end) AS b, count(*) AS n, sum(v) AS t FROM l GROUP BY session_window(timestamp_seconds(v), '2 seconds'), k",
    "sessions_of_all": "SELECT unix_seconds(session_window.start) AS a, max(d) AS m FROM l GROUP BY session_window(timestamp_seconds(v), '1 second') HAVING count(*) > 1",
    "piped": "FROM l |> WHERE v > 1 |> AGGREGATE sum(v) AS t GROUP BY k",
}

_WINDOWS = {
    "row_number": "SELECT k, v, s, d, row_number() OVER (PARTITION BY k ORDER BY v, s, d) AS n FROM l",
    "ranks": "SELECT k, v, rank() OVER w AS n, dense_rank() OVER w AS e, sum(v) OVER w AS t FROM l WINDOW w AS (PARTITION BY k ORDER BY v)",
    "two_partitions": "SELECT k, s, sum(v) OVER (PARTITION BY k) AS a, count(*) OVER (PARTITION BY s) AS b FROM l",
    "lag_and_lead": "SELECT k, v, lag(v) OVER (PARTITION BY k ORDER BY v) AS g, lead(v, 2, -1) OVER (PARTITION BY k ORDER BY v) AS e FROM l",
    "rows_frame": "SELECT k, v, max(v) OVER (PARTITION BY k ORDER BY v ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM l",
    "without_partition": "SELECT k, v, rank() OVER (ORDER BY v) AS n FROM l",
    "over_groups": "SELECT k, sum(v) AS s, rank() OVER (ORDER BY sum(v)) AS n FROM l GROUP BY k",
    "qualify": "SELECT DISTINCT k, v FROM l QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY v DESC) <= 2",
    "in_an_expression": "SELECT k, CASE WHEN rank() OVER (PARTITION BY k ORDER BY v) = 1 THEN v END AS low FROM l",
    "over_outer_join": "SELECT l.k, r.w, count(*) OVER (PARTITION BY r.w) AS n FROM l LEFT JOIN r ON l.k = r.k",
    "groups_over_window": "SELECT n, count(*) AS c FROM (SELECT rank() OVER (PARTITION BY k ORDER BY v) AS n FROM l) GROUP BY n",
    "computed_partition": "SELECT k, v, sum(v) OVER (PARTITION BY k % 2, upper(s)) AS t FROM l",
}

_TOP = {
    "top": "SELECT k, v FROM l ORDER BY v DESC, k LIMIT 5",
    "top_offset": "SELECT v FROM l ORDER BY v LIMIT 4 OFFSET 2",
    "top_groups": "SELECT k, count(*) AS n FROM l GROUP BY k ORDER BY n DESC, k LIMIT 2",
    "top_in_from": "SELECT q.k, r.w FROM (SELECT k FROM l ORDER BY k LIMIT 6) q JOIN r ON q.k = r.k",
    "ordered": "SELECT k, v FROM l ORDER BY v",
}

_RECURSION = {
    "walk": "WITH RECURSIVE p AS (SELECT k, 0 AS depth FROM l WHERE v > 6 UNION ALL SELECT r.w, p.depth + 1 FROM p JOIN r ON r.k = p.k WHERE p.depth < 3) SELECT * FROM p",
    "groups_over_walk": "WITH RECURSIVE p AS (SELECT 1 AS k, 0 AS depth UNION ALL SELECT r.w, p.depth + 1 FROM p JOIN r ON r.k = p.k WHERE p.depth < 3 AND NOT EXISTS (SELECT 1 FROM l WHERE l.k = r.w AND l.v > 8)) SELECT p.k, count(*) AS n, max(l.v) AS m FROM p JOIN l ON l.k = p.k GROUP BY p.k",
}

QUERIES = known({**_JOINS, **_SUBQUERIES, **_SETS, **_GROUPS, **_WINDOWS, **_TOP, **_RECURSION})
