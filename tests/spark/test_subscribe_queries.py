"""SUBSCRIBE to queries, views and stream tables; readers in Python; many subscribers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer, close_cursors, folder

from streamtable import subscribe
from streamtable.errors import HistoryLost, InvalidStatement, NotSupported, SourceChanged, SourceUnavailable
from streamtable.jvm.gateway import java_class
from streamtable.subscribing import feed, table
from streamtable.subscribing.query import QueryRelation

QUERIES = {
    "joined": "SELECT l.k, v, w FROM l JOIN r ON l.k = r.k",
    "kept": "SELECT l.k, v, w FROM l LEFT JOIN r ON l.k = r.k",
    "grouped": "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS top FROM l GROUP BY k",
    "joined_groups": "SELECT r.w, g.n FROM r JOIN (SELECT k, count(DISTINCT v) AS n FROM l GROUP BY k) g ON r.k = g.k",
    "total": "SELECT count(*) AS n, min(v) AS least FROM l",
    "different": "SELECT DISTINCT k FROM l EXCEPT SELECT k FROM r",
    "no_rule": "SELECT k, s FROM (SELECT k, sum(CAST(v AS DOUBLE)) OVER (ORDER BY k) AS s FROM l) WHERE s > 0",
    "rounded": "SELECT k, max(s) AS top FROM (SELECT k, sum(CAST(v AS DOUBLE)) OVER (PARTITION BY k ORDER BY v % 2) AS s FROM l) GROUP BY k",
    "looked_up": "SELECT k, cardinality((SELECT map(1, w) FROM r WHERE r.k = l.k)) AS m FROM l",
    "lists": "SELECT k, array_join(array_sort(collect_list(v)), ' ') AS vs, size(collect_set(v)) AS n FROM l GROUP BY k",
}
CHANGES = (
    "INSERT INTO l VALUES (1, 10), (1, 11), (2, 20), (NULL, 1)",
    "INSERT INTO r VALUES (1, 100), (3, 300)",
    "MERGE INTO l USING (SELECT 1 AS k) s ON l.k = s.k WHEN MATCHED AND v = 10 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 12",
    "UPDATE r SET k = 2 WHERE k = 1",
)


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE subscribed_queries")
        spark.sql("USE subscribed_queries")
        spark.sql("CREATE TABLE l (k INT, v INT) USING delta")
        spark.sql("CREATE TABLE r (k INT, w INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
        yield spark
    dropped(spark, "subscribed_queries")


@pytest.fixture
def s(database: SparkSession) -> Iterator[SparkSession]:
    yield database
    close_cursors()


def test_queries_of_all_kinds_are_what_they_would_be_computed_anew(s: SparkSession) -> None:
    """The changes since AS OF, added to the contents then, are the contents now; after every commit."""
    kept = {name: Counter[tuple[Any, ...]]() for name in QUERIES}
    times: dict[str, list[Any]] = {name: [] for name in QUERIES}
    for name, query in QUERIES.items():
        s.sql(f"DECLARE {name} CURSOR FOR SUBSCRIBE ({query})")
    for change in ("SELECT 1", *CHANGES):
        s.sql(change)
        for name, query in QUERIES.items():
            for at, diff, *row in answer(s, f"FETCH ALL {name} WITH (TIMEOUT = '0s')"):
                kept[name][tuple(row)] += diff
                times[name].append(at)
            if change != CHANGES[0]:
                assert {row: n for row, n in kept[name].items() if n} == Counter(answer(s, query)), (name, change)
    for name in QUERIES:
        assert times[name] == sorted(times[name])
    # One input: its version; two: both versions in one number.
    joined, until = QUERIES["joined"], 2_000_000_001
    assert set(times["grouped"]) == {1, 2} and set(times["joined"]) == {1_000_000_001, until, 2_000_000_002}
    rest = answer(s, f"SUBSCRIBE ({joined}) AS OF {until} WITH (SNAPSHOT FALSE, PROGRESS)")  # as a client that comes back
    assert ({row[0] for row in rest if not row[1]}, rest[0][:2]) == ({until + 1}, (until, True))
    assert {row[0] for row in answer(s, f"SUBSCRIBE ({joined}) AS OF 0 UP TO {until}")} == {until - 1_000_000_000}


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT collect_list(v) AS vs FROM l", r"collect_list\(.*\) depends on the order of rows"),
        ("SELECT array_sort(collect_list(v)) AS a, collect_list(v)[0] AS b FROM l", "depends on the order of rows"),
        ("SELECT array_sort(transform(collect_list(v), (x, i) -> x + i)) AS vs FROM l", "depends on the order of rows"),
        ("SELECT array_sort(collect_list(v), (a, b) -> a % 2 - b % 2) AS vs FROM l", "depends on the order of rows"),
        ("SELECT sort_array(collect_list(CAST(v AS DOUBLE))) AS vs FROM l", "depends on the order of rows"),
        ("SELECT k FROM l OFFSET 1 + 1", "Offset has no delta rule"),
        ("SELECT k FROM l TABLESAMPLE (50 PERCENT)", "Sample has no delta rule"),
        ("SELECT DISTINCT CAST(v AS STRING) COLLATE UTF8_LCASE AS t FROM l", "equal spellings"),
        ("SELECT k + 1 AS k FROM (SELECT first(k) AS k FROM l)", r"first\(.*\) depends on the order of rows"),
        ("SELECT first(v) AS v FROM (SELECT v FROM l ORDER BY k)", "takes its rows in the order of ORDER BY below"),
        ("SELECT * FROM l LIMIT 2", "which rows LIMIT takes is left open"),
        ("SELECT * FROM r WHERE k IN (SELECT k FROM l LIMIT 1)", "which rows LIMIT takes is left open"),
    ],
)
def test_what_nothing_decides_has_no_changes(s: SparkSession, query: str, told: str) -> None:
    for sql in (f"SUBSCRIBE ({query})", f"CREATE QUEUE undecided FOR SUBSCRIBE ({query})"):
        with pytest.raises(NotSupported, match=rf"{told}(.|\n)*create a stream table of the query"):
            s.sql(sql)


def test_estimates_of_rows_are_not_taken_for_counts(s: SparkSession) -> None:
    """Spark expects no row behind an OFFSET; where the rows are kept, two parts of a plan read them, and DISTINCT of none is none."""
    s.sql("CREATE TABLE repeated (k INT, w INT) USING delta")
    s.sql(f"INSERT INTO repeated VALUES {', '.join(['(1, 3)'] * 6)}")
    best = "SELECT DISTINCT k, w FROM (SELECT * FROM repeated ORDER BY w DESC, k LIMIT 5 OFFSET 1)"
    s.sql(f"DECLARE best CURSOR FOR SUBSCRIBE ({best})")
    assert answer(s, "FETCH ALL best WITH (TIMEOUT = '0s')") == [(1, 1, 1, 3)]
    s.sql("INSERT INTO repeated VALUES (2, 1)")
    assert answer(s, "FETCH ALL best WITH (TIMEOUT = '0s')") == []


def test_a_top_k_speaks_only_when_the_top_changes(s: SparkSession) -> None:
    s.sql("CREATE TABLE scores (v INT) USING delta")
    s.sql("INSERT INTO scores VALUES (5)")
    s.sql("DECLARE c CURSOR FOR SUBSCRIBE (SELECT v FROM scores ORDER BY v DESC LIMIT 1)")
    assert answer(s, "FETCH ALL c") == [(1, 1, 5)]
    s.sql("INSERT INTO scores VALUES (3)")
    assert answer(s, "FETCH ALL c WITH (TIMEOUT '0s')") == []
    s.sql("INSERT INTO scores VALUES (9)")
    assert set(answer(s, "FETCH ALL c")) == {(3, 1, 9), (3, -1, 5)}


def test_an_expression_that_fails_ends_the_subscription(s: SparkSession) -> None:
    s.sql("CREATE TABLE divided (a INT) USING delta")
    s.sql("INSERT INTO divided VALUES (1)")
    s.sql("DECLARE c CURSOR FOR SUBSCRIBE (SELECT 10 / a AS x FROM divided)")
    assert answer(s, "FETCH c") == [(1, 1, 10.0)]
    s.sql("INSERT INTO divided VALUES (0)")
    for _ in range(2):
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            s.sql("FETCH c")


def test_views_stream_tables_paths_and_what_has_no_history(s: SparkSession) -> None:
    s.sql("CREATE TABLE base (k INT, v INT) USING delta")
    s.sql("INSERT INTO base VALUES (1, 1), (1, 2)")
    s.sql("CREATE VIEW big AS SELECT k, v FROM base WHERE v > 1")
    s.sql("CREATE STREAM TABLE sums AS SELECT k, sum(v) AS total FROM base GROUP BY k")
    path = s.sql("DESCRIBE DETAIL base").collect()[0]["location"].removeprefix("file:")
    for cursor, relation in {"v": "big", "st": "sums", "p": f"delta.`{path}`"}.items():
        s.sql(f"DECLARE {cursor} CURSOR FOR SUBSCRIBE {relation}")
    assert [answer(s, f"FETCH ALL {c}")[0][1:] for c in ("v", "st")] == [(1, 1, 2), (1, 1, 3)]
    s.sql("INSERT INTO base VALUES (1, 5)")
    s.sql("REFRESH STREAM TABLE sums")
    assert [row[1:] for row in answer(s, "FETCH ALL v")] == [(1, 1, 5)]
    assert {row[1:] for row in answer(s, "FETCH ALL st")} == {(1, 1, 8), (-1, 1, 3)}
    assert len(answer(s, "FETCH ALL p")) == 3
    s.sql("DROP VIEW big")
    with pytest.raises(SourceUnavailable, match="the view spark_catalog.subscribed_queries.big was dropped: the subscription ends"):
        s.sql("FETCH v")
    for cursor in ("v", "st", "p"):
        s.sql(f"CLOSE {cursor}")
    assert answer(s, "SUBSCRIBE (SELECT 1 AS a) WITH (PROGRESS)") == [
        (0, True, None, None),
        (0, False, 1, 1),
        (1, True, None, None),
    ]
    s.sql("CREATE TABLE no_delta (a INT) USING parquet")
    s.sql("SELECT 1 AS a").createOrReplaceTempView("passing")
    refused = {
        "no_delta": (InvalidStatement, "is no Delta table"),
        "(SELECT * FROM no_delta)": (NotSupported, "has no history"),
        "(SELECT current_timestamp() AS now FROM base)": (NotSupported, "reads the clock"),
        "(SELECT rand() AS x FROM base)": (NotSupported, "rand"),
        "passing": (InvalidStatement, "temporary view passing"),
        "nothing": (InvalidStatement, "TABLE_OR_VIEW_NOT_FOUND"),
    }
    for relation, (kind, message) in refused.items():
        with pytest.raises(kind, match=message):
            s.sql(f"SUBSCRIBE {relation}")
    s.sql("DROP STREAM TABLE sums")


def test_a_view_or_a_function_with_another_meaning_ends_the_subscription(s: SparkSession) -> None:
    s.sql("CREATE TABLE priced (k INT) USING delta")
    s.sql("CREATE FUNCTION price(k INT) RETURNS INT RETURN k * 2")
    s.sql("CREATE FUNCTION gross(k INT) RETURNS INT RETURN price(k) + 1")
    s.sql("CREATE VIEW shown AS SELECT k FROM priced")
    s.sql("DECLARE f CURSOR FOR SUBSCRIBE (SELECT gross(k) AS p FROM priced)")
    s.sql("DECLARE v CURSOR FOR SUBSCRIBE (SELECT k FROM shown)")
    s.sql("INSERT INTO priced VALUES (1)")
    assert [answer(s, f"FETCH ALL {cursor}") for cursor in ("f", "v")] == [[(1, 1, 3)], [(1, 1, 1)]]
    # Another text with the same plan; then one with another.
    s.sql("CREATE OR REPLACE VIEW shown AS SELECT priced.k FROM priced")
    s.sql("CREATE OR REPLACE FUNCTION gross(k INT) RETURNS INT COMMENT 'net' RETURN price(k) + 1")
    s.sql("INSERT INTO priced VALUES (2)")
    assert [answer(s, f"FETCH ALL {cursor}") for cursor in ("f", "v")] == [[(2, 1, 5)], [(2, 1, 2)]]
    s.sql("CREATE OR REPLACE VIEW shown AS SELECT k + 1 AS k FROM priced")
    s.sql("CREATE OR REPLACE FUNCTION price(k INT) RETURNS INT RETURN k * 3")
    s.sql("INSERT INTO priced VALUES (3)")
    for cursor, name in (("f", "gross"), ("v", "shown"), ("f", "price")):
        with pytest.raises(SourceChanged, match=rf"{name}.* changed what the query reads: the subscription ends"):
            s.sql(f"FETCH {cursor}")
    s.sql("CLOSE f")
    s.sql("DECLARE f CURSOR FOR SUBSCRIBE (SELECT gross(k) AS p FROM priced) WITH (SNAPSHOT FALSE)")
    s.sql("DROP FUNCTION gross")
    s.sql("INSERT INTO priced VALUES (4)")
    with pytest.raises(SourceChanged, match=r"gross.* changed and the query does not fit any more: .*UNRESOLVED_ROUTINE"):
        s.sql("FETCH f")


def test_python_reads_as_rows_come(s: SparkSession) -> None:
    s.sql("CREATE TABLE events (id INT, what STRING) USING delta")
    s.sql("INSERT INTO events VALUES (1, 'a')")
    later = threading.Timer(0.5, lambda: s.sql("INSERT INTO events VALUES (2, 'b')"))
    with subscribe(s, "events", up_to=3) as rows:
        later.start()
        assert rows.schema.names == ["timestamp", "diff", "id", "what"]
        assert [(row.timestamp, row.id, row["what"]) for row, _ in zip(rows, range(2), strict=False)] == [(1, 1, "a"), (2, 2, "b")]
        assert rows.fetch(5, timeout=0) == [] and list(rows) == []
    later.join()

    async def first(count: int) -> list[Row]:
        async with subscribe(s, "(SELECT id FROM events) WITH (PROGRESS)", as_of=1, snapshot=False) as rows:
            found = []
            async for row in rows:
                found.append(row)
                if len(found) == count:
                    break
            return found

    assert [tuple(row) for row in asyncio.run(first(3))] == [(1, True, None, None), (2, False, 1, 2), (3, True, None, None)]
    waiting = subscribe(s, "events", snapshot=False)
    threading.Timer(0.3, waiting.close).start()
    assert list(waiting) == []


def test_rows_of_an_async_step_that_was_given_up_come_with_the_next(s: SparkSession) -> None:
    s.sql("CREATE TABLE awaited (id BIGINT) USING delta")

    async def read() -> list[Row]:
        async with subscribe(s, "awaited", snapshot=False, progress=True) as rows:
            await anext(rows)
            for _ in range(20):  # more often than asyncio has threads
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(rows), 0.02)
            s.sql("INSERT INTO awaited SELECT id FROM range(3)")
            return [await asyncio.wait_for(anext(rows), 60) for _ in range(4)]

    assert [(row.timestamp, row.progressed) for row in asyncio.run(read())] == [(1, False)] * 3 + [(2, True)]


def test_what_two_inputs_retain_and_where_they_end(s: SparkSession) -> None:
    for name in ("long", "short"):
        s.sql(f"CREATE TABLE {name} (k INT) USING delta TBLPROPERTIES (delta.checkpointInterval = 2)")
        for n in range(1, 5):
            s.sql(f"INSERT INTO {name} VALUES ({n})")
    for gone in sorted((folder(s, "short") / "_delta_log").glob("*.json"))[:2]:
        gone.unlink()  # as Delta does when they are old, up to the last checkpoint
    java_class(s, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    query = "(SELECT long.k FROM long JOIN short ON long.k = short.k)"
    for options in ("", "WITH (SNAPSHOT FALSE)"):  # the changes of a join need what the other table holds
        with pytest.raises(
            HistoryLost, match=r"AS OF 1000000001 .*short retains: its contents and changes are there from AS OF 1000000002 on"
        ):
            s.sql(f"SUBSCRIBE {query} AS OF 1000000001 {options}")
    rows = [(1_000_000_002, 1, 1), (2_000_000_002, 1, 2), (4_000_000_003, 1, 3), (4_000_000_004, 1, 4)]
    assert answer(s, f"SUBSCRIBE {query} AS OF AT LEAST 1000000000") == rows
    assert answer(s, f"SUBSCRIBE {query} AS OF AT LEAST 1000000001 WITH (SNAPSHOT FALSE)") == rows[1:]
    # Neither 3 and 0, nor 2 and 3, is where both tables were at any time: it ends before what comes behind.
    for until, there in ((3_000_000_000, 2), (2_000_000_003, 2), (2_000_000_002, 1)):
        assert answer(s, f"SUBSCRIBE {query} AS OF AT LEAST 1000000000 UP TO {until}") == rows[:there], until


def test_a_slow_reader_of_much_holds_little(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a few rows a batch stays in Spark: nothing but a partition at a time is read."""
    monkeypatch.setattr("streamtable.engine.limits.KEPT_CHANGE_ROWS", 10)
    s.sql("CREATE TABLE many (id BIGINT) USING delta")
    s.sql("INSERT INTO many SELECT id FROM range(50000)")
    with subscribe(s, "many", as_of=0) as rows:
        assert next(rows).timestamp == 1
        assert len(rows._ahead) < 1000
        assert sum(1 for _, _ in zip(rows, range(49_998), strict=False)) == 49_998
    s.sql("DECLARE c CURSOR FOR SUBSCRIBE many AS OF 0 WITHIN TIMESTAMP ORDER BY id DESC")
    assert [row[2] for row in answer(s, "FETCH 3 c")] + [row[2] for row in answer(s, "FETCH 2 c")] == list(range(49999, 49994, -1))


def test_subscribers_of_one_object_share_the_work(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    s.sql("CREATE TABLE shared (k INT) USING delta")
    computed: list[tuple[int, int]] = []
    changes = QueryRelation.changes

    def counted(self: QueryRelation, after: int, upto: int) -> Any:
        computed.append((after, upto))
        return changes(self, after, upto)

    monkeypatch.setattr(QueryRelation, "changes", counted)
    query = "(SELECT k, count(*) AS n FROM shared GROUP BY k)"
    sessions = [s.newSession() for _ in range(5)]
    for each in sessions:
        each.sql("USE subscribed_queries")
        each.sql(f"DECLARE c CURSOR FOR SUBSCRIBE {query}")
    assert len(feed._feeds) == 1
    for n in range(3):
        s.sql(f"INSERT INTO shared VALUES ({n})")
        assert [answer(each, "FETCH c") for each in sessions] == [[(n + 1, 1, n, 1)]] * 5
    assert computed == [(0, 1), (1, 2), (2, 3)]
    for each in sessions:
        each.sql("CLOSE c")
    assert not feed._feeds


def test_a_commit_is_there_at_once(s: SparkSession) -> None:
    s.sql("CREATE TABLE soon (k INT) USING delta")
    with subscribe(s, "soon") as rows:
        s.sql("INSERT INTO soon VALUES (1)")
        began = time.monotonic()
        assert next(rows).k == 1
        assert time.monotonic() - began < 20  # no test of speed: it must not wait for something else


def test_structured_streaming_reads_exactly_once_over_restarts(s: SparkSession, tmp_path: Path) -> None:
    s.sql("CREATE TABLE streamed (k INT, v INT) USING delta")
    s.sql("CREATE TABLE received (timestamp BIGINT, diff BIGINT, k INT, n BIGINT) USING delta")
    relation = "(SELECT k, count(*) AS n FROM streamed GROUP BY k)"
    s.sql("INSERT INTO streamed VALUES (1, 1), (1, 2)")

    def run() -> None:
        rows = s.readStream.format("streamtable").option("subscribe", relation).load()
        query = (
            rows.writeStream.option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .toTable("received", format="delta")
        )
        query.awaitTermination()

    run()
    s.sql("INSERT INTO streamed VALUES (2, 1)")
    s.sql("UPDATE streamed SET k = 2 WHERE v = 2")
    run()
    run()
    assert set(answer(s, "SELECT * FROM received")) == {
        (1, 1, 1, 2),
        (2, 1, 2, 1),
        (3, -1, 1, 2),
        (3, 1, 1, 1),
        (3, -1, 2, 1),
        (3, 1, 2, 2),
    }
    assert s.table("received").count() == 6
    gone = list((tmp_path / "commits").glob("*1*"))
    assert "1" in {entry.name for entry in gone}
    for entry in gone:
        entry.unlink()  # as if it was killed between the sink's commit and its own: the same batch again, which Delta knows
    run()
    assert s.table("received").count() == 6


def test_structured_streaming_reads_what_the_statement_gives_in_bounded_batches(
    s: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_COMMITS", 2)
    monkeypatch.setattr(QueryRelation, "together", 2)
    s.sql("CREATE TABLE chosen (k INT, v INT) USING delta")
    for n in range(1, 7):
        s.sql(f"INSERT INTO chosen VALUES ({n % 2}, {n})")
    grouped = "(SELECT k, sum(v) AS n FROM chosen GROUP BY k)"
    ends = {
        "chosen WITH (SNAPSHOT FALSE) AS OF 2": [4, 6],
        f"{grouped} ENVELOPE DEBEZIUM (KEY (k)) AS OF 2 UP TO 6": [4, 5],
        "chosen AS OF AT LEAST 0 UP TO 4": [2, 3],
        "chosen AS OF 3 UP TO 3": [],
        "chosen AS OF 7": [],
    }

    def started(relation: str) -> StreamingQuery:
        rows = s.readStream.format("streamtable").option("subscribe", relation).load()
        return rows.writeStream.format("memory").queryName("streamed_rows").trigger(availableNow=True).start()

    def read(relation: str) -> list[int]:
        query = started(relation)
        query.awaitTermination()
        assert Counter(answer(s, "SELECT * FROM streamed_rows")) == Counter(answer(s, f"SUBSCRIBE {relation}")), relation
        return sorted(
            {json.loads(each.sources[0].endOffset)["time"] for each in query.recentProgress if each.sources[0].endOffset != "null"}
        )

    assert {relation: read(relation) for relation in ends} == ends
    s.sql("INSERT INTO chosen VALUES (1, 7)")
    assert read("chosen AS OF 7") == [7], "a time that has come is not waited for any more"
    refused = {
        "chosen WITH (PROGRESS) WITHIN TIMESTAMP ORDER BY k": "neither rows of progress nor an order",
        "chosen AS OF 3 UP TO 2": "UP TO 2 is before AS OF 3",
    }
    for relation, message in refused.items():
        with pytest.raises(InvalidStatement, match=message):
            started(relation).awaitTermination()
    s.sql("DROP VIEW streamed_rows")
