"""Frozen rows without Spark: where the condition stands, what a delta does to a table that has them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_expectations import created
from tests.unit.test_stored_before import FIRST, JOINS, OVER_ANOTHER, TABLES, WHOLE, deltas_of
from tests.unit.trees import Row, World, bag, count_by, kept, minus, rows, scalar, scan

from streamtable.algebra.columns import NOW
from streamtable.algebra.normalise import normalise
from streamtable.algebra.operators import Filter, Operator, Unsupported
from streamtable.api.tables import StreamTable, StreamTables
from streamtable.catalog.definition import Definition
from streamtable.definitions import checks
from streamtable.differentiate.deltas import Shared
from streamtable.differentiate.stored_before import BEFORE, delta_of_query
from streamtable.differentiate.visible import visible_states
from streamtable.errors import InvalidQuery, InvalidStatement
from streamtable.language.names import Condition, Name
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import AlterStreamTable
from streamtable.language.stream_table.history import SetFrozen
from streamtable.language.write import to_sql
from streamtable.query.frozen import Frozen, freeze, refuse_moving
from streamtable.statements.mentions import mentioned


def test_the_condition_is_sparks_to_read_and_its_place_is_known() -> None:
    text = "CREATE STREAM TABLE t\nFROZEN WHERE ( CAST(a AS DATE) < DATE'2024-01-01' -- )\n) AS SELECT 1 AS a"
    statement = created(text)
    assert statement.frozen == Condition("CAST(a AS DATE) < DATE'2024-01-01' -- )")
    assert (statement.frozen.line, statement.frozen.column) == (2, 16)
    assert created(to_sql(statement)) == statement
    taking = replace(statement, frozen=Condition("a > 0 -- \\"))  # the backslash takes the next line along
    assert created(to_sql(taking)) == taking
    assert created("CREATE STREAM TABLE frozen (frozen) AS SELECT 1").frozen is None


def test_alter_sets_and_drops_the_condition() -> None:
    for text, condition in {
        "ALTER STREAM TABLE `t` SET FROZEN WHERE (a > 0)": Condition("a > 0"),
        "ALTER STREAM TABLE `t` DROP FROZEN": None,
    }.items():
        altered = parse(text)
        assert isinstance(altered, AlterStreamTable) and altered.action == SetFrozen(condition)
        assert to_sql(altered) == text


@pytest.mark.parametrize(
    ("before", "after", "populated", "own"),
    [
        ("FROZEN WHERE (a > 0)", "FROZEN WHERE (a > 0)", True, True),
        ("FROZEN WHERE (a > 0)", "FROZEN WHERE (a > 1)", True, True),  # as by SET FROZEN
        ("FROZEN WHERE (a > 0)", "FROZEN WHERE (a > 0)", False, False),
        ("", "FROZEN WHERE (a > 0)", True, False),
        ("FROZEN WHERE (a > 0)", "", True, False),
        ("(CONSTRAINT c EXPECT (a > 0))", "(CONSTRAINT c EXPECT (a > 0))", True, False),  # it says all anew
    ],
)
def test_rows_stay_frozen_by_the_settings_that_froze_them(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, populated: bool, own: bool
) -> None:
    monkeypatch.setattr(checks, "captured_settings", lambda _: {"zone": "of the session"})
    definition = Definition(created(f"CREATE STREAM TABLE t {before} AS SELECT 1 AS a"), "id", (), {"zone": "of the table"}, {})
    existing: Any = SimpleNamespace(definition=definition, state=SimpleNamespace(frontier="{}" if populated else None))
    session: Any = None
    replaced = created(f"CREATE OR REPLACE STREAM TABLE t {after} AS SELECT 2 AS a")
    kept = checks._settings(session, replaced, existing)
    assert kept == {"zone": "of the table" if own else "of the session"}
    assert checks._settings(session, replaced, None) == {"zone": "of the session"}
    altered = checks._settings(session, replace(replaced, or_replace=False), existing)  # as by ALTER ... AS
    assert altered == ({"zone": "of the table"} if own or replaced.expectations or before == after else {"zone": "of the session"})


def test_whoever_judges_a_statement_sees_its_condition_as_spark_will() -> None:
    """A text that Spark cannot read is judged by nobody."""
    similar = "reflect('a', 'b') SIMILAR TO 'c'"
    for text in (
        f"CREATE STREAM TABLE t FROZEN WHERE ({similar}) AS SELECT 1 AS a",
        f"CREATE STREAM TABLE t (CONSTRAINT c EXPECT ({similar})) AS SELECT 1 AS a",
        f"CREATE PUBLICATION p FOR TABLE t WHERE ({similar})",
        f"GIVE UP EVENTS FROM q FOR c WHERE ({similar})",
        f"REPLAY DEAD LETTERS FROM q FOR c WHERE ({similar})",
    ):
        assert mentioned(parse(text))["conditions"] == ["reflect('a', 'b') RLIKE '(?s)^(?:c)(?!.)'"]


def test_whoever_judges_a_statement_sees_its_condition() -> None:
    for text in (
        "CREATE STREAM TABLE t FROZEN WHERE (reflect('a', 'b') = 'c') AS SELECT 1 AS a",
        "ALTER STREAM TABLE t SET FROZEN WHERE (reflect('a', 'b') = 'c')",
    ):
        assert mentioned(parse(text))["conditions"] == ["reflect('a', 'b') = 'c'"]


def test_a_definition_with_other_frozen_rows_asks_for_other_rows() -> None:
    def properties(clause: str) -> dict[str, str]:
        statement = created(f"CREATE STREAM TABLE t {clause} AS SELECT 1 AS a")
        return {k: v for k, v in Definition(statement, "id", ("s", "d"), {}, {}).properties().items() if v is not None}

    before = properties("FROZEN WHERE (a > 0)")
    assert Definition.same_rows(before, properties("FROZEN WHERE (a > 0) SCHEDULE '5m'"))
    assert not Definition.same_rows(before, properties("FROZEN WHERE (a > 1)"))
    assert not Definition.same_rows(before, properties(""))


class Frame:
    """Stands for a DataFrame: it remembers its filter."""

    asked: str = ""

    def filter(self, condition: str) -> Frame:
        found = Frame()
        found.asked = condition
        return found


def frozen(condition: str) -> Frozen:
    return Frozen(Condition(condition), Frame())  # type: ignore[arg-type]  # no row is looked at


def test_a_row_for_which_the_condition_is_null_is_not_frozen() -> None:
    table: Any = Frame()
    found: Any = frozen("a > 0 -- why \\").outside(table)
    assert found.asked == "NOT (a > 0 -- why \\\n\n) OR (a > 0 -- why \\\n\n) IS NULL"


TREES: dict[str, Operator] = {**FIRST, **WHOLE, **OVER_ANOTHER, **JOINS, "no window": kept(scan("l", "k v w"), "k v")}


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=30, deadline=None)
@given(tables=TABLES, changed=st.sets(st.sampled_from("lr")), small=st.booleans(), last=st.booleans())
def test_a_delta_leaves_frozen_rows_and_makes_the_others_those_of_the_query(
    name: str, tables: dict[str, tuple[list[Row], ...]], changed: set[str], small: bool, last: bool
) -> None:
    query = TREES[name]
    of = query.columns[-1 if last else 0].id
    tree = normalise(Filter(query, (scalar(f"NOT ({of} > 1) OR ({of} > 1) IS NULL"),)))
    old = {table: stay + gone for table, (stay, gone, _) in tables.items()}
    new = {table: stay + came if table in changed else old[table] for table, (stay, _, came) in tables.items()}
    before = World(old, old, {})
    held = rows(query, before)  # the table after its first refresh
    still = [row for row in held if row[of] is not None and row[of] > 1]
    stored: dict[str, list[Row]] = {BEFORE: [row for row in held if row not in still]}
    world, deltas = World(old, new, stored), deltas_of("".join(changed), small)
    moved = delta_of_query(tree, deltas)
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
    change = bag(moved, world) if moved else {}
    at = [c.id for c in query.columns].index(of)
    assert not [row for row in change if row[at] is not None and row[at] > 1]
    assert change == minus(bag(tree, world), bag(tree, before))


def test_the_columns_of_a_table_with_frozen_rows_hold_no_states() -> None:
    groups = count_by(scan("l", "k v w"), k="k")
    assert visible_states(groups) is not None
    for condition in ("NOT (k > 1)", "NOT (n > 1)"):
        outside = Filter(kept(groups, "k n"), (scalar(condition),))
        assert visible_states(normalise(kept(outside, "n k"))) is None


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (Filter(scan("l", "k"), (scalar(f"k < {NOW.id}"),)), "reads the clock"),
        (Filter(scan("l", "k"), (scalar("k < 1", deterministic=False),)), "is not deterministic"),
        (scan("l", "k"), "cannot be told of a row alone"),
        (kept(Filter(scan("l", "k"), (scalar("k < 1"),)), "k"), "cannot be told of a row alone"),
    ],
)
def test_a_condition_that_says_another_thing_of_the_same_row_later_is_refused(tree: Operator, said: str) -> None:
    for read in (tree, Unsupported("Sample", (tree,), tree.columns, "")):
        with pytest.raises(InvalidQuery, match=f"line 1, column 1: the condition of FROZEN {said}"):
            refuse_moving(read, frozen("k < 1"))
    told = Filter(scan("l", "k"), (scalar("k < 1"),))
    refuse_moving(told, frozen("k < 1"))
    with pytest.raises(InvalidQuery, match="the condition of FROZEN reads the session"):
        refuse_moving(told, replace(frozen("k < 1"), current=True))


def test_expectations_beside_frozen_rows_are_refused() -> None:
    statement = created("CREATE STREAM TABLE t (CONSTRAINT c EXPECT (a > 0)) FROZEN WHERE (a > 1) AS SELECT 1 AS a")
    nothing: Any = Frame()
    with pytest.raises(InvalidStatement, match="a table with expectations cannot have frozen rows"):
        freeze(nothing, statement)
    assert freeze(nothing, created("CREATE STREAM TABLE t AS SELECT 1 AS a")) is None


@pytest.mark.parametrize("text", ["a > 0) AS SELECT 2 --", "a > 0) OR (TRUE", "a > 0 /*", ")", "("])
def test_a_condition_of_python_cannot_end_its_parentheses_and_say_another_statement(text: str) -> None:
    session: Any = object()  # nothing is asked of it
    tables = StreamTables(session)
    with pytest.raises(InvalidStatement, match="is no condition"):
        tables.create("t", "SELECT 1 AS a", frozen=text)
    with pytest.raises(InvalidStatement, match="is no condition"):
        StreamTable(session, Name(("t",))).alter(frozen=text)


def test_trusted_without_a_table_is_refused() -> None:
    session: Any = object()
    with pytest.raises(InvalidStatement, match="trusted says something of backfill alone"):
        StreamTables(session).create("t", "SELECT 1 AS a", trusted=True)
