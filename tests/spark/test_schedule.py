"""The scheduler with real tables: chains and diamonds that run by themselves, failures, CASCADE, and two schedulers at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, done, jobs

from streamtable import start_scheduler
from streamtable.catalog.entries import Entry, load
from streamtable.delta.tables import find_table, versions
from streamtable.errors import ConcurrentRefresh, RefreshError, SourceUnavailable, StreamTableSuspended
from streamtable.language.names import Name
from streamtable.observe.alerts import Alert
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.records import Cause, Initiator
from streamtable.refresh.run import Outcome, refresh
from streamtable.schedule.failures import failure_record, write_failure

TOTALS = "SELECT region, sum(amount) AS total FROM sales GROUP BY region"
LARGE = "SELECT region, sum(amount) AS total FROM sales WHERE amount > 0 GROUP BY region"
JOINED = "SELECT a.region, a.total AS x, b.total AS y FROM a FULL JOIN b ON a.region <=> b.region"


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    """Show each step of the scheduler beside a failure: many of them depend on the order of threads."""
    caplog.set_level(logging.DEBUG, "streamtable.scheduler")


def diamond(spark: SparkSession) -> None:
    """Create two sums of the same rows, and the table in which they meet: x and y are equal wherever it mixes no versions."""
    spark.sql(f"CREATE STREAM TABLE a SCHEDULE '1h' AS {TOTALS}")
    spark.sql(f"CREATE STREAM TABLE b SCHEDULE CALCULATED AS {LARGE}")
    spark.sql(f"CREATE STREAM TABLE j SCHEDULE '1s' AS {JOINED}")


def mixed_versions(spark: SparkSession) -> list[tuple[Any, ...]]:
    """Return what the diamond's tip ever held that was joined from two versions of the sales."""
    return answer(spark, "SELECT _commit_version, region, x, y FROM table_changes('j', 1) WHERE NOT x <=> y")


def latest(spark: SparkSession, name: str) -> int:
    """Return the latest version of a table without a Spark job: the scheduler needs the cores."""
    (found,) = versions(spark, [find_table(spark, [name]).path])
    assert found is not None
    return found.number


def eventually(holds: Callable[[], object], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.5)


def history(spark: SparkSession, name: str) -> list[tuple[str, str]]:
    """Return the actions and reasons, the first one first."""
    return [(row[3], row[4]) for row in reversed(answer(spark, f"SHOW REFRESH HISTORY FOR {name}"))]


def described(spark: SparkSession, name: str) -> dict[str, str]:
    return dict(answer(spark, f"DESCRIBE STREAM TABLE {name}"))


def stands_for(spark: SparkSession, name: str) -> dict[str, int]:
    """Return the version of each source that the contents stand for, by the last part of its name."""
    rows = described(spark, name).items()
    return {key.rpartition(".")[2]: int(value.split()[-1]) for key, value in rows if key.startswith("source ")}


def current(spark: SparkSession, *names: str) -> bool:
    """Tell whether each table stands for the latest versions of its sources."""
    return all(number == latest(spark, source) for name in names for source, number in stands_for(spark, name).items())


def write(spark: SparkSession, number: int) -> None:
    spark.sql(f"INSERT INTO sales VALUES ({number}, 'north', {number}), ({number}, 'r{number % 3}', 1)")


def test_a_chain_and_a_diamond_become_exact_by_themselves_and_then_cost_nothing(hurried: SparkSession) -> None:
    diamond(hurried)
    hurried.sql("CREATE STREAM TABLE top SCHEDULE '1s' AS SELECT sum(x) AS x, count(*) AS n FROM j")
    with start_scheduler(hurried):
        write(hurried, 5)
        hurried.sql("DELETE FROM sales WHERE id = 2")
        eventually(lambda: current(hurried, "a", "b", "j", "top"))
        before = jobs(hurried), latest(hurried, "j")
        time.sleep(2.5)
        assert (jobs(hurried), latest(hurried, "j")) == before, "tables that need nothing cost no Spark job"
    asked = "SELECT DISTINCT initiated_by FROM refresh_history('top') WHERE action = 'DIFFERENTIAL'"
    assert answer(hurried, asked) == [("SCHEDULER",)]
    assert_exact(hurried, "b", LARGE)
    assert_exact(hurried, "j", JOINED)
    assert_exact(hurried, "top", "SELECT sum(x) AS x, count(*) AS n FROM j")
    assert mixed_versions(hurried) == []
    assert hurried.sparkContext.statusTracker().getJobIdsForGroup("streamtable spark_catalog.shop.j")
    assert {action for action, _ in history(hurried, "j")} == {"REINITIALIZE", "DIFFERENTIAL"}


def test_a_chain_on_update_follows_a_commit_in_one_cycle_and_waits_for_no_poll(hurried: SparkSession) -> None:
    hurried.sql(f"CREATE STREAM TABLE a SCHEDULE CALCULATED AS {TOTALS}")
    hurried.sql("CREATE STREAM TABLE b SCHEDULE ON UPDATE AS SELECT region, total FROM a")
    hurried.sql("CREATE MATERIALIZED VIEW c TRIGGER ON UPDATE AS SELECT sum(total) AS total, count(*) AS n FROM b")
    hurried.conf.set("spark.streamtable.scheduler.pollSeconds", "3600")
    with start_scheduler(hurried):
        for number in (5, 6):  # the first look may see the first one, only the file of its commit tells the second
            write(hurried, number)
            eventually(lambda: current(hurried, "a", "b", "c"))
        before = jobs(hurried)
        time.sleep(1.5)
        assert jobs(hurried) == before, "what waits for a commit costs no Spark job"
    frontiers = [Frontier.of(load(hurried, Name((name,))).state.frontier) for name in "abc"]
    assert len({frontier.at for frontier in frontiers if frontier}) == 1
    assert answer(hurried, "SELECT DISTINCT initiated_by FROM refresh_history('c') WHERE action = 'DIFFERENTIAL'") == [
        ("SCHEDULER",)
    ]
    assert_exact(hurried, "b", TOTALS)
    assert_exact(hurried, "c", f"SELECT sum(total) AS total, count(*) AS n FROM ({TOTALS})")


def test_a_table_on_update_is_stale_when_nobody_follows(hurried: SparkSession) -> None:
    hurried.sql(f"CREATE STREAM TABLE a SCHEDULE ON UPDATE AS {TOTALS}")
    hurried.sql(f"CREATE STREAM TABLE seldom SCHEDULE ON UPDATE AT MOST EVERY '1h' AS {TOTALS}")

    def stale() -> dict[str, bool]:
        return {name.rpartition(".")[2]: late for name, late in answer(hurried, "SELECT name, stale FROM stream_tables()")}

    assert stale() == {"a": False, "seldom": False}
    write(hurried, 5)
    eventually(lambda: stale()["a"])
    assert stale() == {"a": True, "seldom": False}
    hurried.sql("REFRESH STREAM TABLE a")
    assert stale() == {"a": False, "seldom": False}


def test_a_source_that_is_gone_suspends_the_table_and_resume_brings_it_back(hurried: SparkSession) -> None:
    hurried.sql("CREATE TABLE rates (region STRING, rate INT) USING delta")
    hurried.sql("INSERT INTO rates VALUES ('north', 2)")
    hurried.sql("CREATE STREAM TABLE rated SCHEDULE '1s' AS SELECT s.id, r.rate FROM sales s JOIN rates r ON s.region = r.region")
    hurried.sql("CREATE STREAM TABLE above SCHEDULE '1s' AS SELECT rate, count(*) AS n FROM rated GROUP BY rate")
    before = answer(hurried, "SELECT * FROM rated")
    hurried.sql("DROP TABLE rates")
    write(hurried, 8)
    alerts: list[Alert] = []
    with start_scheduler(hurried, on_alert=alerts.append):
        eventually(lambda: described(hurried, "rated")["status"] == "SUSPENDED")
        eventually(lambda: {"SUSPENDED", "SOURCE_GONE"} <= {a.kind.value for a in alerts if a.name == "spark_catalog.shop.rated"})
        eventually(lambda: history(hurried, "above")[-1] == ("SKIPPED", "spark_catalog.shop.rated is suspended"))
        eventually(
            lambda: "; it waits: spark_catalog.shop.rated is suspended" in str(answer(hurried, "SELECT * FROM alerts('above')"))
        )
        assert answer(hurried, "SELECT * FROM rated") == before
        told = described(hurried, "rated")
        assert (told["error_condition"], told["failures_in_a_row"]) == ("STREAMTABLE_SOURCE_UNAVAILABLE", "2")
        assert "rates" in told["error"]
        (shown,) = answer(hurried, "SHOW STREAM TABLES LIKE 'rated'")
        assert (shown[1], shown[-1]) == ("SUSPENDED", told["error"])
        failed = [entry for entry in history(hurried, "rated") if entry[0] == "FAILED"]
        assert failed == [("FAILED", f"[STREAMTABLE_SOURCE_UNAVAILABLE] {told['error']}")] * 2

        hurried.sql("CREATE TABLE rates (region STRING, rate INT) USING delta")
        hurried.sql("INSERT INTO rates VALUES ('north', 3)")
        hurried.sql("ALTER STREAM TABLE rated SET SCHEDULE '1d'")
        hurried.sql("ALTER STREAM TABLE rated RESUME")  # it is tried at once, not tomorrow
        eventually(lambda: history(hurried, "rated")[-1][0] == "REINITIALIZE")
        eventually(lambda: stands_for(hurried, "above") == {"rated": latest(hurried, "rated")})
    assert_exact(hurried, "rated", "SELECT s.id, r.rate FROM sales s JOIN rates r ON s.region = r.region")
    assert_exact(hurried, "above", "SELECT rate, count(*) AS n FROM rated GROUP BY rate")
    assert not {"error", "failed_at"} & described(hurried, "rated").keys()
    first, *others = history(hurried, "above")
    skipped = [entry for entry in others if entry[0] == "SKIPPED"]
    assert first[0] == "REINITIALIZE"
    assert 1 <= len(set(skipped)) == len(skipped), "once for each reason"
    assert others[: len(skipped)] == skipped
    assert {action for action, _ in others[len(skipped) :]} == {"DIFFERENTIAL"}


def test_cascade_uses_one_vector_or_refuses(hurried: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    diamond(hurried)
    refreshed: list[str] = []
    moved: list[str] = []

    def and_write(spark: SparkSession, entry: Entry, full: bool, vector: Vector, cause: Cause) -> Outcome:
        refreshed.append(entry.definition.name.rpartition(".")[2])
        outcome = refresh(spark, entry, full, vector, cause)
        write(spark, 20 + len(refreshed))
        return outcome

    def after_another(spark: SparkSession, entry: Entry, full: bool, vector: Vector, cause: Cause) -> Outcome:
        if not moved:
            moved.append(entry.definition.name)
            write(spark, 30)
            refresh(spark, entry)
        return refresh(spark, load(spark, entry.definition.statement.name), full, vector, cause)

    write(hurried, 10)
    asked = latest(hurried, "sales")
    with monkeypatch.context() as patched:
        patched.setattr("streamtable.schedule.cycle.refresh", and_write)
        assert done(hurried, "REFRESH STREAM TABLE j CASCADE")[0] == "DIFFERENTIAL"
    assert (sorted(refreshed), refreshed[-1]) == (["a", "b", "j"], "j")
    assert stands_for(hurried, "a") == stands_for(hurried, "b") == {"sales": asked}

    write(hurried, 11)
    before = latest(hurried, "j")
    with monkeypatch.context() as patched:
        patched.setattr("streamtable.schedule.cycle.refresh", after_another)
        with pytest.raises(ConcurrentRefresh, match="another session refreshed tables that spark_catalog.shop.j read meanwhile"):
            hurried.sql("REFRESH STREAM TABLE j CASCADE")
    assert latest(hurried, "j") == before
    assert mixed_versions(hurried) == []
    write(hurried, 31)
    hurried.sql("REFRESH STREAM TABLE a")
    hurried.sql("REFRESH STREAM TABLE j")
    assert mixed_versions(hurried), "refreshed one by one, they mix: the check above can fail"


def test_a_vector_older_than_the_contents_is_no_step_back(hurried: SparkSession) -> None:
    hurried.sql(f"CREATE STREAM TABLE a AS {TOTALS}")
    name = Name(("spark_catalog", "shop", "a"))
    old = Vector.read(hurried, list(load(hurried, name).definition.sources))
    write(hurried, 12)
    middle = Vector.read(hurried, list(old.versions))
    write(hurried, 13)
    assert refresh(hurried, load(hurried, name), vector=middle).action == "DIFFERENTIAL"
    frontier = Frontier.of(load(hurried, name).state.frontier)
    assert frontier is not None
    assert (frontier.sources, frontier.at) == (middle.versions, middle.at)
    assert refresh(hurried, load(hurried, name), vector=old).action == "NO_DATA"
    assert answer(hurried, "VERIFY STREAM TABLE a")[0][1:] == (True, 0, 0)
    assert done(hurried, "REFRESH STREAM TABLE a")[0] == "DIFFERENTIAL"
    assert_exact(hurried, "a", TOTALS)


def test_a_statement_that_fails_is_in_the_history_too(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE ratio AS SELECT id, 100 / amount AS q FROM sales")
    shop.sql("CREATE STREAM TABLE above AS SELECT count(*) AS n FROM ratio")
    shop.sql("INSERT INTO sales VALUES (9, 'east', 0)")
    for statement in ("REFRESH STREAM TABLE ratio", "REFRESH STREAM TABLE above CASCADE"):
        with pytest.raises(RefreshError, match="DIVIDE_BY_ZERO"):
            shop.sql(statement)
    failures = [reason for action, reason in history(shop, "ratio") if action == "FAILED"]
    assert len(failures) == 2
    assert all(reason.startswith("[STREAMTABLE_REFRESH_FAILED] ") and "DIVIDE_BY_ZERO" in reason for reason in failures)
    assert [action for action, _ in history(shop, "above")] == ["REINITIALIZE"]
    assert answer(shop, "SELECT alert, text FROM alerts('ratio')") == [("FAILED", failures[-1])]
    shop.sql("DELETE FROM sales WHERE amount = 0")
    assert done(shop, "REFRESH STREAM TABLE above CASCADE") == ("NO_DATA", "no row of a source changed")
    assert answer(shop, "SELECT * FROM alerts('ratio')") == []
    assert_exact(shop, "ratio", "SELECT id, 100 / amount AS q FROM sales")
    shop.sql("ALTER STREAM TABLE ratio SUSPEND")
    with pytest.raises(StreamTableSuspended):
        shop.sql("REFRESH STREAM TABLE above CASCADE")
    assert history(shop, "ratio")[-1][0] == "DIFFERENTIAL"


def test_the_failures_in_a_row_end_with_a_success_and_with_resume(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE a AS {TOTALS}")
    path = load(shop, Name(("spark_catalog", "shop", "a"))).path

    def in_a_row_after_failing(most: int) -> list[tuple[Any, ...]]:
        gone = SourceUnavailable("the source is gone")
        write_failure(shop, path, gone, failure_record(gone, time.perf_counter(), Cause(Initiator.SCHEDULER)), most)
        return answer(shop, "SELECT status, consecutive_errors FROM stream_tables('a')")

    assert in_a_row_after_failing(9) == [("ACTIVE", 1)]
    assert done(shop, "REFRESH STREAM TABLE a")[0] == "NO_DATA"
    assert history(shop, "a")[-1] == ("NO_DATA", "no source changed")
    assert done(shop, "REFRESH STREAM TABLE a")[0] == "NO_DATA"
    assert [action for action, _ in history(shop, "a")] == ["REINITIALIZE", "FAILED", "NO_DATA"], "once is enough"
    assert in_a_row_after_failing(2) == [("ACTIVE", 1)]
    assert in_a_row_after_failing(2) == [("SUSPENDED", 2)]
    shop.sql("ALTER STREAM TABLE a RESUME")
    assert answer(shop, "SELECT status, consecutive_errors FROM refresh_stats('a')") == [("ACTIVE", 0)]
    assert in_a_row_after_failing(2) == [("ACTIVE", 1)]
    assert in_a_row_after_failing(2) == [("SUSPENDED", 2)]
    shop.sql(f"CREATE OR REPLACE STREAM TABLE a AS {TOTALS}")
    assert in_a_row_after_failing(2) == [("ACTIVE", 1)]


def test_two_schedulers_do_no_harm_and_one_takes_over(hurried: SparkSession) -> None:
    diamond(hurried)
    first, second = start_scheduler(hurried), start_scheduler(hurried)
    with second:
        with first:
            write(hurried, 40)
            write(hurried, 41)
            # They get in each other's way: a minute and a half with nothing else on two cores.
            eventually(lambda: current(hurried, "a", "b"), 400)
        assert (first.running, second.running) == (False, True)
        write(hurried, 50)
        eventually(lambda: current(hurried, "a", "b", "j"), 400)
    for name in ("a", "b", "j"):
        assert answer(hurried, f"VERIFY STREAM TABLE {name}")[0][1:] == (True, 0, 0)
        assert not [entry for entry in history(hurried, name) if entry[0] == "FAILED"]
    assert_exact(hurried, "j", JOINED)
    assert mixed_versions(hurried) == []
