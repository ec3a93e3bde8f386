"""Texts that the grammar allows: the alternatives are drawn from it, the words from what a test chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark

from streamtable.language.parse import grammar

__all__ = ["statements_of"]

LANGUAGE = Lark(grammar(), start="statement")


def statements_of(choices: Mapping[str, Sequence[str]]) -> st.SearchStrategy[str]:
    """Draw statements; a terminal is one of its choices, a keyword without any is itself, in some case."""

    def words(terminal: str, pattern: str) -> st.SearchStrategy[str]:
        keyword = pattern.endswith(r"\b")
        options = choices.get(terminal) or ([pattern[:-2], pattern[:-2].lower()] if keyword else [re.sub(r"\\s.*", "", pattern)])
        return st.sampled_from([f" {option} " for option in options])

    spelt = {each.name: words(each.name, each.pattern.value) for each in LANGUAGE.terminals}
    return from_lark(LANGUAGE, start="statement", explicit=spelt)
