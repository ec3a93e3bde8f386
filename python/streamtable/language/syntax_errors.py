"""Errors of a statement that does not parse: the underlined place, the text found there, and the expected words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from lark import Token, UnexpectedInput
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from streamtable.errors import InvalidStatement, StatementSyntaxError
from streamtable.language.advice import advice

_FOUND = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*\+|\w+|.""", re.DOTALL)
_SHOWN = 40  # characters of what was found
_WIDTH = 120  # of the excerpt: what stands further away on a long line is left out
_TERMINALS = {
    "NAME": "a name",
    "STRING": "a string",
    "INTEGER": "a whole number",
    "NUMBER": "a number",
    "QUERY": "a query",
    "MASKED": "a query",
    "WHOLE": "a time",
    "UNIT": "a unit of time",
    "SIGN": "'+'",
    "_LPAR": "'('",
    "_RPAR": "')'",
    "_COMMA": "','",
    "_EQUAL": "'='",
    "$END": "the end of the statement",
}
_NOT_LISTED = {"BACKQUOTED", "_DOT", "_SEMICOLON"}  # said by "a name" and by "the end of the statement"
_SYNONYMS = {"_MATERIALIZED", "_POLICY", "_INCREMENTAL"}  # understood, and not listed beside our own words
_UNCLOSED = {"'": "this string is never closed", '"': "this string is never closed", "`": "this name is never closed"}


def syntax_error(text: str, start: int, end: int, message: str, hint: str | None = None) -> StatementSyntaxError:
    """Return the error for the text between `start` and `end`."""
    return StatementSyntaxError(_message(text, start, end, message), hint=hint)


def invalid(text: str, start: int, end: int, message: str, hint: str | None = None) -> InvalidStatement:
    """Return the error for a text between `start` and `end` that parses, but asks for something impossible."""
    return InvalidStatement(_message(text, start, end, message), hint=hint)


def place(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of an offset; both count from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def excerpt(text: str, start: int, end: int) -> str:
    """Return the line around `start`, and under it a line with a `^` for every character up to `end`."""
    opens = text.rfind("\n", 0, start) + 1
    closes = text.find("\n", start)
    line_end = len(text) if closes < 0 else closes
    left = max(opens, start - _WIDTH // 2)
    right = min(line_end, left + _WIDTH)
    before, after = "..." * (left > opens), "..." * (right < line_end)
    gap = " " * len(before) + re.sub(r"[^\t]", " ", text[left:start])
    underline = "^" * max(1, min(end, right) - start)
    return f"  {before}{text[left:right].rstrip()}{after}\n  {gap}{underline}"


def explain(text: str, error: UnexpectedInput) -> StatementSyntaxError:
    """Return the error for people in place of lark's; `text` is the statement with its comments."""
    parser: InteractiveParser = error.interactive_parser  # set by lark's LALR parser
    token = error.token if isinstance(error, UnexpectedToken) else None
    at_end = token is not None and token.type == "$END"
    start = (token.end_pos if token is not None and at_end else error.pos_in_stream) or 0
    found = _FOUND.match(text, start)
    word = "" if at_end or found is None else found.group()
    if word in _UNCLOSED:
        hint = f"close it with {word}; inside, a doubled one stands for one"
        return syntax_error(text, start, len(text), _UNCLOSED[word], hint)
    accepts = _accepts(parser)
    phrases = dict(_phrases(parser, accepts))
    expected = [phrase for terminal, phrase in phrases.items() if terminal not in _SYNONYMS] or list(phrases.values())
    message = f"expected {_listed(expected)}, found {_shown(word)}"
    return syntax_error(text, start, start + len(word), message, _advice(text, start, word, accepts, phrases))


def _message(text: str, start: int, end: int, message: str) -> str:
    line, column = place(text, start)
    shown = f"\n{excerpt(text, start, end)}" if text.strip() else ""
    return f"line {line}, column {column}: {message}{shown}"


def _phrases(parser: InteractiveParser, accepts: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the expected words at the parser's position, and the phrase for people: each keyword with those that must follow it."""
    # Every keyword may be a name; it is listed as a keyword only where it opens something that a name does not.
    after_name = _accepts(_after(parser, "NAME")) if "NAME" in accepts else set[str]()
    for keyword in sorted(accepts - _TERMINALS.keys() - _NOT_LISTED):
        phrase, reached = [keyword], _after(parser, keyword)
        following = _following(reached) - after_name
        if following:
            while len(following) == 1 and (following_keyword := min(following)) not in _TERMINALS:
                phrase.append(following_keyword)
                reached = _after(reached, following_keyword)
                following = _following(reached)
            yield keyword, " ".join(word.removeprefix("_") for word in phrase)
    yield from ((terminal, people) for terminal, people in _TERMINALS.items() if terminal in accepts)


def _following(parser: InteractiveParser) -> set[str]:
    """Return what may follow, of words that mean the same the one that comes first: TABLE for TABLES, STREAM for MATERIALIZED."""
    accepts = _accepts(parser)
    plurals = {f"{word}S" for word in accepts if f"{word}S" in accepts and "NAME" in _accepts(_after(parser, word))}
    return (accepts - plurals - _SYNONYMS) or accepts


def _after(parser: InteractiveParser, terminal: str) -> InteractiveParser:
    copy: InteractiveParser = parser.copy(deepcopy_values=False)  # type: ignore[no-untyped-call]
    copy.feed_token(Token(terminal, ""))
    return copy


def _accepts(parser: InteractiveParser) -> set[str]:
    accepts: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return accepts


def _shown(word: str) -> str:
    """Return the found text for a message, shortened; the excerpt shows all of it."""
    if not word:
        return "the end of the statement"
    short = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..."
    return short if short[0] in "'\"`" else f"'{short}'"


def _listed(expected: list[str]) -> str:
    *others, last = expected
    return f"{', '.join(others)} or {last}" if others else last


def _advice(text: str, start: int, word: str, accepts: set[str], phrases: Mapping[str, str]) -> str | None:
    keywords = {phrase.split()[0]: phrase for phrase in phrases.values() if phrase.isupper()}
    near = get_close_matches(word.upper(), keywords, n=1, cutoff=0.7)
    if word and near:
        return f"did you mean {keywords[near[0]]}?"
    # Where a name may stand, every keyword may, so that expecting one says nothing.
    return advice(text, start, accepts & (_TERMINALS.keys() | _NOT_LISTED) if "NAME" in accepts else accepts)
