"""The console in a real browser, Debian's chromium: what scripts do, and what it looks like on a phone and with a keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from tests.unit.consoles import CATALOG, NASTY, answering, board_of, large, small

from streamtable.hosts.console.serve import Console

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


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_a_phone_and_a_desk_and_two_hundred_tables_are_there_in_a_second(browser, width: int, scheme: str) -> None:  # type: ignore[no-untyped-def]
    board, _ = board_of(large())
    with answering(board) as console:
        page = visit(browser, console, viewport={"width": width, "height": 800}, color_scheme=scheme)
        began = page.evaluate("() => performance.getEntriesByType('navigation')[0].responseEnd")
        assert began < 3000, "a slow machine is given three seconds for what takes a tenth of one"
        for path in ("", "tables", "alerts", "work", "queues", "replication", "settings"):
            page.goto(f"{console.address}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"/{path} is wider than its window"
        assert page.complaints == []
        page.close()
