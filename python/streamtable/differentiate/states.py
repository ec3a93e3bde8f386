"""The partial states of aggregates: the columns that an arrangement stores per group, and what a change says of them.

`merging` says how a change moves them.

COUNT    count(*), count(x), with FILTER: the sum of the weights of the rows that count.
SUM      sum and avg of exact types (integers, decimals, intervals): the weighted sum. The COUNT of the same argument tells
         when the last value is gone: then the sum is NULL, not 0.
TOTAL    sum(x) of the same types without that COUNT (`visible.uncounted`): NULL stands for no value. If values went and a sum of
         0 is left, it may stand for none: the group is computed again. Any other sum has values.
EXTREME  min and max: an insertion merges; after a deletion at or beyond the extreme the group is computed again.
WINNER   max_by(x, y) and min_by(x, y): the x of a row whose y is the extreme, which is a state beside it. An insertion beyond the
         extreme brings its x, and where the extreme is computed again, so is its x. Rows with the same y have the same x,
         because x is part of y (`Ties.scala`), or x cannot be compared; then the stored row stays. Rows with y NULL do not count.
VALUE    all others (floating sums, DISTINCT, collecting and ordered aggregates, percentiles, ...): computed again for
         affected groups.
Floating sums are VALUE because addition of floats is not associative: 1e20 + 1 - 1e20.
Without ANSI, sums may overflow. Sums of integers wrap around, and wrap(wrap(a) + d) = wrap(a + d), so they are SUM. Sums of
decimals become NULL, and no change leads back from NULL, so they are VALUE. Sums of DECIMAL(28, s) and smaller types are SUM:
they have ten more digits, which only 10^10 rows could fill. Under ANSI an overflow is an error, and no state holds one.
A view keeps the mode of the session that made it: its sums are VALUE where the query has the other mode.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp

from streamtable.algebra.columns import WEIGHT, Call, Column, Scalar
from streamtable.algebra.identity import kept
from streamtable.algebra.operators import Aggregate
from streamtable.sql.builder import all_of, call, case, cast, column, number

__all__ = ["Kind", "State", "change_of", "extreme", "needs_of", "states_of", "value_of", "winner"]

_WINNERS = {"MaxBy": "Max", "MinBy": "Min"}
"""Functions that give the x of a row whose y is the extreme, with the function that gives this extreme."""

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


class Kind(Enum):
    COUNT = "count"
    SUM = "sum"
    TOTAL = "total"
    EXTREME = "extreme"
    WINNER = "winner"
    VALUE = "value"


@dataclass(frozen=True)
class State:
    """One column of an arrangement. `call` is the call whose argument or value it holds, None for the group's count.

    `order` is the extreme that a WINNER belongs to.
    """

    column: Column
    kind: Kind
    call: Call | None
    order: State | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Identify the state, so that sum(x) and avg(x) share it."""
        if self.call is None:
            return (self.kind,)
        if self.kind is Kind.VALUE:
            return (self.kind, self.call.value.text, self.call.value.sql)
        condition = self.call.filter.meaning if self.call.filter else None
        function = self.call.function if self.kind in (Kind.EXTREME, Kind.WINNER) else None
        return (self.kind, function, tuple(argument.meaning for argument in self.call.arguments), condition, self.column.type)


def states_of(aggregate: Aggregate) -> tuple[State, ...]:
    """Return the states of `aggregate`, the count of the group's rows first."""
    found: dict[tuple[object, ...], State] = {}
    for state in (_state(Kind.COUNT, "BIGINT", None), *(need for c in aggregate.calls for need in needs_of(c))):
        if state.key not in found:
            name = f"s{len(found)}"
            order = found[state.order.key] if state.order else None
            found[state.key] = replace(state, column=replace(state.column, id=name, name=name), order=order)
    return tuple(found.values())


def needs_of(of: Call) -> tuple[State, ...]:
    """Return the states from which the value of a call is computed. They have no names yet."""
    kind = _kind(of)
    if kind in (Kind.EXTREME, Kind.VALUE):
        return (_state(kind, of.value.type, of),)
    if kind is Kind.WINNER:
        order = _order(of)
        return (order, replace(_state(kind, of.value.type, of), order=order))
    if of.uncounted:
        return (_state(Kind.TOTAL, _sum_type(of), of),)
    count = _state(Kind.COUNT, "BIGINT", None if _condition(of) is None else of)
    return (count,) if kind is Kind.COUNT else (count, _state(Kind.SUM, _sum_type(of), of))


def _order(of: Call) -> State:
    """Return the extreme of the y of max_by(x, y) or min_by(x, y)."""
    _, by = of.arguments
    function = _WINNERS[of.function]
    value = by.sql.copy() if of.filter is None else case(of.filter.sql.copy(), by.sql.copy())
    inputs = by.inputs | (of.filter.inputs if of.filter else frozenset())
    scalar = Scalar(call(function.lower(), value), by.type, True, f"{function.lower()}({by.text})", inputs)
    return _state(Kind.EXTREME, by.type, Call(of.id, scalar, function, (by,), filter=of.filter))


def _state(kind: Kind, spark_type: str, about: Call | None) -> State:
    return State(Column("", "", spark_type), kind, about)


def _kind(of: Call) -> Kind:
    if of.function in _WINNERS:
        return Kind.WINNER if not of.distinct and kept(of.arguments[1].type) else Kind.VALUE
    if of.other_mode or of.distinct or of.function not in ("Count", "Sum", "Average", "Min", "Max") or "try_" in of.value.text:
        return Kind.VALUE
    if of.function == "Count":
        return Kind.COUNT
    if of.function in ("Min", "Max"):
        return Kind.EXTREME if "COLLATE" not in of.value.type else Kind.VALUE
    return Kind.SUM if _sum_type(of) else Kind.VALUE


def _sum_type(of: Call) -> str:
    """Return the type in which the weighted sum is exact, or an empty text when there is none."""
    spark_type = of.arguments[0].type
    if spark_type in _INTEGERS:
        return "BIGINT" if of.function == "Sum" else "DECIMAL(38,0)"
    if decimal := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", spark_type):
        if of.null_on_overflow and int(decimal[1]) > 28:
            return ""
        precision, scale = min(int(decimal[1]) + 10, 38), int(decimal[2])
        # Spark lowers the scale of a sum of two DECIMAL(38, s) when s > 6: such a state would lose digits.
        return f"DECIMAL({precision},{scale})" if precision < 38 or scale <= 6 else ""
    return spark_type if spark_type.startswith("INTERVAL") else ""


def _condition(of: Call) -> exp.Expr | None:
    """Return the condition under which a row counts for `of`, or None when every row does."""
    conditions = [of.filter.sql.copy()] if of.filter else []
    conditions += [exp.Not(this=exp.Is(this=a.sql.copy(), expression=exp.null())) for a in of.arguments if a.nullable]
    return all_of(conditions) if conditions else None


def change_of(state: State) -> dict[str, exp.Expr]:
    """Return the aggregate calls over a delta that say how `state` changes, by column id."""
    weight, name = column(WEIGHT.id), state.column.id
    condition = _condition(state.call) if state.call else None
    came, went = exp.GT(this=weight, expression=number(0)), exp.LT(this=weight, expression=number(0))
    match state.kind:
        case Kind.COUNT:
            return {f"d_{name}": call("sum", weight if condition is None else case(condition, weight, number(0)))}
        case Kind.SUM | Kind.TOTAL:
            value = _argument(state)
            signed = case(came, value, exp.Neg(this=value.copy()))
            moved: dict[str, exp.Expr] = {f"d_{name}": call("sum", signed if condition is None else case(condition, signed))}
            if state.kind is Kind.TOTAL and condition is not None:
                moved[f"n_{name}"] = call("sum", case(condition.copy(), weight, number(0)))
            return moved
        case Kind.EXTREME:
            value, function = _argument(state), extreme(state)
            rows = {"came": came, "went": went}
            return {
                f"{how}_{name}": call(function, case(all_of([row, *([condition.copy()] if condition else [])]), value.copy()))
                for how, row in rows.items()
            }
        case Kind.WINNER:
            of, order = winner(state)
            condition = _condition(order.call) if order.call else None
            value, by = (each.sql.copy() for each in of.arguments)
            counts = case(all_of([came, *([condition] if condition else [])]), by)
            return {f"came_{name}": call(f"{extreme(order)}_by", value, counts)}
        case Kind.VALUE:
            return {}


def _argument(state: State) -> exp.Expr:
    """Spell the argument so that its sum over a delta cannot overflow where the sum over the group does not."""
    if state.call is None:
        raise TypeError("the count of rows has no argument")
    argument: Scalar = state.call.arguments[0]
    if state.kind not in (Kind.SUM, Kind.TOTAL):
        return argument.sql.copy()
    return cast(argument.sql.copy(), "DECIMAL(20,0)" if argument.type in _INTEGERS else state.column.type)


def winner(state: State) -> tuple[Call, State]:
    """Return the call and the extreme of a WINNER."""
    if state.call is None or state.order is None:
        raise TypeError(f"a {state.kind.value} without a call has no winner")
    return state.call, state.order


def extreme(state: State) -> str:
    """Return the function of an EXTREME: min or max."""
    return "min" if state.call and state.call.function == "Min" else "max"


def value_of(of: Call, states: tuple[State, ...], prefix: str) -> exp.Expr:
    """Compute the value of a call from the state columns, which are named with `prefix`."""
    by_key = {state.key: state for state in states}
    columns = [column(prefix + by_key[need.key].column.id) for need in needs_of(of)]
    if len(columns) == 1 or _kind(of) is Kind.WINNER:
        return columns[-1]
    count, total = columns
    if of.function == "Sum":
        return case(exp.GT(this=count, expression=number(0)), cast(total, of.value.type))
    if of.finish is None:
        raise TypeError(f"{of.value.text} has no final expression")
    # Spark's own last step (avg's division with its rounding), over our state in place of its buffer.
    buffer = dict(zip((c.id for c in of.state), (_buffer(total, of.state[0].type), count), strict=True))
    return of.finish.transform(lambda node: buffer[node.name].copy() if isinstance(node, exp.Column) else node)


def _buffer(total: exp.Expr, spark_type: str) -> exp.Expr:
    return cast(call("coalesce", total, cast(number(0), spark_type)), spark_type) if "INTERVAL" not in spark_type else total
