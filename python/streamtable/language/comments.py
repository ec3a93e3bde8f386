"""Parts of a statement that the grammar does not read: comments are blanked out, queries in parentheses are masked.

The lexical rules are those of Spark's SqlBaseLexer: `--` to the end of the line (a backslash continues it on the next),
`/* */` with nesting, and `/*+` is a hint and no comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamtable.language.syntax_errors import syntax_error

# What may hold the marks of a comment, a semicolon or the word AS without meaning them comes first.
_PIECES = re.compile(
    r"""
    (?P<line>--(?:\\\n|[^\r\n])*)
  | (?P<block>/\*(?!\+))
  | (?P<quoted>\br'[^']*' | \br"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`)
  | (?P<as>\bAS\b)
  | (?P<word>\w+)
  | (?P<semicolon>;)
  | (?P<space>\s+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_BLOCK_MARKS = re.compile(r"/\*(?!\+)|\*/")
_QUOTES = "'\"`"
_COMMENTS = ("line", "block")
_CANDIDATE = re.compile(r"--|/\*|\b(SUBSCRIBE|PUBLICATION|QUEUE|EVENTS|LETTERS|EXPECT|FROZEN)\b", re.IGNORECASE)
_SUBSCRIBES = (["SUBSCRIBE"], ["DECLARE"], ["COPY"], ["CREATE", "QUEUE"])
"""The opening words of statements whose AS belongs to AS OF."""
_CONDITIONS = (["CREATE", "PUBLICATION"], ["ALTER", "PUBLICATION"], ["RETRY", "EVENTS"], ["GIVE", "UP"], ["REPLAY", "DEAD"])
"""The opening words of statements whose WHERE has a condition in parentheses."""

MASK = "\0"
"""Stands for each character of a query in parentheses."""


def blanked(text: str) -> str:
    """Return `text` with the parts that the grammar does not read replaced by as many characters, so that all offsets stay.

    Comments before the AS of a query become spaces. A query in parentheses after SUBSCRIBE, a condition after WHERE or EXPECT, and
    Spark's parts of CREATE QUEUE become `MASK`s.
    Raises StatementSyntaxError for a comment that is never closed.
    """
    if not _CANDIDATE.search(text):
        return text
    kept, words, said, position, unclosed = list[str](), list[str](), set[str](), 0, set[str]()
    while position < len(text):
        kind, start, position = next(pieces(text, position, unclosed=unclosed))
        piece = text[start:position]
        subscribes = words[:1] in _SUBSCRIBES or words[:2] in _SUBSCRIBES
        conditions = words[:2] in _CONDITIONS
        if kind == "as" and not subscribes and not conditions:
            return "".join(kept) + text[start:]
        if kind in _COMMENTS:
            kept.append(_blanks(piece))
            continue
        kept.append(piece)
        masks = subscribes and (words[-1] == "SUBSCRIBE" or words[-2:] == ["SUBSCRIBE", "TO"])
        where = words[-1:] == ["WHERE"] and (conditions or words[-2:-1] == ["FROZEN"])
        if piece == "(" and (masks or where or _captures(words, said) or _expects(words)):
            position = _closing(text, position, unclosed)
            kept.append(MASK * (position - start - 1))
        if kind != "space":
            words.append(piece.upper())
            said.add(piece.upper())
    return "".join(kept)


def _captures(words: list[str], said: set[str]) -> bool:
    """Tell whether a part of CREATE QUEUE is for Spark: a condition, expressions, or the columns of the queue."""
    if words[:2] != ["CREATE", "QUEUE"]:
        return False
    return words[-1] in ("WHEN", "COLUMNS") or not {"FOR", "ON", "("} & said


def _expects(words: list[str]) -> bool:
    """Tell whether the condition of an expectation follows; a table may have the name `constraint.expect`."""
    return len(words) > 3 and words[-3] == "CONSTRAINT" and words[-1] == "EXPECT" and words[-2] != "."


def end_of_query(text: str, start: int) -> int:
    """Return the end of the query that starts at `start`: before the semicolons, comments and spaces after it.

    A comment without a semicolon before it belongs to the query. Returns `start` if there are only comments.
    """
    if ";" not in text[start:] and not text.startswith(("--", "/*"), start):
        return max(start, len(text.rstrip()))
    end = after = start
    semicolon = False
    for kind, _, stop in pieces(text, start, strict=False):
        match kind:
            case "semicolon":
                semicolon = True
            case "line" | "block" if not semicolon:
                after = stop
            case "line" | "block" | "space":
                pass
            case _:
                end = after = stop
                semicolon = False
    return after if end > start else start


def pieces(text: str, start: int = 0, *, strict: bool = True, unclosed: set[str] | None = None) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of the pieces of `text`; an open block comment is an error only if `strict`.

    `unclosed` are the quotes that nothing after `start` closes. Where one opens what is never closed, all further ones of its
    kind are escaped, and close nothing either: they are not tried again.
    """
    position, unclosed = start, set[str]() if unclosed is None else unclosed
    while position < len(text):
        quote = text[position]
        if quote in unclosed:
            kind, end = "other", position + 1
        else:
            piece = _PIECES.match(text, position)
            assert piece, "any character is a piece"
            kind, end = str(piece.lastgroup), piece.end()
            if kind == "other" and quote in _QUOTES:
                unclosed.add(quote)
        end = _end_of_block(text, position, strict) if kind == "block" else end
        yield kind, position, end
        position = end


def without_comments(text: str) -> str:
    """Return a text with a space in the place of each comment."""
    return "".join(" " if kind in ("line", "block") else text[at:end] for kind, at, end in pieces(text, strict=False))


def divided(text: str) -> tuple[str, str]:
    """Return what stands before the AS of the query, without comments, and the query."""
    kept, depth = list[str](), 0
    for kind, start, end in pieces(text, strict=False):
        depth += {"(": 1, ")": -1}.get(text[start:end], 0)
        if kind == "as" and depth == 0:
            return "".join(kept), text[end:].strip()
        kept.append(" " if kind in ("line", "block") else text[start:end])
    return "".join(kept).rstrip("; \n"), ""


def _end_of_block(text: str, start: int, strict: bool) -> int:
    depth = 0
    for mark in _BLOCK_MARKS.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    if strict:
        raise syntax_error(text, start, start + 2, "this comment is never closed", "close it with */; comments nest")
    return len(text)


def _closing(text: str, start: int, unclosed: set[str]) -> int:
    """Return the position of the parenthesis that closes the one before `start`, or the end of the text."""
    depth = 1
    for _, at, stop in pieces(text, start, strict=False, unclosed=unclosed):
        depth += {"(": 1, ")": -1}.get(text[at:stop], 0)
        if depth == 0:
            return at
    return len(text)


def _blanks(comment: str) -> str:
    return "".join(character if character == "\n" else " " for character in comment)
