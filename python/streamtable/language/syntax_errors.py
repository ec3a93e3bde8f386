"""Errors of a statement that does not parse: the underlined place, the text found there, and the expected words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from lark import Token, UnexpectedInput
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from streamtable.errors import InvalidStatement, StatementSyntaxError
from streamtable.language.stream_table.schedule import spelt

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
    "SIGN": "'+'",
    "_LPAR": "'('",
    "_RPAR": "')'",
    "_COMMA": "','",
    "_EQUAL": "'='",
    "$END": "the end of the statement",
}
_NOT_LISTED = {"BACKQUOTED", "_DOT", "_SEMICOLON"}  # said by "a name" and by "the end of the statement"
_UNCLOSED = {"'": "this string is never closed", '"': "this string is never closed", "`": "this name is never closed"}
_BACKQUOTES = "put a name with other characters than ASCII letters, digits and _ in backquotes: `like this`"

_SPANS = (
    r"(?:EVERY\b)?\s*(?:INTERVAL\b)?\s*(?:'?\d*(?:\.\d+)?'?\s*(?:WEEK|DAY|HOUR|HR|MINUTE|MIN|SECOND|SEC|[wdhms](?=\b|\d))S?'?\s*)+"
)
_LAG = rf"(?:TARGET_LAG|LAG|INTERVAL|EVERY)\b\s*=?\s*({_SPANS})"


def _as_string(spans: re.Match[str]) -> str:
    """Spell a time in words as SCHEDULE takes it."""
    meant = spelt(spans[spans.re.groups]) or "1m"
    return f"write the time between two refreshes as a string: SCHEDULE '{meant}'"


# Common mistakes: the terminals that are all expected there, the text found there, and the advice.
_ADVICE: tuple[tuple[str, str, str | Callable[[re.Match[str]], str]], ...] = (
    ("_AS", r"SELECT|VALUES|FROM|\(\s*SELECT", "write AS in front of the query"),
    ("_NO", r"DATA", "leave WITH DATA out: a stream table is filled unless WITH NO DATA is written"),
    ("_NO", r"\w+\s*(?:AS\b|\()", "write AS in front of the query"),
    ("_AS", r"USING", "leave USING out: a stream table is always a Delta table"),
    ("_MODE", r"AUTO|DIFFERENTIAL|FULL", "write REFRESH MODE and then the mode"),
    ("_MODE", rf"EVERY\s+(?!'){_SPANS}", _as_string),
    ("_SCHEDULE _AS", _LAG, _as_string),
    ("_CRON", rf"=\s*{_SPANS}", _as_string),
    ("_DEPENDENCIES", r"", "SHOW STREAM TABLES lists all of them, DESCRIBE STREAM TABLE name tells of one"),
    ("_RESUME", r"PAUSE|STOP|DISABLE", "write SUSPEND"),
    ("_RESUME", r"START|ENABLE|UNPAUSE", "write RESUME"),
    ("_RESUME", r"REFRESH\s+MODE|SCHEDULE|TBLPROPERTIES", lambda found: f"write SET {' '.join(found[0].upper().split())}"),
    ("_RESUME", r"REFRESH\b", "write REFRESH STREAM TABLE name"),
    ("_MODE", r"EVERY|AT|ON", "write the time of refreshes after SCHEDULE, for example SCHEDULE '1m'"),
    ("_DIFFERENTIAL", r"INCREMENTAL|IMMEDIATE", "the mode that computes what changed is called DIFFERENTIAL"),
    ("_CRON", r"EVERY\s+('(?:\d+[wdhms])+')", lambda found: f"write SCHEDULE {found[1]}, without EVERY"),
    ("_CRON", _SPANS, _as_string),
    ("_CRON", r"HOURLY|DAILY|WEEKLY", lambda found: f"write SCHEDULE CRON '@{found[0].lower()}'"),
    ("_CRON", r"NONE|NULL|NEVER|OFF|DISABLED?|ON\s+DEMAND", "write SCHEDULE MANUAL"),
    ("_CRON", r"\d", "write the time between two refreshes as a string: SCHEDULE '1m'"),
    ("_CRON", r"EVERY", "write SCHEDULE '1m', without EVERY"),
    ("_RESUME", r"(?:DROP|UNSET|REMOVE)\s+SCHEDULE", "write SET SCHEDULE MANUAL"),
    ("_CRON", r"@|\*", "write SCHEDULE CRON '*/5 * * * *'"),
    ("_COMMENT _RPAR", r"(?<=\(SELECT\s).", "write AS in front of the query"),
    ("_COMMENT _RPAR", r"\w+", "leave the type out: a column gets the type that the query gives it"),
    ("NAME", r"AS\b", "put it in backquotes if it is a name; AS is the only word that needs them"),
    ("NAME", r"['\"]", "quotes make a string; put a name in backquotes"),
    ("NAME", r"\w*[^\W_a-zA-Z0-9]", _BACKQUOTES),
    ("NAME", r"\d", _BACKQUOTES),
    ("_DOT", r"[-$#@:]", _BACKQUOTES),
    ("STRING", r"[\w/]", "put it in quotes"),
    ("", r"/\*\+", "hints belong into the query, behind AS"),
)


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
    expected = list(_phrases(parser, accepts))
    message = f"expected {_listed(expected)}, found {_shown(word)}"
    return syntax_error(text, start, start + len(word), message, _advice(text, start, word, accepts, expected))


def _message(text: str, start: int, end: int, message: str) -> str:
    line, column = place(text, start)
    shown = f"\n{excerpt(text, start, end)}" if text.strip() else ""
    return f"line {line}, column {column}: {message}{shown}"


def _phrases(parser: InteractiveParser, accepts: set[str]) -> Iterator[str]:
    """Yield the expected words at the parser's position: each keyword with the keywords that must follow it."""
    # Every keyword may be a name; it is listed as a keyword only where it opens something that a name does not.
    after_name = _accepts(_after(parser, "NAME")) if "NAME" in accepts else set[str]()
    for keyword in sorted(accepts - _TERMINALS.keys() - _NOT_LISTED):
        phrase, reached = [keyword], _after(parser, keyword)
        following = _accepts(reached) - after_name
        if following:
            while len(following) == 1 and (following_keyword := min(following)) not in _TERMINALS:
                phrase.append(following_keyword)
                reached = _after(reached, following_keyword)
                following = _accepts(reached)
            yield " ".join(word.removeprefix("_") for word in phrase)
    yield from (people for terminal, people in _TERMINALS.items() if terminal in accepts)


def _after(parser: InteractiveParser, terminal: str) -> InteractiveParser:
    copy: InteractiveParser = parser.copy()  # type: ignore[no-untyped-call]
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


def _advice(text: str, start: int, word: str, accepts: set[str], expected: list[str]) -> str | None:
    keywords = {phrase.split()[0]: phrase for phrase in expected if phrase.isupper()}
    near = get_close_matches(word.upper(), keywords, n=1, cutoff=0.7)
    if word and near:
        return f"did you mean {keywords[near[0]]}?"
    # Where a name may stand, every keyword may, so that expecting one says nothing.
    telling = accepts & (_TERMINALS.keys() | _NOT_LISTED) if "NAME" in accepts else accepts
    for terminals, pattern, advice in _ADVICE:
        if telling.issuperset(terminals.split()) and (matched := re.compile(pattern, re.IGNORECASE).match(text, start)):
            return advice if isinstance(advice, str) else advice(matched)
    return None
