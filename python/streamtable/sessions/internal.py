"""Sessions for queries of our own. All are made here, so that each has the settings without which an answer may be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TypeAlias
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.jvm.handles import catalog_of

__all__ = ["MOST_IDLE", "counts_are_estimates", "give_back", "handed_to", "lend", "lent", "like", "new"]

_INHERITED = (
    "spark.sql.shuffle.partitions",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.databricks.delta.snapshotPartitions",
)
"""Settings that change only how fast: the caller's hold."""

Kind: TypeAlias = tuple[SparkContext, frozenset[tuple[str, str]]]

MOST_IDLE = 32
"""A crowd that was there once does not keep a megabyte of the JVM for each of its queries side by side."""

_idle: list[tuple[Kind, SparkSession]] = []
"""Sessions that no query uses now, the one that came last at the end: making one costs more than a small refresh."""

_lock = Lock()

_lent: WeakKeyDictionary[SparkSession, Kind] = WeakKeyDictionary()
"""Of which kind each session is."""

_EXCLUDED = "spark.sql.adaptive.optimizer.excludedRules"

_COUNTING = (
    "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    "org.apache.spark.sql.catalyst.optimizer.EliminateLimits",
    "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowPlan",
)
"""The rules of adaptive execution that leave a part of a plan out because of a number of rows."""


def new(spark: SparkSession, settings: Mapping[str, str] = {}) -> SparkSession:
    """Make a session with the settings of a fresh one, and these."""
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    counts_are_estimates(session)
    return session


def like(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Make a session with the settings, views and functions of `spark`, but for these settings."""
    session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for key, value in settings.items():
        session.conf.set(key, value)
    counts_are_estimates(session)
    return session


def lend(spark: SparkSession, namespace: Sequence[str], settings: Mapping[str, str]) -> SparkSession:
    """Lend a session with these settings, in which a query means what it meant where they were captured; `give_back` takes it.

    No two queries share one at a time, because the names that they give to frames would meet. Nothing that the session read
    before is known to it: another one may have changed the files of a table, or the text of a function.
    """
    kind = (spark.sparkContext, frozenset(settings.items()))
    session = _taken(kind)
    if session is None:
        session = new(spark, settings)
        _lent[session] = kind
    java_class(session, f"{SHIM}.Sessions").forget(session._jsparkSession)
    for setting in _INHERITED:
        if (inherited := spark.conf.get(setting, None)) is not None:
            session.conf.set(setting, inherited)
    catalog_of(session).setCurrentCatalog(namespace[0])
    if database := ".".join(namespace[1:]):  # not every catalog has one to begin with
        catalog_of(session).setCurrentDatabase(database)
    return session


def _taken(kind: Kind) -> SparkSession | None:
    with _lock:
        at = next((n for n in reversed(range(len(_idle))) if _idle[n][0] == kind), None)
        return None if at is None else _idle.pop(at)[1]


def give_back(session: SparkSession) -> None:
    """Let another query have the session; of too many, the one that nobody wanted for longest goes."""
    with _lock:
        _idle.append((_lent[session], session))
        del _idle[:-MOST_IDLE]


@contextmanager
def lent(spark: SparkSession, namespace: Sequence[str], settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Lend a session for a block."""
    session = lend(spark, namespace, settings)
    try:
        yield session
    finally:
        give_back(session)


def handed_to(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return the rows of a frame of ours as one of the caller's session: it is planned and run in its own, with what that needs."""
    return frame_of(spark, java_class(spark, f"{SHIM}.Sessions").handed(spark._jsparkSession, frame._jdf))


def counts_are_estimates(session: SparkSession) -> None:
    """Keep adaptive execution in this session from leaving out what the numbers of rows in kept frames say is not needed.

    Spark takes these numbers for facts. But of a frame that two parts of a plan read, and that the one was still computing when the
    other had its rows, the number is an estimate: none for a top-k with OFFSET, of which DISTINCT then left all duplicates. In
    clusters and before 4.2, a partition that is computed twice counts for one that nobody has yet (SPARK-57547, SPARK-58412).
    """
    own = str(session.conf.get(_EXCLUDED, ""))
    missing = [rule for rule in _COUNTING if rule not in own]
    session.conf.set(_EXCLUDED, ",".join(filter(None, (own, *missing))))
