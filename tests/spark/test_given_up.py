"""Statements that clients give up while they are planned leave no job behind, in whichever way they are given up."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from impala.dbapi import connect as thrift
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession
from tests.spark.serving import PASSWORD, USER, leaving_a_socket, wait_until
from tests.versions import is_since

from streamtable.hosts.server import serve
from streamtable.hosts.server.endpoints import Endpoints
from streamtable.jvm.gateway import java_class
from streamtable.observe import calls

LONG = """SELECT id % 3 AS k, count(*) AS n FROM range(0, 1000000000000, 1, 20000) GROUP BY 1
UNION ALL SELECT 1, 1 FROM staleness()"""
"""It would take an hour. Python is asked for the rows of staleness() while it is planned. The more parts, the later its job begins."""

WAYS: dict[str, Callable[[Any, Any], object]] = {
    "cancel": lambda connection, cursor: cursor.cancel_operation(reset_state=False),
    "close": lambda connection, cursor: cursor.close_operation(),
    "close the session": lambda connection, cursor: cursor.session.close(),
    "leave": lambda connection, cursor: connection.close(),
    "time out": lambda connection, cursor: None,
}

WAYS_OF_CONNECT: dict[str, Callable[[Any], object]] = {
    "interrupt": lambda remote: remote.interruptAll(),
    "release the session": lambda remote: remote.client.release_session(),
}

STORED = 0.1
"""After so many seconds Spark stores the next change of a statement; what comes sooner is stored with the change after it."""

HIVE = {
    "hive.server2.thrift.bind.host": "127.0.0.1",
    "hive.server2.logging.operation.enabled": "false",  # servers of one user share the folder
}


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def watched(spark: SparkSession) -> SparkSession:
    """Return the session, watched as a server watches its own."""
    serve._listen(spark, Endpoints("127.0.0.1", None, None, None, None, "127.0.0.1", "127.0.0.1"))
    return spark


@pytest.fixture(scope="module")
def port(watched: SparkSession) -> Iterator[int]:
    """Return the port of a HiveServer2 in the session of the tests, which knows no users."""
    port = free_port()
    settings = HIVE | {"hive.server2.thrift.port": str(port)}
    for key, value in settings.items():
        watched.conf.set(key, value)
    hive = serve.open_thrift(watched, "127.0.0.1", port)
    for key in settings:
        watched.conf.unset(key)
    yield port
    hive.stop()


@pytest.fixture(scope="module")
def url(watched: SparkSession) -> Iterator[str]:
    """Return the address of Spark Connect in the session of the tests."""
    jvm: Any = watched._jvm
    port = free_port()
    service = java_class(watched, "org.apache.spark.sql.connect.service.SparkConnectService")
    settings = jvm.org.apache.spark.SparkEnv.get().conf()
    binding = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    for key, value in binding.items():
        settings.set(key, value)
    service.start(watched.sparkContext._jsc.sc())
    for key in binding:
        settings.remove(key)
    yield f"sc://127.0.0.1:{port}"
    service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


class Planning:
    """Holds the planning of LONG until it is told to go on."""

    def __init__(self, spark: SparkSession, patch: pytest.MonkeyPatch) -> None:
        self.context: Any = spark.sparkContext._jsc.sc()
        self.tracker = spark.sparkContext.statusTracker()
        self.begun, self.goes_on = Event(), Event()
        patch.setattr(calls, "call", self._wait)

    def _wait(self, *_: object) -> list[tuple[Any, ...]]:
        self.begun.set()
        assert self.goes_on.wait(60)
        return []

    def _kept(self) -> str:
        """Return the queries whose jobs Spark keeps, and with them their sessions. Older versions keep none."""
        return str(self.context.dagScheduler().activeQueryToJobs().keySet()) if is_since("4.2") else ""

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let a client give LONG up while it is planned, then let the planning go on: its first job ends as soon as it begins, and is forgotten."""
        try:
            assert self.begun.wait(60)
            first, kept = self.context.dagScheduler().numTotalJobs(), self._kept()
            yield
            self.goes_on.set()
            wait_until(lambda: self.tracker.getJobInfo(first) is not None)
            wait_until(lambda: not self.tracker.getActiveJobsIds())
            job = self.tracker.getJobInfo(first)
            assert job is not None and job.status == "FAILED"
            wait_until(lambda: self._kept() == kept)
        finally:
            self.goes_on.set()
            self.context.cancelAllJobs()


@pytest.fixture
def planning(watched: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Planning:
    return Planning(watched, monkeypatch)


def close(cursor: Any) -> None:
    with suppress(Exception):  # it, its session or its connection may be closed
        cursor.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_statement_of_thrift_that_is_given_up_while_it_is_planned_leaves_no_job(
    way: str, planning: Planning, port: int, watched: SparkSession
) -> None:
    jvm: Any = watched._jvm
    status = jvm.org.apache.spark.sql.hive.thriftserver.ui.HiveThriftServer2AppStatusStore(planning.context.statusStore().store())

    def over(group: str) -> bool:
        found = status.getExecution(group)
        return bool(found.isDefined() and not found.get().isExecutionActive())

    with leaving_a_socket(), ExitStack() as left:
        connection = thrift(host="127.0.0.1", port=port, timeout=120, auth_mechanism="PLAIN", user=USER, password=PASSWORD)
        left.callback(connection.close)
        cursor = connection.cursor()
        left.callback(close, cursor)
        if way == "time out":
            cursor.execute("SET spark.sql.thriftServer.queryTimeout=1s")
        cursor.execute_async(LONG)
        group = str(UUID(bytes=cursor._last_operation.handle.operationId.guid))
        with planning.given_up():
            time.sleep(2 * STORED)
            WAYS[way](connection, cursor)
            wait_until(lambda: over(group))


@pytest.mark.parametrize("way", WAYS_OF_CONNECT)
def test_a_statement_of_spark_connect_that_is_given_up_while_it_is_planned_leaves_no_job(
    way: str, planning: Planning, url: str
) -> None:
    remote = RemoteSession.builder.remote(url).create()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: remote.sql(LONG).collect())
        with planning.given_up():
            WAYS_OF_CONNECT[way](remote)
        assert running.exception(60)
    remote.stop()
