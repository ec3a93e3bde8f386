"""SUBSCRIBE to a table: what is given, in which form, from where to where."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer, close_cursors, folder, vacuum, version

from streamtable import subscribe
from streamtable.errors import CursorExists, CursorNotFound, HistoryLost, InvalidStatement, SourceChanged, SourceUnavailable
from streamtable.jvm.gateway import java_class
from streamtable.subscribing import table
from streamtable.subscribing.subscription import Subscription

HISTORY = (
    "INSERT INTO {0} VALUES (1, 'a', 10), (2, 'b', NULL), (2, 'b', NULL), (NULL, 'n', 0)",
    "INSERT INTO {0} VALUES (3, NULL, 30), (3, NULL, 30), (3, NULL, 30)",
    "UPDATE {0} SET v = v + 1 WHERE k = 1",
    "DELETE FROM {0} WHERE k = 2",
    "OPTIMIZE {0}",
    """MERGE INTO {0} USING (SELECT 1 AS k UNION ALL SELECT 9) s ON {0}.k = s.k
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, s, v) VALUES (9, 'm', 9)""",
    "INSERT OVERWRITE {0} VALUES (9, 'm', 9), (5, 'o', 5)",
)


@pytest.fixture(scope="module")
def spark_with_history(spark: SparkSession) -> Iterator[SparkSession]:
    """Two tables with the same history: one with a change feed, one without but with deletion vectors."""
    with planned_once(spark):
        spark.sql("CREATE DATABASE subscribed")
        spark.sql("USE subscribed")
        for name, feature in (("with_feed", "ChangeDataFeed"), ("without_feed", "DeletionVectors")):
            spark.sql(f"CREATE TABLE {name} (k INT, s STRING, v INT) USING delta TBLPROPERTIES (delta.enable{feature} = true)")
            for statement in HISTORY:
                spark.sql(statement.format(name))
        yield spark
    dropped(spark, "subscribed")


@pytest.fixture
def s(spark_with_history: SparkSession) -> Iterator[SparkSession]:
    yield spark_with_history
    close_cursors()


def condition(spark: SparkSession, sql: str) -> str:
    with pytest.raises(PySparkException) as raised:
        spark.sql(sql).collect()
    return str(raised.value.getCondition())


def expected(versions: list[Counter[tuple[Any, ...]]], as_of: int, snapshot: bool) -> Counter[tuple[Any, ...]]:
    """Return the rows that the contents at each version, read by Delta itself, ask for."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for at in range(as_of if snapshot else as_of + 1, len(versions)):
        new, old = versions[at], versions[at - 1] if at > as_of else Counter()
        rows.update((at, new[row] - old[row], *row) for row in new | old if new[row] != old[row])
    return rows


@pytest.mark.parametrize("name", ["with_feed", pytest.param("without_feed", marks=pytest.mark.fuzz)])
def test_from_every_commit_to_every_commit(s: SparkSession, name: str) -> None:
    last = version(s, name)
    versions = [Counter(answer(s, f"SELECT * FROM {name} VERSION AS OF {at}")) for at in range(last + 1)]
    everything = answer(s, f"SUBSCRIBE {name} AS OF 0")
    assert Counter(everything) == expected(versions, 0, snapshot=True)
    assert (2, 3, 3, None, 30) in everything and (4, -2, 2, "b", None) in everything  # as often as they came and went
    for at in range(1, last + 1):
        assert Counter(answer(s, f"SUBSCRIBE {name} AS OF {at}")) == expected(versions, at, snapshot=True), at
        later = answer(s, f"SUBSCRIBE {name} AS OF {at} WITH (SNAPSHOT = FALSE)")
        assert Counter(later) == expected(versions, at, snapshot=False), at
        assert [row[0] for row in later] == sorted(row[0] for row in later)
        until = answer(s, f"SUBSCRIBE {name} AS OF 0 UP TO {at}")
        assert Counter(until) == Counter(row for row in everything if row[0] < at), at


def test_bounds(s: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    assert answer(s, "SUBSCRIBE with_feed AS OF 3 UP TO 3") == []
    assert "AS OF and UP TO are both 3: the subscription ends without rows" in caplog.text
    with pytest.raises(InvalidStatement, match="UP TO 2 is before AS OF 3"):
        s.sql("SUBSCRIBE with_feed AS OF 3 UP TO 2")
    with pytest.raises(InvalidStatement, match=r"UP TO 2 is before AS OF 7, which was chosen"):
        s.sql("SUBSCRIBE with_feed UP TO 2")
    assert answer(s, "SUBSCRIBE with_feed AS OF 999") == []
    assert answer(s, "SUBSCRIBE with_feed AS OF 998 WITH (PROGRESS)") == [(998, True, None, None, None, None)]
    for told in (999, 998):
        assert f"AS OF {told} is still to come, and without UP TO nothing is waited for: there are no rows" in caplog.text
    caplog.clear()
    progress = s.sql("SUBSCRIBE with_feed AS OF :at - 1 UP TO :end", args={"at": 5, "end": 6}).collect()
    assert {row["timestamp"] for row in progress} == {4}  # OPTIMIZE changed nothing
    assert answer(s, f"SUBSCRIBE with_feed AS OF {version(s, 'with_feed')} WITH (SNAPSHOT FALSE)") == []
    assert "is still to come" not in caplog.text


def test_columns_of_every_form(s: SparkSession) -> None:
    s.sql("CREATE TABLE wide (a INT NOT NULL, b STRING NOT NULL, c INT) USING delta")
    forms = {
        "": "timestamp diff a b c",
        "WITH (PROGRESS)": "timestamp progressed diff a b c",
        "ENVELOPE UPSERT (KEY (C, a))": "timestamp state c a b",
        "ENVELOPE DEBEZIUM (KEY (c, a))": "timestamp state c a before_b after_b",
        "ENVELOPE DEBEZIUM (KEY (b)) WITH (PROGRESS)": "timestamp progressed state b before_a before_c after_a after_c",
        "WITHIN TIMESTAMP ORDER BY diff, 2": "timestamp diff a b c",
    }
    for form, names in forms.items():
        s.sql(f"DECLARE c CURSOR FOR SUBSCRIBE wide {form}")
        empty = s.sql("FETCH 0 c")
        assert (" ".join(empty.columns), empty.collect()) == (names, [])
        s.sql("CLOSE c")
    plain, progress = (s.sql(f"SUBSCRIBE wide {form}").schema for form in ("", "WITH (PROGRESS)"))
    assert [field.dataType.simpleString() for field in progress] == ["bigint", "boolean", "bigint", "int", "string", "int"]
    assert [plain["a"].nullable, progress["a"].nullable, progress["diff"].nullable] == [False, True, True]
    assert answer(s, "SUBSCRIBE wide WITH (PROGRESS)")[0] == (0, True, None, None, None, None)
    assert condition(s, "SUBSCRIBE wide ENVELOPE UPSERT (KEY (d))") == "STREAMTABLE_INVALID_STATEMENT"
    with pytest.raises(InvalidStatement, match="column d does not exist"):
        s.sql("SUBSCRIBE wide WITHIN TIMESTAMP ORDER BY d")
    with pytest.raises(InvalidStatement, match="column a is ambiguous"):
        s.sql("SUBSCRIBE (SELECT a, b AS a FROM wide) WITHIN TIMESTAMP ORDER BY a")
    with pytest.raises(InvalidStatement, match="ORDER BY 5: there are the columns 1"):
        s.sql("SUBSCRIBE wide WITHIN TIMESTAMP ORDER BY 5")
    with pytest.raises(InvalidStatement, match="the column Timestamp has the name of one that SUBSCRIBE adds"):
        s.sql("SUBSCRIBE (SELECT a AS Timestamp FROM wide)")


def test_envelopes(s: SparkSession) -> None:
    s.sql("CREATE TABLE kv (k INT, v INT) USING delta")
    history = (
        "INSERT INTO kv VALUES (1, 2), (2, 4), (NULL, 0)",
        "INSERT INTO kv VALUES (3, 6)",
        "UPDATE kv SET v = 10 WHERE k = 1",
        "INSERT INTO kv VALUES (3, 7)",  # a second row of the key: each change is fine by itself
        "DELETE FROM kv WHERE k = 3",  # two rows went
        "INSERT INTO kv VALUES (4, 1), (4, 1)",  # equal rows: a diff of 2
        "UPDATE kv SET v = 5 WHERE k IS NULL",
        "DELETE FROM kv WHERE k < 3",
    )
    for statement in history:
        s.sql(statement)
    upserts = [
        {(1, "upsert", 1, 2), (1, "upsert", 2, 4), (1, "upsert", None, 0)},
        {(2, "upsert", 3, 6)},
        {(3, "upsert", 1, 10)},
        {(4, "upsert", 3, 7)},
        {(5, "key_violation", 3, None)},
        {(6, "key_violation", 4, None)},
        {(7, "upsert", None, 5)},
        {(8, "delete", 1, None), (8, "delete", 2, None)},
    ]
    rows = answer(s, "SUBSCRIBE kv ENVELOPE UPSERT (KEY (k)) AS OF 0")
    assert [{row for row in rows if row[0] == at} for at in range(1, 9)] == upserts and len(rows) == 11
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    changed = set(answer(s, "SUBSCRIBE kv ENVELOPE DEBEZIUM (KEY (k)) AS OF 0"))
    assert changed == {
        *{(1, "insert", 1, None, 2), (1, "insert", 2, None, 4), (1, "insert", None, None, 0), (2, "insert", 3, None, 6)},
        *{(3, "upsert", 1, 2, 10), (4, "insert", 3, None, 7), (5, "key_violation", 3, None, None)},
        *{(6, "key_violation", 4, None, None), (7, "upsert", None, 0, 5)},
        *{(8, "delete", 1, 10, None), (8, "delete", 2, 4, None)},
    }
    every = answer(s, "SUBSCRIBE kv ENVELOPE UPSERT (KEY (v, k)) AS OF 7")  # nothing but the key
    assert ((7, "key_violation", 1, 4) in every, (8, "delete", 10, 1) in every) == (True, True)
    at_end = answer(s, "SUBSCRIBE kv WITH (PROGRESS) AS OF 8 ENVELOPE UPSERT (KEY (k))")
    assert set(at_end) == {(8, True, None, None, None), (8, False, "upsert", None, 5), (8, False, "key_violation", 4, None)} | {
        (9, True, None, None, None)
    }


def test_order_within_a_timestamp(s: SparkSession) -> None:
    s.sql("CREATE TABLE ordered (a INT, b INT) USING delta")
    s.sql("INSERT INTO ordered VALUES (1, 1), (2, NULL), (3, 3), (4, NULL), (5, 3)")
    s.sql("UPDATE ordered SET b = 7 WHERE a = 1")

    def order(by: str) -> list[tuple[int, int]]:
        return [(row["diff"], row["a"]) for row in s.sql(f"SUBSCRIBE ordered AS OF 1 WITHIN TIMESTAMP ORDER BY {by}").collect()]

    assert order("b DESC NULLS LAST, a") == [(1, 3), (1, 5), (1, 1), (1, 2), (1, 4), (1, 1), (-1, 1)]
    assert order("b, a DESC") == [(1, 4), (1, 2), (1, 1), (1, 5), (1, 3), (-1, 1), (1, 1)]
    assert order("diff, 2 DESC") == [(1, 5), (1, 4), (1, 3), (1, 2), (1, 1), (-1, 1), (1, 1)]
    assert order("b NULLS LAST, a")[3:5] == [(1, 2), (1, 4)]


def test_progress_cursors_and_time_outs(s: SparkSession) -> None:
    s.sql("CREATE TABLE p (a INT NOT NULL) USING delta")
    s.sql("INSERT INTO p VALUES (1)")
    s.sql("DECLARE c CURSOR FOR SUBSCRIBE p WITH (PROGRESS)")
    assert answer(s, "FETCH c") == [(1, True, None, None)]
    assert answer(s, "FETCH ALL c") == [(1, False, 1, 1), (2, True, None, None)]
    began = time.monotonic()
    assert answer(s, "FETCH 5 c WITH (TIMEOUT = '0s')") == [] == answer(s, "FETCH ALL c WITH (TIMEOUT = '300ms')")
    assert 0.3 <= time.monotonic() - began < 10
    later = threading.Timer(0.3, lambda: s.sql("INSERT INTO p VALUES (2), (3)"))
    later.start()
    assert [row[1:] for row in answer(s, "FETCH c")] in ([(False, 1, 2)], [(False, 1, 3)])  # waits for it
    later.join()
    assert len(answer(s, "FETCH 9 c WITH (TIMEOUT = '1s')")) == 2  # a row, and progress
    s.sql("OPTIMIZE p")
    assert answer(s, "FETCH FORWARD 9 FROM c") == [(4, True, None, None)]
    with pytest.raises(CursorExists, match="a cursor C already"):
        s.sql("DECLARE C CURSOR FOR SUBSCRIBE p")
    with pytest.raises(CursorNotFound, match=r"no cursor d\."):
        s.sql("FETCH d")
    with pytest.raises(CursorNotFound):
        s.newSession().sql("FETCH c")  # cursors are a session's own
    assert answer(s, "CLOSE c") == [("c", "CLOSED")]
    assert condition(s, "FETCH c") == "STREAMTABLE_CURSOR_NOT_FOUND"
    # UP TO is waited for, and ends a cursor.
    later = threading.Timer(0.3, lambda: s.sql("INSERT INTO p VALUES (4)"))
    later.start()
    assert answer(s, "SUBSCRIBE p AS OF 3 UP TO 5 WITH (SNAPSHOT FALSE, PROGRESS)")[-1] == (4, False, 1, 4)
    later.join()
    s.sql("DECLARE c CURSOR FOR SUBSCRIBE p UP TO 5")
    assert (len(answer(s, "FETCH ALL c")), answer(s, "FETCH ALL c"), answer(s, "FETCH c")) == (4, [], [])
    s.sql("CLOSE c")
    lines = [line for (line,) in answer(s, "COPY (SUBSCRIBE (SELECT 'a\\t\\\\' AS x, CAST(NULL AS INT) AS y)) TO STDOUT")]
    assert lines == ["0\t1\ta\\t\\\\\t\\N"]


def test_resumed_after_every_row(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that keeps the last progress with its data loses nothing and gets nothing twice, wherever it stopped."""

    def data(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        return Counter(row for row in rows if not row[1])

    def progress(rows: list[tuple[Any, ...]]) -> list[int]:
        return [row[0] for row in rows if row[1]]

    monkeypatch.setattr(table, "_COMMITS", 1)
    whole, last = answer(s, "SUBSCRIBE with_feed AS OF 1 WITH (PROGRESS)"), version(s, "with_feed")
    assert progress(whole) == list(range(1, last + 2)) and len(data(whole)) > last
    monkeypatch.setattr(table, "_COMMITS", 2)  # who comes back is given other steps, which end behind other commits
    rest = {at: answer(s, f"SUBSCRIBE with_feed AS OF {at} - 1 WITH (SNAPSHOT FALSE, PROGRESS)") for at in progress(whole)[1:]}
    for at, rows in rest.items():
        assert progress(rows) == [at - 1, *range(at + 2, last + 1, 2), *[last + 1][: last + 1 - at]], at
    for stopped in range(1, len(whole) + 1):
        position = progress(whole[:stopped])[-1]
        kept = data(whole[: whole.index((position, True, None, None, None, None))])  # in one transaction with the position
        if position == 1:
            assert not kept, "the contents have not been kept yet: the client begins again"
        else:
            assert kept + data(rest[position]) == data(whole), stopped
    for until, told in ((4, [1, 2]), (5, [1, 2, 4])):  # at the end of a step, and in the middle of one
        rows = answer(s, f"SUBSCRIBE with_feed AS OF 1 UP TO {until} WITH (PROGRESS)")
        assert (data(rows), progress(rows)) == (data([row for row in whole if row[0] < until]), told)


def test_what_is_retained(s: SparkSession) -> None:
    s.sql("CREATE TABLE old (a INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for n in range(4):
        s.sql(f"INSERT INTO old VALUES ({n})")
    s.sql("UPDATE old SET a = 30 WHERE a = 3")
    s.sql("OPTIMIZE old")
    s.sql("DECLARE slow CURSOR FOR SUBSCRIBE old AS OF 3 WITH (SNAPSHOT FALSE)")
    s.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    s.sql("VACUUM old RETAIN 0 HOURS")
    s.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(
        HistoryLost, match=r"AS OF 4 is before what .*old retains: its contents and changes are there from AS OF 6 on"
    ):
        s.sql("SUBSCRIBE old AS OF 4").collect()
    (first, *others) = answer(s, "SUBSCRIBE old AS OF AT LEAST 4 WITH (PROGRESS)")
    assert first == (6, True, None, None) and len(others) == 6  # four rows; the two commits of VACUUM are progress
    # What OPTIMIZE took away no change asks for; what the UPDATE did is gone from the change feed as well.
    assert answer(s, "SUBSCRIBE old AS OF 5 WITH (SNAPSHOT FALSE)") == []
    for _ in range(2):
        with pytest.raises(HistoryLost, match="were vacuumed: the subscription ends"):
            s.sql("FETCH slow")
    with pytest.raises(HistoryLost, match="its changes are there from AS OF 5 on"):
        s.sql("SUBSCRIBE old AS OF 3 WITH (SNAPSHOT FALSE)").collect()


def test_what_a_compaction_and_a_vacuum_leave_of_a_table_that_is_only_appended_to(s: SparkSession) -> None:
    s.sql("CREATE TABLE appended (a INT) USING delta")
    for n in range(4):
        s.sql(f"INSERT INTO appended VALUES ({n})")
    s.sql("OPTIMIZE appended")
    vacuum(s, "appended")
    s.sql("INSERT INTO appended VALUES (4)")
    for relation in ("appended", "(SELECT a FROM appended)"):
        assert answer(s, f"SUBSCRIBE {relation} AS OF AT LEAST 1 WITH (SNAPSHOT FALSE)") == [(8, 1, 4)]
        with pytest.raises(HistoryLost, match="its changes are there from AS OF 4 on"):
            s.sql(f"SUBSCRIBE {relation} AS OF 1 WITH (SNAPSHOT FALSE)").collect()


def test_sessions_with_other_settings_share_no_rows(s: SparkSession) -> None:
    s.sql("CREATE TABLE clocks (at TIMESTAMP) USING delta")
    s.sql("INSERT INTO clocks VALUES (TIMESTAMP '2026-01-01 00:00:00Z')")
    told = []
    sessions = [s.newSession() for _ in range(2)]
    for each, zone in zip(sessions, ("UTC", "Asia/Tokyo"), strict=True):
        for sql in ("USE subscribed", f"SET TIME ZONE '{zone}'", "DECLARE c CURSOR FOR SUBSCRIBE clocks AS OF 0"):
            each.sql(sql)
        told += answer(each, "COPY (SUBSCRIBE clocks AS OF 0 UP TO 2) TO STDOUT")
    assert told == [("1\t1\t2026-01-01 00:00:00",), ("1\t1\t2026-01-01 09:00:00",)]
    for each in sessions:
        each.sql("CLOSE c")
    for file in folder(s, "clocks").glob("*.parquet"):
        file.unlink()
    sessions[0].conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(HistoryLost, match="were vacuumed"):
        sessions[0].sql("SUBSCRIBE clocks AS OF 0").collect()


def test_what_a_cleaned_up_log_retains(s: SparkSession) -> None:
    s.sql("CREATE TABLE logged (a INT) USING delta TBLPROPERTIES (delta.checkpointInterval = 2)")
    for n in range(1, 5):
        s.sql(f"INSERT INTO logged VALUES ({n})")
    for gone in sorted((folder(s, "logged") / "_delta_log").glob("*.json"))[:2]:
        gone.unlink()  # as Delta does when they are old, up to the last checkpoint
    java_class(s, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    for options, what, since in (("", "contents and changes", 2), ("WITH (SNAPSHOT FALSE)", "changes", 1)):
        with pytest.raises(
            HistoryLost, match=rf"AS OF 0 is before what .*logged retains: its {what} are there from AS OF {since} on"
        ):
            s.sql(f"SUBSCRIBE logged AS OF 0 {options}")
    for relation in ("logged", "(SELECT a FROM logged WHERE a > 0)"):
        assert answer(s, f"SUBSCRIBE {relation} AS OF 1 WITH (SNAPSHOT FALSE)") == [(2, 1, 2), (3, 1, 3), (4, 1, 4)]
    assert Counter(answer(s, "SUBSCRIBE logged AS OF AT LEAST 0")) == Counter([(2, 1, 1), (2, 1, 2), (3, 1, 3), (4, 1, 4)])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("DROP TABLE {}", SourceUnavailable),
        ("ALTER TABLE {} RENAME TO renamed", SourceUnavailable),
        ("CREATE OR REPLACE TABLE {} (b INT) USING delta", (HistoryLost, SourceChanged)),
        ("ALTER TABLE {} RENAME COLUMN a TO b", SourceChanged),
    ],
)
def test_what_ends_a_subscription(s: SparkSession, change: str, error: type[Exception]) -> None:
    s.sql("CREATE TABLE ending (a INT) USING delta TBLPROPERTIES (delta.columnMapping.mode = 'name')")
    s.sql("DECLARE c CURSOR FOR SUBSCRIBE ending")
    s.sql("DECLARE q CURSOR FOR SUBSCRIBE (SELECT a + 1 AS x FROM ending)")
    s.sql("ALTER TABLE ending ADD COLUMN later INT")  # not one of those that were subscribed to
    s.sql("INSERT INTO ending VALUES (1, 2)")
    assert (answer(s, "FETCH ALL c"), answer(s, "FETCH ALL q")) == ([(2, 1, 1)], [(2, 1, 2)])
    s.sql(change.format("ending"))
    for cursor in ("c", "q", "c"):
        with pytest.raises(error, match="the subscription ends"):
            s.sql(f"FETCH {cursor}")
    for cursor in ("c", "q"):
        s.sql(f"CLOSE {cursor}")
    for name in ("ending", "renamed"):
        s.sql(f"DROP TABLE IF EXISTS {name}")


def test_values_of_all_types(s: SparkSession) -> None:
    kinds = "1.50 AS n, X'00FF' AS b, DATE'2026-01-01' AS d, TIMESTAMP'2026-01-01 12:00:00.000001' AS t, array(1, NULL) AS r"
    nested = "struct(1 AS x, map('k', array(2)) AS y) AS `a.b c`"
    s.sql(f"CREATE TABLE kinds USING delta AS SELECT {kinds}, map('k', 1) AS m, parse_json('[1]') AS j, CAST('nan' AS DOUBLE) AS f")
    s.sql("INSERT INTO kinds SELECT * FROM kinds")
    ((at, diff, *values),) = answer(s, "SUBSCRIBE kinds")
    (expected_values, *_) = answer(s, "SELECT * FROM kinds")
    assert (at, diff, str(values)) == (1, 2, str(list(expected_values)))
    s.sql("DELETE FROM kinds")
    assert answer(s, "SUBSCRIBE kinds AS OF 1 WITH (SNAPSHOT FALSE) ENVELOPE UPSERT (KEY (m, j))")[0][1] == "key_violation"
    assert [str(value) for (*_, value) in answer(s, f"SUBSCRIBE (SELECT {nested})")] == ["Row(x=1, y={'k': [2]})"]


def test_what_a_cancelled_fetch_had_taken_comes_with_the_next(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Subscription.pause

    def cancelled(self: Subscription[Any], longest: float | None = None) -> None:
        java_class(s, "java.lang.Thread").currentThread().interrupt()  # as HiveServer2 and Spark Connect do
        waits(self, longest)

    s.sql("DECLARE c CURSOR FOR SUBSCRIBE with_feed AS OF 2")
    s.sql("DECLARE other CURSOR FOR SUBSCRIBE with_feed AS OF 2")
    with monkeypatch.context() as patched:
        patched.setattr(Subscription, "pause", cancelled)
        assert condition(s, "FETCH 1000 c WITH (TIMEOUT = '1d')") == "STREAMTABLE_CANCELLED"
    fetched = answer(s, "FETCH c") + answer(s, "FETCH ALL c")
    assert Counter(fetched) == Counter(answer(s, "FETCH ALL other")) and len(fetched) > 1


@pytest.mark.parametrize("taken", [0, 3])
def test_a_fetch_whose_jobs_are_cancelled_has_taken_nothing(s: SparkSession, taken: int) -> None:
    for cursor in ("c", "other"):
        s.sql(f"DECLARE {cursor} CURSOR FOR SUBSCRIBE with_feed AS OF 2 WITHIN TIMESTAMP ORDER BY k")
    fetched = answer(s, f"FETCH {taken} c")  # none, or some of the contents: either they are cancelled, or the changes after them
    s.sparkContext.setJobGroup("cancelled", "a statement that its client cancels")
    s._jsc.sc().cancelJobGroupAndFutureJobs("cancelled")
    try:
        for _ in range(2):
            assert condition(s, "FETCH 1000 c") == "STREAMTABLE_CANCELLED"
    finally:
        s.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    fetched += answer(s, "FETCH ALL c") + answer(s, "FETCH ALL c WITH (TIMEOUT = '0s')")
    assert fetched == answer(s, "FETCH ALL other") and len(fetched) > 4


def test_a_second_reader_that_stays_is_refused_and_the_first_goes_on(s: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamtable.subscribing.cursor._PATIENCE", 0.2)
    reading, waits = threading.Event(), Subscription.pause

    def told(self: Subscription[Any], longest: float | None = None) -> None:
        reading.set()
        waits(self, longest)

    monkeypatch.setattr(Subscription, "pause", told)
    s.sql("CREATE TABLE read_by_two (a INT) USING delta")
    with subscribe(s, "read_by_two") as rows, ThreadPoolExecutor(1) as pool:
        first = pool.submit(rows.fetch, 1, 60)
        assert reading.wait(60)
        with pytest.raises(InvalidStatement, match="another thread is reading this subscription"):
            rows.fetch()
        s.sql("INSERT INTO read_by_two VALUES (7)")
        assert first.result(60) == [(1, 1, 7)]
    s.sql("DROP TABLE read_by_two")
