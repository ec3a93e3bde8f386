"""The fixtures of the delta rules as text: SQL of a query into a tree of the algebra, and the tree's delta into SQL.

The reader knows as much SQL as the fixtures need, over the tables of `TABLES`. In a session, Spark analyses the query instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp, parse_one

from streamtable.algebra.columns import NOW, Call, Column, Item, Order, Scalar, itself, reference
from streamtable.algebra.normalise import normalise
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
    Unsupported,
    Window,
    WorkingTable,
)
from streamtable.algebra.sources import Source
from streamtable.sql.builder import column

__all__ = ["TABLES", "source", "tree_of"]

TABLES = {
    "orders": {"order_id": "INT", "customer": "INT", "amount": "INT", "placed": "TIMESTAMP"},
    "customers": {"id": "INT", "country": "STRING"},
    "payments": {"paid_order": "INT", "paid": "INT"},
    "baskets": {"basket": "INT", "products": "ARRAY<INT>"},
    "folders": {"folder": "INT", "parent": "INT"},
}
_FUNCTIONS: dict[type, str] = {exp.Count: "Count", exp.Sum: "Sum", exp.Min: "Min", exp.Max: "Max", exp.RowNumber: "Count"}
_FUNCTIONS |= {exp.ArgMax: "MaxBy", exp.ArgMin: "MinBy"}
_JOINS = {"LEFT": JoinType.LEFT_OUTER, "SEMI": JoinType.LEFT_SEMI, "ANTI": JoinType.LEFT_ANTI}
_CHOOSING = (exp.Min, exp.Max, exp.ArgMax, exp.ArgMin)
_AGGREGATES = (exp.Count, exp.Sum, *_CHOOSING)


def source(name: str) -> Source:
    return Source(f"/{name}", name)


def tree_of(sql: str) -> Operator:
    """Read a query and normalise its tree, as a session does."""
    return normalise(_Reader().query(parse_one(sql, dialect="spark")))


Scope = dict[str, dict[str, Column]]
"""The columns that can be named in a query, by relation and name."""


@dataclass
class _Reader:
    loops: dict[str, WorkingTable] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def query(self, node: exp.Expr) -> Operator:
        if with_ := node.args.get("with_"):
            (recursion,) = with_.expressions
            node = node.copy()
            node.set("with_", None)
            return self.recursive(recursion, node)
        match node:
            case exp.Union(this=first, expression=second):
                inputs = (self.query(first), self.query(second))
                return UnionAll(inputs, inputs[0].columns)
            case exp.Subquery(this=inner):
                return self.query(inner)
            case exp.Select():
                return self.select(node)
        raise TypeError(f"no tree for {node.sql()}")

    def recursive(self, cte: exp.Expr, rest: exp.Expr) -> Operator:
        """Read WITH RECURSIVE name AS (anchor UNION ALL step) SELECT * FROM name."""
        anchor = self.query(cte.this.this)
        loop = Source(cte.alias, cte.alias)
        self.loops[cte.alias] = WorkingTable(loop, tuple(replace(c, id=f"{c.id}_before") for c in anchor.columns))
        step = self.query(cte.this.expression)
        return Recursion(loop, anchor, step, tuple(replace(c, id=f"{c.id}_found") for c in anchor.columns))

    def select(self, node: exp.Select) -> Operator:
        child, scope = self.relations(node)
        if where := node.args.get("where"):
            child = Filter(child, self.conjuncts(where.this, scope))
        for lateral in node.args.get("laterals") or ():
            generated = tuple(Column(each.name, each.name, "INT") for each in lateral.args["alias"].columns)
            child = Generate(child, self.scalar(lateral.this, scope), bool(lateral.args.get("outer")), generated)
            scope = {**scope, lateral.alias: {c.name: c for c in generated}}
        items = list(self.items(node, child, scope))
        if node.args.get("group") or any(isinstance(item.value.sql, _AGGREGATES) for item in items):
            child = self.aggregate(node, child, items, scope)
        elif any(isinstance(item.value.sql, exp.Window) for item in items):
            child = self.window(child, items, scope)
        computed = tuple(itself(item.output) if isinstance(item.value.sql, (exp.Window, *_AGGREGATES)) else item for item in items)
        child = Project(child, computed) if [item.output for item in computed] != list(child.columns) else child
        if node.args.get("distinct"):
            child = Aggregate(child, tuple(map(itself, child.columns)), ())
        return self.limited(node, child)

    def items(self, node: exp.Select, child: Operator, scope: Scope) -> Iterator[Item]:
        for each in node.expressions:
            if isinstance(each, exp.Star):
                yield from map(itself, child.columns)
                continue
            value = self.scalar(each.unalias(), scope)
            yield Item(each.alias_or_name if value.column is None or each.alias else value.column, each.alias_or_name, value)

    def limited(self, node: exp.Select, child: Operator) -> Operator:
        order, limit = node.args.get("order"), node.args.get("limit")
        if limit is None:
            return child
        scope = {"": {c.name: c for c in child.columns}}
        return TopK(child, self.ordered(order, scope), int(limit.expression.name), 0)

    def ordered(self, order: exp.Expr | None, scope: Scope) -> tuple[Order, ...]:
        found = []
        for each in order.expressions if order else ():
            down = bool(each.args.get("desc"))
            found.append(Order(self.scalar(each.this, scope), not down, not down))
        return tuple(found)

    def aggregate(self, node: exp.Select, child: Operator, items: list[Item], scope: Scope) -> Operator:
        group = node.args.get("group") or exp.Group()
        sets_of = [each for each in group.expressions if isinstance(each, exp.GroupingSets)]
        keys = tuple(itself(self.scalar_column(each, scope)) for each in group.expressions if each not in sets_of)
        for sets in sets_of:
            named = [[each.name for each in s.find_all(exp.Column)] for s in sets.expressions]
            child, keys = self.expand(child, [c.id for c in child.columns if any(c.id in each for each in named)], named)
        calls = tuple(self.call(item, scope) for item in items if isinstance(item.value.sql, _AGGREGATES))
        return Aggregate(child, keys, calls)

    def expand(self, child: Operator, keys: list[str], sets: list[list[str]]) -> tuple[Operator, tuple[Item, ...]]:
        """Repeat each row once per grouping set, keys outside the set as NULL, with the number of the set."""
        rows = []
        for n, kept in enumerate(sets):
            values = [_null(c) if c.id in keys and c.id not in kept else reference(c) for c in child.columns]
            rows.append((*values, Scalar(exp.Literal.number(n), "INT", False, str(n), frozenset())))
        number = Column("grouping_id", "grouping_id", "INT", nullable=False)
        expanded = Expand(child, tuple(rows), (*child.columns, number))
        return expanded, tuple(itself(c) for c in expanded.columns if c.id in keys or c == number)

    def window(self, child: Operator, items: list[Item], scope: Scope) -> Window:
        made = [item for item in items if isinstance(item.value.sql, exp.Window)]
        spec = made[0].value.sql
        partition = tuple(self.scalar(each, scope) for each in spec.args.get("partition_by") or ())
        order = self.ordered(spec.args.get("order"), scope)
        running = []
        for item in made if order else ():
            called = item.value.sql.this
            counted = Scalar(exp.Anonymous(this="count", expressions=[exp.Literal.number(1)]), "BIGINT", False, "", frozenset())
            value = counted if isinstance(called, exp.RowNumber) else self.scalar(called, scope)
            running.append(replace(self.call(replace(item, value=value), scope), function=_FUNCTIONS[type(called)]))
        return Window(child, partition, tuple(made), order, tuple(running))

    def call(self, item: Item, scope: Scope) -> Call:
        sql = item.value.sql
        named = (sql.this, sql.args.get("expression")) if isinstance(sql, _AGGREGATES) else ()
        arguments = tuple(self.scalar(each, scope) for each in named if each is not None and not isinstance(each, exp.Star))
        return Call(item.id, item.value, _FUNCTIONS.get(type(sql), ""), arguments)

    def relations(self, node: exp.Select) -> tuple[Operator, Scope]:
        from_ = node.args.get("from_")
        if from_ is None:
            return Constant(0, (Column("one", "one", "INT"),)), {}
        child, scope = self.relation(from_.this)
        for each in node.args.get("joins") or ():
            other, more = self.relation(each.this)
            scope = {**scope, **more}
            conjuncts = self.conjuncts(each.args.get("on"), scope)
            join_type = _JOINS.get(each.kind if each.kind in _JOINS else each.side)
            child = LeftJoin(child, other, join_type, conjuncts) if join_type else Join((child, other), conjuncts)
        return child, scope

    def relation(self, node: exp.Expr) -> tuple[Operator, Scope]:
        if isinstance(node, exp.Subquery):
            child = self.query(node.this)
        elif isinstance(node, exp.Values):
            child = Constant(0, tuple(Column(each.name, each.name, "INT") for each in node.args["alias"].columns))
        elif node.name in self.loops:
            child = self.loops[node.name]
        elif node.name not in TABLES:
            return Unsupported("Scan", (), (), f"source {node.name} is not a Delta table: it has no change history"), {}
        else:
            named = TABLES[node.name].items()
            child = Scan(source(node.name), tuple(Column(self.id(name, node.alias_or_name), name, type_) for name, type_ in named))
        return child, {node.alias_or_name: {c.name: c for c in child.columns}}

    def id(self, name: str, alias: str) -> str:
        """Return an id that no other column has: two readings of one table have different columns."""
        id_ = f"{alias}_{name}" if name in self.taken else name
        self.taken.add(id_)
        return id_

    def conjuncts(self, condition: exp.Expr | None, scope: Scope) -> tuple[Scalar, ...]:
        parts = condition.flatten() if isinstance(condition, exp.And) else [condition] if condition else []
        return tuple(self.scalar(each, scope) for each in parts)

    def scalar_column(self, node: exp.Expr, scope: Scope) -> Column:
        found = [c for relation, named in scope.items() for name, c in named.items() if name == node.name]
        of = scope.get(node.args["table"].name, {}) if node.args.get("table") else {}
        return of.get(node.name) or found[0]

    def scalar(self, node: exp.Expr, scope: Scope) -> Scalar:
        """Read an expression: columns under their ids, the clock as the column `NOW`."""
        inputs: list[Column] = []

        def named(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.CurrentTimestamp):
                return column(NOW.id)
            if not isinstance(each, exp.Column):
                return each
            inputs.append(self.scalar_column(each, scope))
            return column(inputs[-1].id)

        sql = node.copy().transform(named)
        only = inputs[0] if isinstance(sql, exp.Column) and inputs else None
        typed = inputs[0].type if isinstance(sql, _CHOOSING) and inputs else _type(node)
        return Scalar(
            sql,
            only.type if only else typed,
            only.nullable if only else not isinstance(node, exp.Count),
            node.sql(dialect="spark"),
            frozenset(c.id for c in inputs),
            deterministic=node.find(exp.Rand) is None,
            clock=node.find(exp.CurrentTimestamp) is not None,
            subqueries=("scalar subquery",) if node.find(exp.Subquery) else (),
            sides=(self.scalar(node.this, scope), self.scalar(node.expression, scope)) if isinstance(node, exp.EQ) else None,
            fails=node.find(exp.Div) is not None,
            ranks=isinstance(node, exp.Window) and isinstance(node.this, (exp.RowNumber, exp.Rank, exp.DenseRank)),
            bounded=isinstance(node, (exp.EQ, exp.LTE)) and node.expression == exp.Literal.number(1),
        )


def _type(node: exp.Expr) -> str:
    if isinstance(node, exp.Predicate):
        return "BOOLEAN"
    return "BIGINT" if isinstance(node.this if isinstance(node, exp.Window) else node, (exp.Count, exp.Sum)) else "INT"


def _null(of: Column) -> Scalar:
    return Scalar(exp.Cast(this=exp.null(), to=exp.Var(this=of.type)), of.type, True, "NULL", frozenset())
