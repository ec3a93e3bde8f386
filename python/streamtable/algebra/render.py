"""From the algebra to SQL: one nested SELECT per operator, columns under their ids, written with the builder alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from streamtable.algebra.columns import NOW, Column, Order, Scalar
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    Scan,
    SemiJoin,
    StoredRows,
    TopK,
    UnionAll,
    Unsupported,
    Window,
    WorkingTable,
)
from streamtable.algebra.sources import CLOCK, Snapshot, Source
from streamtable.errors import InternalError
from streamtable.sql.builder import (
    alias,
    all_of,
    call,
    column,
    equal,
    identifier,
    literal,
    number,
    recursive,
    select,
    string,
    subquery,
    table,
    union_all,
)

__all__ = ["Views", "render"]

Views = Callable[[Source | int, Snapshot], str]
"""Names the view of a source in one of its snapshots, or of a constant leaf. For the clock, gives the instant as text."""


def render(operator: Operator, views: Views) -> exp.Query:
    """Write `operator` as a query whose columns are named by their ids."""
    match operator:
        case Scan(source, columns, snapshot):
            named: list[exp.Expr] = [column(c.id) if c.id == c.name else alias(_scanned(c), c.id) for c in columns]
            return select(named or [_placeholder()], table(views(source, snapshot)))
        case StoredRows(name, columns):
            return select(_columns(columns), table(name))
        case Constant(leaf, columns):
            return select(_columns(columns), table(views(leaf, Snapshot.TARGET)))
        case WorkingTable(loop, columns):
            return select(_from_places(columns), table(loop.path))
        case Recursion(loop, anchor, step, columns, most):
            # The step and the operators above know the columns under different ids, so the recursion has names of its own.
            levels = union_all([_positional(child, columns, views) for child in (anchor, step)])
            return recursive(loop.path, [_place(n) for n, _ in enumerate(columns)], levels, most, _from_places(columns))
        case Filter(child, conjuncts, at):
            return _over(child, views, _columns(child.columns)).where(_at(at, views, _all(conjuncts)), copy=False)
        case Project(child, items, at):
            made = [_at(at, views, alias(item.value.sql.copy(), item.id)) for item in items]
            return _over(child, views, made or [_placeholder()])
        case Join():
            return _join(operator, views)
        case LeftJoin():
            return _left_join(operator, views)
        case SemiJoin(child, affected, keys):
            on = all_of(equal(column(key, "kept"), column(key, "affected")) for key in keys)
            kept = select([column(c.id, "kept") for c in child.columns], subquery(render(child, views), "kept"))
            return kept.join(subquery(render(affected, views), "affected"), on=on, join_type="left semi", copy=False)
        case UnionAll(inputs, columns):
            return union_all([_positional(child, columns, views) for child in inputs])
        case Aggregate(child, keys, calls):
            outputs = [*((key.value, key.id) for key in keys), *((each.value, each.id) for each in calls)]
            # Without keys there is one row, even where no column is needed: an aggregate function must stand there.
            made = [alias(value.sql.copy(), id_) for value, id_ in outputs] or [alias(call("count", number(1)), "__row")]
            grouped = _over(child, views, made)
            return grouped.group_by(*(key.value.sql.copy() for key in keys), copy=False) if keys else grouped
        case Generate(child, generator, outer, generated):
            return _over_lateral(child, views, list(child.columns), generator, generated, outer)
        case Expand(child, projections, columns):
            # New columns have the ids of old ones, so they get their ids in an outer query, where the old ones are not visible.
            rows = [_row(projection) for projection in projections]
            expanded = Scalar(call("inline", call("array", *rows)), "", False, "expand", frozenset())
            places = tuple(replace(c, id=_place(n)) for n, c in enumerate(columns)) or (Column(_place(0), _place(0), "INT"),)
            rows_of = subquery(_over_lateral(child, views, [], expanded, places, outer=False), "expanded")
            return select(_from_places(columns), rows_of)
        case Window(child, _, items):
            return _over(child, views, [*_columns(child.columns), *(alias(item.value.sql.copy(), item.id) for item in items)])
        case TopK(child, order, count, offset):
            query = _over(child, views, _columns(child.columns))
            query = query.order_by(*(_ordered(each) for each in order), copy=False)
            query = query.limit(count, copy=False) if count is not None else query
            return query.offset(offset, copy=False) if offset else query
        case Unsupported(name):
            raise InternalError(f"an operator without a rule ({name}) was to be rendered")


def _scanned(of: Column) -> exp.Expr:
    """Read a column; structs have the fields that they had when the query was written."""
    return call("st_shaped", column(of.name), string(of.type)) if "STRUCT<" in of.type else column(of.name)


def _columns(columns: Iterable[Column]) -> list[exp.Expr]:
    return [column(c.id) for c in columns] or [_placeholder()]


def _placeholder() -> exp.Expr:
    """Return the SELECT list of a query without columns, whose number of rows alone matters."""
    return alias(exp.Literal.number(1), "__row")


def _at(snapshot: Snapshot, views: Views, expression: exp.Expr) -> exp.Expr:
    """Replace the clock by the instant, a literal by which Spark can prune files."""
    for read in [found for found in expression.find_all(exp.Column) if found.name == NOW.id]:
        read.replace(literal(views(CLOCK, snapshot), NOW.type))
    return expression


def _over(child: Operator, views: Views, items: list[exp.Expr]) -> exp.Select:
    return select(items, subquery(render(child, views), "input"))


def _over_lateral(
    child: Operator, views: Views, kept: list[Column], generator: Scalar, generated: tuple[Column, ...], outer: bool
) -> exp.Select:
    query = _over(child, views, _columns([*kept, *generated]))
    names = exp.TableAlias(this=identifier("generated"), columns=[identifier(c.id) for c in generated])
    query.append("laterals", exp.Lateral(this=generator.sql.copy(), view=True, outer=outer, alias=names))
    return query


def _place(n: int) -> str:
    return f"__place{n}"


def _from_places(columns: tuple[Column, ...]) -> list[exp.Expr]:
    return [alias(column(_place(n)), c.id) for n, c in enumerate(columns)] or [_placeholder()]


def _row(values: tuple[Scalar, ...]) -> exp.Expr:
    """Spell a struct; equal field names give all rows of an array the same type."""
    return call("named_struct", *(part for n, value in enumerate(_sqls(values)) for part in (string(_place(n)), value)))


def _sqls(values: tuple[Scalar, ...]) -> list[exp.Expr]:
    return [value.sql.copy() for value in values] or [number(1)]


def _ordered(order: Order) -> exp.Ordered:
    return exp.Ordered(this=order.value.sql.copy(), desc=not order.ascending, nulls_first=order.nulls_first)


def _left_join(join: LeftJoin, views: Views) -> exp.Select:
    query = select(_columns(join.columns), subquery(render(join.left, views), "left_input"))
    right = subquery(render(join.right, views), "right_input")
    return query.join(right, on=_all(join.conjuncts), join_type=join.join_type.value, copy=False)


def _all(conjuncts: Iterable[Scalar]) -> exp.Expr:
    return all_of(conjunct.sql.copy() for conjunct in conjuncts)


def _positional(child: Operator, columns: tuple[Column, ...], views: Views) -> exp.Select:
    return _over(
        child, views, [alias(column(c.id), out.id) for c, out in zip(child.columns, columns, strict=True)] or [_placeholder()]
    )


def _join(join: Join, views: Views) -> exp.Select:
    """Join the inputs left to right; each conjunct goes to the first join that has all its columns."""
    pending = list(join.conjuncts)
    available: set[str] = set()
    query = select(_columns(join.columns))
    for n, child in enumerate(join.inputs):
        available |= {c.id for c in child.columns}
        ready = [conjunct for conjunct in pending if conjunct.inputs <= available]
        relation = subquery(render(child, views), f"input{n}")
        if n == 0:
            query = query.from_(relation, copy=False)
            continue
        pending = [conjunct for conjunct in pending if not conjunct.inputs <= available]
        if ready:
            query = query.join(relation, on=_all(ready), join_type="inner", copy=False)
        else:
            query = query.join(relation, join_type="cross", copy=False)
    if pending:
        query = query.where(_all(pending), copy=False)
    return query
