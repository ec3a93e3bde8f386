"""The condition on the rows of a published table. It may use columns and Spark's own functions, and must be deterministic."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import InvalidStatement
from streamtable.jvm.gateway import java_class
from streamtable.query.rewrite import rewritten
from streamtable.query.spellings import instead
from streamtable.replication.calls import CATALYST, foreign, of_the_machine, parsed

__all__ = ["check_condition"]

_OF_A_SESSION = ("VariableReference", "SparkVersion")


def check_condition(spark: SparkSession, where: str, schema: StructType, name: str, hint: str) -> None:
    """Raise InvalidStatement for an invalid condition on the rows of a table, or one whose meaning may change."""
    # Not the rows of the table: to list its files may take a job, and those have hidden columns.
    rows, said = spark.createDataFrame([], schema), where
    where = rewritten(where)
    try:
        nodes = parsed(spark, where)
        if reaching := of_the_machine(spark, nodes):
            message = f"the condition on {name} calls {reaching}, which runs code or reads files"
            raise InvalidStatement(message, hint="write a condition on the columns of the row alone")
        if other := foreign(spark, nodes):
            message = f"the condition on {name} calls {other}, which is no function of Spark's own and may be replaced"
            raise InvalidStatement(message, hint="write its text in place of the call; or publish a stream table of the rows")
        plan: Any = rows.where(where)._jdf.queryExecution().analyzed()
    except AnalysisException as error:
        message = f"({said}) is no condition on {name}: {error.getMessage()}"
        raise InvalidStatement(message, hint=instead(said, error.getMessage()) or hint) from error
    patterns: Any = java_class(spark, f"{CATALYST}.trees.TreePattern")
    if plan.containsPattern(patterns.PLAN_EXPRESSION()):
        hint = "write a condition on the columns of the row alone; or publish a stream table of the rows"
        raise InvalidStatement(f"the condition on {name} has a subquery, whose answer may change", hint=hint)
    of_a_session = any(f'.{each}"' in plan.toJSON() for each in _OF_A_SESSION)
    if of_a_session or not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        hint = "leave out functions like rand(), current_date() and current_user(), and variables"
        raise InvalidStatement(f"the condition on {name} is not the same each time", hint=hint)
