"""From the JSON of the shim's PlanReader to the algebra."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from streamtable.algebra.columns import NOW, Call, Column, Item, Order, Scalar, itself
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
from streamtable.algebra.orders import is_open, is_sorted, takes_order
from streamtable.algebra.set_operations import set_operation
from streamtable.algebra.sources import Source
from streamtable.errors import InvalidQuery
from streamtable.sql.builder import cast, column, number, string

__all__ = ["BoundQuery", "read_plan"]

_BY_CHANCE = ("Sample", "GlobalLimit", "LocalLimit", "Offset", "Tail")
"""Operators of Spark that no rule reads, and that choose among rows: an order that decides is not looked for."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class BoundQuery:
    """A query after analysis: its tree, the tables and views that it reads, and its `unversioned` parts.

    `unversioned` parts change without a new version of a table. `functions` are the catalog's functions whose text is in the tree.
    `columns` are the columns of the tables that `*` and the like meant, `texts` the digests of views and functions by name:
    both are JSON objects.
    `used` is a JSON array: for each table the columns that the query mentions, as people read them.
    `clock` says which part of the clock the query reads: none (""), the "date", or the "instant".
    """

    id: str
    tree: Operator
    sources: tuple[Source, ...]
    unversioned: tuple[str, ...]
    views: tuple[str, ...]
    temporary_views: tuple[str, ...]
    functions: tuple[str, ...] = ()
    clock: str = ""
    columns: str = "{}"
    texts: str = "{}"
    used: str = "[]"


def read_plan(text: str, reading: str) -> BoundQuery:
    """Build the tree of the PlanReader's JSON `text`. Raises InvalidQuery for one that reads a stream.

    The shim keeps the plan's expressions under the name `reading`.
    """
    document = json.loads(text)
    tree = _Reader(reading).operator(document["plan"])
    for obstacle in document.get("obstacles", ()):
        tree = Unsupported(obstacle["name"], (tree,), tree.columns, obstacle["reason"])
    sources = tuple(Source(each["path"], each.get("table")) for each in document["sources"])
    views, temporary = tuple(document["views"]), tuple(document["temporary_views"])
    functions = tuple(document["functions"])
    return BoundQuery(reading, tree, sources, tuple(document["unversioned"]), views, temporary, functions, document["clock"])


@dataclass(frozen=True)
class _Reader:
    reading: str

    def operator(self, node: Json) -> Operator:
        match node["op"]:
            case "Relation":
                return Scan(Source(node["path"], node.get("table")), self.columns(node))
            case "Constant":
                return Constant(node["leaf"], self.columns(node))
            case "Project":
                return Project(self.child(node), self.items(node["list"]))
            case "Filter":
                return Filter(self.child(node), self.scalars(node["conjuncts"]))
            case "Join":
                return self.join(node)
            case "Aggregate":
                return self.aggregate(node)
            case "Distinct":
                child = self.child(node)
                keys = tuple(itself(c) for c in child.columns)
                return Aggregate(child, keys, ())
            case "Generate":
                generated = tuple(self.column(c) for c in node["generated"])
                child = Generate(self.child(node), self.scalar(node["generator"]), node["outer"], generated)
                return self.selected(child, node)
            case "Union":
                return UnionAll(self.inputs(node), self.columns(node))
            case "Intersect" | "Except":
                left, right = self.inputs(node)
                return set_operation(left, right, self.columns(node), node["op"] == "Intersect", node["all"])
            case "Expand":
                projections = tuple(self.scalars(each) for each in node["projections"])
                return Expand(self.child(node), projections, self.columns(node))
            case "Window":
                running = tuple(self.call(call) for call in node["running"])
                parts = self.scalars(node["partition"]), self.items(node["list"]), self.order(node["order"])
                return Window(self.child(node), *parts, running)
            case "Recursion":
                anchor, step = self.inputs(node)
                return Recursion(_loop(node), anchor, step, self.columns(node), node.get("most"))
            case "WorkingTable":
                return WorkingTable(_loop(node), self.columns(node))
            case "Limit":
                return self.limit(node, node["children"][0])
            case "Sort":  # a bag has no order; an order that decides about rows stands under a LIMIT
                return self.child(node)
            case _ if node.get("streaming"):
                hint = "name the table itself, without STREAM: its changes are read anyway"
                raise InvalidQuery("the query reads a stream, of which no refresh could read all rows", hint=hint)
            case _ if source := node.get("source"):
                return self.unsupported(node, f"source {source} is not a Delta table: it has no change history", "Scan")
            case name if not node.get("children"):
                return self.unsupported(node, f"{name} is no Delta table, so it has no change history")
            case name:
                return self.unsupported(node, f"{name} has no delta rule yet", left_open=name in _BY_CHANCE)

    def unsupported(self, node: Json, reason: str, name: str | None = None, left_open: bool = False) -> Unsupported:
        return Unsupported(name or node["op"], self.inputs(node), self.columns(node), reason, left_open)

    def join(self, node: Json) -> Operator:
        """Read a join; RIGHT, FULL and existence joins are composed of left outer, semi and anti joins."""
        left, right = self.inputs(node)
        conjuncts = self.scalars(node["conjuncts"])
        match node["how"]:
            case "INNER" | "CROSS":
                return Join((left, right), conjuncts)
            case "LEFT OUTER":
                return LeftJoin(left, right, JoinType.LEFT_OUTER, conjuncts)
            case "LEFT SEMI":
                return LeftJoin(left, right, JoinType.LEFT_SEMI, conjuncts)
            case "LEFT ANTI":
                return LeftJoin(left, right, JoinType.LEFT_ANTI, conjuncts)
            case "RIGHT OUTER":
                return self.selected(LeftJoin(right, left, JoinType.LEFT_OUTER, conjuncts), node)
            case "FULL OUTER":
                matched = LeftJoin(left, right, JoinType.LEFT_OUTER, conjuncts)
                alone = LeftJoin(right, left, JoinType.LEFT_ANTI, conjuncts)
                nulls = tuple(Item(c.id, c.name, self.constant(cast(exp.null(), c.type), c.type)) for c in left.columns)
                padded = Project(alone, (*nulls, *(itself(c) for c in right.columns)))
                return UnionAll((matched, padded), self.columns(node))
            case "EXISTENCE":
                exists = self.column(node["exists"])
                arms = []
                for join_type, value in ((JoinType.LEFT_SEMI, exp.true()), (JoinType.LEFT_ANTI, exp.false())):
                    kept = LeftJoin(left, right, join_type, conjuncts)
                    items = (*(itself(c) for c in left.columns), self.flag(exists, value))
                    arms.append(Project(kept, items))
                return UnionAll(tuple(arms), (*left.columns, exists))
            case "LEFT SINGLE":
                reason = "it may give several rows and is compared by more than equality: aggregate it, as with max or any_value"
                return self.unsupported(node, reason, "Correlated scalar subquery")
            case how:
                return self.unsupported(node, f"a {how} join has no delta rule", f"{how} JOIN")

    def flag(self, exists: Column, value: exp.Expr) -> Item:
        return Item(exists.id, exists.name, self.constant(value, "BOOLEAN", nullable=False))

    def constant(self, value: exp.Expr, spark_type: str, nullable: bool = True) -> Scalar:
        return Scalar(value, spark_type, nullable, value.sql(), frozenset())

    def selected(self, operator: Operator, node: Json) -> Operator:
        return Project(operator, tuple(itself(c) for c in self.columns(node)))

    def limit(self, node: Json, below: Json) -> Operator:
        """Read LIMIT; its ORDER BY may stand below projections, which keep the order. LIMIT 0 takes no row, whatever the order."""
        if node.get("count") == 0:
            return Filter(self.operator(below), (self.constant(exp.false(), "BOOLEAN", nullable=False),))
        if below["op"] == "Project":
            return Project(self.limit(node, below["children"][0]), self.items(below["list"]))
        if below["op"] != "Sort" or below.get("within_partitions") or node.get("shuffled"):
            reason = "which rows LIMIT takes is left open without ORDER BY: they would be others each time"
            return self.unsupported(node, reason, left_open=True)
        if below["open"]:
            names = ", ".join(c["name"] for c in below["open"])
            reason = f"which of equal rows LIMIT takes is left open: rows cannot be ordered by {names}"
            return self.unsupported(node, reason, left_open=True)
        return TopK(self.child(below), self.order(below["order"]), node.get("count"), node["offset"])

    def order(self, nodes: list[Json]) -> tuple[Order, ...]:
        return tuple(Order(self.scalar(each["value"]), each["ascending"], each["nulls_first"]) for each in nodes)

    def inputs(self, node: Json) -> tuple[Operator, ...]:
        return tuple(self.operator(child) for child in node.get("children", ()))

    def child(self, node: Json) -> Operator:
        return self.operator(node["children"][0])

    def columns(self, node: Json) -> tuple[Column, ...]:
        columns = [self.column(c) for c in node["output"]]
        return tuple(replace(c, id=id_) for c, id_ in zip(columns, _apart([c.id for c in columns]), strict=True))

    def column(self, node: Json) -> Column:
        return Column(node["id"], node["name"], node["type"], node["nullable"])

    def items(self, nodes: list[Json]) -> tuple[Item, ...]:
        ids = _apart([node["id"] for node in nodes])
        return tuple(Item(id_, node["name"], self.scalar(node["value"])) for id_, node in zip(ids, nodes, strict=True))

    def scalars(self, nodes: list[Json]) -> tuple[Scalar, ...]:
        return tuple(self.scalar(node) for node in nodes)

    def scalar(self, node: Json) -> Scalar:
        if "column" in node:
            return Scalar(column(node["column"]), node["type"], node["nullable"], node["text"], frozenset({node["column"]}))
        return Scalar(
            self.original(node),
            node["type"],
            node["nullable"],
            node["text"],
            frozenset(node["inputs"]) - {NOW.id},
            deterministic=node["deterministic"],
            clock=node.get("clock", False),
            subqueries=(*node["subqueries"], *(("OuterReference",) if node.get("outer") else ())),
            open=node.get("open", False),
            rounds=node.get("rounds", False),
            fails=node.get("fails", False),
            tells=tuple(node.get("tells", ())),
            ranks=node.get("ranks", False),
            bounded=node.get("bounded", False),
            unshown=tuple(node.get("unshown", ())),
            sides=(self.scalar(sides[0]), self.scalar(sides[1])) if (sides := node.get("sides")) else None,
        )

    def original(self, node: Json, arguments: tuple[exp.Expr, ...] | None = None) -> exp.Expr:
        """Spell Spark's own expression: `st_expr(reading, number, inputs...)`."""
        inputs = [column(name) for name in node["inputs"]] if arguments is None else list(arguments)
        return exp.Anonymous(this="st_expr", expressions=[string(self.reading), number(node["number"]), *inputs])

    def aggregate(self, node: Json) -> Operator:
        keys = self.items(node["keys"])
        ordered = [call["text"] for call in node["calls"] if takes_order(call)]
        if ordered and is_sorted(node["children"][0]):
            reason = (
                f"{', '.join(ordered)} takes its rows in the order of ORDER BY below: write max_by, min_by or an order of its own"
            )
            return self.unsupported(node, reason, left_open=any(map(_is_open, node["calls"])))
        grouped = Aggregate(self.child(node), keys, tuple(self.call(call) for call in node["calls"]))
        return Project(grouped, self.items(node["list"]))

    def call(self, node: Json) -> Call:
        finish = node.get("finish")
        return Call(
            node["id"],
            self.scalar(node),
            node["function"],
            self.scalars(node["arguments"]),
            distinct=node["distinct"],
            filter=self.scalar(node["filter"]) if node.get("filter") else None,
            finish=self.original(finish) if finish else None,
            state=tuple(self.column(c) for c in finish["state"]) if finish else (),
            null_on_overflow=node.get("overflow") == "NULL",
            other_mode=node.get("overflow") == "OTHER",
            any_order=node.get("any_order", False),
        )


def _is_open(call: Json) -> bool:
    return is_open(call["function"], call["text"], call.get("any_order", False))


def _loop(node: Json) -> Source:
    return Source(node["loop"], "the recursion")


def _apart(ids: list[str]) -> list[str]:
    """Give the columns of an attribute that is projected more than once ids of their own; references mean the first."""
    return [f"{name}_{n}" if (n := ids[:at].count(name)) else name for at, name in enumerate(ids)]
