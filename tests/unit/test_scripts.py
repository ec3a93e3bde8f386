"""Scripts are cut where Spark would cut them, and a notebook's cells as well."""

from __future__ import annotations

import pytest

from streamtable.errors import InvalidStatement
from streamtable.language.scripts import Piece, is_complete, markers, split


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1", ["SELECT 1"]),
        ("", []),
        ("-- nothing\n/* at; all */ ;;", []),
        ("SELECT ';' AS a, `b;c`; -- d;\nSELECT 2 /* e; */;", ["SELECT ';' AS a, `b;c`", "SELECT 2"]),
        ("SELECT 1 -- one\n, 2; ", ["SELECT 1 -- one\n, 2"]),
        ("BEGIN SELECT 1; SELECT 2; END", ["BEGIN SELECT 1; SELECT 2; END"]),
    ],
)
def test_statements(script: str, statements: list[str]) -> None:
    assert [piece.sql for piece in split(script)] == statements


NOTEBOOK = """-- Databricks notebook source
-- MAGIC %md
-- MAGIC # Sales; per day

-- COMMAND ----------

CREATE TABLE t (a INT)

-- COMMAND ----------

INSERT INTO t VALUES (1);
SELECT * FROM t
-- COMMAND ----------
"""


def test_a_notebook_of_databricks() -> None:
    assert split(NOTEBOOK) == [
        Piece("CREATE TABLE t (a INT)", 7),
        Piece("INSERT INTO t VALUES (1)", 11),
        Piece("SELECT * FROM t", 12),
    ]


SQL_CELLS = """-- Databricks notebook source
-- DBTITLE 1,Sales
-- MAGIC %sql
-- MAGIC -- one; two
-- MAGIC SELECT 1;
-- MAGIC
-- MAGIC SELECT a
-- MAGIC FROM t

-- COMMAND ----------

-- not yet: -- MAGIC %sql
-- MAGIC %sql SELECT 2

-- COMMAND ----------

-- MAGIC %md
-- MAGIC %sql
-- MAGIC SELECT 'in a text'

-- COMMAND ----------

SELECT 3 -- MAGIC
"""


def test_cells_that_say_that_they_are_sql_run() -> None:
    pieces = split(SQL_CELLS)
    assert [(" ".join(piece.sql.split()), piece.line) for piece in pieces] == [
        ("SELECT 1", 5),
        ("SELECT a FROM t", 7),
        ("SELECT 2", 13),
        ("SELECT 3", 23),
    ]
    assert pieces[1].sql == "SELECT a\n         FROM t"  # columns in errors are those of the file
    assert is_complete("-- MAGIC %sql SELECT 1;") and not is_complete("-- MAGIC %sql SELECT 1")


def test_a_cell_in_another_language_is_refused() -> None:
    with pytest.raises(InvalidStatement, match="line 3 begins a cell in python"):
        split("SELECT 1\n-- COMMAND ----------\n-- MAGIC %python\n-- MAGIC print(1)")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT 1; -- end", True),
        ("", True),
        ("-- a comment", True),
    ],
)
def test_a_shell_sends_what_ends_with_a_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) == complete


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM t WHERE day = :day AND region IN (:north, :south)", {"day", "north", "south"}),
        ("SELECT ':a', \":b\", `:c` -- :d\n/* :e */ FROM t", set()),
        ("SELECT x::int, : as, :\n-- a comment\n late", {"as", "late"}),
        ("BEGIN SELECT :a; SELECT :b; END", {"a", "b"}),
    ],
)
def test_names_of_parameters_are_found_where_spark_reads_them(sql: str, names: set[str]) -> None:
    assert markers(sql) == names
