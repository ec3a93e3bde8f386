"""Only a query is a query: a statement in the place of one is refused before anything of it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.every_statement import DELTA, HIDDEN, OURS, SCRIPTS, SPARK

from streamtable import subscribe
from streamtable.api.tables import StreamTables
from streamtable.delta.tables import versions
from streamtable.errors import InvalidQuery, StreamTableError

PARSER = "org.apache.spark.sql.catalyst.parser.SqlBaseParser"
DELTAS = "io.delta.sql.parser.DeltaSqlBaseParser"
STATEMENTS = ("StatementContext", "SetResetStatementContext", "DmlStatementNoWithContext")
ALL = (*SPARK.values(), *SCRIPTS.values(), *DELTA.values(), *OURS, *HIDDEN)

READERS: dict[str, Callable[[str], str]] = {
    "create": lambda text: f"CREATE STREAM TABLE made_of_it AS {text}",
    "explain create": lambda text: f"EXPLAIN CREATE STREAM TABLE made_of_it AS {text}",
    "or replace": lambda text: f"CREATE OR REPLACE STREAM TABLE kept AS {text}",
    "alter": lambda text: f"ALTER STREAM TABLE kept AS {text}",
    "explain alter": lambda text: f"EXPLAIN ALTER STREAM TABLE kept AS {text}",
    "subscribe": lambda text: f"SUBSCRIBE TO ({text}\n)",
    "copy": lambda text: f"COPY (SUBSCRIBE TO ({text}\n)) TO STDOUT",
    "declare": lambda text: f"DECLARE c CURSOR FOR SUBSCRIBE TO ({text}\n)",
    "queue": lambda text: f"CREATE QUEUE made_of_it FOR SUBSCRIBE TO ({text}\n)",
}
"""The statements that hold a query."""

CONDITIONS: dict[str, Callable[[str], str]] = {
    "when": lambda text: f"CREATE QUEUE made_of_it ON victim WHEN ({text}\n)",
    "columns": lambda text: f"CREATE QUEUE made_of_it ON victim COLUMNS ({text}\n)",
    "events": lambda text: f"CREATE QUEUE made_of_it ({text}\n)",
    "publication": lambda text: f"CREATE PUBLICATION made_of_it FOR TABLE victim WHERE ({text}\n)",
    "subquery": lambda text: f"CREATE PUBLICATION made_of_it FOR TABLE victim WHERE (EXISTS ({text}\n))",
    "expectation": lambda text: f"CREATE STREAM TABLE made_of_it (CONSTRAINT c EXPECT ({text}\n)) AS SELECT a FROM victim",
    "added expectation": lambda text: f"ALTER STREAM TABLE kept ADD CONSTRAINT c EXPECT ({text}\n)",
    "frozen": lambda text: f"CREATE STREAM TABLE made_of_it FROZEN WHERE ({text}\n) AS SELECT a FROM victim",
    "set frozen": lambda text: f"ALTER STREAM TABLE kept SET FROZEN WHERE ({text}\n)",
}
"""Those that hold an expression, or columns."""


@pytest.fixture(scope="module")
def pure(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE pure")
    spark.sql("USE pure")
    spark.sql("CREATE TABLE victim USING delta AS SELECT 1 AS a")
    spark.sql("CREATE TABLE other (a INT) USING delta")
    spark.sql("CREATE VIEW seen AS SELECT 1 AS a")
    spark.sql("CREATE FUNCTION one() RETURNS INT RETURN 1")
    spark.sql("CREATE STREAM TABLE kept WITH NO DATA AS SELECT a FROM victim")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE pure CASCADE")


def everything(spark: SparkSession) -> list[Any]:
    """Return what a statement could have changed."""
    folders = [f"{spark.conf.get('spark.sql.warehouse.dir')}/pure.db/{name}" for name in ("victim", "other", "kept")]
    commits = versions(spark, [folder.removeprefix("file:") for folder in folders])
    shown = ("SHOW TABLES", "SHOW USER FUNCTIONS", "SHOW SCHEMAS", "DESCRIBE SCHEMA EXTENDED pure", "SHOW CREATE TABLE seen")
    jars = spark._jsc.sc().listJars().size()
    settings = spark._jsparkSession.conf().getAllAsJava().toString()
    where = (settings, spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), spark.catalog.isCached("victim"), jars)
    return [commits, *([tuple(row) for row in spark.sql(each).collect()] for each in shown), where]


def refused(spark: SparkSession, sql: str, kind: type[StreamTableError] = InvalidQuery) -> None:
    with pytest.raises(kind):
        spark.sql(sql)


def labels(spark: SparkSession, parser: str, *kinds: str) -> set[str]:
    """Return the labelled alternatives of rules of a parser."""
    classes = spark._jvm.java.lang.Class.forName(parser).getDeclaredClasses()  # type: ignore[union-attr]
    return {each.getSimpleName().removesuffix("Context") for each in classes if each.getSuperclass().getSimpleName() in kinds}


def tree(spark: SparkSession, sql: str) -> Any:
    """Parse a statement by Spark's own grammar."""
    jvm: Any = spark._jvm
    spark_parser, antlr = jvm.org.apache.spark.sql.catalyst.parser, jvm.org.antlr.v4.runtime
    text = jvm.io.delta.sql.parser.UpperCaseCharStream(antlr.CharStreams.fromString(sql))
    parser = spark_parser.SqlBaseParser(antlr.CommonTokenStream(spark_parser.SqlBaseLexer(text)))
    parser.removeErrorListeners()
    found = parser.compoundOrSingleStatement()
    assert parser.getNumberOfSyntaxErrors() == 0, sql
    return found


def test_every_alternative_of_the_grammars_has_a_statement(spark: SparkSession) -> None:
    assert labels(spark, PARSER, *STATEMENTS) == {*SPARK, "StatementDefault"}
    assert labels(spark, DELTAS, "StatementContext") == {*DELTA}
    script = spark._jvm.java.lang.Class.forName(f"{PARSER}$CompoundStatementContext").getDeclaredMethods()  # type: ignore[union-attr]
    assert {each.getName() for each in script} - {"accept", "enterRule", "exitRule", "getRuleIndex"} == {*SCRIPTS}


def test_each_statement_is_one_of_its_alternative(spark: SparkSession) -> None:
    for label, sql in SPARK.items():
        single = tree(spark, sql).singleStatement()
        parts = [single.statement(), single.setResetStatement()]
        parts += [part.dmlStatementNoWith() for part in parts if part and part.getClass().getSimpleName() == "DmlStatementContext"]
        assert f"{label}Context" in {part.getClass().getSimpleName() for part in parts if part}, sql
    for sql in SCRIPTS.values():
        assert tree(spark, sql).singleCompoundStatement() is not None, sql


def test_no_statement_is_taken_for_a_query(pure: SparkSession) -> None:
    """Each statement in one place of a query after the other, and each place once with each kind of statement below."""
    before = everything(pure)
    for text, reader in zip(ALL, cycle(READERS.values()), strict=False):
        refused(pure, reader(text), StreamTableError)
    assert everything(pure) == before


def test_each_statement_that_holds_a_query_refuses_each_kind_of_statement(pure: SparkSession) -> None:
    before = everything(pure)
    for reader in READERS.values():
        for label in ("DropTable", "MultiInsertQuery", "SetConfiguration", "VisitExecuteImmediate"):
            refused(pure, reader(SPARK[label]))
        refused(pure, reader(SCRIPTS["statement"]))
        refused(pure, reader(OURS[0]))
    assert everything(pure) == before


def test_a_statement_is_no_condition_and_no_column(pure: SparkSession) -> None:
    before = everything(pure)
    for text, condition in zip((*ALL[::5], *HIDDEN), cycle(CONDITIONS.values()), strict=False):
        refused(pure, condition(text), StreamTableError)
    for condition in CONDITIONS.values():
        refused(pure, condition("INSERT INTO victim VALUES (2)"), StreamTableError)
    assert everything(pure) == before


def test_the_refusal_says_that_the_text_is_a_statement_and_was_not_run(pure: SparkSession) -> None:
    with pytest.raises(InvalidQuery, match=r"INSERT .*was not run(.|\n)*What to do: write SELECT"):
        pure.sql("CREATE STREAM TABLE made AS INSERT INTO victim VALUES (2)")
    with pytest.raises(InvalidQuery, match="the program 'touch here'"):
        pure.sql("CREATE STREAM TABLE made AS SELECT TRANSFORM(a) USING 'touch here' AS (b STRING) FROM victim")


def test_python_hands_a_statement_over_as_little(pure: SparkSession) -> None:
    before = everything(pure)
    with pytest.raises(InvalidQuery):
        StreamTables(pure).create("made", "DROP TABLE victim")
    with pytest.raises(InvalidQuery):
        StreamTables(pure).at("kept").alter(query="DROP TABLE victim")
    with pytest.raises(InvalidQuery), subscribe(pure, "(DROP TABLE victim)"):
        pass
    with pytest.raises(InvalidQuery):
        pure.readStream.format("streamtable").option("subscribe", "(DROP TABLE victim)").load()
    assert everything(pure) == before


@pytest.mark.parametrize("parser", ["spark.sql.legacy.parseQueryWithoutEof", "spark.sql.legacy.setopsPrecedence.enabled"])
def test_settings_of_older_sparks_change_nothing(pure: SparkSession, parser: str) -> None:
    pure.conf.set(parser, "true")
    try:
        refused(pure, "CREATE STREAM TABLE made AS SELECT a FROM victim; DROP TABLE victim")
        refused(pure, "CREATE STREAM TABLE made AS SELECT a FROM victim DROP TABLE victim")
    finally:
        pure.conf.unset(parser)


QUERIES = (
    "SELECT a FROM victim",
    "(SELECT a FROM victim)",
    "WITH x AS (SELECT a FROM victim) SELECT a FROM x",
    "FROM victim SELECT a",
    "FROM victim |> SELECT a |> WHERE a > 0",
    "TABLE victim",
    "VALUES (1)",
    "SELECT a FROM IDENTIFIER('vic' || 'tim')",
    "SELECT a FROM victim -- INSERT INTO victim VALUES (2)",
    "SELECT 'DROP TABLE victim' AS a",
)


def test_what_is_a_query_stays_one(pure: SparkSession) -> None:
    for query in QUERIES:
        assert pure.sql(f"EXPLAIN CREATE STREAM TABLE made AS {query}").count() > 0, query
