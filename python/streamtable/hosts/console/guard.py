"""The checks of each request: is it meant for this host, does a page of ours send it, and who is the user."""

from __future__ import annotations

import logging
from collections.abc import Collection
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamtable.errors import InvalidStatement
from streamtable.hosts.console.access import HEADERS, Doors, address_of, is_own_host, is_own_origin, shows_token

__all__ = ["Guard"]

log = logging.getLogger("streamtable.console")

MOST = 64 * 1024
"""Bytes of a form; ours are small."""

LOGIN, STATIC = "/login", "/static/"
"""What is answered without a session: the page, and the files below the folder."""
LEAVES = "/logout"
"""The one change that everybody may ask for."""


class Guard:
    """Passes allowed requests on, with the session and the form in their state, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, doors: Doors, cookie: str, names: Collection[str]) -> None:
        self._app = app
        self._doors = doors
        self._cookie = cookie
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for key, value in HEADERS.items():
                    headers.setdefault(key, value)
            await send(message)

        request = Request(scope, receive)
        answer = await self._refused(request) or self._app
        await answer(scope, receive, with_headers)

    async def _refused(self, request: Request) -> Response | None:
        """Return the answer to a request that goes no further."""
        if not is_own_host(request.headers.get("host"), self._names):
            return PlainTextResponse("this name is not the console's: see console_hosts in [server]\n", 421)
        session = self._doors.session(request.cookies.get(self._cookie))
        request.state.session, request.state.form = session, {}
        changes = request.method not in ("GET", "HEAD")
        if changes:
            if request.method != "POST" or not is_own_origin(request.headers):
                return PlainTextResponse("another site sent this request\n", 403)
            if (form := await _form(request)) is None:
                return PlainTextResponse("the form is too long, or is none\n", 413)
            request.state.form = form
        if request.url.path == LOGIN and changes:
            return await self._login(request)
        if request.url.path == LOGIN or request.url.path.startswith(STATIC):
            return None
        if session is None:
            return self._stranger(request)
        if "token" in request.query_params:  # it is for another browser, and not for this one's history
            return RedirectResponse("/", 303)
        if changes and not shows_token(session, request.state.form.get("csrf")):
            return PlainTextResponse("the page is too old; load it again\n", 403)
        if changes and not session.may_act and request.url.path != LEAVES:
            return PlainTextResponse("viewers change nothing here: ask for another role (streamtable add-user)\n", 403)
        return None

    async def _login(self, request: Request) -> Response:
        form = request.state.form
        user, password = form.get("user", ""), form.get("password", "")
        try:
            cookie = await run_in_threadpool(self._doors.by_password, user, password, address_of(request))
        except InvalidStatement as error:
            log.warning("nobody can log in: %s", error)
            return RedirectResponse("/login?unknown=1", 303)
        return self._welcome(cookie) if cookie else RedirectResponse("/login?wrong=1", 303)

    def _stranger(self, request: Request) -> Response:
        """Admit a browser with a link, and send all others to the login page."""
        token = request.query_params.get("token")
        if token and request.url.path == "/" and request.method == "GET" and (cookie := self._doors.by_link(token)):
            return self._welcome(cookie)
        if request.method != "GET" or request.headers.get("hx-request") or request.url.path == "/events":
            return PlainTextResponse("log in again\n", 401, {"HX-Redirect": "/login"})
        return RedirectResponse("/login?used=1" if token else "/login", 303)

    def _welcome(self, cookie: str) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", path="/")
        return answer


async def _form(request: Request) -> dict[str, str] | None:
    """Read the form of a request; None for one that is too long, or has too many fields."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST:
            return None
    try:
        found = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return None
    return {key: values[-1] for key, values in found.items()}
