"""Operations into the subscriber's table: a commit of Delta's has the rows and, as a transaction identifier, the position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamtable.delta.bridge import translated
from streamtable.delta.commit import Committed, Positions, commit, positions
from streamtable.delta.rows import read, read_located
from streamtable.delta.tables import Located, TableState, commits, state
from streamtable.differentiate.aggregate import POSITION
from streamtable.errors import ConcurrentRefresh, InvalidStatement
from streamtable.refresh.workspace import FEW, Workspace
from streamtable.replication.errors import ReplicationConflict
from streamtable.replication.operations import KEY, NOT_UNIQUE, NUMBER, OPERATION, ROW, VERSION, form
from streamtable.replication.source import Source
from streamtable.sql.builder import qualified

__all__ = ["Applied", "Writer"]

_FILE, _INDEX = POSITION
_COPIES = "__copies"
"""How many rows with the key of an operation there are; more than one where the subscriber's table does not keep them apart."""
_MISSING = {"U": "update_missing", "D": "delete_missing"}
_DIFFERS = {"U": "update_origin_differs", "D": "delete_origin_differs"}


@dataclass(frozen=True)
class Applied:
    """How many rows were inserted, updated and deleted; how many updates and deletes found none, or one that others wrote last."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    update_missing: int = 0
    delete_missing: int = 0
    update_origin_differs: int = 0
    delete_origin_differs: int = 0

    def __add__(self, other: Applied) -> Applied:
        mine, theirs = vars(self), vars(other)
        return Applied(**{name: mine[name] + theirs[name] for name in mine})


class Writer:
    """The subscriber's table as it is now; `application` names the subscription of this table in its commits."""

    def __init__(self, session: SparkSession, target: Located, source: Source, application: str) -> None:
        self._session, self._source, self._application = session, source, application
        self.name, self._path = ".".join(target.name), target.path
        self._state: TableState = state(session, target.path)
        self.schema: StructType = read(session, target.path, self._state.version).schema

    def merge(self, operations: DataFrame, upto: int, rows: int | None = None) -> Applied:
        """Apply operations on keys, about so many, in the order of versions. Raises ReplicationConflict where one does not fit."""
        with Workspace(self._session) as workspace:
            few = rows is not None and rows <= FEW
            keep = workspace.hold if few else workspace.keep
            # Computed before it is read twice: a value that cannot be converted is then one failure, which says so.
            computed = workspace.hold(operations, None if few else FEW + 1)
            resolved = keep(self._resolved(computed))
            outcome = F.col("__outcome")
            done = {name: F.count_if(outcome == name) for name in ("I", "U", "D", *_MISSING.values())}
            conflict = F.min(F.when(outcome.isin("insert_exists", NOT_UNIQUE), F.col(VERSION)))
            row = resolved.agg(conflict.alias("conflict"), *(count.alias(name) for name, count in done.items())).collect()[0]
            if row["conflict"] is not None:
                raise self._conflict(resolved, row["conflict"])
            counts = Applied(row["I"], row["U"], row["D"], row["update_missing"], row["delete_missing"]) + self._differing(resolved)
            effective = resolved.where(outcome.isin("I", "U", "D"))
            if row["U"] + row["D"]:
                self._write(keep(_last(effective)), upto)
            elif row["I"] and not self._replace(effective, None, upto):
                self._merge(_last(effective), upto)
            return counts

    def _write(self, last: DataFrame, upto: int) -> None:
        """Write the last operation on each key: by position where that says it all, which looks for no row again."""
        stays, met = F.col(f"__last.{OPERATION}") != "D", F.col(_COPIES).isNotNull()
        copies, going, coming = last.agg(F.max(_COPIES), F.count_if(met), F.count_if(stays)).collect()[0]
        if not going or (copies == 1 and self._replaces_whole_rows):
            gone = positions(self._session, last.where(met).select(*POSITION), self._path, self._state.version) if going else None
            came = last.where(stays).select(F.col(f"__last.{ROW}").alias(ROW)) if coming else None
            if self._replace(came, gone, upto):
                return
        self._merge(last, upto)

    def _replace(self, came: DataFrame | None, gone: Positions | None, upto: int) -> bool:
        """Write rows, and delete those at positions; False when somebody else wrote since they were looked for."""
        try:
            self._commit(upto, came.select(*self._whole(self._fields())) if came is not None else None, gone)
        except ConcurrentRefresh:
            return False
        return True

    @cached_property
    def _replaces_whole_rows(self) -> bool:
        """Tell whether a row that is updated may be deleted and added: all of it is sent, and nobody asks which row it was."""
        on = {each for each, value in self._state.properties.items() if value == "true"}
        identity = any("delta.identity.start" in metadata for metadata in self._stored.values())
        plain = "delta.enableDeletionVectors" in on and not on & {"delta.enableRowTracking", "delta.enableChangeDataFeed"}
        return plain and not identity and not self._defaulted()

    def append(self, rows: DataFrame, upto: int) -> Applied:
        """Add rows that came."""
        added = rows.select(*self._whole(self._fields()))
        # Not by an append of Delta's, which does not see what another process has committed since.
        return Applied(inserts=self._commit(upto, added).rows_added) if not rows.isEmpty() else Applied()

    def replace(self, rows: DataFrame, upto: int) -> Applied:
        """Apply rows that came and went, each of them known by all that is in it: of equal rows, one."""
        fields = self._fields()
        forms = [form(F.col(ROW)[name], self.schema[name].dataType).alias(f"__form{n}") for n, name in enumerate(fields)]
        net = rows.groupBy(*forms).agg(F.first(ROW).alias(ROW), F.sum(NUMBER).alias(NUMBER)).where(F.col(NUMBER) != 0).persist()
        try:
            going, coming = net.where(F.col(NUMBER) < 0), net.where(F.col(NUMBER) > 0)
            wanted = int(going.agg(F.sum(-F.col(NUMBER))).collect()[0][0] or 0)
            if not wanted:
                return self.append(coming.select(ROW, F.explode(F.array_repeat(F.lit(1), F.col(NUMBER).cast("int")))), upto)
            if self._state.properties.get("delta.enableDeletionVectors") != "true":
                hint = f"ALTER TABLE {self.name} SET TBLPROPERTIES (delta.enableDeletionVectors = true)"
                raise InvalidStatement(f"rows of {self.name} can only be deleted one by one with deletion vectors", hint=hint)
            found = positions(self._session, self._located(going, fields), self._path, self._state.version)
            added = coming.select(*self._whole(fields), F.explode(F.array_repeat(F.lit(1), F.col(NUMBER).cast("int"))).alias("__n"))
            done = self._commit(upto, added.drop("__n"), found)
            return Applied(inserts=done.rows_added, deletes=found.count, delete_missing=wanted - found.count)
        finally:
            net.unpersist()

    def truncate(self, upto: int) -> Applied:
        """Remove all rows."""
        done = self._commit(upto, replace_all=True)
        return Applied(deletes=done.rows_removed)

    def _commit(
        self, upto: int, add: DataFrame | None = None, remove: Positions | None = None, replace_all: bool = False
    ) -> Committed:
        """Write rows and position on top of the version that was read. Raises ConcurrentRefresh for a commit in between."""
        return commit(
            self._session,
            self._path,
            read_version=self._state.version,
            application=self._application,
            number=upto,
            alone=True,
            add=add,
            remove=remove,
            replace_all=replace_all,
        )

    def _resolved(self, operations: DataFrame) -> DataFrame:
        """Add what becomes of each operation: itself, a conflict, or a row that it misses."""
        key = self._source.key
        assert key is not None, "operations on keys come from a table that has one"
        mine = {name.casefold(): name for name in self.schema.names}
        present = F.struct(*(F.col(qualified((mine[name.casefold()],))).alias(name) for name in key)).alias("__present")
        written = F.col("_metadata.row_commit_version") if self._tracks_rows else F.lit(None).cast("bigint")
        rows = self._rows().select(present, written.alias("__written"), *POSITION)
        touched = operations.select(F.col(KEY).alias("__touched"))
        rows = rows.join(touched, F.col("__present").eqNullSafe(F.col("__touched")), "left_semi")
        there = (F.first(each).alias(each) for each in POSITION)
        existing = rows.groupBy("__present").agg(F.max("__written").alias("__written"), F.count("*").alias(_COPIES), *there)
        joined = operations.join(existing, F.col(KEY).eqNullSafe(F.col("__present")), "left")
        in_turn = Window.partitionBy(KEY).orderBy(VERSION)
        before = in_turn.rowsBetween(Window.unboundedPreceding, -1)
        moved = F.last(F.when(F.col(OPERATION).isin("I", "D"), F.col(OPERATION) == "I"), ignorenulls=True).over(before)
        again = F.count("*").over(Window.partitionBy(KEY, VERSION)) > 1
        exists, operation = F.coalesce(moved, F.col("__present").isNotNull()), F.col(OPERATION)
        outcome = (
            F.when((operation == NOT_UNIQUE) | again, NOT_UNIQUE)
            .when((operation == "I") & exists, "insert_exists")
            .when((operation == "I") | exists, operation)
        )
        for kind, missing in _MISSING.items():
            outcome = outcome.when(operation == kind, missing)
        found = F.when(F.row_number().over(in_turn) == 1, F.col("__written"))
        return joined.withColumns({"__outcome": outcome, "__found": found})

    def _rows(self) -> DataFrame:
        """Read the table; each row with its position where it is used. Delta has none of a table without deletion vectors."""
        if self._replaces_whole_rows:
            return read_located(self._session, self._path, self._state.version)
        unknown = {_FILE: F.lit(None).cast("string"), _INDEX: F.lit(None).cast("bigint")}
        return read(self._session, self._path, self._state.version).withColumns(unknown)

    @property
    def _tracks_rows(self) -> bool:
        return self._state.properties.get("delta.enableRowTracking") == "true"

    def _differing(self, resolved: DataFrame) -> Applied:
        """Count the rows that were met as others wrote them, where the table tells which commit that was, and the log has it."""
        if not self._tracks_rows:
            return Applied()
        met = resolved.where(F.col("__outcome").isin(*_DIFFERS) & F.col("__found").isNotNull())
        counts = [tuple(row) for row in met.groupBy("__outcome", "__found").count().collect()]
        foreign = {version for version in {at for _, at, _ in counts} if self._is_foreign(version)}
        sums = {name: sum(n for op, at, n in counts if op == kind and at in foreign) for kind, name in _DIFFERS.items()}
        return Applied(**sums)

    def _is_foreign(self, version: int) -> bool:
        found = commits(self._session, self._path, version - 1, version, complete=False)
        return any(self._application not in each.transactions for each in found)

    def _merge(self, last: DataFrame, upto: int) -> None:
        """Have Delta write what `last` says of each key; a row that was deleted and inserted again has its own defaults."""
        changes = last.alias("changes")
        key = self._source.key or ()
        same = (_of("target", name).eqNullSafe(F.col(f"changes.{KEY}")[name]) for name in key)
        condition = F.expr("true")
        for each in same:
            condition = condition & each
        values: dict[str, str | Column] = {qualified((n,)): F.col(f"changes.__last.{ROW}")[n] for n in self._source.columns}
        defaults = {qualified((name,)): self._default(name) for name in self._defaulted()}
        gone = F.col(f"changes.__last.{OPERATION}") == "D"
        merge = DeltaTable.forPath(self._session, self._path).alias("target").merge(changes, condition)
        merge = merge.whenMatchedDelete(gone)
        merge = merge.whenMatchedUpdate(F.col("changes.__inserted"), {**values, **defaults}).whenMatchedUpdate(set=values)
        with translated(self._path), self._numbered(upto):
            # What is deleted may not be there: whether it is can have changed since it was looked at, by another that applies.
            merge.whenNotMatchedInsert(~gone, values).execute()

    @contextmanager
    def _numbered(self, upto: int) -> Iterator[None]:
        """Have Delta put the position into the commit, and skip a commit whose position it has."""
        settings = {"txnAppId": self._application, "txnVersion": str(upto)}
        for key, value in settings.items():
            self._session.conf.set(f"spark.databricks.delta.write.{key}", value)
        try:
            yield
        finally:
            for key in settings:
                self._session.conf.unset(f"spark.databricks.delta.write.{key}")

    def _conflict(self, resolved: DataFrame, version: int) -> ReplicationConflict:
        of_it = resolved.where((F.col(VERSION) == version) & F.col("__outcome").isin("insert_exists", NOT_UNIQUE))
        outcome, key = of_it.select("__outcome", F.to_json(KEY, {"ignoreNullFields": "false"})).first() or ("", "")
        where = f"version {version} of {self._source.name}"
        if outcome == NOT_UNIQUE:
            message = f"{where} has several rows with the replica identity {key}, which must be unique"
            return ReplicationConflict(message, version, hint="declare a key that is, or FULL")
        message = f"insert_exists: {self.name} has a row with {key} already, which {where} inserts"
        hint = f"delete that row, or ALTER SUBSCRIPTION ... SKIP (lsn = {version})"
        return ReplicationConflict(message, version, insert_exists=True, hint=hint)

    def _located(self, going: DataFrame, fields: list[str]) -> DataFrame:
        """Find the rows that go: of more equal rows than have to go, the first."""
        rows = read_located(self._session, self._path, self._state.version)
        forms = [form(F.col(qualified((name,))), self.schema[name].dataType).alias(f"__mine{n}") for n, name in enumerate(fields)]
        mine = rows.select(_FILE, _INDEX, *forms)
        condition = F.expr("true")
        for n in range(len(fields)):
            condition = condition & F.col(f"__mine{n}").eqNullSafe(F.col(f"__form{n}"))
        equal = Window.partitionBy(*(f"__form{n}" for n in range(len(fields)))).orderBy(_FILE, _INDEX)
        ranked = mine.join(going, condition).withColumn("__nth", F.row_number().over(equal))
        return ranked.where(F.col("__nth") <= -F.col(NUMBER)).select(_FILE, _INDEX)

    def _fields(self) -> list[str]:
        """Return the subscriber's names of the columns that are sent."""
        mine = {name.casefold(): name for name in self.schema.names}
        return [mine[name.casefold()] for name in self._source.columns]

    def _whole(self, fields: list[str]) -> list[Column]:
        """Return the subscriber's columns: those that are not sent have their default, or are left to Delta to compute."""
        defaults = {name: self._default(name) for name in self._defaulted()}
        values = {name: F.col(ROW)[name] for name in fields}
        return [(defaults | values)[name].alias(name) for name in self.schema.names if name in defaults or name in values]

    def _defaulted(self) -> list[str]:
        """Return the columns that are not sent, but for those that Delta computes."""
        computed = ("delta.generationExpression", "delta.identity.start")
        sent = self._fields()
        return [name for name in self.schema.names if name not in sent and not self._stored[name].keys() & computed]

    @cached_property
    def _stored(self) -> dict[str, dict[str, object]]:
        """What the log says of each column."""
        return {each["name"]: each["metadata"] for each in json.loads(self._state.schema_json)["fields"]}

    def _default(self, name: str) -> Column:
        return F.expr(self.schema[name].metadata.get("CURRENT_DEFAULT", "NULL")).cast(self.schema[name].dataType)


def _last(effective: DataFrame) -> DataFrame:
    """Return the last operation on each key, whether the key was inserted, and where its row is."""
    last = F.max_by(F.struct(OPERATION, ROW), VERSION).alias("__last")
    inserted = F.max(F.col(OPERATION) == "I").alias("__inserted")
    there = (F.first(name, ignorenulls=True).alias(name) for name in (*POSITION, _COPIES))
    return effective.groupBy(KEY).agg(last, inserted, *there)


def _of(relation: str, name: str) -> Column:
    return F.col(f"{relation}.{qualified((name,))}")
