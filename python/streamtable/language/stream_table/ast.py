"""The statements as data, before anything is looked up."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from streamtable.language.names import Condition, Name, Query
from streamtable.language.stream_table.expectations import AddExpectation, DropExpectation, Expectation
from streamtable.language.stream_table.history import Backfill, SetFrozen
from streamtable.language.stream_table.schedule import Schedule, Unsaid
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.stream_table.state import SetState, StateMode


class RefreshMode(str, Enum):
    """AUTO falls back to FULL without a delta rule, DIFFERENTIAL refuses. STRICT also refuses to recompute after a lost history."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    STRICT = "DIFFERENTIAL STRICT"
    FULL = "FULL"

    @property
    def needs_rules(self) -> bool:
        """Tell whether every operator of the query must have a delta rule."""
        return self in (RefreshMode.DIFFERENTIAL, RefreshMode.STRICT)


@dataclass(frozen=True)
class ColumnSpec:
    """Name a column of the result, with a comment if one was given; the type is the query's."""

    name: str
    comment: str | None = None


@dataclass(frozen=True)
class CreateStreamTable:
    """CREATE [OR REPLACE] STREAM TABLE; names of columns keep their case, properties their order.

    `or_refresh`, which comes with `or_replace`, refreshes a table whose query stays the same.
    """

    name: Name
    query: Query
    columns: tuple[ColumnSpec, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    schedule: Schedule = field(default_factory=Unsaid)
    mode: RefreshMode = RefreshMode.AUTO
    state: StateMode = StateMode.AUTO
    with_data: bool = True
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    comment: str | None = None
    location: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    or_refresh: bool = False
    expectations: tuple[Expectation, ...] = ()
    backfill: Backfill | None = None
    frozen: Condition | None = None


@dataclass(frozen=True)
class SetSchedule:
    """SET SCHEDULE."""

    schedule: Schedule


@dataclass(frozen=True)
class SetMode:
    """SET REFRESH MODE."""

    mode: RefreshMode


@dataclass(frozen=True)
class Suspend:
    """SUSPEND: no refresh until RESUME."""


@dataclass(frozen=True)
class Resume:
    """RESUME."""


@dataclass(frozen=True)
class Rename:
    """RENAME TO."""

    to: Name


@dataclass(frozen=True)
class SetProperties:
    """SET TBLPROPERTIES; those not named stay."""

    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class UnsetProperties:
    """UNSET TBLPROPERTIES: back to the default; with `if_exists` what is not set is left out."""

    keys: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class SetComment:
    """SET COMMENT, of the table."""

    comment: str


@dataclass(frozen=True)
class CommentColumns:
    """ALTER COLUMN ... COMMENT, of one column or of several: names and comments."""

    comments: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SetQuery:
    """AS: the table is defined by another query from now on."""

    query: Query


@dataclass(frozen=True)
class AcceptDefinition:
    """ACCEPT DEFINITION: the catalog accepts the definition in the table's log."""


Action: TypeAlias = (
    SetSchedule
    | SetMode
    | SetState
    | Suspend
    | Resume
    | Rename
    | SetProperties
    | UnsetProperties
    | SetComment
    | CommentColumns
    | AddExpectation
    | DropExpectation
    | SetFrozen
    | SetQuery
    | AcceptDefinition
)


@dataclass(frozen=True)
class AlterStreamTable:
    """ALTER STREAM TABLE."""

    name: Name
    action: Action


@dataclass(frozen=True)
class DropStreamTable:
    """DROP STREAM TABLE; `cascade` drops the stream tables that read this one as well."""

    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RefreshStreamTable:
    """REFRESH; `full` recomputes, `cascade` refreshes what these read first, `asynchronous` leaves all that to a scheduler."""

    names: tuple[Name, ...]
    full: bool = False
    cascade: bool = False
    asynchronous: bool = False


@dataclass(frozen=True)
class RefreshStreamTables:
    """REFRESH STREAM TABLES: all that SHOW STREAM TABLES shows with the same words; see RefreshStreamTable."""

    namespace: Name | None = None
    like: str | None = None
    full: bool = False
    asynchronous: bool = False


@dataclass(frozen=True)
class ShowStreamTables:
    """SHOW STREAM TABLES in a namespace (the current one if None) whose names match a pattern of Spark's LIKE there."""

    namespace: Name | None = None
    like: str | None = None


@dataclass(frozen=True)
class DescribeStreamTable:
    """DESCRIBE STREAM TABLE."""

    name: Name
    extended: bool = False


@dataclass(frozen=True)
class ShowCreateStreamTable:
    """SHOW CREATE STREAM TABLE."""

    name: Name


@dataclass(frozen=True)
class ShowRefreshHistory:
    """SHOW REFRESH HISTORY of one table or of all, the latest `limit` refreshes or all."""

    name: Name | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ShowDependencies:
    """SHOW STREAM TABLE DEPENDENCIES of one table or of all."""

    name: Name | None = None


@dataclass(frozen=True)
class ExplainStreamTable:
    """EXPLAIN STREAM TABLE; `delta` asks for the delta plan."""

    name: Name
    delta: bool = False


@dataclass(frozen=True)
class ExplainCreate:
    """EXPLAIN CREATE STREAM TABLE: the table that would be created, and how it would be refreshed."""

    create: CreateStreamTable


@dataclass(frozen=True)
class ExplainAlter:
    """EXPLAIN ALTER STREAM TABLE ... AS: the table with another query, and how it would be refreshed."""

    name: Name
    action: SetQuery


@dataclass(frozen=True)
class VerifyStreamTable:
    """VERIFY STREAM TABLE."""

    name: Name


@dataclass(frozen=True)
class VerifyStreamTables:
    """VERIFY STREAM TABLES: all that SHOW STREAM TABLES shows with the same words."""

    namespace: Name | None = None
    like: str | None = None


Statement: TypeAlias = (
    CreateStreamTable
    | AlterStreamTable
    | AlterScheduler
    | DropStreamTable
    | RefreshStreamTable
    | RefreshStreamTables
    | ShowStreamTables
    | DescribeStreamTable
    | ShowCreateStreamTable
    | ShowRefreshHistory
    | ShowDependencies
    | ExplainStreamTable
    | ExplainCreate
    | ExplainAlter
    | VerifyStreamTable
    | VerifyStreamTables
)
