"""A stream table's definition, and its spelling as table properties.

Definitions change by statements only. The frontier, which each refresh moves, is domain metadata in the Delta log: a property
would be a Metadata action, which disturbs concurrent OPTIMIZE, streaming readers and the change feed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from streamtable.algebra.reading import BoundQuery
from streamtable.catalog.accepted import NAME, made_as
from streamtable.catalog.requests import REQUESTED
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.ddl import FEW_CHECKPOINTS
from streamtable.errors import DefinitionUnreadable, NotSupported, StreamTableError, StreamTableSuspended
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.schedule import Cron, session_zone
from streamtable.language.write import to_sql

__all__ = [
    "ACTIVE",
    "DELTA_PROPERTIES",
    "FORMAT",
    "FORMATTED",
    "IDENTITY",
    "SUSPENDED",
    "USED",
    "Definition",
    "Failure",
    "Properties",
    "Resumed",
    "code_of",
    "defaults_of",
    "over",
    "spelled",
    "suspended",
]

FORMATTED, IDENTITY = "streamtable.format", "streamtable.id"
"""The property that every stream table has, and the one with its id."""

FORMAT = "1"
"""The version of the properties' format. Optional properties can be added without a new version."""

Properties: TypeAlias = Mapping[str, str]

_V = TypeVar("_V")

USED = "streamtable.used"
"""The property with the columns that the query mentions, for people."""

_MOVING = ("streamtable.status", "streamtable.error", "streamtable.resumed", USED)
"""Properties of a table's state, and for people, which do not decide what runs."""

MIGRATIONS: dict[str, Callable[[Properties], Properties]] = {}
"""Converters from each earlier format to the next, with its number. A change of FORMAT adds one. The next statement that changes a
table's definition stores the table in the new format."""

ACTIVE, SUSPENDED = "ACTIVE", "SUSPENDED"

DELTA_PROPERTIES: Mapping[str, str] = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.feature.domainMetadata": "supported",
    **FEW_CHECKPOINTS,
}

_OF_NO_ROW = {"streamtable.definition", *_MOVING}
"""Properties that do not decide about rows. Of the definition, name, query, expectations and frozen rows are compared."""


def spelled(key: str) -> str:
    """Return the spelling by which properties are compared: the names of Delta's own have no case."""
    folded = key.casefold()
    return folded if folded.startswith("delta.") else key


def over(before: Mapping[str, _V], after: Mapping[str, _V]) -> dict[str, _V]:
    """Return all properties. Where one is there twice, the first spelling and the last value count."""
    spelling: dict[str, str] = {}
    both = (*before.items(), *after.items())
    return {spelling.setdefault(spelled(key), key): value for key, value in both}


def defaults_of(keys: Iterable[str]) -> dict[str, str | None]:
    """Return the properties as they are where no statement sets them."""
    known = {spelled(key): value for key, value in DELTA_PROPERTIES.items()}
    return {key: known.get(spelled(key)) for key in keys}


@dataclass(frozen=True)
class Failure:
    """The reason of a suspension by the scheduler: the last error, its time, and the number of errors in a row."""

    message: str
    condition: str
    at: datetime
    failures: int


@dataclass(frozen=True)
class Resumed:
    """The last RESUME: the version of its commit, before which failures no longer count, and its time."""

    version: int
    at: datetime


@dataclass(frozen=True)
class Definition:
    """The definition by CREATE (and ALTER), with the context in which the query is read.

    `statement` is canonical: full name, no IF NOT EXISTS or OR REPLACE. `settings` are the SQL settings captured at CREATE,
    `namespace` the current catalog and database. `id` names the table in its commits. `sources` are the paths that the query
    reads. `error` is the reason of a suspension, `resumed` the last RESUME.
    """

    statement: CreateStreamTable
    id: str
    namespace: tuple[str, ...]
    settings: Mapping[str, str]
    sources: Mapping[str, str]
    status: str = ACTIVE
    error: Failure | None = None
    resumed: Resumed | None = None

    @property
    def name(self) -> str:
        """Return the full name, without backquotes, for rows and messages."""
        return ".".join(self.statement.name.parts)

    @property
    def has_own_folder(self) -> bool:
        """Tell whether no other table can use its folder: the catalog chose it, and no user by LOCATION."""
        return self.statement.location is None

    def with_statement(self, **changes: object) -> Definition:
        """Return the definition with parts of its statement changed."""
        return replace(self, statement=replace(self.statement, **changes))  # type: ignore[arg-type]

    def resumed_by(self, version: int, at: datetime) -> Definition:
        """Return the definition that a RESUME commits as `version`."""
        return replace(self, status=ACTIVE, error=None, resumed=Resumed(version, at))

    def properties(self, bound: BoundQuery | None = None) -> dict[str, str | None]:
        """Spell the definition as table properties. `bound` has the views and functions of its query, and the columns of its
        tables: those that there were, and those that it mentions.

        Without `bound` these stay as they are. A property that is None is removed.
        """
        seen: dict[str, str | None] = {}
        if bound is not None:
            seen["streamtable.views"] = json.dumps(bound.views)
            seen["streamtable.columns"] = bound.columns
            seen[USED] = bound.used
            seen["streamtable.functions"] = json.dumps(bound.functions) if bound.functions else None
        return seen | {
            FORMATTED: FORMAT,
            "streamtable.definition": to_sql(self.statement),
            IDENTITY: self.id,
            NAME: json.dumps(list(self.statement.name.parts)),
            "streamtable.namespace": json.dumps(list(self.namespace)),
            "streamtable.settings": json.dumps(dict(self.settings)),
            "streamtable.sources": json.dumps(dict(self.sources)),
            "streamtable.status": self.status,
            "streamtable.error": _text(self.error) if self.error else None,
            "streamtable.resumed": _text(self.resumed) if self.resumed else None,
        }

    @classmethod
    def same_rows(cls, before: Properties, after: Properties) -> bool:
        """Tell whether a table with these properties holds the same rows, from the same sources, as a table with those before.

        Schedule, refresh mode, status, and properties that are not ours may differ.
        """
        keys = {key for key in before.keys() | after.keys() if key.startswith("streamtable.")} - _OF_NO_ROW
        keys = {key for key in keys if not key.startswith(REQUESTED)}
        one, other = cls.of(before), cls.of(after)
        if one is None or other is None or any(before.get(key) != after.get(key) for key in keys):
            return False
        before_, after_ = ((each.name, each.query, each.expectations, each.frozen) for each in (one.statement, other.statement))
        return before_ == after_

    @classmethod
    def of(cls, properties: Properties) -> Definition | None:
        """Read a definition back; None for properties of an ordinary table.

        Raises NotSupported for a later format, DefinitionUnreadable for unreadable properties.
        """
        if FORMATTED not in properties:
            return None
        try:
            return cls._read(properties)
        except NotSupported:
            raise
        except (StreamTableError, *UNREADABLE, AttributeError) as error:
            said = error.reason if isinstance(error, StreamTableError) else f"{type(error).__name__}: {error}"
            named = made_as(properties)
            raise DefinitionUnreadable(
                f"the definition of {'.'.join(named) if named else 'a stream table'} cannot be read: {said}",
                hint="use the version of streamtable that wrote it, or DROP STREAM TABLE and create it again",
            ) from error

    @classmethod
    def _read(cls, properties: Properties) -> Definition:
        while migrated := MIGRATIONS.get(properties[FORMATTED]):
            properties = migrated(properties)
        if (written := properties[FORMATTED]) != FORMAT:
            hint = "use the version of streamtable that wrote it, or a later one"
            raise NotSupported(f"a stream table is stored in format {written}; this version knows {FORMAT}", hint=hint)
        statement = parse(properties["streamtable.definition"], stored=True)
        if not isinstance(statement, CreateStreamTable):
            raise TypeError("it is no CREATE STREAM TABLE statement")
        for key in ("streamtable.views", "streamtable.functions", USED):
            _checked(key, json.loads(properties.get(key, "[]")), list)
        settings, sources = (json.loads(properties[f"streamtable.{key}"]) for key in ("settings", "sources"))
        if isinstance(statement.schedule, Cron) and statement.schedule.time_zone is None:
            session_zone(settings["spark.sql.session.timeZone"])  # an unknown one makes this table alone unreadable
        return cls(
            statement,
            properties[IDENTITY],
            tuple(_checked("streamtable.namespace", json.loads(properties["streamtable.namespace"]), list)),
            _checked("streamtable.settings", settings, dict),
            _checked("streamtable.sources", sources, dict),
            _status(properties["streamtable.status"]),
            restored(Failure, json.loads(properties["streamtable.error"])) if "streamtable.error" in properties else None,
            restored(Resumed, json.loads(properties["streamtable.resumed"])) if "streamtable.resumed" in properties else None,
        )


def suspended(definition: Definition) -> StreamTableSuspended:
    """Return the error of a suspended stream table: since when and by what it is suspended, and what to do."""
    error = definition.error
    why = f" since {error.at}, after {error.failures} failures: {error.message}" if error else ", by ALTER STREAM TABLE ... SUSPEND"
    hint = f"{'put the cause right, then ' if error else ''}ALTER STREAM TABLE {definition.statement.name} RESUME"
    return StreamTableSuspended(f"{definition.name} is suspended{why}", hint=hint)


def code_of(properties: Mapping[str, str | None]) -> dict[str, str]:
    """Return the properties that decide what runs, by which the catalog knows a definition."""
    return {key: value for key, value in properties.items() if value is not None and _is_code(key)}


def _is_code(key: str) -> bool:
    """Return the table's constraints, which Delta evaluates at each write."""
    folded, moving = key.casefold(), key in _MOVING or key.startswith(REQUESTED)
    return folded.startswith("delta.constraints.") or (folded.startswith("streamtable.") and not moving)


def _text(told: Failure | Resumed) -> str:
    return json.dumps(asdict(told), default=datetime.isoformat)


def _status(written: str) -> str:
    if written not in (ACTIVE, SUSPENDED):
        raise ValueError(f"{written} is no status")
    return written


Collected = TypeVar("Collected", list[Any], dict[str, Any])


def _checked(key: str, found: object, kind: type[Collected]) -> Collected:
    """Return a property's value, if it is a list, or an object, of texts."""
    if not isinstance(found, kind):
        raise TypeError(f"{key} is no {kind.__name__}")
    texts: Iterable[Any] = found.values() if isinstance(found, dict) else found
    if not all(isinstance(each, str) for each in texts):
        raise TypeError(f"{key} does not hold texts")
    return found
