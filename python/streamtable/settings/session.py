"""Every setting of streamtable: key, default, what it does. All are read from the session, so that SET changes them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement, NotEnabled, StreamTableError, near_names

log = logging.getLogger("streamtable.settings")

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """Describe one setting; `parse` turns its text into a value and raises ValueError for what is not one.

    Any value but the default needs the module `needs`. The extra of the package that brings it has the last word of the key.
    """

    key: str
    default: T
    doc: str
    parse: Callable[[str], T]
    needs: str = ""


LONGEST = 100_000_000
"""Seconds that a thread can wait, and that lead to no date beyond the last one."""


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if int(text) < least:
            raise ValueError(f"it is less than {least}")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    if not 0 < float(text) <= LONGEST:
        raise ValueError(f"it must be more than zero seconds, for example '5', and at most {LONGEST}")
    return float(text)


def _share(text: str) -> float | None:
    if text == "learnt":
        return None
    if not float(text) >= 0:
        raise ValueError("it is neither 'learnt' nor a number from 0 on")
    return float(text)


def _schedule(text: str) -> str:
    from streamtable.language.parse import parse_schedule

    try:
        return parse_schedule(text).sql()
    except StreamTableError as error:
        raise ValueError(error.reason) from error


def _switch(text: str) -> bool:
    if text.strip().casefold() not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return text.strip().casefold() == "true"


def _receiver(text: str) -> str:
    """Refuse an address that no event could be sent to."""
    place = urlsplit(text)
    match place.scheme:
        case "file" if place.path.startswith("/") and not place.path.endswith("/") and not place.netloc:
            return text
        case "http" | "https" if place.hostname and (place.port is None or place.port > 0):
            return text
        case "" if not text:
            return text
    raise ValueError("it is neither file:/folder/events.jsonl nor http://host:port of a receiver")


FULL_SHARE: Setting[float | None] = Setting(
    "spark.streamtable.auto.fullShare",
    None,
    "the share of changed rows above which AUTO refreshes in full; `learnt`, the default, goes by what earlier refreshes took",
    _share,
)
DEFAULT_SCHEDULE = Setting(
    "spark.streamtable.schedule.default",
    "MANUAL",
    "the schedule of a stream table whose CREATE has no SCHEDULE: 5m, CALCULATED, CRON '0 6 * * *' and the like",
    _schedule,
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
IMMEDIATE_TIMEOUT = Setting(
    "spark.streamtable.immediate.timeoutSeconds",
    60.0,
    "after how long a write begins no further refresh of the tables IMMEDIATE above it, and cancels the jobs of one that runs",
    _seconds,
)
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
VACUUM = Setting(
    "spark.streamtable.maintenance.vacuum", False, "VACUUM a table along with its compaction, unless it has a LOCATION", _switch
)
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

EVENTS_POLL = Setting(
    "spark.streamtable.events.pollSeconds", 5.0, "how often a scheduler tells queues FOR EVENTS what refreshes did", _seconds
)

TRACES = Setting(
    "spark.streamtable.traces", False, "make spans of OpenTelemetry of each refresh and its phases", _switch, "opentelemetry"
)
LINEAGE = Setting(
    "spark.streamtable.lineage",
    "",
    "where OpenLineage's events go: file:/folder/events.jsonl, or http://host:port; set when the application starts",
    _receiver,
    "openlineage",
)

SETTINGS: tuple[Setting[Any], ...] = (
    PYTHON,
    PYTHON_START,
    FULL_SHARE,
    DEFAULT_SCHEDULE,
    MINIMUM_SCHEDULE,
    POLL,
    PARALLELISM,
    RETRIES,
    SUSPEND_AFTER,
    IMMEDIATE_TIMEOUT,
    SMALL_FILES,
    VACUUM,
    BLOCK_SOURCE_DDL,
    ALERTS_POLL,
    ALERTS_BACKLOG,
    EVENTS_POLL,
    SUBSCRIBE_POLL,
    REPLICATION_POLL,
    TRACES,
    LINEAGE,
)


def read_setting(spark: SparkSession, setting: Setting[T]) -> T:
    """Return the session's value of `setting`, or its default; raise InvalidStatement for what is no value of it."""
    return _value(setting, spark.conf.get(setting.key, None))


def setting_or_default(spark: SparkSession, setting: Setting[T]) -> T:
    """Return the session's value of `setting` for work that nobody waits for: what is no value of it counts as the default."""
    return value_or_default(setting, spark.conf.get(setting.key, None))


def shown_settings(spark: SparkSession) -> tuple[tuple[str, str, str], ...]:
    """Return key, value and meaning of each setting, for people: without the secrets of addresses."""
    return tuple((each.key, without_secrets(str(setting_or_default(spark, each))), each.doc) for each in SETTINGS)


_told = set[tuple[str, str | None]]()


def value_or_default(setting: Setting[T], text: str | None) -> T:
    """Return the value, or the default with one warning for each text that is no value."""
    try:
        return _value(setting, text)
    except StreamTableError as error:
        if (setting.key, text) not in _told:
            _told.add((setting.key, text))
            log.warning("%s; the default counts, %r. %s", error.reason, setting.default, error.hint)
        return setting.default


def check_settings(given: Mapping[str, str]) -> None:
    """Look at the settings that a session is to start with. Raises InvalidStatement for what is no value, NotEnabled."""
    for setting in SETTINGS:
        _value(setting, given.get(setting.key))


def check_setting(key: str, text: str) -> None:
    """Raise InvalidStatement for a key of ours that is no setting, and for a text that is no value; NotEnabled."""
    known = {setting.key: setting for setting in SETTINGS}
    if key not in known:
        raise InvalidStatement(
            f"there is no setting {key}.{near_names(key, known)}", hint="docs/reference/settings.md lists them all"
        )
    _value(known[key], text)


def without_secrets(address: str) -> str:
    """Return an address for logs and messages: without user, password and query."""
    return re.sub(r"(://[^?]*[?]).*", r"\1...", re.sub(r"://.*@", "://...@", address))


def _value(setting: Setting[T], text: str | None) -> T:
    """Return the value of a setting from its text. Raises InvalidStatement, and NotEnabled without the package that it needs."""
    if text is None:
        return setting.default
    try:
        value = setting.parse(text)
    except ValueError as error:
        raise InvalidStatement(
            f"the setting {setting.key} cannot be {without_secrets(text)!r}: {error}",
            hint=f"RESET {setting.key} (the default is {setting.default!r}) or set another value: {setting.doc}",
        ) from error
    if setting.needs and value != setting.default and find_spec(setting.needs) is None:
        extra = setting.key.rpartition(".")[2]
        raise NotEnabled(
            f"{setting.key} is set, and the package of {setting.needs} is not installed", hint=f"pip install 'streamtable[{extra}]'"
        )
    return value
