"""More queries under random DML, with the action held to what really changed: NO_DATA exactly when no commit wrote rows of a source."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.copies import Copies
from tests.oracle.scenario import dropped, planned_once
from tests.oracle.together import together
from tests.oracle.workload import SOURCES, create_sources, statements

# What each query reads, and the query. Doubles are rounded: the order in which Spark adds them is left open.
QUERIES = {
    "over_view": ("l", "SELECT k, count(*) AS n FROM view_of_l GROUP BY k"),
    "deviations": (
        "l",
        "SELECT k, round(stddev(v), 6) AS s, round(var_pop(v), 6) AS p, round(covar_pop(v, k), 6) AS c FROM l GROUP BY k",
    ),
    "collected": (
        "l",
        "SELECT k, sort_array(collect_set(s)) AS c, bool_or(v > 6) AS b, bit_xor(v) AS x, mode(v) IS NULL AS m FROM l GROUP BY k",
    ),
    "several_distinct": (
        "l",
        "SELECT k, count(DISTINCT v) AS a, sum(DISTINCT v) AS b, count(DISTINCT s) FILTER (WHERE v > 2) AS c FROM l GROUP BY k",
    ),
    "by_expression": ("l", "SELECT v % 3 AS m, upper(s) AS u, min(k) AS lo, count(*) AS n FROM l GROUP BY v % 3, upper(s)"),
    "having_on_join": (
        "lr",
        "SELECT l.k, count(*) AS n, max(r.w) AS hi FROM l JOIN r ON l.k = r.k GROUP BY l.k HAVING max(r.w) > 1",
    ),
    "positions": ("l", "SELECT k, p, e FROM l LATERAL VIEW posexplode(array(k, v)) x AS p, e WHERE e IS NOT NULL"),
    "fields": ("l", "SELECT st.k AS k, st.v AS v FROM (SELECT struct(k, v) AS st FROM l WHERE s IS NOT NULL) WHERE st.v > 1"),
    "union_of_groups": ("lr", "SELECT k, count(*) AS n FROM l GROUP BY k UNION ALL SELECT k, sum(w) FROM r GROUP BY k"),
    "using_three": ("lrx", "SELECT k, v, w, t FROM l JOIN r USING (k) JOIN x USING (k)"),
    "distinct_pairs": ("lr", "SELECT DISTINCT l.s, r.w FROM l JOIN r ON l.k <=> r.k"),
    "lower_level": ("l", "SELECT k, s, count(*) AS n, max(v) AS hi FROM l GROUP BY k, s"),
    "upper_level": ("lr", "SELECT b.k, sum(b.n) AS n, max(b.hi) AS hi FROM lower_level b JOIN r ON b.k = r.k GROUP BY b.k"),
    "global_upper": ("lr", "SELECT count(*) AS groups, sum(n) AS n, sum(hi) FILTER (WHERE k IS NULL) AS x FROM upper_level"),
}
ABOVE = ("upper_level", "global_upper")
"""Those that read another one: after all others, in this order."""


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a test a database of its own."""
    spark.sql("CREATE DATABASE oracle_actions")
    spark.sql("USE oracle_actions")
    yield spark
    dropped(spark, "oracle_actions")


IN_TURN = (
    "over_view",
    "having_on_join",
    "positions",
    "union_of_groups",
    "using_three",
    "lower_level",
    "upper_level",
    "global_upper",
)
"""What the pipeline looks at: each way from a source to an action. The other queries differ by aggregates, which other tests have."""


def version(spark: SparkSession, table: str) -> int:
    """Return the latest version of a table, from its own history."""
    return int(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"])


def wrote_rows(spark: SparkSession, table: str, after: int) -> bool:
    """Tell from the log itself whether a later commit wrote or removed rows; a compaction, or a DELETE of nothing, did not."""
    location = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"].removeprefix("file:")
    files = (Path(location) / "_delta_log" / f"{number:020}.json" for number in range(after + 1, version(spark, table) + 1))
    actions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return any(action.get(kind, {}).get("dataChange") for action in actions for kind in ("add", "remove"))


def check(spark: SparkSession, seed: int, rounds: int, names: Sequence[str] = tuple(QUERIES)) -> None:
    """Change the sources at random; refresh, compare and judge the action of each table, at last that of none having changed."""
    create_sources(spark, seed)
    copies = Copies(spark, SOURCES)
    spark.sql("CREATE OR REPLACE VIEW view_of_l AS SELECT k, v FROM l WHERE v <> 4")
    queries = {name: QUERIES[name] for name in names}

    def each(work: Callable[[str], object]) -> None:
        together(work, [name for name in queries if name not in ABOVE])
        for name in ABOVE:
            if name in queries:
                work(name)

    def refresh(name: str) -> None:
        sources, query = queries[name]
        done = spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]
        assert_exact(copies.session(), name, query)
        if not written & set(sources):
            assert (done["action"], done["rows_inserted"], done["rows_deleted"]) == ("NO_DATA", 0, 0), done
        elif name not in ABOVE:  # these read stream tables, which may have stood still
            assert done["action"] == "DIFFERENTIAL", done
        else:
            assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done

    each(lambda name: spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {queries[name][1]}"))
    rnd = random.Random(seed)
    changed, written = set[str](), set[str]()
    for _ in range(rounds):
        versions = {t: version(spark, t) for t in "lrx"}
        contents = copies.rows()
        with planned_once(spark):
            for statement in statements(rnd):
                spark.sql(statement)
        written = {t for t in "lrx" if wrote_rows(spark, t, versions[t])}
        now = copies.rows()
        changed |= {t for t in written if now[t] != contents[t]}
        each(refresh)
    assert changed == set("lrx"), "the random DML left a source as it was"

    def stands(name: str) -> None:
        done = spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0]
        assert (done["action"], done["reason"]) == ("NO_DATA", "no source changed"), done

    each(stands)


@pytest.mark.timeout(1800)
def test_actions_follow_what_changed(database: SparkSession) -> None:
    check(
        database, seed=602, rounds=1, names=IN_TURN
    )  # its round inserts, deletes, updates and merges, and changes all three sources


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(200, 210))
def test_actions_follow_what_changed_for_long(database: SparkSession, seed: int) -> None:
    check(database, seed=seed, rounds=10)
