"""A generator of queries over l, r and x (see workload.py): operators grown over each other, drawn by hypothesis so that they shrink.

Each query has one meaning: row_number and LIMIT have orders that decide, lists are sorted, and a scalar subquery has one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from hypothesis import strategies as st
from tests.versions import LACKING

T = TypeVar("T")
Columns = tuple[tuple[str, str], ...]
"""Names with their kind: int, text, decimal and the like."""

TABLES: dict[str, Columns] = {
    "l": (("k", "int"), ("v", "int"), ("d", "decimal"), ("s", "text")),
    "r": (("k", "int"), ("w", "int")),
    "x": (("k", "int"), ("t", "text")),
}
TYPED: dict[str, Columns] = TABLES | {
    "x": (
        *TABLES["x"],
        ("c", "text"),
        ("n", "time"),
        ("f", "double"),
        ("st", "nested"),
        ("z", "instant"),
        ("va", "int"),
        ("vc", "text"),
    ),
    "y": (("k", "int"), ("w", "int")),
}
"""The same with columns of more types (CHAR, VARCHAR, both timestamps, floats with NaN, structs of arrays with NULLs at each depth, what a
variant holds), and a view, whose text changes."""
LEAVES = {"x": "SELECT k, t, c, n, f, st, z, try_variant_get(va, '$.a', 'int') AS va, vc FROM x"}
"""How a table is read that is not read as it is."""
LITERALS = {"int": ("0", "1", "2", "5", "NULL"), "text": ("'a'", "'b'", "''", "'A'"), "decimal": ("0.10", "2.55", "-3.00")}
LITERALS |= {
    "time": (
        "TIMESTAMP_NTZ '2026-03-29 02:30:00'",
        "TIMESTAMP_NTZ '0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ '+12000-01-01 00:00:00'",
    ),
    "instant": ("TIMESTAMP '2026-03-29 01:30:00Z'", "TIMESTAMP '1900-01-01 00:00:00Z'", "TIMESTAMP '+12000-06-01 00:00:00Z'"),
    "double": ("0.5D", "CAST('NaN' AS DOUBLE)", "-1e300D"),
    "nested": ("named_struct('a', 1, 'b', array('x', NULL))", "named_struct('a', CAST(NULL AS INT), 'b', array('y'))"),
}
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
SET_OPERATIONS = ("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")


@dataclass(frozen=True)
class Relation:
    """A query that can stand in FROM in parentheses."""

    sql: str
    columns: Columns

    def of(self, kind: str) -> list[str]:
        return [name for name, each in self.columns if each == kind]


@dataclass
class Grower:
    """Grows one query; `draw` is hypothesis's, `joins` bounds how often rows can multiply."""

    draw: Callable[[st.SearchStrategy[T]], T]
    joins: int = 3
    tables: Mapping[str, Columns] = field(default_factory=lambda: TABLES)
    names: count[int] = field(default_factory=count)

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(list(options)))

    def chance(self) -> bool:
        return self.pick((False, True))

    def name(self) -> str:
        return f"c{next(self.names)}"

    def leaf(self, table: str) -> str | None:
        return LEAVES.get(table) if self.tables is TYPED else None

    def relation(self, depth: int) -> Relation:
        if depth <= 0:
            table = self.pick(list(self.tables))
            return Relation(self.leaf(table) or f"SELECT * FROM {table}", self.tables[table])
        twice = (self.joined, self.grouped)
        once = (
            self.filtered,
            self.projected,
            self.combined,
            self.distinct,
            self.ranked,
            self.top,
            self.grouping_sets,
            self.grouped_join,
        )
        return self.pick((*twice, *twice, *once))(depth - 1)

    # Operators over one input

    def filtered(self, depth: int) -> Relation:
        child = self.relation(depth)
        return Relation(f"SELECT * FROM ({child.sql}) q WHERE {self.predicate(child.columns, 'q', subqueries=True)}", child.columns)

    def projected(self, depth: int) -> Relation:
        child = self.relation(depth)
        kinds = [self.pick(child.columns)[1] for _ in range(self.pick((1, 2, 3)))]
        made = [(self.value(child.columns, kind, "q", subqueries=True), self.name(), kind) for kind in kinds]
        items = ", ".join(f"{value} AS {name}" for value, name, _ in made)
        return Relation(f"SELECT {items} FROM ({child.sql}) q", tuple((name, kind) for _, name, kind in made))

    def distinct(self, depth: int) -> Relation:
        child = self.relation(depth)
        kept = child.columns[: self.pick((1, 2))]
        return Relation(f"SELECT DISTINCT {', '.join(name for name, _ in kept)} FROM ({child.sql}) q", kept)

    def top(self, depth: int) -> Relation:
        child = self.relation(depth)
        skip = self.pick(("", "", " OFFSET 1"))
        return Relation(
            f"SELECT * FROM ({child.sql}) q ORDER BY {self.order(child)} LIMIT {self.pick((1, 3, 5))}{skip}", child.columns
        )

    def order(self, child: Relation) -> str:
        """Order by every column, so that rows which are still equal are the same."""
        names = self.draw(st.permutations([name for name, _ in child.columns]))
        return ", ".join(f"{name}{self.pick(('', ' DESC', ' NULLS LAST'))}" for name in names)

    def ranked(self, depth: int) -> Relation:
        child = self.relation(depth)
        partition = self.pick(("", f"PARTITION BY {self.pick(child.columns)[0]} ", f"PARTITION BY {self.pick(child.columns)[0]} "))
        some, kind = self.pick(child.columns)
        by = self.order(child)
        function, made = self.pick(
            (
                (f"row_number() OVER ({partition}ORDER BY {by})", "int"),
                (f"rank() OVER ({partition}ORDER BY {some})", "int"),
                (f"count({some}) OVER ({partition}ORDER BY {some})", "int"),
                (f"lag({some}) OVER ({partition}ORDER BY {by})", kind),
                (f"max({some}) OVER ({partition}ORDER BY {by} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", kind),
                (f"min({some}) OVER ({partition.strip()})", kind),
            )
        )
        name = self.name()
        windowed = f"SELECT q.*, {function} AS {name} FROM ({child.sql}) q"
        if made == "int" and self.chance():
            windowed = (
                f"SELECT * FROM ({windowed}) WHERE {name} <= 2" if "QUALIFY" in LACKING else f"{windowed} QUALIFY {name} <= 2"
            )
        return Relation(windowed, (*child.columns, (name, made)))

    def grouped(self, depth: int) -> Relation:
        child = self.relation(depth)
        keys = (
            []
            if self.pick((0, 0, 1, 2, 3)) == 3
            else list(dict.fromkeys(self.pick(child.columns) for _ in range(self.pick((1, 1, 2)))))
        )
        calls = [(*self.aggregate(child.columns, "q"), self.name()) for _ in range(self.pick((1, 2)))]
        items = ", ".join([*(name for name, _ in keys), *(f"{call} AS {name}" for call, _, name in calls)])
        by = f" GROUP BY {', '.join(name for name, _ in keys)}" if keys else ""
        having = f" HAVING count(*) > {self.pick((1, 2))}" if self.pick((0, 0, 1)) else ""
        return Relation(f"SELECT {items} FROM ({child.sql}) q{by}{having}", (*keys, *((name, kind) for _, kind, name in calls)))

    def aggregate(self, columns: Columns, alias: str) -> tuple[str, str]:
        name, kind = self.pick(columns)
        some = f"{alias}.{name}"
        calls = [("count(*)", "int"), (f"count(DISTINCT {some})", "int"), (f"min({some})", kind), (f"max({some})", kind)]
        calls.append((f"size(collect_set({some}))", "int"))
        other, of = self.pick(columns)
        other = f"{alias}.{other}"
        order = f"struct({some}, {other})"  # of rows that are equal in it, any has the same value
        calls.append(
            (f"{self.pick(('max_by', 'min_by'))}({other}, {self.pick((order, f'if({some} IS NULL, NULL, {order})'))})", of)
        )
        if kind in ("int", "decimal"):
            calls += [(f"sum({some})", kind), (f"sum({some})", kind)]
        call, made = self.pick(calls)
        if not call.startswith("size") and self.pick((0, 0, 1)):
            call += f" FILTER (WHERE {self.predicate(columns, alias)})"
        return call, made

    def grouping_sets(self, depth: int) -> Relation:
        child = self.relation(depth)
        a, b = (self.pick(child.columns) for _ in range(2))
        how = self.pick(("CUBE ({0}, {1})", "ROLLUP ({0}, {1})", "GROUPING SETS (({0}), ({1}), ())"))
        x, y, n = self.name(), self.name(), self.name()
        inner = f"SELECT {a[0]} AS {x}, {b[0]} AS {y} FROM ({child.sql}) p"
        return Relation(
            f"SELECT {x}, {y}, count(*) AS {n} FROM ({inner}) q GROUP BY {how.format(x, y)}", ((x, a[1]), (y, b[1]), (n, "int"))
        )

    # Operators over two

    def combined(self, depth: int) -> Relation:
        left, right = self.relation(depth), self.relation(self.pick((0, depth)))
        kinds = [self.pick(left.columns)[1] for _ in range(self.pick((1, 2)))]
        names = [self.name() for _ in kinds]
        arms = [
            f"SELECT {', '.join(f'{self.value(side.columns, kind, alias)} AS {n}' for kind, n in zip(kinds, names, strict=True))} FROM ({side.sql}) {alias}"
            for side, alias in ((left, "a"), (right, "b"))
        ]
        return Relation(f"({arms[0]}) {self.pick(SET_OPERATIONS)} ({arms[1]})", tuple(zip(names, kinds, strict=True)))

    def joined(self, depth: int) -> Relation:
        if self.joins == 0:
            return self.filtered(depth)
        left, right, how, source = self.sides(depth, JOINS)
        sides = (("a", left),) if "SEMI" in how or "ANTI" in how else (("a", left), ("b", right))
        made = [(f"{alias}.{name}", self.name(), kind) for alias, side in sides for name, kind in side.columns]
        items = ", ".join(f"{value} AS {name}" for value, name, _ in made)
        return Relation(f"SELECT {items} FROM {source}", tuple((name, kind) for _, name, kind in made))

    def grouped_join(self, depth: int) -> Relation:
        """Group a join as it is: its sides may have columns of one name, which only their tables tell apart."""
        if self.joins == 0:
            return self.grouped(depth)
        left, right, _, source = self.sides(depth, tuple(how for how in JOINS if "SEMI" not in how and "ANTI" not in how))
        sides = (("a", left), ("b", right))
        keys = [
            (f"{alias}.{name}", self.name(), kind)
            for alias, side in sides[: self.pick((1, 2))]
            for name, kind in [self.pick(side.columns)]
        ]
        calls = [(*self.aggregate(side.columns, alias), self.name()) for alias, side in sides]
        calls = [(call, name, kind) for call, kind, name in calls]
        for (one, of_one), (other, of_other) in (sides, sides[::-1]):
            if numbers := [(x, y) for x in of_one.of("int") for y in of_other.of("int")]:
                x, y = self.pick(numbers)
                calls.append((f"sum({one}.{x} - 2 * {other}.{y})", self.name(), "int"))
        items = ", ".join(f"{value} AS {name}" for value, name, _ in (*keys, *calls))
        by = ", ".join(value for value, _, _ in keys)
        return Relation(f"SELECT {items} FROM {source} GROUP BY {by}", tuple((name, kind) for _, name, kind in (*keys, *calls)))

    def sides(self, depth: int, types: Sequence[str]) -> tuple[Relation, Relation, str, str]:
        """Return two relations, how they are joined, and the join as it stands behind FROM; they are called a and b."""
        self.joins -= 1
        left, right = self.relation(depth), self.relation(self.pick((0, depth)))
        how = self.pick(types)
        pairs = [(a, b) for a, kind in left.columns for b in right.of(kind)]
        conditions = [f"a.{a} {self.pick(('=', '=', '=', '<=>', '<'))} b.{b}" for a, b in [self.pick(pairs)]] if pairs else ["TRUE"]
        if self.pick((0, 0, 1)):
            conditions.append(self.predicate(right.columns, "b"))
        return left, right, how, f"({left.sql}) a {how} ({right.sql}) b ON {' AND '.join(conditions)}"

    # Expressions

    def value(self, columns: Columns, kind: str, alias: str, subqueries: bool = False) -> str:
        names = [f"{alias}.{name}" for name, each in columns if each == kind]
        some = self.pick(names) if names else self.pick(LITERALS[kind])
        options = [some, some, f"coalesce({some}, {self.pick(LITERALS[kind])})"]
        options.append(f"CASE WHEN {self.comparison(columns, alias)} THEN {some} END")
        match kind:
            case "int":
                options += [f"{some} + 1", f"-{some}"]
            case "text":
                options += [f"upper({some})", f"concat({some}, 'b')"]
        if kind == "int" and subqueries and self.pick((0, 0, 0, 1)):
            return self.scalar_subquery(columns, alias)
        return self.pick(options)

    def predicate(self, columns: Columns, alias: str, subqueries: bool = False) -> str:
        compare = self.subquery_predicate if subqueries and self.pick((0, 0, 1)) else self.comparison
        first = compare(columns, alias)
        match self.pick(("", "", "NOT", "OR", "AND")):
            case "":
                return first
            case "NOT":
                return f"NOT ({first})"
            case connector:
                return f"({first} {connector} {self.comparison(columns, alias)})"

    def comparison(self, columns: Columns, alias: str) -> str:
        name, kind = self.pick(columns)
        value, literal = f"{alias}.{name}", self.pick(LITERALS[kind])
        options = [
            f"{value} {self.pick(('=', '<', '>=', '<>', '<=>'))} {literal}",
            f"{value} IS NOT NULL",
            f"{value} IN ({LITERALS[kind][0]}, {LITERALS[kind][1]})",
        ]
        if self.tables is TYPED and kind == "text":
            options.append(f"{value} COLLATE UTF8_LCASE {self.pick(('=', '<', '<>'))} {literal}")
        if kind in ("time", "instant"):
            options.append(f"{value} - {literal} > INTERVAL '1' DAY")
        return self.pick(options)

    def subquery_predicate(self, columns: Columns, alias: str) -> str:
        table = self.pick(list(self.tables))
        source = f"({leaf})" if (leaf := self.leaf(table)) else table
        name, kind = self.pick(columns)
        inner = [each for each, other in self.tables[table] if other == kind]
        if not inner:
            return f"EXISTS (SELECT 1 FROM {source} i WHERE {self.comparison(self.tables[table], 'i')})"
        column = self.pick(inner)
        where = self.comparison(self.tables[table], "i")
        return self.pick(
            (
                f"EXISTS (SELECT 1 FROM {source} i WHERE i.{column} = {alias}.{name} AND {where})",
                f"NOT EXISTS (SELECT 1 FROM {source} i WHERE i.{column} = {alias}.{name})",
                f"{alias}.{name} IN (SELECT i.{column} FROM {source} i WHERE {where})",
                f"{alias}.{name} NOT IN (SELECT i.{column} FROM {source} i WHERE {where})",
                f"{alias}.{name} > (SELECT min(i.{column}) FROM {source} i WHERE {where})",
            )
        )

    def scalar_subquery(self, columns: Columns, alias: str) -> str:
        keys = [name for name, kind in columns if kind == "int"]
        where = f" WHERE i.k = {alias}.{self.pick(keys)}" if keys and self.chance() else ""
        return f"(SELECT {self.pick(('count(*)', 'max(i.w)'))} FROM r i{where})"


@st.composite
def queries(draw: Callable[[st.SearchStrategy[T]], T], depth: int = 5, typed: bool = False) -> str:
    """Return queries of up to `depth` operators over each other; `typed` over columns of more types."""
    return Grower(draw, tables=TYPED if typed else TABLES).relation(draw(st.integers(1, depth))).sql  # type: ignore[arg-type]
