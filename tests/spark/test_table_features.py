"""Tables with a feature of Delta that change sets and commits do not know: refused by name, whatever is asked of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.statements import done

from streamtable.errors import NotSupported

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "k", "type": "integer", "nullable": True, "metadata": {}}]})


def log_of(folder: Path, feature: str, *, of_readers: bool) -> Path:
    """Write the log of a table with a feature, of readers too or of writers alone."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    info = {"timestamp": 1, "inCommitTimestamp": 1, "operation": "CREATE TABLE", "operationParameters": {}, "txnId": "t"}
    both = ["vacuumProtocolCheck", *([feature] if of_readers else [])]
    features = {"readerFeatures": both, "writerFeatures": [*both, "inCommitTimestamp", *([] if of_readers else [feature])]}
    table = {"id": feature, "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA, "partitionColumns": []}
    actions = (
        {"commitInfo": info},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": {**table, "configuration": {"delta.enableInCommitTimestamps": "true"}, "createdTime": 1}},
    )
    (log / f"{0:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in actions))
    return folder


def test_a_table_that_a_catalog_commits_is_refused(shop: SparkSession, tmp_path: Path) -> None:
    place = log_of(tmp_path / "t", "catalogManaged", of_readers=True)
    with pytest.raises(PySparkException, match="(?i)catalog-?managed"):
        shop.sql(f"CREATE STREAM TABLE over_it AS SELECT * FROM delta.`{place}`")
    assert not shop.catalog.tableExists("over_it")


@pytest.mark.parametrize("feature", ["coordinatedCommits-preview", "of-a-later-delta"])
def test_a_table_with_an_unknown_feature_is_refused_by_its_name(shop: SparkSession, tmp_path: Path, feature: str) -> None:
    place = log_of(tmp_path / "t", feature, of_readers=False)
    assert shop.sql(f"SELECT * FROM delta.`{place}`").isEmpty()  # Delta reads it
    with pytest.raises(NotSupported, match=feature):
        shop.sql(f"CREATE STREAM TABLE over_it AS SELECT * FROM delta.`{place}`")
    assert not shop.catalog.tableExists("over_it")


def test_a_source_that_gets_an_unknown_feature_is_refused_and_its_follower_stays(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE copy AS SELECT * FROM sales")
    place = Path(str(shop.sql("DESCRIBE DETAIL sales").first()["location"]).removeprefix("file:"))  # type: ignore[index]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", "of-a-later-delta"]}
    info = {"timestamp": 1, "operation": "UPGRADE PROTOCOL", "operationParameters": {}}
    actions = ({"commitInfo": info}, {"protocol": protocol})
    (place / "_delta_log" / f"{2:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in actions))
    before = shop.table("copy").collect()
    with pytest.raises(NotSupported, match="of-a-later-delta"):
        shop.sql("REFRESH STREAM TABLE copy")
    assert shop.table("copy").collect() == before


def test_a_commit_that_says_neither_when_nor_what_stops_no_refresh(shop: SparkSession) -> None:
    """A log may say anything of a commit."""
    shop.sql("CREATE STREAM TABLE copy AS SELECT * FROM sales")
    log = Path(str(shop.sql("DESCRIBE DETAIL sales").first()["location"]).removeprefix("file:")) / "_delta_log"  # type: ignore[index]
    (log / f"{len(list(log.glob('0*.json'))):020d}.json").write_text(json.dumps({"commitInfo": {}}) + "\n")
    shop.sql("INSERT INTO sales VALUES (9, 'east', 1)")
    assert done(shop, "REFRESH STREAM TABLE copy")[0] == "DIFFERENTIAL"
    assert shop.table("copy").where("id = 9").count() == 1
