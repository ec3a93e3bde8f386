"""Frozen rows of a stream table: they stay as they are, whatever the sources do. The table is exact outside them.

F is the condition over the table's own columns, Q the query, T the table. A row is frozen if F is TRUE, and not if it is FALSE or
NULL: U = F is not TRUE. After a refresh

    T' = (T where F) + (Q' where U)

So the query that is maintained is Q where U, and the filter is part of its plan. F looks at the columns alone, is deterministic and
reads neither the clock nor the session, as by current_schema(): whether a row is frozen follows from the row, and never changes.
The rest follows from T where U = Q where U:

- A delta is one of Q where U: a row with F neither comes nor goes.
- What reads the table as the result of the query reads it where U (`AnalysedQuery.outside`): the before side of windows, left joins
  and LIMIT, the search for rows that go, the difference that a full refresh commits, VERIFY.
- The columns of the table never hold the states of an aggregate, because the root is a filter, as with HAVING: the row of a frozen
  group is older than its state. States are stored apart, for all groups.
- A full refresh replaces T where U. So does another query, which must have the same columns, and another condition G:
  T' = (T where G) + (Q' where not G). What G freezes stays as the last refresh left it, frozen before or not.
- Where nothing is in the table yet, T' = Q', or the rows of BACKFILL FROM, with the frozen ones. The condition is computed for them
  too, so that it has an answer for each row of T. A refresh that brings a row without one, as by a division by zero, fails.

Refuses the clock. Counterexample: F = (day < current_date()). Today's rows leave Q where U at midnight, and the delta would take
them out of the table in place of freezing them. Refuses expectations in the same table: their counts are of all rows of the query,
and the frozen rows are not among these.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtable.algebra.operators import Filter, Operator, Unsupported
from streamtable.errors import InvalidStatement
from streamtable.jvm.gateway import java_class
from streamtable.language.names import Condition
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.query.expectations import CONSTANT, TREE_PATTERN, answers, check_condition, named_as, refused, spelled
from streamtable.sql.builder import qualified

__all__ = ["FROZEN", "Frozen", "freeze", "refuse_moving"]

FROZEN = "FROZEN"
"""What the condition belongs to, for errors."""


@dataclass(frozen=True)
class Frozen:
    """The condition, and all rows of the query, those too for which it is TRUE, in the columns of the table."""

    condition: Condition
    whole: DataFrame
    current: bool = False
    """The condition asks for something current: the time, the user, the schema."""

    def told(self, rows: DataFrame) -> DataFrame:
        """Return the rows as they are. To compute them fails where the condition has no answer for one of them."""
        return rows.observe("frozen", F.max(F.expr(spelled(self.condition))))

    def outside(self, rows: DataFrame) -> DataFrame:
        """Return those of the rows of the table, or of the query, that are not frozen."""
        frozen = spelled(self.condition)
        # Spelled so that Spark's optimiser turns a comparison into bounds, by which Delta skips files.
        return rows.filter(f"NOT {frozen} OR {frozen} IS NULL")


def freeze(frame: DataFrame, statement: CreateStreamTable) -> Frozen | None:
    """Return the frozen rows of a table whose query is `frame`, or None. Raises InvalidStatement, InvalidQuery."""
    if statement.frozen is None:
        return None
    if statement.expectations:
        raise InvalidStatement(
            "a table with expectations cannot have frozen rows: "
            "expectations count rows of the query, and frozen rows are not among them",
            hint="leave out FROZEN or the CONSTRAINTs; a table that reads this one can have them",
        )
    rows = _as_stored(named_as(statement, frame))
    check_condition(rows, statement.frozen, FROZEN)
    _refuse_others(rows, statement.frozen)
    return Frozen(statement.frozen, rows, _asks_for_current(rows, statement.frozen))


def _asks_for_current(rows: DataFrame, condition: Condition) -> bool:
    session = rows.sparkSession
    plan = answers(session, rows, condition)._jdf.queryExecution().analyzed()
    return bool(plan.containsPattern(java_class(session, TREE_PATTERN).CURRENT_LIKE()))


def _as_stored(rows: DataFrame) -> DataFrame:
    """Return the rows of the query with columns as the table has them: only their comments are kept beside names and types.

    Spark pads what is compared with a CHAR column of a source. The table's column is a STRING, with the padded values.
    """
    comments = ((field.name, field.metadata.get("comment", "")) for field in rows.schema)
    return rows.select(*(F.col(qualified((name,))).alias(name, metadata={"comment": comment}) for name, comment in comments))


def _refuse_others(rows: DataFrame, condition: Condition) -> None:
    """Refuse a condition that reads more than the named columns: where rows are read from the table, others stand beside them."""
    read = rows.selectExpr("*", "1 AS `__other`").selectExpr(spelled(condition))._jdf.queryExecution().analyzed().references()
    if not read.subsetOf(rows._jdf.queryExecution().analyzed().outputSet()):
        hint = "name each column in place of *, and take what a source has beside its columns into the query"
        raise refused(condition, FROZEN, "reads more than columns that it names, as by *, _metadata or a function of yours", hint)


def refuse_moving(tree: Operator, frozen: Frozen) -> None:
    """Refuse a condition that may say another thing of the same row; `tree` is the query outside frozen rows, as it was read."""
    while isinstance(tree, Unsupported) and tree.inputs:
        (tree, *_) = tree.inputs
    if not isinstance(tree, Filter):  # Spark puts the text of a function that is made by SQL into the plan, below and above
        raise refused(frozen.condition, FROZEN, "cannot be told of a row alone, as where it calls a function of yours", CONSTANT)
    conjuncts = tree.conjuncts
    if any(each.clock for each in conjuncts):
        hint = "compare with a constant, and move it on by ALTER STREAM TABLE ... SET FROZEN WHERE (...)"
        raise refused(frozen.condition, FROZEN, "reads the clock: rows would be frozen because time passes", hint)
    if not all(each.deterministic for each in conjuncts):
        raise refused(frozen.condition, FROZEN, f"is not deterministic: {frozen.condition.text}", CONSTANT)
    if frozen.current:
        raise refused(frozen.condition, FROZEN, "reads the session, as by current_schema(), and not the row alone", CONSTANT)
