"""The differentiation of one tree: the changed sources, and the requests that rules may make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType

from sqlglot import exp

from streamtable.algebra.columns import WEIGHT, Call, Column, Item, Scalar, itself, reference
from streamtable.algebra.identity import identity, told_apart
from streamtable.algebra.operators import (
    Aggregate,
    Expand,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    Scan,
    StoredRows,
    UnionAll,
    WorkingTable,
)
from streamtable.algebra.recursion import counted, stored_rows
from streamtable.algebra.repeat import repeated
from streamtable.algebra.sources import CLOCK, Snapshot, Source
from streamtable.algebra.trees import children, reads_clock, sources_of, walk, with_children
from streamtable.sql.builder import call, cast, column, number

__all__ = ["Deltas", "Moved", "Recursed", "Shared", "came_and_went", "difference", "total", "weighted", "without"]

_NEGATED = Scalar(exp.Neg(this=column(WEIGHT.id)), WEIGHT.type, False, "-weight", frozenset({WEIGHT.id}))
_TOTAL = Call("__total", Scalar(call("sum", column(WEIGHT.id)), WEIGHT.type, True, "sum(weight)", frozenset({WEIGHT.id})), "Sum")


def weighted(bag: Operator, weight: int = 1) -> Operator:
    """Return the Z-set of a bag's rows, all with the same weight."""
    value = Scalar(number(weight), WEIGHT.type, False, str(weight), frozenset())
    return Project(bag, (*(itself(c) for c in bag.columns), Item(WEIGHT.id, WEIGHT.name, value)))


def difference(new: Operator, old: Operator) -> Operator:
    """Return new - old, a delta of any operator. It holds rows that stay; netting cancels them out."""
    return UnionAll((weighted(new), weighted(old, -1)), (*new.columns, WEIGHT))


def without(new: Operator, changed: Operator) -> Operator:
    """Return the bag new - changed, which is the bag at the frontier, by counts of equal rows."""
    negated = Project(changed, (*(itself(c) for c in new.columns), Item(WEIGHT.id, WEIGHT.name, _NEGATED)))
    counts = _counted(UnionAll((weighted(new), negated), (*new.columns, WEIGHT)), new.columns)
    return repeated(counts, column(_TOTAL.id), new.columns)


def came_and_went(changed: Operator, columns: tuple[Column, ...], deltas: Deltas) -> tuple[Operator, Operator]:
    """Return the rows that come by a delta, and the rows that go, as two bags; equal rows cancel out first."""
    counts = deltas.shared(_counted(changed, columns))
    times = column(_TOTAL.id)
    return repeated(counts, times, columns), repeated(counts, exp.Neg(this=times.copy()), columns)


def _netted(delta: Operator, columns: tuple[Column, ...]) -> Operator:
    """Return a delta in which no row both comes and goes."""
    total = column(_TOTAL.id)
    sign = Scalar(cast(call("signum", total), WEIGHT.type), WEIGHT.type, False, "sign", frozenset({_TOTAL.id}))
    signed = (*(itself(c) for c in columns), Item(WEIGHT.id, WEIGHT.name, sign), itself(_TOTAL.output))
    return repeated(Project(_counted(delta, columns), signed), call("abs", total.copy()), (*columns, WEIGHT))


def _counted(delta: Operator, columns: tuple[Column, ...]) -> Aggregate:
    """Return each distinct row of a delta with the sum of its weights."""
    keys, shown = [], []
    for c in columns:
        form = identity(column(c.id), c.type)
        if form is None or isinstance(form, exp.Column):
            keys.append(itself(c))
        else:
            keys.append(Item(f"{c.id}__identity", c.name, replace(reference(c), sql=form)))
            shown.append(Call(c.id, replace(reference(c), sql=call("any_value", column(c.id))), "AnyValue"))
    return Aggregate(delta, tuple(keys), (*shown, _TOTAL))


def total(*deltas: Operator | None) -> Operator | None:
    """Return the sum of deltas of one operator; None is the empty delta."""
    terms = tuple(delta for delta in deltas if delta is not None)
    return UnionAll(terms, terms[0].columns) if len(terms) > 1 else next(iter(terms), None)


@dataclass(frozen=True)
class Moved:
    """An aggregate whose input changes by the delta `change`; `child` is that input at the target."""

    aggregate: Aggregate
    change: Operator
    child: Operator

    @property
    def trees(self) -> tuple[Operator, ...]:
        """Return the trees that the step reads. All steps have this property."""
        return (self.change, self.child)


@dataclass(frozen=True)
class Shared:
    """A tree that several parts of the delta read: computed once and kept under a name."""

    name: str
    tree: Operator

    @property
    def trees(self) -> tuple[Operator, ...]:
        return (self.tree,)


@dataclass(frozen=True)
class Recursed:
    """A recursion that changes.

    `arriving` are changed rows that enter at the level in their column LEVEL. `step` is the delta of the step, which reads the
    change of the level before as `working`. The changes of all levels are named `<name>_changes`.
    """

    name: str
    recursion: Recursion
    working: WorkingTable
    arriving: Operator
    step: Operator

    @property
    def trees(self) -> tuple[Operator, ...]:
        return (self.arriving, self.step)


@dataclass
class Deltas:
    """Differentiates one tree for one set of changed sources.

    `arrangements` names the arrangement of each aggregate of the tree, and of the aggregate that counts a recursion's rows. The
    output of an aggregate is stored as `<name>_old` at the frontier and as `<name>_new` at the target. `small`: the keys of the
    change may be handed to every task. `trusted`: the table's rows may not be those of the query at the frontier. `steps` are the
    trees to compute before the delta, in order.
    """

    changed: frozenset[Source]
    arrangements: Mapping[Aggregate, str]
    rules: Mapping[type, ModuleType]
    small: bool = True
    trusted: bool = False
    steps: list[Moved | Shared | Recursed] = field(default_factory=list)
    _done: dict[Operator, Operator | None] = field(default_factory=dict)
    _settled: set[Operator] = field(default_factory=set)

    def of(self, operator: Operator) -> Operator | None:
        """Return the delta of `operator`, a tree with the column `WEIGHT`, or None when nothing below it changed."""
        if not self.affected(operator):
            return None
        if operator not in self._done:
            rule: Callable[[Operator, Deltas], Operator | None] = self.rules[type(operator)].delta
            self._done[operator] = rule(operator, self)
        return self._done[operator]

    def keep(self, operator: Operator) -> StoredRows | None:
        """Return the delta of `operator`, computed once for all that read it."""
        changed = self.of(operator)
        if changed is None or isinstance(changed, StoredRows):
            return changed
        kept = self._done[operator] = self.shared(changed)
        return kept

    def settled(self, operator: Operator, scalars: Iterable[Scalar]) -> Operator | None:
        """Return the delta of `operator`, on whose rows `scalars` may be evaluated.

        One term of a join has rows that the query never joins; another term takes them away again. An expression may fail on such
        rows. So a small delta is netted first: its rows are then rows of the query, before or after the change.
        """
        changed = self.of(operator)
        if changed is None or not self.small or not any(each.fails for each in scalars) or not self._meets_others(operator):
            return changed
        if not told_apart(operator.columns):
            return changed
        self._settled.add(operator)
        return self.shared(_netted(changed, operator.columns))

    def _meets_others(self, operator: Operator) -> bool:
        """Tell whether the delta of `operator` may hold rows that the operator has neither before nor after the change."""
        if operator in self._settled or not self.affected(operator):
            return False
        match operator:
            case Join(inputs):
                return sum(map(self.affected, inputs)) > 1 or any(map(self._meets_others, inputs))
            case LeftJoin(left, right):
                return self._meets_others(left) or (self.affected(left) and self.affected(right))
            case Filter() | Project() | Generate() | Expand() | UnionAll():
                return any(map(self._meets_others, children(operator)))
            case _:
                return False

    def affected(self, operator: Operator) -> bool:
        """Tell whether a source below `operator` changed, the clock included."""
        return not self.changed.isdisjoint(sources_of(operator))

    def ticks(self, operator: Operator) -> bool:
        """Tell whether the clock moved and an expression of the operator itself reads it."""
        return CLOCK in self.changed and reads_clock(operator)

    def old(self, operator: Operator) -> Operator:
        """Return `operator` at the frontier, as a bag; an aggregate is read from its arrangement."""
        if kept := self._arranged(operator):
            return self._stored(operator, kept, "old")
        if isinstance(operator, Scan) and operator.source in self.changed:
            return replace(operator, snapshot=Snapshot.FRONTIER)
        if isinstance(operator, (Filter, Project)) and self.ticks(operator):
            operator = replace(operator, at=Snapshot.FRONTIER)
        return with_children(operator, tuple(self.old(child) for child in children(operator)))

    def new(self, operator: Operator) -> Operator:
        """Return `operator` at the target, as a bag; an aggregate is read from its stored groups and those that moved."""
        if kept := self._arranged(operator):
            return self._stored(operator, kept, "new" if self.of(operator) is not None else "old")
        return with_children(operator, tuple(self.new(child) for child in children(operator)))

    def _arranged(self, operator: Operator) -> Aggregate | None:
        """Return the aggregate whose arrangement stores `operator`, an aggregate or a recursion; None when none does."""
        kept = counted(operator) if isinstance(operator, Recursion) else operator
        return kept if isinstance(kept, Aggregate) and kept in self.arrangements else None

    def _stored(self, operator: Operator, kept: Aggregate, state: str) -> Operator:
        name = f"{self.arrangements[kept]}_{state}"
        if kept is operator:
            return StoredRows(name, operator.columns)
        return Project(stored_rows(kept, name), tuple(itself(c) for c in operator.columns))  # without the levels

    def once(self, tree: Operator) -> Operator:
        """Have a small delta computed once for all its readers, unless it is just a change set, which is as quick to read again."""
        again = all(isinstance(node, (Scan, StoredRows, Filter, Project)) for node in walk(tree))
        return tree if again or not self.small else self.shared(tree)

    def shared(self, tree: Operator) -> StoredRows:
        """Have `tree` computed once."""
        known = next((step for step in self.steps if isinstance(step, Shared) and step.tree == tree), None)
        if known is None:
            known = Shared(f"shared_{len(self.steps)}", tree)
            self.steps.append(known)
        return StoredRows(known.name, tree.columns)
