"""What there is to see of stream tables: table functions in any query, the health of sources, and alerts."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from tests.spark.statements import answer, done, folder

from streamtable.engine import clock
from streamtable.errors import DependentsExist, InvalidStatement, NotIncremental, RefreshError, StreamTableNotFound
from streamtable.jvm.gateway import java_class
from streamtable.observe.alerts import Alert
from streamtable.observe.functions import FUNCTIONS
from streamtable.observe.look import look
from streamtable.observe.status_rows import LISTED
from streamtable.observe.watch import Watch

ST = "spark_catalog.shop.st"
TOTALS = "SELECT region, count(*) AS n, sum(amount) AS total FROM sales WHERE amount IS NOT NULL GROUP BY region"


def one(spark: SparkSession, sql: str) -> dict[str, Any]:
    """Return the only row of a query, by column."""
    (row,) = spark.sql(sql).collect()
    return dict(row.asDict())


def test_columns_of_every_function_and_rows_that_join(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '1h' AS {TOTALS}")
    shop.sql("CREATE STREAM TABLE large AS SELECT * FROM st WHERE total > 30")
    shop.sql("CREATE STREAM TABLE empty WITH NO DATA AS SELECT id FROM sales")
    frames = {name: shop.sql(f"SELECT * FROM {name}()") for name in FUNCTIONS}
    assert {name: frame.schema.simpleString() for name, frame in frames.items()} == {
        name: function.columns.simpleString() for name, function in FUNCTIONS.items()
    }
    counts = {name: frame.count() for name, frame in frames.items()}
    assert counts == {
        "stream_tables": 3,
        "refresh_history": 2,
        "refresh_stats": 3,
        "staleness": 3,
        "source_health": 3,
        "stream_table_dependencies": 3,
        "expectations": 0,
        "alerts": 1,
        "publications": 0,
        "subscriptions": 0,
        "subscription_tables": 0,
        "subscription_stats": 0,
        "replication_slots": 0,
    }
    shop.sql("UPDATE sales SET amount = 21 WHERE id = 2")
    behind = one(shop, "SELECT * FROM staleness('st')")
    assert (behind["name"], behind["stale"]) == (ST, False)
    assert 0 < behind["staleness_seconds"] < 600
    shop.sql("REFRESH STREAM TABLE large CASCADE")
    assert one(shop, "SELECT staleness_seconds FROM staleness('shop.st')") == {"staleness_seconds": 0}
    assert answer(
        shop,
        "SELECT t.name, t.last_action, s.total_refreshes, s.total_rows_inserted, s.total_rows_deleted, t.is_populated, t.stale"
        " FROM stream_tables() t JOIN refresh_stats() s USING (name) WHERE t.schedule = 'MANUAL' OR t.version > 1 ORDER BY ALL",
    ) == [
        ("spark_catalog.shop.empty", None, 0, 0, 0, False, True),
        ("spark_catalog.shop.large", "DIFFERENTIAL", 2, 2, 1, True, None),
        (ST, "DIFFERENTIAL", 2, 4, 1, True, False),
    ]
    assert answer(shop, "SELECT action, status, rows_inserted, rows_deleted, initiated_by FROM refresh_history('st')") == [
        ("DIFFERENTIAL", "COMPLETED", 1, 1, "MANUAL"),
        ("REINITIALIZE", "COMPLETED", 3, 0, "INITIAL"),
    ]
    assert answer(shop, "SELECT last_full_ms > 0, auto_full_share IS NULL FROM refresh_stats('st')") == [(True, True)]
    assert len(answer(shop, "SELECT * FROM refresh_history('st', 1)")) == 1
    assert [row[5:7] for row in answer(shop, "SHOW REFRESH HISTORY FOR st")] == [(1, 1), (3, 0)]
    assert answer(
        shop, "SELECT a.source FROM stream_table_dependencies() a JOIN stream_table_dependencies('large') b USING (name)"
    ) == [(ST,)]
    with pytest.raises(StreamTableNotFound, match="spark_catalog.shop.st"):
        shop.sql("SELECT * FROM stream_tables('st2')").collect()
    for call in ("stream_tables('st', 1)", "refresh_history('st', 'many')"):
        with pytest.raises(InvalidStatement, match=r"call it as"):
            shop.sql(f"SELECT * FROM {call}")


def test_all_who_show_the_status_show_the_same_and_a_failure_at_once(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id, 10 DIV amount AS share FROM sales")
    shop.sql("CREATE STREAM TABLE empty WITH NO DATA AS SELECT id FROM sales")
    names = LISTED.names

    def told(name: str) -> dict[str, Any]:
        """Return the status, which SHOW STREAM TABLES, stream_tables() and what pages and metrics read tell alike."""
        shown = shop.sql(f"SHOW STREAM TABLES LIKE '{name}'").select(*names).first()
        listed = shop.sql(f"SELECT * FROM stream_tables('{name}')").first()
        looked = look(shop).table(f"spark_catalog.shop.{name}")
        assert shown and listed and looked
        row = listed.asDict()
        of_look = {
            "state": looked.standing.value,
            "last_success": looked.succeeded_at and looked.succeeded_at.astimezone(),
            "last_action": looked.last_action,
            "error": looked.trouble,
            "error_condition": looked.condition,
            "consecutive_errors": looked.failures,
            "row_count": looked.size.rows if looked.size else None,
        }
        assert {**row, **of_look, "last_success": row["last_success"]} == row
        timeless = [each for each in names if each != "staleness_seconds"]
        assert [shown[each] for each in timeless] == [row[each] for each in timeless]
        return row

    fresh = told("st")
    assert (fresh["state"], fresh["row_count"], fresh["last_success"], fresh["next_due"]) == (
        "fresh",
        4,
        fresh["last_attempt"],
        None,
    )
    assert (told("empty")["state"], told("empty")["staleness_seconds"], told("empty")["last_success"]) == ("stale", None, None)
    shop.sql("UPDATE sales SET amount = 0 WHERE id = 1")
    behind = told("st")
    assert (behind["state"], behind["staleness_seconds"] > 0, behind["stale"]) == ("stale", True, None)  # it is MANUAL
    with pytest.raises(RefreshError):
        shop.sql("REFRESH STREAM TABLE st")
    failed = told("st")
    assert (failed["state"], failed["status"], failed["last_action"], failed["consecutive_errors"]) == (
        "failing",
        "ACTIVE",
        "FAILED",
        1,
    )
    assert failed["error_condition"] == "STREAMTABLE_REFRESH_FAILED" and "DIVIDE_BY_ZERO" in failed["error"]
    assert failed["last_success"] == fresh["last_success"] < failed["last_attempt"]
    shop.sql("UPDATE sales SET amount = 5 WHERE id = 1")
    shop.sql("REFRESH STREAM TABLE st")
    assert (told("st")["state"], told("st")["error"], told("st")["consecutive_errors"]) == ("fresh", None, 0)


def test_what_rests_is_not_stale_until_the_date_changes(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = clock.now().replace(hour=12, minute=0)
    monkeypatch.setattr(clock, "now", lambda: moment)
    zone = shop.conf.get("spark.sql.session.timeZone")
    shop.conf.set("spark.sql.session.timeZone", "UTC")
    shop.sql("CREATE VIEW seen AS SELECT id, amount FROM sales")
    for name, query in {
        "viewed": "SELECT * FROM seen",
        "daily": "SELECT id, current_date() AS day FROM sales",
        "instantly": "SELECT id, now() AS at FROM sales",
    }.items():
        shop.sql(f"CREATE STREAM TABLE {name} SCHEDULE '1h' AS {query}")
    shop.conf.set("spark.sql.session.timeZone", zone or "UTC")

    def stale() -> dict[str, tuple[bool, float]]:
        rows = answer(shop, "SELECT split_part(name, '.', 3), stale, round(staleness_seconds) FROM staleness()")
        return {name: (late, seconds) for name, late, seconds in rows}

    moment += timedelta(hours=6)
    assert stale() == {"viewed": (False, 0), "daily": (False, 0), "instantly": (True, 21600)}
    moment += timedelta(hours=8)  # two hours past midnight
    found = stale()
    assert (found["viewed"], found["daily"][0]) == ((False, 0), True)
    assert 7200 <= found["daily"][1] < 7261
    assert done(shop, "REFRESH STREAM TABLE daily")[0] == "DIFFERENTIAL"
    assert stale()["daily"] == (False, 0)
    shop.sql("INSERT INTO sales VALUES (9, 'east', 1)")  # now, which is before noon tomorrow
    assert stale()["viewed"][0]
    for name in ("viewed", "daily", "instantly"):
        shop.sql(f"DROP STREAM TABLE {name}")
    shop.sql("DROP VIEW seen")


def test_a_reader_of_a_suspended_table_is_late_with_it(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '1h' AS {TOTALS}")
    shop.sql("CREATE STREAM TABLE large SCHEDULE '1h' AS SELECT * FROM st WHERE total > 30")
    shop.sql("ALTER STREAM TABLE st SUSPEND")
    shop.sql("UPDATE sales SET amount = 21 WHERE id = 2")
    assert done(shop, "REFRESH STREAM TABLE large")[0] == "NO_DATA"
    (changed,) = one(shop, "SELECT data_timestamp FROM staleness('st')").values()
    later = clock.now() + timedelta(hours=3)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert one(shop, "SELECT data_timestamp, stale FROM staleness('large')") == {"data_timestamp": changed, "stale": True}
    assert answer(shop, "SELECT alert FROM alerts('large')") == [("STALE",)]


def test_views_and_stream_tables_over_a_function(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM sales")
    shop.sql("CREATE OR REPLACE VIEW seen AS SELECT name, version FROM stream_tables()")
    before = one(shop, "SELECT * FROM seen WHERE name LIKE '%.st'")["version"]
    shop.sql("INSERT INTO sales VALUES (9, 'east', 1)")
    shop.sql("REFRESH STREAM TABLE st")
    assert one(shop, "SELECT * FROM seen WHERE name LIKE '%.st'")["version"] == before + 1
    with pytest.raises(NotIncremental, match="refresh_history"):
        shop.sql("CREATE STREAM TABLE log REFRESH MODE DIFFERENTIAL AS SELECT * FROM refresh_history('st')")
    shop.sql("CREATE STREAM TABLE log AS SELECT version, action, rows_inserted FROM refresh_history('st')")
    shop.sql("INSERT INTO sales VALUES (10, 'east', 1)")
    shop.sql("REFRESH STREAM TABLE st")
    action, reason = done(shop, "REFRESH STREAM TABLE log")
    assert (action, "refresh_history" in reason) == ("FULL", True)
    assert answer(shop, "SELECT action, rows_inserted FROM log ORDER BY version") == [
        ("REINITIALIZE", 4),
        ("DIFFERENTIAL", 1),
        ("DIFFERENTIAL", 1),
    ]
    shop.sql("DROP VIEW seen")


def test_the_history_of_a_source_runs_out(shop: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    health = "SELECT state, change_mode, version_read, latest_version, versions_behind FROM source_health('st')"
    shop.sql("DROP TABLE sales")
    shop.sql("CREATE TABLE sales USING delta AS SELECT * FROM VALUES (1, 'north', 10), (2, 'south', 20) AS t(id, region, amount)")
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '1s' AS {TOTALS}")
    assert answer(shop, health) == [("OK", "diff", 0, 0, 0)]
    shop.sql("ALTER TABLE sales SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    shop.sql("DELETE FROM sales WHERE id = 1")
    assert answer(shop, health) == [("OK", "cdf", 0, 2, 2)]
    kept = one(shop, "SELECT history_until - behind_since > INTERVAL '6' DAY AS long FROM source_health('st')")
    assert kept == {"long": True}

    shop.sql("ALTER TABLE sales SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    assert answer(shop, health) == [("EXPIRING", "cdf", 0, 3, 3)]
    told: list[Alert] = []
    time.sleep(2)  # twice the schedule
    watch = Watch(shop, told.append)
    with caplog.at_level(logging.WARNING, "streamtable.alerts"):
        watch.poll()
        watch.poll()
    assert [each.kind.value for each in told] == ["HISTORY_EXPIRING", "STALE"]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [f"HISTORY_EXPIRING {ST}", f"STALE {ST}"]

    shop.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    shop.sql("VACUUM sales RETAIN 0 HOURS")
    shop.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert answer(shop, health) == [("LOST", "cdf", 0, 5, 5)]
    watch.poll()
    assert told[-1].kind.value == "HISTORY_LOST"
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "REINITIALIZE"
    shop.sql("ALTER STREAM TABLE st SUSPEND")
    assert {row[0] for row in answer(shop, "SELECT alert FROM alerts('st')")} == {"REBUILT", "SUSPENDED"}
    watch.poll()
    rebuilt = next(each for each in told if each.kind.value == "REBUILT")
    assert rebuilt.since is not None
    assert (datetime.now(timezone.utc) - rebuilt.since).total_seconds() < 600
    shop.sql("DROP TABLE sales")
    assert [row[0] for row in answer(shop, health)] == ["GONE"]


def test_the_log_of_a_source_is_cleaned(shop: SparkSession) -> None:
    shop.sql("DROP TABLE sales")
    shop.sql("CREATE TABLE sales (id INT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM sales")
    for n in range(4):
        shop.sql(f"INSERT INTO sales VALUES ({n})")
    *_, before_the_checkpoint, _, _ = sorted((folder(shop, "sales") / "_delta_log").glob("*.json"))
    before_the_checkpoint.unlink()
    java_class(shop, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    (health,) = answer(shop, "SELECT state, warning FROM source_health('st')")
    assert health[0] == "LOST"
    assert "does not hold all versions" in health[1]
    assert answer(shop, "SELECT alert FROM alerts('st') WHERE text LIKE '%does not hold all versions%'") == [("HISTORY_LOST",)]
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "REINITIALIZE"
    assert answer(shop, "SELECT state FROM source_health('st')") == [("OK",)]


def test_what_waits_to_be_read_grows(shop: SparkSession) -> None:
    shop.conf.set("spark.streamtable.alerts.backlogVersions", "1")
    backlog = "SELECT name, text FROM alerts() WHERE alert = 'BACKLOG' ORDER BY name"
    shop.sql(f"CREATE STREAM TABLE st AS {TOTALS}")
    shop.sql("CREATE QUEUE jobs (body STRING)")
    shop.sql("REGISTER CONSUMER worker ON jobs")
    for n in range(2):
        assert answer(shop, backlog) == []
        shop.sql(f"INSERT INTO sales VALUES ({n}, 'west', 1)")
        shop.sql(f"INSERT INTO jobs VALUES ('{n}')")
        shop.sql("ALTER TABLE sales SET TBLPROPERTIES ('a' = 'b')")  # changes no rows
    (events, first), (table, second) = answer(shop, backlog)
    assert (events, table) == ("spark_catalog.shop.jobs: worker", ST)
    for text in (first, second):
        assert "more than 1 versions with changes wait to be read, the first since 20" in text
    shop.sql("REFRESH STREAM TABLE st")
    assert [row[0] for row in answer(shop, backlog)] == [events]
    shop.conf.unset("spark.streamtable.alerts.backlogVersions")
    assert answer(shop, backlog) == []
    shop.sql("DROP QUEUE jobs FORCE")


BLOCKED = (
    "ALTER TABLE sales ADD COLUMNS (more INT)",
    "ALTER TABLE sales ALTER COLUMN amount TYPE BIGINT",
    "ALTER TABLE sales DROP COLUMN amount",
    "ALTER TABLE sales REPLACE COLUMNS (id INT)",
    "ALTER TABLE sales SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "ALTER TABLE sales SET LOCATION '/nowhere'",
    "ALTER TABLE sales RENAME TO sold",
    "DROP TABLE sales",
    "CREATE OR REPLACE TABLE sales (id INT) USING delta",
    "CREATE OR REPLACE TABLE sales USING delta AS SELECT 1 AS id",
)
PASSES = (
    "INSERT INTO sales VALUES (9, 'east', 1)",
    "INSERT OVERWRITE sales SELECT * FROM sales WHERE id > 1",
    "ALTER TABLE sales SET TBLPROPERTIES ('note' = 'x')",
    "ALTER TABLE sales ADD CONSTRAINT known CHECK (id > 0)",
    "CREATE OR REPLACE TABLE others (id INT) USING delta",
    "DROP TABLE others",
    "ALTER STREAM TABLE st RENAME TO st2",
)


def test_ddl_on_sources_is_refused_where_the_session_asks_for_it(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM sales")
    shop.conf.set("spark.streamtable.blockSourceDdl", "true")
    try:
        for statement in BLOCKED:
            with pytest.raises(DependentsExist, match=rf"spark_catalog\.shop\.sales is refused: {ST} read it"):
                shop.sql(statement)
        with pytest.raises(DependentsExist, match="CREATE OR REPLACE TABLE"):
            shop.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("sales")
        path = shop.sql("DESCRIBE DETAIL sales").collect()[0]["location"]
        with pytest.raises(DependentsExist, match="a DataFrame write"):
            shop.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
        with pytest.raises(DependentsExist, match="INSERT OVERWRITE"):
            shop.range(3).writeTo("sales").option("OVERWRITESCHEMA", "true").overwrite(lit(True))
        for statement in PASSES:
            shop.sql(statement)
        shop.sql("DROP STREAM TABLE st2")
        shop.sql("ALTER TABLE sales ADD COLUMNS (more INT)")
        shop.conf.set("spark.streamtable.blockSourceDdl", "maybe")
        with pytest.raises(InvalidStatement, match="neither true nor false"):
            shop.sql("DROP TABLE sales")
    finally:
        shop.conf.unset("spark.streamtable.blockSourceDdl")
    shop.sql("DROP TABLE sales")


VIEW_BLOCKED = (
    "CREATE OR REPLACE VIEW outer_view AS SELECT 2 AS id",
    "ALTER VIEW outer_view AS SELECT 2 AS id",
    "ALTER VIEW outer_view RENAME TO another",
    "DROP VIEW outer_view",
    "DROP VIEW IF EXISTS inner_view",
)
VIEW_PASSES = (
    "ALTER VIEW outer_view SET TBLPROPERTIES ('note' = 'x')",
    "CREATE OR REPLACE VIEW nobodys AS SELECT 1 AS id",
    "CREATE OR REPLACE TEMPORARY VIEW inner_view AS SELECT 1 AS id",
    "DROP VIEW inner_view",
    "DROP VIEW nobodys",
)


def test_ddl_on_views_is_refused_where_the_session_asks_for_it(shop: SparkSession) -> None:
    shop.sql("CREATE VIEW inner_view AS SELECT id FROM sales")
    shop.sql("CREATE VIEW outer_view AS SELECT id FROM inner_view")
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM outer_view")
    shop.conf.set("spark.streamtable.blockSourceDdl", "true")
    try:
        for statement in VIEW_BLOCKED:
            with pytest.raises(DependentsExist, match=rf"spark_catalog\.shop\..*view.* is refused: {ST} read it"):
                shop.sql(statement)
        for statement in VIEW_PASSES:
            shop.sql(statement)
        shop.sql("DROP STREAM TABLE st")
        shop.sql("DROP VIEW outer_view")
    finally:
        shop.conf.unset("spark.streamtable.blockSourceDdl")
    shop.sql("DROP VIEW inner_view")
