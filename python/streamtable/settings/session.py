"""Every setting of streamtable: key, default, what it does. All are read from the session, so that SET changes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """Describe one setting; `parse` turns its text into a value and raises ValueError for what is not one."""

    key: str
    default: T
    doc: str
    parse: Callable[[str], T]


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if int(text) < least:
            raise ValueError(f"it is less than {least}")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise ValueError("it must be more than zero seconds, for example '5'")
    return float(text)


def _share(text: str) -> float | None:
    if text == "learnt":
        return None
    if not float(text) >= 0:
        raise ValueError("it is neither 'learnt' nor a number from 0 on")
    return float(text)


def _switch(text: str) -> bool:
    if text.strip().casefold() not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return text.strip().casefold() == "true"


FULL_SHARE: Setting[float | None] = Setting(
    "spark.streamtable.auto.fullShare",
    None,
    "the share of changed rows above which AUTO refreshes in full; `learnt`, the default, goes by what earlier refreshes took",
    _share,
)
MINIMUM_SCHEDULE = Setting(
    "spark.streamtable.schedule.minimumSeconds",
    1,
    "the shortest duration that SCHEDULE accepts, in seconds; not for cron",
    _whole(1),
)
POLL = Setting(
    "spark.streamtable.scheduler.pollSeconds",
    5.0,
    "how often the scheduler looks for new tables, and for changes while none is due",
    _seconds,
)
PARALLELISM = Setting(
    "spark.streamtable.scheduler.parallelism", 4, "how many tables are refreshed side by side, at most 64", _whole(1)
)
RETRIES = Setting(
    "spark.streamtable.scheduler.retries", 5, "how often a transient error is tried again before it counts", _whole(0)
)
SUSPEND_AFTER = Setting("spark.streamtable.scheduler.suspendAfter", 3, "how many failures in a row suspend a table", _whole(1))
SUBSCRIBE_POLL = Setting(
    "spark.streamtable.subscribe.pollSeconds", 0.1, "how often a subscription that waits looks for new commits", _seconds
)
REPLICATION_POLL = Setting(
    "spark.streamtable.replication.pollSeconds", 5.0, "how often a scheduler applies the enabled subscriptions", _seconds
)

PYTHON = Setting(
    "spark.streamtable.python",
    "python3",
    "the interpreter that answers statements in a JVM which no Python started; set when the application starts",
    str,
)
PYTHON_START = Setting(
    "spark.streamtable.python.startSeconds", 60, "how long that interpreter may take before it answers", _whole(1)
)

# Up to 50 files Delta keeps the list of a table's files in each version's checksum, where reading it costs no Spark job.
SMALL_FILES = Setting(
    "spark.streamtable.maintenance.smallFiles",
    50,
    "the scheduler compacts a table with more small files (below 32 MB) than this; 0 for never",
    _whole(0),
)
VACUUM = Setting("spark.streamtable.maintenance.vacuum", False, "VACUUM a table along with its compaction", _switch)
BLOCK_SOURCE_DDL = Setting(
    "spark.streamtable.blockSourceDdl",
    False,
    "refuse DDL that drops, replaces, renames or alters a table while stream tables read it",
    _switch,
)
ALERTS_POLL = Setting(
    "spark.streamtable.alerts.pollSeconds", 60.0, "how often a scheduler looks for something to alert people to", _seconds
)
ALERTS_BACKLOG = Setting(
    "spark.streamtable.alerts.backlogVersions",
    1000,
    "how many versions of a source, with changes, may wait to be read before people are alerted",
    _whole(1),
)

SETTINGS: tuple[Setting[Any], ...] = (
    PYTHON,
    FULL_SHARE,
    MINIMUM_SCHEDULE,
    POLL,
    PARALLELISM,
    RETRIES,
    SUSPEND_AFTER,
    SMALL_FILES,
    VACUUM,
    BLOCK_SOURCE_DDL,
    ALERTS_POLL,
    ALERTS_BACKLOG,
    SUBSCRIBE_POLL,
    REPLICATION_POLL,
)


def read_setting(spark: SparkSession, setting: Setting[T]) -> T:
    """Return the session's value of `setting`, or its default; raise InvalidStatement for what is no value of it."""
    text = spark.conf.get(setting.key, None)
    if text is None:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError as error:
        raise InvalidStatement(
            f"the setting {setting.key} cannot be {text!r}: {error}",
            hint=f"RESET {setting.key} (the default is {setting.default!r}) or set another value: {setting.doc}",
        ) from error
