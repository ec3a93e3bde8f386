"""Statements whose disk fails, or whose process is killed, at one event after the other; what has to hold afterwards.

Run as a program in an empty folder by `tests/spark/test_half_made.py`, with the folder of the compiled FailingDisk.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.errors import InternalError, InvalidStatement, StreamTableError
from streamtable.jvm.gateway import SHIM, java_class

SETUP = (
    "CREATE TABLE sales (id INT, amount INT) USING delta",
    "INSERT INTO sales VALUES (1, 10), (2, 20), (2, 20)",
)
QUERY = "SELECT id, max(amount) AS most, count(*) AS n FROM sales GROUP BY id HAVING count(*) < 9"
TABLE, QUEUE = f"CREATE STREAM TABLE st AS {QUERY}", "CREATE QUEUE jobs (body STRING)"
PUBLICATION, SLOT = "CREATE PUBLICATION goods FOR TABLE sales", "CREATE REPLICATION SLOT kept FOR PUBLICATION goods"
SUBSCRIPTION = "CREATE SUBSCRIPTION copies.shelf CONNECTION 'database=shop' PUBLICATION goods WITH (slot_name = 'shelf')"
SUBSCRIBED = (PUBLICATION, SUBSCRIPTION)
BOTH = tuple(f"CREATE TABLE {schema}.parts (id INT) USING delta" for schema in ("shop", "copies"))
"""A table at the publisher and the subscriber."""
UNSUBSCRIBED = ("DROP SUBSCRIPTION copies.shelf", "DROP PUBLICATION goods")


@dataclass(frozen=True)
class Case:
    """A statement, what is done before it, and queries that answer the same afterwards as without a fault."""

    statement: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    finally_: tuple[str, ...] = ()


CASES = {
    "CREATE": Case(TABLE, after=("SELECT * FROM st",), finally_=("DROP STREAM TABLE st",)),
    "CREATE AT LOCATION": Case(
        TABLE.replace(" AS", " LOCATION 'place' AS", 1), after=("SELECT * FROM st",), finally_=("DROP STREAM TABLE st",)
    ),
    "CREATE BACKFILL": Case(
        TABLE.replace(" AS", " BACKFILL FROM given AS", 1),
        before=(f"CREATE TABLE given USING delta AS {QUERY}",),
        after=("SELECT * FROM st",),
        finally_=("DROP STREAM TABLE st", "DROP TABLE given"),
    ),
    "CREATE OR REPLACE": Case(
        "CREATE OR REPLACE STREAM TABLE st AS SELECT id, amount FROM sales",
        before=(TABLE,),
        after=("SELECT * FROM st",),
        finally_=("DROP STREAM TABLE st",),
    ),
    "ALTER AS": Case(
        "ALTER STREAM TABLE st AS SELECT id, min(amount) AS most, count(*) AS n FROM sales GROUP BY id",
        before=(TABLE,),
        after=("SELECT * FROM st",),
        finally_=("DROP STREAM TABLE st",),
    ),
    "RENAME": Case(
        "ALTER STREAM TABLE st RENAME TO other",
        before=(TABLE, "CREATE STREAM TABLE above AS SELECT id FROM st"),
        after=("SELECT * FROM other", "SELECT * FROM above"),
        finally_=("DROP STREAM TABLE other CASCADE",),
    ),
    "DROP": Case("DROP STREAM TABLE st", before=(TABLE,)),
    "DROP CASCADE": Case("DROP STREAM TABLE st CASCADE", before=(TABLE, "CREATE STREAM TABLE above AS SELECT id FROM st")),
    "DROP AT LOCATION": Case("DROP STREAM TABLE st", before=(TABLE.replace(" AS", " LOCATION 'place' AS", 1),)),
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
    "CREATE PUBLICATION": Case(PUBLICATION, finally_=("DROP PUBLICATION goods",)),
    "ALTER PUBLICATION": Case(
        "ALTER PUBLICATION goods SET (publish = 'insert')", before=(PUBLICATION,), finally_=("DROP PUBLICATION goods",)
    ),
    "RENAME PUBLICATION": Case(
        "ALTER PUBLICATION goods RENAME TO stock", before=(PUBLICATION,), finally_=("DROP PUBLICATION stock",)
    ),
    "DROP PUBLICATION": Case("DROP PUBLICATION goods", before=(PUBLICATION,)),
    "DROP PUBLICATIONS": Case("DROP PUBLICATION goods, more", before=(PUBLICATION, PUBLICATION.replace("goods", "more"))),
    "CREATE SLOT": Case(SLOT, before=(PUBLICATION,), finally_=("DROP REPLICATION SLOT kept", "DROP PUBLICATION goods")),
    "DROP SLOT": Case("DROP REPLICATION SLOT kept", before=(PUBLICATION, SLOT), finally_=("DROP PUBLICATION goods",)),
    "CREATE SUBSCRIPTION": Case(SUBSCRIPTION, before=(PUBLICATION,), finally_=UNSUBSCRIBED),
    "ALTER SUBSCRIPTION": Case(
        "ALTER SUBSCRIPTION copies.shelf SET (disable_on_error = true)", before=SUBSCRIBED, finally_=UNSUBSCRIBED
    ),
    "ALTER SUBSCRIPTION CONNECTION": Case(
        "ALTER SUBSCRIPTION copies.shelf CONNECTION 'database=spark_catalog.shop'",
        before=SUBSCRIBED,
        after=("SELECT connection, slot_name FROM subscriptions()",),
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION ENABLE": Case(
        "ALTER SUBSCRIPTION copies.shelf ENABLE",
        before=(*SUBSCRIBED, "ALTER SUBSCRIPTION copies.shelf DISABLE"),
        after=("SELECT name, enabled FROM subscriptions()",),
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION REFRESH": Case(
        "ALTER SUBSCRIPTION copies.shelf REFRESH PUBLICATION",
        before=(*SUBSCRIBED, *BOTH, "ALTER PUBLICATION goods ADD TABLE parts"),
        after=("SELECT `table`, state FROM subscription_tables()", "SELECT `table` FROM replication_slots()"),
        finally_=(*UNSUBSCRIBED, "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "ALTER SUBSCRIPTION ADD PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf ADD PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, "CREATE PUBLICATION more FOR TABLE parts"),
        after=("SELECT publications FROM subscriptions()", "SELECT `table`, state FROM subscription_tables()"),
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "ALTER SUBSCRIPTION SET PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf SET PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, "CREATE PUBLICATION more FOR TABLE parts"),
        after=("SELECT publications FROM subscriptions()", "SELECT `table`, state FROM subscription_tables()"),
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "ALTER SUBSCRIPTION DROP PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf DROP PUBLICATION more",
        before=(
            *SUBSCRIBED,
            *BOTH,
            "CREATE PUBLICATION more FOR TABLE parts",
            "ALTER SUBSCRIPTION copies.shelf ADD PUBLICATION more",
        ),
        after=("SELECT publications FROM subscriptions()", "SELECT `table`, state FROM subscription_tables()"),
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "RENAME SUBSCRIPTION": Case(
        "ALTER SUBSCRIPTION copies.shelf RENAME TO copies.shelves",
        before=SUBSCRIBED,
        finally_=("DROP SUBSCRIPTION copies.shelves", "DROP PUBLICATION goods"),
    ),
    "DROP SUBSCRIPTION": Case("DROP SUBSCRIPTION copies.shelf", before=SUBSCRIBED, finally_=("DROP PUBLICATION goods",)),
}


KILLED = {
    **CASES,
    "DROP SCHEMA": Case(
        "DROP DATABASE IF EXISTS extra CASCADE",
        before=("CREATE DATABASE extra", TABLE.replace("st", "extra.st", 1), QUEUE.replace("jobs", "extra.jobs")),
        after=("SHOW DATABASES",),
    ),
    "COMPACTION": Case(
        "OPTIMIZE st",
        before=(TABLE, "INSERT INTO sales VALUES (3, 30)", "REFRESH STREAM TABLE st"),
        after=("SELECT * FROM st", "VERIFY STREAM TABLE st"),
        finally_=("DROP STREAM TABLE st", "DELETE FROM sales WHERE id = 3"),
    ),
    "CREATE OR REPLACE TABLE": Case(
        "CREATE OR REPLACE TABLE st USING delta AS SELECT id, amount FROM sales",
        before=(TABLE,),
        after=("SELECT * FROM st", "DROP STREAM TABLE IF EXISTS other"),
        finally_=("DROP TABLE st",),
    ),
}
"""With commands of Spark's and Delta's, whose errors are theirs."""


class Shop:
    """Two schemas with a table each, and the folders that are there."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        self.spark, self.warehouse = spark, warehouse

    def open(self) -> None:
        for schema in ("shop", "copies"):
            self.spark.sql(f"CREATE DATABASE {schema}")
        self.spark.sql("USE shop")
        self.run(SETUP)
        self.spark.sql("CREATE TABLE copies.sales (id INT, amount INT) USING delta")

    def run(self, statements: tuple[str, ...]) -> None:
        for statement in statements:
            self.spark.sql(statement).collect()

    def places(self) -> set[str]:
        """Return the folders and files that schemas have beside their tables' contents."""
        return {str(each.relative_to(self.warehouse)) for each in self.warehouse.glob("*/*") if "_delta_log" not in each.parts}

    def answers(self, case: Case) -> list[list[str]]:
        return [sorted(map(str, self.spark.sql(query).collect())) for query in case.after]


class Failing(Shop):
    """A session over a disk that fails when it is told to."""

    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        super().__init__(spark, warehouse)
        self.disk = java_class(spark, f"{SHIM}.FailingDisk")
        self.open()
        self.clean = self.places()

    def tried(self, name: str, share: range, dead: bool) -> Iterator[int]:
        """Fail at each event of a statement, or at those of a `share` of all; yield how often it did not come to its end."""
        case = CASES[name]
        self.run(case.before)
        self.disk.set(0, False, "")
        self.run((case.statement,))
        events, expected, made = self.disk.events(), self.answers(case), self.places()
        self.run(case.finally_)
        assert self.places() == self.clean, (name, self.places() ^ self.clean)
        assert events, f"{name} touches no file"
        for at in (each for each in range(1, events + 1) if each in share):
            self.run(case.before)
            yield self._fails(f"{name} at event {at} of {events}{' (killed)' if dead else ''}", case, at, dead)
            assert (self.answers(case), self.places()) == (expected, made), (name, at, self.places() ^ made)
            for table in ("above",) if name == "RENAME" else ():
                self.spark.sql(f"REFRESH STREAM TABLE {table}").collect()
            self.run(case.finally_)
            assert self.places() == self.clean, (name, at, self.places() ^ self.clean)

    def _fails(self, what: str, case: Case, at: int, dead: bool) -> bool:
        """Run the statement with a fault, and the same statement again, which succeeds, if need be at the third time: it dies too."""
        before = self.places()
        if not self._tried(what, case, at, dead):
            return False
        if not dead and case.statement.startswith("CREATE ") and "REPLACE" not in case.statement:
            assert self.places() == before, (what, "left", self.places() ^ before)
        if not dead or self._tried(f"{what}, again", case, random.randint(1, 2 * at), dead):
            try:
                self.run((case.statement,))
            except PySparkException as error:
                raise AssertionError(f"{what}, at last: {type(error).__name__}: {error}") from error
        return True

    def _tried(self, what: str, case: Case, at: int, dead: bool) -> bool:
        """Run the statement with a fault, and tell whether it failed."""
        self.disk.set(at, dead, "No space left on device")
        try:
            self.run((case.statement,))
        except PySparkException as error:
            ours = isinstance(error, StreamTableError) and not isinstance(error, InternalError)
            if not ours or not (dead or "No space left on device" in str(error)):
                raise AssertionError(f"{what} at {at}: {type(error).__name__}: {error}") from error
            return True
        finally:
            self.disk.set(0, False, "")
        return False


class Killed(Shop):
    """A session after one that was killed; what is right is kept in files."""

    def begin(self) -> None:
        """Make what all statements need."""
        self.open()
        Path("clean").write_text(json.dumps(sorted(self.places())))

    def ready(self, name: str) -> None:
        """Learn what is right after a statement, unless it is known, and do what comes before it."""
        case, expected = KILLED[name], Path(name)
        self.run(case.before)
        if not expected.exists():
            self.run((case.statement,))
            expected.write_text(json.dumps([self.answers(case), sorted(self.places())]))
            self.run(case.finally_)
            self.run(case.before)

    def go_on(self, name: str) -> None:
        """Run the statement again that was killed; what it says when all was done but the answer is that it is done."""
        self.spark.sql("USE shop")
        case = KILLED[name]
        with suppress(InvalidStatement):
            self.run((case.statement,))
        found = [self.answers(case), sorted(self.places())]
        assert found == json.loads(Path(name).read_text()), (name, found)
        if name == "RENAME":
            self.run(("REFRESH STREAM TABLE above",))
        self.run(case.finally_)
        assert sorted(self.places()) == json.loads(Path("clean").read_text()), name


def main(spark: SparkSession, step: int, names: str) -> None:
    """Try every case at each `step`-th event, with a fault and with a kill, and print how many there were."""
    failing = Failing(spark, Path.cwd() / "spark-warehouse")
    for n, name in enumerate(CASES):
        if names and name not in names.split(","):
            continue
        for dead in (False, True):
            done = list(failing.tried(name, range(1 + (n + dead) % step, 10_000, step), dead))
            sys.stdout.write(f"{name}|{'killed' if dead else 'failed'}|{len(done)}|{sum(done)}\n")
            sys.stdout.flush()
