"""The condition on the rows of a published table. It may use columns and Spark's own functions, and must be deterministic."""

from __future__ import annotations

import json
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import InvalidStatement
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.query.rewrite import rewritten
from streamtable.query.spellings import instead

__all__ = ["check_condition"]

_CATALYST = "org.apache.spark.sql.catalyst"
_BUILTIN = ("builtin", "system.builtin")
_OF_A_SESSION = ("VariableReference", "SparkVersion")


def check_condition(spark: SparkSession, where: str, schema: StructType, name: str, hint: str) -> None:
    """Raise InvalidStatement for an invalid condition on the rows of a table, or one whose meaning may change."""
    # Not the rows of the table: to list its files may take a job, and those have hidden columns.
    rows, state, said = spark.createDataFrame([], schema), spark._jsparkSession.sessionState(), where
    where = rewritten(where)
    try:
        called = _functions(json.loads(state.sqlParser().parseExpression(where).toJSON()))
        guard: Any = java_class(spark, f"{SHIM}.Guard")  # what clients of a server may not use either
        if reaching := [function for function, count in called if guard.reaches(function.rpartition(".")[2], count)]:
            message = f"the condition on {name} calls {reaching[0]}, which runs code or reads files"
            raise InvalidStatement(message, hint="write a condition on the columns of the row alone")
        if foreign := [function for function, _ in called if not _is_sparks(spark, function)]:
            message = f"the condition on {name} calls {foreign[0]}, which is no function of Spark's own and may be replaced"
            raise InvalidStatement(message, hint="write its text in place of the call; or publish a stream table of the rows")
        plan: Any = rows.where(where)._jdf.queryExecution().analyzed()
    except AnalysisException as error:
        message = f"({said}) is no condition on {name}: {error.getMessage()}"
        raise InvalidStatement(message, hint=instead(said, error.getMessage()) or hint) from error
    patterns: Any = java_class(spark, f"{_CATALYST}.trees.TreePattern")
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        hint = "write a condition on the columns of the row alone; or publish a stream table of the rows"
        raise InvalidStatement(f"the condition on {name} has a subquery, whose answer may change", hint=hint)
    of_a_session = any(f'.{each}"' in plan.toJSON() for each in _OF_A_SESSION)
    if of_a_session or not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        hint = "leave out functions like rand(), current_date() and current_user(), and variables"
        raise InvalidStatement(f"the condition on {name} is not the same each time", hint=hint)


def _functions(nodes: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return the functions that a condition calls, with the numbers of their arguments."""
    calls = (each for each in nodes if each["class"].endswith(".UnresolvedFunction"))
    named = [(each["nameParts"][1:-1].replace(", ", "."), int(each["num-children"])) for each in calls]
    return named + [("IDENTIFIER", 0) for each in nodes if each["class"].endswith("UnresolvedIdentifier")]


def _is_sparks(spark: SparkSession, function: str) -> bool:
    """Tell whether a function is one of Spark's own, which the session that applies calls too."""
    space, _, name = function.rpartition(".")
    identifier: Any = java_class(spark, f"{_CATALYST}.FunctionIdentifier")(name)
    builtin: Any = java_class(spark, f"{_CATALYST}.analysis.FunctionRegistry").builtin()
    return (not space or space.casefold() in _BUILTIN) and bool(builtin.functionExists(identifier))
