"""Comparisons with the elements of an array: `x > ALL (array)`, `x = ANY (ARRAY[1, 2])`."""

from __future__ import annotations

from sqlglot import TokenType

from streamtable.query.tokens import NEGATED, Text

__all__ = ["compared_elements"]


def compared_elements(text: Text) -> str | None:
    """Rewrite `x > ALL (array)` to forall(array, e -> x > e), and ANY or SOME of an array that is written out to exists().

    ANY of any other value may be Spark's aggregate of that name. NULL counts as in the standard, because both functions know it.
    """
    for at in reversed(range(1, len(text.tokens) - 2)):
        quantifier, operator = text.word(at), text.word(at - 1)
        if quantifier not in ("ALL", "ANY", "SOME") or operator not in NEGATED or not text.is_(at + 1, TokenType.L_PAREN):
            continue
        closed = text.closing(at + 1)
        array = _array(text, at + 2, closed - 1, every=quantifier == "ALL") if closed else None
        if closed and array:
            first, element = text.operand_before(at - 1), _unused(text, "__element")
            compared = f"{element} -> ({text.between(first, at - 2)}) {operator} {element}"
            return text.replaced(first, closed, f"{'forall' if quantifier == 'ALL' else 'exists'}({array}, {compared})")
    return None


def _array(text: Text, first: int, last: int, *, every: bool) -> str | None:
    """Return the array between two tokens in Spark's words. ARRAY[1] stays: it may be an element of a column called array."""
    written_out = text.word(first) == "ARRAY" and text.closing(first + 1) == last
    if written_out and text.is_(first + 1, TokenType.L_PAREN):
        return text.between(first, last)
    if written_out and text.is_(first + 1, TokenType.L_BRACKET):
        several = _has_comma(text, first + 2, last - 1)
        return f"array({text.between(first + 2, last - 1)})" if several else None
    one = first <= last and not _has_comma(text, first, last)
    opens_other = text.opens_query(first) or text.is_(first, TokenType.L_PAREN, TokenType.STAR)
    return text.between(first, last) if every and one and not opens_other else None


def _has_comma(text: Text, first: int, last: int) -> bool:
    """Tell whether a comma stands between two tokens, outside of parentheses and brackets."""
    depth = 0
    for at in range(first, last + 1):
        depth += text.is_(at, TokenType.L_PAREN, TokenType.L_BRACKET) - text.is_(at, TokenType.R_PAREN, TokenType.R_BRACKET)
        if depth == 0 and text.is_(at, TokenType.COMMA):
            return True
    return False


def _unused(text: Text, name: str) -> str:
    """Return a lower-case name that the text does not have in any case: within a lambda, its parameter hides a column."""
    while name in text.sql.casefold():
        name = f"_{name}"
    return name
