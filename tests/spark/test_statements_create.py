"""CREATE STREAM TABLE end to end: what each clause makes of the table, and how the statement may be written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, detail, done, folder, properties, shown, version

from streamtable.catalog.entries import find
from streamtable.definitions import create
from streamtable.delta.tables import Located
from streamtable.errors import InvalidStatement, NotSupported, StreamTableExists, StreamTableNotFound
from streamtable.refresh import run
from streamtable.refresh.run import Outcome
from streamtable.sessions.captured import CAPTURED

NORTH = "SELECT id, amount FROM sales WHERE region = 'north'"


def test_or_replace_gives_another_definition_and_contents_in_one_commit(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st SCHEDULE '1h' AS SELECT * FROM sales")
    assert answer(shop, f"CREATE OR REPLACE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {NORTH}")[0][:5] == (
        "spark_catalog.shop.st",
        "REINITIALIZE",
        "the table was replaced",
        1,
        4,
    )
    assert version(shop, "st") == 2
    assert_exact(shop, "st", NORTH)
    assert (
        shown(shop, "st")
        == f"CREATE STREAM TABLE `spark_catalog`.`shop`.`st`\nSCHEDULE MANUAL\nREFRESH MODE DIFFERENTIAL\nAS\n{NORTH}"
    )
    assert shop.sql("SELECT * FROM st VERSION AS OF 1").count() == 4
    shop.sql("UPDATE sales SET region = 'north' WHERE id = 2")
    assert done(shop, "REFRESH STREAM TABLE st") == ("DIFFERENTIAL", "1 of 1 sources changed")
    assert_exact(shop, "st", NORTH)


def test_without_a_schedule_the_setting_decides(shop: SparkSession) -> None:
    shop.sql("SET spark.streamtable.schedule.default = 5m")
    try:
        shop.sql(f"CREATE STREAM TABLE st AS {NORTH}")
        shop.sql(f"CREATE STREAM TABLE said SCHEDULE MANUAL AS {NORTH}")
        shop.sql("SET spark.streamtable.schedule.minimumSeconds = 600")
        with pytest.raises(InvalidStatement, match="5m"):
            shop.sql(f"CREATE STREAM TABLE too_often AS {NORTH}")
    finally:
        shop.sql("RESET spark.streamtable.schedule.default")
        shop.sql("RESET spark.streamtable.schedule.minimumSeconds")
    assert ["SCHEDULE '5m'" in shown(shop, name) for name in ("st", "said")] == [True, False]
    assert answer(shop, f"EXPLAIN CREATE OR REPLACE STREAM TABLE said AS {NORTH}")[-1][2].endswith("nothing changes")


def test_checksums_list_the_files_from_the_first_commit_on(shop: SparkSession) -> None:
    """Delta would look for them in the commit after one that does not."""
    shop.sql("CREATE STREAM TABLE st AS SELECT region, avg(amount) AS mean FROM sales GROUP BY region")
    listed = {
        (path.parts[-3].startswith("a"), path.stem): len(json.loads(path.read_text())["allFiles"])
        for path in folder(shop, "st").rglob("_delta_log/0*.crc")
    }
    assert listed == {(False, f"{0:020}"): 0, (False, f"{1:020}"): 1, (True, f"{0:020}"): 1}


def test_or_replace_creates_what_is_not_there(shop: SparkSession) -> None:
    assert done(shop, f"CREATE OR REPLACE STREAM TABLE st AS {NORTH}") == ("REINITIALIZE", "the table was created")
    assert_exact(shop, "st", NORTH)


def test_or_replace_leaves_nothing_of_the_old_clauses(shop: SparkSession) -> None:
    old = "COMMENT 'old' TBLPROPERTIES ('a' = '1', 'b' = '2', 'delta.enableChangeDataFeed' = 'false')"
    shop.sql(f"CREATE STREAM TABLE st (x COMMENT 'ex', y, z) SCHEDULE CALCULATED {old} AS SELECT * FROM sales")
    shop.sql("ALTER STREAM TABLE st SUSPEND")
    shop.sql(f"CREATE OR REPLACE STREAM TABLE st COMMENT 'new' TBLPROPERTIES ('b' = '3') AS {NORTH}")
    assert (detail(shop, "st")["description"], properties(shop, "st")) == ("new", {"b": "3"})
    assert detail(shop, "st")["properties"]["delta.enableChangeDataFeed"] == "true"
    assert [field.metadata for field in shop.table("st").schema] == [{}, {}]
    assert answer(shop, "SHOW STREAM TABLES")[0][1:4] == ("ACTIVE", "AUTO", "MANUAL")
    shop.sql(f"CREATE OR REPLACE STREAM TABLE st AS {NORTH}")
    assert (detail(shop, "st")["description"], properties(shop, "st")) == (None, {})


@pytest.mark.parametrize(
    ("layout", "another"),
    [
        ("CLUSTER BY (id)", "CLUSTER BY (amount)"),
        ("PARTITIONED BY (id)", ""),
        pytest.param("CLUSTER BY (id)", "", marks=pytest.mark.fuzz),
        pytest.param("", "CLUSTER BY (id)", marks=pytest.mark.fuzz),
    ],
)
def test_or_replace_keeps_the_layout_or_takes_another(shop: SparkSession, layout: str, another: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st {layout} AS SELECT id, amount FROM sales")
    for asked in (layout.replace("id", "ID"), another):
        assert done(shop, f"CREATE OR REPLACE STREAM TABLE st {asked} AS {NORTH}") == ("REINITIALIZE", "the table was replaced")
        assert_exact(shop, "st", NORTH)
        kept = detail(shop, "st")
        assert [*kept["partitionColumns"], *kept["clusteringColumns"]] == re.findall(r"\((\w+)\)", asked.lower())


def test_if_not_exists_leaves_what_is_there(shop: SparkSession) -> None:
    assert done(shop, f"CREATE STREAM TABLE IF NOT EXISTS st AS {NORTH}") == ("REINITIALIZE", "the table was created")
    before = shown(shop, "st")
    shop.sql("INSERT INTO sales VALUES (9, 'north', 90)")
    again = answer(shop, "CREATE STREAM TABLE IF NOT EXISTS st AS SELECT no_such_column FROM no_such_table")
    assert again == [("spark_catalog.shop.st", "NO_DATA", "the stream table exists already", 0, 0, 0, 1)]
    assert (shown(shop, "st"), shop.table("st").count()) == (before, 1)
    with pytest.raises(StreamTableExists, match=r"spark_catalog\.shop\.sales"):
        shop.sql("CREATE STREAM TABLE IF NOT EXISTS sales AS SELECT 1 AS one")


@pytest.mark.parametrize("clause", ["", "IF NOT EXISTS"])
def test_who_comes_second_to_a_name_does_not_take_the_first_ones_table(
    shop: SparkSession, monkeypatch: pytest.MonkeyPatch, clause: str
) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {NORTH}")
    looks = [(Located(("spark_catalog", "shop", "st"), "none", ""), None)]  # the name was free when the second looked
    monkeypatch.setattr(create, "find", lambda spark, name: looks.pop() if looks else find(spark, name))
    statement = f"CREATE STREAM TABLE {clause} st AS SELECT region FROM sales"
    if clause:
        assert done(shop, statement) == ("NO_DATA", "the stream table exists already")
    else:
        with pytest.raises(StreamTableExists, match=r"spark_catalog\.shop\.st is a stream table already"):
            shop.sql(statement)
    assert not looks
    assert_exact(shop, "st", NORTH)
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"


def while_it_is_filled(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let the next CREATE do something between its first effect and its last."""
    fill = run.populate

    def filled(*arguments: Any, **more: Any) -> Outcome:
        monkeypatch.undo()
        act()
        return fill(*arguments, **more)

    monkeypatch.setattr(create, "populate", filled)


def test_nobody_sees_a_table_before_it_is_whole(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def others_look() -> None:
        assert answer(shop, "SHOW TABLES LIKE 'st'") == answer(shop, "SHOW STREAM TABLES") == []
        with pytest.raises(InvalidStatement, match="is not empty"):
            shop.sql("CREATE STREAM TABLE st AS SELECT region FROM sales")  # and settles nothing of a statement that runs

    while_it_is_filled(monkeypatch, others_look)
    shop.sql(f"CREATE STREAM TABLE st AS {NORTH}")
    assert_exact(shop, "st", NORTH)


def test_a_failed_create_leaves_what_took_its_name(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    while_it_is_filled(monkeypatch, lambda: shop.sql("CREATE VIEW st AS SELECT 1 AS one"))
    with pytest.raises(StreamTableExists, match="a table or view already"):
        shop.sql(f"CREATE STREAM TABLE st AS {NORTH}")
    assert shop.table("st").collect() == [(1,)]
    shop.sql("DROP VIEW st")
    shop.sql(f"CREATE STREAM TABLE st AS {NORTH}")


def test_column_list_renames_and_comments(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st (Place COMMENT 'it''s where', `sum`) AS SELECT region, sum(amount) FROM sales GROUP BY region")
    schema = shop.table("st").schema
    assert schema.simpleString() == "struct<Place:string,sum:bigint>"
    assert [field.metadata for field in schema] == [{"comment": "it's where"}, {}]
    shop.sql("INSERT INTO sales VALUES (4, 'west', 40)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", "SELECT region AS Place, sum(amount) AS `sum` FROM sales GROUP BY region")


def test_nothing_is_not_null_at_any_depth(shop: SparkSession) -> None:
    query = "SELECT region, collect_list(named_struct('one', 1)) AS ones, map('n', named_struct('n', count(*))) AS counts FROM sales GROUP BY region"
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    schema = shop.table("st").schema
    assert schema == schema.toNullable() != shop.sql(query).schema
    shop.sql("INSERT INTO sales VALUES (4, 'west', 40), (5, 'north', 50)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", query)


def test_with_no_data_is_empty_until_the_first_refresh(shop: SparkSession) -> None:
    assert done(shop, f"CREATE STREAM TABLE st WITH NO DATA AS {NORTH}") == ("NO_DATA", "created WITH NO DATA")
    assert shop.table("st").columns == ["id", "amount"]
    assert shop.table("st").count() == 0
    assert answer(shop, "SHOW STREAM TABLES")[0][-3:] == (None, 0, None)
    assert ("source spark_catalog.shop.sales", "not read yet") in answer(shop, "DESCRIBE STREAM TABLE st")
    with pytest.raises(InvalidStatement, match="WITH NO DATA"):
        shop.sql("VERIFY STREAM TABLE st")
    hint = "REFRESH STREAM TABLE `spark_catalog`.`shop`.`st`"
    told = ("NO_DATA", f"the stream table exists already, but was never populated: {hint}")
    assert done(shop, f"CREATE STREAM TABLE IF NOT EXISTS st AS {NORTH}") == told, "as after a CREATE that was killed"
    assert answer(shop, "SELECT alert, text FROM alerts()") == [("NOT_POPULATED", hint)]
    assert done(shop, "REFRESH STREAM TABLE st") == ("REINITIALIZE", "the table was not populated yet")
    assert_exact(shop, "st", NORTH)
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    assert answer(shop, "SELECT alert FROM alerts()") == []
    assert done(shop, f"CREATE STREAM TABLE IF NOT EXISTS st AS {NORTH}") == ("NO_DATA", "the stream table exists already")


@pytest.mark.parametrize(("clause", "key"), [("PARTITIONED BY", "partitionColumns"), ("CLUSTER BY", "clusteringColumns")])
def test_layout(shop: SparkSession, clause: str, key: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st {clause} (region, id) AS SELECT id, amount, region FROM sales")
    assert detail(shop, "st")[key] == ["region", "id"]
    shop.sql("INSERT INTO sales VALUES (4, 'west', 40), (3, NULL, 31)")
    shop.sql("DELETE FROM sales WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", "SELECT id, amount, region FROM sales")
    assert detail(shop, "st")[key] == ["region", "id"]


def test_comment_and_properties_are_those_of_the_delta_table(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st COMMENT 'it''s \"new\"' TBLPROPERTIES ('team.of' = 'me', level = 3) AS {NORTH}")
    assert detail(shop, "st")["description"] == 'it\'s "new"'
    assert properties(shop, "st") == {"team.of": "me", "level": "3"}


def test_properties_that_hold_the_definition_are_refused(shop: SparkSession) -> None:
    keys = ("streamtable.status", "STREAMTABLE.Views", "streamtable.anything")
    for key in keys:
        with pytest.raises(InvalidStatement, match=key):
            shop.sql(f"CREATE STREAM TABLE st TBLPROPERTIES ('{key}' = 'x') AS {NORTH}")
    shop.sql(f"CREATE STREAM TABLE st AS {NORTH}")
    for key in keys:
        with pytest.raises(InvalidStatement, match=key):
            shop.sql(f"ALTER STREAM TABLE st SET TBLPROPERTIES ('{key}' = 'x')")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"


def test_properties_under_which_no_row_could_go_are_refused(shop: SparkSession) -> None:
    settings = ("'delta.enableDeletionVectors' = 'false'", "'Delta.AppendOnly' = 'TRUE'")
    for setting in settings:
        with pytest.raises(InvalidStatement, match="deletion vectors"):
            shop.sql(f"CREATE STREAM TABLE st TBLPROPERTIES ({setting}) AS SELECT id, amount FROM sales")
    shop.sql("CREATE STREAM TABLE st AS SELECT id, amount FROM sales")
    for setting in settings:
        with pytest.raises(InvalidStatement, match="leave the property out"):
            shop.sql(f"ALTER STREAM TABLE st SET TBLPROPERTIES ({setting})")
    shop.sql("DELETE FROM sales WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"


def test_location_holds_the_files_and_is_gone_with_the_table(shop: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "else where"
    shop.sql(f"CREATE STREAM TABLE st LOCATION '{place}' AS {NORTH}")
    assert (place / "_delta_log").is_dir()
    shop.sql("UPDATE sales SET amount = 11 WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", NORTH)
    with pytest.raises(NotSupported, match="where the table is"):
        shop.sql(f"CREATE OR REPLACE STREAM TABLE st LOCATION '{tmp_path}' AS {NORTH}")
    shop.sql("CREATE OR REPLACE STREAM TABLE st AS SELECT 1 AS one")
    assert f"LOCATION '{place}'" in shown(shop, "st")
    shop.sql("DROP STREAM TABLE st")
    assert not place.exists()


WRITTEN = [
    "create stream table st as {q}",
    "CREATE STREAM TABLE `st` AS {q};",
    "CREATE STREAM TABLE shop.st AS {q} ; ;\n",
    "CREATE STREAM TABLE `spark_catalog`.`shop`.`st` AS {q} -- the end",
    "-- first; a comment\n/* and /* another */ one */ CREATE /* in */ STREAM TABLE spark_catalog.shop.st AS\n{q};",
    "CREATE STREAM TABLE ST AS -- which?\n{q}",
]


SPELLED = ["st", "`st`", "shop.ST", "`spark_catalog`.shop.`st`"]


def test_ways_to_write_it(shop: SparkSession) -> None:
    for n, text in enumerate(WRITTEN):
        ((name, action, *_),) = answer(shop, text.format(q=NORTH))
        assert (name.casefold(), action) == ("spark_catalog.shop.st", "REINITIALIZE"), text
        written = SPELLED[n % len(SPELLED)]
        assert done(shop, f"/* again */ refresh Stream TABLE {written} ;")[0] == "NO_DATA"
        assert answer(shop, f"-- is it?\nVERIFY STREAM TABLE {written};")[0][1:] == (True, 0, 0)
        assert f"\n{NORTH}" in shown(shop, "st"), text
        shop.sql(f"DROP STREAM TABLE {written}")


def test_names_that_are_keywords(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE `select` AS SELECT id AS `from` FROM sales")
    shop.sql("CREATE STREAM TABLE refresh AS SELECT `from` FROM `select`")
    assert done(shop, "REFRESH STREAM TABLE refresh CASCADE")[0] == "NO_DATA"
    assert_exact(shop, "refresh", "SELECT id AS `from` FROM sales")
    assert answer(shop, "DROP STREAM TABLE `select` CASCADE") == [
        ("spark_catalog.shop.refresh", "DROPPED"),
        ("spark_catalog.shop.select", "DROPPED"),
    ]


def test_a_schema_or_catalog_that_is_not_there(shop: SparkSession) -> None:
    for name in ("nowhere.st", "spark_catalog.nowhere.st", "no_catalog.shop.st"):
        for statement in ("REFRESH", "VERIFY", "DROP", "DESCRIBE", "SHOW CREATE"):
            with pytest.raises(StreamTableNotFound, match=name):
                shop.sql(f"{statement} STREAM TABLE {name}")
        assert answer(shop, f"DROP STREAM TABLE IF EXISTS {name}") == []


def test_a_catalog_that_is_not_there_holds_no_new_table(shop: SparkSession) -> None:
    with pytest.raises(NotSupported, match="no_catalog"):
        shop.sql(f"CREATE STREAM TABLE no_catalog.shop.st AS {NORTH}")


def test_settings_are_those_of_the_session_that_creates_or_replaces(shop: SparkSession) -> None:
    quotient = "SELECT id / (id - id) AS q FROM sales"
    shop.conf.set("spark.sql.ansi.enabled", "false")
    try:
        shop.sql(f"CREATE STREAM TABLE st AS {quotient}")
    finally:
        shop.conf.unset("spark.sql.ansi.enabled")
    shop.sql("INSERT INTO sales VALUES (9, 'north', 90)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert answer(shop, "SELECT DISTINCT q FROM st") == [(None,)]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        shop.sql(f"CREATE OR REPLACE STREAM TABLE st AS {quotient}")
    assert shop.table("st").count() == 5


OTHERWISE_READ = {
    "spark.sql.ansi.doubleQuotedIdentifiers": ('SELECT "id" AS x FROM sales', "SELECT id AS x FROM sales"),
    "spark.sql.caseSensitive": (
        "SELECT t.a AS x, t.A AS y FROM (SELECT id AS a, amount AS A FROM sales) AS t",
        "SELECT id AS x, amount AS y FROM sales",
    ),
}
"""A query that the setting gives another meaning, and one that means that without it."""


@pytest.mark.parametrize("setting", OTHERWISE_READ)
def test_settings_that_say_how_the_query_is_read_hold_at_every_refresh(shop: SparkSession, setting: str) -> None:
    query, meant = OTHERWISE_READ[setting]
    shop.conf.set(setting, "true")
    shop.conf.set("spark.sql.files.maxRecordsPerFile", "1000")  # changes no answer
    try:
        shop.sql(f"CREATE STREAM TABLE st AS {query}")
    finally:
        shop.conf.unset(setting)
        shop.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert_exact(shop, "st", meant)
    assert _settings(shop) == {*CAPTURED, setting}
    shop.sql("INSERT INTO sales VALUES (9, 'north', 90)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", meant)
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1:] == (True, 0, 0)
    if setting in CAPTURED:
        return
    shop.sql(f"ALTER STREAM TABLE st AS {query.replace('AS x', 'AS z')}")  # the setting is not that of this session any more
    assert (answer(shop, "SELECT DISTINCT z FROM st"), _settings(shop)) == ([("id",)], set(CAPTURED))


def test_names_in_quotes_may_be_patterns(shop: SparkSession) -> None:
    patterns = "spark.sql.parser.quotedRegexColumnNames"
    shop.sql("CREATE OR REPLACE TABLE odd (`a.b` INT, ab INT, acb INT, k INT) USING delta")
    shop.sql("INSERT INTO odd VALUES (1, 2, 3, 4)")
    shop.conf.set(patterns, "true")
    try:
        shop.sql("CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS SELECT sum(k) AS k FROM odd GROUP BY `a.b`")
        shop.sql("CREATE STREAM TABLE patterned REFRESH MODE DIFFERENTIAL AS SELECT `a.b` FROM odd WHERE `a.b` < 9")
    finally:
        shop.conf.unset(patterns)
    shop.sql("INSERT INTO odd VALUES (1, 5, 6, 7), (9, 5, 6, 7)")
    for name, meant in {
        "st": "SELECT sum(k) AS k FROM odd GROUP BY `a.b`",
        "patterned": "SELECT `a.b`, acb FROM odd WHERE `a.b` < 9",
    }.items():
        assert done(shop, f"REFRESH STREAM TABLE {name}")[0] == "DIFFERENTIAL"
        assert_exact(shop, name, meant)
        assert answer(shop, f"VERIFY STREAM TABLE {name}")[0][1:] == (True, 0, 0)


def _settings(shop: SparkSession) -> set[str]:
    rows = answer(shop, "DESCRIBE STREAM TABLE EXTENDED st")
    return {key.removeprefix("setting ") for key, _ in rows if key.startswith("setting ")}


@pytest.mark.parametrize(
    ("clause", "query"),
    [
        ("", "SELECT id AS `the id` FROM sales"),
        ("TBLPROPERTIES ('delta.columnMapping.mode' = 'id')", "SELECT id FROM sales"),
    ],
)
def test_or_replace_keeps_column_mapping(shop: SparkSession, clause: str, query: str) -> None:
    """Delta cannot remove it: neither what the names of the columns needed, nor what a statement asked for."""
    shop.sql(f"CREATE STREAM TABLE st {clause} AS {query}")
    mapping = detail(shop, "st")["properties"]["delta.columnMapping.mode"]
    explained = answer(shop, f"EXPLAIN CREATE OR REPLACE STREAM TABLE st AS {query}")
    assert explained[-1][-1] == "the definition is the same; nothing changes"
    longer = query.replace(" FROM", ", amount FROM")
    for asked in (query, f"{query} WHERE id > 1", longer):
        shop.sql(f"CREATE OR REPLACE STREAM TABLE st AS {asked}")
        assert_exact(shop, "st", asked)
        assert detail(shop, "st")["properties"]["delta.columnMapping.mode"] == mapping
    shop.sql("INSERT INTO sales VALUES (9, 'west', 90)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    with pytest.raises(NotSupported, match="cannot drop (the )?id while it writes rows"):
        shop.sql("CREATE OR REPLACE STREAM TABLE st AS SELECT amount FROM sales")
    assert_exact(shop, "st", longer)
    without_feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
    shop.sql(f"CREATE OR REPLACE STREAM TABLE st {without_feed} AS SELECT amount FROM sales")
    assert_exact(shop, "st", "SELECT amount FROM sales")


def test_columns_of_any_name_under_column_mapping(shop: SparkSession) -> None:
    query = "SELECT id AS `the id`, named_struct('x;y', amount) AS `a,(b)` FROM sales"
    with pytest.raises(InvalidStatement, match="without column mapping"):
        shop.sql(f"CREATE STREAM TABLE named TBLPROPERTIES ('delta.columnMapping.mode' = 'none') AS {query}")
    shop.sql(f"CREATE STREAM TABLE named REFRESH MODE DIFFERENTIAL AS {query}")
    shop.sql("CREATE STREAM TABLE of_named AS SELECT `the id` % 2 AS odd, max(`a,(b)`.`x;y`) AS most FROM named GROUP BY ALL")
    shop.sql("UPDATE sales SET amount = amount + 1 WHERE id = 1")
    shop.sql("INSERT INTO sales VALUES (9, 'west', 90)")
    for name, its in {"named": query, "of_named": "SELECT id % 2 AS odd, max(amount) AS most FROM sales GROUP BY ALL"}.items():
        assert done(shop, f"REFRESH STREAM TABLE {name}")[0] == "DIFFERENTIAL"
        assert_exact(shop, name, its)
    shop.sql(f"ALTER STREAM TABLE named AS {query} WHERE id > 1")
    assert_exact(shop, "named", f"{query} WHERE id > 1")
    for name in ("of_named", "named"):
        shop.sql(f"DROP STREAM TABLE {name}")
