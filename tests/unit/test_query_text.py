"""The query after AS: kept as it was written, with its place; comments around it."""

from __future__ import annotations

import pytest

from streamtable.language.names import Name, Query
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable, RefreshStreamTable


@pytest.mark.parametrize(
    ("after_as", "query"),
    [
        (" SELECT 1", "SELECT 1"),
        ("\n\n  SELECT\n\t1 \n", "SELECT\n\t1"),
        ("(SELECT 1)", "(SELECT 1)"),
        ("`x`", "`x`"),
        (" SELECT 1;", "SELECT 1"),
        (" SELECT 1 ; ;; \n", "SELECT 1"),
        (" SELECT 1; -- done;\n/* ; /* ; */ */", "SELECT 1"),
        (" SELECT 1 -- done", "SELECT 1 -- done"),
        (" SELECT 1 -- done;", "SELECT 1 -- done;"),
        (" SELECT 1 -- done\n;", "SELECT 1 -- done"),
        (" SELECT 1 /* a; /* b; */ c; */ ;", "SELECT 1 /* a; /* b; */ c; */"),
        (" -- why\n SELECT 1", "-- why\n SELECT 1"),
        (" /* why */ SELECT 1;", "/* why */ SELECT 1"),
        (" SELECT /*+ BROADCAST(';') */ 1;", "SELECT /*+ BROADCAST(';') */ 1"),
        (" SELECT ';'", "SELECT ';'"),
        (" SELECT 1 AS `;`;", "SELECT 1 AS `;`"),
        (' SELECT ";--";', 'SELECT ";--"'),
        (r" SELECT r'\';", r"SELECT r'\'"),
        (r" SELECT r'\' /* ' */ ;", r"SELECT r'\' /* ' */"),
        (" SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
        (" SELECT 'never closed; ", "SELECT 'never closed"),
        (" SELECT 1 /* never closed; ", "SELECT 1 /* never closed; "),
        (" VALUES (1) AS t (as)", "VALUES (1) AS t (as)"),
        (" SELECT 1 -- a \\\n still; a comment\n;", "SELECT 1 -- a \\\n still; a comment"),
    ],
)
def test_the_query_stays_as_written(after_as: str, query: str) -> None:
    text = f"-- it's\nCREATE /* AS */ STREAM TABLE t -- AS\n  COMMENT ' AS ' AS{after_as}"
    statement = parse(text)
    assert isinstance(statement, CreateStreamTable)
    found = statement.query
    assert found.text == query
    assert text[found.offset :].startswith(query)
    assert text.splitlines()[found.line - 1][found.column - 1 :] == text[found.offset :].splitlines()[0]


def test_where_the_query_starts() -> None:
    statement = parse("CREATE STREAM TABLE t\n/* é\n*/ AS\n   SELECT 1")
    assert isinstance(statement, CreateStreamTable)
    assert (statement.query.offset, statement.query.line, statement.query.column) == (36, 4, 4)


def test_queries_are_equal_wherever_they_start() -> None:
    assert Query("SELECT 1", 5, 1, 6) == Query("SELECT 1")
    assert Query("SELECT 1") != Query("SELECT 2")


def test_comments_nest_and_hints_inside_do_not() -> None:
    assert parse("REFRESH /* a /* b */ c */ STREAM /* /*+ */ TABLE /**/ t --") == RefreshStreamTable((Name(("t",)),))
