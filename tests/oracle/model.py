"""A Delta table and its history in plain Python: each random statement is carried out by Spark, and by lists of dictionaries."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

Row = Mapping[str, Any]
KEPT = ("id", "g", "v")
"""The columns that stay; others come, go and get new names."""


@dataclass(frozen=True)
class State:
    """The table at a version: its columns in order, its rows, and what the commit did: insert, update, delete, truncate, mixed."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    kind: str

    def bag(self, columns: Sequence[str] | None = None, where: Callable[[Row], bool] = lambda row: True) -> Counter[Any]:
        """Return the rows that fit, as a bag of tuples."""
        return Counter(tuple(row[each] for each in columns or self.columns) for row in self.rows if where(row))


def literal(value: Any) -> str:
    """Write a value in SQL."""
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def values(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Write rows in SQL."""
    return ", ".join(f"({', '.join(literal(row[each]) for each in columns)})" for row in rows)


class Table:
    """A table under random statements; `states` has what it was at each version. The ids of a `keyed` one are unique."""

    def __init__(self, spark: SparkSession, name: str, rnd: random.Random, keyed: bool, properties: str) -> None:
        self.spark, self.name, self.keyed, self._rnd = spark, name, keyed, rnd
        mapped = f"delta.columnMapping.mode = 'name', delta.enableTypeWidening = true, {properties}"
        spark.sql(f"CREATE TABLE {name} (id INT, g INT, v INT, x0 STRING) USING delta TBLPROPERTIES ({mapped})")
        place = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"].removeprefix("file:")
        self._log, self._ids, self._named, self._since = Path(place) / "_delta_log", 0, 0, 0
        self.states = [State((*KEPT, "x0"), (), "insert")]
        self.widened = False

    @property
    def now(self) -> State:
        """Return the latest state."""
        return self.states[-1]

    @property
    def version(self) -> int:
        """Return the latest version."""
        return len(self.states) - 1

    def act(self, kinds: Sequence[str]) -> None:
        """Carry out a statement of one of the kinds."""
        before, kind = self.now, self._rnd.choice(kinds)
        sql, after, changes = getattr(self, f"_{kind}")(list(map(dict, before.rows)))
        if sql:
            self._run(sql, State(before.columns, tuple(after), changes))

    def ddl(self) -> tuple[str, Callable[[Row], Row]] | None:
        """Change the columns; return the statement, for those who follow, and what it makes of a row."""
        extra = [each for each in self.now.columns if each not in KEPT]
        choices = ["ADD COLUMN {new} STRING", "ALTER COLUMN {any} FIRST", "ALTER COLUMN v TYPE BIGINT"]
        choices += ["RENAME COLUMN {extra} TO {new}", "DROP COLUMN {extra}"] if extra else []
        self._named += 1
        new, old, moved = f"x{self._named}", self._rnd.choice(extra or [""]), self._rnd.choice(self.now.columns)
        change = self._rnd.choice(choices).format(new=new, extra=old, any=moved)
        columns, renamed = list(self.now.columns), {old: new} if "RENAME" in change else {}
        if "TYPE" in change:
            if self.widened:
                return None
            self.widened = True
        elif "ADD" in change:
            columns.append(new)
        elif "DROP" in change:
            columns.remove(old)
        elif "FIRST" in change:
            columns = [moved, *(each for each in columns if each != moved)]
        columns = [renamed.get(each, each) for each in columns]

        def reshaped(row: Row) -> Row:
            known = {new: None, **{renamed.get(name, name): value for name, value in row.items()}}
            return {each: known[each] for each in columns}

        statement = f"ALTER TABLE {{name}} {change}"
        self._run(statement, State(tuple(columns), tuple(map(reshaped, self.now.rows)), "ddl"))
        self._since = self.version  # what was before has other columns
        return statement, reshaped

    def _run(self, sql: str, after: State) -> None:
        self.spark.sql(sql.format(name=self.name))
        latest = max(int(each.stem) for each in self._log.glob("*.json") if each.stem.isdecimal())
        while self.version < latest - 1:
            self.states.append(State(self.now.columns, self.now.rows, "insert"))
        if self.version < latest:
            self.states.append(after)
        assert self.now.bag() == after.bag(), f"{sql} was not committed"

    def _new(self) -> dict[str, Any]:
        self._ids += 1
        chosen = self._ids if self.keyed else self._rnd.choice([None, 1, 2, 3, self._ids])
        extra = {each: self._rnd.choice([None, "a", "b"]) for each in self.now.columns}
        return extra | {"id": chosen, "g": self._rnd.choice([None, 0, 1, 2]), "v": self._rnd.randrange(10)}

    def _insert(self, rows: list[Row]) -> tuple[str, list[Row], str]:
        came = [self._new() for _ in range(self._rnd.randint(1, 4))]
        columns = self.now.columns
        return f"INSERT INTO {{name}} ({', '.join(columns)}) VALUES {values(came, columns)}", [*rows, *came], "insert"

    def _update(self, rows: list[dict[str, Any]]) -> tuple[str, list[Row], str]:
        what, part = self._rnd.choice(["v + 1", "0", "id"]), self._rnd.randrange(3)
        for row in rows:
            if row["v"] % 3 == part:
                match what:
                    case "v + 1":
                        row["v"] += 1
                    case "0":
                        row["g"] = 0
                    case "id" if row["id"] is not None:
                        row["id"] += 1_000_000  # ids are far below it: no two meet
        changed = {"v + 1": "v = v + 1", "0": "g = 0", "id": "id = id + 1000000"}[what]
        return f"UPDATE {{name}} SET {changed} WHERE v % 3 = {part}", list(rows), "update"

    def _delete(self, rows: list[Row]) -> tuple[str, list[Row], str]:
        part = self._rnd.randrange(4)
        return f"DELETE FROM {{name}} WHERE v % 4 = {part}", [row for row in rows if row["v"] % 4 != part], "delete"

    def _merge(self, rows: list[dict[str, Any]]) -> tuple[str, list[Row], str]:
        known = sorted({row["id"] for row in rows if row["id"] is not None})
        keys = [*self._rnd.sample(known, min(len(known), 2)), *([self._ids + 1] if self._rnd.random() < 0.5 else [])]
        if not keys:
            return "", [], ""
        self._ids += 1
        number, after, done = {key: self._rnd.randrange(10) for key in keys}, list[Row](), set[str]()
        for row in rows:
            deleted = row["id"] in number and row["v"] % 2 == 0
            if row["id"] in number:
                done.add("delete" if deleted else "update")
                row = {**row, "v": number[row["id"]]}  # noqa: PLW2901
            after += [] if deleted else [row]
        came = [{**dict.fromkeys(self.now.columns), "id": key, "v": number[key]} for key in keys if key not in known]
        done |= {"insert"} if came else set()
        pairs = ", ".join(f"({key}, {each})" for key, each in number.items())
        sql = f"MERGE INTO {{name}} t USING (VALUES {pairs} AS s (k, n)) s ON t.id = s.k WHEN MATCHED AND t.v % 2 = 0 THEN DELETE"
        sql += " WHEN MATCHED THEN UPDATE SET v = s.n WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, s.n)"
        return sql, [*after, *came], done.pop() if len(done) == 1 else "mixed"

    def _overwrite(self, rows: list[dict[str, Any]]) -> tuple[str, list[Row], str]:
        after = [
            dict(row, v=self._rnd.randrange(10)) if self._rnd.random() < 0.3 else row for row in rows if self._rnd.random() < 0.8
        ]
        after, columns = [*after, self._new()], self.now.columns
        sql = f"INSERT OVERWRITE {{name}} ({', '.join(columns)}) VALUES {values(after, columns)}"
        return sql, list(after), "mixed" if rows else "insert"

    def _truncate(self, rows: list[Row]) -> tuple[str, list[Row], str]:
        return "TRUNCATE TABLE {name}", [], "truncate"

    def _restore(self, rows: list[Row]) -> tuple[str, list[Row], str]:
        to = self._rnd.randint(max(self._since, 1), max(self.version, 1))
        if to >= self.version:
            return "", [], ""
        return f"RESTORE TABLE {{name}} TO VERSION AS OF {to}", list(self.states[to].rows), "mixed"

    def _optimize(self, rows: list[Row]) -> tuple[str, list[Row], str]:
        return "OPTIMIZE {name}", list(rows), "insert"
