"""Fixtures of the delta rules: files of cases, each a query, which of its tables change, and the SQL of its delta."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlglot import exp
from tests.unit.rule_sql import source, tree_of

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Aggregate, Operator, Project, Recursion, StoredRows
from streamtable.algebra.recursion import counted
from streamtable.algebra.render import render
from streamtable.algebra.sources import CLOCK, Snapshot, Source
from streamtable.algebra.trees import walk
from streamtable.differentiate import affected_groups
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.deltas import Deltas, Moved, Recursed, Shared
from streamtable.differentiate.registry import RULES, obstacle
from streamtable.differentiate.stored_before import delta_of_query
from streamtable.sql.builder import text

FOLDER = Path(__file__).parent / "fixtures/rules"
WIDTH = 110
_INSTANT = re.compile(r"ST_VALUE\('(\w+) time', 'TIMESTAMP'\)", re.IGNORECASE)
_UNUSED = re.compile(r" AS (input\d*|left_input|right_input)\b")
"""Names that the renderer gives to relations and never refers to."""


@dataclass(frozen=True)
class Case:
    """A case of the fixture `stem`. `changes` are the tables that change, `large` says that the change is not a small one."""

    stem: str
    name: str
    query: str
    changes: tuple[str, ...]
    large: bool
    expected: str

    def __str__(self) -> str:
        return f"{self.stem}: {self.name}"

    def written(self, expected: str) -> str:
        large = " (a large change)" if self.large else ""
        return f"-- {self.name}\n-- changes: {', '.join(self.changes)}{large}\n{self.query}\n----\n{expected}\n"


def read(path: Path) -> list[Case]:
    """Read the cases of a file, which blank lines part."""
    cases = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, _, expected = block.partition("\n----\n")
        name, changes, query = head.split("\n", 2)
        tables = changes.removeprefix("-- changes: ")
        large = tables.endswith(" (a large change)")
        changed = tuple(tables.removesuffix(" (a large change)").split(", "))
        cases.append(Case(path.stem, name.removeprefix("-- "), query, changed, large, expected))
    return cases


def delta_of(case: Case) -> str:
    """Write the delta of a case as SQL, one statement per step, or why its query has none."""
    tree = tree_of(case.query)
    if found := obstacle(tree):
        return f"-- refused: {found.operator}: {found.reason}"
    changed = frozenset(CLOCK if each == "the clock" else source(each) for each in case.changes)
    rules = RULES | ({Aggregate: affected_groups} if case.stem == "affected_groups" else {})
    stored = [counted(node) if isinstance(node, Recursion) else node for node in walk(tree)]
    kept = [] if case.stem == "affected_groups" else [node for node in stored if isinstance(node, Aggregate)]
    deltas = Deltas(changed, {node: f"groups{n or ''}" for n, node in enumerate(kept)}, rules, small=not case.large)
    root = delta_of_query(tree, deltas) if case.stem == "stored_before" else deltas.of(tree)
    writer = _Writer(frozenset(case.changes), case.stem == "aggregate")
    steps = list(writer.steps(deltas))
    if root is not None and not _stored_by(root, steps):
        steps.append(("delta", writer.sql(root)))
    if not steps:
        return "-- no change"
    return "\n".join(f"-- {name}\n{sql};" if len(steps) > 1 else f"{sql};" for name, sql in steps)


def _stored_by(root: Operator, steps: list[tuple[str, str]]) -> bool:
    """Tell whether the delta is nothing but what an aggregate's or a recursion's steps leave."""
    while isinstance(root, Project) and all(item.value.column for item in root.items):
        root = root.child
    return isinstance(root, StoredRows) and any(root.name.startswith(re.split("[_:]", name)[0]) for name, _ in steps)


@dataclass(frozen=True)
class _Writer:
    """Writes trees and steps; of an aggregate all of its queries, where it is `whole`, else only the first one."""

    changed: frozenset[str]
    whole: bool

    def __call__(self, of: Source | int, snapshot: Snapshot) -> str:
        """Name the rows of a table in one of its states."""
        if isinstance(of, int):
            return "constant"
        if of == CLOCK:
            return f"{snapshot.value} time"
        return f"{of.name}_{snapshot.value}" if of.name in self.changed else str(of.name)

    def sql(self, tree: Operator) -> str:
        return self.query(render(tree, self))

    def query(self, query: exp.Query) -> str:
        return written(query)

    def steps(self, deltas: Deltas) -> Iterator[tuple[str, str]]:
        for step in deltas.steps:
            match step:
                case Shared(name, tree):
                    yield name, self.sql(tree)
                case Moved(aggregate, change, child) if not isinstance(aggregate.child, Recursion):
                    moved = AggregateStep(deltas.arrangements[aggregate], aggregate, change, child)
                    yield from self.moved(moved) if self.whole else [(f"{moved.name}_partial", self.query(moved.partial(self)))]
                case Recursed(name, _, _, arriving, step_of_level):
                    yield f"{name}: rows that arrive at their levels", self.sql(arriving)
                    yield f"{name}: what a change of one level makes of the next", self.sql(step_of_level)

    def moved(self, step: AggregateStep) -> Iterator[tuple[str, str]]:
        yield f"{step.name}_partial", self.query(step.partial(self))
        yield f"{step.name}_merged", self.query(step.merge())
        if step.recomputes:
            yield f"{step.name}_affected", self.query(step.affected())
            yield f"{step.name}_recomputed", self.query(step.recomputed(self))
        yield f"{step.name}_moved", self.query(step.moved(again=step.recomputes))
        yield f"{step.name}_delta", self.query(step.delta())


def written(query: exp.Query) -> str:
    """Write a query for people: subqueries merged that only hand columns on, no quotes, broken at its clauses."""
    return "\n".join(_lines(_merged(query.copy())))


def _merged(node: exp.Expr) -> exp.Expr:
    """Merge, from the innermost out, what the renderer nests: it writes one SELECT per operator."""
    for each in list(node.iter_expressions()):
        if (merged := _merged(each)) is not each:
            each.replace(merged)
    match node:
        case exp.Select() if node.args.get("from_") and isinstance(node.args["from_"].this, exp.Subquery):
            return _inlined(node, node.args["from_"].this.this)
        case exp.Subquery(this=exp.Select() as inner) if _names_alone(inner) and isinstance(inner.args["from_"].this, exp.Table):
            return exp.Table(this=inner.args["from_"].this.this, alias=node.args.get("alias"))
        case exp.Alias(this=exp.Column() as of) if of.name == node.alias and not of.table:
            return of
        case exp.Paren(this=exp.Paren() | exp.Column() | exp.Predicate() as inner) if not isinstance(node.parent, exp.Is | exp.Not):
            return inner
    return node


def _inlined(outer: exp.Select, inner: exp.Expr) -> exp.Expr:
    """Put the expressions of `inner` in the place of its columns, where `outer` does nothing but select, and one of both is simple."""
    if set(_clauses_of(outer)) != {"expressions", "from_"} or any(each.find(exp.AggFunc, exp.Window) for each in outer.expressions):
        return outer
    names = [each.alias_or_name for each in outer.expressions]
    if isinstance(inner, exp.Union) and _names_alone(outer) and names == inner.named_selects:
        return inner
    if not isinstance(inner, exp.Select) or inner.args.get("distinct"):
        return outer
    made = {each.alias_or_name: each.unalias() for each in inner.expressions}
    items = []
    for name, item in zip(names, (each.unalias() for each in outer.expressions), strict=True):
        used = [made.get(c.name) for c in item.find_all(exp.Column)]
        if not isinstance(item, exp.Column) and not all(isinstance(each, (exp.Column, exp.Literal)) for each in used):
            return outer
        value = item.copy().transform(lambda n: made[n.name].copy() if isinstance(n, exp.Column) else n)
        items.append(value if isinstance(value, exp.Column) and value.name == name else exp.alias_(value, name))
    merged = inner.copy()
    merged.set("expressions", items)
    return merged


def _clauses_of(query: exp.Expr) -> list[str]:
    return [name for name, value in query.args.items() if value]


def _names_alone(query: exp.Select) -> bool:
    """Tell whether a query does nothing but name columns."""
    return set(_clauses_of(query)) == {"expressions", "from_"} and all(isinstance(each, exp.Column) for each in query.expressions)


def _plain(node: exp.Expr) -> str:
    sql = text(node).replace("`", "").replace(WEIGHT.id, "weight").replace(" IS NOT DISTINCT FROM ", " <=> ").replace(" ASC", "")
    return _UNUSED.sub("", _INSTANT.sub(r"\1_time", sql))


def _lines(node: exp.Expr) -> list[str]:
    line = _plain(node)
    if len(line) <= WIDTH:
        return [line]
    match node:
        case exp.Union(this=first, expression=second):
            return [*_lines(first), "UNION ALL", *_lines(second)]
        case exp.Subquery(this=inner):
            return ["(", *(f"  {each}" for each in _lines(inner)), _UNUSED.sub("", f") AS {node.alias}")]
        case exp.Select():
            return list(_clauses(node))
    return _broken(line)


def _broken(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _clauses(query: exp.Select) -> Iterator[str]:
    yield from _wrapped("SELECT ", [_plain(each) for each in query.expressions])
    for of in (query.args["from_"], *(query.args.get("joins") or ())):
        relation = _lines(of.this)
        name = " ".join(part for part in (of.side, of.kind, "JOIN") if part) if isinstance(of, exp.Join) else "FROM"
        condition = of.args.get("on")
        on = f" ON {_plain(condition)}" if condition else ""
        last = f"{name} {relation[0]}" if len(relation) == 1 else relation[-1]
        yield from [f"{name} {relation[0]}", *relation[1:-1]] if len(relation) > 1 else []
        yield from [last, f"  {on.strip()}"] if on and len(last + on) > WIDTH else [last + on]
    for clause in ("laterals", "where", "group", "order", "limit", "offset"):
        found = query.args.get(clause)
        for each in found if isinstance(found, list) else [found] if found else []:
            yield from _broken(_plain(each).strip())


def _wrapped(head: str, items: list[str]) -> Iterator[str]:
    line = head + items[0]
    for item in items[1:]:
        if len(line) + len(item) + 2 > WIDTH:
            yield f"{line},"
            line = " " * 7 + item
        else:
            line += f", {item}"
    yield line
