"""How a change moves the partial states of a group: the new states from the old ones, and which must be computed again."""

from __future__ import annotations

from sqlglot import exp

from streamtable.differentiate.states import Kind, State, extreme, winner
from streamtable.sql.builder import all_of, call, case, cast, column, number

__all__ = ["again_needed", "merged", "stays"]


def stays(state: State) -> exp.Expr | None:
    """Return the condition that a change leaves `state` as it is, or None when its columns do not tell."""
    match state.kind:
        case Kind.COUNT:
            return exp.EQ(this=column(f"d_{state.column.id}"), expression=number(0))
        case Kind.SUM | Kind.TOTAL if not state.column.type.startswith("INTERVAL"):
            counted = ("n",) if state.kind is Kind.TOTAL else ()
            return all_of(_is_zero(column(f"{how}_{state.column.id}")) for how in ("d", *counted))
        case Kind.EXTREME:
            return all_of(exp.Is(this=column(f"{how}_{state.column.id}"), expression=exp.null()) for how in ("came", "went"))
        case Kind.WINNER:
            return exp.true()  # it moves with its extreme
        case _:
            return None


def merged(state: State, old: exp.Expr, change: str, again: exp.Expr | None) -> exp.Expr:
    """Return the new value of `state` from its old one, the columns of its change and, for VALUE, the group's recomputed value.

    `old` is NULL for a group that was not there. `again` is None where nothing has to be computed again.
    """
    name = state.column.id
    match state.kind:
        case Kind.COUNT:
            moved = column(f"d_{name}", change)
            return exp.Add(this=call("coalesce", old, number(0)), expression=call("coalesce", moved, number(0)))
        case Kind.SUM:
            return cast(_sum_after(state, old, change), state.column.type)
        case Kind.TOTAL:
            none = exp.And(this=_is_null(old.copy()), expression=exp.EQ(this=column(f"n_{name}", change), expression=number(0)))
            kept = case(exp.Not(this=exp.Paren(this=none)), cast(_sum_after(state, old, change), state.column.type))
            return kept if again is None else case(_emptied(state, old, change), again, kept)
        case Kind.EXTREME:
            best = _candidate(state, old, change)
            return best if again is None else case(_beaten(state, old, change), again, best)
        case Kind.WINNER:
            _, order = winner(state)
            before = column(f"old_{order.column.id}", change)
            kept = case(_surpassed(order, before, change), column(f"came_{name}", change), old)
            return kept if again is None else case(_beaten(order, before, change), again, kept)
        case Kind.VALUE:
            return again if again is not None else old


def _sum_after(state: State, old: exp.Expr, change: str) -> exp.Expr:
    """Return the sum of a stored sum and its change; where one of both is NULL, the other."""
    wide = "DECIMAL(38,0)" if state.column.type == "BIGINT" else state.column.type
    stored, moved = cast(old.copy(), wide), cast(column(f"d_{state.column.id}", change), wide)
    return call("coalesce", exp.Add(this=stored, expression=moved), moved.copy(), stored.copy())


def _emptied(state: State, old: exp.Expr, change: str) -> exp.Expr:
    """Return the condition that more values went than came and a sum of 0 is left, so that there may be no value.

    Without ANSI, a sum of integers is 0 as well where it has wrapped around to 0.
    """
    fewer = exp.LT(this=column(f"n_{state.column.id}", change), expression=number(0))
    zero = exp.EQ(this=cast(_sum_after(state, old, change), state.column.type), expression=number(0))
    return exp.And(this=fewer, expression=exp.Paren(this=call("coalesce", zero, exp.true())))


def _is_zero(value: exp.Expr) -> exp.EQ:
    return exp.EQ(this=call("coalesce", value, number(0)), expression=number(0))


def _is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value, expression=exp.null())


def _candidate(state: State, old: exp.Expr, change: str) -> exp.Expr:
    function = "least" if extreme(state) == "min" else "greatest"
    return call(function, old, column(f"came_{state.column.id}", change))


def _beaten(state: State, old: exp.Expr, change: str) -> exp.Expr:
    """Return the condition that a value at or beyond the known extreme was deleted, so that the extreme may be gone."""
    went, best = column(f"went_{state.column.id}", change), _candidate(state, old.copy(), change)
    beyond = exp.LTE if extreme(state) == "min" else exp.GTE
    gone = exp.Not(this=_is_null(went))
    return exp.And(this=gone, expression=exp.Paren(this=call("coalesce", beyond(this=went.copy(), expression=best), exp.true())))


def _surpassed(state: State, old: exp.Expr, change: str) -> exp.Expr:
    """Return the condition that a value beyond the known extreme came, or the first one."""
    came = column(f"came_{state.column.id}", change)
    beyond = exp.LT if extreme(state) == "min" else exp.GT
    there = exp.Not(this=_is_null(came.copy()))
    return call("coalesce", beyond(this=came, expression=old), there)


def again_needed(state: State, old: exp.Expr, change: str) -> exp.Expr | None:
    """Return the condition under which the group must be computed again for `state`, or None when it never must."""
    match state.kind:
        case Kind.EXTREME:
            return exp.Paren(this=_beaten(state, old, change))
        case Kind.TOTAL:
            return exp.Paren(this=_emptied(state, old, change))
        case Kind.VALUE:
            return exp.true()
        case _:
            return None
