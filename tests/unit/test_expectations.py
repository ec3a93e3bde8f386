"""Expectations without Spark: where conditions stand, what stays of the judged rows, how their delta is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.unit.test_stored_before import FIRST, JOINS, OTHERWISE, TABLES, WHOLE, deltas_of
from tests.unit.trees import Row, World, bag, kept, minus, project, rows, scalar, scan

from streamtable.algebra.columns import Column, Item
from streamtable.algebra.operators import Aggregate, Operator, Project, Unsupported
from streamtable.algebra.trees import walk
from streamtable.catalog.definition import Definition
from streamtable.definitions.checks import check_properties
from streamtable.differentiate.deltas import Shared
from streamtable.differentiate.stored_before import BEFORE, delta_of_query
from streamtable.errors import InvalidQuery, InvalidStatement
from streamtable.language.names import Condition, Name
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import AlterStreamTable, CreateStreamTable
from streamtable.language.stream_table.expectations import AddExpectation, Expectation, Violation
from streamtable.language.write import to_sql
from streamtable.observe.calls import describe
from streamtable.observe.expectations import MOST, VIOLATIONS
from streamtable.query.expectations import Judged, form_of, refuse_volatile, spelled
from streamtable.refresh.counts import Counts
from streamtable.statements.mentions import mentioned


def created(text: str) -> CreateStreamTable:
    statement = parse(text)
    assert isinstance(statement, CreateStreamTable)
    return statement


def test_a_condition_is_sparks_to_read_and_its_place_is_known() -> None:
    text = (
        "CREATE STREAM TABLE t (a COMMENT 'x',\n CONSTRAINT `a b` EXPECT ( CAST(a AS INT) > 0 -- )\n), b,\n"
        " constraint first expect (b IN (')', ';')) on violation fail update) AS SELECT 1, 2"
    )
    one, other = created(text).expectations
    assert (one, other) == (
        Expectation("a b", Condition("CAST(a AS INT) > 0 -- )")),
        Expectation("first", Condition("b IN (')', ';')"), Violation.FAIL_UPDATE),
    )
    assert (one.condition.line, one.condition.column, other.condition.line, other.condition.column) == (2, 28, 4, 27)
    assert [column.name for column in created(text).columns] == ["a", "b"]
    assert created(to_sql(created(text))) == created(text)


@pytest.mark.parametrize("name", ["constraint", "expect", "comment"])
def test_the_words_of_expectations_are_names_as_well(name: str) -> None:
    statement = created(
        f"CREATE STREAM TABLE {name}.expect ({name}, other, CONSTRAINT {name} EXPECT ({name} > 0) ON VIOLATION DROP ROW) AS SELECT 1, 2"
    )
    assert [column.name for column in statement.columns] == [name, "other"]
    assert statement.expectations == (Expectation(name, Condition(f"{name} > 0"), Violation.DROP_ROW),)
    assert [c.comment for c in created(f"CREATE STREAM TABLE expect ({name} COMMENT 'x') AS SELECT 1").columns] == ["x"]


def test_whoever_judges_a_statement_sees_its_conditions() -> None:
    for text in (
        "CREATE STREAM TABLE t (CONSTRAINT c EXPECT (reflect('a', 'b') = 'c')) AS SELECT 1 AS a",
        "ALTER STREAM TABLE t ADD CONSTRAINT c EXPECT (reflect('a', 'b') = 'c')",
    ):
        assert mentioned(parse(text))["conditions"] == ["reflect('a', 'b') = 'c'"]


def test_alter_adds_and_drops_by_name() -> None:
    added = parse("ALTER STREAM TABLE t ADD CONSTRAINT c EXPECT (a > 0) ON VIOLATION DROP ROW")
    assert isinstance(added, AlterStreamTable)
    assert to_sql(added) == "ALTER STREAM TABLE `t` ADD CONSTRAINT `c` EXPECT (a > 0) ON VIOLATION DROP ROW"
    assert to_sql(parse("ALTER MATERIALIZED VIEW t DROP CONSTRAINT IF EXISTS c")).endswith("DROP CONSTRAINT IF EXISTS `c`")


def test_a_definition_with_another_expectation_asks_for_other_rows() -> None:
    def properties(expectation: str) -> dict[str, str]:
        statement = created(f"CREATE STREAM TABLE t (CONSTRAINT c EXPECT ({expectation})) AS SELECT 1 AS a")
        return {k: v for k, v in Definition(statement, "id", ("s", "d"), {}, {}).properties().items() if v is not None}

    before = properties("a > 0")
    assert Definition.same_rows(before, properties("a > 0"))
    assert not Definition.same_rows(before, properties("a > 1"))
    assert not Definition.same_rows(before, properties("a > 0) ON VIOLATION DROP ROW, CONSTRAINT d EXPECT (true"))


GROUPED = [name for name, tree in WHOLE.items() if any(isinstance(node, Aggregate) for node in walk(tree))]
"""Trees of groups. With expectations these have states, which the world of these tests does not hold."""

TREES: dict[str, Operator] = {name: tree for name, tree in (FIRST | WHOLE | JOINS | OTHERWISE).items() if name not in GROUPED}
CONDITIONS = (("kept", Violation.KEEP, "{0} > 1"), ("dropped", Violation.DROP_ROW, "{1} > 1 OR {0} = 1"))


def judged(tree: Operator) -> Judged:
    """Judge the rows of a query by two expectations, of which one drops."""
    names = [c.id for c in tree.columns][:2]
    flags = {f"flag{n}": condition.format(names[0], names[-1]) for n, (_, _, condition) in enumerate(CONDITIONS)}
    items = {c.id: c.id for c in tree.columns}
    expectations = tuple(Expectation(name, Condition(""), violation) for name, violation, _ in CONDITIONS)
    return Judged(None, project(tree, **items, **flags), expectations)  # type: ignore[arg-type]  # the tree decides alone


def numbers(signed: Counter[tuple[Any, ...]], at: int) -> tuple[int, int]:
    """Count the rows of a bag, and those that fail the expectation whose flag is at a place from the end."""
    return sum(signed.values()), sum(weight for row, weight in signed.items() if not row[at])


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=30, deadline=None)
@given(tables=TABLES, changed=st.sets(st.sampled_from("lr")), small=st.booleans())
def test_what_stays_and_what_is_counted_follow_from_one_delta(
    name: str, tables: dict[str, tuple[list[Row], ...]], changed: set[str], small: bool
) -> None:
    whole = judged(TREES[name])
    old = {table: stay + gone for table, (stay, gone, _) in tables.items()}
    new = {table: stay + came if table in changed else old[table] for table, (stay, _, came) in tables.items()}
    before, stored = World(old, old, {}), dict[str, list[Row]]()
    world, deltas = World(old, new, stored), deltas_of("".join(changed), small)
    moved = delta_of_query(whole.kept, deltas, whole.tree)
    counted = deltas.keep(whole.tree)
    for step in deltas.steps:
        assert isinstance(step, Shared)
        assert BEFORE not in {getattr(node, "name", None) for node in walk(step.tree)}  # the table lacks what was dropped
        stored[step.name] = rows(step.tree, world)
    assert (bag(moved, world) if moved else {}) == minus(bag(whole.kept, world), bag(whole.kept, before))
    if counted is None:
        assert moved is None
        return
    change = bag(counted, world)
    for at in (-1, -2):
        (total, failing), (total_before, failing_before) = (numbers(bag(whole.tree, each), at) for each in (world, before))
        assert numbers(change, at) == (total - total_before, failing - failing_before)


def test_without_a_dropping_expectation_all_rows_stay() -> None:
    tree = kept(TREES["no window"], "k v")
    whole = judged(tree)
    only_kept = Judged(whole.frame, project(tree, k="k", v="v", flag0="k > 1"), whole.expectations[:1])
    table: dict[str, list[Row]] = {"l": [{"k": 1, "v": None, "w": 1}, {"k": 2, "v": 2, "w": 1}], "r": []}
    world = World(table, table, {})
    assert bag(only_kept.kept, world) == bag(tree, world)
    assert len(rows(whole.kept, world)) == 2
    assert form_of(only_kept.expectations) != form_of(whole.expectations)


ONE = (Expectation("c", Condition("a > 0"), Violation.KEEP),)


def test_what_is_computed_for_a_condition_is_judged_and_what_the_query_computes_is_not() -> None:
    table = scan("l", "k v")
    k, v, argument = (
        Item("k", "k", scalar("k")),
        Item("v", "v", scalar("v")),
        Item("x", "x", scalar("rand()", deterministic=False)),
    )
    drawn = Project(table, (replace(argument, id="k"), v))
    refuse_volatile(project(drawn, k="k", v="v", flag="k > v"), ONE)  # the query may draw a column
    below = Project(drawn, (k, v, argument))
    nested = project(below, k="k", v="v", y="x + 1")
    for tree in (project(below, k="k", v="v", flag="x > 0"), project(nested, k="k", v="v", flag="y > 0")):
        for read in (tree, Unsupported("Sample", (tree,), tree.columns, "")):
            with pytest.raises(InvalidQuery, match=r"the condition of the expectation c is not deterministic: rand\(\)"):
                refuse_volatile(read, ONE)
    unknown = Unsupported("Window", (), (*table.columns, Column("x", "x", "INT")), "")
    untold: tuple[Operator, ...] = (
        project(unknown, k="k", v="v", flag="x > 0"),
        project(drawn, k="k", v="v", flag="gone > 0"),
        scan("l", "k flag"),
    )
    for other in untold:
        with pytest.raises(InvalidQuery, match="the condition of the expectation c cannot be told of a row alone"):
            refuse_volatile(other, ONE)


def test_a_condition_has_the_forms_that_a_query_may_have() -> None:
    for text, expected in {
        "n > ALL (xs)": "(forall(xs, __element -> (n) > __element)\n\n)",
        "n = ANY (ARRAY[1, 2]) -- or": "(exists(array(1, 2), __element -> (n) = __element) -- or\n\n)",
        "a AND s SIMILAR TO 'a%'": "(a AND s RLIKE '(?s)^(?:a.*)(?!.)'\n\n)",
        "n > 0 -- \\": "(n > 0 -- \\\n\n)",
    }.items():
        assert spelled(Condition(text)) == expected


def test_counts_move_and_are_spelled() -> None:
    after = Counts(10, {"a": 2, "b": 0}).plus(Counts(-3, {"a": -2, "b": 1}))
    assert (after, after.passed("a"), after.passed("b")) == (Counts(7, {"a": 0, "b": 1}), 7, 6)
    assert str(after) == '{"a": {"passed": 7, "failed": 0}, "b": {"passed": 6, "failed": 1}}'


@pytest.mark.parametrize("failing", [MOST - 1, MOST, MOST + 1])
def test_violations_without_a_limit_are_few(failing: int) -> None:
    """What the driver collects is bounded before it is."""
    asked = list[int]()

    def limit(most: int) -> Any:
        asked.append(most)
        return MagicMock(**{"_jdf.collectAsList.return_value.size.return_value": min(failing, most)})

    found: Any = SimpleNamespace(limit=limit)
    if failing <= MOST:
        assert len(VIOLATIONS._all(Name(("c", "s", "a's")), "valid", found)) == failing
    else:
        with pytest.raises(InvalidStatement) as refused:
            VIOLATIONS._all(Name(("c", "s", "a's")), "valid", found)
        assert "more than 10,000 rows of c.s.a's" in str(refused.value)
        assert r"expectation_violations('`c`.`s`.`a\'s`', 'valid', 100)" in str(refused.value)
    assert asked == [MOST + 1]


@pytest.mark.parametrize("limit", ["9" * 5000, str(2**31), "-1", "1.5", "x"])
@pytest.mark.parametrize("function", ["expectation_violations", "refresh_history"])
def test_a_limit_that_is_none_is_refused_however_long_it_is(function: str, limit: str) -> None:
    arguments = ["st", "valid", limit] if function == VIOLATIONS.name else ["st", limit]
    with pytest.raises(InvalidStatement, match=f"the limit of {function} cannot be"):
        describe(cast("SparkSession", None), function, arguments)


@pytest.mark.parametrize(("key", "name"), [("delta.constraints.positive", "positive"), ("DELTA.Constraints.a`b", "a`b")])
def test_a_constraint_of_delta_is_answered_with_the_expectation_that_refuses_such_rows(key: str, name: str) -> None:
    with pytest.raises(InvalidStatement) as refused:
        check_properties([(key, "a > 0 -- )")])
    advice = (refused.value.hint or "").partition("ALTER STREAM TABLE ... ")[2]
    alter = parse(f"ALTER STREAM TABLE t {advice}")
    assert isinstance(alter, AlterStreamTable)
    assert alter.action == AddExpectation(Expectation(name, Condition("a > 0 -- )"), Violation.FAIL_UPDATE))
