"""Copies of the sources, which the oracle asks in place of Delta: who compares thirty tables would read three sources thirty times.

Delta lists a table's files by a query of its own, for each query anew: this was a quarter of the time of all tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

from pyspark.sql import SparkSession
from tests.oracle.comparison import bag_of, contents

MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""Settings that decide what a query means."""
PLAIN = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
    # With it, a correlated subquery over the first rows by an order gets any rows.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",
}
"""With copies of one partition, most queries are one job of one task."""


_idle: list[SparkSession] = []
"""Sessions whose copies are gone: a new one costs more than a comparison."""


class Copies:
    """A session in which the names of sources are views of their rows, as Delta gave them after their last commit.

    `sources` are tables of the database that is current now, by their names alone; the list may grow. `kept` are the columns of
    those whose columns come, go and move: a query that was written before means these.
    """

    def __init__(self, spark: SparkSession, sources: Sequence[str], kept: Mapping[str, Sequence[str]] | None = None) -> None:
        self._spark, self._sources, self._kept = spark, sources, kept or {}
        self._database = spark.catalog.currentDatabase()
        self._folder = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")) / f"{self._database}.db"
        idle = bool(_idle) and _idle[-1].sparkContext is spark.sparkContext
        self._session = _idle.pop() if idle else spark.newSession()
        self._session.sql(f"USE {self._database}")
        for key, value in PLAIN.items():
            self._session.conf.set(key, value)
        self._commits: dict[str, frozenset[tuple[str, int]]] = {}
        self._rows: dict[str, Counter[str]] = {}
        self._lock = Lock()

    def session(self) -> SparkSession:
        """Return the session for one comparison, after it has got the copies that are due."""
        with self._lock:
            for key in MEANING:
                self._session.conf.set(key, str(self._spark.conf.get(key)))
            for name in self._sources:
                self._take(name)
        return self._session

    def close(self) -> None:
        """Leave the session to the next, without the copies."""
        for name, commits in self._commits.items():
            if commits:
                self._session.catalog.dropTempView(name.strip("`"))
        _idle.append(self._session)

    def rows(self) -> dict[str, Counter[str]]:
        """Return what each source holds."""
        session = self.session()
        for name in self._sources:
            if name not in self._rows:
                self._rows[name] = bag_of(session.table(name))
        return self._rows.copy()

    def _take(self, name: str) -> None:
        log = self._folder / name.strip("`").lower() / "_delta_log"
        commits = frozenset((each.name, each.stat().st_mtime_ns) for each in log.glob("*.json"))
        if commits and commits == self._commits.get(name):
            return
        self._rows.pop(name, None)
        self._commits[name] = commits
        if commits:
            rows = contents(self._session, f"{self._database}.{name}").select(*self._kept.get(name, "*"))
            rows.coalesce(1).localCheckpoint().createOrReplaceTempView(name)
        else:  # the table is elsewhere: Delta itself is asked
            self._session.catalog.dropTempView(name)
