"""Queries that read the clock: rows that enter and leave because time passed, with and without changes of the sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario
from tests.oracle.together import together
from tests.versions import known

from streamtable.engine import clock
from streamtable.errors import InvalidQuery

START = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=timezone.utc)
ZONE = "America/New_York"

EVENTS = (
    "(1, TIMESTAMP '{0} 08:00:00Z', 10), (1, TIMESTAMP '{0} 11:30:00Z', 20), (2, TIMESTAMP '{0} 12:30:00Z', NULL), (2, NULL, 5)"
)
LIMITS = "(1, 30, DATE '2026-03-01'), (2, 600, DATE '2026-03-02'), (3, NULL, NULL), (NULL, 5, DATE '2026-02-27')"

_ALL = {
    "window_of_an_hour": "SELECT * FROM e WHERE at > {now} - INTERVAL 1 HOUR",
    "not_yet": "SELECT k, at FROM e WHERE at > {now} OR at IS NULL",
    "between": "SELECT k, at FROM e WHERE at BETWEEN {now} - INTERVAL 2 HOURS AND {now} AND v > 0",
    "today": "SELECT k, v FROM e WHERE to_date(at) = {today}",
    "fresh_or_stale": "SELECT k, CASE WHEN at > {now} - INTERVAL 1 HOUR THEN 'fresh' ELSE 'stale' END AS state FROM e",
    "age": "SELECT k, datediff({today}, until) AS days, minutes FROM d",
    "instants": "SELECT k, {now} AS now, {today} AS today, {local} AS here, unix_micros({now}) AS n FROM d",
    "counted_if_fresh": "SELECT k, count(*) AS n, count(*) FILTER (WHERE at > {now} - INTERVAL 1 HOUR) AS fresh, "
    "sum(CASE WHEN at < {now} THEN v END) AS s, max(at) < {now} AS past FROM e GROUP BY k",
    "by_age": "SELECT datediff({today}, until) AS days, count(*) AS n FROM d GROUP BY datediff({today}, until)",
    "distinct_ages": "SELECT DISTINCT until < {today} AS over FROM d",
    "joined": "SELECT e.k, e.v, d.minutes FROM e JOIN d ON e.k = d.k AND e.at > {now} - INTERVAL 1 HOUR",
    "joined_by_both": "SELECT e.k, e.at, d.minutes FROM e, d WHERE e.k = d.k AND e.at + make_interval(0,0,0,0,0,d.minutes) > {now}",
    "left_filtered": "SELECT d.k, e.at FROM d LEFT JOIN e ON e.k = d.k AND e.at > {now} - INTERVAL 1 HOUR",
    "left_by_both": "SELECT d.k, e.at FROM d LEFT JOIN e ON e.k = d.k AND e.at + make_interval(0,0,0,0,0,d.minutes) > {now}",
    "right_filtered": "SELECT d.k, e.at FROM e RIGHT JOIN d ON e.k = d.k AND e.at > {now} - INTERVAL 1 HOUR",
    "full": "SELECT d.k, e.k AS ek, e.at FROM d FULL JOIN e ON e.k = d.k AND e.at > {now} - INTERVAL 1 HOUR",
    "exists": "SELECT k FROM d WHERE EXISTS (SELECT 1 FROM e WHERE e.k = d.k AND e.at > {now} - INTERVAL 1 HOUR)",
    "not_in": "SELECT k FROM d WHERE k NOT IN (SELECT k FROM e WHERE at > {now})",
    "scalar": "SELECT k, (SELECT count(*) FROM e WHERE e.k = d.k AND e.at < {now}) AS n FROM d",
    "ranked": "SELECT k, v, rank() OVER (PARTITION BY k, at < {now} ORDER BY v) AS n FROM e",
    "top": "SELECT k, at FROM e ORDER BY abs(unix_micros(at) - unix_micros({now})), k LIMIT 2",
    "days_until_now": "SELECT k, day FROM d LATERAL VIEW explode(sequence(until, greatest(until, {today}))) s AS day",
    "union": "SELECT k, at FROM e WHERE at < {now} UNION ALL SELECT k, NULL FROM d WHERE until < {today}",
    "except": "SELECT k FROM d EXCEPT SELECT k FROM e WHERE at > {now}",
    "cubed": "SELECT k, at < {now} AS past, count(*) AS n FROM e GROUP BY CUBE (k, at < {now})",
    "recursive": "WITH RECURSIVE days(d) AS (SELECT min(until) FROM d UNION ALL SELECT date_add(d, 1) FROM days WHERE d < {today}) "
    "SELECT * FROM days",
}
QUERIES = known(_ALL)
ALONE = {"window_of_an_hour", "fresh_or_stale", "counted_if_fresh", "left_filtered", "exists", "scalar", "ranked", "except"}
"""One for each operator: after half an hour rows enter and leave."""
IN_TURN = ALONE | {"today", "instants", "distinct_ages", "joined_by_both", "full", "top", "days_until_now", "recursive"}
"""With one for each other way of reading the clock; `./run fuzz -k time_passes` has all."""
NEXT_DAY = f"INSERT INTO e VALUES {EVENTS.format('2026-03-02')}"  # past midnight in New York
UNTIL = "UPDATE d SET minutes = 5, until = DATE '2026-03-03' WHERE k = 1"
CALLS = {"now": "current_timestamp()", "today": "current_date()", "local": "localtimestamp()"}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    with Scenario(spark) as scenario:
        scenario.source("e", "k INT, at TIMESTAMP, v INT", EVENTS.format("2026-03-01"))
        scenario.source("d", "k INT, minutes INT, until DATE", LIMITS, properties="")
        yield scenario
    spark.conf.unset("spark.sql.session.timeZone")


def at(query: str, moment: datetime) -> str:
    """Write the instant in place of the calls of the clock: what the query means at that moment, without our help."""
    instant = f"TIMESTAMP '{moment.isoformat()}'"
    return query.format(now=instant, today=f"CAST({instant} AS DATE)", local=f"CAST({instant} AS TIMESTAMP_NTZ)")


@pytest.mark.timeout(1800)
def test_time_passes(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """For some queries alone, then for more with changes of the sources."""
    alone, more = ([name for name in QUERIES if name in some] for some in (ALONE, IN_TURN))
    check(s, monkeypatch, (timedelta(minutes=31), (), alone), (timedelta(hours=17), (NEXT_DAY, UNTIL), more))


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_time_passes_or_a_source_changes(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ((timedelta(minutes=31), ()), (timedelta(hours=17), (NEXT_DAY,)), (timedelta(0), (UNTIL,)))
    check(s, monkeypatch, *((passed, statements, [*QUERIES]) for passed, statements in steps))


def check(s: Scenario, monkeypatch: pytest.MonkeyPatch, *steps: tuple[timedelta, Sequence[str], Sequence[str]]) -> None:
    """Create all queries; let some time pass, run some statements, refresh some and compare, step by step."""
    moment = START
    monkeypatch.setattr(clock, "now", lambda: moment)
    s.queries |= QUERIES

    def create(name: str) -> None:
        s.spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name].format(**CALLS)}")

    def refresh(name: str) -> None:
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
        assert_exact(s.copies.session(), name, at(QUERIES[name], moment))

    together(create, dict.fromkeys(name for _, _, names in steps for name in names))
    for passed, statements, names in steps:
        moment += passed
        for statement in statements:
            s.spark.sql(statement)
        together(refresh, names)
    for name in ("window_of_an_hour", "recursive"):
        verdict = s.spark.sql(f"VERIFY STREAM TABLE {name}").first()
        assert verdict is not None
        assert verdict["ok"], verdict


def test_only_rows_that_enter_or_leave_are_written(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = START
    monkeypatch.setattr(clock, "now", lambda: moment)
    s.spark.sql(
        "CREATE STREAM TABLE hour REFRESH MODE DIFFERENTIAL AS SELECT * FROM e WHERE at > current_timestamp() - INTERVAL 1 HOUR"
    )
    s.queries["hour"] = ""
    moment += timedelta(minutes=31)
    done = s.spark.sql("REFRESH STREAM TABLE hour").first()
    assert done is not None
    assert (done["action"], done["rows_inserted"], done["rows_deleted"]) == ("DIFFERENTIAL", 0, 1)
    assert done["reason"] == "0 of 1 sources changed; the clock moved"


def test_a_date_stands_still_for_a_day_and_the_clock_never_goes_back(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = START
    monkeypatch.setattr(clock, "now", lambda: moment)
    s.spark.sql("CREATE STREAM TABLE daily AS SELECT k FROM d WHERE until <= current_date()")
    s.spark.sql("CREATE STREAM TABLE instantly AS SELECT k FROM d WHERE until <= current_timestamp()")
    s.queries |= {"daily": "", "instantly": ""}

    def action(name: str) -> str:
        done = s.spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        return str(done["action"])

    moment = START + timedelta(hours=16)  # 23:00 in New York, the next day in UTC
    assert (action("daily"), action("instantly")) == ("NO_DATA", "DIFFERENTIAL")
    moment = START + timedelta(hours=17)
    assert (action("daily"), action("instantly")) == ("DIFFERENTIAL", "DIFFERENTIAL")
    moment = START
    assert (action("daily"), action("instantly")) == ("NO_DATA", "NO_DATA")


def test_a_date_of_a_view_of_another_time_zone_moves_with_that_zone(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokyo begins a day while New York is in the middle of one: the date stood still until the table's own zone began its day."""
    moment = START
    monkeypatch.setattr(clock, "now", lambda: moment)
    zone = s.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    try:
        s.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        s.spark.sql("CREATE VIEW of_tokyo AS SELECT k, current_date() AS today FROM d")
        s.spark.conf.set("spark.sql.session.timeZone", zone)
        s.spark.sql("CREATE STREAM TABLE told_by_tokyo AS SELECT * FROM of_tokyo")
    finally:
        s.spark.conf.set("spark.sql.session.timeZone", zone)
    s.queries["told_by_tokyo"] = ""
    (before,) = s.spark.sql("SELECT DISTINCT today FROM told_by_tokyo").collect()
    moment = START + timedelta(hours=12)
    assert s.spark.sql("REFRESH STREAM TABLE told_by_tokyo").collect()[0]["action"] == "DIFFERENTIAL"
    (after,) = s.spark.sql("SELECT DISTINCT today FROM told_by_tokyo").collect()
    assert after[0] - before[0] == timedelta(days=1)


def test_what_is_volatile_beyond_the_clock_is_refused(s: Scenario) -> None:
    with pytest.raises(InvalidQuery, match="DATE 'today' is another time each time"):
        s.spark.sql("CREATE STREAM TABLE x AS SELECT k FROM d WHERE until = DATE 'today'")
    found = {
        row["operator"]: row["reason"]
        for row in s.spark.sql("EXPLAIN CREATE STREAM TABLE x AS SELECT k, current_user() AS u, rand() AS r FROM e").collect()
        if not row["incremental"]
    }
    assert list(found) == ["Verdict", "Project"]
    assert "volatile" in found["Project"]
