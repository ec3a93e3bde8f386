"""Servers over Spark Connect that are gone, silent, or started anew: whoever asks them gets an answer in time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyspark.errors.exceptions import connect
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from streamtable.errors import NotEnabled
from streamtable.sessions import link, remote

SOON = 0.5


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "SECONDS_TO_ANSWER", SOON)
    monkeypatch.setattr(remote, "_sessions", {})
    monkeypatch.setattr(remote, "_silent", {})


@pytest.fixture
def mute() -> Iterator[str]:
    """Yield the address of a server that takes connections, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"sc://127.0.0.1:{listening.getsockname()[1]}"


def _sessions_of(request: Any) -> dict[str, str]:
    return {"session_id": request.session_id, "server_side_session_id": request.session_id}


class Answering(base_pb2_grpc.SparkConnectServiceServicer):
    """Answers every statement with its own text, until it falls silent; `never` is not answered at all."""

    def __init__(self) -> None:
        self.silent, self.over = Event(), Event()

    def ExecutePlan(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        text = request.plan.command.sql_command.input.sql.query or request.plan.root.sql.query
        if self.silent.is_set() or text == "never":
            self.over.wait(30)
        head = {**_sessions_of(request), "operation_id": request.operation_id}
        if request.plan.HasField("command"):
            result = base_pb2.ExecutePlanResponse.SqlCommandResult()
            result.relation.sql.query = text
            yield base_pb2.ExecutePlanResponse(**head, response_id="1", sql_command_result=result)
        else:
            table = pa.table({"said": [text]})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            batch = base_pb2.ExecutePlanResponse.ArrowBatch(row_count=1, data=sink.getvalue().to_pybytes())
            yield base_pb2.ExecutePlanResponse(**head, response_id="1", arrow_batch=batch)
        yield base_pb2.ExecutePlanResponse(**head, response_id="2", result_complete=base_pb2.ExecutePlanResponse.ResultComplete())

    def ReleaseExecute(self, request: Any, context: Any) -> Any:  # noqa: N802
        return base_pb2.ReleaseExecuteResponse(**_sessions_of(request))

    def Config(self, request: Any, context: Any) -> Any:  # noqa: N802
        asked = request.operation
        keys = [*asked.get.keys, *asked.get_option.keys]
        pairs = [*asked.get_with_default.pairs, *(base_pb2.KeyValue(key=key) for key in keys)]
        return base_pb2.ConfigResponse(**_sessions_of(request), pairs=pairs)


@contextmanager
def answering(port: int = 0) -> Iterator[tuple[Answering, str]]:
    answers = Answering()
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool)
        base_pb2_grpc.add_SparkConnectServiceServicer_to_server(answers, server)  # type: ignore[no-untyped-call]
        port = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        try:
            yield answers, f"sc://127.0.0.1:{port}"
        finally:
            answers.over.set()
            server.stop(0).wait()


def in_time(done: Future[Any]) -> Any:
    """Return the result of what must not wait for ever."""
    return done.result(20 * SOON)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(8)
    yield pool
    pool.shutdown(wait=False)


def test_a_server_that_takes_connections_and_is_silent_is_told(mute: str, threads: ThreadPoolExecutor) -> None:
    with pytest.raises(NotEnabled, match=f"nobody answers at {mute}"):
        in_time(threads.submit(remote.ask, f"{mute}/;user_id=me", "SHOW TABLES"))


def test_a_command_does_not_wait_for_a_silent_server_for_ever(
    mute: str, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_of_this_process", remote._beside)
    with pytest.raises(NotEnabled, match="nobody answers at"):
        in_time(threads.submit(remote.connected, mute))


def test_nobody_waits_for_a_silent_server_again_and_again(
    mute: str, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotEnabled):
        in_time(threads.submit(remote.ask, mute, "SHOW TABLES"))
    began = time.monotonic()
    for _ in range(20):
        with pytest.raises(NotEnabled, match="it is silent(?s:.)*it is asked again in"):
            remote.ask(mute, "SHOW TABLES")
    assert time.monotonic() - began < SOON
    monkeypatch.setattr(remote, "REST", 0)
    with pytest.raises(NotEnabled, match="takes connections and is silent"):  # it was asked
        in_time(threads.submit(remote.ask, mute, "SHOW TABLES"))


def test_a_server_that_falls_silent_ends_a_session_and_is_asked_again_later(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering() as (server, url):
        assert remote.ask(url, "a")[0] == ("a",)
        (session,) = remote._sessions.values()
        assert remote.ask(url, "b")[0] == ("b",)
        assert [*remote._sessions.values()] == [session]
        server.silent.set()
        with pytest.raises(NotEnabled, match="it is silent"):
            in_time(threads.submit(remote.ask, url, "c"))
        assert not remote._sessions
        server.silent.clear()
        with pytest.raises(NotEnabled, match="it is silent"):
            remote.ask(url, "d")
        monkeypatch.setattr(remote, "REST", 0)
        assert remote.ask(url, "d")[0] == ("d",)
        assert not remote._silent


def test_a_statement_that_is_not_answered_lets_the_others_ask(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "SECONDS_TO_ANSWER", 10.0)
    with answering() as (_, url), answering() as (_, other):
        remote.ask(url, "a")
        waits = threads.submit(remote.ask, url, "never")
        assert in_time(threads.submit(remote.ask, url, "b"))[0] == ("b",)
        assert in_time(threads.submit(remote.ask, other, "c"))[0] == ("c",)
        assert not waits.done()


def test_a_server_that_was_started_anew_is_asked_at_once() -> None:
    with answering() as (_, url):
        remote.ask(url, "a")
    with pytest.raises(NotEnabled, match="nobody answers at"):
        remote.ask(url, "b")
    with answering(int(url.rpartition(":")[2])):
        assert remote.ask(url, "c")[0] == ("c",)


def test_statements_of_a_person_take_as_long_as_they_take(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_of_this_process", remote._beside)
    with answering() as (server, url):
        spark = remote.connected(url)
        slow = threads.submit(lambda: spark.sql("never").collect())
        time.sleep(3 * SOON)
        assert not slow.done()
        server.over.set()
        assert in_time(slow)[0] == ("never",)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_the_code_of_an_error_is_read_with_every_version_of_pyspark(code: grpc.StatusCode) -> None:
    text = f"<_InactiveRpcError of RPC that terminated with:\n\tstatus = {code}\n\tdetails = ...>"

    class SparkConnectGrpcException(Exception):  # as in PySpark 4.0, which has no getGrpcStatusCode
        pass

    assert remote._status(SparkConnectGrpcException(text)) == code.name
    if hasattr(connect.SparkConnectGrpcException, "getGrpcStatusCode"):
        assert remote._status(connect.SparkConnectGrpcException(message="...", grpc_status_code=code)) == code.name
