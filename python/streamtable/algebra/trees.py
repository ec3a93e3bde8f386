"""Walking the trees of operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streamtable.algebra.operators import (
    Constant,
    Filter,
    Join,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    Scan,
    SemiJoin,
    StoredRows,
    UnionAll,
    Unsupported,
    WorkingTable,
)
from streamtable.algebra.sources import CLOCK, Source

__all__ = ["children", "reads_clock", "replaced", "sources_of", "walk", "with_children"]


def children(operator: Operator) -> tuple[Operator, ...]:
    """Return the inputs of `operator`, left to right."""
    match operator:
        case Scan() | StoredRows() | Constant() | WorkingTable():
            return ()
        case Recursion():
            return (operator.anchor, operator.step)
        case Join() | UnionAll() | Unsupported():
            return operator.inputs
        case LeftJoin():
            return (operator.left, operator.right)
        case SemiJoin():
            return (operator.child, operator.affected)
        case _:
            return (operator.child,)


def with_children(operator: Operator, inputs: tuple[Operator, ...]) -> Operator:
    """Return `operator` over other inputs."""
    match operator:
        case Scan() | StoredRows() | Constant() | WorkingTable():
            return operator
        case Recursion():
            return replace(operator, anchor=inputs[0], step=inputs[1])
        case Join() | UnionAll() | Unsupported():
            return replace(operator, inputs=inputs)
        case LeftJoin():
            return replace(operator, left=inputs[0], right=inputs[1])
        case SemiJoin():
            return replace(operator, child=inputs[0], affected=inputs[1])
        case _:
            return replace(operator, child=inputs[0])


def replaced(tree: Operator, node: Operator, instead: Operator) -> Operator:
    """Return `tree` with `instead` in the place of the very operator `node`."""
    if tree is node:
        return instead
    return with_children(tree, tuple(replaced(child, node, instead) for child in children(tree)))


def walk(operator: Operator) -> Iterator[Operator]:
    """Yield `operator` and everything below it, parents first."""
    yield operator
    for child in children(operator):
        yield from walk(child)


def reads_clock(operator: Operator) -> bool:
    """Tell whether an expression of the operator itself reads the clock. In normal form only filters and projections do."""
    match operator:
        case Filter(_, conjuncts):
            return any(conjunct.clock for conjunct in conjuncts)
        case Project(_, items):
            return any(item.value.clock for item in items)
        case _:
            return False


def sources_of(tree: Operator) -> frozenset[Source]:
    """Return the tables that `tree` reads, and the clock if it reads it. The step of a recursion reads its loop as well."""
    found: set[Source] = set()
    loops: set[Source] = set()
    for node in walk(tree):
        match node:
            case Scan(source) | WorkingTable(source):
                found.add(source)
            case Recursion(loop):
                loops.add(loop)
            case _ if reads_clock(node):
                found.add(CLOCK)
    return frozenset(found - loops)
