"""The port of metrics: a few fixed pages by GET or HEAD, and nothing else."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import ClassVar
from urllib.parse import urlsplit

__all__ = ["MOST_AT_ONCE", "Page", "answering"]

MOST_AT_ONCE = 32
"""The most open connections. One more disconnects the oldest: an answer takes milliseconds. Who sends nothing keeps nobody out."""

_TURN = 0.0005
"""The seconds that a thread of Python computes while others wait, a tenth of what Python says: an answer waits for some turns."""


@dataclass(frozen=True)
class Page:
    """An answer. Its text holds no secret."""

    text: str
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"


@contextmanager
def answering(host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> Iterator[None]:
    """Answer the paths of `pages` in threads of this process. Each page is made at its request."""
    server = _Server(host, port, pages)
    Thread(target=server.serve_forever, name="streamtable pages", daemon=True).start()
    turn = sys.getswitchinterval()
    sys.setswitchinterval(min(turn, _TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(turn)
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        self._open: list[socket.socket] = []
        self._lock = Lock()
        super().__init__((host, port), _Request)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        with self._lock:
            too_many = self._open[: max(0, len(self._open) + 1 - MOST_AT_ONCE)]
            self._open.append(request)
        for oldest in too_many:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread ends, and closes it
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: a client that leaves in the middle of an answer is not an error of ours."""


class _Request(BaseHTTPRequestHandler):
    timeout = 10  # who sends nothing for so long is left
    wbufsize = 1 << 20  # an answer is sent at once: after each call of the system, threads that compute may go first
    server_version, sys_version = "streamtable", ""
    _ALLOWED: ClassVar = "GET, HEAD"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _refuse(self) -> None:
        self._send(Page("only GET and HEAD\n", HTTPStatus.METHOD_NOT_ALLOWED), body=True)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def _answer(self, body: bool) -> None:
        assert isinstance(self.server, _Server)
        try:
            make = self.server.pages.get(urlsplit(self.path).path)
        except ValueError:  # no URL at all
            make = None
        self._send(make() if make else Page("no such page\n", HTTPStatus.NOT_FOUND), body)

    def _send(self, page: Page, body: bool) -> None:
        content = page.text.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        if page.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", self._ALLOWED)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *said: object) -> None:
        """Log no requests."""
