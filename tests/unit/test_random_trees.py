"""The delta rules over random nested trees: any operator over any other, and the same subtree in several places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from random import Random
from typing import Any

import pytest
from tests.unit.trees import Row, World, bag, ids, minus, rows, scalar, source, top, union, window

from streamtable.algebra.columns import WEIGHT, Call, Column, Item, Order, Scalar, reference
from streamtable.algebra.normalise import normalise
from streamtable.algebra.operators import Filter, Join, JoinType, LeftJoin, Operator, Project, Scan, Window
from streamtable.differentiate.deltas import Deltas, Shared
from streamtable.differentiate.registry import RULES
from streamtable.differentiate.stored_before import BEFORE, delta_of_query

TABLES = {"l": "kvw", "r": "ku", "x": "kt"}
CHANGED = frozenset(map(source, TABLES))
KINDS = ("filter", "renamed", "join", "left", "union", "window", "ranked", "ranked", "top")


@dataclass
class Maker:
    """Makes trees; `pick` chooses one of several values."""

    pick: Callable[[Sequence[Any]], Any]
    numbers: count[int] = field(default_factory=count)
    made: list[Operator] = field(default_factory=list)

    def tree(self, depth: int) -> Operator:
        if not depth or (kind := self.pick((*KINDS, "again"))) == "again":
            again = self.pick([*self.made, None])
            made = self.renamed(again) if again else self.scan()
        else:
            children = [self.tree(depth - 1) for _ in range(2 if kind in ("join", "left", "union") else 1)]
            made = getattr(self, kind)(*children)
        self.made.append(made)
        return made

    def fresh(self) -> str:
        return f"c{next(self.numbers)}"

    def one(self, tree: Operator) -> str:
        return str(self.pick(ids(tree)))

    def scan(self) -> Operator:
        table = self.pick("llrx")
        return Scan(source(table), tuple(Column(self.fresh(), name, "INT") for name in TABLES[table]))

    def renamed(self, child: Operator) -> Operator:
        kept = self.pick([child.columns, child.columns[::-1], child.columns[: max(1, len(child.columns) - 1)]])
        return Project(child, tuple(Item(self.fresh(), "o", reference(c)) for c in kept))

    def filter(self, child: Operator) -> Operator:
        a, b = self.one(child), self.one(child)
        return Filter(child, (scalar(self.pick([f"{a} < 2", f"{a} = 1", f"{a} < {b}", f"{a} IS NULL"])),))

    def compared(self, a: str, b: str) -> Scalar:
        equal = scalar(f"{a} = {b}", sides=(scalar(a), scalar(b)))
        others = [scalar(f"{a} <=> {b}", sides=(scalar(b), scalar(a))), scalar(f"{a} < {b}")]
        chosen: Scalar = self.pick([equal, equal, equal, *others])
        return chosen

    def join(self, *inputs: Operator) -> Operator:
        inputs = (inputs[0], self.renamed(inputs[1]), self.scan())[: self.pick([2, 3])]
        return Join(inputs, tuple(self.compared(self.one(a), self.one(b)) for a, b in pairwise(inputs)))

    def left(self, left: Operator, right: Operator) -> Operator:
        right = self.renamed(right)
        return LeftJoin(left, right, self.pick(list(JoinType)), (self.compared(self.one(left), self.one(right)),))

    def union(self, *arms: Operator) -> Operator:
        arms = self.pick([arms, arms[:1] * 2])
        width = min(len(arm.columns) for arm in arms)
        cut = (Project(arm, tuple(Item(c.id, c.name, reference(c)) for c in arm.columns[:width])) for arm in arms)
        return union(" ".join(self.fresh() for _ in range(width)), *cut)

    def window(self, child: Operator) -> Operator:
        return self.read(window(child, self.fresh(), *self.pick([[], [self.one(child)], [*{ids(child)[0], self.one(child)}]])))

    def ranked(self, child: Operator) -> Operator:
        made, function, names = self.fresh(), self.pick(["row_number", "rank", "dense_rank"]), ids(child)
        of = self.pick([names, names[:1]]) if function != "row_number" else names
        order = tuple(Order(scalar(name), *self.pick([(True, True), (False, True), (True, False)])) for name in of)
        running = () if function == "dense_rank" else (Call(made, scalar("count(1)"), "Count"),)
        item = Item(made, made, scalar(f"{function}() OVER ()", ranks=True))
        tree: Operator = self.read(Window(child, (scalar(self.pick([names[0], self.one(child)])),), (item,), order, running))
        number = self.pick([made, made, made, self.one(tree)])
        form = self.pick(["{} = 1", "{} <= 2", "{} < 3", "{} = 2", ""])
        tree = Filter(tree, (scalar(form.format(number), bounded=form != "{} = 2"),)) if form else tree
        kept = [c for c in tree.columns if c.id != made] if self.pick([True, True, False]) else tree.columns
        return Project(tree, tuple(Item(c.id, c.name, reference(c)) for c in kept))

    def read(self, of: Window) -> Window:  # the partition and the order, as Spark's expressions do
        names = frozenset(name for each in (*of.partition, *(each.value for each in of.order)) for name in each.inputs)
        return replace(of, items=tuple(replace(item, value=replace(item.value, inputs=names)) for item in of.items))

    def top(self, child: Operator) -> Operator:
        return top(child, " ".join(ids(child)), self.pick([1, 2, None]), self.pick([0, 1]))


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_new_is_old_plus_delta(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)


def check(seed: int) -> None:
    """Compare the rows of a random tree after a random change with those before it and its delta."""
    random = Random(seed)
    pick: Callable[[Sequence[Any]], Any] = lambda values: values[random.randrange(len(values))]  # noqa: E731
    old, new = dict[str, list[Row]](), dict[str, list[Row]]()
    for table, names in TABLES.items():
        stay, gone, came = ([{name: pick([None, 1, 1, 2]) for name in names} for _ in range(pick(range(n)))] for n in (5, 3, 3))
        old[table], new[table] = stay + gone, stay + pick([came, came, gone])
    tree, small, stands = Maker(pick).tree(pick([1, 2, 2, 3])), pick([True, False]), pick([True, False])
    tree = pick([tree, normalise(tree)])
    before = World(old, old, {})
    stored: dict[str, list[Row]] = {BEFORE: rows(tree, before)}
    world, deltas = World(old, new, stored, netted=pick([True, False])), Deltas(CHANGED, {}, RULES, small)
    moved = delta_of_query(tree, deltas) if stands else deltas.of(tree)
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
    assert (bag(moved, world) if moved else {}) == minus(bag(tree, world), bag(tree, before)), f"seed {seed}"
    assert moved is None or ids(moved) == [*ids(tree), WEIGHT.id]
