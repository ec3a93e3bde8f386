"""Every SQL example in docs/ runs as it stands: per page in order, in a database of its own.

A statement ends with `;` at a line's end. A comment after it is a claim: `-- FULL` is the action of a CREATE or REFRESH,
`-- STREAMTABLE_NOT_FOUND` the condition of an error. Every statement of a block marked `sql error` must fail. A block `result` holds
the rows of the last statement of the block before it, as a table under the names of its columns.

In a table with a column `streamtable` each statement of that column runs; where it says `the same`, that of the column before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.oracle.scenario import planned_once

DOCS = Path(__file__).parents[2] / "docs"
LONG = {"tutorials/changes": 45}
"""Pages that repeat a few kinds of statements, and how many the pipeline runs of each; `./run fuzz -k test_page` runs all."""
PAGES = {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
BLOCK = re.compile(
    r"^```sql(?P<error> error)?\n(?P<text>.*?)^```$(?:\s*^```result\n(?P<result>.*?)^```$)?", re.MULTILINE | re.DOTALL
)
TABLE = re.compile(r"^\|[^|\n]*\| streamtable, as it runs \|[^\n]*\n\|[-|]*\n(?P<rows>(?:\|[^\n]*\n)+)", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
STATEMENT = re.compile(r"(?P<sql>\S.*?);[ \t]*(?:--[ \t]*(?P<claim>\S+)[^\n]*)?$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One statement of a page: the line where it starts, what is claimed of it, whether it must fail, and its rows under their names."""

    line: int
    sql: str
    claim: str | None
    fails: bool
    result: list[list[str]] | None = None


def examples(page: str) -> list[Example]:
    """Return the statements of a page; text after the last `;` of a block is no statement and not allowed."""
    found = []
    for block in BLOCK.finditer(page):
        text, end = block["text"], 0
        for statement in STATEMENT.finditer(text):
            line = page.count("\n", 0, block.start("text") + statement.start()) + 1
            found.append(Example(line, statement["sql"], statement["claim"], bool(block["error"])))
            end = statement.end()
        assert not text[end:].strip(), f"a statement without a semicolon: {text[end:].strip()}"
        if block["result"]:
            rows = [[cell.strip() for cell in line.split("|")] for line in block["result"].splitlines()]
            found[-1] = replace(found[-1], result=rows)
    return sorted((*found, *equivalents(page)), key=lambda example: example.line)


def equivalents(page: str) -> Iterator[Example]:
    """Yield the statements of tables of equivalents."""
    for table in TABLE.finditer(page):
        first = page.count("\n", 0, table.start("rows")) + 1
        for line, row in enumerate(table["rows"].splitlines(), first):
            theirs, ours = row.split("|")[1:3]
            statements = CODE.findall(theirs if ours.strip() == "the same" else ours)
            assert statements, f"line {line} has nothing to run"
            yield from (Example(line, statement, None, fails=False) for statement in statements)


@contextmanager
def database(spark: SparkSession) -> Iterator[None]:
    """Give the page a database of its own."""
    with planned_once(spark):
        spark.sql("CREATE DATABASE docs_page")
        spark.sql("USE docs_page")
        try:
            yield
        finally:
            spark.sql("USE default")
            spark.sql("DROP DATABASE docs_page CASCADE")


IN_TURN = [pytest.param(page, LONG.get(page), id=page) for page in PAGES]
IN_FULL = [pytest.param(page, None, id=f"{page} to its end", marks=pytest.mark.fuzz) for page in LONG]


@pytest.mark.parametrize(("page", "most"), IN_TURN + IN_FULL)
def test_page(spark: SparkSession, page: str, most: int | None) -> None:
    told = examples(PAGES[page].read_text(encoding="utf-8"))[:most]
    with database(spark) if told else nullcontext():
        of_page(spark, page, told)


def of_page(spark: SparkSession, page: str, told: list[Example]) -> None:
    for example in told:
        run(spark, example, f"{page}.md:{example.line}")


def run(spark: SparkSession, example: Example, place: str) -> None:
    """Run one statement and hold it to what the page says."""
    if example.fails:
        with pytest.raises(PySparkException) as raised:
            spark.sql(example.sql).collect()
        if example.claim:
            assert raised.value.getCondition() == example.claim, f"{place}: {raised.value}"
        return
    try:
        frame = spark.sql(example.sql)
        rows = frame.collect()
    except PySparkException as error:
        pytest.fail(f"{place}: {example.sql}\n{error}")
    if example.claim:
        assert rows[0]["action"] == example.claim, f"{place}: {rows[0]}"
    if example.result:
        assert [frame.columns, *([told(cell) for cell in row] for row in rows)] == example.result, place
    if example.sql.upper().startswith("VERIFY"):
        assert {row["ok"] for row in rows} == {True}, f"{place}: {rows}"


def told(cell: object) -> str:
    """Return a value as a page shows it."""
    return "NULL" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)


def test_pages_are_read() -> None:
    sql = "```sql\nSELECT ';'\n  AS a;\nREFRESH STREAM TABLE t; -- FULL since told\n```\n"
    text = f"Text.\n{sql}\n```result\naction\nFULL\n```\n```sql error\nSELECT;\n```\n```text\nnot; run\n```\n"
    assert examples(text) == [
        Example(3, "SELECT ';'\n  AS a", None, fails=False),
        Example(5, "REFRESH STREAM TABLE t", "FULL", fails=False, result=[["action"], ["FULL"]]),
        Example(13, "SELECT", None, fails=True),
    ]


def test_tables_of_equivalents_are_read() -> None:
    text = "| theirs | streamtable, as it runs | |\n|---|---|---|\n| `SELECT 1` | the same | `a` |\n| x | `SELECT 2` | |\n\n| a | b |\n|---|---|\n| `c` | `d` |\n"
    assert [(example.line, example.sql) for example in examples(text)] == [(3, "SELECT 1"), (4, "SELECT 2")]


def test_a_claim_that_is_wrong_is_found(spark: SparkSession) -> None:
    with pytest.raises(AssertionError, match="page:1"):
        run(spark, Example(1, "SELECT 'FULL' AS action", "DIFFERENTIAL", fails=False), "page:1")
    with pytest.raises(AssertionError, match="page:1"):
        run(spark, Example(1, "SELECT NULL AS a, true AS b", None, fails=False, result=[["a", "b"], ["NULL", "false"]]), "page:1")
    with pytest.raises(AssertionError, match="page:2"):
        run(spark, Example(2, "DROP STREAM TABLE unknown", "STREAMTABLE_DIRECT_WRITE", fails=True), "page:2")


def test_there_are_examples() -> None:
    told = {page for page, path in PAGES.items() if examples(path.read_text(encoding="utf-8"))}
    assert told >= {"tutorials/departments", "reference/statements", "reference/schedules"}
