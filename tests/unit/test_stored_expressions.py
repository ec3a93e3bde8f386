"""What the log of a subscriber's table has a write evaluate, and which functions run code or read files: without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import ParseException

from streamtable.delta.tables import TableState
from streamtable.errors import DefinitionNotAccepted
from streamtable.replication import stored
from streamtable.replication.calls import of_the_machine

SPARK: Any = None


def call(name: str, *arguments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a call as Spark writes it: the node, and then those of its arguments."""
    kind = "org.apache.spark.sql.catalyst.analysis.UnresolvedFunction"
    named = f"[{', '.join(name.split('.'))}]"
    return [{"class": kind, "num-children": len(arguments), "nameParts": named}, *(node for each in arguments for node in each)]


def text(value: str | None) -> list[dict[str, Any]]:
    return [{"class": "org.apache.spark.sql.catalyst.expressions.Literal", "num-children": 0, "value": value}]


def options(*said: str) -> list[dict[str, Any]]:
    return call("map", *map(text, said))


XSD = ("rowValidationXSDPath", "/etc/passwd")
CALLS: list[tuple[list[dict[str, Any]], str | None]] = [
    (text("reflect"), None),
    (call("upper", text("reflect")), None),
    (call("REFLECT", text("a")), "REFLECT"),
    (call("upper", call("concat", text("a"), call("system.builtin.java_method"))), "system.builtin.java_method"),
    (call("from_xml", text("<a/>"), text("b INT")), None),
    (call("from_xml", text("<a/>"), text("b INT"), options("mode", "PERMISSIVE")), None),
    (call("from_xml", text("<a/>"), text("b INT"), options(*XSD)), "from_xml"),
    (call("from_xml", call("concat", text("<"), text("a/>")), text("b INT"), options("mode", "DROPMALFORMED", *XSD)), "from_xml"),
    (call("from_xml", text("<a/>"), text("b INT"), call("map", call("lower", text(XSD[0])), text(XSD[1]))), "from_xml"),
    (call("from_xml", text("<a/>"), text("b INT"), call("str_to_map", text(":".join(XSD)))), "from_xml"),
    (call("from_avro", text("a"), text("{}"), options("avroSchemaUrl", "/etc/passwd")), "from_avro"),
    (call("schema_of_xml", text("<a/>"), options(*XSD)), "schema_of_xml"),
    (call("concat", text("a"), text("b"), options(*XSD)), None),
    (call("from_xml", text("<a/>"), text("b INT"), options("rowTag", "a")) + text(None), None),
]


@pytest.mark.parametrize(("nodes", "reaching"), CALLS)
def test_which_functions_run_code_or_read_files(nodes: list[dict[str, Any]], reaching: str | None) -> None:
    assert of_the_machine(nodes) == reaching


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
    def parsed(_: object, said: str) -> list[dict[str, Any]]:
        if said == "no expression":
            raise ParseException("no expression")
        return call("reflect" if said == "evil" else "upper")

    monkeypatch.setattr(stored, "parsed", parsed)
    if refused is None:
        stored.check_stored(SPARK, found, "t")
    else:
        with pytest.raises(DefinitionNotAccepted, match=refused):
            stored.check_stored(SPARK, found, "t")
