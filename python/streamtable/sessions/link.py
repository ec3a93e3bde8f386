"""Channels to servers of Spark Connect. PySpark's own wait for ever for a server that is silent."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession

__all__ = ["SECONDS_TO_ANSWER", "Link", "SessionBeside"]

SECONDS_TO_ANSWER = 30.0
"""A server that does not answer a call so soon is silent. A statement is two or three calls."""

_OPTIONS = [("grpc.keepalive_time_ms", 330_000), ("grpc.keepalive_timeout_ms", 20_000)]
"""Notice a server without power during a long statement. Servers refuse clients that ask more often than every five minutes."""

_LONG = ("/ExecutePlan", "/ReattachExecute", "/AnalyzePlan")
"""The calls that take as long as a statement; the others are brief."""


class Link(DefaultChannelBuilder):
    """Makes the channel of one session to the server of a URL."""

    def __init__(self, url: str) -> None:
        super().__init__(url, _OPTIONS)
        self._patient = False

    def toChannel(self) -> grpc.Channel:  # noqa: N802  (pyspark's own spelling)
        """Return the channel; PySpark asks once."""
        self._channel = _Channel(super().toChannel(), self._seconds)
        return self._channel

    def let_statements_run(self) -> None:
        """Let statements take as long as they take, until the end of this process, when PySpark itself runs one."""
        self._patient = True
        atexit.register(self._hurry)

    def close(self) -> None:
        """End all calls, without a word to the server."""
        atexit.unregister(self._hurry)
        self._channel.close()

    def _hurry(self) -> None:
        self._patient = False

    def _seconds(self, call: str) -> float | None:
        return None if self._patient and call.endswith(_LONG) else SECONDS_TO_ANSWER


class SessionBeside(SparkSession):
    """A session that does not become the session of this process, unlike a builder's. `Link.close` ends it."""

    def __del__(self) -> None:
        """Do nothing. PySpark's waits for calls of all sessions, in whatever call Python happens to collect garbage."""


class _Channel:
    """A channel whose calls end after so many seconds.

    No interceptor: with one, grpc reads freed memory when a thread of PySpark makes a call after the channel was closed.
    """

    def __init__(self, channel: grpc.Channel, seconds: Callable[[str], float | None]) -> None:
        self._channel = channel
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def unary_unary(self, method: str, *form: Any, **options: Any) -> Callable[..., Any]:
        return self._ending(method, self._channel.unary_unary(method, *form, **options))

    def unary_stream(self, method: str, *form: Any, **options: Any) -> Callable[..., Any]:
        return self._ending(method, self._channel.unary_stream(method, *form, **options))

    def _ending(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda request, **options: call(request, **{"timeout": self._seconds(method), **options})
