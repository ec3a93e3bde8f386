"""Relations, which can be subscribed to: they have contents at a time, and changes from one time to a later one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from streamtable.delta.column_ids import NamesInFiles
from streamtable.errors import SourceChanged
from streamtable.subscribing.inputs import Input, Inputs

__all__ = ["TIME", "Relation", "ids", "plain", "refuse_other_columns"]

TIME = "__streamtable_time"


class Relation(Protocol):
    """A table or a query.

    Its frames have the columns TIME and WEIGHT, then those of `schema` under the names that `ids` gives.
    """

    schema: StructType
    inputs: Inputs
    together: int
    """How many steps a batch of a stream holds at most."""

    @property
    def identity(self) -> Hashable:
        """Return an identity; relations with the same identity always give the same rows."""
        ...

    def snapshot(self, time: int) -> DataFrame:
        """Return the contents at a time, each row once per copy."""
        ...

    def steps(self, after: int, latest: int) -> Iterator[int]:
        """Yield the times at which to go on from `after`, in order; the last is `latest`."""
        ...

    def changes(self, after: int, upto: int) -> AbstractContextManager[DataFrame]:
        """Lend the changes of (after, upto]; the frames below them are kept meanwhile."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


def refuse_other_columns(table: Input, names: NamesInFiles, since: int) -> None:
    """Raise SourceChanged if the name of a column that is read stood for another one at a version or later."""
    if column := names.other(since):
        message = f"the column {column} of {table} is another one than at version {since}: what came under its name cannot be read"
        raise SourceChanged(message, hint="subscribe anew; or UNREGISTER CONSUMER, and REGISTER it anew")


def ids(schema: StructType) -> list[str]:
    """Name the columns by their positions: the names of a query may occur twice, or be any text."""
    return [f"c{n}" for n in range(len(schema))]


def plain(schema: StructType) -> StructType:
    """Return names, types and nullability alone."""
    return StructType([StructField(each.name, each.dataType, each.nullable) for each in schema])
