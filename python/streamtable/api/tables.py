"""Stream tables from Python: each method issues one statement and returns its answer as data.

tables = StreamTables(spark)  # of this process, or a client of Spark Connect
per_city = tables.create("per_city", "SELECT city, count(*) AS n FROM people GROUP BY city", schedule="5m")
per_city.refresh().action
per_city.to_df().show()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from pyspark.sql import DataFrame, SparkSession

from streamtable.api.answers import Dependency, Finding, Listed, Past, Refreshed, Requested, Verdict, ask, ask_all, read, rows
from streamtable.errors import InvalidStatement, StreamTableError
from streamtable.language.names import Condition, Name, Query
from streamtable.language.parse import parse, parse_name, parse_schedule
from streamtable.language.stream_table.ast import (
    AcceptDefinition,
    Action,
    AlterStreamTable,
    ColumnSpec,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    RefreshMode,
    RefreshStreamTable,
    Rename,
    Resume,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Suspend,
    VerifyStreamTable,
)
from streamtable.language.stream_table.history import Backfill, SetFrozen
from streamtable.language.stream_table.schedule import Unsaid
from streamtable.language.stream_table.state import SetState, StateMode
from streamtable.language.write import to_sql

__all__ = ["StreamTable", "StreamTables"]


@final
class StreamTables:
    """The stream tables that a session sees; `spark` may be a client of Spark Connect as well.

    Names are written as in SQL: `table`, `schema.table`, with backquotes where Spark needs them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def create(
        self,
        name: str,
        query: str,
        *,
        schedule: str | None = None,
        mode: str = "AUTO",
        state: str = "AUTO",
        columns: Mapping[str, str | None] | None = None,
        partitioned_by: Iterable[str] = (),
        clustered_by: Iterable[str] = (),
        comment: str | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        with_data: bool = True,
        backfill: str | None = None,
        trusted: bool = False,
        frozen: str | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
    ) -> StreamTable:
        """Create a stream table and fill it.

        `query` is SQL text: a DataFrame is refused, because its plan cannot be stored. `schedule` is what stands after
        SCHEDULE, a duration also without quotes. `columns` gives each column of the result its name, and a comment or None.
        `backfill` names a Delta table with the first contents, which are compared with the query unless they are `trusted`.
        `frozen` is a condition: rows for which it is TRUE stay as they are.
        """
        if trusted and not backfill:
            raise InvalidStatement("trusted says something of backfill alone", hint="name the table in backfill")
        rows(
            self._spark,
            CreateStreamTable(
                name=parse_name(name),
                query=_query(name, query),
                columns=tuple(ColumnSpec(*column) for column in (columns or {}).items()),
                or_replace=or_replace,
                if_not_exists=if_not_exists,
                schedule=Unsaid() if schedule is None else parse_schedule(schedule),
                mode=_mode(mode),
                state=_state(state),
                with_data=with_data,
                backfill=Backfill(parse_name(backfill), trusted) if backfill else None,
                frozen=_condition(frozen) if frozen else None,
                partitioned_by=tuple(partitioned_by),
                clustered_by=tuple(clustered_by),
                comment=comment,
                location=location,
                properties=tuple((properties or {}).items()),
            ),
        )
        return self.at(name)

    def get(self, name: str) -> StreamTable:
        """Return the stream table called `name`; raise StreamTableNotFound where there is none."""
        table = self.at(name)
        table.describe()
        return table

    def at(self, name: str) -> StreamTable:
        """Return what `get` returns, without a check that the table exists."""
        return StreamTable(self._spark, parse_name(name))

    def list(self, schema: str | None = None, like: str | None = None) -> Sequence[Listed]:
        """Return the stream tables of the schema, or of the current one, whose names match a pattern such as 'sales*'."""
        return ask_all(self._spark, Listed, ShowStreamTables(parse_name(schema) if schema else None, like))

    def list_all(self) -> Sequence[Listed]:
        """Return the stream tables of all schemas of the current catalog."""
        return read(Listed, self._spark.sql("SELECT * FROM stream_tables() ORDER BY name").collect())

    def refresh(self, names: Iterable[str], *, full: bool = False, cascade: bool = False) -> Sequence[Refreshed]:
        """Refresh stream tables as one statement, sources before readers; `cascade`: also the stream tables that they read.

        The answer has a line for each of the names, in their order. The first table that fails ends the statement.
        """
        asked = tuple(dict.fromkeys(map(parse_name, names)))
        if not asked:
            return []
        return ask_all(self._spark, Refreshed, RefreshStreamTable(asked, full, cascade))[: len(asked)]

    def history(self, limit: int | None = None) -> Sequence[Past]:
        """Return the refreshes of all stream tables, the latest first."""
        return ask_all(self._spark, Past, ShowRefreshHistory(None, limit))

    def dependencies(self) -> Sequence[Dependency]:
        """Return the sources of all stream tables."""
        return ask_all(self._spark, Dependency, ShowDependencies())


@final
class StreamTable:
    """One stream table, by its name; made by StreamTables."""

    def __init__(self, spark: SparkSession, name: Name) -> None:
        self._spark = spark
        self._name = name

    @property
    def name(self) -> str:
        """Return the name as it was given, as it is written in SQL."""
        return str(self._name)

    def __repr__(self) -> str:
        return f"StreamTable({self.name})"

    def to_df(self) -> DataFrame:
        """Return the contents as of the last refresh."""
        return self._spark.table(self.name)

    def refresh(self, *, full: bool = False, cascade: bool = False) -> Refreshed:
        """Bring the table to the latest versions of its sources; `cascade`: the stream tables that it reads come first."""
        own, *_ = ask_all(self._spark, Refreshed, RefreshStreamTable((self._name,), full, cascade))
        return own

    def request_refresh(self, *, full: bool = False, cascade: bool = False) -> Requested:
        """Leave the refresh to a scheduler of the catalog, and return at once."""
        own, *_ = ask_all(self._spark, Requested, RefreshStreamTable((self._name,), full, cascade, asynchronous=True))
        return own

    def history(self, limit: int | None = None) -> Sequence[Past]:
        """Return the refreshes, the latest first."""
        return ask_all(self._spark, Past, ShowRefreshHistory(self._name, limit))

    def dependencies(self) -> Sequence[Dependency]:
        """Return the sources of the table."""
        return ask_all(self._spark, Dependency, ShowDependencies(self._name))

    def describe(self, *, extended: bool = False) -> dict[str, str | None]:
        """Return the definition and the state; `extended`: the captured settings as well."""
        return {row["property"]: row["value"] for row in rows(self._spark, DescribeStreamTable(self._name, extended))}

    def show_create(self) -> str:
        """Return the CREATE STREAM TABLE statement that defines the table."""
        return str(rows(self._spark, ShowCreateStreamTable(self._name))[0][0])

    def explain(self, *, delta: bool = False) -> Sequence[Finding]:
        """Return how each operator is maintained; `delta`: the SQL of a refresh as well."""
        return ask_all(self._spark, Finding, ExplainStreamTable(self._name, delta))

    def verify(self) -> Verdict:
        """Have Spark evaluate the query at the versions of the table's contents, and compare both."""
        return ask(self._spark, Verdict, VerifyStreamTable(self._name))

    def alter(
        self,
        *,
        schedule: str | None = None,
        mode: str | None = None,
        state: str | None = None,
        frozen: str | None = None,
        query: str | None = None,
        properties: Mapping[str, str] | None = None,
        rename_to: str | None = None,
    ) -> StreamTable:
        """Change the given parts, by one statement each, the name last. Return the table under its new name.

        An empty `frozen` freezes no row any more.
        """
        if schedule is not None:
            self._alter(SetSchedule(parse_schedule(schedule)))
        if mode is not None:
            self._alter(SetMode(_mode(mode)))
        if state is not None:
            self._alter(SetState(_state(state)))
        if frozen is not None:
            self._alter(SetFrozen(_condition(frozen) if frozen else None))
        if query is not None:
            self._alter(SetQuery(_query(str(self._name), query)))
        if properties:
            self._alter(SetProperties(tuple(properties.items())))
        if rename_to is not None:
            self._alter(Rename(parse_name(rename_to)))
            return StreamTable(self._spark, parse_name(rename_to))
        return self

    def suspend(self) -> None:
        """Stop refreshes of the table until `resume`."""
        self._alter(Suspend())

    def resume(self) -> None:
        """Allow refreshes of the table again."""
        self._alter(Resume())

    def accept_definition(self) -> None:
        """Have the catalog accept the definition in the table's log. Read the definition first: its query runs as you."""
        self._alter(AcceptDefinition())

    def drop(self, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop the table and its files; `cascade` drops its readers as well."""
        rows(self._spark, DropStreamTable(self._name, if_exists, cascade))

    def _alter(self, action: Action) -> None:
        rows(self._spark, AlterStreamTable(self._name, action))


def _condition(text: str) -> Condition:
    """Refuse a text that ends the parentheses in which it stands, and goes on as another part of the statement."""
    said = AlterStreamTable(Name(("t",)), SetFrozen(Condition(text.strip())))
    try:
        same = parse(to_sql(said)) == said
    except StreamTableError:
        same = False
    if not same:
        raise InvalidStatement(f"{text!r} is no condition", hint="write what may stand in the parentheses of FROZEN WHERE (...)")
    return Condition(text.strip())


def _mode(text: str) -> RefreshMode:
    try:
        return RefreshMode(text.upper())
    except ValueError:
        known = [mode.value for mode in RefreshMode]
        raise InvalidStatement(f"there is no refresh mode {text!r}", hint=f"use one of {', '.join(known)}") from None


def _state(text: str) -> StateMode:
    try:
        return StateMode(text.upper())
    except ValueError:
        known = [state.value for state in StateMode]
        raise InvalidStatement(f"there is no STATE {text!r}", hint=f"use one of {', '.join(known)}") from None


def _query(name: str, query: object) -> Query:
    """Take SQL text and nothing else."""
    if not isinstance(query, str):
        raise InvalidStatement(
            f"the query of {name} is a {type(query).__name__} and not SQL text; a DataFrame is a plan of this process, "
            "which nobody can read again at the next refresh",
            hint='pass the SELECT as text, such as "SELECT a, count(*) FROM t GROUP BY a"; what the DataFrame reads '
            "through temporary views has to be in tables or permanent views (CREATE VIEW)",
        )
    return Query(query)
