"""The console without Spark and without a browser: every page, every button, and who may come in."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPConnection
from importlib.resources import files
from itertools import chain, repeat
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import pytest
import vendor
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from tests.unit.consoles import BROKEN, CATALOG, NASTY, NOW, FakeHands, FakeUsers, answering, board_of, large, line, small, table
from typer.testing import CliRunner

from streamtable.catalog.definition import SUSPENDED
from streamtable.errors import InvalidStatement, NotEnabled, SourceUnavailable
from streamtable.hosts import console as package
from streamtable.hosts.cli import serving
from streamtable.hosts.cli.app import app as cli
from streamtable.hosts.cli.output import ExitCode, Printer
from streamtable.hosts.console import connection
from streamtable.hosts.console import serve as served
from streamtable.hosts.console.access import GRACE, IDLE, LONGEST, Doors, is_own_host
from streamtable.hosts.console.board import Act, Board, Job
from streamtable.hosts.console.chart import chart_of
from streamtable.hosts.console.pages import Pages, application
from streamtable.hosts.console.why import why_stale
from streamtable.hosts.roles import Role
from streamtable.hosts.server import serve as server
from streamtable.hosts.server.stopping import STOPS, Stopping
from streamtable.hosts.words import ago, cut, duration, schema_of, short, size
from streamtable.observe.look import REFRESHES, _recent
from streamtable.observe.status import Standing, Status, TableStatus
from streamtable.refresh.choose import Action
from streamtable.refresh.cost import Ran

COOKIE = "streamtable_console_1"
HOST = "http://127.0.0.1:9465"
PAGES = ("/", "/tables", "/alerts", "/work", "/queues", "/replication", "/settings")
NAME = f"{CATALOG}.shop.per_region"
SALES, LATE = f"{CATALOG}.shop.sales", f"{CATALOG}.shop.late"


class Visitor:
    """A browser that was let in by a link."""

    def __init__(self, status: Status | None = None, read_only: bool = False) -> None:
        self.board, self.hands = board_of(status or small(), read_only)
        self.doors = Doors(None)
        self.browser = TestClient(application(self.board, self.doors, COOKIE, ["console.example"]), HOST, follow_redirects=False)
        assert self.get(f"/?token={self.doors.link()}").status_code == 303

    def get(self, path: str, **headers: str):  # type: ignore[no-untyped-def]  # httpx has its own names
        return self.browser.get(path, headers=headers)

    def page(self, path: str) -> str:
        found = self.get(path)
        assert found.status_code == 200, (path, found.status_code)
        return str(found.text)

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([\w-]+)"', self.page("/tables"))
        assert found
        return found[1]

    def post(self, path: str, headers: dict[str, str] | None = None, **form: str):  # type: ignore[no-untyped-def]
        return self.browser.post(path, data={"csrf": self.csrf, **form}, headers=headers)


@pytest.fixture
def visitor() -> Visitor:
    return Visitor()


@pytest.fixture
def stranger(visitor: Visitor) -> TestClient:
    return TestClient(visitor.browser.app, HOST, follow_redirects=False)


def ended(board: Board) -> None:
    until = time.monotonic() + 10
    while any(work.ok is None for work in board.works):
        assert time.monotonic() < until
        time.sleep(0.005)


# What is shown


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_shown_and_renews_itself(visitor: Visitor, path: str) -> None:
    text = visitor.page(path)
    assert f'sse-connect="/events?seen={visitor.board.news}"' in text and f'hx-get="{path}" hx-trigger="sse:news"' in text
    assert NASTY not in text, "a name was not escaped"


def test_a_name_that_would_be_markup_is_text_everywhere(visitor: Visitor) -> None:
    name = f"{CATALOG}.shop.{NASTY}"
    for path in (f"/table?name={quote(name)}", f"/pane?key={quote(f'table {name}')}", "/", "/tables", "/queues"):
        text = visitor.page(path)
        assert "<script>`" not in text and "&lt;script&gt;" in text, path
        assert not re.search(r"""(?:href|title|value|data-pane)="[^"]*<script>""", text), path
    for path in (f"/rows?name={quote(name)}", f"/explain?name={quote(name)}"):
        assert "&lt;" in visitor.page(path) and "<i>" not in visitor.page(path)
    assert "a row &lt;was&gt; refused" in visitor.page("/replication")


def test_the_page_of_a_table_says_what_there_is_to_know(visitor: Visitor) -> None:
    text = visitor.page(f"/table?name={CATALOG}.shop.broken")
    for said in (
        "failing",
        "division by zero in &lt;amount&gt;",
        "a change data feed would help",
        "REINITIALIZE" if False else "FULL",
    ):
        assert said in text
    text = visitor.page(f"/table?name={NAME}")
    for said in (
        "1\u202f234\u202f567",
        "89.0 MB",
        "where it was sold",
        "EVERY 5 MINUTES",
        "in 5 min",
        "cdf",
        "Its last 30 refreshes",
        "the last full refresh took 4.2 s for 1\u202f200\u202f000 rows of its sources; the last differential one 450 ms for 300 changed rows",
        '<span class="k">SELECT</span>',
        "what was sold &lt;where&gt;",
        "<code>total &gt; &lt;0&gt;</code></td><td>is left out</td>",
        'warning">12</td>',
        f"name={CATALOG}.shop.{quote(NASTY, safe='')}",
    ):
        assert said in text, said


def test_contents_and_explain_are_asked_for_and_their_errors_are_shown(visitor: Visitor) -> None:
    assert "NULL" in visitor.page(f"/rows?name={NAME}")
    explained = visitor.page(f"/explain?name={NAME}")
    assert "&lt;few&gt; rows" in explained and "42 changed rows of 3 commits" in explained
    levels = re.findall(r'class="depth-(\d)">.*?class="operator">([^<]+)<', explained)
    assert levels == [("0", "Aggregate (region)"), ("1", "Scan sales")]
    assert "The last refresh was DIFFERENTIAL and took 200 ms: analyse 60 ms, write 1.5 s." in explained
    assert "Spark ran 4 jobs for it, which read 46\u202f000 rows (3.2 MB)" in explained and "in 1.3 s of tasks" in explained
    assert 'title="analyse 60 ms, write 1.5 s"' in visitor.page(f"/table?name={NAME}")
    visitor.hands.error = SourceUnavailable("sales <is> gone")
    assert "[STREAMTABLE_SOURCE_UNAVAILABLE] sales &lt;is&gt; gone" in visitor.page(f"/explain?name={NAME}")


def test_what_is_not_there_is_said_to_be_not_there(visitor: Visitor) -> None:
    for path in (
        "/table?name=nope",
        "/table",
        "/pane?key=nope",
        "/rows?name=nope",
        "/explain",
        "/nope",
        "/static/nope.js",
        "/static/../pages.py",
    ):
        assert visitor.get(path).status_code == 404, path


def test_a_table_that_nobody_can_read_is_shown_with_the_reason(visitor: Visitor) -> None:
    bad, reason = f"{CATALOG}.shop.<bad>", "a <teleport> is not known"
    assert 'class="swatch unreadable"' not in visitor.page("/"), "the legend has what there is"
    visitor.board.status = replace(small(), unreadable={bad: reason})
    told, swatch = "a &lt;teleport&gt; is not known", '<span class="swatch unreadable">'
    assert swatch in visitor.page("/")
    assert visitor.page("/tables").count(told) == 1 and '<span class="pill unreadable">unreadable</span>' in visitor.page("/tables")
    assert f"Nobody can read it: {told}" in visitor.page(f"/pane?key={quote(f'table {bad}')}")
    page = visitor.page(f"/table?name={quote(bad)}")
    assert "Nobody can read this table" in page and told in page
    assert 'class="box unreadable"' in visitor.page("/") and "stream table shop.&lt;bad&gt;, unreadable" in visitor.page("/")
    assert visitor.post("/act", name=bad, act="refresh").status_code == 404
    visitor.board.status = replace(large(), unreadable={f"{CATALOG}.team_7.bad": reason})
    assert 'class="box unreadable schema"' in visitor.page("/") and "1 unreadable" in visitor.page("/")
    visitor.board.status = Status(NOW, unreadable={bad: reason})
    assert told in visitor.page("/tables") and "There is no stream table yet" not in visitor.page("/")


def test_before_the_first_look_and_when_a_look_fails_pages_say_so() -> None:
    visitor = Visitor()
    visitor.hands.error = SourceUnavailable("the catalog <does> not answer")
    visitor.board.turn(2e9)
    for path in PAGES:
        text = visitor.page(path)
        assert "The last look failed: the catalog &lt;does&gt; not answer" in text and "As of" in text
    visitor.board.status = None
    for path in PAGES:
        assert "for the first time" in visitor.page(path)


def test_a_page_that_fails_shows_no_trace(visitor: Visitor) -> None:
    visitor.board.status = replaced = small()
    object.__setattr__(replaced, "alerts", (object(),))
    browser = TestClient(visitor.browser.app, HOST, raise_server_exceptions=False, cookies=visitor.browser.cookies)
    found = browser.get("/alerts")
    assert found.status_code == 500 and "This page failed" in found.text and "Traceback" not in found.text
    assert "Content-Security-Policy" in found.headers


def test_two_hundred_tables_come_at_once_and_collapsed(visitor: Visitor) -> None:
    visitor.board.status = large()
    text = visitor.page("/")
    assert text.count('class="box') <= 25, "one box for each schema"
    assert "a_stream_table" not in text and "team_7" in text
    opened = visitor.page("/?open=team_7")
    assert opened.count('class="box') > 25 and "open=team_7&amp;open=team_8" in opened
    filtered = visitor.page("/?schema=team_7")
    assert "a_stream_t…ong_name_7" in filtered and ">team_19</text>" not in filtered
    assert visitor.page("/tables").count("<tr>") == 201


class Busy:
    """Hands that answer nothing, as where refreshes take all there is."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise AssertionError(f"a page asked for {name}")


def test_pages_of_two_hundred_tables_are_made_in_a_second_and_ask_nobody() -> None:
    """The time of the processor counts, so that other work beside the test does not."""
    visitor = Visitor(large(history=REFRESHES))
    names = [".".join(each.name) for each in visitor.board.status.tables] if visitor.board.status else []
    assert len(names) == 200
    visitor.board.hands = Busy()  # type: ignore[assignment]
    opened = "&".join(f"open=team_{n}" for n in range(20))
    pages = [*PAGES, "/?schema=team_7", f"/?{opened}", f"/table?name={names[150]}", f"/pane?key={quote(f'table {names[150]}')}"]
    for path in pages:
        began = time.process_time()
        visitor.page(path)
        assert time.process_time() - began < 1.0, path


# Buttons


@pytest.mark.parametrize("act", Act)
def test_every_button_does_what_it_says_once(visitor: Visitor, act: Act) -> None:
    name = f"{CATALOG}.shop.stopped" if act is Act.RESUME else f"{CATALOG}.shop.{NASTY}"
    assert f'value="{act.value}"' in visitor.page(f"/table?name={quote(name)}")
    found = visitor.post("/act", name=name, act=act.value)
    assert found.status_code == 303 and found.headers["location"].startswith("/table?name=")
    ended(visitor.board)
    (work,) = visitor.board.works
    assert visitor.hands.asked == [(act, tuple(name.split(".", 2)), work.group)]
    for path in (found.headers["location"], "/work"):
        assert f"{act.value} &lt;done&gt;" in visitor.page(path)


def test_what_runs_is_shown_with_its_progress_and_can_be_cancelled(visitor: Visitor) -> None:
    visitor.hands.gate.clear()
    visitor.post("/act", name=NAME, act="refresh")
    visitor.post("/act", name=NAME, act="refresh")
    (work,) = visitor.board.works
    visitor.hands.running = (Job(work.group, "refresh", 3, 8), Job("other", "a <scheduled> refresh", 0, 0, NOW, "x"))
    visitor.board.turn(0)
    for path in (f"/table?name={NAME}", "/work"):
        assert "3 of 8 tasks" in visitor.page(path) and "running" in visitor.page(path)
    assert "a &lt;scheduled&gt; refresh" in visitor.page("/work")
    assert visitor.post("/cancel", group=work.group).status_code == 303
    ended(visitor.board)
    assert "was &lt;cancelled&gt;" in visitor.page("/work")


def test_a_job_that_begins_after_its_group_was_cancelled_is_cancelled_too(visitor: Visitor) -> None:
    job = Job("g", "x", 0, 1)
    visitor.hands.running = (job,)
    visitor.board.turn(0)
    assert not visitor.board.cancel("nothing of that name")
    assert visitor.board.cancel("g")
    visitor.board.turn(0)
    visitor.hands.running = ()
    visitor.board.turn(0)
    visitor.hands.running = (job,)  # another statement of the same table
    visitor.board.turn(0)
    assert visitor.hands.asked == [("cancel", "g")] * 2


def test_who_cancels_a_scheduled_refresh_cancels_no_other_one_of_the_table(visitor: Visitor) -> None:
    visitor.hands.running = (Job("g", "x", 0, 1, tag="this"),)
    visitor.board.turn(0)
    assert 'value="this"' in visitor.page("/work")
    assert visitor.board.cancel("this") and not visitor.board.cancel("g")
    visitor.hands.running = (Job("g", "x", 0, 1, tag="next"), Job("g", "by hand", 0, 1))
    visitor.board.turn(0)
    assert visitor.hands.asked == [("cancel", "this")]


def test_a_console_that_changes_nothing_has_no_buttons_and_refuses() -> None:
    visitor = Visitor(read_only=True)
    assert 'name="act"' not in visitor.page(f"/table?name={NAME}")
    assert visitor.post("/act", name=NAME, act="refresh").status_code == 403
    assert visitor.post("/cancel", group="g").status_code == 403
    assert visitor.hands.asked == []


class Viewer(Visitor):
    """A browser that a viewer logged in with."""

    def __init__(self, status: Status | None = None) -> None:
        super().__init__(status)
        self.users = FakeUsers(ben="two")
        self.users.roles["ben"] = Role.VIEWER
        self.doors = Doors(self.users)
        self.browser = TestClient(application(self.board, self.doors, COOKIE), HOST, follow_redirects=False)
        assert self.browser.post("/login", data={"user": "ben", "password": "two"}).headers["location"] == "/"


def test_a_viewer_sees_every_page_and_changes_nothing() -> None:
    viewer = Viewer()
    viewer.hands.running = (Job("g", "a statement", 1, 2),)
    viewer.board.turn(0)
    pane = f"/pane?key={quote(f'table {NAME}')}"
    for path in (*PAGES, f"/table?name={NAME}", pane, f"/rows?name={NAME}", f"/explain?name={NAME}"):
        text = viewer.page(path)
        assert not re.search('method="post" action="(?!/logout)', text) and 'name="act"' not in text, path
    assert "You may look" in viewer.page(f"/table?name={NAME}") and "a statement" in viewer.page("/work")
    posts = [route.path for route in Pages(viewer.board, viewer.doors, COOKIE).app().routes if "POST" in (route.methods or ())]  # type: ignore[attr-defined]
    assert len(posts) > 3
    for path in posts:
        if path != "/logout":
            found = viewer.post(path, name=NAME, act="refresh", group="g")
            assert found.status_code == 403 and "viewers change nothing" in found.text, path
    assert viewer.hands.asked == [] and viewer.board.works == []
    assert viewer.post("/logout").headers["location"] == "/login"


def test_a_role_counts_from_the_next_request_on() -> None:
    viewer = Viewer()
    viewer.users.roles["ben"] = Role.FULL
    assert 'name="act"' in viewer.page(f"/table?name={NAME}") and viewer.post("/act", name=NAME, act="verify").status_code == 303
    viewer.users.roles["ben"] = Role.VIEWER
    assert (
        'name="act"' not in viewer.page(f"/table?name={NAME}") and viewer.post("/act", name=NAME, act="verify").status_code == 403
    )
    del viewer.users.roles["ben"]
    assert viewer.get("/tables").headers["location"] == "/login"
    viewer.users.roles["ben"] = Role.FULL
    assert viewer.get("/tables").headers["location"] == "/login", "a session that ended is over"


def test_a_button_of_nothing_does_nothing(visitor: Visitor) -> None:
    forms: tuple[dict[str, str], ...] = (
        {"name": "nope", "act": "refresh"},
        {"name": NAME, "act": "drop"},
        {"act": "refresh"},
        {"name": NAME},
    )
    for form in forms:
        assert visitor.post("/act", None, **form).status_code == 404
    assert visitor.hands.asked == []


# Who may come in


def test_a_link_lets_one_browser_in_once_and_a_browser_makes_another(visitor: Visitor, stranger: TestClient) -> None:
    token = visitor.doors.link()
    first = stranger.get(f"/?token={token}")
    assert first.status_code == 303 and first.headers["location"] == "/"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and token not in cookie
    assert stranger.get("/").status_code == 200
    other = TestClient(stranger.app, HOST, follow_redirects=False)
    assert other.get(f"/?token={token}").headers["location"] == "/login?used=1"
    assert stranger.get(f"/?token={visitor.doors.link()}").headers["location"] == "/", "who is in needs no link"
    made = re.search(r'id="invitation">([^<]+)<', visitor.post("/invite").text)
    assert made and other.get(made[1]).status_code == 303 and other.get("/").status_code == 200


@pytest.mark.parametrize("path", [*PAGES, f"/table?name={NAME}", "/pane?key=x", "/rows", "/explain", "/nope"])
def test_a_stranger_sees_where_to_log_in_and_nothing_else(stranger: TestClient, path: str) -> None:
    found = stranger.get(path)
    assert found.status_code == 303 and found.headers["location"] == "/login"
    assert stranger.get("/login").status_code == 200 and "per_region" not in stranger.get("/login").text


@pytest.mark.parametrize("path", ["/static/x", "/loginx", "/login/", "/static/../table"])
def test_a_stranger_is_not_told_why_a_table_is_unreadable(visitor: Visitor, stranger: TestClient, path: str) -> None:
    status: Any = visitor.board.status
    status.unreadable["shop.secret"] = "FileNotFoundException: /srv/secret"
    found = stranger.get(path, params={"name": "shop.secret"})
    assert found.status_code in (303, 404) and "/srv/secret" not in found.text
    assert "/srv/secret" in visitor.get("/table?name=shop.secret").text


def test_a_form_with_too_many_fields_is_refused(stranger: TestClient) -> None:
    assert stranger.post("/login", data={f"f{n}": "" for n in range(30)}).status_code == 413


def test_a_stranger_changes_nothing_and_hears_nothing(visitor: Visitor, stranger: TestClient) -> None:
    assert stranger.get("/events").status_code == 401
    for path in ("/act", "/cancel", "/invite", "/logout"):
        assert stranger.post(path, data={"name": NAME, "act": "refresh", "csrf": visitor.csrf}).status_code == 401
    assert visitor.hands.asked == []


def test_users_log_in_with_their_password_and_out_again(visitor: Visitor) -> None:
    users = FakeUsers(ada="ä+b&c")
    browser = TestClient(application(visitor.board, Doors(users), COOKIE), HOST, follow_redirects=False)
    assert browser.post("/login", data={"user": "ada", "password": "wrong"}).headers["location"] == "/login?wrong=1"
    assert "wrong" in browser.get("/login?wrong=1").text
    assert browser.get("/?token=x").status_code == 303
    assert browser.post("/login", data={"user": "ada", "password": "ä+b&c"}).headers["location"] == "/"
    assert users.asked == [("ada", "wrong", "testclient"), ("ada", "ä+b&c", "testclient")]
    page = browser.get("/settings")
    assert page.status_code == 200 and "Make a link" not in page.text and ">ada<" in page.text
    csrf = re.search(r'name="csrf" value="([\w-]+)"', page.text)
    assert csrf and browser.post("/invite", data={"csrf": csrf[1]}).status_code == 404
    assert browser.post("/logout", data={"csrf": csrf[1]}).headers["location"] == "/login"
    assert browser.get("/").status_code == 303


def test_a_password_is_no_way_in_where_there_are_links(stranger: TestClient) -> None:
    assert stranger.post("/login", data={"user": "owner", "password": ""}).headers["location"] == "/login?wrong=1"


@pytest.mark.parametrize("path", ["/act", "/cancel", "/invite", "/logout"])
@pytest.mark.parametrize("token", [None, "", "wrong", "ä"])
def test_a_button_without_the_sessions_own_token_is_refused(visitor: Visitor, path: str, token: str | None) -> None:
    form = {"name": NAME, "act": "refresh"} | ({} if token is None else {"csrf": token})
    assert visitor.browser.post(path, data=form).status_code == 403
    assert visitor.hands.asked == [] and visitor.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_page_of_another_site_presses_no_button(visitor: Visitor, headers: dict[str, str]) -> None:
    assert visitor.post("/act", headers, name=NAME, act="refresh").status_code == 403
    assert visitor.hands.asked == []
    assert visitor.post("/act", {"Origin": HOST, "Sec-Fetch-Site": "same-origin"}, name=NAME, act="refresh").status_code == 303


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(visitor: Visitor, method: str) -> None:
    assert visitor.browser.request(method, "/act").status_code in (403, 405)


def test_a_form_without_end_is_refused(visitor: Visitor) -> None:
    assert visitor.browser.post("/act", content=b"x" * 70_000).status_code == 413


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:9465", True),
        ("localhost:9465", True),
        ("LOCALHOST", True),
        ("[::1]:9465", True),
        ("10.1.2.3", True),
        ("console.example", True),
        ("console.example:443", True),
        ("evil.example:9465", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        (None, False),
    ],
)
def test_a_name_that_was_bent_to_this_machine_is_not_answered(visitor: Visitor, host: str | None, own: bool) -> None:
    assert is_own_host(host, ["console.example"]) is own
    if host:
        assert visitor.get("/login", Host=host).status_code == (200 if own else 421)


def test_every_answer_keeps_scripts_of_others_out(visitor: Visitor, stranger: TestClient) -> None:
    for found in (visitor.get("/"), visitor.get("/nope"), stranger.get("/"), stranger.get("/login"), visitor.get("/", Host="evil")):
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert found.headers["cache-control"] == "no-store" and found.headers["x-frame-options"] == "DENY"


def test_no_page_has_scripts_or_styles_in_it(visitor: Visitor) -> None:
    paths = (*PAGES, f"/table?name={NAME}", f"/pane?key={quote(f'table {NAME}')}")
    for text in map(visitor.page, paths):
        assert not re.search(
            r"<script(?! src=\"/static/)|<style|\sstyle=|\son\w+=|javascript:|https?://", text.replace("http://www.w3.org", "")
        )


def test_sessions_end() -> None:
    now = 0.0
    doors = Doors(None, lambda: now)
    cookie = doors.by_link(doors.link())
    assert doors.session(cookie)
    now = IDLE + 1
    assert doors.session(cookie) is None
    cookie = doors.by_link(doors.link())
    while doors.session(cookie):
        now += IDLE - 1
    assert now > LONGEST and doors.session(None) is None and doors.by_link("") is None


def test_a_file_of_users_that_cannot_be_read_for_a_moment_throws_nobody_out() -> None:
    users, now = FakeUsers(ada="one", ben="two", eve="three"), 0.0
    users.roles["ben"] = Role.VIEWER
    doors = Doors(users, lambda: now)
    ada, ben, eve = (doors.by_password(name, password, "") for name, password in users.passwords.items())
    users.readable = False
    now = GRACE
    assert [found and found.may_act for found in map(doors.session, (ada, ben, eve))] == [True, False, True]
    with pytest.raises(InvalidStatement, match="cannot be read"):
        doors.by_password("ada", "one", "")
    now = GRACE + 1
    assert [doors.session(each) for each in (ada, ben, eve)] == [None] * 3, "nobody knows any more who may come in"
    users.readable = True
    del users.roles["eve"]
    assert [found and found.may_act for found in map(doors.session, (ada, ben, eve))] == [True, False, None]


def test_who_logs_in_while_the_users_cannot_be_read_is_told_so() -> None:
    users = FakeUsers(ada="one")
    browser = TestClient(application(board_of(small())[0], Doors(users), COOKIE), HOST, follow_redirects=False)
    users.readable = False
    assert browser.post("/login", data={"user": "ada", "password": "one"}).headers["location"] == "/login?unknown=1"
    assert "the file of users cannot be read" in browser.get("/login?unknown=1").text
    assert browser.get("/").headers["location"] == "/login"


# Parts


def test_a_bar_says_what_the_other_kind_of_refresh_took_last() -> None:
    lines = [line(1, took=100), line(2, Action.FAILED, took=50), line(3, Action.FULL, took=400), line(4, took=200)]
    chart = chart_of(lines, (Ran(False, 0, 9, 800),))
    assert chart and chart.longest == "400 ms"
    assert [bar.other for bar in chart.bars] == [None, 45.0, None, 0.0]
    assert "in full it last took 400 ms." in chart.bars[-1].title and "last took" not in chart.bars[0].title
    older = chart_of(lines[:1], (Ran(False, 0, 9, 800), Ran(True, 5, 9, 100)))
    assert older and older.longest == "800 ms" and [bar.other for bar in older.bars] == [0.0]


def test_events_tell_what_is_new(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    board, told = visitor.board, list[str]()
    monkeypatch.setattr("streamtable.hosts.console.pages.TELL_EVERY", 0.001)
    monkeypatch.setattr("streamtable.hosts.console.pages.TELL_ANYWAY", 0.01)

    class Request:
        query_params: ClassVar[dict[str, str]] = {}

        async def is_disconnected(self) -> bool:
            return False

    async def listen() -> None:
        async for text in Pages(board, visitor.doors, COOKIE)._news(Request()):  # type: ignore[arg-type]
            told.append(text)
            if len(told) == 2:
                board.looks += 1
            if text.startswith("event: "):
                board.stop()

    asyncio.run(asyncio.wait_for(listen(), 10))
    assert told[:2] == [": here\n\n", ": still here\n\n"]
    assert told[-1] == f"event: news\ndata: {board.news}\n\n"
    Request.query_params = {"seen": "what a page showed that is older"}
    told.clear()
    board._stopped.clear()
    asyncio.run(asyncio.wait_for(listen(), 10))
    assert told[0] == ": here\n\n" and told[1].startswith("event: news\n") and len(told) == 2
    with visitor.browser.stream("GET", "/events") as found:
        assert found.headers["content-type"].startswith("text/event-stream") and next(found.iter_lines()) == ": here"


@pytest.mark.parametrize(
    ("made", "standing"),
    [
        (table("s", "t"), Standing.FRESH),
        (table("s", "t", late=5), Standing.STALE),
        (table("s", "t", schedule="MANUAL"), Standing.FRESH),
        (table("s", "t", late=5, schedule="MANUAL"), Standing.STALE),
        (table("s", "t", history=BROKEN), Standing.FAILING),
        (table("s", "t", history=[line(1, Action.SKIPPED), *BROKEN]), Standing.FAILING),
        (table("s", "t", history=[line(1), *BROKEN]), Standing.FRESH),
        (table("s", "t", late=5, status=SUSPENDED), Standing.SUSPENDED),
    ],
)
def test_the_state_of_a_table_is_the_worst_that_is_true(made, standing: Standing) -> None:  # type: ignore[no-untyped-def]
    assert made.standing is standing


def waiting(made: TableStatus, until_due: timedelta) -> TableStatus:
    return replace(made, fresh=replace(made.fresh, deadline=NOW + until_due))


def never_filled(made: TableStatus) -> TableStatus:
    return replace(made, fresh=replace(made.fresh, data_timestamp=None))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (table("s", "t", [SALES]), None),
        (
            table("s", "t", [SALES], late=2),
            "It lacks 2 commits of shop.sales, the first 0 ms ago; a refresh was due 2 min ago: does a scheduler run?",
        ),
        (table("s", "t", [LATE], late=2), "what shop.late lacks itself"),
        (table("s", "t", late=2), "What its query reads besides tables was read 3 min ago"),
        (table("s", "t", [SALES], late=2, history=BROKEN), "a refresh was due 2 min ago, and the last attempt failed."),
        (table("s", "t", [SALES], late=2, schedule="MANUAL"), "; no schedule asks for a refresh, so that somebody has to."),
        (table("s", "t", [SALES], late=2, status=SUSPENDED), "; it is suspended, and nobody refreshes it before it is resumed."),
        (waiting(table("s", "t", [SALES], late=2), timedelta(minutes=4)), "; the next refresh is due in 4 min."),
        (never_filled(table("s", "t", [SALES])), "It was never filled; the next refresh is due in 5 min."),
    ],
)
def test_a_table_says_why_it_is_stale(made: TableStatus, said: str | None) -> None:
    found = why_stale(made, small())
    assert found is None if said is None else said in (found or "")


def test_the_page_of_a_stale_table_says_why(visitor: Visitor) -> None:
    late = f"{CATALOG}.shop.late"
    for path in (f"/table?name={late}", f"/pane?key={quote(f'table {late}')}"):
        assert "It lacks 2 commits of shop.sales" in visitor.page(path)
    assert visitor.board.status
    visitor.board.status = replace(visitor.board.status, suspended_since=NOW - timedelta(hours=2))
    assert "the schedulers were suspended 2 h ago: ALTER SCHEDULER RESUME." in visitor.page(f"/table?name={late}")


def test_a_table_is_failing_at_once_and_tells_both_attempts() -> None:
    broken = table("s", "t", history=BROKEN)
    assert broken.last_attempt is BROKEN[0] and broken.last_success is BROKEN[1] is broken.last_whole
    assert broken.trouble and "division by zero" in broken.trouble
    assert broken.condition == "STREAMTABLE_REFRESH_FAILED" and broken.last_action == "FAILED"
    assert table("s", "t", status=SUSPENDED).next_due is None


def test_a_table_that_was_resumed_is_not_failing_by_what_failed_before() -> None:
    resumed = replace(table("s", "t", history=BROKEN), resumed=BROKEN[0].version, action="FULL")
    assert (resumed.trouble, resumed.standing, resumed.last_action) == (None, Standing.FRESH, "FULL")
    assert resumed.attempted_at == BROKEN[0].at and resumed.succeeded_at == BROKEN[1].at


def test_a_success_that_the_log_forgot_is_known_by_the_frontier() -> None:
    forgotten = replace(table("s", "t", history=BROKEN[:1]), stood_at=NOW)
    assert (forgotten.last_success, forgotten.succeeded_at, forgotten.reason) == (None, NOW, None)


def test_as_many_lines_are_read_as_it_takes_to_the_last_success() -> None:
    failed, good = line(1, Action.FAILED), line(9)
    endless = chain([failed] * 300, [good], repeat(good))
    assert _recent(endless, 1) == (*[failed] * 300, good)
    assert _recent(iter([good] * 9), 3) == (good,) * 3
    assert _recent(iter([failed]), 3) == (failed,)


def test_words() -> None:
    assert (cut("a" * 10, 10) == "a" * 10 and cut("beginning_and_end", 9) == "begin…end"[:5] + "_end"[-4:]) or len(
        cut("x" * 99, 9)
    ) == 9
    assert (
        short("spark_catalog.a.b") == "a.b"
        and schema_of("spark_catalog.a.q: worker") == "a"
        and schema_of("delta.`/x.y`") == "by path"
    )
    spans = [0.25, 3.04, 59, 60, 3599, 7260, 200_000]
    assert [duration(timedelta(seconds=each)) for each in spans] == [
        "250 ms",
        "3.0 s",
        "59 s",
        "1 min",
        "59 min 59 s",
        "2 h 1 min",
        "2 d 7 h",
    ]
    assert ago(None, NOW) == "never" and ago(NOW + timedelta(minutes=5), NOW) == "in 5 min"
    assert [size(each) for each in (None, 5, 2000, 3 * 10**13)] == ["?", "5 B", "2.0 KB", "30.0 TB"]


def test_the_vendored_files_are_those_that_were_published() -> None:
    folder = files("streamtable.hosts.console") / "static" / "vendor"
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir() if each.name != vendor.LICENCES}
    published = {Path(path).name: digest for package in vendor.PACKAGES for path, digest in package.files.items()}
    assert found == published and len(found) >= 2
    said = (folder / vendor.LICENCES).read_text()
    assert all(f"{package}\n\n" in said for package in vendor.PACKAGES)


def test_a_file_of_javascript_with_another_digest_is_refused() -> None:
    package = vendor.Package("x", "1", {"dist/x.js": hashlib.sha256(b"good").hexdigest()})
    files = {"dist/x.js": b"good", "LICENSE": b"do what you like\n"}
    assert vendor.vendored([(package, files)]) == {"x.js": b"good", vendor.LICENCES: b"x 1\n\ndo what you like\n"}
    with pytest.raises(ValueError, match="dist/x.js of x 1"):
        vendor.vendored([(package, {**files, "dist/x.js": b"bad"})])


def test_a_board_sleeps_while_nobody_watches() -> None:
    board = Board(FakeHands(small()))
    board._watched -= 1e6
    thread = board.start()
    time.sleep(0.05)
    assert board.looks == 0
    board.watch()
    until = time.monotonic() + 10
    while not board.looks and time.monotonic() < until:
        time.sleep(0.005)
    board.stop()
    thread.join(10)
    assert board.looks == 1 and not thread.is_alive()


def test_a_session_without_the_packages_or_the_port_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "enable", lambda spark: None)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotEnabled, match=f"cannot listen on 127.0.0.1:{port}"):
            package.console(None, port=port)  # type: ignore[arg-type]
    monkeypatch.setattr(package, "is_installed", lambda: False)
    with pytest.raises(NotEnabled, match="streamtable.console"):
        package.console(None)  # type: ignore[arg-type]


def contrast(one: str, other: str) -> float:
    """Return how well a colour is read on another one, as WCAG counts it."""

    def light(colour: str) -> float:
        parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    brighter, darker = sorted((light(one), light(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_all_that_is_written_can_be_read(scheme: int) -> None:
    css = (files("streamtable.hosts.console") / "static" / "console.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", css.split(":root {")[1 + scheme].split("}")[0]))
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    words = ("fresh", "stale", "failing", "suspended", "running")
    pairs = [(each, f"{each}-back") for each in words]
    pairs += [(each, back) for each in ("text", "soft", "link") for back in ("back", "raised")]
    pairs += [("failing", "back"), ("back", "link"), ("back", "failing")]
    pairs += [(each, f"{word}-back") for each in ("text", "soft") for word in words[:4]]
    pairs += [(each, "raised") for each in ("keyword", "string", "number", "comment")]
    assert {
        pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5
    } == {}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_says_where_the_console_is_and_ends_it(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[object]()

    @contextmanager
    def session(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(spark="spark", out=Printer(as_json))
        told.append("session ended")

    def opened(spark: object, door: socket.socket, *others: object, **options: object) -> SimpleNamespace:
        told.extend((spark, door.getsockname()[0], *others, options))
        return SimpleNamespace(link=lambda: "http://127.0.0.1:1/?token=t", stop=lambda: told.append("stopped"))

    monkeypatch.setattr(serving, "cli_context", session)
    monkeypatch.setattr(Stopping, "listen", lambda self: told.append("listens"))
    monkeypatch.setattr(Stopping, "let_go", lambda self: told.append("lets go"))
    monkeypatch.setattr(server, "wait", lambda spark, stopping: told.append("waited"))  # as if SIGTERM had come
    monkeypatch.setattr(served, "serve", opened)
    said = CliRunner().invoke(cli, ["console", "--read-only", *(["--json"] if as_json else [])])
    assert said.exit_code == 0, said.output
    assert ('"console": "http://127.0.0.1:1/?token=t"' if as_json else "\n  http://127.0.0.1:1/?token=t\n") in said.stdout
    assert told == ["listens", "spark", "127.0.0.1", None, {"read_only": True}, "waited", "lets go", "stopped", "session ended"]


def test_a_refresh_without_end_does_not_keep_the_command_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cancelled after a time: the scheduler alone would wait for it, and Ctrl-C is heard once."""
    told = list[object]()

    @contextmanager
    def session(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(spark="spark", out=Printer(as_json=True))

    opened = SimpleNamespace(link=lambda: "link", stop=lambda: told.append("console"))
    monkeypatch.setattr(serving, "cli_context", session)
    monkeypatch.setattr(Stopping, "listen", lambda self: None)
    monkeypatch.setattr(server, "wait", lambda spark, stopping: None)
    monkeypatch.setattr(served, "serve", lambda *_, **__: opened)
    monkeypatch.setattr("streamtable.hosts.session.start_scheduler", lambda spark: SimpleNamespace(stop=told.append))
    assert CliRunner().invoke(cli, ["console", "--scheduler"]).exit_code == 0
    assert told == ["console", 50.0]


def test_the_command_tells_of_a_port_that_is_taken_before_it_starts_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "cli_context", lambda *_: pytest.fail("Spark would have started"))
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        said = CliRunner().invoke(cli, ["console", "--port", port])
    assert said.exit_code == ExitCode.NO_SESSION
    assert f"the console cannot listen on 127.0.0.1:{port}" in said.stderr and "choose another port" in said.stderr


@pytest.mark.parametrize("signum", STOPS)
def test_a_signal_ends_the_wait_and_so_does_what_has_to_be_alive(signum: signal.Signals) -> None:
    heard, before = list[str](), {each: signal.getsignal(each) for each in STOPS}
    try:
        stopping = Stopping(lambda: heard.append("first"))
        stopping.listen()
        Timer(0.05, os.kill, (os.getpid(), signum)).start()
        assert stopping.wait(lambda: True) and heard == ["first"]
        assert not stopping.wait(lambda: False)
        stopping.let_go()
        assert [signal.getsignal(each) for each in STOPS] == [signal.SIG_DFL, signal.default_int_handler], "the second ends at once"
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def asked(console: served.Console) -> int:
    """Return the status of the login page."""
    address = urlsplit(console.address)
    with closing(HTTPConnection(str(address.hostname), address.port, timeout=20)) as connection:
        connection.request("GET", "/login")
        return connection.getresponse().status


FORM = b"POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 9\r\n\r\nuser"


@pytest.mark.parametrize("said", [b"", b"GET /login HT", FORM, b"after an answer"])
def test_connections_without_a_request_keep_nobody_out_for_ever(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SECONDS_TO_ASK", 2.0)
    monkeypatch.setattr(served, "MOST_AT_ONCE", 10)
    with answering(board_of(small())[0]) as console, ExitStack() as crowd:
        address = urlsplit(console.address)
        assert asked(console) == 200
        for _ in range(9):
            idle = crowd.enter_context(
                closing(socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=10))
            )
            if said == b"after an answer":
                idle.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
                idle.recv(4096)
                time.sleep(0.05)  # until the server awaits the next request
            idle.sendall(said)
        assert asked(console) == 503
        until = time.monotonic() + 15
        while asked(console) != 200:
            assert time.monotonic() < until, "they are still there"
            time.sleep(0.2)


def test_who_asks_for_much_and_reads_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for times in ("SECONDS_TO_ASK", "SECONDS_TO_READ"):
        monkeypatch.setattr(connection, times, 0.5)
    with answering(board_of(small())[0]) as console, closing(socket.socket()) as deaf:
        address, there = urlsplit(console.address), console._server.server_state.connections
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect((str(address.hostname), int(address.port or 0)))
        deaf.sendall(b"GET /static/vendor/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)
        until = time.monotonic() + 8
        while time.monotonic() < until and not there:
            time.sleep(0.05)
        assert there
        while there:
            assert time.monotonic() < until, "it is still there"
            time.sleep(0.1)


def test_who_reads_slowly_is_not_sent_away_before_nothing_is_read() -> None:
    looks, aborted, left = list[Any](), list[bool](), [100]

    def call_later(_: float, look: Any, before: int) -> Any:
        looks.append((look, before))
        return SimpleNamespace(cancel=lambda: None)

    reader: Any = object.__new__(connection.Connection)
    reader.loop = SimpleNamespace(call_later=call_later)
    reader.transport = SimpleNamespace(get_write_buffer_size=lambda: left[-1], abort=lambda: aborted.append(True))
    reader._full = reader._while_it_reads()
    for waiting in (60, 20, 20):
        assert aborted == []
        left.append(waiting)
        look, before = looks.pop()
        look(before)
    assert aborted == [True] and looks == []


def test_an_answer_takes_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SECONDS_TO_ASK", 0.3)

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(1)
        await PlainTextResponse("late")(scope, receive, send)

    monkeypatch.setattr(served, "application", lambda *_: slow)
    with answering(board_of(small())[0]) as console:
        assert asked(console) == 200
