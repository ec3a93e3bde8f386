"""BACKFILL FROM: the first contents of a stream table are the rows of another Delta table, in place of those of the query.

Q is the query at the versions that the first refresh records, G the rows of the given table at its version. VERIFIED demands G = Q,
row by row as algebra/identity says, before the first commit; then the contract holds, and only the copy was saved. A delta takes
away a row of Q, and finds it by all its digits. TRUSTED takes G = Q as true. Where it is not true, contents - Q = G - Q stays:
later deltas are those of Q. A delta that takes away a row which G lacks is noticed as a row that is not in the table, and rebuilds
it. Until a full refresh, no rule takes trusted rows for the states of the query: those of aggregates come from the sources, even
if the table's own columns could hold them. Frozen rows are not compared: they stay as they are given. A table that exists already
keeps to its query, so that a statement can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamtable.delta.rows import read
from streamtable.delta.tables import state
from streamtable.engine.locate import RowFilter
from streamtable.engine.workspace import Workspace
from streamtable.errors import InvalidStatement
from streamtable.language.names import Name
from streamtable.language.stream_table.history import Backfill
from streamtable.query.checks import find_source
from streamtable.refresh.compare import compared
from streamtable.sql.builder import qualified

__all__ = ["Given", "given_by"]


@dataclass(frozen=True)
class Given:
    """The table at a version whose rows are the first contents. `columns` are its columns, in the order of the stream table's."""

    name: Name
    path: str
    version: int
    columns: tuple[str, ...]
    trusted: bool

    @property
    def reason(self) -> str:
        """Say in the history where the first contents come from."""
        return f"{self._where}, {'trusted' if self.trusted else 'equal to those of the query'}"

    @property
    def _where(self) -> str:
        return f"the rows of {'.'.join(self.name.parts)} at version {self.version}"

    def found(self, session: SparkSession) -> DataFrame:
        """Return the rows as they are there."""
        return read(session, self.path, self.version).select(*(qualified((each,)) for each in self.columns))

    def rows(self, workspace: Workspace, query: DataFrame, outside: RowFilter) -> DataFrame:
        """Return the rows, in the columns of the `query`. Raises InvalidStatement where they differ `outside` frozen ones."""
        rows = self.found(workspace.session).toDF(*query.columns)
        if not self.trusted:
            missing, surplus = compared(workspace, outside(query), outside(rows), exact=True)
            if missing or surplus:
                raise InvalidStatement(
                    f"{self._where} are not those of the query: "
                    f"{missing:,} rows of the query are not there, {surplus:,} rows there are not in the query",
                    hint=f"correct {self.name} or the query; BACKFILL FROM {self.name} TRUSTED takes the rows as they are",
                )
        return rows


def given_by(spark: SparkSession, backfill: Backfill, schema: StructType) -> Given:
    """Look the table up in the caller's session. Raises InvalidStatement for other columns than those of `schema`."""
    located = find_source(spark, backfill.table)
    name = ".".join(located.name)
    if located.kind != "delta":
        why = "there is no such table" if located.kind == "none" else "it is no Delta table"
        hint = "name a Delta table; CREATE TABLE ... USING delta AS SELECT makes one of a view or of other files"
        raise InvalidStatement(f"BACKFILL FROM {name}: {why}", hint=hint)
    found = state(spark, located.path)
    if wrong := list(_differences(found.schema, schema)):
        raise InvalidStatement(
            f"{name} does not have the columns of the query: {'; '.join(wrong)}",
            hint="cast and name the columns of the query as there, or those of the table as here",
        )
    names = {field.name.casefold(): field.name for field in found.schema}
    return Given(
        Name(located.name), located.path, found.version, tuple(names[each.casefold()] for each in schema.names), backfill.trusted
    )


def _differences(found: StructType, wanted: StructType) -> Iterator[str]:
    """Say which columns differ in name or type; their order, their comments and the case of their names may differ."""
    there, here = _types(found), _types(wanted)
    yield from (f"it has no column {name}" for name in _only(wanted.names, there))
    yield from (f"the query has no column {name}" for name in _only(found.names, here))
    for name in wanted.names:
        if (kind := there.get(name.casefold())) and kind != here[name.casefold()]:
            yield f"{name} is {kind} there and {here[name.casefold()]} in the query"


def _only(names: Sequence[str], known: dict[str, str]) -> list[str]:
    return [name for name in names if name.casefold() not in known]


def _types(schema: StructType) -> dict[str, str]:
    return {field.name.casefold(): field.dataType.simpleString() for field in schema}
