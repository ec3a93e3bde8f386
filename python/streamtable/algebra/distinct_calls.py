"""Aggregates over DISTINCT values as aggregates over stored pairs of group and value.

    count(DISTINCT x), count(*), sum(y) of A by g  =  count(x), sum(n), sum(s) of B by g
    B                                              =  count(*) AS n, sum(y) AS s of A by g, x

B has one row for each value x of each group g, so count(x) over the rows of g counts each value once. Another row with a known
value, or the loss of one of several, moves only the count of the value's row in B. Counts, sums, minima and maxima of a group
follow from those of its parts.

    SELECT day, count(DISTINCT user) FROM visits GROUP BY day
    SELECT day, count(user) FROM (SELECT DISTINCT day, user FROM visits) GROUP BY day

Applies where all DISTINCT calls have the same arguments, without FILTER, of types whose equal values are the same. The other calls
must be count, min, max, or sums of integers or of decimals with 20 digits to spare for both levels. Other aggregates and recursions
stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import replace

from streamtable.algebra.columns import Call, Item, Scalar, itself, reference
from streamtable.algebra.identity import stored_as_key
from streamtable.algebra.operators import Aggregate, Operator, Project, Recursion
from streamtable.algebra.optional import OptionalState, Wanted, always, key_columns
from streamtable.algebra.trees import children, with_children
from streamtable.sql.builder import call, cast, column, number

__all__ = ["store_distinct_values"]

_SUMMED = re.compile(r"TINYINT|SMALLINT|INT|BIGINT|DECIMAL\((\d|1[0-8]),.*\)")
_NAMES = {"Count": "count", "Sum": "sum", "Average": "avg", "Min": "min", "Max": "max"}


def store_distinct_values(operator: Operator, wanted: Wanted = always) -> Operator:
    """Put an aggregate by group and value below each aggregate with DISTINCT calls to which the rule applies, if it is wanted."""
    if isinstance(operator, Recursion):
        return operator
    operator = with_children(operator, tuple(store_distinct_values(child, wanted) for child in children(operator)))
    if isinstance(operator, Aggregate) and _applies(operator) and wanted(_state(operator)):
        return _parted(operator)
    return operator


def _state(operator: Aggregate) -> OptionalState:
    of_values = next(each for each in operator.calls if each.distinct)
    keys = [key.value for key in operator.keys]
    by = f" by {', '.join(key.text for key in keys)}" if keys else ""
    return OptionalState(f"values of {of_values.value.text}{by}", key_columns(operator.child, keys))


def _applies(operator: Aggregate) -> bool:
    of_values = [each for each in operator.calls if each.distinct]
    others = [each for each in operator.calls if not each.distinct]
    if len({tuple(argument.meaning for argument in each.arguments) for each in of_values}) != 1:
        return False
    if not all(each.filter is None and _by_values(each) for each in of_values):
        return False
    if not all(stored_as_key(argument.type) and argument.deterministic for argument in of_values[0].arguments):
        return False
    # A sum over values or parts adds in the mode of the query, which is not that of a view with another one.
    plain = all(not each.other_mode and "try_" not in each.value.text for each in operator.calls)
    return plain and all(map(_adds_up, others))


def _by_values(of: Call) -> bool:
    return of.function in ("Count", "Sum") or (of.function == "Average" and of.finish is not None)


def _adds_up(of: Call) -> bool:
    """Tell whether the call over a group follows from the calls over its parts."""
    match of.function:
        case "Count":
            return True
        case "Min" | "Max":
            return "COLLATE" not in of.value.type
        case "Sum":
            return _SUMMED.fullmatch(of.arguments[0].type) is not None
    return False


def _parted(operator: Aggregate) -> Operator:
    of_values = next(each for each in operator.calls if each.distinct)
    values = tuple(Item(f"{of_values.id}_value{n}", each.text, each) for n, each in enumerate(of_values.arguments))
    others = tuple(replace(each, id=f"{each.id}_part") for each in operator.calls if not each.distinct)
    parts = Aggregate(operator.child, (*operator.keys, *values), others)
    keys = tuple(replace(itself(key.output), value=replace(reference(key.output), text=key.value.text)) for key in operator.keys)
    arguments = tuple(reference(value.output) for value in values)
    calls = tuple(_over_values(each, arguments) if each.distinct else _over_parts(each) for each in operator.calls)
    whole = Aggregate(parts, keys, calls)
    if operator.keys or not others:
        return whole
    # Without keys there is a group also where there are no parts: it counts 0.
    counted = tuple(
        _zero(each) if each.function == "Count" and not each.distinct else itself(each.output) for each in operator.calls
    )
    return Project(whole, tuple(counted))


def _over_values(of: Call, arguments: tuple[Scalar, ...]) -> Call:
    sql = call(_NAMES[of.function], *(each.sql.copy() for each in arguments))
    inputs = frozenset(name for each in arguments for name in each.inputs)
    return replace(of, value=replace(of.value, sql=sql, inputs=inputs), arguments=arguments, distinct=False)


def _over_parts(of: Call) -> Call:
    """Return the call that combines the calls over the parts, which have the same id with `_part`."""
    part = reference(replace(of.output, id=f"{of.id}_part"))
    function = "Sum" if of.function in ("Count", "Sum") else of.function
    sql = cast(call(_NAMES[function], part.sql.copy()), of.value.type)
    value = replace(of.value, sql=sql, inputs=part.inputs, nullable=True)
    return replace(of, value=value, function=function, arguments=(part,), filter=None)


def _zero(of: Call) -> Item:
    value = replace(reference(of.output), sql=call("coalesce", column(of.id), number(0)), nullable=False)
    return Item(of.id, of.value.text, value)
