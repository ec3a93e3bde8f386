"""Statements drawn from the grammar itself, whole and with a slip: each is one that prints as itself, or a clear refusal."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.grammar import statements_of

from streamtable.errors import InvalidStatement, NotSupported, StatementSyntaxError
from streamtable.language.parse import parse
from streamtable.language.write import to_sql

NAMES = ("a", "t1", "_x", "1st", "queue", "Stream", "`b c`", "`d``e`")
LITERALS = ("'5m'", "'*/5 * * * *'", "'database=pub'", "'it''s'", '"two"', "''", "'Europe/Berlin'", "'1s'")
WORDS = {
    "NAME": NAMES,
    "BACKQUOTED": NAMES[-2:],
    "STRING": LITERALS,
    "INTEGER": ("0", "1", "20"),
    "WHOLE": ("0", "7", "3L"),
    "NUMBER": ("1", "-2.5", "+3"),
    "SIGN": ("+", "-"),
    "QUERY": ("SELECT 1 AS a", "VALUES (1); ;", "FROM t |> WHERE a > 1"),
    "MASKED": ("(SELECT 1 AS a)", "(a > 1)"),
}
STATEMENTS = statements_of(WORDS)


def is_sound(text: str) -> None:
    """Fail when the text is neither a statement that prints as itself nor refused with a reason."""
    try:
        statement = parse(text)
    except (InvalidStatement, NotSupported, StatementSyntaxError):
        return
    assert parse(to_sql(statement)) == statement, text


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STATEMENTS)
def test_a_statement_of_the_grammar_prints_as_itself_or_is_refused(text: str) -> None:
    is_sound(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(STATEMENTS, st.data())
def test_a_statement_with_a_slip_is_refused_or_another_one(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 12))
    is_sound(
        text[:place]
        + data.draw(st.sampled_from(("", " ", "'", "`", "(", ")", "\x00", "é", " AS ", "/*", "--")))
        + text[place + length :]
    )
