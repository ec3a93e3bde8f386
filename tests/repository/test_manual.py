"""The manual builds as a site without a warning, its search finds, and neither its build nor a page asks the network for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from manual.syntax import statements

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="(?:https?:)?//[^>]*stylesheet')
chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "manual/mkdocs.yml", "-d", str(folder)]
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    here = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return folder


def test_every_page_is_there_and_fetches_nothing(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    sources = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sources <= pages.keys()
    assert {name: found for name, text in pages.items() if (found := FETCHED.findall(text))} == {}
    assert pages["reference/syntax.html"].count('class="railroad"') == len(statements())
    assert [name for name, text in pages.items() if "```" in text and not name.startswith("repository/")] == []


def test_what_is_fetched_is_found() -> None:
    assert FETCHED.search('<script src="https://unpkg.com/x.js">') and FETCHED.search('<link href="//a.org/x" rel="stylesheet">')
    assert not FETCHED.search('<script src="assets/x.js"></script><a href="https://example.org">')


@pytest.mark.skipif(chromium is None, reason="NO BROWSER: the search of the manual is not tested; apt-get install chromium")
def test_the_search_finds_a_page_without_a_network(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER DRIVER: the search of the manual is not tested")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}/"
    asked: list[str] = []
    try:
        with playwright.sync_playwright() as driver:
            page = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"]).new_page(
                viewport={"width": 1400, "height": 900}
            )
            page.on("request", lambda request: asked.append(request.url))
            page.goto(here + "index.html")
            page.fill("input[name=query]", "recover")
            page.wait_for_selector(".md-search-result__link[href*='how-to/recover.html']", state="attached", timeout=60_000)
    finally:
        server.shutdown()
        server.server_close()
    assert [url for url in asked if not url.startswith((here, "data:", "blob:"))] == []


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        pass
