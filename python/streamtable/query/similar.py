"""SIMILAR TO: a pattern of standard SQL as a regular expression of Java, without any backslash.

The settings of a session decide what a backslash in a string means to Spark. So a pattern that needs one has no translation.
"""

from __future__ import annotations

import re

from sqlglot import TokenType

from streamtable.query.tokens import Text
from streamtable.sql.literals import quote_string

__all__ = ["as_regular_expression", "similar_to"]

_IN_BRACKETS = r"[^\[\]\\^&|~-]"
_TOKEN = re.compile(
    r"(?P<quantifier>[*+?]|\{\d{1,9}(?:,\d{0,9})?\})"
    r"|(?P<opening>[|(])"
    rf"|(?P<other>\)|\[\^?(?:{_IN_BRACKETS}(?:-{_IN_BRACKETS})?)+\]|[^|()*+?{{}}\[\]^\\])",
    re.DOTALL,
)
_MEANING = {"%": ".*", "_": ".", ".": "[.]", "$": "[$]"}
_IN_NO_BRACKETS = "[]^\\"

_PLAIN = re.compile(r"'[^'\\\r\0]*'")
_MAY_FOLLOW = (TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.COMMA, TokenType.PIPE_GT)


def similar_to(text: Text) -> str | None:
    """Rewrite `x SIMILAR TO 'pattern' [ESCAPE 'c']` to RLIKE, which binds as strongly, where the pattern is a plain literal."""
    for at in range(1, len(text.tokens)):
        if not text.is_(at, TokenType.SIMILAR_TO):
            continue
        escaped = text.is_(at + 2, TokenType.ESCAPE)
        last = at + 3 if escaped else at + 1
        pattern, escape = _literal(text, at + 1), _literal(text, last) if escaped else ""
        if pattern is None or escape is None or len(escape) > 1 or not _ends_operand(text, last + 1):
            continue
        if (regular := as_regular_expression(pattern, escape)) is not None:
            return text.replaced(at, last, f"RLIKE {quote_string(regular)}")
    return None


def _literal(text: Text, at: int) -> str | None:
    """Return a string that means the same under all settings of Spark's parser: in single quotes, without a backslash."""
    written = text.between(at, at) if text.is_(at, TokenType.STRING) else ""
    return written[1:-1] if _PLAIN.fullmatch(written) else None


def _ends_operand(text: Text, at: int) -> bool:
    """Tell whether no operator continues the operand: the text ends, or another word, a comma or a parenthesis stands there."""
    word = text.word(at)
    named = word[:1].isalpha() and word not in ("COLLATE", "DIV", "MOD")
    return at >= len(text.tokens) or named or text.is_(at, *_MAY_FOLLOW)


def as_regular_expression(pattern: str, escape: str = "") -> str | None:
    """Return the text for RLIKE that means the pattern, or None for a pattern without a sure translation."""
    parts: list[str] = []
    at, repeatable = 0, False
    while at < len(pattern):
        if escape and pattern[at] == escape:
            literal = pattern[at + 1 : at + 2]
            if not literal or literal in _IN_NO_BRACKETS:
                return None
            parts.append(f"[{literal}]")
            at, repeatable = at + 2, True
            continue
        found = _TOKEN.match(pattern, at)
        if found is None or (found["quantifier"] and not repeatable) or (escape and escape in found.group()):
            return None
        parts.append(_MEANING.get(found.group(), found.group()))
        at, repeatable = found.end(), found["other"] is not None
    # A dot is any character, a newline too. Nothing may follow: `$` would let a newline follow.
    regular = f"(?s)^(?:{''.join(parts)})(?!.)"
    return regular if _is_regular(regular) else None


def _is_regular(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError):
        return False
    return True
