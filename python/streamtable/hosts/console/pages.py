"""The pages. Each shows the state of the board, and starts no query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.sql import SqlLexer
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from streamtable.hosts import words
from streamtable.hosts.console.access import Doors, Session
from streamtable.hosts.console.assets import address, assets
from streamtable.hosts.console.board import Act, Board
from streamtable.hosts.console.chart import chart_of
from streamtable.hosts.console.guard import LEAVES, Guard
from streamtable.hosts.console.layout import BOX_HEIGHT, BOX_WIDTH
from streamtable.hosts.console.picture import picture_of, schemas_of
from streamtable.hosts.console.why import why_stale
from streamtable.observe.status import Kind, TableStatus, graph_of, key_of
from streamtable.schedule.failures import condition_of, text_of

__all__ = ["application"]

KINDS = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain; charset=utf-8", ".svg": "image/svg+xml"}
TELL_EVERY, TELL_ANYWAY = 0.5, 15.0
"""Seconds between two checks for news, and seconds after which an open page learns that there are none."""


def application(board: Board, doors: Doors, cookie: str, names: Collection[str] = ()) -> Guard:
    """Return the console as an application, behind its guard; `names` are hosts under which it may be asked."""
    return Guard(Pages(board, doors, cookie).app(), doors, cookie, names)


class Pages:
    """The answers to all requests that the guard lets through."""

    def __init__(self, board: Board, doors: Doors, cookie: str) -> None:
        self._board = board
        self._doors = doors
        self._cookie = cookie
        self._templates = Environment(
            loader=PackageLoader("streamtable.hosts.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "short": words.short,
            "cut": words.cut,
            "amount": words.amount,
            "size": words.size,
            "duration": words.duration,
            "ms": words.milliseconds,
            "phases": words.phases,
            "sql": _coloured,
            "at": _moment,
            "why_stale": why_stale,
        }
        self._templates.globals |= {"ago": words.ago, "link": _link, "asset": address, "Act": Act}

    def app(self) -> Starlette:
        """Return the routes."""
        shown = {"/tables": "tables", "/alerts": "alerts", "/queues": "queues", "/replication": "replication"}
        shown |= {"/settings": "settings", "/work": "work"}
        return Starlette(
            routes=[
                Route("/", self.graph),
                *(Route(path, self._simple(name)) for path, name in shown.items()),
                Route("/table", self.table),
                Route("/pane", self.pane),
                Route("/explain", self.explain),
                Route("/rows", self.rows),
                Route("/events", self.events),
                Route("/act", self.act, methods=["POST"]),
                Route("/cancel", self.cancel, methods=["POST"]),
                Route("/invite", self.invite, methods=["POST"]),
                Route("/login", self.login),
                Route(LEAVES, self.logout, methods=["POST"]),
                Route("/static/{name:path}", self.static),
            ],
            exception_handlers={404: self.missing, 500: self.broken},
        )

    def graph(self, request: Request) -> Response:
        """Show the graph of dependencies."""
        status = self._board.status
        only, opened = request.query_params.get("schema") or None, request.query_params.getlist("open")
        schemas = schemas_of(status) if status else []
        only = only if only in schemas else None
        picture = picture_of(status, only, opened) if status else None
        shown: dict[str, Any] = {"picture": picture, "schemas": schemas, "only": only, "width": BOX_WIDTH, "height": BOX_HEIGHT}

        def opens(schema: str) -> str:
            """Return the address of the graph with one more schema opened."""
            return f"/?{urlencode([('open', each) for each in (*(picture.opened if picture else ()), schema)])}"

        return self._page(request, "graph", opens=opens, **shown)

    def table(self, request: Request) -> Response:
        """Show a stream table."""
        found = self._table(request)
        return self._page(request, "table", **self._of_table(found)) if found else self._none(request)

    def pane(self, request: Request) -> Response:
        """Show an object of the graph beside it."""
        status, key = self._board.status, request.query_params.get("key", "")
        graph = graph_of(status) if status else None
        if status is None or graph is None or key not in graph:
            return self._none(request)
        node = graph.nodes[key]
        table = status.table(node["name"])
        found = self._of_table(table) if table else {"table": None, "reads": _named(graph, key, up=True)}
        found["readers"] = _named(graph, key, up=False)
        return self._page(request, "pane", node=node, key=key, unreadable=status.unreadable.get(node["name"]), **found)

    def _of_table(self, table: TableStatus) -> dict[str, Any]:
        status = self._board.status
        assert status is not None, "its table was found"
        name, graph = ".".join(table.name), graph_of(status)
        key = key_of(Kind.STREAM_TABLE, name)
        return {
            "table": table,
            "name": name,
            "reads": _named(graph, key, up=True),
            "readers": _named(graph, key, up=False),
            "chart": chart_of(table.history, table.runs),
            "alerts": [each for each in status.alerts if each.name == name],
            "works": [each for each in self._board.works if each.name == table.name][:5],
        }

    async def explain(self, request: Request) -> Response:
        """Show how a table is maintained. Only this and the contents run a query of Spark, on request."""
        return await self._asked(request, "explain", self._board.hands.explain)

    async def rows(self, request: Request) -> Response:
        """Ask for the first rows of a table."""
        return await self._asked(request, "rows", self._board.hands.rows)

    async def _asked(self, request: Request, template: str, ask: Callable[[tuple[str, ...]], object]) -> Response:
        if (table := self._table(request)) is None:
            return self._none(request)
        try:
            found, trouble = await run_in_threadpool(ask, table.name), None
        except Exception as error:  # whatever it is, people are to read it
            found, trouble = None, f"[{condition_of(error)}] {text_of(error)}"
        return self._page(request, template, found=found, trouble=trouble)

    async def events(self, request: Request) -> Response:
        """Tell an open page when something is new."""
        return StreamingResponse(self._news(request), media_type="text/event-stream")

    async def _news(self, request: Request) -> AsyncIterator[str]:
        seen, quiet = request.query_params.get("seen", self._board.news), 0.0  # by the page, before it could listen
        yield ": here\n\n"
        while not self._board.stopped and not await request.is_disconnected():
            self._board.watch()
            if self._board.news != seen:
                seen, quiet = self._board.news, 0.0
                yield f"event: news\ndata: {seen}\n\n"
            elif quiet >= TELL_ANYWAY:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(TELL_EVERY)
            quiet += TELL_EVERY

    async def act(self, request: Request) -> Response:
        """Start the action of a button."""
        form = request.state.form
        table = self._board.status.table(form.get("name", "")) if self._board.status else None
        if self._board.read_only:
            return self._message(request, 403, "Nobody changes anything here", "console_read_only is set for this console.")
        if table is None or form.get("act") not in {each.value for each in Act}:
            return self._none(request)
        self._board.begin(Act(form["act"]), table.name, request.state.session.user)
        return RedirectResponse(_link("/table", name=".".join(table.name)), 303)

    async def cancel(self, request: Request) -> Response:
        """Cancel what runs."""
        if self._board.read_only:
            return self._message(request, 403, "Nobody changes anything here", "console_read_only is set for this console.")
        await run_in_threadpool(self._board.cancel, request.state.form.get("group", ""))
        return RedirectResponse("/work", 303)

    async def invite(self, request: Request) -> Response:
        """Make a link that admits another browser, once."""
        link = None if self._doors.users else f"{request.base_url}?token={self._doors.link()}"
        there: dict[str, Any] = {"path": "/settings", "here": "/settings"}
        return self._page(request, "settings", invitation=link, **there) if link else self._none(request)

    async def login(self, request: Request) -> Response:
        """Show where one logs in."""
        return self._page(request, "login", by_password=self._doors.users is not None)

    async def logout(self, request: Request) -> Response:
        """End the session."""
        self._doors.leave(request.cookies.get(self._cookie))
        return RedirectResponse("/login", 303)

    async def static(self, request: Request) -> Response:
        """Answer a file of ours."""
        name = request.path_params["name"]
        if name not in assets():
            return self._none(request)
        kind = KINDS[f".{name.rpartition('.')[2]}"]
        return Response(assets()[name], media_type=kind, headers={"Cache-Control": "max-age=31536000, immutable"})

    async def missing(self, request: Request, error: Exception) -> Response:
        """Say that there is no such page."""
        return self._none(request)

    async def broken(self, request: Request, error: Exception) -> Response:
        """Say that a page failed; Starlette logs why."""
        return self._message(request, 500, "This page failed", f"{type(error).__name__}: the log of the process has the rest.")

    def _simple(self, template: str) -> Callable[[Request], Response]:
        def show(request: Request) -> Response:
            return self._page(request, template, invitation=None)

        return show

    def _table(self, request: Request) -> TableStatus | None:
        status = self._board.status
        return status.table(request.query_params.get("name", "")) if status else None

    def _none(self, request: Request) -> Response:
        unreadable = self._board.status.unreadable if self._board.status and _session(request) else {}
        if why := unreadable.get(request.query_params.get("name", "")):
            return self._message(request, 200, "Nobody can read this table", why)
        return self._message(request, 404, "There is nothing here", "It may have been dropped or renamed since.")

    def _message(self, request: Request, code: int, title: str, text: str) -> Response:
        return self._page(request, "message", code, title=title, text=text)

    def _page(self, request: Request, template: str, code: int = 200, **shown: object) -> Response:
        session = _session(request)
        if session:  # for a stranger nobody looks at the catalog
            self._board.watch()
        status = self._board.status
        now = status.at if status else datetime.now(timezone.utc)
        query = f"?{request.url.query}" if request.url.query else ""
        known = {
            "board": self._board,
            "status": status,
            "now": now,
            "clock": datetime.now(timezone.utc),
            "session": session,
            "invites": self._doors.users is None,
            "may_act": session is not None and session.may_act and not self._board.read_only,
            "path": request.url.path,
            "here": f"{request.url.path}{query}",
            "query": request.query_params,
        }
        return HTMLResponse(self._templates.get_template(f"{template}.html").render(known | shown), code)


def _named(graph: Any, key: str, up: bool) -> list[Mapping[str, Any]]:
    """Return the neighbours of a node: its sources, or its readers."""
    near = graph.predecessors(key) if up else graph.successors(key)
    return sorted((graph.nodes[each] for each in near), key=lambda node: str(node["name"]))


def _session(request: Request) -> Session | None:
    found: Session | None = getattr(request.state, "session", None)
    return found


def _link(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


def _coloured(sql: str) -> Markup:
    """Return SQL with its words marked; what is in it is escaped."""
    return Markup(highlight(sql, SqlLexer(stripnl=False), HtmlFormatter(nowrap=True)))  # noqa: S704 - Pygments escapes


def _moment(at: datetime | None) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC" if at else "never"
