"""Sessions for our own queries. All are made here, so that each has the settings that correct answers need."""

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
from streamtable.sessions.captured import unset_others

__all__ = ["MOST_IDLE", "give_back", "handed_to", "lend", "lent", "like", "new", "without_wrong_rules"]

_INHERITED = (
    "spark.sql.shuffle.partitions",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.databricks.delta.snapshotPartitions",
)
"""Settings of speed alone, which are taken from the caller's session."""

Kind: TypeAlias = tuple[SparkContext, frozenset[tuple[str, str]]]

MOST_IDLE = 32
"""The most idle sessions to keep. A session takes a megabyte of the JVM."""

_idle: list[tuple[Kind, SparkSession]] = []
"""Idle sessions, the latest one last. A new session costs more than a small refresh."""

_lock = Lock()

_lent: WeakKeyDictionary[SparkSession, Kind] = WeakKeyDictionary()
"""The kind of each lent session."""

_COUNTING = (
    "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    "org.apache.spark.sql.catalyst.optimizer.EliminateLimits",
    "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowPlan",
)
"""The rules of adaptive execution that drop a part of a plan because of a number of rows."""

_REORDERING = ("org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughLimitAndOffset",)
"""The rule that moves a projection below a limit. One with a correlated subquery becomes a join there, and Spark drops the order of
rows below a join: the limit then takes any rows."""

_ALWAYS = {
    # Spark puts the values of variables, `${...}`, into a statement before we read it. Later they would be others, or secrets.
    "spark.sql.variable.substitute": "false",
    # Rows of a file that is gone or damaged are no rows that went.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
"""Settings of each session of ours, whatever the process has."""

_EXCLUDED = {
    "spark.sql.adaptive.optimizer.excludedRules": _COUNTING,
    "spark.sql.optimizer.excludedRules": _REORDERING,
}
"""The settings that exclude rules, and the rules that give wrong answers."""


def new(spark: SparkSession, settings: Mapping[str, str] = {}) -> SparkSession:
    """Make a session with default settings, and these."""
    return _of_ours(spark.newSession(), settings)


def like(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Make a session with the settings, views and functions of `spark`, changed by these settings."""
    return _of_ours(SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession()), settings)


def _of_ours(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    for key, value in {**settings, **_ALWAYS}.items():
        session.conf.set(key, value)
    without_wrong_rules(session)
    return session


def lend(spark: SparkSession, namespace: Sequence[str], settings: Mapping[str, str]) -> SparkSession:
    """Lend a session with these settings, which give a query the meaning that it had at CREATE; `give_back` takes the session.

    Two queries never share a session at once, because their names of frames would collide. The session forgets all tables and
    functions that it read before, because another session may have changed them.
    """
    kind = (spark.sparkContext, frozenset(settings.items()))
    session = _taken(kind)
    if session is None:
        session = new(spark, settings)
        unset_others(session, settings)
        _lent[session] = kind
    java_class(session, f"{SHIM}.Sessions").forget(session._jsparkSession)
    for setting in _INHERITED:
        inherited = spark.conf.get(setting, None)
        if inherited is None:  # the caller before may have had one
            session.conf.unset(setting)
        else:
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
    """Let another query have the session. If there are too many, the session that was idle longest goes."""
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
    """Return a frame of ours as a frame of the caller's session. It is planned and run in our session, with our settings."""
    return frame_of(spark, java_class(spark, f"{SHIM}.Sessions").handed(spark._jsparkSession, frame._jdf))


def without_wrong_rules(session: SparkSession) -> None:
    """Keep Spark in this session from rules that give wrong answers, beside those that the user excludes.

    Spark takes the numbers of rows in kept frames for facts, but some are estimates. If two parts of a plan read a kept frame, one
    part may still compute it while the other has its rows. For a top-k with OFFSET the estimate is 0, and DISTINCT above it then
    keeps duplicates. In clusters and before 4.2, a partition that is computed twice hides one that is not computed yet
    (SPARK-57547, SPARK-58412).
    """
    for key, rules in _EXCLUDED.items():
        own = str(session.conf.get(key, "") or "")
        missing = [rule for rule in rules if rule not in own]
        session.conf.set(key, ",".join(filter(None, (own, *missing))))
