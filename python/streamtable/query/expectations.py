"""Expectations: what each row of a query is to meet, read by Spark over the columns of the table.

A row meets an expectation for which the condition is TRUE. Each expectation judges each row of the query, whatever the others say.
Those that drop rows are a filter over the whole query: it is pushed below nothing, because the rows that it drops are counted.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamtable.algebra.columns import Column, Scalar, itself
from streamtable.algebra.operators import Filter, Operator, Project, Unsupported
from streamtable.errors import InvalidQuery, InvalidStatement, message_of
from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.language.names import Condition
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.expectations import Expectation, Violation
from streamtable.query.fingerprint import fingerprint_of
from streamtable.query.rewrite import rewritten
from streamtable.query.spellings import instead
from streamtable.sql.builder import column

__all__ = [
    "CONSTANT",
    "TREE_PATTERN",
    "Judged",
    "answers",
    "check_condition",
    "column_names",
    "form_of",
    "judge",
    "meaning",
    "named_as",
    "refuse_volatile",
    "refused",
    "spelled",
]

CONSTANT = "compare columns and constants alone"
"""What to do about a condition that may give another answer for the same row."""

TREE_PATTERN = "org.apache.spark.sql.catalyst.trees.TreePattern"
"""Spark's kinds of expressions, of which a plan knows which ones it has anywhere."""


@dataclass(frozen=True)
class Judged:
    """The rows of a query before any is dropped: the columns of the table, then one for each expectation, TRUE where it is met."""

    frame: DataFrame
    tree: Operator
    expectations: tuple[Expectation, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the table."""
        return self.tree.columns[: -len(self.expectations)]

    @property
    def flags(self) -> tuple[tuple[Expectation, Column], ...]:
        """Return each expectation with the column that says whether a row meets it."""
        return tuple(zip(self.expectations, self.tree.columns[-len(self.expectations) :], strict=True))

    @property
    def dropping(self) -> tuple[tuple[Expectation, Column], ...]:
        """Return those that drop rows."""
        return tuple((each, flag) for each, flag in self.flags if each.violation is Violation.DROP_ROW)

    @property
    def kept(self) -> Operator:
        """Return the rows that stay, in the columns of the table."""
        conjuncts = tuple(
            Scalar(column(flag.id), flag.type, flag.nullable, each.condition.text, frozenset({flag.id}))
            for each, flag in self.dropping
        )
        return Project(Filter(self.tree, conjuncts) if conjuncts else self.tree, tuple(map(itself, self.columns)))


def form_of(expectations: Sequence[Expectation]) -> str:
    """Return what the plan of the judged rows does not tell: what is made of them, and under which name they are counted."""
    return json.dumps([[each.name, each.violation.value] for each in expectations]) if expectations else ""


def column_names(statement: CreateStreamTable, columns: Sequence[str]) -> list[str]:
    """Return the names that the table gives to the columns of its query. Raises InvalidStatement for a list of another length."""
    if not statement.columns:
        return list(columns)
    if len(statement.columns) != len(columns):
        raise InvalidStatement(f"the column list names {len(statement.columns)} columns, the query gives {len(columns)}")
    return [each.name for each in statement.columns]


def named_as(statement: CreateStreamTable, frame: DataFrame) -> DataFrame:
    """Return the rows of a query under the names of the table's columns. Raises InvalidQuery."""
    try:
        return frame.toDF(*column_names(statement, frame.columns))
    except InvalidStatement as error:
        raise InvalidQuery(error.reason) from error


def judge(frame: DataFrame, statement: CreateStreamTable) -> tuple[DataFrame, DataFrame]:
    """Return the rows of a query with a column for each expectation, and the rows that stay. Raises InvalidQuery."""
    kept = named = named_as(statement, frame)
    for each in statement.expectations:
        check_condition(named, each.condition, _of(each))
        kept = kept.filter(spelled(each.condition)) if each.violation is Violation.DROP_ROW else kept
    flags = (f"{spelled(each.condition)} AS `__expectation_{n}`" for n, each in enumerate(statement.expectations))
    return named.selectExpr("*", *flags), kept


def refuse_volatile(tree: Operator, expectations: Sequence[Expectation]) -> None:
    """Refuse a condition that may give another answer for the same row; `tree` is the one of the judged rows, as it was read."""
    while isinstance(tree, Unsupported) and tree.inputs:
        (tree,) = tree.inputs
    ids = [each.id for each in tree.columns]
    columns, flags = frozenset(ids[: -len(expectations)]), ids[-len(expectations) :]
    for each, flag in zip(expectations, flags, strict=True):
        for value in _computed(tree, frozenset({flag}), columns):
            if value is None:
                raise refused(
                    each.condition, _of(each), "cannot be told of a row alone, as where it calls a function of yours", CONSTANT
                )
            if not value.deterministic:
                raise refused(each.condition, _of(each), f"is not deterministic: {value.text}", CONSTANT)


def _computed(tree: Operator, wanted: frozenset[str], columns: frozenset[str]) -> Iterator[Scalar | None]:
    """Yield all that is computed of the `columns` for those that are `wanted`; None for what no projection computes.

    Spark computes the arguments of a function that is made by SQL in projections of their own, below the one that calls it.
    """
    while wanted:
        items = {item.id: item.value for item in tree.items} if isinstance(tree, Project) else {}
        if not isinstance(tree, Project) or not wanted <= items.keys():
            yield None
            return
        values = [items[each] for each in sorted(wanted)]
        yield from values
        wanted = frozenset[str]().union(*(value.inputs for value in values)) - columns
        tree = tree.child


def check_condition(named: DataFrame, condition: Condition, of: str) -> None:
    """Let Spark read the condition as that of a WHERE, which takes no aggregate, window or generator; nor do we a subquery.

    `of` says what has the condition. Raises InvalidQuery.
    """
    try:
        named.selectExpr(spelled(condition))  # a filter would also find columns that the query does not give
        named.filter(spelled(condition))
        plan = answers(named.sparkSession, named, condition)._jdf.queryExecution().analyzed()
    except PySparkException as error:
        hint = instead(condition.text, message_of(error))
        raise refused(condition, of, f"is rejected by Spark: {_said(error)}", hint) from error
    if plan.containsPattern(java_class(named.sparkSession, TREE_PATTERN).PLAN_EXPRESSION()):
        raise refused(condition, of, "has a subquery", "join in the query, and compare the column that comes of it")


def answers(session: SparkSession, columns: DataFrame, condition: Condition) -> DataFrame:
    """Return the answers of a condition for no rows of such columns: nothing of a query is in the plan."""
    nothing = java_class(session, "java.util.ArrayList")()
    rows = session._jsparkSession.createDataFrame(nothing, columns._jdf.schema())
    return frame_of(session, rows).selectExpr(spelled(condition))


def meaning(session: SparkSession, columns: DataFrame, condition: Condition) -> str | None:
    """Identify the meaning that a condition on such columns has in the session's schema; None where it has none."""
    reading = uuid.uuid4().hex
    try:
        plan = java_class(session, f"{SHIM}.PlanReader").read(answers(session, columns, condition)._jdf, reading)
    except PySparkException:
        return None
    java_class(session, f"{SHIM}.ExpressionRegistry").release(reading)
    return fingerprint_of(plan)


def _of(expectation: Expectation) -> str:
    return f"the expectation {expectation.name}"


def spelled(condition: Condition) -> str:
    """Return the condition in parentheses, in Spark's forms, as a query is rewritten."""
    return f"({rewritten(condition.text)}\n\n)"  # it may end with a comment, and that with a backslash


def _said(error: PySparkException) -> str:
    """Return what Spark says, without the places that it counts from the start of the condition."""
    return re.split(r"\s*(?:SQLSTATE: \w+|;\s*line \d|\(line \d|\n\n?== )", message_of(error))[0].strip()


def refused(at: Condition, of: str, why: str, hint: str | None = None) -> InvalidQuery:
    """Return the error of a condition that cannot be used; `of` says what has it."""
    return InvalidQuery(f"line {at.line}, column {at.column}: the condition of {of} {why}", hint=hint)
