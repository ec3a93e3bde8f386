"""Expectations and constraints of a model of dbt reach the stream table, and no key of its config is ignored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.macros_of_dbt import Config, Package, statement

from streamtable.language.names import Condition
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import ExplainCreate
from streamtable.language.stream_table.expectations import Expectation, Violation

FAIL = Violation.FAIL_UPDATE


def refusal(config: dict[str, Any], **model: Any) -> str | None:
    """Return why a model is refused before anything runs."""

    def refuse(text: str) -> None:
        raise ValueError(text)

    model = {"columns": {}, "config": config, **model}
    package = Package(config=Config(config), model=model, exceptions=SimpleNamespace(raise_compiler_error=refuse))
    try:
        package.check_config("shop.t")
    except ValueError as error:
        return str(error)
    return None


def test_expectations_of_a_model_are_those_of_its_table() -> None:
    """They stand beside the descriptions of the columns, in one list."""
    written = [
        {"name": "positive", "condition": "day > 0", "on_violation": "drop row"},
        {"name": "it's `one`", "condition": "`a b` = ')' -- of \\", "on_violation": "FAIL UPDATE"},
        {"name": "COMMENT", "condition": "day < 5\n", "on_violation": "none"},
        {"name": 7, "condition": "true"},
    ]
    found = statement({"expectations": written, "persist_docs": True}, columns={"day": {"name": "day", "description": "when"}})
    assert [(each.name, each.comment) for each in found.columns] == [("Day", "when"), ("a b", None)]
    assert found.expectations == (
        Expectation("positive", Condition("day > 0"), Violation.DROP_ROW),
        Expectation("it's `one`", Condition("`a b` = ')' -- of \\"), FAIL),
        Expectation("COMMENT", Condition("day < 5")),
        Expectation("7", Condition("true")),
    )
    assert refusal({"expectations": written}) is None


def test_constraints_of_dbt_that_are_conditions_make_a_refresh_fail() -> None:
    found = statement(
        {"expectations": [{"name": "Day_Check", "condition": "day > 1"}]},
        constraints=[
            {"type": "check", "expression": "day > 2", "name": "check"},
            {"type": "check", "expression": "day > 3", "columns": []},
            {"type": "not_null", "columns": ["day", "`a b`"]},
            {"type": "primary_key", "columns": ["day"]},
        ],
        columns={
            "day": {
                "name": "day",
                "constraints": [
                    {"type": "not_null", "name": "known"},
                    {"type": "not_null"},
                    {"type": "check", "expression": "day > 4"},
                    {"type": "unique"},
                ],
            },
            "a b": {"name": "a b", "constraints": [{"type": "not_null"}]},
        },
    )
    assert found.columns == ()
    assert found.expectations == (
        Expectation("Day_Check", Condition("day > 1")),
        Expectation("check", Condition("day > 2"), FAIL),
        Expectation("check_2", Condition("day > 3"), FAIL),
        Expectation("day_a b_not_null", Condition("`day` is not null and `a b` is not null"), FAIL),
        Expectation("known", Condition("`day` is not null"), FAIL),
        Expectation("day_not_null", Condition("`day` is not null"), FAIL),
        Expectation("day_check_2", Condition("day > 4"), FAIL),
        Expectation("a b_not_null", Condition("`a b` is not null"), FAIL),
    )


def test_what_on_configuration_change_asks_holds_the_expectations() -> None:
    asked = list[str]()

    def run(sql: str) -> SimpleNamespace:
        asked.append(sql)
        return SimpleNamespace(rows=[{"operator": "Replace", "reason": "the table is rebuilt"}])

    config = Config(expectations=[{"name": "positive", "condition": "day > 0"}])
    package = Package(config=config, model={"columns": {}}, run_query=run)
    query = "select 1 as day"
    assert package.told("shop.t", package.clauses(query), query)[-1]["reason"] == "the table is rebuilt"
    explained = parse(asked[0])
    assert isinstance(explained, ExplainCreate)
    assert explained.create.expectations == (Expectation("positive", Condition("day > 0")),)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"positive": "day > 0"}, "`expectations` is a list"),
        ("day > 0", "`expectations` is a list"),
        (["day > 0"], "an expectation needs a `name` and a `condition`, and one is: day > 0"),
        ([{"name": "positive"}], "needs a `name` and a `condition`"),
        ([{"name": "positive", "condition": "day > 0", "action": "drop"}], "and no `action`"),
        ([{"name": "positive", "condition": "day > 0", "on_violation": "drop"}], "`drop row` or `fail update`, and not `drop`"),
    ],
    ids=str,
)
def test_an_expectation_that_cannot_be_read_is_refused(written: object, said: str) -> None:
    assert said in (refusal({"expectations": written}) or "")


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ({"type": "custom", "expression": "day > 0"}, "the constraint `custom` is not enforced"),
        ({"type": "check"}, "a constraint `check` of the model needs an `expression`"),
        ({"type": "not_null"}, "a constraint `not_null` of the model needs `columns`"),
        ({"type": "unique", "columns": ["day"]}, None),
        ({"type": "foreign_key", "columns": ["day"], "to": "ref('days')", "to_columns": ["day"]}, None),
    ],
    ids=str,
)
def test_what_no_refresh_could_check_of_a_constraint_is_refused(constraint: dict[str, Any], said: str | None) -> None:
    found = refusal({}, constraints=[constraint])
    assert (found is None) if said is None else said in str(found)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("refresh_policy", "refresh_mode"),
        ("target_lag", "schedule"),
        ("clustered_by", "cluster_by"),
        ("schedul", "schedule"),
        ("Schedule", "schedule"),
        ("shcedule", "schedule"),
        ("frozen_were", "frozen_where"),
        ("expectation", "expectations"),
        ("partition_bye", "partition_by"),
        ("constraints", "beside `config`"),
    ],
)
def test_a_key_that_nobody_would_read_is_refused_with_the_one_that_is_meant(key: str, meant: str) -> None:
    said = refusal({"materialized": "stream_table", key: "x"}) or ""
    assert key in said and meant in said


def test_keys_of_dbt_and_of_the_user_are_left_alone() -> None:
    ours = {"schedule": "5m", "state": "none", "tblproperties": {"a": "b"}, "location_root": "/srv", "expectations": []}
    of_dbt = {"materialized": "x", "schema": "s", "tags": ["a"], "pre-hook": ["x"], "docs": {"show": True}, "unique_key": "id"}
    assert refusal({**ours, **of_dbt, "owner": "ada", "stage": "gold", "target_lag": None}) is None
