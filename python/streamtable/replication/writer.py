"""Writing operations into the subscriber's table. One Delta commit has the rows and, as a transaction identifier, the position."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtable.algebra.columns import POSITION
from streamtable.delta.commit import Committed, RowChange, Transaction, commit, positions
from streamtable.delta.merge import merge_once
from streamtable.delta.rows import read, read_located
from streamtable.delta.summaries import commits
from streamtable.delta.tables import Located, TableState, state
from streamtable.engine import limits
from streamtable.engine.load import Load
from streamtable.engine.tuning import planned_for
from streamtable.engine.workspace import ColumnExtents, Workspace
from streamtable.errors import ConcurrentRefresh, InvalidStatement, ReplicationConflict
from streamtable.replication import equal_rows, outcomes
from streamtable.replication.operations import NOT_UNIQUE, NUMBER, ROW, VERSION, keys_of
from streamtable.replication.source import GENERATED, SourceTable
from streamtable.replication.stored import check_stored, default_of
from streamtable.sql.builder import qualified

__all__ = ["Applied", "Writer"]

_FILE, _INDEX = POSITION


_COMPUTED = {GENERATED, "delta.identity.start"}
"""The keys in the metadata of a generated or identity column."""
_DIFFERS = {"U": "update_origin_differs", "D": "delete_origin_differs"}


@dataclass(frozen=True)
class Applied:
    """The numbers of inserted, updated and deleted rows, and of operations that met no row, or a row last written by others."""

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
    """The current subscriber's table. `application` names the subscription of this table in its commits."""

    def __init__(self, session: SparkSession, target: Located, source: SourceTable, application: str) -> None:
        self._session, self._source, self._application = session, source, application
        self.name, self._path = ".".join(target.name), target.path
        self._state: TableState = state(session, target.path)
        self.schema = self._state.schema
        check_stored(session, self._state, self.name)
        sent = {name.casefold() for name in source.columns}
        if computed := [name for name, each in self._stored.items() if name.casefold() in sent and each.keys() & _COMPUTED]:
            message = f"the column {computed[0]} of {self.name} is computed by Delta, and cannot take what {source.name} sends"
            raise InvalidStatement(message, hint="publish a list of columns without it, or make it an ordinary column here")

    def copy(self, rows: DataFrame, upto: int) -> Applied:
        """Add the initial rows. Raises ConcurrentRefresh for any other write, because the rows of an older copy would stay.

        The position is written even without rows, so that an older copy does not come after this.
        """
        return self.merge(rows, upto, copies=True) if self._source.key else self._add(rows, upto)

    def merge(self, operations: DataFrame, upto: int, load: Load | None = None, *, copies: bool = False) -> Applied:
        """Apply operations on keys, by version; `load` is their number. Raises ReplicationConflict for one that does not fit."""
        outcome, last, met = F.col(outcomes.OUTCOME), F.col(outcomes.LAST), F.col(outcomes.COPIES) > 0
        stays = outcome.isin("I", "U")
        with Workspace(self._session) as workspace:
            with planned_for(self._session, load):
                resolved = self._resolved(workspace, operations, load)
                found = resolved.agg(
                    F.min(F.when(outcomes.clashes(), F.col(VERSION))).alias("clash"),
                    F.count_if(last & met).alias("going"),
                    F.count_if(last & stays).alias("coming"),
                    F.max(F.when(last, F.col(outcomes.COPIES))).alias("copies"),
                    *(F.count_if(outcome == name).alias(name) for name in outcomes.COUNTED),
                ).collect()[0]
                if found["clash"] is not None:
                    raise self._conflict(resolved, found["clash"])
                counts = Applied(*(found[name] for name in outcomes.COUNTED)) + self._differing(resolved)
                # Also where they undo each other: the position is written, so that another that saw less does not write after this.
                if not copies and not counts.inserts + counts.updates + counts.deletes:
                    return counts
                gone = resolved.where(last & met) if found["going"] else None
                came = resolved.where(last & stays) if found["coming"] else None
                by_position = gone is None or (found["copies"] == 1 and self._replaces_whole_rows)
                # By position, if that is enough: no row is looked up again.
                if by_position and self._replace(came, gone, upto, or_fail=copies):
                    return counts
            # MERGE joins the whole table, whose load is unknown, so Spark plans it as usual.
            # A key whose row was missed is left out: somebody may have written one since. One that was inserted here and went again
            # is not: another process that applies, and saw less, may have inserted it.
            touched = met | stays | F.col(outcomes.INSERTED)
            self._merge(resolved.where(last & touched).withColumn("__stays", stays), upto)
            return counts

    def _replace(self, came: DataFrame | None, gone: DataFrame | None, upto: int, *, or_fail: bool) -> bool:
        """Write rows, and delete the existing ones. If another process wrote since they were located, fail or return False."""
        rows = came.select(*self._whole(self._fields())) if came is not None else None
        at = positions(self._session, gone.select(*POSITION), self._path, self._state.version) if gone is not None else None
        try:
            self._commit(upto, RowChange(rows, at))
        except ConcurrentRefresh:
            if or_fail:
                raise
            return False
        return True

    @cached_property
    def _replaces_whole_rows(self) -> bool:
        """Tell whether an update may delete and add a row: all columns are sent, and no reader follows rows."""
        on = {each for each, value in self._state.properties.items() if value == "true"}
        identity = any("delta.identity.start" in metadata for metadata in self._stored.values())
        plain = "delta.enableDeletionVectors" in on and not on & {"delta.enableRowTracking", "delta.enableChangeDataFeed"}
        return plain and not identity and not self._defaulted()

    def append(self, rows: DataFrame, upto: int) -> Applied:
        """Add rows that came. A row that went fails."""
        went = F.raise_error(F.lit(f"a row of {self._source.name} went, and only rows that came can be added"))
        came = rows.withColumn(ROW, F.when(F.col(NUMBER) < 0, went).otherwise(F.col(ROW)))
        return self._add(came, upto) if not rows.isEmpty() else Applied()

    def _add(self, rows: DataFrame, upto: int) -> Applied:
        # Not by Delta's append, which ignores commits of other processes since.
        return Applied(inserts=self._commit(upto, RowChange(rows.select(*self._whole(self._fields())))).rows_added)

    def replace(self, rows: DataFrame, upto: int) -> Applied:
        """Apply rows that came and went, identified by their whole content. Of several equal rows one is taken.

        The position is written even if they undo each other, so that another process that saw less does not write after this.
        """
        types = {name: self.schema[name].dataType for name in self._fields()}
        with Workspace(self._session) as workspace:
            net = workspace.persist(equal_rows.netted(rows, types))
            changed, needed = net.agg(F.count("*"), F.sum(equal_rows.NEEDED)).collect()[0]
            if not changed:
                return Applied()
            if not needed:
                return self._add(_repeated(net), upto)
            if self._state.properties.get("delta.enableDeletionVectors") != "true":
                hint = f"ALTER TABLE {self.name} SET TBLPROPERTIES (delta.enableDeletionVectors = true)"
                raise InvalidStatement(f"rows of {self.name} can only be deleted one by one with deletion vectors", hint=hint)
            met = workspace.persist(equal_rows.found(read_located(self._session, self._path, self._state.version), net, types))
            coming = equal_rows.settled(net, met, types)
            missing = coming.agg(F.sum(equal_rows.MISSING)).collect()[0][0]
            found = positions(self._session, equal_rows.going(met), self._path, self._state.version)
            done = self._commit(upto, RowChange(_repeated(coming).select(*self._whole([*types])), found))
            return Applied(inserts=done.rows_added, deletes=found.count, delete_missing=missing)

    def truncate(self, upto: int) -> Applied:
        """Remove all rows."""
        done = self._commit(upto, RowChange(replace_all=True))
        return Applied(deletes=done.rows_removed)

    def _commit(self, upto: int, rows: RowChange) -> Committed:
        """Write rows and position on top of the version that was read. Raises ConcurrentRefresh for a commit in between."""
        by = Transaction(self._application, upto, alone=True)
        return commit(self._session, self._path, self._state.version, by, rows)

    def _resolved(self, workspace: Workspace, operations: DataFrame, load: Load | None) -> DataFrame:
        """Find the rows with the operations' keys, and the outcome of each operation."""
        few = load is not None and load.changed <= limits.DRIVER_OPERATIONS
        # Computed before it is read twice, so that a value that cannot be converted is one failure.
        computed = workspace.materialise(operations, None if few else limits.DRIVER_ROWS + 1)
        near = self._near(workspace.extents(workspace.name("operations", computed)))
        resolved = outcomes.resolved(computed, near, keys_of(self._source), workspace.count(computed) <= limits.SMALL_CHANGE)
        return (workspace.materialise if few else workspace.persist)(resolved)

    def _near(self, extents: ColumnExtents) -> DataFrame:
        """Read the rows with keys within the extents."""
        mine, keys = {name.casefold(): name for name in self.schema.names}, keys_of(self._source)
        named = {each: mine[name.casefold()] for each, name in zip(keys, self._source.key or (), strict=True)}
        rows = self._rows()
        for each, (least, most) in extents.items():
            if each in named:  # as literals they are told to Parquet's reader, which a join tells nothing
                key, kind = F.col(qualified((named[each],))), self.schema[named[each]].dataType
                rows = rows.where(key.between(F.lit(least).cast(kind), F.lit(most).cast(kind)) | key.isNull())
        written = F.col("_metadata.row_commit_version") if self._tracks_rows else F.lit(None).cast("bigint")
        key_columns = (F.col(qualified((name,))).alias(each) for each, name in named.items())
        return rows.select(*key_columns, written.alias(outcomes.WRITTEN), *POSITION)

    def _rows(self) -> DataFrame:
        """Read the table, with the positions of rows if needed. Tables without deletion vectors have none."""
        if self._replaces_whole_rows:
            return read_located(self._session, self._path, self._state.version)
        unknown = {_FILE: F.lit(None).cast("string"), _INDEX: F.lit(None).cast("bigint")}
        return read(self._session, self._path, self._state.version).withColumns(unknown)

    @property
    def _tracks_rows(self) -> bool:
        return self._state.properties.get("delta.enableRowTracking") == "true"

    def _differing(self, resolved: DataFrame) -> Applied:
        """Count the rows that others wrote last, if the table tells the commits of rows, and the log has them."""
        if not self._tracks_rows:
            return Applied()
        met = resolved.where(F.col(outcomes.FIRST) & F.col(outcomes.OUTCOME).isin(*_DIFFERS) & F.col(outcomes.WRITTEN).isNotNull())
        counts = [tuple(row) for row in met.groupBy(outcomes.OUTCOME, outcomes.WRITTEN).count().collect()]
        foreign = {version for version in {at for _, at, _ in counts} if self._is_foreign(version)}
        sums = {name: sum(n for op, at, n in counts if op == kind and at in foreign) for kind, name in _DIFFERS.items()}
        return Applied(**sums)

    def _is_foreign(self, version: int) -> bool:
        found = commits(self._session, self._path, version - 1, version, complete=False)
        return any(self._application not in each.transactions for each in found)

    def _merge(self, last: DataFrame, upto: int) -> None:
        """Have MERGE write the `last` operation of each key. A row that was deleted and inserted again gets new defaults."""
        keys = keys_of(self._source)
        changes = last.select(*keys, ROW, outcomes.INSERTED, "__stays")
        named = zip(keys, self._source.key or (), strict=True)
        same = (_of("target", name).eqNullSafe(F.col(f"changes.{each}")) for each, name in named)
        condition = reduce(Column.__and__, same)
        values: dict[str, str | Column] = {qualified((n,)): self._given_back(n) for n in self._source.columns}
        defaults = {qualified((name,)): self._default(name) for name in self._defaulted()}
        gone = ~F.col("changes.__stays")
        # A row to delete may be missing: another process that applies may have deleted it since the look-up.
        merge_once(
            self._session,
            self._path,
            changes,
            condition,
            delete=gone,
            updates=[(F.col(f"changes.{outcomes.INSERTED}"), {**values, **defaults}), (None, values)],
            insert=(~gone, values),
            application=self._application,
            number=upto,
        )

    def _given_back(self, name: str) -> Column:
        """Return a sent value. A value of a partition column fails if Delta would not give it back unchanged."""
        value = F.col(f"changes.{ROW}")[name]
        partitioned = name.casefold() in (each.casefold() for each in self._state.partition_columns)
        return F.call_function("st_partition", value, F.lit(name)) if partitioned else value

    def _conflict(self, resolved: DataFrame, version: int) -> ReplicationConflict:
        named = zip(keys_of(self._source), self._source.key or (), strict=True)
        shown = F.to_json(F.struct(*(F.col(each).alias(name) for each, name in named)), {"ignoreNullFields": "false"})
        of_it = resolved.where((F.col(VERSION) == version) & outcomes.clashes())
        outcome, key = of_it.select(outcomes.OUTCOME, shown).first() or ("", "")
        where = f"version {version} of {self._source.name}"
        if outcome == NOT_UNIQUE:
            message = f"{where} has several rows with the replica identity {key}, which must be unique"
            return ReplicationConflict(message, version, hint="declare a key that is, or FULL")
        message = f"insert_exists: {self.name} has a row with {key} already, which {where} inserts"
        hint = f"delete that row, or ALTER SUBSCRIPTION ... SKIP (lsn = {version})"
        return ReplicationConflict(message, version, insert_exists=True, hint=hint)

    def _fields(self) -> list[str]:
        """Return the subscriber's names of the columns that are sent."""
        mine = {name.casefold(): name for name in self.schema.names}
        return [mine[name.casefold()] for name in self._source.columns]

    def _whole(self, fields: list[str]) -> list[Column]:
        """Return the subscriber's columns. Columns that are not sent get their default, or Delta computes them."""
        defaults = {name: self._default(name) for name in self._defaulted()}
        values = {name: F.col(ROW)[name] for name in fields}
        return [(defaults | values)[name].alias(name) for name in self.schema.names if name in defaults or name in values]

    def _defaulted(self) -> list[str]:
        """Return the columns that are not sent, without those that Delta computes."""
        sent = self._fields()
        return [name for name in self.schema.names if name not in sent and not self._stored[name].keys() & _COMPUTED]

    @cached_property
    def _stored(self) -> dict[str, dict[str, object]]:
        """The metadata of each column, from the log."""
        return {each["name"]: each["metadata"] for each in json.loads(self._state.schema_json)["fields"]}

    def _default(self, name: str) -> Column:
        return default_of(self._session, self.schema[name], self.name)


def _of(relation: str, name: str) -> Column:
    return F.col(f"{relation}.{qualified((name,))}")


def _repeated(rows: DataFrame) -> DataFrame:
    """Return each row as often as its NUMBER says."""
    return rows.where(F.col(NUMBER) > 0).select(ROW, F.explode(F.array_repeat(F.lit(1), F.col(NUMBER).cast("int")))).drop("col")
