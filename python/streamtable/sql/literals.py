"""Names and strings as they are written in SQL, by the rules of Spark's parser."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ESCAPE = re.compile(
    r"\\u(?P<short>[0-9a-fA-F]{4})|\\U(?P<long>[0-9a-fA-F]{8})|\\(?P<octal>[01][0-7]{2})|\\(?P<single>.)|(?P<pair>''|\"\")",
    re.DOTALL,
)
# \% and \_ keep their backslash: they mean something in patterns of LIKE.
_SINGLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_REPLACEMENT = "\ufffd"
_LAST_CODE_POINT = 0x10FFFF


def quote_name(name: str) -> str:
    """Return an identifier in backquotes."""
    return f"`{name.replace('`', '``')}`"


def quote_full_name(name: str) -> str:
    """Return a dotted name, whose parts hold no dots, as it is written in SQL."""
    return ".".join(map(quote_name, name.split(".")))


def unquote_name(token: str) -> str:
    """Return the identifier that a token means, with or without backquotes."""
    return token[1:-1].replace("``", "`") if token.startswith("`") else token


def quote_string(value: str) -> str:
    """Return a string literal in single quotes. Characters that a text file or its reader could change are escaped."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\r").replace("\0", "\\u0000")
    return f"'{escaped}'"


def unquote_string(token: str) -> str:
    """Return what a string literal in single or double quotes means; a doubled quote or a backslash escapes one."""
    quote, body = token[0], token[1:-1]
    if "\\" not in body and quote not in body:
        return body
    value = _ESCAPE.sub(lambda found: _meaning(found, quote), body)
    # \uD83D\uDE00 are the two halves of one character; a half alone is not a character.
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _meaning(found: re.Match[str], quote: str) -> str:
    text = found.group()
    match found.lastgroup:
        case "short" | "long":
            code = int(found["short"] or found["long"], 16)
            return chr(code) if code <= _LAST_CODE_POINT else _REPLACEMENT
        case "octal":
            return chr(int(text[1:], 8))
        case "single":
            return _SINGLE.get(text[1], text[1])
        case _:
            return quote if text[0] == quote else text


def closed(text: str) -> str:
    """Return a text for Spark that more text may follow: a newline ends a comment at its end; after a backslash it takes two."""
    if "--" not in text:
        return text
    return f"{text}\n\n" if text.endswith("\\") else f"{text}\n"


def enclosed(text: str) -> str:
    """Put a text for Spark into parentheses."""
    return f"({closed(text)})"


def listed(items: Iterable[str]) -> str:
    """Return items in parentheses."""
    return f"({', '.join(items)})"


def words(*parts: object) -> str:
    """Join words; those that are empty, False or None are left out."""
    return " ".join(str(part) for part in parts if part)
