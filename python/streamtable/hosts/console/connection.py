"""Connections of browsers. One that does not ask, or does not read, is closed: each takes one of the places."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

SECONDS_TO_ASK = 10.0
"""The time for a whole request, from the connection or from its first byte."""
SECONDS_TO_READ = 30.0
"""The time in which a client has to take some of an answer that waits for it."""


class Connection(H11Protocol):
    """Closes itself when a client does not send its request or read its answer in time. uvicorn itself waits for ever."""

    _closing: asyncio.TimerHandle | None = None
    _full: asyncio.TimerHandle | None = None

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
        self._reads_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = self._while_it_reads()

    def resume_writing(self) -> None:
        self._reads_on()
        super().resume_writing()

    def _reads_on(self) -> None:
        if self._full is not None:
            self._full.cancel()
            self._full = None

    def _leave(self) -> None:
        """Close the connection when its last answer is taken, or before, if that takes too long."""
        self.transport.close()
        self._closing = self._while_it_reads()

    def _while_it_reads(self) -> asyncio.TimerHandle:
        return self.loop.call_later(SECONDS_TO_READ, self._look, self.transport.get_write_buffer_size())

    def _look(self, before: int) -> None:
        """Break the connection where nothing was taken since the last look."""
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._reads_on()
            self._full = self._while_it_reads()

    def _waits(self) -> None:
        if self._closing is None:
            self._closing = self.loop.call_later(SECONDS_TO_ASK, self._leave)

    def _waits_no_more(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
