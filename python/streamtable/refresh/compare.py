"""Two bags of rows compared: how many rows of each the other lacks. Equal rows count each."""

from __future__ import annotations

from pyspark.sql import DataFrame
from sqlglot import exp

from streamtable.algebra.identity import identity
from streamtable.engine.workspace import Workspace
from streamtable.sql.builder import alias, call, case, cast, column, number, select, subquery, table, union_all

__all__ = ["compared"]


def compared(workspace: Workspace, expected: DataFrame, present: DataFrame, *, exact: bool) -> tuple[int, int]:
    """Count the rows that are in `expected` alone, and those that are in `present` alone; both have the same columns.

    `exact`: rows are equal if they are the same, as for a refresh. Else floats are compared at 12 significant digits: further
    digits depend on the order of additions, which Spark leaves open.
    """
    workspace.name("verify_expected", expected)
    workspace.name("verify_present", present)
    forms = [
        _form(name, field.dataType.simpleString().upper(), exact)
        for name, field in zip(expected.columns, expected.schema.fields, strict=True)
    ]
    items = [alias(form, f"v{n}") for n, form in enumerate(forms)]
    signed = [
        select([*(item.copy() for item in items), alias(number(sign), "sign")], table(view))
        for view, sign in (("verify_expected", 1), ("verify_present", -1))
    ]
    keys = [column(f"v{n}") for n in range(len(items))]
    net = select([alias(call("sum", column("sign")), "net")], subquery(union_all(signed), "rows")).group_by(*keys, copy=False)
    positive = case(exp.GT(this=column("net"), expression=number(0)), column("net"), number(0))
    negative = case(exp.LT(this=column("net"), expression=number(0)), exp.Neg(this=column("net")), number(0))
    query = select([alias(call("sum", positive), "missing"), alias(call("sum", negative), "surplus")], subquery(net, "net"))
    row = workspace.query(query).collect()[0]
    return row["missing"] or 0, row["surplus"] or 0


def _form(name: str, spark_type: str, exact: bool) -> exp.Expr:
    value: exp.Expr = column(name)
    if not exact and spark_type in ("DOUBLE", "FLOAT"):
        return call("format_string", exp.Literal.string("%.11e" if spark_type == "DOUBLE" else "%.5e"), cast(value, "DOUBLE"))
    return identity(value, spark_type) or call("to_json", call("struct", value.copy()))
