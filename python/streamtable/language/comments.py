"""What of a statement is not ours to read: comments, blanked out, and queries in parentheses, masked; where a query ends.

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
_COMMENTS = ("line", "block")
_CANDIDATE = re.compile(r"--|/\*|\b(SUBSCRIBE|PUBLICATION|QUEUE|EVENTS|LETTERS)\b", re.IGNORECASE)
_SUBSCRIBES = (["SUBSCRIBE"], ["DECLARE"], ["COPY"], ["CREATE", "QUEUE"])
"""How statements open in which AS is that of AS OF."""
_CONDITIONS = (["CREATE", "PUBLICATION"], ["ALTER", "PUBLICATION"], ["RETRY", "EVENTS"], ["GIVE", "UP"], ["REPLAY", "DEAD"])
"""How those open in which WHERE has a condition in parentheses behind it."""

MASK = "\0"
"""What stands for each character of a query in parentheses."""


def blanked(text: str) -> str:
    """Return `text` with what the grammar does not read replaced by as many other characters, so that all offsets stay.

    Every comment before the AS of a query becomes spaces; the query in parentheses behind SUBSCRIBE, the condition behind WHERE
    and what Spark reads of CREATE QUEUE become `MASK`s.
    Raises StatementSyntaxError for a comment that is never closed.
    """
    if not _CANDIDATE.search(text):
        return text
    kept, words, position = list[str](), list[str](), 0
    while position < len(text):
        kind, start, position = next(pieces(text, position))
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
        if piece == "(" and (masks or (conditions and words[-1] == "WHERE") or _captures(words)):
            position = _closing(text, position)
            kept.append(MASK * (position - start - 1))
        if kind != "space":
            words.append(piece.upper())
    return "".join(kept)


def _captures(words: list[str]) -> bool:
    """Tell whether what stands behind CREATE QUEUE is Spark's to read: a condition, expressions, the columns of the queue."""
    if words[:2] != ["CREATE", "QUEUE"]:
        return False
    return words[-1] in ("WHEN", "COLUMNS") or not {"FOR", "ON", "("} & set(words)


def end_of_query(text: str, start: int) -> int:
    """Return where the query that opens at `start` ends: before the semicolons, comments and spaces behind it.

    A comment with no semicolon in front of it belongs to the query. Returns `start` when there is nothing but comments.
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


def pieces(text: str, start: int = 0, *, strict: bool = True) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of the pieces of `text`; an open block comment is an error only if `strict`."""
    position = start
    while piece := _PIECES.match(text, position):
        kind = str(piece.lastgroup)
        end = _end_of_block(text, position, strict) if kind == "block" else piece.end()
        yield kind, position, end
        position = end


def _end_of_block(text: str, start: int, strict: bool) -> int:
    depth = 0
    for mark in _BLOCK_MARKS.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    if strict:
        raise syntax_error(text, start, start + 2, "this comment is never closed", "close it with */; comments nest")
    return len(text)


def _closing(text: str, start: int) -> int:
    """Return where the parenthesis stands that closes the one in front of `start`, or the end of the text."""
    depth = 1
    for _, at, stop in pieces(text, start, strict=False):
        depth += {"(": 1, ")": -1}.get(text[at:stop], 0)
        if depth == 0:
            return at
    return len(text)


def _blanks(comment: str) -> str:
    return "".join(character if character == "\n" else " " for character in comment)
