"""The console in a real browser, Debian's chromium: what scripts do, and what it looks like on a phone and with a keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from tests.unit.consoles import CATALOG, NASTY, NOW, FakeUsers, answering, board_of, large, small

from streamtable.errors import SourceUnavailable
from streamtable.hosts.console.access import Doors
from streamtable.hosts.console.board import Act, Job
from streamtable.hosts.console.serve import Console
from streamtable.hosts.roles import Role

chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    chromium is None, reason="NO BROWSER: the scripts of the console are not tested; apt-get install chromium"
)
playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER DRIVER: the scripts of the console are not tested")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


PATHS = ("", "tables", "alerts", "work", "queues", "replication", "settings")
STOPPED, BROKEN = f"{CATALOG}.shop.stopped", f"{CATALOG}.shop.broken"
WITHOUT_NAME = """() => [...document.querySelectorAll('a, button, input:not([type=hidden]), select, summary, svg[role], [tabindex]')]
    .filter(each => !(each.getAttribute('aria-label') || each.innerText || each.textContent || '').trim() && !each.labels?.length)
    .map(each => each.outerHTML)"""
TWICE = """() => { const ids = [...document.querySelectorAll('[id]')].map(each => each.id);
    return ids.filter((each, n) => ids.indexOf(each) !== n) }"""
"""What a screen reader could not tell: things without a name, and ids that stand twice."""


def visit(browser, console: Console, **options):  # type: ignore[no-untyped-def]  # Playwright may not be there
    """Open the console as a person does; what the browser complains about fails the test, see `complaints`."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(20_000)
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(console.link())
    return page


def test_a_person_finds_a_table_and_refreshes_it(browser) -> None:  # type: ignore[no-untyped-def]
    board, hands = board_of(small())
    with answering(board) as console:
        page = visit(browser, console)
        page.click("a[aria-label*='per_region']")
        page.wait_for_selector("#pane dl")
        assert page.inner_text("#pane h2") == "shop.per_region" and page.url == console.address
        page.focus("a[aria-label*='script']")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#pane h2:has-text('{NASTY[:8]}')")
        page.click("#pane button[value=refresh]")
        page.wait_for_selector(".works .pill.fresh")  # it comes by itself
        assert hands.asked[0][1] == (CATALOG, "shop", NASTY)
        page.click("text=Explain")
        page.wait_for_selector("#explain table")
        page.click("text=Show 100 rows")
        page.wait_for_selector("#rows table")
        assert page.inner_text("#rows td >> nth=0") == "<i>north</i>"
        page.set_viewport_size({"width": 390, "height": 800})
        page.click("summary")
        page.evaluate("document.querySelector('#live .wide').scrollLeft = 40; document.querySelector('#live .seen').remove()")
        board._next = 0.0
        page.wait_for_selector("#live .seen")  # the page renewed itself
        assert page.evaluate("[document.querySelector('#live .wide').scrollLeft, document.querySelector('details').open]") == [
            40,
            True,
        ]
        page.set_viewport_size({"width": 1280, "height": 800})
        board.status = hands.status = large()
        page.goto(console.address)
        page.click("a[aria-label*='schema team_7']")
        page.wait_for_url("**/?open=team_7")
        assert "ong_name_7" in page.text_content(".box.stale text >> nth=0")
        page.select_option("select[name=schema]", "team_1")
        page.wait_for_url("**/?schema=team_1")
        hands.status = small()
        page.goto(console.address)
        board._next = 0.0
        page.wait_for_selector("a[aria-label*='per_region']")
        assert page.complaints == []
        page.close()


def test_every_button_of_a_table_is_pressed(browser) -> None:  # type: ignore[no-untyped-def]
    board, hands = board_of(small())
    with answering(board) as console:
        page = visit(browser, console)
        for act in Act:
            page.goto(f"{console.address}table?name={STOPPED if act is Act.RESUME else BROKEN}")
            page.click(f"button[value={act.value}]")
            page.wait_for_selector(f".works li:first-child:has(strong:text-is('{act.value}')):has(.pill.fresh)")
            assert page.inner_text(".works li:first-child .news") == f"{act.value} <done>"
        assert [asked[0] for asked in hands.asked] == list(Act)
        page.goto(f"{console.address}table?name={STOPPED}")
        assert page.is_disabled("button[value=refresh]") and page.is_disabled("button[value=full]")
        hands.gate.clear()
        page.goto(f"{console.address}table?name={BROKEN}")
        page.click("button[value=refresh]")
        page.wait_for_selector(".works .pill.running")
        group = board.works[0].group
        hands.running = (Job(group, "refresh", 3, 8), Job("theirs", "a <scheduled> refresh", 1, 2, NOW, "x"))
        page.wait_for_selector(".works progress")
        page.goto(f"{console.address}work")
        page.wait_for_selector("td:has-text('a <scheduled> refresh')")
        hands.running = hands.running[:1]
        page.click(".works button:has-text('Cancel')")
        page.wait_for_selector(".works .pill.failed, .works .pill.failing")
        assert "the refresh was <cancelled>" in page.inner_text(".works li:first-child .news")
        assert ("cancel", group) in hands.asked
        assert page.complaints == []
        page.close()


def test_what_is_wrong_is_seen_and_goes_away_again(browser) -> None:  # type: ignore[no-untyped-def]
    board, hands = board_of(small())
    with answering(board) as console:
        page = visit(browser, console)
        page.goto(f"{console.address}table?name={BROKEN}")
        assert "a division by zero in <amount>" in page.inner_text(".banner.failing[role=alert]")
        hands.error = SourceUnavailable("sales <is> gone")
        page.click("text=Explain")
        page.wait_for_selector("#explain .banner.failing:has-text('sales <is> gone')")
        board._next = 0.0
        page.wait_for_selector("#live .banner:has-text('The last look failed: sales <is> gone')")
        hands.error = None
        board._next = 0.0
        page.wait_for_selector("#live .seen")
        page.wait_for_selector("#live .banner:has-text('The last look failed')", state="detached")
        page.goto(f"{console.address}table?name=nope")
        assert page.inner_text("h1") == "There is nothing here"
        page.click("text=To the graph")
        page.wait_for_url(console.address)
        assert all("404" in each for each in page.complaints)
        page.close()


def test_another_browser_is_let_in_and_everybody_leaves(browser) -> None:  # type: ignore[no-untyped-def]
    board, _ = board_of(small())
    with answering(board) as console:
        page = visit(browser, console)
        page.goto(f"{console.address}settings")
        page.click("text=Make a link")
        link = page.inner_text("#invitation")
        other = browser.new_context().new_page()
        other.goto(console.address)
        assert "Open the link that this process printed" in other.inner_text("main")
        other.goto(link)
        assert other.url == console.address and other.query_selector("svg.graph")
        page.click("text=Log out")
        page.wait_for_url("**/login")
        page.goto(f"{console.address}tables")
        assert page.url.endswith("/login")
        other.reload()
        assert other.query_selector("svg.graph"), "the other one is still in"
        page.close()
        other.close()


def test_a_user_logs_in_by_keyboard_and_finds_no_buttons_where_nobody_may_press_them(browser) -> None:  # type: ignore[no-untyped-def]
    board, _ = board_of(small(), read_only=True)
    doors = Doors(FakeUsers(ada="ä+b"))
    with answering(board, doors) as console:
        page = visit(browser, console)
        for password in ("wrong", "ä+b"):
            page.fill("input[name=user]", "ada")
            page.keyboard.press("Tab")
            page.keyboard.type(password)
            page.keyboard.press("Enter")
            page.wait_for_selector(".banner.failing" if password == "wrong" else "svg.graph")  # noqa: S105 - what is typed
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip", "the keyboard comes to the contents at once"
        page.goto(f"{console.address}table?name={BROKEN}")
        assert page.query_selector("button[name=act]") is None and "changes nothing" in page.inner_text("main")
        page.goto(f"{console.address}settings")
        assert page.query_selector("text=Make a link") is None
        page.close()


def test_a_viewer_finds_every_page_and_no_button(browser) -> None:  # type: ignore[no-untyped-def]
    board, hands = board_of(small())
    hands.running = (Job("theirs", "a statement", 1, 2, NOW),)
    board.turn(0.0)
    users = FakeUsers(ben="two")
    users.roles["ben"] = Role.VIEWER
    with answering(board, Doors(users)) as console:
        page = visit(browser, console)
        page.fill("input[name=user]", "ben")
        page.fill("input[name=password]", "two")
        page.keyboard.press("Enter")
        page.wait_for_selector("svg.graph")
        for path in (*PATHS, f"table?name={BROKEN}"):
            page.goto(f"{console.address}{path}")
            assert [each.inner_text() for each in page.query_selector_all("button")] == ["Log out"], path
        assert "You may look, and change nothing" in page.inner_text("main")
        users.roles["ben"] = Role.FULL
        page.reload()
        assert page.query_selector("button[value=refresh]"), "the role counts at once"
        assert page.complaints == [] and hands.asked == []
        page.close()


def test_a_screen_reader_can_tell_everything_from_everything(browser) -> None:  # type: ignore[no-untyped-def]
    board, hands = board_of(small())
    with answering(board) as console:
        page = visit(browser, console)
        hands.running = (Job("theirs", "a statement", 1, 2, NOW),)
        board.turn(0.0)
        for path in (*PATHS, f"table?name={BROKEN}", "table?name=nope"):
            page.goto(f"{console.address}{path}")
            assert page.evaluate(WITHOUT_NAME) == [] and page.evaluate(TWICE) == [], path
            assert len(page.query_selector_all("h1")) == len(page.query_selector_all("main")) == 1, path
            assert page.evaluate("document.documentElement.lang") == "en" and page.title().endswith(" · streamtable"), path
        page.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_a_phone_and_a_desk_and_two_hundred_tables_are_there_in_a_second(browser, width: int, scheme: str) -> None:  # type: ignore[no-untyped-def]
    board, _ = board_of(large())
    with answering(board) as console:
        page = visit(browser, console, viewport={"width": width, "height": 800}, color_scheme=scheme)
        began = page.evaluate("() => performance.getEntriesByType('navigation')[0].responseEnd")
        assert began < 3000, "a slow machine is given three seconds for what takes a tenth of one"
        for path in PATHS:
            page.goto(f"{console.address}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"/{path} is wider than its window"
        assert page.complaints == []
        page.close()
