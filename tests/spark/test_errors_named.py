"""Errors that the query does not have do not stop a refresh; those that it has are ours, and name the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.together import together
from tests.spark.statements import answer, done

from streamtable import subscribe
from streamtable.api.tables import StreamTables
from streamtable.errors import InvalidQuery, RefreshError, StatementFailed, StatementSyntaxError, StreamTableError

JOINED = "FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k"
EXPRESSIONS = {
    "a division by zero": "a.v DIV c.w",
    "a cast": "CAST(if(c.w = 0, 'bad', '7') AS INT)",
    "an index": "array(1, 2)[if(c.w = 0, 5, 1)]",
    "a key": "element_at(array(1, 2), c.w)",
    "an overflow": "2147483647 + if(c.w = 0, 1, 0)",
    "an assertion": "if(c.w = 0, raise_error('no'), c.w)",
    "a date": "make_date(2026, c.w, 1)",
}
SOME = ("a division by zero", "a cast", "an overflow", "an assertion", "an index")
"""What the pipeline tries; `./run fuzz -k fails_where` has all."""


@pytest.fixture
def abc(shop: SparkSession) -> Iterator[SparkSession]:
    shop.sql("CREATE TABLE a (k INT, v INT) USING delta")
    shop.sql("CREATE TABLE b (k INT) USING delta")
    shop.sql("CREATE TABLE c (k INT, w INT) USING delta")
    shop.sql("INSERT INTO a VALUES (1, 10), (2, 20)")
    shop.sql("INSERT INTO b VALUES (1), (2)")
    shop.sql("INSERT INTO c VALUES (1, 2), (2, 1)")
    yield shop


@pytest.mark.parametrize("some", [SOME, pytest.param((*EXPRESSIONS,), marks=pytest.mark.fuzz)], ids=["some", "all"])
def test_a_term_of_a_delta_that_fails_where_the_query_does_not(abc: SparkSession, some: tuple[str, ...]) -> None:
    queries = {f"q{n}": f"SELECT a.k, {EXPRESSIONS[each]} AS d {JOINED}" for n, each in enumerate(some)}
    overflow = f"q{some.index('an overflow')}"
    queries |= {
        "summed": f"SELECT a.k, sum(a.v DIV c.w) AS d {JOINED} GROUP BY a.k",
        "condition": f"SELECT a.k {JOINED} AND a.v DIV c.w > 1",
        "derived": f"SELECT * FROM (SELECT a.k, a.v DIV c.w AS d {JOINED}) WHERE d > 1",
        "padded": f"SELECT a.k, a.v DIV coalesce(c.w, 1) AS d {JOINED.replace('JOIN c', 'LEFT JOIN c')}",
        "repeated": f"SELECT a.k, e {JOINED} LATERAL VIEW explode(sequence(1, a.v DIV c.w)) AS e",
    }
    modes = dict(zip(queries, cycle(("AUTO", "DIFFERENTIAL")), strict=False))

    def refresh(name: str) -> None:
        action, reason = done(abc, f"REFRESH STREAM TABLE {name}")
        assert action == ("REINITIALIZE" if name == overflow else "DIFFERENTIAL"), (name, reason)
        assert (action == "REINITIALIZE") == ("the delta failed" in reason), reason
        assert_exact(abc, name, queries[name])

    together(lambda name: abc.sql(f"CREATE STREAM TABLE {name} REFRESH MODE {modes[name]} AS {queries[name]}"), queries)
    abc.sql("DELETE FROM b WHERE k = 1")
    abc.sql("UPDATE c SET w = 0 WHERE k = 1")
    together(refresh, queries)
    abc.sql("INSERT INTO a VALUES (2, 40)")
    assert done(abc, "REFRESH STREAM TABLE q0")[0] == "DIFFERENTIAL"


def test_an_error_of_the_query_is_ours_and_is_shown(abc: SparkSession) -> None:
    some = [EXPRESSIONS[name] for name in ("a division by zero", "an assertion")]  # a table for each takes the same way
    queries = {f"q{n}": f"SELECT a.k, {each} AS d {JOINED}" for n, each in enumerate(some)}
    for name, query in queries.items():
        abc.sql(f"CREATE STREAM TABLE {name} AS {query}")
    abc.sql("UPDATE c SET w = 0 WHERE k = 1")
    for name in queries:
        for full in ("", " FULL"):
            with pytest.raises(RefreshError, match=rf"shop\.{name}\b"):
                abc.sql(f"REFRESH STREAM TABLE {name}{full}")
    shown = {row["name"]: row for row in abc.sql("SHOW STREAM TABLES").collect()}
    assert {row["last_action"] for row in shown.values()} == {"FAILED"}
    assert "DIVIDE_BY_ZERO" in shown["spark_catalog.shop.q0"]["error"]
    abc.sql("UPDATE c SET w = 1 WHERE k = 1")
    for name, query in queries.items():
        abc.sql(f"REFRESH STREAM TABLE {name}")
        assert_exact(abc, name, query)
    assert {row["error"] for row in abc.sql("SHOW STREAM TABLES").collect()} == {None}


FAILING = "SELECT id, amount DIV (id - id) AS d FROM sales"
STATEMENTS = (
    f"CREATE STREAM TABLE made AS {FAILING}",
    f"CREATE OR REPLACE STREAM TABLE st AS {FAILING}",
    f"ALTER STREAM TABLE st AS {FAILING}",
    f"SUBSCRIBE TO ({FAILING})",
    f"COPY (SUBSCRIBE TO ({FAILING})) TO STDOUT",
    "FETCH c",
    "NEXT BATCH FROM failing FOR reader",
    "CREATE PUBLICATION made FOR TABLE sales WHERE (nothing > 1)",
    "CREATE QUEUE made ON sales WHEN (nothing > 1)",
    "CREATE QUEUE made (\n)",
    "SHOW STREAM TABLES IN nothing",
    "CREATE STREAM TABLE nothing.made AS SELECT 1 AS a",
    "CREATE QUEUE nothing.made ON sales",
    "CREATE PUBLICATION nothing.made FOR TABLE sales",
    "CREATE STREAM TABLE made AS SELECT " + "1" + " + 1" * 20000 + " AS a",
    f"EXPLAIN CREATE STREAM TABLE made AS {FAILING.replace('amount', 'nothing')}",
    f"EXPLAIN ALTER STREAM TABLE st AS {FAILING.replace('amount', 'nothing')}",
    "REFRESH STREAM TABLE shares",
    "REFRESH STREAM TABLE shares FULL",
    "REFRESH STREAM TABLE shares CASCADE",
    "REFRESH STREAM TABLE above CASCADE",
    "REFRESH STREAM TABLES LIKE 'shares'",
    "VERIFY STREAM TABLE gone",
    "EXPLAIN STREAM TABLE gone",
    "REFRESH STREAM TABLE gone",
    "ALTER STREAM TABLE shares SET FROZEN WHERE (share DIV (id - id) > 1)",
    "ALTER STREAM TABLE shares ADD CONSTRAINT failing EXPECT (share DIV (id - id) > 1)",
    "APPLY SUBSCRIPTION nothing",
    "ALTER SUBSCRIPTION nothing REFRESH PUBLICATION",
    "CREATE SUBSCRIPTION made CONNECTION 'database=nothing' PUBLICATION nothing",
    "SELECT * FROM refresh_history('nothing')",
    "SELECT * FROM expectation_violations('st', 'nothing')",
)
"""Statements that fail, of all families: by the query, by a row, by a source or a name that is gone."""


def test_whatever_fails_in_a_statement_is_an_error_of_ours(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id FROM sales")
    shop.sql(f"CREATE QUEUE failing FOR SUBSCRIBE TO ({FAILING})")
    shop.sql("REGISTER CONSUMER reader ON failing")
    shop.sql("CREATE STREAM TABLE shares AS SELECT id, amount DIV (id - 9) AS share FROM sales")
    shop.sql("CREATE STREAM TABLE above AS SELECT share FROM shares")
    shop.sql("CREATE TABLE lost USING delta AS SELECT 1 AS a")
    shop.sql("CREATE STREAM TABLE gone AS SELECT a FROM lost")
    shop.sql("DROP TABLE lost")
    shop.sql("INSERT INTO sales VALUES (9, 'north', 1)")
    shop.sql(f"DECLARE c CURSOR FOR SUBSCRIBE TO ({FAILING})")
    before = [row["tableName"] for row in shop.sql("SHOW TABLES").collect()]
    for statement in STATEMENTS:
        with pytest.raises(StreamTableError) as raised:
            shop.sql(statement).collect()
        assert raised.value.getCondition() != "STREAMTABLE_INTERNAL_ERROR", statement[:100]
        assert "DIVIDE" not in str(raised.value) or re.search(r"\b(made|st|sales|shares|failing|c)\b", raised.value.reason)
    shop.sql("CLOSE c")
    assert [row["tableName"] for row in shop.sql("SHOW TABLES").collect()] == before
    assert answer(shop, "SELECT count(*) FROM st") == [(4,)]


def test_half_a_character_is_no_text(shop: SparkSession) -> None:
    with pytest.raises(StatementSyntaxError, match="half of a character"):
        StreamTables(shop).create("made", "SELECT '\ud800' AS a")
    with pytest.raises(StatementSyntaxError, match="half of a character"), subscribe(shop, "(SELECT '\udfff' AS a FROM sales)"):
        pass


def test_the_class_of_a_failure_of_spark(shop: SparkSession) -> None:
    with pytest.raises(StatementFailed, match=r"sales(.|\n)*DIVIDE_BY_ZERO"):
        shop.sql(f"SUBSCRIBE TO ({FAILING})")
    with pytest.raises(InvalidQuery):
        shop.sql("EXPLAIN CREATE STREAM TABLE made AS SELECT nothing FROM sales")
