"""From which columns of the sources each column comes, and what a refresh tells receivers of spans and of lineage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql.types import StructType
from tests.unit.trees import columns, scalar, scan, source

from streamtable.algebra.columns import Call, Item
from streamtable.algebra.lineage import origins
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    JoinType,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    TopK,
    UnionAll,
    Unsupported,
    Window,
    WorkingTable,
)
from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.language.parse import parse
from streamtable.refresh import lineage
from streamtable.settings.session import (
    LINEAGE,
    SETTINGS,
    TRACES,
    Setting,
    check_settings,
    setting_or_default,
    shown_settings,
    value_or_default,
)
from streamtable.tracing import phase, tell, traced

A, B = scan("a", "k v"), scan("b", "j w")
LOOP = source("loop")


def item(name: str, sql: str) -> Item:
    return Item(name, name, scalar(sql))


def found(tree: Operator) -> list[str]:
    """Return the origins of each column, as sorted names with a space between."""
    return [" ".join(sorted(f"{of.name}.{name}" for of, name in each)) for each in origins(tree)]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (scan("a", "", x="amount"), ["a.amount"]),
        (Constant(0, columns("k")), [""]),
        (Filter(A, (scalar("v > 1"),)), ["a.k", "a.v"]),
        (TopK(A, (), 3, 0), ["a.k", "a.v"]),
        (Project(A, (item("s", "k + v"), item("one", "1"))), ["a.k a.v", ""]),
        (Project(Project(A, (item("s", "k + v"),)), (item("t", "s * 2"),)), ["a.k a.v"]),
        (Join((A, B), (scalar("k = j"),)), ["a.k", "a.v", "b.j", "b.w"]),
        (LeftJoin(A, B, JoinType.LEFT_OUTER, (scalar("k = j"),)), ["a.k", "a.v", "b.j", "b.w"]),
        (LeftJoin(A, B, JoinType.LEFT_ANTI, (scalar("k = j"),)), ["a.k", "a.v"]),
        (UnionAll((A, B), columns("x y")), ["a.k b.j", "a.v b.w"]),
        (
            Aggregate(
                A, (item("g", "k"),), (Call("n", scalar("sum(v)"), "sum", (scalar("v"),)), Call("c", scalar("count(1)"), "count"))
            ),
            ["a.k", "a.v", ""],
        ),
        (Generate(A, scalar("explode(v)"), False, columns("e")), ["a.k", "a.v", "a.v"]),
        (Expand(A, ((scalar("k"), scalar("v")), (scalar("v"), scalar("1"))), columns("x y")), ["a.k a.v", "a.v"]),
        (Window(A, (scalar("k"),), (item("r", "sum(v)"),)), ["a.k", "a.v", "a.v"]),
        (Unsupported("sample", (A,), columns("k z"), "no rule"), ["a.k", "a.k a.v"]),
        (
            Recursion(
                LOOP,
                A,
                Project(Join((WorkingTable(LOOP, columns("p q")), B)), (item("x", "q + j"), item("y", "p"))),
                columns("s t"),
            ),
            ["a.k a.v b.j", "a.k a.v b.j"],
        ),
    ],
)
def test_columns_come_from_what_they_are_computed_of(tree: Operator, expected: list[str]) -> None:
    assert found(tree) == expected


def entry_of(name: str = "c.s.t") -> Any:
    definition = SimpleNamespace(
        name=name,
        sources={"s3://bucket/a": "c.s.a", "/data/b": "delta.`/data/b`"},
        statement=parse("CREATE STREAM TABLE t AS SELECT k, v FROM a"),
    )
    schema = StructType().add("k", "integer").add("v", "string")
    return SimpleNamespace(definition=definition, state=SimpleNamespace(schema=schema), path="/data/t")


def started_with(address: str) -> Any:
    return MagicMock(**{"sparkContext._conf.get.return_value": address})


@contextmanager
def receiver() -> Iterator[tuple[str, list[Any]]]:
    """Listen on loopback, and keep what is posted."""
    posted = list[Any]()

    class Post(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((self.path, self.headers.get("Authorization"), json.loads(body)))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Post)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posted
    finally:
        server.shutdown()
        server.server_close()


def flush() -> None:
    lineage._sender().submit(lambda: None).result(20)


def refreshed(spark: Any, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    monkeypatch.setattr(lineage, "table_columns", lambda entry: ["k", "v"])
    with lineage.reported(spark, entry_of()) as report:
        report.analysed(SimpleNamespace(tree=A))  # type: ignore[arg-type]
        if error:
            raise error
        report.done(12)
    flush()


def test_a_receiver_is_told_of_a_refresh_with_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "a secret")
    with receiver() as (address, posted):
        refreshed(started_with(address), monkeypatch)
        with pytest.raises(InvalidStatement):
            refreshed(started_with(address), monkeypatch, InvalidStatement("no"))
        flush()
    assert {(path, key) for path, key, _ in posted} == {("/api/v1/lineage", "Bearer a secret")}
    begun, done, _, failed = (event for _, _, event in posted)
    assert [each["eventType"] for each in (begun, done, failed)] == ["START", "COMPLETE", "FAIL"]
    assert begun["run"]["runId"] == done["run"]["runId"] != failed["run"]["runId"]
    assert done["job"]["name"] == "c.s.t" and done["job"]["facets"]["sql"]["query"] == "SELECT k, v FROM a"
    assert [(each["namespace"], each["name"]) for each in done["inputs"]] == [("s3://bucket", "/a"), ("file", "/data/b")]
    (output,) = done["outputs"]
    assert (output["namespace"], output["name"], output["outputFacets"]["outputStatistics"]["rowCount"]) == ("file", "/data/t", 12)
    assert output["facets"]["symlinks"]["identifiers"][0]["name"] == "c.s.t"
    fields = output["facets"]["columnLineage"]["fields"]
    assert {key: [(each["name"], each["field"]) for each in value["inputFields"]] for key, value in fields.items()} == {
        "k": [("/a", "k")],
        "v": [("/a", "v")],
    }
    assert failed["run"]["facets"]["errorMessage"]["message"].startswith("[STREAMTABLE_INVALID_STATEMENT] no")


def test_events_go_to_a_file_and_nowhere_unless_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    refreshed(started_with(file.as_uri()), monkeypatch)
    assert [json.loads(line)["eventType"] for line in file.read_text().splitlines()] == ["START", "COMPLETE"]
    monkeypatch.setattr(lineage, "sent", MagicMock(side_effect=AssertionError))
    refreshed(started_with(""), monkeypatch)


@pytest.mark.parametrize(
    "address",
    ["ftp://x", "console", "http://", "http://[::1", "http://x:99999", "file:events.jsonl", "file://tmp/x", "file:/folder/"],
)
def test_a_wrong_address_is_refused_at_the_start_and_fails_no_refresh(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidStatement, match=f"lineage cannot be '{re.escape(address)}'"):
        check_settings({"spark.streamtable.lineage": address})
    for _ in range(3):
        refreshed(started_with(address), monkeypatch)
    assert caplog.text.count("spark.streamtable.lineage cannot be") == 1


def test_the_secrets_of_an_address_are_in_no_log_and_no_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "htp://ada:se@c/ret@there/x?key=secret"
    with pytest.raises(InvalidStatement, match=re.escape("'htp://...@there/x?...'")):
        check_settings({"spark.streamtable.lineage": wrong})
    refreshed(started_with(wrong), monkeypatch)
    lineage._connected.cache_clear()
    monkeypatch.setattr(lineage, "_client_of", MagicMock(side_effect=TypeError("no such transport")))
    refreshed(started_with("https://ada:secret@there:1/x?key=secret"), monkeypatch)
    lineage._connected.cache_clear()
    conf = SimpleNamespace(get=lambda key, default: "http://ada:secret@there:1" if key == LINEAGE.key else default)
    shown = {key: value for key, value, _ in shown_settings(cast("Any", SimpleNamespace(conf=conf)))}
    assert shown[LINEAGE.key] == "http://...@there:1" and len(shown) == len(SETTINGS)
    assert "https://...@there:1/x?..." in caplog.text and "secret" not in caplog.text and "c/ret" not in caplog.text


def test_a_client_of_lineage_that_cannot_be_made_fails_no_refresh(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "_client_of", MagicMock(side_effect=TypeError("no such transport")))
    for _ in range(3):
        refreshed(started_with("http://127.0.0.1:1"), monkeypatch)
    assert caplog.text.count("no such transport") == 1
    monkeypatch.setattr("openlineage.client.uuid.generate_new_uuid", MagicMock(side_effect=OSError("no chance")))
    lineage._connected.cache_clear()
    monkeypatch.setattr(lineage, "_client_of", MagicMock())
    refreshed(started_with("http://127.0.0.1:1"), monkeypatch)
    assert "an event of OpenLineage is lost: no chance" in caplog.text
    lineage._connected.cache_clear()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: str(setting.key))
def test_a_wrong_setting_is_refused_at_the_start_and_stops_no_scheduler(setting: Setting[Any]) -> None:
    if setting.parse is str:
        return
    with pytest.raises(InvalidStatement, match=f"{setting.key} cannot be 'perhaps'"):
        check_settings({setting.key: "perhaps"})
    assert value_or_default(setting, "perhaps") == setting.default
    check_settings({setting.key: str(setting.default)} if setting.default is not None else {})


def test_a_receiver_that_is_gone_fails_no_refresh(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    refreshed(started_with("http://127.0.0.1:9"), monkeypatch)
    assert "an event of OpenLineage is lost" in caplog.text


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


def test_phases_are_spans_of_one_refresh_when_asked(spans: InMemorySpanExporter) -> None:
    with traced(False, "refresh"), phase("analyse"):
        tell(action="FULL")
    assert spans.get_finished_spans() == ()
    with traced(True, "refresh", table="s.t"):
        with pytest.raises(InvalidStatement), phase("analyse"):
            raise InvalidStatement("no")
        with phase("full"):
            pass
        tell(action="FULL")
    analyse, full, whole = spans.get_finished_spans()
    assert [each.name for each in (analyse, full, whole)] == ["streamtable.analyse", "streamtable.full", "streamtable.refresh"]
    assert analyse.parent == full.parent == whole.context and not analyse.status.is_ok and full.status.description is None
    assert dict(whole.attributes or {}) == {"streamtable.table": "s.t", "streamtable.action": "FULL"}


@pytest.mark.parametrize("wrong", ["get_tracer", "start", "enter", "exit", "attribute"])
def test_a_provider_that_is_broken_fails_no_refresh(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, tracer = OSError(f"broken {wrong}"), MagicMock()
    span = tracer.start_as_current_span.return_value
    tracer.start_as_current_span.side_effect = broken if wrong == "start" else None
    span.__enter__.side_effect = broken if wrong == "enter" else None
    span.__exit__.side_effect = broken if wrong == "exit" else None
    monkeypatch.setattr(trace, "get_tracer", MagicMock(return_value=tracer, side_effect=broken if wrong == "get_tracer" else None))
    current = MagicMock(**{"return_value.set_attribute.side_effect": broken if wrong == "attribute" else None})
    monkeypatch.setattr(trace, "get_current_span", current)
    done = list[str]()
    with traced(True, "refresh", table="s.t"), phase("analyse"):
        done.append("analysed")
    with pytest.raises(InvalidStatement, match="its own"), traced(True, "refresh", table="s.t"), phase("full"):
        raise InvalidStatement("its own")
    assert done == ["analysed"] and f"a span of OpenTelemetry is lost: broken {wrong}" in caplog.text


@pytest.mark.parametrize("setting", [TRACES, LINEAGE], ids=["traces", "lineage"])
def test_without_its_package_a_setting_says_what_to_install(setting: Setting[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamtable.settings.session.find_spec", lambda name: None)
    extra = setting.key.rpartition(".")[2]
    with pytest.raises(NotEnabled, match=rf"streamtable\[{extra}\]"):
        check_settings({setting.key: {"traces": "true", "lineage": "http://there:1"}[extra]})
    check_settings({setting.key: str(setting.default)})


def test_a_wrong_switch_of_spans_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    spark: Any = MagicMock(**{"conf.get.return_value": "yes"})
    assert [setting_or_default(spark, TRACES) for _ in range(3)] == [False] * 3
    assert caplog.text.count("spark.streamtable.traces cannot be 'yes'") == 1
