"""Normalisation: the same bag in a shape for which the delta rules read less. The passes, in order, are `PASSES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from streamtable.algebra.columns import Scalar, itself
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    JoinType,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Window,
)
from streamtable.algebra.trees import children, reads_clock, with_children

__all__ = ["PASSES", "normalise"]


def merge_filters_into_joins(operator: Operator) -> Operator:
    """Move the conjuncts of a filter over an inner join into the join; FROM a, b WHERE ... is a join."""
    operator = with_children(operator, tuple(merge_filters_into_joins(child) for child in children(operator)))
    match operator:
        case Filter(Join(inputs, conjuncts), more):
            # Conjuncts that read the clock stay in filters, which have a rule for them.
            clocked = tuple(each for each in more if each.clock)
            join = Join(inputs, (*conjuncts, *(each for each in more if not each.clock)))
            return Filter(join, clocked) if clocked else join
    return operator


def sink_filters(operator: Operator) -> Operator:
    """Move the conjuncts of a filter below left joins and projections that do not change them, so that they can join tables there.

    WHERE stands above the joins that Spark makes of subqueries. A left outer, semi or anti join looks at each row of its left input
    alone; a projection hands columns on.
    """
    match operator:
        case Filter(LeftJoin(left) as join, conjuncts):
            below, stay = _apart(conjuncts, {c.id for c in left.columns})
            operator = _kept(operator, replace(join, left=Filter(left, below, operator.at)), stay) if below else operator
        case Filter(Project(child, items) as project, conjuncts):
            below, stay = _apart(conjuncts, {item.id for item in items if item.value.column == item.id})
            operator = _kept(operator, replace(project, child=Filter(child, below, operator.at)), stay) if below else operator
    return with_children(operator, tuple(sink_filters(child) for child in children(operator)))


def _apart(conjuncts: tuple[Scalar, ...], ids: set[str]) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Divide conjuncts into those that read the columns `ids` alone, and the others."""
    below = tuple(each for each in conjuncts if each.inputs <= ids)
    return below, tuple(each for each in conjuncts if each not in below)


def _kept(filter_: Filter, child: Operator, conjuncts: tuple[Scalar, ...]) -> Operator:
    return replace(filter_, child=child, conjuncts=conjuncts) if conjuncts else child


def sink_clocks(operator: Operator) -> Operator:
    """Move a filter that reads the clock to the one input of a join that it reads: time moves only the rows of that input."""
    match operator:
        case Filter(Join(inputs, on), conjuncts) if reads_clock(operator):
            sunk = list(inputs)
            stay = list(conjuncts)
            for n, child in enumerate(inputs):
                here = tuple(each for each in stay if each.inputs <= {c.id for c in child.columns})
                stay = [each for each in stay if each not in here]
                sunk[n] = Filter(child, here) if here else child
            join = Join(tuple(sunk), on)
            operator = Filter(join, tuple(stay)) if stay else join
        case Filter(Filter(child, below), conjuncts):
            operator = Filter(child, (*below, *conjuncts))
    return with_children(operator, tuple(sink_clocks(child) for child in children(operator)))


def flatten_joins(operator: Operator) -> Operator:
    """Make directly nested inner joins one n-way join, so that any input may come first."""
    operator = with_children(operator, tuple(flatten_joins(child) for child in children(operator)))
    if not isinstance(operator, Join):
        return operator
    inputs: list[Operator] = []
    conjuncts = list(operator.conjuncts)
    for child in operator.inputs:
        # A projection between them may drop or reorder columns, as NATURAL and USING do.
        inner = child.child if isinstance(child, Project) and _only_drops(child) else child
        if isinstance(inner, Join):
            inputs.extend(inner.inputs)
            conjuncts.extend(inner.conjuncts)
        else:
            inputs.append(child)
    flat = Join(tuple(inputs), tuple(conjuncts))
    # The order of columns counts: the root's columns and those of a UNION ALL are known by their places.
    if [c.id for c in flat.columns] == [c.id for c in operator.columns]:
        return flat
    return Project(flat, tuple(itself(c) for c in operator.columns))


def _only_drops(project: Project) -> bool:
    ids = [item.value.column for item in project.items]
    return ids == [item.id for item in project.items] and len(set(ids)) == len(ids)


def prune_columns(root: Operator) -> Operator:
    """Drop the columns of each operator that no operator above needs; change sets then carry no needless columns."""
    return _prune(root, frozenset(c.id for c in root.columns))


def _prune(operator: Operator, needed: frozenset[str]) -> Operator:
    match operator:
        case Scan(columns=columns) | Constant(columns=columns):
            return replace(operator, columns=tuple(c for c in columns if c.id in needed))
        case Project(child, items):
            kept = tuple(item for item in items if item.id in needed)
            return Project(_prune(child, _inputs(item.value for item in kept)), kept)
        case Filter(child, conjuncts):
            return _cut(Filter(_prune(child, needed | _inputs(conjuncts)), conjuncts), needed)
        case Join(inputs, conjuncts):
            wanted = needed | _inputs(conjuncts)
            return _cut(Join(tuple(_prune(child, wanted) for child in inputs), conjuncts), needed)
        case LeftJoin(left, right, join_type, conjuncts):
            compared = _inputs(conjuncts)
            of_right = compared | (needed if join_type is JoinType.LEFT_OUTER else frozenset())
            pruned_join = replace(operator, left=_prune(left, needed | compared), right=_prune(right, of_right))
            return _cut(pruned_join, needed)
        case Window(child, partition, items):
            kept = tuple(item for item in items if item.id in needed)
            if not kept:  # without a function it hands its rows on
                return _prune(child, needed)
            running = tuple(call for call in operator.running if call.id in needed)
            below_window = needed | _inputs(partition) | _inputs(item.value for item in kept)
            return _cut(replace(operator, child=_prune(child, below_window), items=kept, running=running), needed)
        case TopK(child, order):
            return _cut(replace(operator, child=_prune(child, needed | _inputs(each.value for each in order))), needed)
        case Expand(child, projections, columns):
            places = [n for n, c in enumerate(columns) if c.id in needed]
            chosen = tuple(tuple(projection[n] for n in places) for projection in projections)
            below_expand = _prune(child, _inputs(value for projection in chosen for value in projection))
            return Expand(below_expand, chosen, tuple(columns[n] for n in places))
        case Aggregate(child, keys, calls):
            # Keys stay even where no operator needs them: they define the groups.
            kept_calls = tuple(call for call in calls if call.id in needed)
            below = _inputs(key.value for key in keys) | _inputs(call.value for call in kept_calls)
            return _cut(Aggregate(_prune(child, below), keys, kept_calls), needed)
        case Generate(child):
            pruned = replace(operator, child=_prune(child, needed | operator.generator.inputs))
            return _cut(pruned, needed)
        case UnionAll(inputs, columns):
            kept_at = [n for n, c in enumerate(columns) if c.id in needed]
            pruned_inputs = []
            for child in inputs:
                at = [child.columns[n] for n in kept_at]
                below_union = _prune(child, frozenset(c.id for c in at))
                if tuple(c.id for c in below_union.columns) != tuple(c.id for c in at):
                    below_union = Project(below_union, tuple(itself(c) for c in at))
                pruned_inputs.append(below_union)
            return UnionAll(tuple(pruned_inputs), tuple(columns[n] for n in kept_at))
        case Recursion(_, anchor, step):
            # A column of one level may decide about rows of the next level.
            return _cut(replace(operator, anchor=prune_columns(anchor), step=prune_columns(step)), needed)
        case _:
            return operator


def _cut(operator: Operator, needed: frozenset[str]) -> Operator:
    """Drop what only `operator` itself needed."""
    if all(c.id in needed for c in operator.columns):
        return operator
    return Project(operator, tuple(itself(c) for c in operator.columns if c.id in needed))


def _inputs(scalars: Iterable[Scalar]) -> frozenset[str]:
    return frozenset(name for scalar in scalars for name in scalar.inputs)


PASSES: tuple[Callable[[Operator], Operator], ...] = (
    sink_filters,
    merge_filters_into_joins,
    flatten_joins,
    merge_filters_into_joins,
    flatten_joins,
    sink_clocks,
    prune_columns,
)


def normalise(tree: Operator) -> Operator:
    """Run the passes over `tree`; the bag stays the same."""
    for apply in PASSES:
        tree = apply(tree)
    return tree
