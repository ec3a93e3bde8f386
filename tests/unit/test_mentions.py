"""What a statement mentions, for each place of the grammar that holds a query, a condition, a name, or the text of a place.

Servers judge what is mentioned here, and nothing else of a statement of ours: a place that is missed is an open door. A new place in
the grammar fails `test_every_place_of_the_grammar_has_an_example`, until an example shows what is found there.
"""

from __future__ import annotations

import pytest
from tests.spark import guarded
from tests.spark.holders import COLUMNS, CONDITIONS, QUERIES
from tests.unit.embedded import NAMES, TEXTS, Way, found_in, ways

from streamtable.definitions.checks import check_properties
from streamtable.errors import InvalidStatement, StreamTableError
from streamtable.language.parse import parse
from streamtable.query.rewrite import rewritten
from streamtable.sql.literals import quote_name
from streamtable.statements.mentions import KINDS, mentioned

OBJECTS = (
    "TABLE b.one (k, v) WHERE (f1(v) > 0), c.two (k) WHERE (f2(v) > 0), TABLES IN SCHEMA d, e.three",
    "ALL TABLES EXCEPT (TABLE b.one, TABLE `c d`.two)",
)
_FULL = (
    "CREATE STREAM TABLE a.b.c (k, CONSTRAINT x EXPECT (f1(k) > 0), CONSTRAINT y EXPECT (f2(k) > 0) ON VIOLATION DROP ROW) "
    "FROZEN WHERE (f3(k) > 0) BACKFILL FROM d.e LOCATION '/there' TBLPROPERTIES ('a.b' = 'c') COMMENT 'd' AS SELECT f4(k) AS k FROM f"
)
CREATES = (
    _FULL,
    "CREATE OR REPLACE STREAM TABLE `a b` SCHEDULE '1h' AS WITH w AS (SELECT 1) SELECT x >= ALL (SELECT f1(y) FROM z) FROM w -- c",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS a AS SELECT 1",
)
SUBSCRIBES = (
    "SUBSCRIBE TO a.b.c ENVELOPE UPSERT (KEY (k))",
    "SUBSCRIBE delta.`/there`",
    "SUBSCRIBE TO (SELECT f1(k) FROM delta.`/there`) AS OF 1 UP TO 3",
)
STATEMENTS = (
    *CREATES,
    *(f"EXPLAIN {each}" for each in CREATES),
    "ALTER STREAM TABLE a ADD CONSTRAINT x EXPECT (f1(k) > 0)",
    "ALTER STREAM TABLE a SET FROZEN WHERE (f1(k) > 0)",
    "ALTER STREAM TABLE a.b RENAME TO c.d",
    "ALTER STREAM TABLE a AS SELECT f1(k) FROM b",
    "EXPLAIN ALTER STREAM TABLE a AS SELECT f1(k) FROM b",
    "DROP STREAM TABLE IF EXISTS a.b CASCADE",
    "REFRESH STREAM TABLE a, b.c FULL",
    *(f"{words} STREAM TABLES {of} a.b LIKE 'x'" for words, of in (("REFRESH", "IN"), ("SHOW", "FROM"), ("VERIFY", "IN"))),
    *(
        f"{words} a.b"
        for words in ("DESCRIBE STREAM TABLE", "SHOW CREATE STREAM TABLE", "EXPLAIN DELTA STREAM TABLE", "VERIFY STREAM TABLE")
    ),
    *(f"SHOW {words} FOR a.b" for words in ("REFRESH HISTORY", "STREAM TABLE DEPENDENCIES")),
    *SUBSCRIBES,
    *(f"COPY ({each}) TO STDOUT" for each in SUBSCRIBES),
    *(f"DECLARE x CURSOR FOR {each}" for each in SUBSCRIBES),
    "CREATE QUEUE a FOR SUBSCRIBE TO b.c",
    "CREATE QUEUE a FOR SUBSCRIBE TO (SELECT f1(k) FROM delta.`/there`) ENVELOPE DEBEZIUM (KEY (k))",
    "CREATE QUEUE a ON b.c KEY (k)",
    "CREATE QUEUE a ON delta.`/there` KEY (k) IGNORE (v) WHEN (f1(v) > 0) COLUMNS (f2(v) AS w)",
    "CREATE QUEUE a (k INT, v STRING)",
    "ALTER QUEUE a SET (max_count = 1)",
    "DROP QUEUE a",
    "PURGE QUEUE a",
    "REGISTER CONSUMER x ON a AT 3",
    "UNREGISTER CONSUMER x ON a",
    "SHOW QUEUES IN a.b",
    "SHOW CONSUMERS ON a.b",
    "NEXT BATCH FROM a FOR x WORKER y",
    "FINISH BATCH FROM a FOR x",
    "RETRY EVENTS FROM a FOR x WHERE (f1(k) > 0) AFTER '1m'",
    "GIVE UP EVENTS FROM a FOR x WHERE (f1(k) > 0)",
    "SHOW DEAD LETTERS FROM a FOR x",
    "REPLAY DEAD LETTERS FROM a FOR x WHERE (f1(k) > 0)",
    *(f"CREATE PUBLICATION a FOR {each}" for each in OBJECTS),
    *(f"ALTER PUBLICATION a {how} {each}" for how in ("ADD", "SET") for each in OBJECTS),
    "ALTER PUBLICATION a DROP TABLE b.one, c.two, TABLES IN SCHEMA d, e.three",
    "ALTER PUBLICATION a RENAME TO b",
    "DROP PUBLICATION a, b.c",
    "CREATE SUBSCRIPTION a CONNECTION 'warehouse=/there database=b' PUBLICATION x",
    "CREATE SUBSCRIPTION a CONNECTION 'remote=sc://host:15002 token_file=/token' PUBLICATION x",
    "ALTER SUBSCRIPTION a CONNECTION 'warehouse=\"/there and\" warehouse=/elsewhere'",
    "ALTER SUBSCRIPTION a RENAME TO b",
    "DROP SUBSCRIPTION a",
    "APPLY SUBSCRIPTION a",
    "CREATE REPLICATION SLOT a FOR PUBLICATION x",
    "DROP REPLICATION SLOT a",
)
"""Together they hold something in every place of the grammar."""

REFUSED = (
    "ALTER PUBLICATION a DROP ALL TABLES EXCEPT (TABLE b)",
    "ALTER PUBLICATION a DROP TABLE b WHERE (f1(k) > 0), c WHERE (f1(k) > 0)",
)
"""Statements of the grammar that mean nothing, and are refused as they are read."""

OTHERS = {
    "what is told to people": {
        "column string",
        "column_constraint string",
        "comment string",
        "commented string",
        "set_comment string",
    },
    "times and numbers": {
        "cron STRING",
        "every STRING",
        "fetch string",
        "operand STRING",
        "operand identifier",
        "quoted_span STRING",
        "retry string",
    },
    "patterns of names": {"pattern STRING"},
    "properties of the table, of which `check_properties` refuses what would be evaluated": {
        "property_key STRING",
        "property_key identifier",
        "property_value STRING",
    },
    "settings, each of which has a list of values or is a name": {
        "setting identifier",
        "setting_value STRING",
        "setting_value identifier",
    },
    "columns and expectations": {
        *(
            f"{each} identifier"
            for each in ("capture_key", "cluster_by", "column", "commented", "debezium", "drop_expectation", "expectation")
        ),
        *(f"{each} identifier" for each in ("ignore", "order_item", "partitioned_by", "published_columns", "upsert")),
    },
    "cursors, consumers and publications": {
        *(
            f"{each} identifier"
            for each in ("close", "declare", "fetch", "names_list", "reader", "register", "replay", "show_dead", "unregister")
        ),
    },
}
"""Strings and words that name nothing to look up, by the rules that hold them, and why."""

PLACES = {"location string": "new_places", "create_subscription string": "places", "set_connection string": "places"}
"""Strings that are places."""


OF_TYPES = ("create_queue", "events", "condition")
"""The columns of a queue are names and types (`test_columns_of_a_queue_have_nothing_that_is_evaluated`)."""


def held(*leaves: str) -> set[Way]:
    return {way for way in ways() if way[-1] in leaves}


def shown(*statements: str) -> set[Way]:
    return {each.way for statement in statements for each in found_in(statement)}


def test_every_place_of_the_grammar_has_an_example() -> None:
    assert held(*TEXTS, *NAMES) - shown(*STATEMENTS, *REFUSED) == set()


def test_every_string_and_word_of_the_grammar_is_known_to_name_nothing_or_is_judged() -> None:
    known = {*PLACES, *(each for several in OTHERS.values() for each in several)}
    assert {" ".join(way[-2:]) for way in held("string", "STRING", "identifier")} == known


@pytest.mark.parametrize("statement", STATEMENTS)
def test_all_that_a_statement_holds_is_mentioned(statement: str) -> None:
    told = mentioned(parse(statement))
    names, texts = list[list[str]](), list[tuple[str, str]]()
    for each in found_in(statement):
        kind = each.way[-1]
        if kind in (*NAMES, *TEXTS) and "capture" in each.way and told["queries"]:  # its clauses are a query
            assert (".".join(map(quote_name, each.parts)) or each.text) in told["queries"][0]
        elif kind in NAMES:
            names.append(list(each.parts))
        elif kind in TEXTS and each.way != OF_TYPES:
            texts.append(("queries" if kind in ("query", "inner_query") else "conditions", rewritten(each.text)))
    assert told["names"] == names
    if "capture" not in {rule for each in found_in(statement) for rule in each.way}:
        assert sorted((kind, text) for kind in ("queries", "conditions") for text in told[kind]) == sorted(texts)
    places = {PLACES.get(" ".join(each.way[-2:])) for each in found_in(statement)} - {None}
    assert all(told[str(place)] for place in places) and told.keys() == {*KINDS}


@pytest.mark.parametrize(
    ("connection", "places", "servers"),
    [
        ("warehouse=/there database=b", ["/there"], []),
        ('warehouse="/a b" warehouse=/c', ["/a b", "/c"], []),
        ("remote=sc://host:15002 token_file=/token", ["/token"], ["sc://host:15002"]),
        ("database=b", [], []),
    ],
)
def test_a_connection_names_places_and_servers(connection: str, places: list[str], servers: list[str]) -> None:
    for statement in (
        f"CREATE SUBSCRIPTION a CONNECTION '{connection}' PUBLICATION x",
        f"ALTER SUBSCRIPTION a CONNECTION '{connection}'",
    ):
        told = mentioned(parse(statement))
        assert (told["places"], told["servers"]) == (places, servers)


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_no_place_is_refused_as_it_is_read(statement: str) -> None:
    with pytest.raises(InvalidStatement):
        parse(statement)


@pytest.mark.parametrize("key", ["option.fs.a.impl", "FS.a.impl", "dfs.x", "Delta.Constraints.c"])
def test_no_property_of_a_table_is_evaluated(key: str) -> None:
    with pytest.raises(InvalidStatement):
        check_properties([(key, "f1(k) > 0")])


def test_every_place_for_a_text_is_one_where_tests_put_statements_and_code() -> None:
    """Those tests are tests/spark/test_only_queries.py and the guard's (guarded.CODE)."""
    where = held(*TEXTS) - shown(*REFUSED)
    conditions = {name: holder("f1(a) > 0") for name, holder in {**CONDITIONS, **COLUMNS}.items()}
    assert where - shown(*(holder("SELECT 1") for holder in QUERIES.values()), *conditions.values()) == set()
    assert where - {OF_TYPES} - shown(*filter(of_ours, guarded.CODE)) == set()


def of_ours(statement: str) -> bool:
    try:
        parse(statement)
    except StreamTableError:
        return False
    return True
