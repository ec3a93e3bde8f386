"""Definitions that the catalog does not know: of tables of version 0.1.0, and of publications that are read by path."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer, done, folder
from tests.spark.tampering import tamper
from tests.spark.test_definition_is_code import RAN, ran

from streamtable.catalog import accepted as known
from streamtable.delta.tables import find_table
from streamtable.errors import DefinitionNotAccepted, InvalidStatement
from streamtable.hosts.cli.doctor import _definitions
from streamtable.observe.unaccepted import unaccepted

QUERY = "SELECT id, region FROM sales"


def earlier(spark: SparkSession, name: str) -> None:
    """Make a table one that version 0.1.0 left: the catalog knows nothing of its definition, and the table does not know its name."""
    located = find_table(spark, ("spark_catalog", "shop", name))
    known._write(spark, located.name, None, [each["token"] for each in located.accepted])
    tamper(folder(spark, name), **{known.NAME: None})


def test_tables_of_version_0_1_0_are_listed_and_accepted_on_request(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    shop.sql(f"CREATE STREAM TABLE new AS {QUERY}")
    shop.sql("CREATE QUEUE q ON sales")
    shop.sql("CREATE PUBLICATION p FOR TABLE sales")
    for name in ("st", "q", "p"):
        earlier(shop, name)
    shop.sql("CREATE TABLE c SHALLOW CLONE st")
    nouns = {"p": "PUBLICATION", "q": "QUEUE", "st": "STREAM TABLE"}
    statements = [f"ALTER {noun} `spark_catalog`.`shop`.`{name}` ACCEPT DEFINITION" for name, noun in nouns.items()]
    for statement in ("REFRESH STREAM TABLE st", "REGISTER CONSUMER w ON q", "ALTER PUBLICATION p SET (publish = 'insert')"):
        with pytest.raises(DefinitionNotAccepted, match="ACCEPT DEFINITION accepts it"):
            shop.sql(statement)
    with pytest.raises(InvalidStatement, match="a copy of the stream table"):
        shop.sql("ALTER STREAM TABLE c ACCEPT DEFINITION")
    assert list(unaccepted(shop)) == statements
    looked = _definitions(shop, accept=False)
    assert not looked.ok and looked.found == "; ".join(statements) and "streamtable doctor --accept" in looked.remedy
    assert _definitions(shop, accept=True).ok and _definitions(shop, accept=False).ok
    shop.sql("INSERT INTO sales VALUES (7, 'x', 1)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    shop.sql("REGISTER CONSUMER w ON q")
    shop.sql("DROP QUEUE q FORCE")
    shop.sql("DROP PUBLICATION p")
    assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == ["spark_catalog.shop.new", "spark_catalog.shop.st"]


@pytest.mark.parametrize(
    "condition",
    [
        f"{RAN} IS NULL",
        "from_protobuf(to_binary(region), 'm', '/etc/passwd') IS NULL",
        "from_xml(region, 'a INT', map('rowValidationXSDPath', '/etc/passwd')) IS NULL",
    ],
)
def test_the_condition_of_a_publication_that_is_read_by_path_runs_no_code(
    shop: SparkSession, tmp_path: Path, condition: str
) -> None:
    """Whoever may write the publisher's folder chooses what is sent, and nothing more."""
    shop.sql("CREATE PUBLICATION p FOR TABLE sales WHERE (id > 1)")
    published = tmp_path / "shop.db"
    for name in ("sales", "p"):
        shutil.copytree(folder(shop, name), published / name)
    kept = dict(answer(shop, "SHOW TBLPROPERTIES p"))["streamtable.object.publication"]
    tamper(
        published / "p",
        **{
            "streamtable.object.publication": json.dumps(
                json.loads(kept) | {"sql": json.loads(kept)["sql"].replace("id > 1", condition)}
            )
        },
    )
    shop.sql("CREATE DATABASE copies")
    shop.sql("CREATE TABLE copies.sales (id INT, region STRING, amount INT) USING delta")
    with pytest.raises(InvalidStatement, match="runs code or reads files"):
        shop.sql(
            f"CREATE SUBSCRIPTION copies.s CONNECTION 'warehouse={tmp_path} database=shop' PUBLICATION p WITH (create_slot = false, slot_name = NONE, enabled = false, connect = true)"
        )
    assert ran(shop) is None
    shop.sql("DROP PUBLICATION p")
    shop.sql("DROP DATABASE copies CASCADE")
