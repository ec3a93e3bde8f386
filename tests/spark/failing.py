"""Statements whose disk fails, or whose process is killed, at one event after the other; what has to hold afterwards.

Run as a program in an empty folder by `tests/spark/test_half_made.py`, with the folder of the compiled FailingDisk.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession
from tests.spark.cases.case import NAMES, SETUP, Case, Step
from tests.spark.cases.every import CASES, KILLED

from streamtable.definitions.settle import settle_everywhere
from streamtable.errors import InternalError, InvalidStatement, StreamTableError
from streamtable.jvm.gateway import SHIM, java_class

MOVING = ("position", "lag_seconds", "registered_at", "seen_at", "batch_end", "taken_at")
"""Columns of SHOW CONSUMERS that another run has otherwise: moments, and versions that count the failed tries too."""


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

    def run(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if isinstance(step, str):
                self.spark.sql(step).collect()
            else:
                step(self.warehouse)

    def places(self) -> set[str]:
        """Return the folders and files that schemas have beside their tables' contents."""
        return {str(each.relative_to(self.warehouse)) for each in self.warehouse.glob("*/*") if "_delta_log" not in each.parts}

    def answers(self, case: Case) -> list[list[str]]:
        return [sorted(map(str, self.spark.sql(query).drop(*MOVING).collect())) for query in case.after]


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
        for at in range(1 + (share.start - 1) % events, events + 1, share.step):  # of few events one is tried, too
            self.run(case.before)
            failed = self._fails(f"{name} at event {at} of {events}{' (killed)' if dead else ''}", case, at, dead)
            if not failed:
                list(settle_everywhere(self.spark))  # it may have succeeded without deleting its intent, which the next one does
            yield failed
            assert (self.answers(case), self.places()) == (expected, made), (name, at, self.places() ^ made)
            self.run((*case.then, *case.finally_))
            assert self.places() == self.clean, (name, at, self.places() ^ self.clean)

    def _fails(self, what: str, case: Case, at: int, dead: bool) -> bool:
        """Run the statement with a fault, and the same statement again, which succeeds, if need be at the third time: it dies too."""
        before = self.places()
        if not self._tried(what, case, at, dead):
            return False
        if not dead and case.statement.startswith("CREATE ") and "REPLACE" not in case.statement:
            assert self.places() == before, (what, "left", self.places() ^ before)
        if dead:
            Found(self.spark, what, case).look()
        if not dead or self._tried(f"{what}, again", case, random.randint(1, 2 * at), dead):
            try:
                self.run((case.statement,))
            except PySparkException as error:
                if not (dead and isinstance(error, InvalidStatement)):  # if all was done but the answer, it may say so
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

    def ready(self, name: str, turn: Callable[[str], None]) -> None:
        """Learn what is right after a statement, unless it is known, and do what comes before it. The statement runs between two turns."""
        case, expected = KILLED[name], Path(name)
        self.run(case.before)
        if not expected.exists():
            self.run(
                (case.statement, *case.finally_, *case.before)
            )  # for its first such statement a metastore makes tables of its own
            turn("learns")
            self.run((case.statement,))
            turn("knows")
            expected.write_text(json.dumps([self.answers(case), sorted(self.places())]))
            self.run(case.finally_)
            self.run(case.before)

    def go_on(self, name: str) -> None:
        """Look at what is there, and run the statement again that was killed; if all was done but the answer, it may say so."""
        self.spark.sql("USE shop")
        case = KILLED[name]
        Found(self.spark, f"after a kill of {name}", case).look()
        with suppress(InvalidStatement):
            self.run((case.statement,))
        found = [self.answers(case), sorted(self.places())]
        assert found == json.loads(Path(name).read_text()), (name, found)
        self.run((*case.then, *case.finally_))
        assert sorted(self.places()) == json.loads(Path("clean").read_text()), name


class Found:
    """What a user finds who knows of no kill, in a new session, before anybody repeats the statement: each name is free or whole.

    A listed name answers, and one that is not listed is said to be not there. A stream table is its query at the versions that it
    has read (VERIFY): the old query or the new one, before or after the refresh. So a RENAME has either name, a CREATE OR REPLACE TABLE
    a stream table or an ordinary one, a DROP of several some of them, and a subscription's slot may be there before it.
    Seen may be what the next person finishes or takes back: an intent, files of no name in the catalog, the hidden states of a
    table that is ordinary now. No such thing has a name. A definition that was refused before stays refused, and says so.

    A RENAME may have moved the folder, and not told the catalog: there the old name is listed, and Spark finds nothing at its path, until
    somebody settles the intent, as a scheduler does once in a minute, and each statement of ours that does not find a table. So
    somebody did that here.
    """

    def __init__(self, spark: SparkSession, what: str, case: Case) -> None:
        self.spark, self.what, self.case = spark, what, case

    def look(self) -> None:
        if "RENAME TO" in self.case.statement:
            list(settle_everywhere(self.spark))
        listed = {f"{row.namespace}.{row.tableName}" for row in self.everywhere("SHOW TABLES")}
        for name in sorted(listed):
            self.rows(f"SELECT * FROM {name}")
        for name in (each if "." in each else f"shop.{each}" for each in NAMES):
            assert name in listed or self.free(name), f"{self.what}: {name} is not listed, and there"
        ours = self.stream_tables() | self.queues() | self.replicated()
        assert ours <= listed, (self.what, ours, listed)

    def rows(self, query: str) -> list[Row]:
        try:
            return self.spark.sql(query).collect()
        except PySparkException as error:
            raise AssertionError(f"{self.what}, {query}: {error}") from error

    def everywhere(self, show: str) -> list[Row]:
        return [row for each in self.rows("SHOW DATABASES") for row in self.rows(f"{show} IN {each[0]}")]

    def free(self, name: str) -> bool:
        try:
            self.spark.sql(f"SELECT * FROM {name}").collect()
        except AnalysisException as error:
            return error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
        return False

    def stream_tables(self) -> set[str]:
        """Return the stream tables, which are exact."""
        known = {row.name: row for row in self.rows("SELECT name, status, is_populated, error FROM stream_tables()")}
        shown = {row.name for row in self.everywhere("SHOW STREAM TABLES")}
        assert shown == known.keys(), (self.what, shown, known)
        for name, row in known.items():
            if self.case.refused and row.status == "UNREADABLE":
                assert "streamtable.definition is now" in row.error, row
            else:
                verdict = self.rows(f"VERIFY STREAM TABLE {name}")
                assert row.is_populated and [(each.ok, each.missing, each.surplus) for each in verdict] == [(True, 0, 0)], (
                    row,
                    verdict,
                )
        return {name.removeprefix("spark_catalog.") for name in known}

    def queues(self) -> set[str]:
        """Return the queues, whose consumers can be seen."""
        names = [row.name for row in self.everywhere("SHOW QUEUES")]
        for name in names:
            self.rows(f"SHOW CONSUMERS ON {name}")
        return {name.removeprefix("spark_catalog.") for name in names}

    def replicated(self) -> set[str]:
        """Return the publications, slots and subscriptions; the tables of each can be seen, and how they fare."""
        self.rows("SELECT * FROM subscription_tables()")
        self.rows("SELECT * FROM source_health()")
        self.rows("SELECT * FROM alerts()")
        queries = ("SELECT name FROM publications()", "SELECT slot FROM replication_slots()", "SELECT name FROM subscriptions()")
        return {row[0].removeprefix("spark_catalog.") for query in queries for row in self.rows(query)}


WRITES: dict[str, Callable[[SparkSession, str], object]] = {
    "append": lambda spark, place: spark.sql("SELECT 9 AS id").write.format("delta").mode("append").save(place),
    "overwrite": lambda spark, place: spark.sql("SELECT 9 AS id").write.format("delta").mode("overwrite").save(place),
    "replace": lambda spark, place: spark.sql(f"CREATE OR REPLACE TABLE second USING delta LOCATION '{place}' AS SELECT 9 AS id"),
    "directory": lambda spark, place: spark.sql(f"INSERT OVERWRITE DIRECTORY '{place}' USING parquet SELECT 9 AS id"),
}
"""Writes to the place of a stream table."""


def looking(spark: SparkSession) -> None:
    """Write to a stream table while one look at its files fails, each in turn; print how often, and by which errors it is refused."""
    disk, logs = java_class(spark, f"{SHIM}.FailingDisk"), java_class(spark, "org.apache.spark.sql.delta.DeltaLog")
    place = f"{Path.cwd()}/spark-warehouse/st"
    spark.sql("CREATE STREAM TABLE st AS SELECT id FROM VALUES (1) AS t(id)")
    files = sorted(Path(place).rglob("*"))
    for name, write in WRITES.items():
        looks, at = 1, 0
        while at < looks:
            at += 1
            logs.clearCache()
            disk.refuse(at)
            try:
                write(spark, place)
            except Exception as error:  # whichever it is, the table stays as it was
                sys.stdout.write(f"{name}|{'Forbidden' if 'Forbidden' in str(error) else type(error).__name__}\n")
            else:
                sys.stdout.write(f"{name}|written at look {at}\n")
            looks = max(looks, disk.looks())
            disk.refuse(0)
            assert sorted(Path(place).rglob("*")) == files, (name, at)


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
