"""Each link between pages leads to a page and to a heading of it, and a page that any text names is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.test_repository import texts

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"\bdocs/[\w/-]+\.md\b")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and MkDocs make them of its headings."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in found}


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a text, which stands where the page stands, that lead nowhere."""
    found = []
    for to, anchor in LINK.findall(text):
        target = (page.parent / to) if to else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            found.append(f"{to}#{anchor}" if anchor else to)
    return found


def test_every_link_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = {str(page.relative_to(ROOT)): links for page in pages if (links := broken(page, prose(page)))}
    assert found == {}


def test_every_page_that_is_named_is_there() -> None:
    named = {(str(path), page) for path, text in texts() if path.name != Path(__file__).name for page in NAMED.findall(text)}
    assert {(where, page) for where, page in named if not (ROOT / page).is_file()} == set()


def test_every_test_that_is_named_is_there() -> None:
    """Pages say what was shown, and by which test. A test that gets another name takes the claim along."""
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    tests = {name for text in code for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE)}
    pages = {page: prose(page) for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    named = {(page.name, test) for page, text in pages.items() for test in re.findall(r"`(test_\w+)`", text)}
    files = {(page.name, file) for page, text in pages.items() for file in re.findall(r"`(tests/[\w./]+)`", text)}
    assert len(named) > 60 and {(page, test) for page, test in named if test not in tests} == set()
    assert {(page, file) for page, file in files if not (ROOT / file).exists()} == set()


def test_every_point_of_the_page_on_security_names_its_test() -> None:
    """What no test shows is said to be somebody else's; advice at the end of the page is no claim."""
    claims = prose(ROOT / "docs" / "how-to" / "security.md").partition("\n## Running it for others")[0]
    points = re.split(
        r"\n\n|\n(?=[-|] )", re.sub(r"^\|.*\|\n\|[-|]+\|$\n", "", claims, flags=re.MULTILINE)
    )  # a table's head claims nothing
    shown = re.compile(r"`test_\w+`|\byours\b|\bSpark's own\b")
    assert len(points) > 55 and [point for point in points if not point.startswith("#") and not shown.search(point)] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "manual" / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - set(re.findall(r"- ([\w/-]+\.md)$", nav, re.MULTILINE)) == set()


def test_every_page_opens_with_what_it_is_for() -> None:
    found = {str(page.relative_to(ROOT)): opening(page.read_text(encoding="utf-8")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page: text for page, text in found.items() if not re.match(r"[*`]{0,2}\w", text) or len(text.split()) < 8} == {}


def opening(text: str) -> str:
    """Return what stands below the title of a page."""
    return re.sub(r"^<!--.*?-->", "", text).split("\n\n# " if text.startswith("<!--") else "# ", 1)[1].split("\n\n")[1]


def test_a_page_that_opens_with_a_table_is_found() -> None:
    assert opening("# Title\n\n| a | b |\n|---|---|\n\ntext") == "| a | b |\n|---|---|"
    assert opening("<!-- made by x -->\n\n# Title\n\nWhat it is for.\n") == "What it is for.\n"


def test_a_link_to_nowhere_is_found() -> None:
    here = ROOT / "README.md"
    text = "[a](docs/gone.md) [b](CONTRIBUTING.md#no-such-heading) [c](CONTRIBUTING.md#the-rooms) [d](https://example.org)"
    assert broken(here, text) == ["docs/gone.md", "CONTRIBUTING.md#no-such-heading"]
