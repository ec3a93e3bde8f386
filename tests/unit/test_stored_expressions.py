"""What the log of a subscriber's table has a write evaluate: without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import ParseException

from streamtable.delta.tables import TableState
from streamtable.errors import DefinitionNotAccepted
from streamtable.replication import stored

SPARK: Any = None


def table(metadata: dict[str, str], properties: dict[str, str] | None = None) -> TableState:
    """Return a table whose innermost field has metadata."""
    inner = {"type": "struct", "fields": [{"name": "b", "type": "string", "nullable": True, "metadata": metadata}]}
    outer = {"name": "metadata", "type": {"type": "array", "elementType": inner, "containsNull": True}, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [outer]})
    return TableState("/t", "id", 3, properties or {}, schema, (), None)


INVARIANT = json.dumps({"expression": {"expression": "evil"}})
HELD: list[tuple[TableState, str | None]] = [
    (table({}), None),
    (table({}, {"delta.constraints.c": "good", "delta.appendOnly": "evil", "comment": "evil"}), None),
    (table({}, {"delta.constraints.c{}": "evil"}), "the constraint c{} of t calls reflect(?s:.)*DROP CONSTRAINT `c{}`"),
    (table({}, {"Delta.Constraints.C": "evil"}), "the constraint C of t"),
    (table({"delta.generationExpression": "evil"}), "the generated column b of t"),
    (table({"delta.invariants": INVARIANT}), "the invariant on b of t"),
    (table({"delta.invariants": "evil"}), "the invariant on b of t"),
    (table({"delta.generationExpression": "good", "delta.invariants": "[]", "comment": "evil"}), None),
    (table({"delta.generationExpression": "no expression"}), None),  # Delta says so
]


@pytest.mark.parametrize(("found", "refused"), HELD)
def test_what_a_write_evaluates_is_looked_at_first(found: TableState, refused: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(_: object, said: str) -> str:
        if said == "no expression":
            raise ParseException("no expression")
        return said

    monkeypatch.setattr(stored, "parsed", parsed)
    monkeypatch.setattr(stored, "of_the_machine", lambda _, said: "reflect" if said == "evil" else None)
    if refused is None:
        stored.check_stored(SPARK, found, "t")
    else:
        with pytest.raises(DefinitionNotAccepted, match=refused):
            stored.check_stored(SPARK, found, "t")
