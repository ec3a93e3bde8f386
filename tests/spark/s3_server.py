"""A server of S3 on loopback, as a program of the environment that has moto: it prints its port, and writes a line per request.

A condition of a PUT (`If-None-Match`) holds at the moment of the PUT, as in S3 itself: moto looks, and writes a little later.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


class Quiet(MotoRequestHandler):  # type: ignore[misc]  # moto has no types here
    """Log nothing: the application below does."""

    protocol_version = "HTTP/1.1"  # a client keeps its connections

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  (as werkzeug names it)
        pass


class Recorded:
    """moto's application, with a record of its requests, and with one PUT at a time."""

    def __init__(self, record: Path) -> None:
        self._served = DomainDispatcherApplication(create_backend_app)
        self._record = record.open("a", buffering=1, encoding="utf-8")
        self._writing, self._recording = threading.Lock(), threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        kind = "LIST" if method == "GET" and "list-type=2" in query else method
        with self._recording:
            self._record.write(f"{kind} {environ['PATH_INFO']}?{query}\n")
        if method != "PUT":
            return list(self._served(environ, start_response))
        with self._writing:
            return list(self._served(environ, start_response))


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Recorded(Path(sys.argv[1])), threaded=True, request_handler=Quiet)
    print(server.port, flush=True)  # noqa: T201
    server.serve_forever()
