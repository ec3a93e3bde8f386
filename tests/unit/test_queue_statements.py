"""Change queues: what each text means, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamtable.errors import InvalidStatement, StatementSyntaxError, StreamTableError
from streamtable.language.names import Name, Query
from streamtable.language.parse import parse
from streamtable.language.queue.ast import (
    AlterQueue,
    Columns,
    CreateQueue,
    DropQueue,
    FinishBatch,
    GiveUpEvents,
    Limits,
    NextBatch,
    OfSchedulers,
    PurgeQueue,
    QueueStatement,
    Reader,
    RegisterConsumer,
    ReplayDeadLetters,
    RetryEvents,
    ShowConsumers,
    ShowDeadLetters,
    ShowQueues,
    UnregisterConsumer,
)
from streamtable.language.subscribe.ast import Debezium, Subscribe, Upsert
from streamtable.language.write import to_sql

Q, T = Name(("q",)), Name(("s", "t"))
C = Reader(Q, "c")
KEY = Upsert(("a", "b"))

STATEMENTS: list[tuple[str, QueueStatement]] = [
    ("CREATE QUEUE IF NOT EXISTS q FOR SUBSCRIBE s.t", CreateQueue(Q, Subscribe(T), if_not_exists=True)),
    ("CREATE QUEUE q FOR SUBSCRIBE TO (SELECT 1 AS a)", CreateQueue(Q, Subscribe(Query("SELECT 1 AS a")))),
    ("CREATE QUEUE q FOR EVENTS WITH (max_count = 5)", CreateQueue(Q, OfSchedulers(), limits=Limits(max_count=5))),
    ("CREATE QUEUE q ON s.t", CreateQueue(Q, Subscribe(T))),
    ("CREATE QUEUE q ON s.t KEY (a, b)", CreateQueue(Q, Subscribe(T, KEY))),
    ("CREATE QUEUE q ON s.t OLD ROW KEY (a, b)", CreateQueue(Q, Subscribe(T, Debezium(("a", "b"))))),
    ("CREATE QUEUE q ON s.t KEYS ONLY KEY (a, b)", CreateQueue(Q, Subscribe(T, KEY), keys_only=True)),
    ("CREATE QUEUE q FOR SUBSCRIBE s.t ENVELOPE UPSERT (KEY (a, b)) KEYS ONLY", CreateQueue(Q, Subscribe(T, KEY), keys_only=True)),
    ("CREATE QUEUE q ON s.t SCHEMA CHANGES", CreateQueue(Q, Subscribe(T), schema_changes=True)),
    ("CREATE QUEUE q ON s.t IGNORE (c, `d e`)", CreateQueue(Q, Subscribe(Query("SELECT * EXCEPT (`c`, `d e`) FROM `s`.`t`")))),
    (
        "CREATE QUEUE q ON s.t WHEN (c = ')' -- )\n) COLUMNS (upper(c) AS u)",
        CreateQueue(Q, Subscribe(Query("SELECT *, upper(c) AS u\n FROM `s`.`t` WHERE ((c = ')' -- )\n))"))),
    ),
    ("CREATE QUEUE q (n INT, `)` STRUCT<a: INT>)", CreateQueue(Q, Columns("n INT, `)` STRUCT<a: INT>"))),
    (
        "CREATE QUEUE q (n INT) WITH (max_count = 10, max_interval = '3s')",
        CreateQueue(Q, Columns("n INT"), limits=Limits(10, timedelta(seconds=3))),
    ),
    (
        "ALTER QUEUE s.t SET (max_count = 5, MIN_LAG = '2s', max_interval = none, min_count = 'NONE')",
        AlterQueue(T, Limits(5, min_lag=timedelta(seconds=2)), ("max_interval", "min_count")),
    ),
    ("ALTER QUEUE q ACCEPT DEFINITION", AlterQueue(Q, accept=True)),
    ("DROP QUEUE IF EXISTS q FORCE", DropQueue(Q, if_exists=True, force=True)),
    ("PURGE QUEUE q", PurgeQueue(Q)),
    ("REGISTER CONSUMER c ON s.t AT 3", RegisterConsumer("c", T, 3)),
    ("UNREGISTER CONSUMER c ON q", UnregisterConsumer("c", Q)),
    ("SHOW QUEUES IN s", ShowQueues(Name(("s",)))),
    ("SHOW CONSUMERS ON q", ShowConsumers(Q)),
    ("NEXT BATCH FROM q FOR c", NextBatch(C)),
    ("NEXT BATCH FROM q FOR c WORKER w", NextBatch(Reader(Q, "c", "w"))),
    (
        "NEXT BATCH FROM q FOR c WITH (min_count = 2, min_interval = '1m', min_lag = '500ms', take_over_after = '1h')",
        NextBatch(
            C,
            Limits(min_count=2, min_interval=timedelta(minutes=1), min_lag=timedelta(milliseconds=500)),
            timedelta(hours=1),
        ),
    ),
    ("FINISH BATCH FROM q FOR c WORKER w", FinishBatch(Reader(Q, "c", "w"))),
    ("FINISH BATCH 12 FROM q FOR c", FinishBatch(C, 12)),
    ("RETRY EVENTS FROM q FOR c", RetryEvents(C)),
    ("RETRY EVENTS FROM q FOR c WHERE (a IN (1)) AFTER '1m'", RetryEvents(C, "a IN (1)", timedelta(minutes=1))),
    ("GIVE UP EVENTS FROM q FOR c WORKER w WHERE (x)", GiveUpEvents(Reader(Q, "c", "w"), "x")),
    ("SHOW DEAD LETTERS FROM q FOR c", ShowDeadLetters(Q, "c")),
    ("REPLAY DEAD LETTERS FROM q FOR c WHERE (x)", ReplayDeadLetters(Q, "c", "x")),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_every_statement_reads_and_is_printed_so_that_it_reads_the_same(text: str, statement: QueueStatement) -> None:
    assert parse(text) == statement
    assert parse(f"-- AS (\n /* QUEUE ( */ {text} ; -- last") == statement
    assert parse(to_sql(statement)) == statement


REFUSED: list[tuple[type[StreamTableError], str, str]] = [
    (InvalidStatement, "CREATE QUEUE q ON t KEYS ONLY", "cannot be told which rows were updated or deleted"),
    (InvalidStatement, "CREATE QUEUE q FOR SUBSCRIBE t KEYS ONLY", "KEYS ONLY needs a key"),
    (InvalidStatement, "CREATE QUEUE q ON t OLD ROW", "OLD ROW needs a KEY"),
    (InvalidStatement, "CREATE QUEUE q ON t KEY (a, A)", "listed twice"),
    (InvalidStatement, "CREATE QUEUE q ON t WITH (max_size = 1)", "Did you mean"),
    (InvalidStatement, "CREATE QUEUE q ON t WITH (take_over_after = '1m')", "no option take_over_after"),
    (InvalidStatement, "ALTER QUEUE q SET (max_count = 1, max_count = NONE)", "written twice"),
    (InvalidStatement, "ALTER QUEUE q SET (take_over_after = '1m')", "no option take_over_after"),
    (InvalidStatement, "ALTER QUEUE q SET (min_count = 'many')", "min_count cannot be 'many'"),
    (InvalidStatement, "NEXT BATCH FROM q FOR c WITH (max_count = 0)", "max_count cannot be '0'"),
    (InvalidStatement, "NEXT BATCH FROM q FOR c WITH (min_lag = 'soon')", "'soon' is no duration"),
    (StatementSyntaxError, "CREATE QUEUE q ON t KEY (a) KEY (b)", "KEY is written twice"),
    (
        StatementSyntaxError,
        "CREATE QUEUE q FOR SUBSCRIBE t AS OF 1",
        "expected ENVELOPE, KEYS ONLY, SCHEMA CHANGES, WITH or the end",
    ),
    (StatementSyntaxError, "CREATE QUEUE q (-- nothing\n)", "nothing but comments"),
]


@pytest.mark.parametrize(("error", "text", "message"), REFUSED, ids=[text for _, text, _ in REFUSED])
def test_what_is_refused(error: type[StreamTableError], text: str, message: str) -> None:
    with pytest.raises(error, match=message):
        parse(text)
