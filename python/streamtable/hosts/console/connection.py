"""Connections of browsers. One whose request does not come is closed, since each takes one of the places that there are."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

SECONDS_TO_ASK = 10.0
"""The time for a whole request, from the connection or from its first byte."""


class Connection(H11Protocol):
    """Closes itself when a client does not send its request in time. uvicorn itself waits for ever."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waits()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.more_body or self.cycle.response_complete:
            self._waits()
        else:  # the answer takes as long as it takes
            self._waits_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits_no_more()
        super().connection_lost(exc)

    def _waits(self) -> None:
        if self._closing is None:
            self._closing = self.loop.call_later(SECONDS_TO_ASK, self.transport.close)

    def _waits_no_more(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
