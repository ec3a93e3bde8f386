"""A Delta table as a relation: its change history is Delta's own, its time is its version."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamtable.algebra.columns import WEIGHT
from streamtable.catalog.entries import CATALOG
from streamtable.delta.column_ids import PHYSICAL, NamesInFiles
from streamtable.delta.rows import COMMIT_VERSION, change_set, read
from streamtable.delta.tables import Located
from streamtable.errors import SourceChanged
from streamtable.sessions.captured import captured_settings
from streamtable.sessions.internal import give_back, lend
from streamtable.sql.builder import qualified
from streamtable.subscribing.inputs import Input, Inputs
from streamtable.subscribing.relation import TIME, ids, plain, refuse_other_columns

__all__ = ["TableRelation"]

_COMMITS = 100
"""The number of commits that one Spark job reads together; its rows have to be sorted by their times."""


class TableRelation:
    """One Delta table. It is read in a session of ours, with the settings of the caller that decide which values a reader gets."""

    together = 1  # its steps are of many commits

    def __init__(self, session: SparkSession, located: Located) -> None:
        opened = Input.of(session, located.path, located.name)
        self._path = located.path
        self.schema = plain(StructType.fromJson(json.loads(opened.schema_json)))
        self._names = NamesInFiles(session, located.path, self.schema.names)
        self.inputs = Inputs(session, [opened], partial(_fits, _identities(opened.schema_json)))
        self._settings = captured_settings(session)
        self._session = lend(session, (CATALOG, "default"), self._settings)

    @property
    def identity(self) -> Hashable:
        return (self.inputs.opened, tuple(self._settings.items()))

    def snapshot(self, time: int) -> DataFrame:
        rows = read(self._session, self._path, time).select(*self._columns())
        refuse_other_columns(self.inputs.opened[0], self._names, time)
        return rows.toDF(*ids(self.schema)).withColumns({TIME: F.lit(time).cast("bigint"), WEIGHT.id: F.lit(1).cast("bigint")})

    def steps(self, after: int, latest: int) -> Iterator[int]:
        yield from range(after + _COMMITS, latest, _COMMITS)
        if latest > after:
            yield latest

    @contextmanager
    def changes(self, after: int, upto: int) -> Iterator[DataFrame]:
        rows = change_set(self._session, self._path, after, upto).frame
        refuse_other_columns(self.inputs.opened[0], self._names, after)  # the frame has its columns by now
        yield rows.select(COMMIT_VERSION, WEIGHT.id, *self._columns()).toDF(TIME, WEIGHT.id, *ids(self.schema))

    def close(self) -> None:
        give_back(self._session)

    def _columns(self) -> list[str]:
        return [qualified((each.name,)) for each in self.schema]


def _fits(known: dict[str, tuple[str, object]], table: Input, schema_json: str) -> None:
    now = _identities(schema_json)
    for name, identity in known.items():
        if now.get(name) != identity:
            raise SourceChanged(f"the column {name} of {table} changed: the subscription ends", hint="subscribe anew")


def _identities(schema_json: str) -> dict[str, tuple[str, object]]:
    """Return type and physical name of each column. A column that was dropped and added again has another physical name."""
    fields = json.loads(schema_json)["fields"]
    return {field["name"]: (json.dumps(field["type"]), field["metadata"].get(PHYSICAL)) for field in fields}
