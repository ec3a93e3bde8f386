"""VERIFY: compares the table with its query, as Spark analysed it, at the recorded versions.

VERIFY shares no code with the delta rules: the plan is Spark's own, with pinned files.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from streamtable.algebra.identity import identity
from streamtable.catalog.entries import Entry, table_columns
from streamtable.delta.rows import read
from streamtable.engine.pinned import pinned_query
from streamtable.engine.workspace import Workspace
from streamtable.errors import InvalidStatement
from streamtable.query.analyse import analyse, release
from streamtable.refresh.frontier import Frontier
from streamtable.sessions.internal import lend
from streamtable.sql.builder import alias, call, case, cast, column, number, qualified, select, subquery, table, union_all

__all__ = ["Comparison", "verify"]


@dataclass(frozen=True)
class Comparison:
    """`missing` rows are in the query but not in the table, `surplus` rows only in the table. Equal rows count each."""

    name: str
    ok: bool
    missing: int
    surplus: int


def verify(spark: SparkSession, entry: Entry) -> Comparison:
    """Compare the table with its query at the frontier. Raises InvalidStatement for a table that was never populated."""
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    if frontier is None:
        raise InvalidStatement(f"{definition.name} was created WITH NO DATA", hint="refresh it first")
    session = lend(spark, definition.namespace, definition.settings)
    analysed = analyse(session, entry.query)
    try:
        with Workspace(session) as workspace:
            names = table_columns(entry)
            workspace.name("verify_expected", pinned_query(analysed, frontier.sources).toDF(*names))
            workspace.name(
                "verify_present", read(session, entry.path, entry.state.version).select(*(qualified((name,)) for name in names))
            )
            missing, surplus = _difference(workspace, analysed.frame, names)
    finally:
        release(analysed)
    return Comparison(definition.name, missing == 0 and surplus == 0, missing, surplus)


def _difference(workspace: Workspace, typed: DataFrame, names: list[str]) -> tuple[int, int]:
    forms = [_form(name, field.dataType.simpleString().upper()) for name, field in zip(names, typed.schema.fields, strict=True)]
    items = [alias(form, f"v{n}") for n, form in enumerate(forms)]
    signed = [
        select([*(item.copy() for item in items), alias(number(sign), "sign")], table(view))
        for view, sign in (("verify_expected", 1), ("verify_present", -1))
    ]
    keys = [column(f"v{n}") for n in range(len(names))]
    net = select([alias(call("sum", column("sign")), "net")], subquery(union_all(signed), "rows")).group_by(*keys, copy=False)
    positive = case(exp.GT(this=column("net"), expression=number(0)), column("net"), number(0))
    negative = case(exp.LT(this=column("net"), expression=number(0)), exp.Neg(this=column("net")), number(0))
    query = select([alias(call("sum", positive), "missing"), alias(call("sum", negative), "surplus")], subquery(net, "net"))
    row = workspace.query(query).collect()[0]
    return row["missing"] or 0, row["surplus"] or 0


def _form(name: str, spark_type: str) -> exp.Expr:
    """Compare floats at 12 significant digits. Further digits depend on the order of additions, which Spark leaves open."""
    value: exp.Expr = column(name)
    if spark_type in ("DOUBLE", "FLOAT"):
        return call("format_string", exp.Literal.string("%.11e" if spark_type == "DOUBLE" else "%.5e"), cast(value, "DOUBLE"))
    return identity(value, spark_type) or call("to_json", call("struct", value.copy()))
