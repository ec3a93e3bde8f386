"""SUBSCRIBE and its cursors: what each text means, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamtable.errors import InvalidStatement, NotSupported, StatementSyntaxError
from streamtable.language.names import Name, Query
from streamtable.language.parse import AnyStatement, parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.subscribe.ast import (
    CloseCursor,
    CopyToStdout,
    Debezium,
    DeclareCursor,
    Fetch,
    OrderItem,
    Subscribe,
    Upsert,
    WithinTimestamp,
)
from streamtable.language.write import to_sql
from streamtable.subscribing.times import Times

T = Name(("t",))


def subscribe(**fields: Any) -> Subscribe:
    return Subscribe(T, **fields)


STATEMENTS: list[tuple[str, AnyStatement]] = [
    ("SUBSCRIBE t", subscribe()),
    ("SUBSCRIBE TO t", subscribe()),
    ("SUBSCRIBE to", Subscribe(Name(("to",)))),
    ("SUBSCRIBE EVENTS", Subscribe(Name(("EVENTS",)))),
    ("SUBSCRIBE TO c.s.t", Subscribe(Name(("c", "s", "t")))),
    ("SUBSCRIBE delta.`/some/path`", Subscribe(Name(("delta", "/some/path")))),
    ("SUBSCRIBE (SELECT ')' AS x FROM (VALUES (1)))", Subscribe(Query("SELECT ')' AS x FROM (VALUES (1))"))),
    ("SUBSCRIBE TO ( SELECT 1 AS a -- )\n)", Subscribe(Query("SELECT 1 AS a -- )"))),
    ("SUBSCRIBE t WITH (PROGRESS)", subscribe(progress=True)),
    ("SUBSCRIBE t WITH (PROGRESS = FALSE, SNAPSHOT TRUE)", subscribe()),
    ("SUBSCRIBE t WITH (SNAPSHOT = false, PROGRESS true)", subscribe(snapshot=False, progress=True)),
    ("SUBSCRIBE t ENVELOPE UPSERT (KEY (c, a))", subscribe(modifier=Upsert(("c", "a")))),
    ("SUBSCRIBE t ENVELOPE DEBEZIUM (KEY (`key`))", subscribe(modifier=Debezium(("key",)))),
    (
        "SUBSCRIBE t WITHIN TIMESTAMP ORDER BY c DESC NULLS LAST, 1, diff ASC, d NULLS FIRST",
        subscribe(
            modifier=WithinTimestamp(
                (OrderItem("c", True, False), OrderItem(1), OrderItem("diff"), OrderItem("d", nulls_first=True)),
            )
        ),
    ),
    ("SUBSCRIBE t AS OF 3", subscribe(as_of=3)),
    ("SUBSCRIBE t AS OF AT LEAST '3' UP TO 12L", subscribe(as_of=3, at_least=True, up_to=12)),
    ("SUBSCRIBE t AS OF 12 - 1", subscribe(as_of=11)),
    ("SUBSCRIBE t UP TO 100000000000000000003BD - 1 + 2", subscribe(up_to=100000000000000000004)),
    ("COPY (SUBSCRIBE t UP TO 5) TO STDOUT", CopyToStdout(subscribe(up_to=5))),
    ("COPY (SUBSCRIBE (SELECT 1 AS a) AS OF 1) TO STDOUT", CopyToStdout(Subscribe(Query("SELECT 1 AS a"), as_of=1))),
    ("DECLARE c CURSOR FOR SUBSCRIBE t", DeclareCursor("c", subscribe())),
    ("DECLARE c CURSOR WITHOUT HOLD FOR SUBSCRIBE TO t AS OF 0", DeclareCursor("c", subscribe(as_of=0))),
    ("FETCH c", Fetch("c")),
    ("FETCH FROM c", Fetch("c")),
    ("FETCH FORWARD c", Fetch("c")),
    ("FETCH FORWARD 5 FROM c", Fetch("c", 5)),
    ("FETCH 0 c", Fetch("c", 0)),
    ("FETCH ALL c", Fetch("c", None)),
    ("FETCH ALL FROM c WITH (TIMEOUT = '1s')", Fetch("c", None, 1000)),
    ("FETCH ALL FROM c WITH (TIMEOUT = '1h 30m')", Fetch("c", None, 5_400_000)),
    ("FETCH 2 c WITH (TIMEOUT '0s')", Fetch("c", 2, 0)),
    ("FETCH c WITH (TIMEOUT '1d')", Fetch("c", 1, 86_400_000)),
    ("CLOSE c", CloseCursor("c")),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_every_statement_reads_and_is_printed_so_that_it_reads_the_same(text: str, statement: AnyStatement) -> None:
    assert parse(text) == statement
    assert parse(f"-- AS (\n /* SUBSCRIBE ( */ {text} ; -- last") == statement
    assert parse(to_sql(statement)) == statement


def test_options_come_in_any_order_comments_between_them() -> None:
    options = ["ENVELOPE UPSERT (KEY (k))", "WITH (PROGRESS)", "AS OF 1", "UP TO 9"]
    orders = [options[n:] + options[:n] for n in range(len(options))] + [options[::-1]]
    read = {parse(f"SUBSCRIBE (SELECT a AS b FROM t) -- AS )\n {' /* AS */ '.join(order)}") for order in orders}
    assert read == {Subscribe(Query("SELECT a AS b FROM t"), Upsert(("k",)), progress=True, as_of=1, up_to=9)}


def test_the_word_subscribe_elsewhere_is_a_name() -> None:
    read = parse("CREATE STREAM TABLE subscribe (a, b) AS SELECT 1, 2 -- SUBSCRIBE (")
    assert isinstance(read, CreateStreamTable) and len(read.columns) == 2


def test_a_query_knows_where_it_starts() -> None:
    read = parse("SUBSCRIBE TO (\n  SELECT 1)")
    assert isinstance(read, Subscribe) and isinstance(read.relation, Query)
    assert (read.relation.line, read.relation.column) == (2, 3)


REFUSED = [
    # exception, statement, what is underlined, a part of the message
    (InvalidStatement, "SUBSCRIBE t AS OF now()", "now()", "now is no time of the relation"),
    (InvalidStatement, "SUBSCRIBE t AS OF NULL", "NULL", "NULL is no time"),
    (InvalidStatement, "SUBSCRIBE t AS OF '2026-01-01'", "'2026-01-01'", "is no time"),
    (InvalidStatement, "SUBSCRIBE t UP TO 1 - 2", "1 - 2", "there is no time -1"),
    (InvalidStatement, "SUBSCRIBE t WITH (PROGRESS, PROGRESS)", "PROGRESS", "PROGRESS is written twice"),
    (InvalidStatement, "SUBSCRIBE t WITH (PROGRESS =)", "PROGRESS =", "set to nothing"),
    (InvalidStatement, "SUBSCRIBE t ENVELOPE UPSERT (KEY (a, A))", "A", "listed twice"),
    (InvalidStatement, "FETCH c WITH (TIMEOUT = '-1s')", "", "'-1s' is no time-out"),
    (InvalidStatement, "FETCH c WITH (TIMEOUT = '25h')", "", "'25h' is no time-out"),
    (InvalidStatement, "FETCH c WITH (TIMEOUT = 'soon')", "", "'soon' is no time-out"),
    (InvalidStatement, "FETCH c WITH (TIMEOUT = '30m1h')", "", "'30m1h' is no time-out"),
    (InvalidStatement, "FETCH c WITH (TIMEOUT = '1m1m')", "", "'1m1m' is no time-out"),
    (InvalidStatement, "FETCH c WITH (TIMEOUT = '')", "", "'' is no time-out"),
    (InvalidStatement, "FETCH 2147483648 c", "2147483648", "too large"),
    (
        StatementSyntaxError,
        "SUBSCRIBE t ENVELOPE UPSERT (KEY (a)) WITHIN TIMESTAMP ORDER BY a",
        "WITHIN TIMESTAMP ORDER BY a",
        "an output modifier is written twice",
    ),
    (StatementSyntaxError, "SUBSCRIBE t AS OF 1 AS OF 2", "AS OF 2", "AS OF is written twice"),
    (StatementSyntaxError, "SUBSCRIBE (SELECT 1", "", "expected ')', found the end of the statement"),
    (StatementSyntaxError, "SUBSCRIBE ()", ")", "expected a query, found ')'"),
    (StatementSyntaxError, "SUBSCRIBE (/* */)", "/* */)", "nothing but comments"),
    (InvalidStatement, f"SUBSCRIBE t WITHIN TIMESTAMP ORDER BY {'9' * 5000}", "", "there is no column 9999"),
    (StatementSyntaxError, "SUBSCRIBE t AS OF 1.5", ".", "found '.'"),
    (StatementSyntaxError, "SUBSCRIBE t WITHIN TIMESTAMP ORDER BY a + 1", "+", "found '+'"),
    (StatementSyntaxError, "SUBSCRIBE t ENVELOPE UPSERT (KEY ())", ")", "expected a name"),
    (StatementSyntaxError, "FETCH -1 c", "-", "found '-'"),
    (StatementSyntaxError, "DECLARE c CURSOR FOR SELECT 1", "SELECT", "expected SUBSCRIBE"),
]


@pytest.mark.parametrize(("kind", "text", "underlined", "message"), REFUSED, ids=[text[:99] for _, text, _, _ in REFUSED])
def test_what_is_refused(kind: type[Exception], text: str, underlined: str, message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)) as caught:
        parse(text)
    if underlined:
        _, line, marks, *_ = str(caught.value).splitlines()
        assert line[marks.index("^") : marks.rindex("^") + 1] == underlined


@pytest.mark.parametrize("vector", [(0,), (10**17,), (12, 34), (10**9 - 1, 0), (1, 2, 3), (3, 0, 0, 9), tuple(range(9))])
def test_a_time_is_the_versions(vector: tuple[int, ...]) -> None:
    times = Times(len(vector))
    assert times.versions(times.of(vector)) == vector
    later = [(*vector[:n], version + 1, *vector[n + 1 :]) for n, version in enumerate(vector) if version < 10**9 - 1]
    assert all(times.of(each) > times.of(vector) for each in later)


def test_times_that_people_can_read_and_those_that_do_not_fit() -> None:
    assert Times(2).of((12, 34)) == 12_000_000_034
    assert (Times(2).type.simpleString(), Times(3).type.simpleString()) == ("bigint", "decimal(38,0)")
    assert (Times(0).of(()), Times(0).versions(7)) == (0, ())
    with pytest.raises(NotSupported, match="over 10 tables"):
        Times(10)
    with pytest.raises(NotSupported, match="version 10000 "):
        Times(9).of((1, 10_000, *range(7)))
