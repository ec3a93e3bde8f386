"""Rows of ENVELOPE DEBEZIUM as events."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from streamtable.hosts.cli.subscribing import as_event

COLUMNS = ["timestamp", "state", "id", "before_v", "before_after_v", "after_v", "after_after_v"]


@pytest.mark.parametrize(
    ("state", "values", "op", "before", "after"),
    [
        ("insert", (None, None, 1, 2), "c", None, {"id": 7, "v": 1, "after_v": 2}),
        ("upsert", (1, 2, 3, 4), "u", {"id": 7, "v": 1, "after_v": 2}, {"id": 7, "v": 3, "after_v": 4}),
        ("delete", (1, 2, None, None), "d", {"id": 7, "v": 1, "after_v": 2}, None),
        ("key_violation", (None, None, None, None), None, None, None),
    ],
)
def test_each_state(state: str, values: tuple[Any, ...], op: str | None, before: Any, after: Any) -> None:
    event = as_event(COLUMNS, (5, state, 7, *values))
    assert (event["op"], event["before"], event["after"]) == (op, before, after)
    assert (event["source"]["version"], event["source"]["key"]) == (5, {"id": 7})


def test_progress_and_a_key_alone() -> None:
    progress = as_event(["timestamp", "progressed", "state", "id"], (5, True, None, None))
    assert (progress["op"], progress["source"]["version"]) == (None, 5)
    assert as_event(["timestamp", "state", "a", "b"], (5, "insert", 1, 2))["after"] == {"a": 1, "b": 2}


def test_another_envelope_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="ENVELOPE DEBEZIUM"):
        as_event(["timestamp", "diff", "id"], (5, 1, 7))
