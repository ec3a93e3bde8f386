"""Scripts to statements: at semicolons, and at the cells of a SQL notebook as Databricks exports it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from streamtable.errors import InvalidStatement
from streamtable.language.comments import pieces

__all__ = ["Piece", "is_complete", "markers", "split"]

_CELL_END = re.compile(r"-- COMMAND -{10}\s*")
_CELL_ENDS = re.compile(r"^(-- COMMAND -{10}\s*?)$", re.MULTILINE)
_OTHER_LANGUAGE = re.compile(r"-- MAGIC +%(?!md\b|sql\b|$)(?P<language>\w+)")
_SQL_CELL = re.compile(r"(?:\s*--(?! MAGIC +\S)[^\n]*\n)*\s*(?P<magic>-- MAGIC +%sql\b)")
_MAGIC = re.compile(r"^-- MAGIC\b", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    """One statement of a script, and the line on which it begins, from 1."""

    sql: str
    line: int


def split(script: str) -> list[Piece]:
    """Return the statements of a script, without those that consist of comments alone.

    A statement that opens with BEGIN is a SQL script of Spark and lasts until its cell or the text ends. Raises InvalidStatement
    for a notebook's cell in another language, because the script without it would mean something else.
    """
    script = _without_magic(script)
    return [Piece(script[start:end], script.count("\n", 0, start) + 1) for start, end, _ in _spans(script)]


def is_complete(text: str) -> bool:
    """Tell whether the text ends with the semicolon of its last statement. Otherwise an interactive shell asks for more."""
    return all(ended for _, _, ended in _spans(_without_magic(text)))


def markers(sql: str) -> set[str]:
    """Return the names that follow a colon: those of the parameters (`:name`), and of what a path in a VARIANT reads (`v:name`)."""
    found, before = set[str](), ""
    for kind, start, end in pieces(sql, strict=False):
        text = sql[start:end]
        if kind in ("word", "as") and before == ":":
            found.add(text)
        if kind not in ("space", "line", "block"):
            before = "::" if text == before == ":" else text  # `::` casts
    return found


def _without_magic(script: str) -> str:
    """Return the script with spaces for the `-- MAGIC` of cells in SQL, which Spark would read as comments.

    There are as many of them, so that lines and columns in errors stay.
    """
    cells = _CELL_ENDS.split(script)
    return "".join(_as_sql(cell, found) if (found := _SQL_CELL.match(cell)) else cell for cell in cells)


def _as_sql(cell: str, opening: re.Match[str]) -> str:
    start, end = opening.span("magic")
    return cell[:start] + " " * (end - start) + _MAGIC.sub(lambda found: " " * len(found.group()), cell[end:])


def _spans(script: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of each statement, and whether something ended it; `script` is one of `_without_magic`."""
    start: int | None = None
    end, compound = 0, False
    for kind, opens, stop in pieces(script, strict=False):
        text = script[opens:stop]
        cell_end = kind == "line" and _CELL_END.fullmatch(text)
        if kind == "line":
            _refuse_other_languages(script, opens, text)
        if cell_end or (kind == "semicolon" and not compound):
            if start is not None:
                yield start, end, True
            start, compound = None, False
        elif kind not in ("line", "block", "space"):
            if start is None:
                start, compound = opens, text.upper() == "BEGIN"
            end = stop
    if start is not None:
        yield start, end, False


def _refuse_other_languages(script: str, at: int, comment: str) -> None:
    if found := _OTHER_LANGUAGE.match(comment):
        line = script.count("\n", 0, at) + 1
        raise InvalidStatement(
            f"line {line} begins a cell in {found['language']}, and only SQL is run here",
            hint="take the cell out of the file, or run the notebook where it was written",
        )
