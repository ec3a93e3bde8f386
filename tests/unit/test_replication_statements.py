"""Publications, subscriptions and slots: what each text means, and what is refused."""

from __future__ import annotations

import re

import pytest

from streamtable.errors import InvalidStatement, StatementSyntaxError
from streamtable.language.names import Name
from streamtable.language.parse import AnyStatement, parse
from streamtable.language.replication.ast import (
    AddObjects,
    AlterPublication,
    AlterSubscription,
    ApplySubscription,
    CreatePublication,
    CreateReplicationSlot,
    CreateSubscription,
    Disable,
    DropObjects,
    DropPublication,
    DropReplicationSlot,
    DropSubscription,
    Enable,
    Objects,
    PublishedTable,
    RefreshPublication,
    ResetStatistics,
    SetConnection,
    SetObjects,
    SetOptions,
    SetPublications,
    Skip,
)
from streamtable.language.stream_table.ast import AcceptDefinition, Rename
from streamtable.language.write import to_sql

P, S = Name(("p",)), Name(("s",))


def tables(*names: str) -> tuple[PublishedTable, ...]:
    return tuple(PublishedTable(Name((name,))) for name in names)


STATEMENTS: list[tuple[str, AnyStatement]] = [
    ("CREATE PUBLICATION p", CreatePublication(P)),
    ("CREATE PUBLICATION c.s.p FOR TABLE t", CreatePublication(Name(("c", "s", "p")), Objects(tables("t")))),
    (
        "CREATE PUBLICATION p FOR TABLE t (a, `b`) WHERE (a > ')' AND (b) AS x), u, TABLE table, TABLES IN SCHEMA s, c.s",
        CreatePublication(
            P,
            Objects(
                (PublishedTable(Name(("t",)), ("a", "b"), "a > ')' AND (b) AS x"), *tables("u", "table")),
                (Name(("s",)), Name(("c", "s"))),
            ),
        ),
    ),
    ("CREATE PUBLICATION p FOR TABLES IN SCHEMA s, TABLE t", CreatePublication(P, Objects(tables("t"), (S,)))),
    (
        "CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE a, b) WITH (publish = 'Delete , insert')",
        CreatePublication(P, Objects(all_tables=True, excepted=(Name(("a",)), Name(("b",)))), ("insert", "delete")),
    ),
    ("CREATE PUBLICATION p FOR ALL TABLES WITH (publish = '')", CreatePublication(P, Objects(all_tables=True), ())),
    (
        "ALTER PUBLICATION p ADD TABLE t WHERE (a IS NULL -- )\n)",
        AlterPublication(P, AddObjects(Objects((PublishedTable(Name(("t",)), where="a IS NULL -- )"),)))),
    ),
    ("ALTER PUBLICATION p SET ALL TABLES", AlterPublication(P, SetObjects(Objects(all_tables=True)))),
    ("ALTER PUBLICATION p DROP TABLE t, u", AlterPublication(P, DropObjects(Objects(tables("t", "u"))))),
    ("ALTER PUBLICATION p SET (publish = 'update')", AlterPublication(P, SetOptions((("publish", "update"),)))),
    ("ALTER PUBLICATION p ACCEPT DEFINITION", AlterPublication(P, AcceptDefinition())),
    ("ALTER PUBLICATION p RENAME TO q", AlterPublication(P, Rename(Name(("q",))))),
    ("DROP PUBLICATION IF EXISTS p", DropPublication((P,), if_exists=True)),
    ("DROP PUBLICATION p, q.p, p CASCADE", DropPublication((P, Name(("q", "p"))))),
    ("DROP PUBLICATION restrict RESTRICT", DropPublication((Name(("restrict",)),))),
    ("DROP SUBSCRIPTION s CASCADE", DropSubscription(S)),
    (
        "CREATE PUBLICATION p WITH (publish_generated_columns, publish = insert)",
        CreatePublication(P, publish=("insert",), generated="stored"),
    ),
    (
        "ALTER PUBLICATION p SET (publish_generated_columns = None)",
        AlterPublication(P, SetOptions((("publish_generated_columns", "none"),))),
    ),
    ("ALTER SUBSCRIPTION s RESET STATISTICS", AlterSubscription(S, ResetStatistics())),
    (
        "CREATE SUBSCRIPTION s CONNECTION 'database=d' PUBLICATION p, `publication`",
        CreateSubscription(S, "database=d", ("p", "publication")),
    ),
    (
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH (enabled = off, create_slot = FALSE, slot_name = NONE, ORIGIN = 'none')",
        CreateSubscription(
            S, "", ("p",), (("enabled", "false"), ("create_slot", "false"), ("slot_name", "none"), ("origin", "none"))
        ),
    ),
    (
        "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH (connect = 0, slot_name = My_slot2, disable_on_error)",
        CreateSubscription(S, "", ("p",), (("connect", "false"), ("slot_name", "My_slot2"), ("disable_on_error", "true"))),
    ),
    ("ALTER SUBSCRIPTION s CONNECTION 'x'", AlterSubscription(S, SetConnection("x"))),
    ("ALTER SUBSCRIPTION s ADD PUBLICATION p, q", AlterSubscription(S, SetPublications("ADD", ("p", "q")))),
    (
        "ALTER SUBSCRIPTION s SET PUBLICATION p WITH (refresh = false)",
        AlterSubscription(S, SetPublications("SET", ("p",), (("refresh", "false"),))),
    ),
    ("ALTER SUBSCRIPTION s DROP PUBLICATION p", AlterSubscription(S, SetPublications("DROP", ("p",)))),
    (
        "ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)",
        AlterSubscription(S, RefreshPublication((("copy_data", "false"),))),
    ),
    ("ALTER SUBSCRIPTION s ENABLE", AlterSubscription(S, Enable())),
    ("ALTER SUBSCRIPTION s DISABLE", AlterSubscription(S, Disable())),
    ("ALTER SUBSCRIPTION s SET (slot_name = NONE)", AlterSubscription(S, SetOptions((("slot_name", "none"),)))),
    ("ALTER SUBSCRIPTION s SKIP (lsn = 12)", AlterSubscription(S, Skip(12))),
    ("ALTER SUBSCRIPTION s SKIP (lsn = NONE)", AlterSubscription(S, Skip(None))),
    ("ALTER SUBSCRIPTION s SKIP (lsn = 12, table = `my t`)", AlterSubscription(S, Skip(12, "my t"))),
    ("ALTER SUBSCRIPTION s SKIP (TABLE = 't', lsn = none)", AlterSubscription(S, Skip(None, "t"))),
    ("ALTER SUBSCRIPTION s ACCEPT DEFINITION", AlterSubscription(S, AcceptDefinition())),
    ("ALTER SUBSCRIPTION s RENAME TO t", AlterSubscription(S, Rename(Name(("t",))))),
    ("DROP SUBSCRIPTION s", DropSubscription(S)),
    ("APPLY SUBSCRIPTION d.s", ApplySubscription(Name(("d", "s")))),
    ("CREATE REPLICATION SLOT s FOR PUBLICATION p, q", CreateReplicationSlot(S, ("p", "q"))),
    ("DROP REPLICATION SLOT IF EXISTS s", DropReplicationSlot(S, if_exists=True)),
]


@pytest.mark.parametrize(("text", "statement"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_every_statement_reads_and_is_printed_so_that_it_reads_the_same(text: str, statement: AnyStatement) -> None:
    assert parse(text) == statement
    assert parse(f"-- AS (\n /* WHERE ( */ {text} ; -- last") == statement
    assert parse(to_sql(statement)) == statement


CREATE = "CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p"
REFUSED = [
    # exception, statement, a part of the message
    (
        InvalidStatement,
        f"{CREATE} WITH (connect = false, enabled = true)",
        "connect = false and enabled = true are mutually exclusive",
    ),
    (
        InvalidStatement,
        f"{CREATE} WITH (connect = false, create_slot)",
        "connect = false and create_slot = true are mutually exclusive",
    ),
    (
        InvalidStatement,
        f"{CREATE} WITH (connect = false, copy_data)",
        "connect = false and copy_data = true are mutually exclusive",
    ),
    (
        InvalidStatement,
        f"{CREATE} WITH (slot_name = NONE, enabled)",
        "slot_name = none and create_slot = true are mutually exclusive",
    ),
    (InvalidStatement, f"{CREATE} WITH (slot_name = NONE, create_slot = off)", "slot_name = none and enabled = true are mutually"),
    (InvalidStatement, f"{CREATE} WITH (enable = true)", "Did you mean `enabled`"),
    (InvalidStatement, f"{CREATE} WITH (enabled = maybe)", "enabled cannot be 'maybe'"),
    (InvalidStatement, f"{CREATE} WITH (origin = some)", "origin cannot be 'some'"),
    (InvalidStatement, f"{CREATE} WITH (slot_name = '')", "slot_name cannot be ''"),
    (InvalidStatement, f"{CREATE} WITH (slot_name = '../elsewhere')", "slot_name cannot be '../elsewhere'"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SET (slot_name = 'a slot')", "slot_name cannot be 'a slot'"),
    (
        InvalidStatement,
        "CREATE PUBLICATION p WITH (publish_generated_columns = 'true')",
        "publish_generated_columns cannot be 'true'",
    ),
    (InvalidStatement, f"{CREATE} WITH (enabled, enabled)", "enabled is written twice"),
    (InvalidStatement, f"{CREATE}, P", "'P' is listed twice"),
    (InvalidStatement, "CREATE PUBLICATION p WITH (publish = 'insert, upsert')", "nothing of the kind 'upsert' is published"),
    (InvalidStatement, "CREATE PUBLICATION p FOR TABLE t (a, A)", "listed twice"),
    (InvalidStatement, "CREATE PUBLICATION p FOR TABLES IN SCHEMA a.b.c", "two parts at most"),
    (InvalidStatement, "ALTER PUBLICATION p DROP TABLE t (a)", "without columns and WHERE"),
    (InvalidStatement, "ALTER PUBLICATION p DROP ALL TABLES", "without columns and WHERE"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SKIP (lsn = 'x')", "lsn = x is nothing to skip"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SKIP (table = t)", "table = t is nothing to skip"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SKIP (lsn = 'x', table = t)", "lsn = x is nothing to skip"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SKIP (lsn = 1, lsn = 2)", "the option lsn is written twice"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SKIP (lsn = 1, tables = t)", "there is no option tables here"),
    (InvalidStatement, f"ALTER SUBSCRIPTION s SKIP (lsn = {'9' * 5000})", "lsn = 9999"),
    (InvalidStatement, "ALTER SUBSCRIPTION s SET (enabled = true)", "there is no option enabled here"),
    (StatementSyntaxError, "CREATE PUBLICATION p FOR t", "expected"),
    (StatementSyntaxError, "CREATE PUBLICATION p FOR TABLE t WHERE ()", "expected"),
    (StatementSyntaxError, "ALTER SUBSCRIPTION s REFRESH", "expected PUBLICATION"),
]


@pytest.mark.parametrize(("kind", "text", "message"), REFUSED, ids=[text[:99] for _, text, _ in REFUSED])
def test_what_is_refused(kind: type[Exception], text: str, message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        parse(text)
