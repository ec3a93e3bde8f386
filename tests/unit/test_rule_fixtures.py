"""Fixtures of the delta rules: what each case says is what the rules do, and what docstrings and docs/reference/delta-rules.md show.

`./run unit --rewrite tests/unit/test_rule_fixtures.py` writes the SQL of all cases, docstrings and the page anew; git shows the
differences.
"""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from tests.unit.rule_fixtures import FOLDER, Case, delta_of, read

import streamtable
from streamtable.differentiate import registry

RULES = Path(streamtable.__file__).parent / "differentiate"
PAGE = Path(__file__).parents[2] / "docs/reference/delta-rules.md"
STEMS = [
    *("scan", "constant", "filter", "project", "union_all", "generate", "expand", "join", "left_join", "aggregate"),
    *("affected_groups", "window", "running", "top_k", "stored_before", "recursion", "unsupported"),
]
MARK = "<!-- Below: written by ./run unit --rewrite tests/unit/test_rule_fixtures.py -->\n"
SHOWN = 24
"""Lines of a delta that a docstring shows at most; the fixture and the page have all."""

CASES = [case for stem in STEMS for case in read(FOLDER / f"{stem}.sql")]


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))


def compare(path: Path, old: str, new: str, rewrite: bool) -> None:
    """Hold a part of a file to the text that it must have, or write that text."""
    if rewrite:
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
    else:
        assert old == new


@pytest.mark.parametrize("case", CASES, ids=str)
def test_delta(case: Case, rewrite: bool) -> None:
    compare(FOLDER / f"{case.stem}.sql", case.written(case.expected), case.written(delta_of(case)), rewrite)


def test_every_rule_has_a_fixture() -> None:
    modules = {module.__name__.rpartition(".")[2] for module in registry.RULES.values()}
    assert {path.stem for path in FOLDER.glob("*.sql")} == set(STEMS)
    assert modules - set(STEMS) == {"working_table"}  # its delta is a name only, which the case of a recursion shows


@pytest.mark.parametrize("stem", STEMS)
def test_a_case_named_refused_is_refused_and_no_other(stem: str) -> None:
    for case in read(FOLDER / f"{stem}.sql"):
        assert case.name.startswith("refused: ") is case.expected.startswith("-- refused: "), case


@pytest.mark.parametrize("stem", STEMS)
def test_the_docstring_shows_the_first_case(stem: str, rewrite: bool) -> None:
    path = RULES / f"{stem}.py"
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False) or ""
    head, _, _ = doc.partition("\nExample, where ")
    compare(path, doc, head.rstrip("\n") + "\n\n" + example(stem), rewrite)


def example(stem: str) -> str:
    case = read(FOLDER / f"{stem}.sql")[0]
    lines = delta_of(case).splitlines()
    shown = lines if len(lines) <= SHOWN else [*lines[: SHOWN - 1], f"... (all of it: tests/unit/fixtures/rules/{stem}.sql)"]
    before, after = (textwrap.indent("\n".join(each), "    ") for each in (textwrap.wrap(case.query, 110), shown))
    return f"Example, where {changing(case)}:\n\n{before}\n\nbecomes\n\n{after}\n"


def test_the_page_shows_every_rule(rewrite: bool) -> None:
    _, mark, after = PAGE.read_text(encoding="utf-8").partition(MARK)
    compare(PAGE, mark + after, MARK + "".join(map(section, STEMS)), rewrite)


def section(stem: str) -> str:
    """Write the docstring of a rule, without its example, as a section, and all of the example after it."""
    doc = ast.get_docstring(ast.parse((RULES / f"{stem}.py").read_text(encoding="utf-8"))) or ""
    title, *paragraphs = doc.partition("\nExample, where ")[0].strip().split("\n\n")
    cases = read(FOLDER / f"{stem}.sql")
    title = title.rstrip(".").removeprefix("Delta of ").removeprefix("an ").removeprefix("a ")
    written = [f"\n## {title[0].upper()}{title[1:]}\n"]
    for paragraph in paragraphs:
        formula = paragraph.startswith("    ")
        written.append(block(textwrap.dedent(paragraph)) if formula else "\n\n".join(sentences(paragraph)) + "\n")
    if "refused" not in cases[0].name:
        written.append(f"**Example**: {cases[0].name}. Where {changing(cases[0])},\n")
        written.append(block("\n".join(textwrap.wrap(cases[0].query, 110))) + "\nbecomes\n\n" + block(cases[0].expected))
    more = "".join(f"- {case.name}\n" for case in cases[1:])
    return "\n".join(written) + (f"\nMore cases, in `tests/unit/fixtures/rules/{stem}.sql`:\n\n{more}" if more else "")


def changing(case: Case) -> str:
    return f"{' and '.join(case.changes)} {'change' if len(case.changes) > 1 else 'changes'}{' much' if case.large else ''}"


def sentences(paragraph: str) -> list[str]:
    """Part what a rule refuses, and where it applies, from why it holds."""
    found: list[str] = []
    for line in paragraph.splitlines():
        if not found or line.startswith(("Refuses: ", "Applies ", "Source: ")):
            found.append(line)
        else:
            found[-1] += "\n" + line
    return [f"**{each.partition(':')[0]}**:{each.partition(':')[2]}" if each.startswith("Refuses: ") else each for each in found]


def block(text: str) -> str:
    return f"```text\n{text}\n```\n"
