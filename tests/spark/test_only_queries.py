"""Only a query is a query: a statement in the place of one is refused before anything of it is run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import dropped, planned_once
from tests.spark.every_statement import DELTA, HIDDEN, OURS, SCRIPTS, SPARK
from tests.spark.holders import COLUMNS, CONDITIONS, QUERIES

from streamtable import subscribe
from streamtable.api.tables import StreamTables
from streamtable.delta.tables import versions
from streamtable.errors import InvalidQuery, InvalidStatement, StreamTableError

PARSER = "org.apache.spark.sql.catalyst.parser.SqlBaseParser"
DELTAS = "io.delta.sql.parser.DeltaSqlBaseParser"
STATEMENTS = ("StatementContext", "SetResetStatementContext", "DmlStatementNoWithContext")
ALL = (*SPARK.values(), *SCRIPTS.values(), *DELTA.values(), *OURS, *HIDDEN)


@pytest.fixture(scope="module")
def pure(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE pure")
        spark.sql("USE pure")
        spark.sql("CREATE TABLE victim USING delta AS SELECT 1 AS a")
        spark.sql("CREATE TABLE other (a INT) USING delta")
        spark.sql("CREATE VIEW seen AS SELECT 1 AS a")
        spark.sql("CREATE FUNCTION one() RETURNS INT RETURN 1")
        spark.sql("CREATE STREAM TABLE kept WITH NO DATA AS SELECT a FROM victim")
        spark.sql("CREATE PUBLICATION published FOR TABLE kept")
        yield spark
    dropped(spark, "pure")


def everything(spark: SparkSession) -> list[Any]:
    """Return what a statement could have changed."""
    folders = [f"{spark.conf.get('spark.sql.warehouse.dir')}/pure.db/{name}" for name in ("victim", "other", "kept")]
    commits = versions(spark, [folder.removeprefix("file:") for folder in folders])
    shown = ("SHOW TABLES", "SHOW USER FUNCTIONS", "SHOW SCHEMAS", "DESCRIBE SCHEMA EXTENDED pure", "SHOW CREATE TABLE seen")
    jars = spark._jsc.sc().listJars().size()
    settings = spark._jsparkSession.conf().getAllAsJava().toString()
    where = (settings, spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), spark.catalog.isCached("victim"), jars)
    return [commits, *([tuple(row) for row in spark.sql(each).collect()] for each in shown), where]


Errors = type[StreamTableError] | tuple[type[StreamTableError], ...]


def refused(spark: SparkSession, sql: str, kind: Errors = InvalidQuery) -> None:
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
    for text, reader in zip(ALL, cycle(QUERIES.values()), strict=False):
        refused(pure, reader(text), StreamTableError)
    assert everything(pure) == before


def test_each_statement_that_holds_a_query_refuses_each_kind_of_statement(pure: SparkSession) -> None:
    before = everything(pure)
    for reader in QUERIES.values():
        for label in ("DropTable", "MultiInsertQuery", "SetConfiguration", "VisitExecuteImmediate"):
            refused(pure, reader(SPARK[label]))
        refused(pure, reader(SCRIPTS["statement"]))
        refused(pure, reader(OURS[0]))
    assert everything(pure) == before


@pytest.fixture
def batch(pure: SparkSession) -> SparkSession:
    """Return a session in which a batch is in work, and an event is given up: what RETRY, GIVE UP and REPLAY choose from."""
    pure.sql("CREATE TABLE event (a INT) USING delta")
    pure.sql("CREATE QUEUE read FOR SUBSCRIBE TO event")
    pure.sql("REGISTER CONSUMER reader ON read")
    pure.sql("INSERT INTO event VALUES (1), (2)")
    assert pure.sql("NEXT BATCH FROM read FOR reader").count() == 2
    pure.sql("GIVE UP EVENTS FROM read FOR reader WHERE (a = 1)")
    return pure


def test_a_statement_is_no_condition_and_no_column(batch: SparkSession) -> None:
    before = everything(batch)
    holders = {**CONDITIONS, **COLUMNS}
    for text, holder in zip((*ALL[::5], *HIDDEN), cycle(holders.values()), strict=False):
        refused(batch, holder(text), StreamTableError)
    for holder in holders.values():
        refused(batch, holder("INSERT INTO victim VALUES (2)"), (InvalidQuery, InvalidStatement))
    assert everything(batch) == before
    for place in ("retry", "give up", "replay"):
        batch.sql(CONDITIONS[place]("a > 0"))  # the places are reached


def test_columns_of_a_queue_have_nothing_that_is_evaluated(pure: SparkSession) -> None:
    for more in ("DEFAULT (upper('x'))", "GENERATED ALWAYS AS (upper('x'))", "CHECK (a > 0)"):
        refused(pure, COLUMNS["events"](f"a STRING {more}"), InvalidStatement)


def test_the_refusal_says_that_the_text_is_a_statement_and_was_not_run(pure: SparkSession) -> None:
    with pytest.raises(InvalidQuery, match=r"INSERT .*was not run(.|\n)*What to do: write SELECT"):
        pure.sql("CREATE STREAM TABLE made AS INSERT INTO victim VALUES (2)")
    with pytest.raises(InvalidQuery, match="runs 'touch here' outside Spark"):
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


PURE = (
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
    for query in PURE:
        assert pure.sql(f"EXPLAIN CREATE STREAM TABLE made AS {query}").count() > 0, query
