"""The manual builds as a site without a warning, and neither its build nor a page of it asks the network for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from manual.syntax import statements

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="(?:https?:)?//[^>]*stylesheet')


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "manual/mkdocs.yml", "-d", str(tmp_path)]
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    here = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    sources = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sources <= pages.keys()
    assert {name: found for name, text in pages.items() if (found := FETCHED.findall(text))} == {}
    assert pages["reference/syntax.html"].count('class="railroad"') == len(statements())
    assert "STREAMTABLE_NOT_INCREMENTAL" in (tmp_path / "search" / "search_index.json").read_text(encoding="utf-8")


def test_what_is_fetched_is_found() -> None:
    assert FETCHED.search('<script src="https://unpkg.com/x.js">') and FETCHED.search('<link href="//a.org/x" rel="stylesheet">')
    assert not FETCHED.search('<script src="assets/x.js"></script><a href="https://example.org">')
