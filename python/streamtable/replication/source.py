"""A table of the publisher, as a subscription reads it: the parts that its publications send, and the identity of its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from streamtable.delta.tables import state
from streamtable.errors import InvalidStatement
from streamtable.query.rewrite import rewritten
from streamtable.replication.conditions import check_condition
from streamtable.replication.publications import Published
from streamtable.sql.literals import unquote_name

__all__ = ["FULL", "GENERATED", "IDENTITY", "SourceTable", "source_of"]

IDENTITY = "streamtable.replicaIdentity"
"""The table property with the columns that identify a changed row at the subscriber."""

FULL = "FULL"
"""The identity of a table whose rows are identified by all their columns."""

GENERATED = "delta.generationExpression"
"""The keys in the metadata of a generated column."""

_NOTHING = "NOTHING"

_ANEW = "DROP the table from the publication, and ADD it with the columns and the condition that it is to be sent with"


@dataclass(frozen=True)
class SourceTable:
    """`columns` are sent. `key` is the declared key, or None. `full`: the whole row is the key."""

    name: str
    path: str
    table_id: str
    version: int
    columns: tuple[str, ...]
    key: tuple[str, ...] | None
    full: bool
    publications: tuple[Published, ...]

    def publishes(self, kind: str) -> bool:
        """Tell whether a publication sends changes of a kind."""
        return any(kind in each.publish for each in self.publications)

    def conditions(self, kind: str | None = None) -> frozenset[str]:
        """Return conditions, one of which must be true to send a change of a kind, or, without a kind, an initial row."""
        said = [each.where for each in self.publications if kind is None or kind in each.publish]
        return frozenset({"true"} if None in said else filter(None, said))

    def passes(self, kind: str | None = None) -> Column:
        """Return the condition that a row is sent with changes of a kind. NULL counts as false."""
        said = [F.coalesce(F.expr(rewritten(each)), F.lit(False)) for each in sorted(self.conditions(kind))]
        return reduce(Column.__or__, said, F.lit(False))


def source_of(spark: SparkSession, publications: Sequence[Published]) -> SourceTable:
    """Combine several publications of one table, in its current state. Raises InvalidStatement if they do not fit together."""
    first, name = publications[0], ".".join(publications[0].name)
    found = state(spark, first.path)
    names = found.schema.names
    computed = {field.name for field in found.schema if GENERATED in field.metadata}
    lists = [each.columns or tuple(n for n in names if each.generated or n not in computed) for each in publications]
    if len(set(map(frozenset, lists))) > 1:
        which = " and ".join(each.publication for each in publications)
        hint = "let them send the same, also of the generated columns (publish_generated_columns); or make two subscriptions"
        raise InvalidStatement(f"{which} send different columns of {name}", hint=hint)
    columns = lists[0]
    if gone := [column for column in columns if column not in names]:
        which = " and ".join(each.publication for each in publications)
        raise InvalidStatement(f"{which} send the column {gone[0]} of {name}, which it does not have any more", hint=_ANEW)
    for condition in {each.where for each in publications if each.where}:
        check_condition(spark, condition, found.schema, name, hint=_ANEW)
    declared = found.properties.get(IDENTITY, _NOTHING)
    key = None if declared in (FULL, _NOTHING) else _key(declared, names, name)
    source = SourceTable(name, first.path, found.table_id, found.version, columns, key, declared == FULL, tuple(publications))
    if source.publishes("update") or source.publishes("delete"):
        _check(source, names)
    elif key and not set(key) <= set(columns):
        return replace(source, key=None)  # inserts alone need none
    return source


def _key(declared: str, columns: Sequence[str], name: str) -> tuple[str, ...]:
    known = {column.casefold(): column for column in columns}
    wanted = [unquote_name(part.strip()) for part in re.findall(r"\s*`(?:[^`]|``)*`\s*|[^,]+", declared)]
    if unknown := [column for column in wanted if column.casefold() not in known]:
        hint = f"ALTER TABLE {name} SET TBLPROPERTIES ({IDENTITY} = 'column, ...'), or FULL, or NOTHING"
        raise InvalidStatement(f"the replica identity of {name} is the column {unknown[0]}, which it does not have", hint=hint)
    return tuple(known[column.casefold()] for column in wanted)


def _check(source: SourceTable, columns: Sequence[str]) -> None:
    """Refuse a list of columns without the identity: the subscriber could not tell which row changed."""
    identity: Iterable[str] = columns if source.full else source.key or ()
    if left_out := [column for column in identity if column not in source.columns]:
        hint = "add it to the list of columns, set publish_generated_columns = stored if it is generated, or publish inserts only"
        raise InvalidStatement(
            f"the column {left_out[0]} of {source.name} is part of its replica identity, but is not sent", hint=hint
        )
