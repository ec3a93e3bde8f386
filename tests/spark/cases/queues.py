"""Queues whose statement is killed, or whose disk fails."""

from __future__ import annotations

from tests.spark.cases.case import QUEUE, Case

QUEUES = {
    "CREATE QUEUE": Case(QUEUE, after=("SHOW QUEUES",), finally_=("DROP QUEUE jobs",)),
    "CREATE QUEUE ON": Case("CREATE QUEUE sold ON sales", after=("SHOW QUEUES",), finally_=("DROP QUEUE sold",)),
    "CREATE QUEUE FOR SUBSCRIBE": Case(
        "CREATE QUEUE sold FOR SUBSCRIBE TO (SELECT id FROM sales)", after=("SHOW QUEUES",), finally_=("DROP QUEUE sold",)
    ),
    "DROP QUEUE": Case("DROP QUEUE jobs FORCE", before=(QUEUE, "REGISTER CONSUMER worker ON jobs")),
    "ALTER QUEUE": Case(
        "ALTER QUEUE jobs SET (max_count = 500)", before=(QUEUE,), after=("SHOW QUEUES",), finally_=("DROP QUEUE jobs",)
    ),
    "REGISTER CONSUMER": Case("REGISTER CONSUMER worker ON jobs", before=(QUEUE,), finally_=("DROP QUEUE jobs FORCE",)),
    "UNREGISTER CONSUMER": Case(
        "UNREGISTER CONSUMER worker ON jobs",
        before=(QUEUE, "REGISTER CONSUMER worker ON jobs"),
        after=("SHOW CONSUMERS ON jobs",),
        finally_=("DROP QUEUE jobs",),
    ),
}
