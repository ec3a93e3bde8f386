"""The sessions of JDBC and Spark Connect clients. We poll for their ends, because neither host announces them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from streamtable.jvm.gateway import java_class

__all__ = ["open_sessions"]

_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectService"
_THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


def open_sessions(context: SparkContext) -> frozenset[str]:
    """Return the UUIDs of the SparkSessions that clients have open now."""
    return frozenset((*_connect(context), *_thrift(context)))


def _connect(context: SparkContext) -> Iterator[str]:
    if (manager := _asked(context, _CONNECT, "sessionManager")) is not None:
        sessions = manager.listActiveSessions()
        yield from (str(sessions.apply(n).serverSessionId()) for n in range(sessions.size()))


def _thrift(context: SparkContext) -> Iterator[str]:
    if (listener := _asked(context, _THRIFT, "listener")) is None:
        return
    # No public way leads from the JVM to its HiveServer2; the listener has it, to stop it.
    field = listener.getClass().getDeclaredField("server")
    field.setAccessible(True)
    server = field.get(listener).get()
    operations = _service(_service(server, "CLIService"), "SessionManager").getOperationManager()
    for entry in operations.sessionToContexts().entrySet():
        yield str(entry.getValue().sessionUUID())


def _service(composite: Any, name: str) -> Any:
    return next(each for each in composite.getServices() if each.getName() == name)


def _asked(context: SparkContext, host: str, question: str) -> Any:
    """Return the Scala object of a host; None if Spark was built without it."""
    try:
        return getattr(getattr(java_class(context, f"{host}$"), "MODULE$"), question)()
    except Py4JError:
        return None
