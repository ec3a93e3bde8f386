"""CREATE QUEUE ... FOR EVENTS with real tables: refreshes and suspensions come to consumers, once, whoever made them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from tests.spark.statements import answer
from tests.spark.test_schedule import TOTALS, eventually, write

from streamtable import start_scheduler
from streamtable.observe.alerts import Alert, AlertKind
from streamtable.observe.events import Events


def told(spark: SparkSession) -> list[tuple[Any, ...]]:
    return answer(spark, "SELECT event, name, action, rows_inserted FROM happenings ORDER BY version")


def test_refreshes_and_alerts_come_to_consumers_once(hurried: SparkSession) -> None:
    hurried.sql("CREATE QUEUE happenings FOR EVENTS")
    hurried.sql("REGISTER CONSUMER pager ON happenings")
    hurried.sql(f"CREATE STREAM TABLE a AS {TOTALS}")
    one, other = Events(hurried), Events(hurried)
    for each in (one, other):
        each.poll()
    write(hurried, 5)
    hurried.sql("REFRESH STREAM TABLE a FULL")
    for each in (other, one, Events(hurried)):
        each.poll()
    assert [row[:3] for row in told(hurried)] == [
        ("refresh_completed", "spark_catalog.shop.a", "REINITIALIZE"),
        ("refresh_completed", "spark_catalog.shop.a", "FULL"),
    ]
    one.alerts([Alert("spark_catalog.shop.a", AlertKind.BACKLOG, None, "behind")])
    events = answer(hurried, "NEXT BATCH FROM happenings FOR pager")
    assert [row[1] for row in events] == ["refresh_completed", "refresh_completed", "alert"]
    hurried.sql("FINISH BATCH FROM happenings FOR pager")
    hurried.sql("UNREGISTER CONSUMER pager ON happenings")
    assert answer(hurried, "SHOW QUEUES")[0][1].endswith("FOR EVENTS")


def test_a_scheduler_tells_events(hurried: SparkSession) -> None:
    hurried.conf.set("spark.streamtable.events.pollSeconds", "0.5")
    try:
        hurried.sql("CREATE QUEUE happenings FOR EVENTS")
        hurried.sql(f"CREATE STREAM TABLE a SCHEDULE '1s' AS {TOTALS}")
        with start_scheduler(hurried):
            write(hurried, 5)
            eventually(lambda: {row[2] for row in told(hurried)} >= {"REINITIALIZE", "DIFFERENTIAL"})
    finally:
        hurried.conf.unset("spark.streamtable.events.pollSeconds")
