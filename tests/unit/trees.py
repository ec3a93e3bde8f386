"""Trees of the algebra by hand, what they look like at a glance, and what they mean.

`bag` evaluates a tree over small Python tables. It knows nothing of SQL or of the rules, so that a rule is held to its identity
(new = old + delta) and not to the shape that it happens to have today.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sqlglot import exp, parse_one

from streamtable.algebra.columns import NOW, WEIGHT, Call, Column, Item, Order, Scalar
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
    SemiJoin,
    StoredRows,
    TopK,
    UnionAll,
    Window,
    WorkingTable,
)
from streamtable.algebra.sources import Snapshot, Source

Row = dict[str, Any]
Place = list[tuple[bool, Any]]


def columns(names: str) -> tuple[Column, ...]:
    """Return INT columns whose ids are their names."""
    return tuple(Column(name, name, "INT") for name in names.split())


def source(table: str) -> Source:
    return Source(f"/{table}", table)


def scan(table: str, names: str, **aliases: str) -> Scan:
    """Read columns of a table under their own names as ids, or under those that `aliases` gives them (id=name)."""
    renamed = tuple(Column(id_, name, "INT") for id_, name in aliases.items())
    return Scan(source(table), (*columns(names), *renamed))


def scalar(sql: str, **flags: Any) -> Scalar:
    """Read an expression over columns; `flags` are the fields of Scalar that make a rule refuse it."""
    parsed = parse_one(sql, dialect="spark")
    assert isinstance(parsed, exp.Expr)
    inputs = frozenset(found.name for found in parsed.find_all(exp.Column))
    return replace(Scalar(parsed, "INT", True, sql, inputs - {NOW.id}, clock=NOW.id in inputs), **flags)


def project(child: Operator, **items: str) -> Project:
    return Project(child, tuple(Item(id_, id_, scalar(sql)) for id_, sql in items.items()))


def kept(child: Operator, names: str) -> Project:
    """Keep columns as they are, in the order of `names`."""
    return project(child, **{name: name for name in names.split()})


def join(*inputs: Operator, on: str = "") -> Join:
    return Join(inputs, tuple(_conjuncts(on)))


def left_join(left: Operator, right: Operator, join_type: JoinType, on: str = "") -> LeftJoin:
    return LeftJoin(left, right, join_type, tuple(_conjuncts(on)))


def _conjuncts(on: str) -> Iterator[Scalar]:
    """Read conjuncts; equalities tell what they compare, as the reading does."""
    for each in on.split(" AND ") if on else ():
        sides = [scalar(side) for side in each.split(" = ")]
        yield scalar(each, sides=tuple(sides) if len(sides) == 2 else None)


def union(names: str, *inputs: Operator) -> UnionAll:
    return UnionAll(inputs, columns(names))


def window(child: Operator, made: str, *partition: str) -> Window:
    """Count the rows of each partition: what `rows` takes every window function for."""
    return Window(child, tuple(map(scalar, partition)), (Item(made, made, scalar("count(1)")),))


def running(child: Operator, made: str, order: Order, *partition: str) -> Window:
    """Count the rows of each partition that do not come after the row."""
    return replace(window(child, made, *partition), order=(order,), running=(Call(made, scalar("count(1)"), "Count"),))


def ranked(child: Operator, made: str, function: str, order: tuple[Order, ...], *partition: str) -> Window:
    """Number the rows of each partition by row_number, rank or dense_rank."""
    item = Item(made, made, scalar(f"{function}() OVER ()", ranks=True))
    return Window(child, tuple(map(scalar, partition)), (item,), order, (Call(made, scalar("count(1)"), "Count"),))


def top(child: Operator, order: str, count: int | None, offset: int = 0) -> TopK:
    return TopK(child, tuple(Order(scalar(name), ascending=True, nulls_first=True) for name in order.split()), count, offset)


def expand(child: Operator, made: str, *projections: str) -> Expand:
    """Repeat each row once per projection, whose expressions are parted by blanks."""
    return Expand(child, tuple(tuple(map(scalar, each.split())) for each in projections), columns(made))


def explode(child: Operator, generator: str, generated: str, outer: bool = False) -> Generate:
    return Generate(child, scalar(generator), outer, columns(generated))


def count_by(child: Operator, **keys: str) -> Aggregate:
    """Count the rows by keys (id=expression)."""
    items = tuple(Item(id_, id_, scalar(sql)) for id_, sql in keys.items())
    return Aggregate(child, items, (Call("n", scalar("count(1)"), "Count"),))


def look(operator: Operator) -> str:
    """Draw a tree in one line: sources with their form, joins and unions with their inputs; what only renames is left out."""
    match operator:
        case Project(child, items) if all(item.value.column for item in items):
            return look(child)
        case Scan(source=of, snapshot=snapshot):
            return f"{snapshot.value} {of}"
        case StoredRows(name):
            return name
        case Constant(leaf):
            return f"constant {leaf}"
        case Join(inputs) | UnionAll(inputs):
            return f"{type(operator).__name__}({', '.join(map(look, inputs))})"
        case LeftJoin(left, right, join_type):
            return f"{join_type.name}({look(left)}, {look(right)})"
        case SemiJoin(child, _, keys):
            return f"SemiJoin({look(child)} by {' '.join(keys)})"
        case Filter(child) | Project(child) | Aggregate(child) | Generate(child) | Window(child) | TopK(child) | Expand(child):
            return f"{type(operator).__name__}({look(child)})"
        case _:
            return type(operator).__name__


def ids(operator: Operator) -> list[str]:
    return [column.id for column in operator.columns]


@dataclass(frozen=True)
class World:
    """What the tables hold at the frontier (`old`) and at the target (`new`), what is stored under a name, and both instants.

    The change of a table is all that was there and all that is; or, `netted`, without what is the same.
    """

    old: Mapping[str, list[Row]]
    new: Mapping[str, list[Row]]
    stored: Mapping[str, list[Row]]
    clock: tuple[int, int] = (1, 1)
    netted: bool = False

    def read(self, operator: Scan) -> list[Row]:
        table = str(operator.source)
        if operator.snapshot is not Snapshot.CHANGE:
            return (self.new if operator.snapshot is Snapshot.TARGET else self.old)[table]
        old, new = list(self.old[table]), list(self.new[table])
        for row in list(old) if self.netted else ():
            if row in new:
                old.remove(row)
                new.remove(row)
        return [*({**row, WEIGHT.name: -1} for row in old), *({**row, WEIGHT.name: 1} for row in new)]

    def now(self, at: Snapshot) -> Row:
        return {NOW.id: self.clock[at is Snapshot.TARGET]}


def bag(operator: Operator, world: World) -> Counter[tuple[Any, ...]]:
    """Return the rows of a tree, in the order of its columns, with their net multiplicities; a Z-set's by their weights."""
    found: Counter[tuple[Any, ...]] = Counter()
    wanted = [name for name in ids(operator) if name != WEIGHT.id]
    for row in rows(operator, world):
        found[tuple(row[name] for name in wanted)] += row.get(WEIGHT.id, 1)
    return Counter({row: count for row, count in found.items() if count})


def minus(left: Counter[tuple[Any, ...]], right: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Subtract, keeping what is negative."""
    return Counter({row: left[row] - right[row] for row in left | right if left[row] != right[row]})


def rows(operator: Operator, world: World) -> list[Row]:
    """Evaluate a tree; a Z-set's rows have their weights."""
    match operator:
        case Scan(columns=wanted):
            return [{c.id: row[c.name] for c in wanted} for row in world.read(operator)]
        case StoredRows(name, wanted):
            return [{c.id: row[c.id] for c in wanted} for row in world.stored[name]]
        case WorkingTable(loop):
            return [dict(zip(ids(operator), row.values(), strict=True)) for row in world.stored[loop.path]]
        case Recursion(_, anchor):
            return [row for level in levels(operator, rows(anchor, world), world) for row in level]
        case Filter(child, conjuncts, at):
            return [row for row in rows(child, world) if _kept([row | world.now(at)], conjuncts)]
        case Project(child, items, at):
            return [{item.id: _value(item.value.sql, row | world.now(at)) for item in items} for row in rows(child, world)]
        case Join(inputs, conjuncts):
            sides = [rows(child, world) for child in inputs]
            return _kept([{k: v for row in combined for k, v in row.items()} for combined in product(*sides)], conjuncts)
        case LeftJoin(left, right, join_type, conjuncts):
            return _left_joined(rows(left, world), rows(right, world), ids(right), join_type, conjuncts)
        case Aggregate(child, keys, calls):
            groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
            for row in rows(child, world):
                groups.setdefault(tuple(_value(key.value.sql, row) for key in keys), []).append(row)
            names = ids(operator)
            return [
                dict(zip(names, (*group, *(_called(each.value.sql, found) for each in calls)), strict=True))
                for group, found in groups.items()
            ]
        case SemiJoin(child, affected, keys):
            found = {tuple(row[key] for key in keys) for row in rows(affected, world)}
            return [row for row in rows(child, world) if tuple(row[key] for key in keys) in found]
        case UnionAll(inputs, wanted):
            return [
                {out.id: row[c.id] for c, out in zip(child.columns, wanted, strict=True)}
                for child in inputs
                for row in rows(child, world)
            ]
        case Expand(child, projections, wanted):
            names = [c.id for c in wanted]
            return [
                {name: _value(each.sql, row) for name, each in zip(names, projection, strict=True)}
                for row in rows(child, world)
                for projection in projections
            ]
        case Window(child, partition, (item,), order):
            placed = [
                (row, [_value(key.sql, row) for key in partition], [_place(each, row) for each in order])
                for row in rows(child, world)
            ]
            return [
                {**row, item.id: _numbered(item.value.sql, at, [there for _, others, there in placed if others == keys], placed)}
                for at, (row, keys, _) in enumerate(placed)
            ]
        case TopK(child, order, count, offset):
            ordered = sorted(rows(child, world), key=lambda row: [_place(each, row) for each in order])
            return ordered[offset : None if count is None else offset + count]
        case Generate(child, generator, outer, (made,)):
            made_of = [(row, _value(generator.sql, row)) for row in rows(child, world)]
            return [{**row, made.id: each} for row, values in made_of for each in values or ([None] if outer else [])]
        case _:
            raise TypeError(f"no meaning for {look(operator)}")


def _numbered(sql: exp.Expr, at: int, partition: list[Place], placed: list[tuple[Row, list[Any], Place]]) -> int:
    """Return the number of the row `at` among the places of its partition: its rank, or how many do not come after it."""
    _, keys, here = placed[at]
    match sql.this if isinstance(sql, exp.Window) else None:
        case exp.RowNumber():  # equal rows in the order in which they are
            return 1 + sum(there < here for there in partition) + sum(others == keys and t == here for _, others, t in placed[:at])
        case exp.Rank():
            return 1 + sum(there < here for there in partition)
        case exp.DenseRank():
            return 1 + len({tuple(there) for there in partition if there < here})
    return sum(there <= here for there in partition)


def _place(order: Order, row: Row) -> tuple[bool, Any]:
    value = _value(order.value.sql, row)
    return ((value is None) is not order.nulls_first, (value if order.ascending else -value) if value is not None else 0)


def _called(sql: exp.Expr, group: list[Row]) -> Any:
    """Call an aggregate function over rows; NULL does not count."""
    if isinstance(sql, exp.Cast):
        return _called(sql.this, group)
    function, argument = (sql.name, sql.expressions[0]) if isinstance(sql, exp.Anonymous) else (sql.key, sql.this)
    distinct = isinstance(argument, exp.Distinct)
    argument = argument.expressions[0] if distinct else argument
    values = [value for row in group if (value := _value(argument, row)) is not None]
    values = list(dict.fromkeys(values)) if distinct else values
    match function:
        case "count":
            return len(values)
        case "count_if":
            return values.count(True)
        case "sum":
            return sum(values) if values else None
        case "min" | "max":
            return (min if function == "min" else max)(values, default=None)
    raise TypeError(f"no meaning for {sql}")


def levels(recursion: Recursion, level: list[Row], world: World) -> Iterator[list[Row]]:
    """Yield the anchor's rows, and level by level what the step makes of them."""
    while level := [dict(zip(ids(recursion), row.values(), strict=True)) for row in level]:
        yield level
        level = rows(recursion.step, replace(world, stored={**world.stored, recursion.loop.path: level}))


def _left_joined(left: list[Row], right: list[Row], padded: list[str], join_type: JoinType, on: tuple[Scalar, ...]) -> list[Row]:
    found = []
    for row in left:
        partners = _kept([{**row, **other} for other in right], on)
        if join_type is JoinType.LEFT_OUTER:
            found += partners or [{**row, **dict.fromkeys(padded)}]
        elif bool(partners) is (join_type is JoinType.LEFT_SEMI):
            found.append(row)
    return found


def _kept(found: list[Row], conjuncts: Iterable[Scalar]) -> list[Row]:
    return [row for row in found if all(_value(each.sql, row) is True for each in conjuncts)]


def _value(sql: exp.Expr, row: Row) -> Any:
    """Evaluate what the trees of the tests are made of; NULL makes NULL."""
    match sql:
        case exp.Column():
            return row[sql.name]
        case exp.Literal():
            return int(sql.name)
        case exp.Paren() | exp.Cast():
            return _value(sql.this, row)
        case exp.Anonymous() if sql.name == "explode":
            return _value(sql.expressions[0], row)
        case exp.Anonymous() if sql.name == "array_repeat":
            element, times = (_value(each, row) for each in sql.expressions)
            return [element] * times
        case exp.Anonymous() if sql.name in ("abs", "signum"):
            value = _value(sql.expressions[0], row)
            return abs(value) if sql.name == "abs" else (value > 0) - (value < 0)
        case exp.Anonymous() if sql.name == "coalesce":
            return next((value for each in sql.expressions if (value := _value(each, row)) is not None), None)
        case exp.Neg():
            return -_value(sql.this, row)
        case exp.Not():
            return None if (value := _value(sql.this, row)) is None else not value
        case exp.Is():
            return _value(sql.this, row) is None
        case exp.NullSafeEQ():
            return _value(sql.this, row) == _value(sql.expression, row)
        case exp.Or() | exp.And():
            decisive, values = isinstance(sql, exp.Or), {_value(sql.this, row), _value(sql.expression, row)}
            return decisive if decisive in values else None if None in values else not decisive
    left, right = _value(sql.this, row), _value(sql.expression, row)
    if left is None or right is None:
        return None
    match sql:
        case exp.EQ():
            return left == right
        case exp.LT():
            return left < right
        case exp.GT():
            return left > right
        case exp.LTE():
            return left <= right
        case exp.GTE():
            return left >= right
        case exp.Add():
            return left + right
        case exp.Mul():
            return left * right
    raise TypeError(f"no meaning for {sql}")
