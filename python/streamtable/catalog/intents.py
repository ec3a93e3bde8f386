"""Intents: records of the tables that a statement is about to make, drop or rename, written before its first effect.

The entry in the catalog is the last effect of a CREATE and the first of a DROP. So a name is either free or belongs to a whole
table. An intent, a small file in the folder of the schema, tells what else a killed process left behind. The next process undoes
a CREATE and finishes a DROP. An intent is not a lock: processes leave the intents of living processes alone.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path

from pyspark.sql import SparkSession

from streamtable.catalog.halves import FOLDER, Intent, Kind, Part, beat_of, registered, remove, settle
from streamtable.catalog.mounted import home_away
from streamtable.catalog.owners import BEAT, alive, owner
from streamtable.catalog.parts import MARKS
from streamtable.catalog.paths import home_of, is_path
from streamtable.catalog.restored import restored
from streamtable.delta.folders import delete_small, names, read_small, write_small
from streamtable.delta.unreadable import Unreadable, left_out
from streamtable.errors import StreamTableError
from streamtable.jvm.storage import no_space, storage_failed

__all__ = ["carrying_out", "dead", "intended", "left", "tell"]

_FILE = re.compile(r"\w+-\d+-\d+-\w+\.json")
"""The name of an intent's file: its owner, and a number."""

log = logging.getLogger("streamtable.catalog")

_running, _told = set[str](), set[tuple[str, str]]()
_statement: ContextVar[str] = ContextVar("statement", default="")


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
    """Run the effects of a statement. After a failure, for whatever reason, they are undone or finished at once.

    That happens on a thread of its own, because the thread of a cancelled statement is interrupted. A DROP that is finished there
    has not failed. Raises StorageFailed before the first effect where the storage is away: what is made in an empty place, where a
    disk was mounted, is out of sight when the disk is back.
    """
    for name in {part.name[:-1]: part.name for part in parts if not is_path(part.name)}.values():
        if failed := home_away(spark, name):
            raise failed
    file = f"{home_of(spark, parts[0].name)}/{FOLDER}/{owner()}-{uuid.uuid4().hex}.json"
    inside = cache(partial(names, spark))  # a schema may have thousands of tables, which are dropped at once
    parts = tuple(replace(part, beside=_has_neighbours(inside, part.path)) for part in parts)
    intent = Intent(kind, parts, _statement.get(), _catalog(spark), f"process {os.getpid()} of {socket.gethostname()}", file)
    _running.add(file)
    try:
        _write(spark, intent)
        with _heartbeat(spark, file):
            yield
    except BaseException as error:
        with ThreadPoolExecutor(1) as another:
            done = another.submit(_settle_after_failure, spark, intent).result()
        if not (done and kind is Kind.DROP and isinstance(error, Exception)):
            raise
    else:
        with suppress(Exception):  # what is whole is found to be whole by whoever comes next
            remove(spark, intent)
    finally:
        _running.discard(file)


def _has_neighbours(inside: Callable[[str], Sequence[str]], path: str) -> bool:
    """Tell whether anything is beside a folder, by the names in another one; where nobody can tell, something may be."""
    around, _, own = path.rstrip("/").rpartition("/")
    try:
        return any(name != own for name in inside(f"{around}/"))
    except Exception:  # the statement itself meets the storage, and says what is wrong with it
        return True


def _write(spark: SparkSession, intent: Intent) -> None:
    """Write the intent. A full disk must not prevent a DROP."""
    try:
        write_small(spark, intent.file, json.dumps(asdict(intent)))
    except Exception as error:
        with suppress(Exception):
            remove(spark, intent)
        if intent.kind is not Kind.DROP or not no_space(error):
            raise


def _settle_after_failure(spark: SparkSession, intent: Intent) -> bool:
    """Settle an intent, and tell whether its statement is done. Readers of a renamed table learn its new name first."""
    try:
        if intent.kind is not Kind.RENAME or registered(spark, intent.parts[0]):
            return settle(spark, intent, failed=True)
    except Exception as error:  # the statement's own error counts; the intent stays for whoever comes next
        tell(intent, error)
    return False


def tell(intent: Intent, error: Exception) -> None:
    """Tell the log of an intent that cannot be settled now, and what to do. It may stay so: the same is told once."""
    known = storage_failed(error) or error
    said = type(known).__name__
    if isinstance(known, StreamTableError):
        said = ". ".join(filter(None, (known.reason, known.hint)))
    if (intent.file, said) not in _told:
        _told.add((intent.file, said))
        log.warning("%s of %s is not settled yet: %s", intent.kind.value, intent.name, said)


@contextmanager
def _heartbeat(spark: SparkSession, file: str) -> Iterator[None]:
    """Renew the intent from time to time, for those who cannot see this process."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            with suppress(Exception):
                write_small(spark, beat_of(file), "alive")

    thread = threading.Thread(target=beat, name="streamtable-intent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def dead(spark: SparkSession, home: str) -> Iterator[Intent]:
    """Yield the intents in the folder of a schema whose statements no longer run."""
    yield from (each for each in left(spark, home) if isinstance(each, Intent))


def left(spark: SparkSession, home: str) -> Iterator[Intent | Unreadable]:
    """Yield the intents in the folder of a schema whose statements no longer run, and why others there cannot be read.

    Others are those of a later release, or of somebody who may write there. They stay, and are in nobody's way.
    """
    before = frozenset(_running)  # one that ends while the folder is read is not dead
    found = {name: (at, text) for name, at, text in read_small(spark, f"{home}/{FOLDER}")}
    for name, (at, text) in sorted(found.items()):
        file, intent = f"{home}/{FOLDER}/{name}", None
        beat, _ = found.get(beat_of(name), (at, ""))
        if not _FILE.fullmatch(name) or alive(name, max(at, beat), file in before or file in _running):
            continue
        with left_out(file) as why:
            try:
                intent = replace(_read(text, file), seen=max(at, beat) + round(2000 * BEAT))
            except json.JSONDecodeError:  # killed while it was written: nothing had been done
                delete_small(spark, file)
        if intent and intent.catalog == _catalog(spark):
            yield intent
        yield from (Unreadable(f"{file} is no intent that this release can read: {reason}") for reason in why)


def _read(text: str, file: str) -> Intent:
    """Return the intent in a file. Raises UNREADABLE for any other JSON."""
    intent = restored(Intent, {**json.loads(text), "file": file})
    count = len(intent.parts)
    if not count or (intent.kind is Kind.RENAME and count != 2):
        raise ValueError(f"it has {count} tables")
    if any(len(part.name) != 3 or len(part.mark) != 2 or part.mark[0] not in MARKS for part in intent.parts):
        raise ValueError("a table has no full name, or no mark that identifies it")
    return intent


def _catalog(spark: SparkSession) -> str:
    """Identify the catalog: intents in a shared folder may be of names in another one."""
    if spark.conf.get("spark.sql.catalogImplementation") != "hive":
        return "in memory"
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    place = str(hadoop.get("hive.metastore.uris") or hadoop.get("javax.jdo.option.ConnectionURL"))
    return f"{place} in {Path.cwd()}" if re.search("databaseName=[^/]", place) else place
