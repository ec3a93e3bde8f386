"""Delta of window functions whose frame is all rows up to the current one.

    D(window(A)) = after(A') - after(A)
    after(B)     = window(B where order >= cut) combined with calls(A' where order < cut)

where cut = the first place in the order, by its first expression, at which D(A) has a row of the partition.
Rows before the cut stay as they are: no row of D(A) is in their frames. The frame of a row from the cut on has two parts. One part
is all rows before the cut, the same in A and A'; `calls` gives its totals. `window` sees the other part. Counts and sums of both
parts add up; of two extremes the more extreme one counts. All rows of one place are on the same side of the cut.
Applies to small changes, where the order starts with a type that compares as it sorts, and every function is row_number, rank,
count, min, max, or a sum that neither part can overflow. Elsewhere `window` computes the whole partition.

Example, where orders changes:

    SELECT order_id, customer, row_number() OVER (PARTITION BY customer ORDER BY order_id) AS n FROM orders

becomes

    -- shared_0
    SELECT customer AS __key0, MIN(order_id) AS __cut, COUNT_IF(order_id IS NULL) AS __open
    FROM orders_delta
    GROUP BY customer;
    -- shared_1
    SELECT kept.order_id, kept.customer
    FROM orders_new AS kept
    LEFT SEMI JOIN (SELECT __key0 AS customer FROM shared_0) AS affected ON kept.customer <=> affected.customer;
    -- delta
    SELECT order_id, customer, CAST(COALESCE(__carried0, 0) + __here0 AS INT) AS n, 1 AS weight
    FROM (
      SELECT order_id, customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY order_id) AS __here0
      FROM (
        SELECT order_id, customer
        FROM shared_1
        LEFT SEMI JOIN shared_0 ON customer <=> __key0 AND (order_id >= __cut OR __open > 0)
      )
    )
    LEFT OUTER JOIN (
      SELECT customer AS __key0, COUNT(1) AS __carried0
      FROM (
        SELECT order_id, customer
        FROM shared_1
    ... (all of it: tests/unit/fixtures/rules/running.sql)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from streamtable.algebra.columns import Call, Item, Order, Scalar, itself
from streamtable.algebra.identity import told_apart
from streamtable.algebra.operators import Aggregate, JoinType, LeftJoin, Operator, Project, Window
from streamtable.differentiate.deltas import Deltas, difference, without
from streamtable.differentiate.restrict import restrict
from streamtable.sql.builder import any_of, call, cast, column, equal, number

__all__ = ["applies", "delta", "same_partition"]

_SORTED = re.compile(r"TINYINT|SMALLINT|INT|BIGINT|DECIMAL\(.*\)|DATE|TIMESTAMP|TIMESTAMP_NTZ|STRING|BOOLEAN")
"""Types whose values compare as they sort, and whose equal values are the same."""

_SUMMED = re.compile(r"TINYINT|SMALLINT|INT|DECIMAL\((1?\d|2[0-7]),.*\)")
"""Types whose sums have ten digits to spare."""

_CUT, _OPEN = "__cut", "__open"


def applies(operator: Window) -> bool:
    """Tell whether the rule applies to all functions of the operator."""
    if len(operator.running) < len(operator.items) or not operator.order or not _sorts(operator.order[0].value):
        return False
    return all(map(_adds_up, operator.running)) and told_apart(operator.child.columns)


def _sorts(value: Scalar) -> bool:
    return _SORTED.fullmatch(value.type) is not None


def _adds_up(of: Call) -> bool:
    match of.function:
        case "Count":
            return not of.distinct
        case "Sum":
            return not of.distinct and "try_" not in of.value.text and _SUMMED.fullmatch(of.arguments[0].type) is not None
        case "Min" | "Max":
            return _sorts(of.value)
        case _:
            return False


def delta(operator: Window, changed: Operator, deltas: Deltas) -> Operator:
    """Return the delta, given that of the child."""
    keys = tuple(Item(f"__key{n}", key.text, key) for n, key in enumerate(operator.partition))
    cuts = deltas.shared(Aggregate(changed, keys, _place(operator.order[0])))
    whole = deltas.new(operator.child)
    if keys:
        affected = Project(cuts, tuple(itself(c) for c in cuts.columns[: len(keys)]))
        whole = deltas.shared(restrict(whole, operator.partition, affected))
    own = same_partition(operator.partition, keys)
    here = (*own, _follows(operator.order[0]))
    following: Operator = LeftJoin(whole, cuts, JoinType.LEFT_SEMI, here)
    before: Operator = Aggregate(LeftJoin(whole, cuts, JoinType.LEFT_ANTI, here), keys, _carried(operator))
    if not keys:  # nothing keeps `whole`
        following, before = deltas.shared(following), deltas.shared(before)
    return difference(*(_after(operator, rows, before, own) for rows in (following, without(following, changed))))


def _place(order: Order) -> tuple[Call, ...]:
    """Return the calls that find the cut: the first value, and the number of NULLs, which compare with no value."""
    value, function = order.value.sql, "min" if order.ascending else "max"
    absent = call("count_if", exp.Is(this=value.copy(), expression=exp.null()))
    return (
        Call(_CUT, _scalar(call(function, value.copy()), order.value.type, order.value), function),
        Call(_OPEN, _scalar(absent, "BIGINT", order.value), "CountIf"),
    )


def _follows(order: Order) -> Scalar:
    """Tell whether a row's place is at the cut or behind it."""
    beyond = exp.GTE if order.ascending else exp.LTE
    reached = beyond(this=order.value.sql.copy(), expression=column(_CUT))
    if order.nulls_first:
        always: exp.Expr = exp.GT(this=column(_OPEN), expression=number(0))
    else:
        always = exp.Is(this=order.value.sql.copy(), expression=exp.null())
    return _scalar(any_of([reached, always]), "BOOLEAN", order.value, _CUT, _OPEN)


def same_partition(partition: Sequence[Scalar], keys: Sequence[Item]) -> tuple[Scalar, ...]:
    """Compare the partition of a row with the partition of a cut or of a carried value; NULL is a partition."""
    return tuple(
        Scalar(
            equal(of_row.sql.copy(), column(key.id)),
            "BOOLEAN",
            False,
            f"{of_row.text} <=> {key.id}",
            of_row.inputs | {key.id},
            sides=(of_row, itself(key.output).value),
        )
        for of_row, key in zip(partition, keys, strict=True)
    )


def _carried(operator: Window) -> tuple[Call, ...]:
    """Return the calls over the rows before the cut, in the order of the items."""
    by_id = {each.id: each for each in operator.running}
    return tuple(Call(f"__carried{n}", by_id[item.id].value, by_id[item.id].function) for n, item in enumerate(operator.items))


def _after(operator: Window, rows: Operator, before: Operator, own: tuple[Scalar, ...]) -> Operator:
    """Return the rows from the cut on with the values of the functions. `own` compares their partition with the one in `before`."""
    renamed = tuple(Item(f"__here{n}", item.name, item.value) for n, item in enumerate(operator.items))
    computed = replace(operator, child=rows, items=renamed, running=())
    joined = LeftJoin(computed, before, JoinType.LEFT_OUTER, own)
    functions = {each.id: each.function for each in operator.running}
    values = tuple(
        Item(item.id, item.name, _combined(functions[item.id], item.value, f"__carried{n}", f"__here{n}"))
        for n, item in enumerate(operator.items)
    )
    return Project(joined, (*(itself(c) for c in operator.child.columns), *values))


def _combined(function: str, of: Scalar, carried: str, here: str) -> Scalar:
    before, value = column(carried), column(here)
    match function:
        case "Count":
            both: exp.Expr = exp.Add(this=call("coalesce", before, number(0)), expression=value)
        case "Sum":
            both = call("coalesce", exp.Add(this=before, expression=value), value.copy(), before.copy())
        case _:
            both = call("least" if function == "Min" else "greatest", before, value)
    return Scalar(cast(both, of.type), of.type, of.nullable, of.text, frozenset({carried, here}))


def _scalar(sql: exp.Expr, spark_type: str, of: Scalar, *more: str) -> Scalar:
    return Scalar(sql, spark_type, True, of.text, of.inputs | set(more))
