"""The queries that move one aggregate by a change of its input."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from streamtable.algebra.columns import POSITION, WEIGHT, Call, Column, Item, Scalar, itself
from streamtable.algebra.identity import identity
from streamtable.algebra.operators import Aggregate, Filter, Operator, StoredRows
from streamtable.algebra.render import Views, render
from streamtable.differentiate.deltas import weighted
from streamtable.differentiate.merging import again_needed, merged, stays
from streamtable.differentiate.restrict import restrict
from streamtable.differentiate.states import Kind, State, change_of, states_of, value_of
from streamtable.sql.builder import (
    alias,
    all_of,
    any_of,
    call,
    called,
    cast,
    column,
    equal,
    everything_but,
    number,
    select,
    subquery,
    table,
    union_all,
)

__all__ = ["AggregateStep"]

_SORTED = ("BIGINT", "INT", "SMALLINT", "TINYINT", "DATE")
"""Types of keys by which an arrangement is sorted. Changed keys of other types have no bounds, or seldom lie together."""

_WHOLE = (Kind.TOTAL, Kind.EXTREME, Kind.WINNER, Kind.VALUE)
"""States that are values of the call itself. Some changes need them computed again, from the group's rows."""


@dataclass(frozen=True)
class AggregateStep:
    """The queries that move one aggregate. Each reads rows that the queries before it left in the session under a name."""

    name: str
    aggregate: Aggregate
    change: Operator
    child: Operator

    @classmethod
    def whole(cls, name: str, aggregate: Aggregate) -> AggregateStep:
        """Return the step for an input whose rows are all new."""
        return cls(name, aggregate, aggregate.child, aggregate.child)

    @property
    def states(self) -> tuple[State, ...]:
        return states_of(self.aggregate)

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(key.output for key in self.aggregate.keys)

    @property
    def recomputes(self) -> bool:
        """Tell whether a change may need some state computed again."""
        return any(state.kind in _WHOLE for state in self.states)

    @property
    def recomputes_always(self) -> bool:
        """Tell whether some state is computed again for each affected group, and not only where rows go."""
        return any(state.kind is Kind.VALUE for state in self.states)

    def partial(self, views: Views) -> exp.Query:
        """Sum up the delta per group: `<name>_partial`.

        The delta of a window, a join or an aggregate may hold many rows that stay. Groups of such rows alone are left out.
        """
        keys = tuple(Item(k.id, k.name, k.value) for k in self.aggregate.keys)
        calls = [
            Call(name, Scalar(sql, "", True, name, frozenset()), "")
            for state in self.states
            for name, sql in change_of(state).items()
        ]
        groups = Aggregate(self.change, keys, tuple(calls))
        stay = [stays(state) for state in self.states]
        if not keys or None in stay:
            return render(groups, views)
        moves = exp.Not(this=exp.Paren(this=all_of(each for each in stay if each is not None)))
        return render(Filter(groups, (Scalar(moves, "BOOLEAN", False, "the group moves", frozenset(c.id for c in calls)),)), views)

    def lookup(self) -> Operator:
        """Read the stored states of the groups in `<name>_partial` only; `merge` needs no others of a large arrangement."""
        stored = (*self.keys, *(s.column for s in self.states), *(Column(p, p, "") for p in POSITION))
        affected = StoredRows(f"{self.name}_partial", self.keys)
        return restrict(StoredRows(f"{self.name}_state", stored), [itself(key).value for key in self.keys], affected)

    def merge(self, states: str | None = None) -> exp.Query:
        """Put the change of each affected group beside its stored state: `<name>_merged`, with `__recompute`.

        `states` names a part of the stored states that holds all affected groups; None stands for all stored states.
        """
        old = [alias(column(s.column.id, "state"), f"old_{s.column.id}") for s in self.states]
        changes = [alias(column(c, "change"), c) for s in self.states for c in change_of(s)]
        needed = [c for s in self.states if (c := again_needed(s, column(s.column.id, "state"), "change")) is not None]
        count = self.states[0]
        lives = exp.GT(this=merged(count, column(count.column.id, "state"), "change", None), expression=number(0))
        again = all_of([lives, any_of(needed)]) if needed and self.keys else any_of(needed)
        items = [
            *(alias(column(k.id, "change"), k.id) for k in self.keys),
            *(alias(column(p, "state"), p) for p in POSITION),
            *old,
            *changes,
            alias(again, "__recompute"),
        ]
        on = all_of(equal(column(k.id, "change"), column(k.id, "state")) for k in self.keys)
        query = select(items, called(f"{self.name}_partial", "change"))
        return query.join(called(states or f"{self.name}_state", "state"), on=on, join_type="left", copy=False)

    def recomputed(self, views: Views) -> exp.Query:
        """Compute the groups marked `__recompute` from the restricted input: `<name>_recomputed`."""
        affected = StoredRows(f"{self.name}_affected", tuple(k for k in self.keys))
        keyed = restrict(self.child, [key.value for key in self.aggregate.keys], affected)
        calls = tuple(Call(s.column.id, s.call.value, "") for s in self.states if s.call and s.kind in _WHOLE)
        return render(Aggregate(keyed, self.aggregate.keys, calls), views)

    def affected(self) -> exp.Query:
        """List the groups to be computed again: `<name>_affected`."""
        return select([column(k.id) for k in self.keys] or [alias(number(1), "__row")], table(f"{self.name}_merged")).where(
            column("__recompute"), copy=False
        )

    def moved(self, again: bool) -> exp.Query:
        """Give each affected group its new state: `<name>_moved`; `again` says that `<name>_recomputed` is there.

        The column `__changed` says whether the states differ. As a condition of a later query it would make Spark's inference of
        filters write 2^n forms for n states.
        """
        items = [*(alias(column(c, "change"), c) for c in (*(k.id for k in self.keys), *POSITION))]
        for state in self.states:
            old = column(f"old_{state.column.id}", "change")
            recomputed = column(state.column.id, "again") if again and state.kind in _WHOLE else None
            items.append(alias(old.copy(), f"old_{state.column.id}"))
            items.append(alias(merged(state, old, "change", recomputed), f"new_{state.column.id}"))
        query = select(items, called(f"{self.name}_merged", "change"))
        if again:
            on = all_of(equal(column(k.id, "change"), column(k.id, "again")) for k in self.keys)
            query = query.join(called(f"{self.name}_recomputed", "again"), on=on, join_type="left", copy=False)
        return select([everything_but(()), alias(self._differ(), "__changed")], subquery(query, "moved"))

    def delta(self) -> exp.Query:
        """Return the moves as a delta of the aggregate's output: `<name>_delta`."""
        arms = []
        for prefix, weight, there in (("old_", -1, self.was()), ("new_", 1, self.lives())):
            items: list[exp.Expr] = [column(k.id) for k in self.keys]
            items += [alias(value_of(c, self.states, prefix), c.id) for c in self.aggregate.calls]
            arm = select([*items, alias(number(weight), WEIGHT.id)], table(f"{self.name}_moved"))
            arms.append(arm.where(all_of([there, column("__changed")]), copy=False))
        return union_all(arms)

    def left(self) -> exp.Query:
        """List the positions of the stored states to delete."""
        query = select([column(p) for p in POSITION], table(f"{self.name}_moved"))
        return query.where(all_of([self.was(), column("__changed")]), copy=False)

    def arrived(self) -> exp.Query:
        """List the new states to add, keys and states under their ids."""
        items = [
            *(column(k.id) for k in self.keys),
            *(alias(column(f"new_{s.column.id}"), s.column.id) for s in self.states),
        ]
        return select(items, table(f"{self.name}_moved")).where(all_of([self.lives(), column("__changed")]), copy=False)

    def _differ(self) -> exp.Expr:
        """Return the condition that the states differ; a group whose changes cancel out stays as it is."""
        pairs = []
        for s in self.states:
            old, new = (identity(column(f"{side}_{s.column.id}"), s.column.type) for side in ("old", "new"))
            if old is None or new is None:
                return exp.true()
            pairs.append(equal(old, new))
        return exp.Not(this=exp.Paren(this=all_of(pairs)))

    def was(self) -> exp.Expr:
        """Return the condition that the group existed at the frontier."""
        return exp.Not(this=exp.Is(this=column(f"old_{self.states[0].column.id}"), expression=exp.null()))

    def lives(self) -> exp.Expr:
        """Return the condition that the group exists at the target."""
        if not self.keys:
            return exp.true()
        return exp.GT(this=column(f"new_{self.states[0].column.id}"), expression=number(0))

    def stored(self) -> exp.Query:
        """Compute the aggregate's output at the frontier from its stored states."""
        items: list[exp.Expr] = [column(k.id) for k in self.keys]
        items += [alias(value_of(c, self.states, ""), c.id) for c in self.aggregate.calls]
        return select(items or [alias(number(1), "__row")], table(f"{self.name}_state"))

    def new(self) -> exp.Query:
        """Compute the aggregate's output at the target: the stored groups that did not move, and those that did."""
        on = all_of(equal(column(k.id, "state"), column(k.id, "moved")) for k in self.keys)
        items = [alias(column(c.id, "state"), c.id) for c in (*self.keys, *(s.column for s in self.states))]
        stayed = select(items, called(f"{self.name}_state", "state"))
        stayed = stayed.join(called(f"{self.name}_moved", "moved"), on=on, join_type="left anti", copy=False)
        values = [*(column(k.id) for k in self.keys), *(alias(value_of(c, self.states, ""), c.id) for c in self.aggregate.calls)]
        moved = [*(column(k.id) for k in self.keys), *(alias(value_of(c, self.states, "new_"), c.id) for c in self.aggregate.calls)]
        none = [alias(number(1), "__row")]
        there = select(moved or none, table(f"{self.name}_moved")).where(self.lives(), copy=False)
        return union_all([select(values or none, subquery(stayed, "stayed")), there])

    def initial(self, views: Views) -> exp.Query:
        """Compute the arrangement from the whole input, which is `child`: every row of it is new."""
        whole = Aggregate(weighted(self.child), self.aggregate.keys, self._initial_calls())
        query = subquery(render(whole, views), "input")
        items: list[exp.Expr] = [column(k.id) for k in self.keys]
        items += [alias(_typed(s), s.column.id) for s in self.states]
        # Pages of a sorted file have bounds of their keys: a look-up of groups that lie together reads few pages.
        sorted_by = exp.Sort(expressions=[exp.Ordered(this=column(k.id)) for k in self.keys if k.type in _SORTED])
        states = select(items, query)
        if sorted_by.expressions:
            states.set("sort", sorted_by)
        return states

    def _initial_calls(self) -> tuple[Call, ...]:
        calls = []
        for state in self.states:
            whole = state.call if state.kind in _WHOLE else None
            value = whole.value.sql.copy() if whole else next(iter(change_of(state).values()))
            calls.append(Call(state.column.id, Scalar(value, "", True, state.column.id, frozenset()), ""))
        return tuple(calls)


def _typed(state: State) -> exp.Expr:
    stored: exp.Expr = column(state.column.id)
    if state.kind is Kind.COUNT:
        stored = call("coalesce", stored, number(0))
    return stored if state.kind in _WHOLE else cast(stored, state.column.type)
