"""Queues whose statement is killed, or whose disk fails."""

from __future__ import annotations

from tests.spark.cases.case import QUEUE, Case

KNOWN, CONSUMERS = "SHOW QUEUES", "SHOW CONSUMERS ON jobs"
REGISTER = "REGISTER CONSUMER worker ON jobs"
NEXT, FINISH = "NEXT BATCH FROM jobs FOR worker", "FINISH BATCH FROM jobs FOR worker"
DEAD, GIVE_UP = "SHOW DEAD LETTERS FROM jobs FOR worker", "GIVE UP EVENTS FROM jobs FOR worker WHERE (body = 'a')"
IN_WORK = (QUEUE, REGISTER, "INSERT INTO jobs VALUES ('a'), ('b')", NEXT)
"""A batch of two events is at work."""
DROP, FORCE = ("DROP QUEUE jobs",), ("DROP QUEUE jobs FORCE",)

QUEUES = {
    "CREATE QUEUE": Case(QUEUE, after=(KNOWN,), finally_=DROP),
    "CREATE QUEUE ON": Case("CREATE QUEUE sold ON sales", after=(KNOWN,), finally_=("DROP QUEUE sold",)),
    "CREATE QUEUE FOR SUBSCRIBE": Case(
        "CREATE QUEUE sold FOR SUBSCRIBE TO (SELECT id FROM sales)", after=(KNOWN,), finally_=("DROP QUEUE sold",)
    ),
    "DROP QUEUE": Case("DROP QUEUE jobs FORCE", before=(QUEUE, REGISTER), after=(KNOWN,)),
    "ALTER QUEUE": Case("ALTER QUEUE jobs SET (max_count = 500)", before=(QUEUE,), after=(KNOWN,), finally_=DROP),
    "REGISTER CONSUMER": Case(REGISTER, before=(QUEUE,), after=(CONSUMERS,), finally_=FORCE),
    "UNREGISTER CONSUMER": Case("UNREGISTER CONSUMER worker ON jobs", before=(QUEUE, REGISTER), after=(CONSUMERS,), finally_=DROP),
    "NEXT BATCH": Case(NEXT, before=IN_WORK[:-1], after=(CONSUMERS, NEXT), finally_=FORCE),
    "FINISH BATCH": Case(FINISH, before=IN_WORK, after=(CONSUMERS, NEXT), finally_=FORCE),
    "RETRY": Case(
        "RETRY EVENTS FROM jobs FOR worker WHERE (body = 'a')",
        before=IN_WORK,
        after=(CONSUMERS, FINISH, NEXT),
        finally_=FORCE,
    ),
    "GIVE UP": Case(GIVE_UP, before=IN_WORK, after=(CONSUMERS, DEAD, FINISH, NEXT), finally_=FORCE),
    "REPLAY": Case(
        "REPLAY DEAD LETTERS FROM jobs FOR worker", before=(*IN_WORK, GIVE_UP, FINISH), after=(DEAD, NEXT), finally_=FORCE
    ),
    "PURGE QUEUE": Case(
        "PURGE QUEUE jobs",
        before=(*IN_WORK, FINISH, "INSERT INTO jobs VALUES ('c')"),
        after=("SELECT * FROM jobs", NEXT),
        finally_=FORCE,
    ),
}
