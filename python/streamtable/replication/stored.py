"""Expressions in the log of a subscriber's table, which a write evaluates. Who may write that log alone must not run code by them.

Defaults of columns must be constants, as Spark takes them in CREATE TABLE. Constraints and generated columns are Delta's own, and
may call what they like, unless it runs code or reads files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from streamtable.delta.tables import TableState
from streamtable.errors import DefinitionNotAccepted
from streamtable.jvm.gateway import java_class
from streamtable.replication.calls import CATALYST, foreign, of_the_machine, parsed
from streamtable.sql.literals import quote_name

__all__ = ["check_stored", "default_of"]

_DEFAULT = "CURRENT_DEFAULT"
_CONSTRAINT = "delta.constraints."
_GENERATED, _INVARIANTS = "delta.generationExpression", "delta.invariants"
_VARIABLE = "${"
"""Spark puts settings and the environment in the place of variables before it reads a text."""

_WHO = "find out who wrote it (DESCRIBE HISTORY)"


def check_stored(spark: SparkSession, table: TableState, name: str) -> None:
    """Raise DefinitionNotAccepted if Delta would evaluate an expression that runs code or reads files."""
    for what, text, remedy in _evaluated(table, name):
        if _VARIABLE in text:
            raise DefinitionNotAccepted(f"{what} of {name} has a variable of Spark's: {text}", hint=f"{_WHO}; then {remedy}")
        with suppress(AnalysisException):  # what does not parse is told by Delta
            if reaching := of_the_machine(spark, parsed(spark, text)):
                message = f"{what} of {name} calls {reaching}, which runs code or reads files; nothing was evaluated"
                raise DefinitionNotAccepted(message, hint=f"{_WHO}; then {remedy}")


def default_of(spark: SparkSession, column: StructField, name: str) -> Column:
    """Return the default of a column of a table, NULL if it has none. Raises DefinitionNotAccepted if it is no constant."""
    text = column.metadata.get(_DEFAULT)
    if text is None:
        return F.lit(None).cast(column.dataType)
    if why := _no_constant(spark, str(text)):
        message = f"the default of {column.name} in the log of {name} is no constant: {why}; nothing was evaluated"
        remedy = f"ALTER TABLE {name} ALTER COLUMN {quote_name(column.name)} DROP DEFAULT"
        raise DefinitionNotAccepted(message, hint=f"{_WHO}; then {remedy}, or SET DEFAULT to a constant")
    return F.expr(str(text)).cast(column.dataType)


def _evaluated(table: TableState, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield what a write evaluates: what it is, its text, and how it is taken out of the log."""
    for key, text in table.properties.items():
        if key.casefold().startswith(_CONSTRAINT):
            constraint = key[len(_CONSTRAINT) :]
            yield f"the constraint {constraint}", text, f"ALTER TABLE {name} DROP CONSTRAINT {quote_name(constraint)}"
    for field in _fields(json.loads(table.schema_json)):
        metadata, remedy = field["metadata"], "drop the column, or RESTORE the table"
        if _GENERATED in metadata:
            yield f"the generated column {field['name']}", str(metadata[_GENERATED]), remedy
        if _INVARIANTS in metadata:
            yield f"the invariant on {field['name']}", _invariant(metadata[_INVARIANTS]), remedy


def _fields(part: object) -> Iterator[dict[str, Any]]:
    """Yield the fields at any depth of a schema."""
    if isinstance(part, list):
        for each in part:
            yield from _fields(each)
    elif isinstance(part, dict):
        if isinstance(part.get("metadata"), dict) and "name" in part:
            yield part
        yield from _fields([value for key, value in part.items() if key != "metadata"])


def _invariant(told: object) -> str:
    """Return the text in the JSON of an invariant, or the JSON if it is another one."""
    with suppress(ValueError):
        found = json.loads(str(told))
        inner = found.get("expression") if isinstance(found, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("expression"), str):
            return str(inner["expression"])
    return str(told)


def _no_constant(spark: SparkSession, text: str) -> str | None:
    """Tell why a text is no constant, without evaluating it; None if it is one."""
    patterns: Any = java_class(spark, f"{CATALYST}.trees.TreePattern")
    replaced: Any = java_class(spark, f"{CATALYST}.optimizer.ReplaceExpressions")
    catalogs: Any = spark._jsparkSession.sessionState().catalogManager()
    computed: Any = java_class(spark, f"{CATALYST}.optimizer.ReplaceCurrentLike")(catalogs)
    if _VARIABLE in text:
        return "it has a variable of Spark's, which may be a secret of who reads it"
    try:
        nodes = parsed(spark, text)
        if reaching := of_the_machine(spark, nodes):
            return f"it calls {reaching}, which runs code or reads files"
        if other := foreign(spark, nodes):
            return f"it calls {other}, which is no function of Spark's own"
        plan: Any = spark.createDataFrame([], StructType([])).select(F.expr(text).alias("value"))._jdf.queryExecution().analyzed()
    except AnalysisException as error:
        return error.getMessage() or "it is no expression"
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        return "it has a subquery"
    value: Any = computed.apply(replaced.apply(plan)).expressions().head().children()  # below the alias, which Spark never folds
    return None if value.nonEmpty() and value.head().foldable() else f"{text} is not the same for all rows"
