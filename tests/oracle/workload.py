"""Random tables and random DML: NULLs, duplicates and skew; the same seed gives the same history."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from pyspark.sql import SparkSession

QUERIES = {
    "scan": "SELECT * FROM l",
    "filtered": "SELECT k, v + 1 AS w FROM l WHERE v > 3 OR s IS NULL",
    "nested": "SELECT struct(k, s) AS p, array(v, k) AS a, map(coalesce(s, 'none'), v) AS m FROM l",
    "inner_join": "SELECT l.k, l.v, r.w FROM l JOIN r ON r.k = l.k",
    "without_key": "SELECT r.w FROM l JOIN r USING (k)",
    "natural": "SELECT * FROM l NATURAL JOIN r",
    "null_safe": "SELECT l.v, r.w FROM l JOIN r ON l.k <=> r.k",
    "not_equi": "SELECT l.v, r.w FROM l JOIN r ON l.v < r.w AND r.k IS NOT NULL WHERE l.k = 1",
    "product": "SELECT x.k AS a, y.k AS b FROM (SELECT DISTINCT k FROM l) x CROSS JOIN (SELECT DISTINCT k FROM r) y",
    "self_join": "SELECT a.v AS x, b.v AS y FROM l a JOIN l b ON a.k = b.k AND a.v < b.v",
    "three_times": "SELECT a.v AS x, b.v AS y, c.v AS z FROM l a JOIN l b ON a.k = b.k JOIN l c ON b.k = c.k WHERE a.v < b.v AND b.v < c.v",
    "three_tables": "SELECT l.v, r.w, x.t FROM l, r, x WHERE l.k = r.k AND r.k = x.k",
    "union_all": "SELECT k, v FROM l UNION ALL SELECT k, w FROM r",
    "cte_twice": "WITH c AS (SELECT k, sum(v) AS n FROM l GROUP BY k) SELECT a.k, a.n, b.n AS m FROM c a JOIN c b ON a.n <= b.n",
    "sums": "SELECT k, count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a, sum(d) AS t, avg(d) AS b FROM l GROUP BY k",
    "no_count": "SELECT k, sum(d) AS s FROM l GROUP BY k",
    "extremes": "SELECT k, min(v) AS lo, max(v) AS hi, min(s) AS first_name FROM l GROUP BY k",
    "recomputed": "SELECT k, percentile(v, 0.5) AS p, sort_array(collect_list(v)) AS c, count(DISTINCT v, s) AS x FROM l GROUP BY k",
    "winners": "SELECT k, max_by(s, struct(v, d, s)) AS a, min_by(v % 3, v) AS b, max_by(d, d) FILTER (WHERE v > 3) AS c FROM l GROUP BY k",
    "filter_clause": "SELECT k, count(*) FILTER (WHERE v > 3) AS n, sum(v) FILTER (WHERE s IS NOT NULL) AS m FROM l GROUP BY k",
    "deciding": "SELECT k, sum(CASE WHEN s IN ('a', 'b') THEN v ELSE 0 END) AS n FROM l GROUP BY k",
    "having": "SELECT k, sum(v) AS n FROM l GROUP BY k HAVING count(*) > 4",
    "everything": "SELECT count(*) AS n, sum(v) AS s, min(d) AS lo, count(DISTINCT k) AS ks, count(DISTINCT s) AS ss FROM l",
    "distinct_rows": "SELECT DISTINCT k, s FROM l",
    "over_join": "SELECT r.w, count(*) AS n, sum(l.v) AS s, max(l.v) AS m FROM l JOIN r ON l.k = r.k GROUP BY r.w",
    "join_over": "SELECT r.w, g.n, g.hi FROM r JOIN (SELECT k, count(*) AS n, max(v) AS hi FROM l GROUP BY k) g ON g.k = r.k",
    "agg_over_agg": "SELECT n, count(*) AS groups FROM (SELECT k, count(*) AS n FROM l GROUP BY k) GROUP BY n",
    "exploded": "SELECT k, word FROM l LATERAL VIEW OUTER explode(split(s, '')) e AS word",
    "chained": "SELECT w, n * 2 AS twice FROM over_join WHERE n > 1",
}


SETTINGS = {
    "spark.sql.ansi.enabled": ("false", "true"),
    "spark.sql.session.timeZone": ("Asia/Tokyo", "America/New_York"),
    "spark.sql.adaptive.enabled": ("false", "true"),
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "1kb"),
    "spark.sql.shuffle.partitions": ("1", "7"),
    "spark.sql.codegen.wholeStage": ("false",),
}
"""Settings of users, under which contents stay the same, or follow the meaning that the query has there."""

SOURCES = ("l", "r", "x")
"""The tables of `create_sources`."""


COLUMNS = {"l": "k INT, v INT, d DECIMAL(9,2), s STRING", "r": "k INT, w INT", "x": "k INT, t STRING"}
TYPED_COLUMNS = (
    ", c CHAR(3), n TIMESTAMP_NTZ, f DOUBLE, st STRUCT<a: INT, b: ARRAY<STRING>>, z TIMESTAMP, va VARIANT, vc VARCHAR(4)"
)
TYPED_VALUES = (
    ("'a'", "'abc'", "''"),
    ("TIMESTAMP_NTZ '2026-03-29 02:30:00'", "TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '+12000-01-01 00:00:00'"),
    ("0.5D", "CAST('NaN' AS DOUBLE)", "-1e300D"),
    ("named_struct('a', 1, 'b', array('x', NULL))", "named_struct('a', NULL, 'b', NULL)", "named_struct('a', 2, 'b', array())"),
    ("TIMESTAMP '2026-03-29 01:30:00Z'", "TIMESTAMP '+12000-06-01 00:00:00Z'", "TIMESTAMP '1900-01-01 00:00:00Z'"),
    ("parse_json('{\"a\": 1}')", 'parse_json(\'{"a": null, "b": [1, null]}\')', "parse_json('null')"),
    ("'a'", "'Ab'", "''"),
)
"""What x has besides, where it has columns of more types."""


VIEWS = ("SELECT k, w FROM r", "SELECT k, w + 1 AS w FROM r WHERE w > 0", "SELECT k, v AS w FROM l WHERE k IS NOT NULL")
"""The texts of the view y, where there is one."""


def create_sources(spark: SparkSession, seed: int, count: int = 24, typed: bool = False) -> None:
    """Create l, r and x, of `count` rows and more: with change feed and vectors, with neither, with vectors alone.

    Where they are `typed`, x has columns of more types, their layouts differ, columns may come and go, and y is a view.
    """
    rnd = random.Random(seed)
    features = {
        "l": "'delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='true'",
        "r": "'delta.enableDeletionVectors'='false'",
        "x": "'delta.enableDeletionVectors'='true'",
    }
    columns = COLUMNS | {"x": COLUMNS["x"] + (TYPED_COLUMNS if typed else "")}
    for table, properties in features.items():
        layout = rnd.choice(("", "PARTITIONED BY (k)", "CLUSTER BY (k)")) if typed else ""
        mapped = ", 'delta.columnMapping.mode'='name'" if typed else ""
        spark.sql(f"CREATE TABLE {table} ({columns[table]}) USING delta {layout} TBLPROPERTIES ({properties}{mapped})")
        spark.sql(f"INSERT INTO {table} VALUES {rows(rnd, table, count, typed)}")
    if typed:
        spark.sql(f"CREATE VIEW y AS {VIEWS[0]}")


def names(table: str, typed: bool = False) -> list[str]:
    """Return the columns of a table of `create_sources`, in their order."""
    text = COLUMNS[table] + (TYPED_COLUMNS if typed and table == "x" else "")
    return re.findall(r"(?:^|, )(\w+) ", re.sub(r"<.*>|\(.*?\)", "", text))


def rows(rnd: random.Random, table: str, count: int, typed: bool = False) -> str:
    """Spell random rows: one key in three is 1, one value in eight NULL, and some rows occur twice."""

    def some(values: list[str]) -> str:
        return "NULL" if rnd.random() < 0.12 else rnd.choice(values)

    def key() -> str:
        return some(["1", "1", "2", "3", "4", "5"])

    made = []
    for _ in range(count):
        match table:
            case "l":
                value = f"({key()}, {some([str(n) for n in range(9)])}, {some(['0.10', '2.55', '-3.00'])}, {some(list(map(repr, ['a', 'b', 'ab', ''])))})"
            case "r":
                value = f"({key()}, {some([str(n) for n in range(4)])})"
            case _:
                more = "".join(f", {some(list(values))}" for values in TYPED_VALUES) if typed else ""
                value = f"({key()}, {some(['chr(65)', 'chr(66)'])}{more})"
        made += [value] * (2 if rnd.random() < 0.2 else 1)
    return ", ".join(made)


def statements(rnd: random.Random, typed: bool = False) -> Iterator[str]:
    """Yield the DML of one round: one to four statements over the sources; where they are `typed`, now and then one of DDL."""
    if typed and rnd.random() < 0.5:
        yield from _ddl(rnd)
    for _ in range(rnd.randint(1, 4)):
        table = rnd.choice(["l", "l", "r", "x"])
        number = {"l": "v", "r": "w", "x": "k"}[table]
        yield rnd.choice(
            [
                f"INSERT INTO {table} ({', '.join(names(table, typed))}) VALUES {rows(rnd, table, 4, typed)}",
                f"UPDATE {table} SET {number} = {number} + 1 WHERE k = {rnd.randint(1, 5)}",
                f"UPDATE {table} SET k = {rnd.choice(['1', '3', 'NULL'])} WHERE {number} = {rnd.randint(0, 4)}",
                f"DELETE FROM {table} WHERE k = {rnd.randint(1, 5)} AND {number} < {rnd.randint(1, 6)}",
                f"DELETE FROM {table} WHERE k IS NULL",
                f"MERGE INTO {table} t USING (SELECT {rnd.randint(1, 7)} AS key) z ON t.k = z.key WHEN MATCHED THEN UPDATE SET k = 2 WHEN NOT MATCHED THEN INSERT (k) VALUES (z.key)",
                f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE k <> {rnd.randint(1, 5)} OR k IS NULL",
                f"TRUNCATE TABLE {table}" if rnd.random() < 0.2 else f"OPTIMIZE {table}",
                f"INSERT INTO {table} SELECT * FROM {table} LIMIT 2",
            ]
        )


def _ddl(rnd: random.Random) -> Iterator[str]:
    """Yield changes of columns that no query reads, or another text of the view."""
    table, new = rnd.choice(SOURCES), f"e{rnd.randrange(10**6)}"
    change = rnd.randrange(5)
    if change == 4:
        yield f"CREATE OR REPLACE VIEW y AS {rnd.choice(VIEWS)}"
        return
    yield f"ALTER TABLE {table} ADD COLUMN {new} INT"
    yield f"ALTER TABLE {table} ALTER COLUMN {rnd.choice((new, 'k', names(table)[-1]))} FIRST"
    if change == 2:
        yield f"ALTER TABLE {table} RENAME COLUMN {new} TO {new}x"
    elif change == 3:
        yield f"ALTER TABLE {table} DROP COLUMN {new}"


def kind_and_table(statement: str) -> tuple[str, str]:
    """Return what a statement of `statements` does, and to which table: ("MERGE", "r")."""
    found = re.match(r"(INSERT OVERWRITE|\w+) (?:INTO |FROM |TABLE )?(\w)\b", statement)
    assert found, statement
    return found[1], found[2]
