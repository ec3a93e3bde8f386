"""Intents: what a statement is about to make, drop or rename, written down before its first effect.

The entry in the catalog is the last effect of a CREATE and the first of a DROP, so that a name is free, or a whole table's. What
a process that was killed left beside it is told by its intent, a small file in the folder of the schema: whoever comes next takes a
CREATE back, and finishes a DROP. An intent is no lock: those of a process that lives are left alone.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.entries import at_home
from streamtable.catalog.owners import BEAT, alive, owner
from streamtable.catalog.paths import home_of, is_path
from streamtable.delta.folders import delete_small, move, read_small, write_small
from streamtable.delta.storage import no_space, storage_failed
from streamtable.delta.tables import drop_own, locate, release, state
from streamtable.errors import HistoryLost, SourceUnavailable
from streamtable.handles import local_property
from streamtable.sql.statements import Name

__all__ = [
    "ENGINE",
    "FOLDER",
    "ID",
    "Intent",
    "Kind",
    "Part",
    "carrying_out",
    "dead",
    "forget",
    "intended",
    "marked",
    "properties_at",
    "settle",
]

FOLDER = "_streamtable_intents"
"""The folder in that of a schema; it is there while a statement runs, or after one was killed."""

ENGINE = "streamtable.engine"
"""The property under which Spark's own DDL may touch a stream table: the check rule refuses it to everybody else."""

log = logging.getLogger("streamtable.catalog")

_running = set[str]()
_statement: ContextVar[str] = ContextVar("statement", default="")


class Kind(str, Enum):
    """What a statement is about to do."""

    CREATE = "CREATE"
    DROP = "DROP"
    RENAME = "RENAME"


ID = "id"
"""The mark that no property makes: the id that Delta gave the table."""


@dataclass(frozen=True)
class Part:
    """A table of an intent; `mark` is the property, and its value, by which it is known to be this one, or ID and Delta's own.

    Where it is `alone` in its folder, files of Delta's that no commit names are its own too.
    """

    name: tuple[str, ...]
    path: str
    mark: tuple[str, str]
    alone: bool = True


@dataclass(frozen=True)
class Intent:
    """What is about to be done to the tables `parts`, the one that users named first; a RENAME has the table before and after.

    `statement` is what is carried out, `catalog` where the names are, `by` the process, for people. `file` is where the intent
    itself is.
    """

    kind: Kind
    parts: tuple[Part, ...]
    statement: str
    catalog: str
    by: str
    file: str

    @property
    def name(self) -> str:
        """Return the name that the statement gave."""
        return ".".join(self.parts[0].name)


@contextmanager
def carrying_out(statement: str) -> Iterator[None]:
    """Let intents tell which statement they are of."""
    token = _statement.set(statement)
    try:
        yield
    finally:
        _statement.reset(token)


@contextmanager
def intended(spark: SparkSession, kind: Kind, *parts: Part) -> Iterator[None]:
    """Run the effects of a statement; when they fail, for whatever reason, what was begun is settled at once.

    On a thread of its own: that of a cancelled statement is interrupted, its jobs cancelled.
    """
    file = f"{home_of(spark, parts[0].name)}/{FOLDER}/{owner()}-{uuid.uuid4().hex}.json"
    intent = Intent(kind, parts, _statement.get(), _catalog(spark), f"process {os.getpid()} of {socket.gethostname()}", file)
    _running.add(file)
    try:
        _write(spark, intent)
        with _heartbeat(spark, file):
            yield
    except BaseException:
        with ThreadPoolExecutor(1) as another:
            another.submit(_settle_after_failure, spark, intent).result()
        raise
    else:
        with suppress(Exception):  # what is whole is found to be whole by whoever comes next
            _remove(spark, intent)
    finally:
        _running.discard(file)


def _write(spark: SparkSession, intent: Intent) -> None:
    """Write it down. A full disk must not keep anybody from dropping a table."""
    try:
        write_small(spark, intent.file, json.dumps(asdict(intent)))
    except Exception as error:
        with suppress(Exception):
            _remove(spark, intent)
        if intent.kind is not Kind.DROP or not no_space(error):
            raise


def _settle_after_failure(spark: SparkSession, intent: Intent) -> None:
    try:
        if intent.kind is not Kind.RENAME or _registered(spark, intent.parts[0]):
            settle(spark, intent, failed=True)  # of a table that has its new name, readers are to be told
    except Exception as error:  # the statement's own error counts; the intent stays for whoever comes next
        log.warning(
            "%s of %s is not settled yet: %s", intent.kind.value, intent.name, storage_failed(error) or type(error).__name__
        )


@contextmanager
def _heartbeat(spark: SparkSession, file: str) -> Iterator[None]:
    """Say now and then that the statement runs, to those who cannot see this process."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            with suppress(Exception):
                write_small(spark, _beat_of(file), "alive")

    thread = threading.Thread(target=beat, name="streamtable-intent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def dead(spark: SparkSession, home: str) -> Iterator[Intent]:
    """Yield the intents in the folder of a schema whose statements do not run any more."""
    found = {name: (at, text) for name, at, text in read_small(spark, f"{home}/{FOLDER}")}
    for name, (at, text) in sorted(found.items()):
        file = f"{home}/{FOLDER}/{name}"
        beat, _ = found.get(_beat_of(name), (at, ""))
        if not name.endswith(".json") or alive(name, max(at, beat), file in _running):
            continue
        intent = _read(text, file)
        if intent is None:  # killed while it was written: nothing had been done
            delete_small(spark, file)
        elif intent.catalog == _catalog(spark):
            yield intent


def _read(text: str, file: str) -> Intent | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    parts = tuple(
        Part(tuple(each["name"]), each["path"], (each["mark"][0], each["mark"][1]), each["alone"]) for each in told["parts"]
    )
    return Intent(Kind(told["kind"]), parts, told["statement"], told["catalog"], told["by"], file)


def settle(spark: SparkSession, intent: Intent, *, failed: bool = False) -> bool:
    """Take a CREATE back, unless it had come to its end, finish a DROP that had begun, move a table back that lost its name.

    A CREATE that has `failed`, as people were told, is taken back in any case. Return whether the statement is done; else nothing
    of it is.
    """
    first, *others = intent.parts
    named = _registered(spark, first) and not (failed and intent.kind is Kind.CREATE)
    if intent.kind is not Kind.RENAME:
        for part in () if named else reversed(intent.parts):
            _unmake(spark, part)
    elif named and others[0].path != first.path and not _there(spark, first) and _there(spark, others[0]):
        move(spark, others[0].path, first.path)
    _remove(spark, intent)
    return named == (intent.kind is Kind.CREATE)


def _registered(spark: SparkSession, part: Part) -> bool:
    """Tell whether the catalog has the table, whatever is left of its files; one without a name is there when its files are."""
    if is_path(part.name):
        return _there(spark, part)
    return locate(spark, part.name).path == part.path


def _there(spark: SparkSession, part: Part) -> bool:
    key, value = part.mark
    return properties_at(spark, part.path).get(key) == value


def marked(spark: SparkSession, name: Sequence[str], path: str) -> Part:
    """Return what an intent says of a table that is there."""
    return Part(tuple(name), path, (ID, state(spark, path).table_id))


def properties_at(spark: SparkSession, path: str) -> Mapping[str, str]:
    """Return the properties of the table at a path; none where there is none, or half of one."""
    try:
        found = state(spark, path)
    except (SourceUnavailable, HistoryLost, Py4JJavaError, CapturedException) as error:
        if storage_failed(error):
            raise
        return {}
    return {**found.properties, ID: found.table_id}


def _unmake(spark: SparkSession, part: Part) -> None:
    """Take away what is there of a table; one that another made at its place stays."""
    key, value = part.mark
    if properties_at(spark, part.path).get(key, value) != value:
        return
    if not is_path(part.name) and _registered(spark, part):
        forget(spark, part.name)
    drop_own(spark, part.path, part.alone)


def forget(spark: SparkSession, name: Sequence[str]) -> None:
    """Take a name out of the catalog; the files stay."""
    release(spark, name)
    with local_property(spark, ENGINE, "true"):
        at_home(spark).sql(f"DROP TABLE IF EXISTS {Name(tuple(name))}")


def _remove(spark: SparkSession, intent: Intent) -> None:
    delete_small(spark, _beat_of(intent.file))
    delete_small(spark, intent.file)


def _beat_of(file: str) -> str:
    return file.removesuffix(".json") + ".alive"


def _catalog(spark: SparkSession) -> str:
    """Identify the catalog: intents in a shared folder may be of names in another one."""
    if spark.conf.get("spark.sql.catalogImplementation") != "hive":
        return "in memory"
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    place = str(hadoop.get("hive.metastore.uris") or hadoop.get("javax.jdo.option.ConnectionURL"))
    return f"{place} in {Path.cwd()}" if re.search("databaseName=[^/]", place) else place
