"""Statements whose disk fails, or whose process is killed, at one event after the other; what has to hold afterwards.

Run as a program in an empty folder by `tests/spark/test_half_made.py`, with the folder of the compiled FailingDisk.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.cases.case import SETUP, Case
from tests.spark.cases.every import CASES, KILLED

from streamtable.errors import InternalError, InvalidStatement, StreamTableError
from streamtable.jvm.gateway import SHIM, java_class


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
