"""The statements as data, before anything is looked up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from streamtable.language.names import Name, Query
from streamtable.sql.literals import quote_string


@dataclass(frozen=True)
class Manual:
    """Refresh only by statement."""

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return "MANUAL"


@dataclass(frozen=True)
class Every:
    """Refresh when the table is `seconds` old; `text` is the duration as it was written."""

    seconds: int
    text: str

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return quote_string(self.text)


@dataclass(frozen=True)
class Cron:
    """Refresh when the clock of `time_zone` (or of the session, if None) matches the expression."""

    expression: str
    time_zone: str | None = None

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        zone = "" if self.time_zone is None else f" AT TIME ZONE {quote_string(self.time_zone)}"
        return f"CRON {quote_string(self.expression)}{zone}"


@dataclass(frozen=True)
class Calculated:
    """Refresh as often as the most frequent of the stream tables that read this one."""

    def sql(self) -> str:
        """Return what stands after SCHEDULE."""
        return "CALCULATED"


Schedule: TypeAlias = Manual | Every | Cron | Calculated


class RefreshMode(str, Enum):
    """The refresh mode: AUTO falls back to FULL without a delta rule, DIFFERENTIAL refuses."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"


@dataclass(frozen=True)
class ColumnSpec:
    """Name a column of the result, with a comment if one was given; the type is the query's."""

    name: str
    comment: str | None = None


@dataclass(frozen=True)
class CreateStreamTable:
    """CREATE [OR REPLACE] STREAM TABLE; names of columns keep their case, properties their order."""

    name: Name
    query: Query
    columns: tuple[ColumnSpec, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    schedule: Schedule = Manual()
    mode: RefreshMode = RefreshMode.AUTO
    with_data: bool = True
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    comment: str | None = None
    location: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


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
class SetQuery:
    """AS: the table is defined by another query from now on."""

    query: Query


@dataclass(frozen=True)
class AcceptDefinition:
    """ACCEPT DEFINITION: the catalog accepts the definition in the table's log."""


Action: TypeAlias = SetSchedule | SetMode | Suspend | Resume | Rename | SetProperties | SetQuery | AcceptDefinition


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
    """REFRESH STREAM TABLE; `full` recomputes, `cascade` refreshes the stream tables that this one reads first."""

    name: Name
    full: bool = False
    cascade: bool = False


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


Statement: TypeAlias = (
    CreateStreamTable
    | AlterStreamTable
    | DropStreamTable
    | RefreshStreamTable
    | ShowStreamTables
    | DescribeStreamTable
    | ShowCreateStreamTable
    | ShowRefreshHistory
    | ShowDependencies
    | ExplainStreamTable
    | ExplainCreate
    | ExplainAlter
    | VerifyStreamTable
)
