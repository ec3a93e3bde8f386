"""The server by which Java calls Python. It answers only the JVM that knows its secret.

PySpark's own callback server asks for no secret: anybody who reaches it may call the objects of its pool, and free them. So ours
has a port and a pool of its own, and never uses PySpark's.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections import deque
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.clientserver import ClientServer, ClientServerConnection, PythonParameters
from py4j.java_gateway import CallbackConnection, GatewayProperty, PythonProxyPool
from py4j.protocol import AUTH_COMMAND_NAME, OUTPUT_VOID_COMMAND
from pyspark.sql import SparkSession

from streamtable.jvm.gateway import SHIM

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JavaObject

__all__ = ["callbacks", "implementation"]

SECONDS_TO_GREET = 5.0
STRANGERS = 32
"""The number of clients that may be about to show the secret. Beyond it, the oldest one is disconnected."""
LOOPBACK = "127.0.0.1"
UNKNOWN = bytes.maketrans(b"0123456789abcdef", b"x" * 16)
"""Hides the secret in a greeting, and keeps its form."""

_servers: WeakKeyDictionary[JavaGateway, _CallbackServer] = WeakKeyDictionary()


def callbacks(spark: SparkSession) -> JavaObject:
    """Return the shim's Callbacks that call this process."""
    return _server(spark).callbacks


def implementation(spark: SparkSession, implementing: Any) -> JavaObject:
    """Return a Java object for a Python object, of the interface in the object's inner class Java."""
    (interface,) = implementing.Java.implements
    server = _server(spark)
    return server.callbacks.implementation(interface, server.pool.put(implementing))


def _server(spark: SparkSession) -> _CallbackServer:
    gateway: Any = spark.sparkContext._gateway
    if gateway not in _servers:
        _servers[gateway] = _CallbackServer(gateway)
    return _servers[gateway]


class _CallbackServer(ThreadingTCPServer):
    """Listens on loopback, and lets py4j serve clients that showed the secret."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, gateway: Any) -> None:
        super().__init__((LOOPBACK, 0), _Caller)
        secret = secrets.token_hex(32)  # not the gateway's: who takes this port when we have ended is told no more than this one
        self._greeting = f"{AUTH_COMMAND_NAME}\n{secret}\ne\n".encode()
        self._strangers: deque[socket.socket] = deque()
        self.pool = PythonProxyPool()
        self.pinned = isinstance(gateway, ClientServer)
        self._client = gateway._gateway_client
        self._gateway_parameters = gateway.gateway_parameters
        self._property = GatewayProperty(gateway.gateway_property.auto_field, self.pool)
        Thread(target=self.serve_forever, args=(3600,), name="streamtable-callbacks", daemon=True).start()
        made = getattr(gateway.jvm, f"{SHIM}.Callbacks")
        self.callbacks: JavaObject = made(gateway.java_gateway_server, self.server_address[1], secret)

    def greeted(self, client: socket.socket) -> bool:
        """Tell whether the client shows the secret within some seconds. Bytes that cannot start a greeting end the wait."""
        self._strangers.append(client)
        if len(self._strangers) > STRANGERS:
            with suppress(OSError, IndexError):
                self._strangers.popleft().shutdown(socket.SHUT_RDWR)
        said, form, until = b"", self._greeting.translate(UNKNOWN), monotonic() + SECONDS_TO_GREET
        try:
            while len(said) < len(self._greeting):
                client.settimeout(max(until - monotonic(), 0.001))
                said += (more := client.recv(4096))
                if not more or said.translate(UNKNOWN) != form[: len(said)]:
                    return False
        finally:
            with suppress(ValueError):
                self._strangers.remove(client)
        return hmac.compare_digest(said, self._greeting)

    def serve(self, client: socket.socket) -> None:
        """Carry out the JVM's calls until it closes the connection."""
        parameters = PythonParameters(port=0, daemonize=True, daemonize_connections=True)  # it has shown the secret
        stream = client.makefile("rb")
        if self.pinned:
            connection = ClientServerConnection(self._gateway_parameters, parameters, self._property, self._client)
            connection.init_socket_from_python_server(client, stream)
        else:
            connection = CallbackConnection(self.pool, stream, client, self._client, parameters, self)
        connection.run()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that leaves is not an error of ours, and a stranger's bytes belong in no log."""


class _Caller(BaseRequestHandler):
    server: _CallbackServer

    def handle(self) -> None:
        if not self.server.greeted(self.request):
            return
        self.request.settimeout(None)
        self.request.sendall(OUTPUT_VOID_COMMAND.encode())
        self.server.serve(self.request)
