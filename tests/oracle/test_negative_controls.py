"""The suite must notice a known bug that is put back: its own tests of the patterns fail then; else their silence means nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp
from tests.oracle.scenario import Scenario
from tests.spark import test_patterns as patterns
from tests.spark import test_patterns_aggregates as more_patterns

from streamtable.algebra import render
from streamtable.algebra.operators import Operator
from streamtable.differentiate import aggregate_step
from streamtable.differentiate.deltas import Deltas
from streamtable.engine import locate

MISSING = r"missing Counter\(\{.*surplus Counter\(\)"
SURPLUS = r"missing Counter\(\), surplus Counter\(\{"


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        yield scenario


def _as_it_is(_: Deltas, operator: Operator) -> Operator:
    return operator


def _plain(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Compare so that NULL equals nothing."""
    return exp.EQ(this=left, expression=right)


BUGS: dict[str, tuple[object, str, object, Callable[[Scenario], None], str]] = {
    "the cross term of a join is counted twice": (
        Deltas, "old", _as_it_is, patterns.test_pattern_01_both_sides_change_in_one_refresh, SURPLUS
    ),
    "the cross term of a join is dropped": (
        Deltas, "new", Deltas.old, patterns.test_pattern_01_both_sides_change_in_one_refresh, MISSING
    ),
    "NULL keys are ignored where groups meet their stored states": (
        aggregate_step, "equal", _plain, patterns.test_pattern_20_null_group_keys_then_delete, "missing Counter"
    ),
    "NULL keys are ignored where an input is restricted to affected groups": (
        render, "equal", _plain, patterns.test_pattern_20_null_group_keys_then_delete, "missing Counter"
    ),
    "NULL values are ignored where the rows that go are looked for": (
        locate, "equal", _plain, more_patterns.test_pattern_31_one_of_several_equal_rows_is_deleted_or_updated, "REINITIALIZE.*was to be deleted"
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_that_is_put_back_is_noticed(s: Scenario, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, wrong, of_the_suite, symptom = BUGS[bug]
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(AssertionError, match=symptom):
        of_the_suite(s)
