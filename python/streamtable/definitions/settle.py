"""Settling the remains of killed statements, by the next statement on a name, the scheduler, or doctor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.catalog.entries import find, schemas
from streamtable.catalog.halves import Intent, Kind, Part, is_beside, registered, settle
from streamtable.catalog.intents import dead, tell
from streamtable.catalog.objects import finish_rename
from streamtable.catalog.paths import home_of
from streamtable.definitions.rename import rename_with_readers
from streamtable.delta.unreadable import left_out
from streamtable.errors import StreamTableError
from streamtable.language.names import Name

__all__ = ["Settled", "settle_everywhere", "settle_one", "settle_schema"]


@dataclass(frozen=True)
class Settled:
    """A settled intent. `done`: its statement was finished, not undone."""

    intent: Intent
    done: bool


def settle_schema(spark: SparkSession, name: Sequence[str], *, drops: bool = False) -> Iterator[Settled]:
    """Settle the remains in the schema of a full name. Remains that cannot be settled now block only their own names.

    `drops`: a name of the catalog can be dropped, whatever the remains are of.
    """
    for intent in dead(spark, home_of(spark, name)):
        own = [part for part in intent.parts if part.name == tuple(name) and _block(intent, part)]
        blocked = any(not (drops and registered(spark, part)) for part in own)
        with nullcontext() if blocked else _told(intent):
            yield Settled(intent, settle_one(spark, intent))


def _block(intent: Intent, part: Part) -> bool:
    """Tell whether remains block their name. A REPLACE's belongs to a whole table; remains at a LOCATION are not in its way."""
    return intent.kind is Kind.RENAME or (intent.kind is not Kind.REPLACE and is_beside(intent, part))


@contextmanager
def _told(intent: Intent) -> Iterator[None]:
    try:
        yield
    except (StreamTableError, PySparkException, Py4JJavaError) as error:
        tell(intent, error)


def settle_one(spark: SparkSession, intent: Intent) -> bool:
    """Settle an intent; return whether its statement is done now."""
    if intent.kind is Kind.RENAME:
        _tell_readers(spark, intent)
        finish_rename(spark, *intent.parts)
    return settle(spark, intent)


def _tell_readers(spark: SparkSession, intent: Intent) -> None:
    """Go on with the renaming of a stream table that has its new name in the catalog already."""
    before, after = intent.parts
    _, entry = find(spark, Name(after.name))
    if entry and entry.path == after.path and entry.definition.statement.name == Name(before.name):
        rename_with_readers(spark, entry, Name(after.name), begun=True)


def settle_everywhere(spark: SparkSession) -> Iterator[Settled]:
    """Settle the remains in all schemas that can hold stream tables. A schema that cannot be read hides no other."""
    for schema in schemas(spark):
        with left_out(".".join(schema)):
            yield from settle_schema(spark, (*schema, ""))
