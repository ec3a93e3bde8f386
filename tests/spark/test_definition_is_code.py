"""A definition is code: the catalog has to know it before anything of it runs, and a copy of a stream table is an ordinary table."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, folder
from tests.spark.tampering import Action, reshape, tamper

from streamtable.catalog.index import Index
from streamtable.errors import (
    DefinitionNotAccepted,
    DefinitionUnreadable,
    DirectWriteRefused,
    InvalidStatement,
    QueueNotFound,
    ReplicationObjectNotFound,
    StreamTableNotFound,
)
from streamtable.jvm.gateway import java_class
from streamtable.refresh import records
from streamtable.replication.stored import default_of

ALL = "SELECT id, region FROM sales"
RAN = "reflect('java.lang.System', 'setProperty', 'streamtable.ran', 'yes')"


def ran(spark: SparkSession) -> object:
    return java_class(spark, "java.lang.System").getProperty("streamtable.ran")


@pytest.fixture
def st(shop: SparkSession) -> Iterator[Path]:
    """Return the folder of a stream table, beside another one."""
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql(f"CREATE STREAM TABLE other AS {ALL}")
    yield folder(shop, "st")
    assert ran(shop) is None


STATEMENTS = (
    "REFRESH STREAM TABLE st",
    "REFRESH STREAM TABLE st FULL",
    "REFRESH STREAM TABLE st CASCADE",
    "VERIFY STREAM TABLE st",
    "EXPLAIN STREAM TABLE st",
    "EXPLAIN DELTA STREAM TABLE st",
    "DESCRIBE STREAM TABLE st",
    "SHOW CREATE STREAM TABLE st",
    "SHOW REFRESH HISTORY FOR st",
    "ALTER STREAM TABLE st RESUME",
    "ALTER STREAM TABLE st SUSPEND",
    "ALTER STREAM TABLE st SET SCHEDULE '1h'",
    "ALTER STREAM TABLE st SET REFRESH MODE DIFFERENTIAL",
    "ALTER STREAM TABLE st RENAME TO st2",
    f"ALTER STREAM TABLE st AS {ALL}",
    f"EXPLAIN ALTER STREAM TABLE st AS {ALL}",
    f"CREATE OR REPLACE STREAM TABLE st AS {ALL}",
    "SELECT * FROM staleness('st')",
)


def test_a_definition_that_was_changed_in_the_folder_runs_nowhere(shop: SparkSession, st: Path) -> None:
    evil = f"CREATE STREAM TABLE `spark_catalog`.`shop`.`st` SCHEDULE '1s' AS SELECT id, {RAN} AS region FROM sales"
    shop.sql("CREATE STREAM TABLE above AS SELECT id FROM st")
    tamper(st, **{"streamtable.definition": evil})
    for statement in STATEMENTS:
        with pytest.raises(DefinitionNotAccepted, match=r"streamtable\.definition is now .*SCHEDULE '1s'") as refused:
            shop.sql(statement).collect()
        assert "ALTER STREAM TABLE `spark_catalog`.`shop`.`st` ACCEPT DEFINITION" in str(refused.value)
    listed = "SELECT name, status, error FROM stream_tables() WHERE name LIKE '%.shop.%' ORDER BY name"
    shown = [(row[0], row[1], row[-1]) for row in answer(shop, "SHOW STREAM TABLES")]
    assert shown == answer(shop, listed)
    assert [row[:2] for row in shown] == [
        ("spark_catalog.shop.above", "ACTIVE"),
        ("spark_catalog.shop.other", "ACTIVE"),
        ("spark_catalog.shop.st", "UNREADABLE"),
    ]
    assert "streamtable.definition is now" in shown[-1][-1]
    assert str(st) not in Index(shop).poll()
    with pytest.raises(Exception, match=r"st is read by spark_catalog\.shop\.above"):
        shop.sql("DROP STREAM TABLE st")
    assert answer(shop, "DROP STREAM TABLE st CASCADE") == [(f"spark_catalog.shop.{name}", "DROPPED") for name in ("above", "st")]
    assert not st.exists()


PARTS: tuple[tuple[str, str | None], ...] = (
    ("streamtable.namespace", '["spark_catalog", "default"]'),
    ("streamtable.settings", "{}"),
    ("streamtable.sources", "{}"),
    ("streamtable.views", '["v"]'),
    ("streamtable.functions", '["f"]'),
    ("streamtable.id", "another"),
    ("streamtable.format", None),
    ("streamtable.format", "99"),
    ("streamtable.later", "x"),
    ("streamtable.name", '["spark_catalog", "shop", "other"]'),
    ("delta.constraints.c", f"{RAN} IS NULL"),
)


SOME_PARTS = tuple(part for part in PARTS if part[0].rpartition(".")[2] in ("namespace", "sources", "format", "later", "c"))
"""One that names a place, one that names tables, what is missing or of another version, what is new, and what is Delta's."""


@pytest.mark.parametrize("parts", [SOME_PARTS, pytest.param(PARTS, marks=pytest.mark.fuzz)], ids=["some", "all"])
def test_every_part_of_a_definition_counts(shop: SparkSession, st: Path, parts: tuple[tuple[str, str | None], ...]) -> None:
    before = [json.loads(line) for line in (st / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    for n, (key, value) in enumerate(parts):
        kept = next(action["metaData"]["configuration"].get(key) for action in before if "metaData" in action)
        tamper(st, **{key: value})
        shop.sql(f"INSERT INTO sales VALUES ({70 + n}, 'x', 1)")
        with pytest.raises(DefinitionNotAccepted, match=key.replace(".", r"\.")):
            shop.sql("REFRESH STREAM TABLE st")
        tamper(st, **{key: kept})  # it is the accepted one again
        assert done(shop, "REFRESH STREAM TABLE st")[0] != "FAILED", key
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1] is True


def test_how_a_table_fares_is_no_code(shop: SparkSession, st: Path) -> None:
    tamper(st, **{"streamtable.status": "SUSPENDED"})
    shop.sql("ALTER STREAM TABLE st RESUME")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"


def test_a_definition_is_accepted_on_request(shop: SparkSession, st: Path) -> None:
    other = "CREATE STREAM TABLE `spark_catalog`.`shop`.`st` AS SELECT id + 1 AS id, region FROM sales"
    tamper(st, **{"streamtable.definition": other})
    assert answer(shop, "ALTER STREAM TABLE st ACCEPT DEFINITION") == [("spark_catalog.shop.st", "ACTIVE")]
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "REINITIALIZE"
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1] is True
    tamper(st, **{"streamtable.settings": "{"})
    with pytest.raises(DefinitionUnreadable, match=r"spark_catalog\.shop\.st cannot be read"):
        shop.sql("ALTER STREAM TABLE st ACCEPT DEFINITION")
    shop.sql("DROP STREAM TABLE st")


def test_a_table_of_an_earlier_version_is_refused_until_it_is_accepted(shop: SparkSession, st: Path) -> None:
    copied = Path(shutil.copytree(st, st.parent / "earlier"))
    renamed = f"CREATE STREAM TABLE `spark_catalog`.`shop`.`earlier` AS {ALL}"
    tamper(copied, **{"streamtable.definition": renamed, "streamtable.name": None})
    shop.sql(f"CREATE TABLE earlier USING delta LOCATION '{copied}'")
    with pytest.raises(DefinitionNotAccepted, match="which the catalog has not accepted"):
        shop.sql("REFRESH STREAM TABLE earlier")
    assert "spark_catalog.shop.earlier" not in [row[0] for row in answer(shop, "SHOW STREAM TABLES")]
    shop.sql("ALTER STREAM TABLE earlier ACCEPT DEFINITION")
    shop.sql("INSERT INTO sales VALUES (7, 'x', 1)")
    assert done(shop, "REFRESH STREAM TABLE earlier")[0] == "DIFFERENTIAL"
    for direct in ("INSERT INTO earlier VALUES (1, 'x')", f"INSERT INTO delta.`{copied}` VALUES (1, 'x')"):
        with pytest.raises(DirectWriteRefused):
            shop.sql(direct)
    shop.sql("DROP STREAM TABLE earlier")


def killed(*arguments: Any, **more: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "statement", ["ALTER STREAM TABLE st SET SCHEDULE '1h'", "CREATE OR REPLACE STREAM TABLE st AS TABLE sales"]
)
def test_a_change_that_was_killed_leaves_the_table_as_it_was(
    shop: SparkSession, st: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Killed between the digest and the commit, or between the commit and the end: the statement again goes through."""
    with monkeypatch.context() as killing:
        killing.setattr(records, "commit", killed)
        killing.setattr("streamtable.refresh.execute.commit", killed)
        with pytest.raises(Exception, match="ZeroDivisionError"):
            shop.sql(statement)
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    with monkeypatch.context() as killing:
        killing.setattr("streamtable.catalog.accepted.suppress", killed)  # what comes behind the commit
        with pytest.raises(Exception, match="ZeroDivisionError"):
            shop.sql(statement)
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    shop.sql("ALTER STREAM TABLE st SET SCHEDULE '2h'")
    assert len(accepted(shop, "st")) == 1


def accepted(spark: SparkSession, name: str) -> list[dict[str, Any]]:
    identifier = java_class(spark, "org.apache.spark.sql.catalyst.TableIdentifier")(name, spark._jvm.scala.Option.apply("shop"))  # type: ignore[union-attr]
    entry = spark._jsparkSession.sessionState().catalog().getTableMetadata(identifier)
    found: list[dict[str, Any]] = json.loads(entry.storage().properties().apply("streamtable.accepted"))
    return found


def test_of_two_who_change_a_table_at_once_the_second_locks_nobody_out(
    shop: SparkSession, st: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = records.commit  # type: ignore[attr-defined]

    def second(*arguments: Any, **more: Any) -> Any:
        monkeypatch.undo()
        shop.sql("ALTER STREAM TABLE st SET SCHEDULE '3h'")  # another session comes first
        return commit(*arguments, **more)

    monkeypatch.setattr(records, "commit", second)
    shop.sql("ALTER STREAM TABLE st SET SCHEDULE '2h'")
    assert "SCHEDULE '2h'" in answer(shop, "SHOW CREATE STREAM TABLE st")[0][0]
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    shop.sql("ALTER STREAM TABLE st SET SCHEDULE '4h'")
    assert [each["name"] for each in accepted(shop, "st")] == [["shop", "st"]]


def test_delta_writes_no_digest_into_the_catalog(shop: SparkSession, st: Path) -> None:
    before, evil = accepted(shop, "st"), f"CREATE STREAM TABLE `spark_catalog`.`shop`.`st` AS SELECT id, {RAN} AS region FROM sales"
    tamper(st, **{"streamtable.definition": evil, "streamtable.accepted": json.dumps(before)})
    with_columns = "spark.databricks.delta.catalog.update.enabled"
    shop.sql(f"SET {with_columns} = true")
    try:
        shop.sql("OPTIMIZE st")
        shop.sql("OPTIMIZE st ZORDER BY (id)")
        java_class(shop, "org.apache.spark.sql.delta.hooks.UpdateCatalog").awaitCompletion(10_000)
    finally:
        shop.sql(f"RESET {with_columns}")
    assert accepted(shop, "st") == before
    with pytest.raises(DefinitionNotAccepted):
        shop.sql("REFRESH STREAM TABLE st")


def test_a_constraint_in_a_hidden_table_is_not_evaluated(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE means AS SELECT region, avg(amount) AS mean FROM sales GROUP BY region")
    (log,) = (folder(shop, "means") / "_streamtable").glob("*/*/_delta_log")
    tamper(log.parent, **{"delta.constraints.c": f"{RAN} IS NULL"})
    shop.sql("INSERT INTO sales VALUES (8, 'west', 1)")
    with pytest.raises(DefinitionNotAccepted, match="the expression c"):
        shop.sql("REFRESH STREAM TABLE means")
    assert ran(shop) is None
    shop.sql("DROP STREAM TABLE means")


def with_column(metadata: dict[str, str]) -> Callable[[list[Action]], list[Action]]:
    more: Action = {"name": "more", "type": "string", "nullable": True, "metadata": metadata}
    return lambda fields: [*[each for each in fields if each["name"] != "more"], more]


PLANTED: dict[str, dict[str, str]] = {
    "the default of more": {"CURRENT_DEFAULT": RAN},
    "the generated column more": {"delta.generationExpression": RAN},
    "the invariant on more": {"delta.invariants": json.dumps({"expression": {"expression": f"{RAN} IS NULL"}})},
}


@pytest.mark.parametrize("key", ["FULL", "id"])
def test_what_the_log_of_a_subscribers_table_holds_runs_no_code(shop: SparkSession, key: str) -> None:
    shop.sql("CREATE DATABASE copies")
    features = "TBLPROPERTIES (delta.feature.allowColumnDefaults = 'enabled')"
    shop.sql(f"CREATE TABLE copies.sales (id INT, region STRING, amount INT) USING delta {features}")
    shop.sql(f"ALTER TABLE sales SET TBLPROPERTIES (streamtable.replicaIdentity = '{key}')")
    shop.sql("DELETE FROM sales WHERE id < 10")
    shop.sql("CREATE PUBLICATION p FOR TABLE sales")
    shop.sql("CREATE SUBSCRIPTION copies.s CONNECTION 'database=shop' PUBLICATION p")
    shop.sql("APPLY SUBSCRIPTION copies.s")
    place = folder(shop, "copies.sales")
    for n, (what, planted) in enumerate(PLANTED.items()):
        shop.sql(f"INSERT INTO sales VALUES ({20 + n}, 'x', 1)")
        reshape(place, with_column(planted), "allowColumnDefaults", "generatedColumns", "invariants")
        with pytest.raises(DefinitionNotAccepted, match=f"{what} (?s:.)*calls reflect, which runs code(?s:.)*DESCRIBE HISTORY"):
            shop.sql("APPLY SUBSCRIPTION copies.s")
    reshape(place, with_column({"CURRENT_DEFAULT": "concat('a', 'b')"}))
    tamper(place, **{"delta.constraints.c": f"{RAN} IS NULL"})
    with pytest.raises(DefinitionNotAccepted, match=r"the constraint c of spark_catalog\.copies\.sales calls reflect"):
        shop.sql("APPLY SUBSCRIPTION copies.s")
    tamper(place, **{"delta.constraints.c": "id > 0"})
    shop.sql("APPLY SUBSCRIPTION copies.s")
    assert answer(shop, "SELECT id, more FROM copies.sales ORDER BY id") == [(20 + n, "ab") for n in range(len(PLANTED))]
    assert ran(shop) is None
    shop.sql("DROP SUBSCRIPTION copies.s")
    shop.sql("DROP PUBLICATION p")
    shop.sql("DROP DATABASE copies CASCADE")


CONSTANTS = {
    "'a'": "a",
    "1 + 1": "2",
    "upper(concat('a', 'b'))": "AB",
    "nvl(NULL, 'x')": "x",
    "to_date('2026-01-02')": "2026-01-02",
    "builtin.lower('A')": "a",
    "NULL": None,
}
CLOCKS = ("current_date()", "current_timestamp()", "now()", "current_user()", "current_catalog()", "date_add(current_date(), 1)")
NO_CONSTANTS = {
    RAN: "calls reflect, which runs code or reads files",
    "java_method('java.lang.System', 'lineSeparator')": "calls java_method",
    "upper(system.builtin.try_reflect('java.lang.System', 'lineSeparator'))": "calls system.builtin.try_reflect",
    "from_xml('<a/>', 'b INT', map('rowValidationXSDPath', '/etc/passwd')).b": "calls from_xml",
    "from_xml('<a/>', 'b INT', map(concat('rowValidation', 'XSDPath'), '/etc/passwd')).b": "calls from_xml",
    "by_python('a')": "calls by_python, which is no function of Spark's own",
    "shop.mine()": "calls shop.mine",
    "IDENTIFIER('shop.mine')()": "calls IDENTIFIER",
    "(SELECT max(region) FROM sales)": "a subquery",
    "rand()": "not the same for all rows",
    "uuid()": "not the same for all rows",
    "max('a')": "not the same for all rows",
    "explode(array('a'))": "not the same for all rows",
    "region": "region",
    "upper(": "is no constant",
}


def test_the_default_of_a_column_is_a_constant(shop: SparkSession) -> None:
    def default(text: str) -> object:
        column = StructField("d", StringType(), True, {"CURRENT_DEFAULT": text})
        return shop.table("sales").limit(1).select(default_of(shop, column, "t")).collect()[0][0]

    shop.sql("CREATE FUNCTION shop.mine () RETURNS STRING RETURN 'a'")
    shop.udf.register("by_python", lambda x: x, "string")
    assert {text: default(text) for text in CONSTANTS} == CONSTANTS
    assert all(default(text) for text in CLOCKS)
    for text, why in NO_CONSTANTS.items():
        with pytest.raises(DefinitionNotAccepted, match=re.escape(why)) as refused:
            default(text)
        assert "ALTER TABLE t ALTER COLUMN `d` DROP DEFAULT" in str(refused.value)
    assert ran(shop) is None
    shop.sql("DROP TEMPORARY FUNCTION by_python")


def second_name(spark: SparkSession, st: Path) -> None:
    spark.sql(f"CREATE TABLE c USING delta LOCATION '{st}'")


def copied_folder(spark: SparkSession, st: Path) -> None:
    spark.sql(f"CREATE TABLE c USING delta LOCATION '{shutil.copytree(st, st.parent / 'copied')}'")


def copied_properties(spark: SparkSession, st: Path) -> None:
    builder = DeltaTable.create(spark).tableName("c").addColumn("id", "INT").addColumn("region", "STRING")
    for key, value in spark.sql("SHOW TBLPROPERTIES st").collect():
        if key.startswith("streamtable."):
            builder.property(key, value)
    builder.execute()


def sql(text: str) -> Callable[[SparkSession, Path], object]:
    return lambda spark, st: spark.sql(text)


COPIES: dict[str, Callable[[SparkSession, Path], object]] = {
    "a shallow clone": sql("CREATE TABLE c SHALLOW CLONE st"),
    "LIKE": sql("CREATE TABLE c LIKE st"),
    "a second name": second_name,
    "a copied folder": copied_folder,
    "copied properties": copied_properties,
    "properties by hand": sql(
        "CREATE TABLE c (id INT, region STRING) USING delta TBLPROPERTIES ('streamtable.format' = '1', 'streamtable.definition' = 'x')"
    ),
}


IN_COPIES = ("LIKE", "copied properties")
"""The ways of which test_copies.py has the like in the pipeline; `./run fuzz -k copy_is_an_ordinary` has all."""


@pytest.mark.parametrize("how", in_turn(COPIES, COPIES.keys() - IN_COPIES))
def test_a_copy_is_an_ordinary_table(shop: SparkSession, st: Path, how: str) -> None:
    COPIES[how](shop, st)
    assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == ["spark_catalog.shop.other", "spark_catalog.shop.st"]
    assert len(Index(shop).poll()) == 2
    ours = how != "properties by hand"  # what looks like a table of an earlier version may be accepted, if it can be read
    for statement in ("REFRESH STREAM TABLE c", "DROP STREAM TABLE c", "ALTER STREAM TABLE c RENAME TO d"):
        with pytest.raises(StreamTableNotFound if ours else DefinitionNotAccepted):
            shop.sql(statement)
    with pytest.raises(InvalidStatement if ours else DefinitionUnreadable):
        shop.sql("ALTER STREAM TABLE c ACCEPT DEFINITION")
    writes = ("INSERT INTO c VALUES (1, 'x')", "UPDATE c SET region = 'y'", "ALTER TABLE c SET TBLPROPERTIES ('k' = 'v')")
    for write in writes:
        if how == "a second name":
            with pytest.raises(DirectWriteRefused, match=r"shop\.st"):
                shop.sql(write)
        else:
            shop.sql(write)
    shop.sql("ALTER TABLE c RENAME TO d")
    shop.sql("DROP TABLE d")
    for path in (st, st.parent / "link"):
        if path != st:
            path.symlink_to(st)
        with pytest.raises(DirectWriteRefused, match=r"shop\.st"):
            shop.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x')")
    (st.parent / "link").unlink()
    assert answer(shop, "SELECT count(*) FROM st") == answer(shop, "SELECT count(*) FROM sales")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    shutil.rmtree(st.parent / "copied", ignore_errors=True)


def test_a_stream_table_that_spark_renamed_is_ordinary_until_it_is_accepted(shop: SparkSession, st: Path) -> None:
    shop.sparkContext.setLocalProperty("streamtable.engine", "true")  # as in a session that does not know us
    shop.sql("ALTER TABLE st RENAME TO moved")
    shop.sparkContext.setLocalProperty("streamtable.engine", None)  # type: ignore[arg-type]
    with pytest.raises(StreamTableNotFound):
        shop.sql("REFRESH STREAM TABLE moved")
    assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == ["spark_catalog.shop.other"]
    assert answer(shop, "ALTER STREAM TABLE moved ACCEPT DEFINITION") == [("spark_catalog.shop.moved", "ACTIVE")]
    assert done(shop, "REFRESH STREAM TABLE moved")[0] != "FAILED"
    assert answer(shop, "VERIFY STREAM TABLE moved")[0][1] is True


def test_what_a_queue_holds_is_code(shop: SparkSession) -> None:
    shop.sql("CREATE QUEUE q ON sales WHEN (id > 1)")
    shop.sql("CREATE QUEUE r ON sales")
    shop.sql("CREATE TABLE c SHALLOW CLONE q")
    assert [row[0] for row in answer(shop, "SHOW QUEUES")] == ["spark_catalog.shop.q", "spark_catalog.shop.r"]
    with pytest.raises(QueueNotFound):
        shop.sql("REGISTER CONSUMER w ON c")
    shop.sql("DROP TABLE c")
    shop.sql("ALTER QUEUE q SET (max_count = 5)")
    log = folder(shop, "q")
    text = json.loads(dict(answer(shop, "SHOW TBLPROPERTIES q"))["streamtable.object.queue"])
    tamper(log, **{"streamtable.object.queue": json.dumps(text | {"sql": text["sql"].replace("id > 1", f"{RAN} IS NULL")})})
    for statement in ("REGISTER CONSUMER w ON q", "ALTER QUEUE q SET (max_count = 6)", "SHOW CONSUMERS ON q"):
        with pytest.raises(DefinitionNotAccepted, match="sql is now"):
            shop.sql(statement)
    assert [row[0] for row in answer(shop, "SHOW QUEUES")] == ["spark_catalog.shop.r"]
    tamper(log, **{"streamtable.object.queue": json.dumps(text | {"sql": text["sql"].replace("id > 1", "id > 2")})})
    assert answer(shop, "ALTER QUEUE q ACCEPT DEFINITION")[0][0] == "spark_catalog.shop.q"
    shop.sql("REGISTER CONSUMER w ON q")
    assert ran(shop) is None
    for name in ("q", "r"):
        shop.sql(f"DROP QUEUE {name} FORCE")


def test_what_publications_and_subscriptions_hold_is_code(shop: SparkSession) -> None:
    shop.sql("CREATE DATABASE copies")
    shop.sql("CREATE TABLE copies.sales (id INT, region STRING, amount INT) USING delta")
    shop.sql("CREATE PUBLICATION p FOR TABLE sales WHERE (id > 1)")
    shop.sql("CREATE SUBSCRIPTION copies.s CONNECTION 'database=shop' PUBLICATION p")
    shop.sql("CREATE TABLE c SHALLOW CLONE p")
    with pytest.raises(ReplicationObjectNotFound):
        shop.sql("ALTER PUBLICATION c SET ALL TABLES")
    shop.sql("DROP TABLE c")
    for _ in range(3):
        shop.sql("APPLY SUBSCRIPTION copies.s")
    rows = answer(shop, "SELECT count(*) FROM copies.sales")
    sent, followed = folder(shop, "p"), folder(shop, "copies.s")
    kept = dict(answer(shop, "SHOW TBLPROPERTIES p"))["streamtable.object.publication"]
    tamper(sent, **{"streamtable.object.publication": kept.replace("id > 1", f"{RAN} IS NULL")})
    shop.sql("INSERT INTO sales VALUES (9, 'x', 1)")
    with pytest.raises(DefinitionNotAccepted, match="ALTER PUBLICATION `spark_catalog`.`shop`.`p` ACCEPT DEFINITION"):
        shop.sql("APPLY SUBSCRIPTION copies.s")
    tamper(sent, **{"streamtable.object.publication": kept})
    said = dict(answer(shop, "SHOW TBLPROPERTIES copies.s"))["streamtable.object.subscription"]
    tamper(followed, **{"streamtable.object.subscription": said.replace("database=shop", "warehouse=/elsewhere")})
    with pytest.raises(DefinitionNotAccepted, match="connection is now"):
        shop.sql("APPLY SUBSCRIPTION copies.s")
    assert answer(shop, "SELECT name FROM subscriptions() WHERE name LIKE '%copies%'") == []
    tamper(followed, **{"streamtable.object.subscription": said})
    shop.sql("ALTER SUBSCRIPTION copies.s ACCEPT DEFINITION")
    shop.sql("ALTER SUBSCRIPTION copies.s RENAME TO copies.t")
    shop.sql("APPLY SUBSCRIPTION copies.t")
    assert answer(shop, "SELECT count(*) FROM copies.sales") == [(rows[0][0] + 1,)]
    assert ran(shop) is None
    shop.sql("DROP SUBSCRIPTION copies.t")
    shop.sql("DROP PUBLICATION p")
    shop.sql("DROP DATABASE copies CASCADE")
