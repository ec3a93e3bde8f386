"""Statements that were written for other tables, and other systems, mean the same of a stream table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, detail, done, folder, properties, shown

from streamtable.delta.tables import find_table
from streamtable.errors import (
    DependentsExist,
    DirectWriteRefused,
    InvalidQuery,
    InvalidStatement,
    NotIncremental,
    NotSupported,
    StatementSyntaxError,
    StreamTableNotFound,
)
from streamtable.jvm.gateway import java_class

QUERY = "SELECT region, sum(amount) AS total FROM sales GROUP BY region"


@pytest.fixture
def made(shop: SparkSession) -> SparkSession:
    shop.sql(f"CREATE MATERIALIZED VIEW mv AS {QUERY}")
    return shop


def comments(spark: SparkSession, name: str) -> dict[str, str | None]:
    return {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE TABLE {name}").collect()}


def test_or_refresh_refreshes_where_the_query_stays(made: SparkSession) -> None:
    made.sql("INSERT INTO sales VALUES (4, 'north', 1)")
    assert done(made, f"CREATE OR REFRESH MATERIALIZED VIEW mv COMMENT 'x' AS {QUERY}")[0] == "DIFFERENTIAL"
    assert done(made, f"CREATE OR REFRESH MATERIALIZED VIEW mv COMMENT 'x' AS {QUERY}")[0] == "NO_DATA"
    assert done(made, "CREATE OR REFRESH MATERIALIZED VIEW mv AS SELECT region, 1 AS total FROM sales")[0] == "REINITIALIZE"
    assert_exact(made, "mv", "SELECT region, 1 AS total FROM sales")


def test_strict_fails_rather_than_recompute(shop: SparkSession) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW mv REFRESH POLICY INCREMENTAL STRICT AS {QUERY}")
    shop.sql("INSERT INTO sales VALUES (4, 'north', 1)")
    assert done(shop, "REFRESH MATERIALIZED VIEW mv")[0] == "DIFFERENTIAL"
    shop.sql("CREATE OR REPLACE TABLE sales USING delta AS SELECT 1 AS id, 'west' AS region, 5 AS amount")
    assert "fails: " in answer(shop, "EXPLAIN MATERIALIZED VIEW mv")[0][2]
    with pytest.raises(NotIncremental, match="DIFFERENTIAL STRICT forbids"):
        shop.sql("REFRESH MATERIALIZED VIEW mv")
    assert done(shop, "REFRESH MATERIALIZED VIEW mv FULL")[0] == "FULL"
    assert_exact(shop, "mv", QUERY)
    assert done(shop, "REFRESH MATERIALIZED VIEW mv")[0] == "NO_DATA"


def test_cascade_answers_with_a_row_for_each_table(made: SparkSession) -> None:
    made.sql("CREATE STREAM TABLE above AS SELECT region FROM mv WHERE total > 15")
    made.sql("INSERT INTO sales VALUES (4, 'north', 100)")
    rows = answer(made, "REFRESH STREAM TABLE above CASCADE")
    assert [row[:2] for row in rows] == [
        ("spark_catalog.shop.above", "DIFFERENTIAL"),
        ("spark_catalog.shop.mv", "DIFFERENTIAL"),
    ]


def test_several_tables_are_refreshed_sources_first(made: SparkSession) -> None:
    made.sql("CREATE STREAM TABLE above AS SELECT region FROM mv WHERE total > 15")
    made.sql("CREATE STREAM TABLE apart AS SELECT id FROM sales")
    made.sql("INSERT INTO sales VALUES (4, 'north', 100)")
    rows = answer(made, "REFRESH STREAM TABLE above, mv")
    assert [row[:2] for row in rows] == [
        ("spark_catalog.shop.above", "DIFFERENTIAL"),
        ("spark_catalog.shop.mv", "DIFFERENTIAL"),
    ]
    made.sql("ALTER STREAM TABLE mv SUSPEND")
    rows = answer(made, "REFRESH STREAM TABLES LIKE 'a*|mv'")
    assert sorted(row[:2] for row in rows) == [
        ("spark_catalog.shop.above", "NO_DATA"),
        ("spark_catalog.shop.apart", "DIFFERENTIAL"),
        ("spark_catalog.shop.mv", "SKIPPED"),
    ]
    assert [row[1] for row in answer(made, "VERIFY STREAM TABLES IN shop")] == [True, True, True]
    assert answer(made, "REFRESH STREAM TABLES LIKE 'nothing'") == []
    with pytest.raises(StreamTableNotFound):
        made.sql("REFRESH STREAM TABLE mv, nobody")


@pytest.mark.parametrize(
    "slip",
    [
        "CREATE STRAEM TABLE t AS SELECT 1 AS a",
        "REFRESH STREEM TABLE mv",
        "DROP STREMA TABLE mv",
        "SHOW STEAM TABLES",
        "REFRESH MATERIALISED VIEW mv",
    ],
)
def test_a_slip_in_the_second_word_is_told(spark: SparkSession, slip: str) -> None:
    with pytest.raises(StatementSyntaxError, match=r"did you mean (STREAM TABLE|STREAM|MATERIALIZED VIEW)\?"):
        spark.sql(slip)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE DYNAMIC TABLE t TARGET_LAG = '5 minutes' WAREHOUSE = w AS SELECT 1 AS a",
        "CREATE MATERIALIZED LAKE VIEW t AS SELECT 1 AS a",
        "SHOW STREAM TABLE",
        "SHOW STREAM TABLE mv",
        "CREATE MATERIALIZED VIEW t TRIGGER ON COMMIT AS SELECT 1 AS a",
        "CREATE PRIVATE MATERIALIZED VIEW t AS SELECT 1 AS a",
        "APPLY CHANGES INTO t FROM STREAM sales KEYS (id) SEQUENCE BY amount",
        "CREATE FLOW f AS AUTO CDC INTO shop.t FROM STREAM(sales) KEYS (id) SEQUENCE BY amount",
        "SUSPEND STREAM TABLE mv",
        "VACUUM MATERIALIZED VIEW mv",
        "DESCRIBE HISTORY STREAM TABLE mv",
        "UNDROP DYNAMIC TABLE mv",
        "SHOW DYNAMIC TABLES IN ACCOUNT",
        "ALTER MATERIALIZED VIEW IF EXISTS mv SUSPEND",
        "EXPLAIN EXTENDED STREAM TABLE mv",
        "SHOW HISTORY FOR mv",
        "BEGIN SUSPEND STREAM TABLE mv; END",
        "CREATE STREAMING TABLE t AS SELECT * FROM STREAM sales",
        "CREATE STREAMING TABLE t COMMENT 'of flows'",
        "CREATE OR REFRESH STREAMING TABLE t AS SELECT * FROM STREAM(sales)",
        "CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (id > 0)) SCHEDULE EVERY 1 HOUR AS SELECT * FROM STREAM sales",
        "BEGIN CREATE STREAMING TABLE t AS SELECT 1 AS a; END",
        "CREATE OR REFRESH LIVE TABLE t AS SELECT * FROM LIVE.sales",
        "REFRESH STREAMING TABLE mv",
        "ALTER STREAMING TABLE mv DROP SCHEDULE",
        "DROP STREAMING TABLE IF EXISTS mv",
    ],
)
def test_words_of_others_get_an_answer_of_ours(spark: SparkSession, statement: str) -> None:
    with pytest.raises(StatementSyntaxError, match="What to do: "):
        spark.sql(statement)


@pytest.mark.parametrize("ending", ["WITH NO DATA", "WITH DATA"])
def test_what_postgres_has_behind_the_query_is_answered(shop: SparkSession, ending: str) -> None:
    with pytest.raises(InvalidQuery, match=f"What to do: (write|leave) {ending}"):
        shop.sql(f"CREATE MATERIALIZED VIEW mv AS {QUERY} {ending}")


def test_a_streaming_table_is_answered_with_the_statement_alone_that_it_is(shop: SparkSession) -> None:
    """Spark reads it since 4.1 and says that it is not supported, where people are told nothing of what they could write."""
    text = "/* \U0001f600 */ CREATE STREAMING TABLE copied COMMENT '\U0001f600' AS SELECT * FROM STREAM sales"
    ours = "CREATE STREAM TABLE copied COMMENT '\U0001f600' AS SELECT * FROM sales"
    with pytest.raises(StatementSyntaxError, match="STREAMING TABLE is a word of pipelines") as refused:
        shop.sql(text)
    assert f"write\n{ours}\n" in str(refused.value)
    shop.sql(ours)
    assert_exact(shop, "copied", "SELECT * FROM sales")


@pytest.mark.parametrize("source", ["STREAM sales", "STREAM(sales)", "LIVE.sales"])
def test_a_table_that_is_read_as_pipelines_do_is_answered_with_its_name(shop: SparkSession, source: str) -> None:
    with pytest.raises(InvalidQuery, match="name the table itself, without STREAM"):
        shop.sql(f"CREATE STREAM TABLE t AS SELECT * FROM {source}")
    assert answer(shop, "SHOW STREAM TABLES") == []


def test_a_trigger_on_update_is_a_schedule_in_every_statement_that_shows_it(shop: SparkSession) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW mv TRIGGER ON UPDATE AS {QUERY}")
    written = [answer(shop, "SHOW CREATE STREAM TABLE mv")[0][0]]
    for statement, schedule in (
        ("ALTER TRIGGER ON UPDATE AT MOST EVERY INTERVAL '5' MINUTES", "ON UPDATE AT MOST EVERY '5m'"),
        ("DROP TRIGGER", "MANUAL"),
        ("ADD TRIGGER ON UPDATE AT MOST EVERY INTERVAL 10 SECONDS", "ON UPDATE AT MOST EVERY '10s'"),
        ("SET SCHEDULE ON UPDATE", "ON UPDATE"),
    ):
        shop.sql(f"ALTER MATERIALIZED VIEW mv {statement}")
        assert dict(answer(shop, "DESCRIBE STREAM TABLE mv"))["schedule"] == schedule
    written.append(answer(shop, "SHOW CREATE STREAM TABLE mv")[0][0])
    assert written[0] == written[1]
    shop.sql("DROP STREAM TABLE mv")
    shop.sql(written[0])
    assert answer(shop, "SELECT schedule FROM stream_tables() WHERE name = 'spark_catalog.shop.mv'") == [("ON UPDATE",)]
    shop.conf.set("spark.streamtable.schedule.minimumSeconds", "60")
    try:
        with pytest.raises(InvalidStatement, match="write ON UPDATE AT MOST EVERY '60s'"):
            shop.sql("ALTER STREAM TABLE mv SET SCHEDULE ON UPDATE")
    finally:
        shop.conf.unset("spark.streamtable.schedule.minimumSeconds")


def test_comments_and_properties_by_statements_of_spark(made: SparkSession) -> None:
    made.sql("COMMENT ON TABLE mv IS 'it''s a table'")
    made.sql("ALTER TABLE mv ALTER COLUMN region COMMENT 'where'")
    made.sql("ALTER TABLE shop.mv CHANGE COLUMN total COMMENT 'how \\\\ much'")
    made.sql("ALTER TABLE mv SET TBLPROPERTIES ('team' = 'a', 'delta.logRetentionDuration' = '7 days', 'comment' = 'by property')")
    assert comments(made, "mv")["region"] == "where"
    assert detail(made, "mv")["description"] == "by property"
    assert properties(made, "mv") == {"team": "a"}
    told = shown(made, "mv")
    assert "`region` COMMENT 'where', `total` COMMENT 'how \\\\ much'" in told
    assert "COMMENT 'by property'" in told
    made.sql("INSERT INTO sales VALUES (4, 'north', 1)")
    assert done(made, "REFRESH STREAM TABLE mv") == ("DIFFERENTIAL", "1 of 1 sources changed")
    assert comments(made, "mv")["total"] == "how \\ much"
    made.sql("ALTER TABLE mv UNSET TBLPROPERTIES ('team', 'delta.logRetentionDuration')")
    made.sql("ALTER TABLE mv UNSET TBLPROPERTIES IF EXISTS ('nothing')")
    made.sql("ALTER TABLE mv UNSET TBLPROPERTIES ('comment')")
    assert detail(made, "mv")["description"] is None and "COMMENT 'by" not in shown(made, "mv")
    made.sql("CREATE OR REPLACE STREAM TABLE mv TBLPROPERTIES ('comment' = 'at first') AS " + QUERY)
    assert detail(made, "mv")["description"] == "at first"
    made.sql("COMMENT ON TABLE mv IS 'then'")
    assert detail(made, "mv")["description"] == "then" and "at first" not in shown(made, "mv")
    made.sql("COMMENT ON TABLE mv IS NULL")
    assert properties(made, "mv") == {} and "then" not in shown(made, "mv")
    made.sql("ALTER TABLE mv ALTER COLUMN region COMMENT 'where'")
    assert done(made, "REFRESH STREAM TABLE mv FULL")[0] == "FULL"
    assert comments(made, "mv")["region"] == "where"
    assert_exact(made, "mv", QUERY)
    with pytest.raises(InvalidStatement, match="nothing"):
        made.sql("ALTER TABLE mv UNSET TBLPROPERTIES ('nothing')")
    with pytest.raises(InvalidStatement, match="streamtable keeps the definition"):
        made.sql("ALTER TABLE mv SET TBLPROPERTIES ('streamtable.status' = 'SUSPENDED')")
    with pytest.raises(InvalidStatement, match="no column nothing"):
        made.sql("ALTER MATERIALIZED VIEW mv ALTER COLUMN nothing COMMENT 'x'")


def test_drop_table_drops_the_stream_table_unless_it_is_read(made: SparkSession) -> None:
    place = folder(made, "mv")
    made.sql("CREATE STREAM TABLE reader AS SELECT region FROM mv")
    with pytest.raises(DependentsExist, match="spark_catalog.shop.reader"):
        made.sql("DROP TABLE mv")
    made.sql("DROP TABLE reader")
    assert answer(made, "DROP TABLE IF EXISTS mv") == [("spark_catalog.shop.mv", "DROPPED")]
    assert not place.exists()


def test_a_frame_does_not_replace_a_stream_table(made: SparkSession) -> None:
    with pytest.raises(DirectWriteRefused):
        made.range(1).write.format("delta").mode("overwrite").saveAsTable("mv")
    with pytest.raises(DirectWriteRefused):
        made.range(1).writeTo("mv").using("delta").createOrReplace()


def test_drop_schema_tells_what_it_drops(made: SparkSession, tmp_path: Path) -> None:
    made.sql("CREATE SCHEMA tools")
    made.sql("CREATE STREAM TABLE tools.a AS SELECT region FROM sales")
    made.sql("CREATE STREAM TABLE above AS SELECT region FROM tools.a")
    home = folder(made, "tools.a").parent
    for name, place in (("b", home / "inner" / "b"), ("c", tmp_path / "c"), ("d", home / "d")):
        made.sql(f"CREATE STREAM TABLE tools.{name} LOCATION '{place}' WITH NO DATA AS SELECT region FROM sales")
    log = home / "d" / "_delta_log"
    (log / f"{len(list(log.glob('*.json'))):020}.json").write_text("{")
    java_class(made, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    *others, (name, status) = answer(made, "DROP SCHEMA tools CASCADE")
    assert others == [
        ("spark_catalog.tools.a", "DROPPED, and spark_catalog.shop.above cannot be refreshed any more"),
        ("spark_catalog.tools.b", "DROPPED"),
        ("spark_catalog.tools.c", f"DROPPED, left its files in file:{tmp_path}/c"),
    ]
    assert name == "spark_catalog.tools.d" and status.startswith("DROPPED, could not be read: ")
    assert answer(made, "SHOW SCHEMAS LIKE 'tools'") == []
    assert not home.exists() and (tmp_path / "c" / "_delta_log").exists()


def test_drop_schema_is_refused_where_the_session_blocks_ddl_on_sources(made: SparkSession) -> None:
    made.sql("CREATE SCHEMA tools")
    made.sql("CREATE TABLE tools.base USING delta AS SELECT 1 AS id")
    made.sql("CREATE STREAM TABLE above AS SELECT id FROM tools.base")
    made.conf.set("spark.streamtable.blockSourceDdl", "true")
    try:
        with pytest.raises(DependentsExist, match=r"DROP SCHEMA on spark_catalog\.tools is refused: spark_catalog\.shop\.above"):
            made.sql("DROP SCHEMA tools CASCADE")
        made.sql("DROP STREAM TABLE above")
        made.sql("CREATE STREAM TABLE tools.inside WITH NO DATA AS SELECT id FROM tools.base")
        assert answer(made, "DROP SCHEMA tools CASCADE") == [("spark_catalog.tools.inside", "DROPPED")]
    finally:
        made.conf.unset("spark.streamtable.blockSourceDdl")


def test_another_layout_rebuilds_a_table_that_nobody_reads(made: SparkSession) -> None:
    create = "CREATE OR REPLACE STREAM TABLE mv"
    assert done(made, f"{create} PARTITIONED BY (REGION) AS {QUERY}")[0] == "REINITIALIZE"
    assert detail(made, "mv")["partitionColumns"] == ["region"]
    made.sql("DELETE FROM sales WHERE id = 1")
    assert done(made, "REFRESH STREAM TABLE mv")[0] == "DIFFERENTIAL"
    assert_exact(made, "mv", QUERY)
    assert "rebuilt" in answer(made, f"EXPLAIN {create} CLUSTER BY (total) AS {QUERY}")[-1][2]
    assert done(made, f"{create} CLUSTER BY (total) AS {QUERY}")[0] == "REINITIALIZE"
    assert (detail(made, "mv")["partitionColumns"], detail(made, "mv")["clusteringColumns"]) == ([], ["total"])
    made.sql("INSERT INTO sales VALUES (4, 'north', 1)")
    assert done(made, "REFRESH STREAM TABLE mv")[0] == "DIFFERENTIAL"
    made.sql("OPTIMIZE mv")
    assert_exact(made, "mv", QUERY)
    with pytest.raises(NotSupported, match="clustered"):
        made.sql(f"{create} PARTITIONED BY (region) AS {QUERY}")
    assert done(made, f"{create} AS {QUERY}")[0] == "REINITIALIZE"
    assert detail(made, "mv")["clusteringColumns"] == []
    with pytest.raises(NotSupported, match="clustered, or was"):
        made.sql(f"{create} PARTITIONED BY (region) AS {QUERY}")
    made.sql("CREATE STREAM TABLE reader AS SELECT region FROM mv")
    with pytest.raises(DependentsExist, match="spark_catalog.shop.reader"):
        made.sql(f"{create} CLUSTER BY (region) AS {QUERY}")
    assert done(made, "REFRESH STREAM TABLE mv")[0] == "NO_DATA"


def test_another_layout_is_refused_for_those_alone_that_follow_the_table(made: SparkSession) -> None:
    create = f"CREATE OR REPLACE STREAM TABLE mv PARTITIONED BY (region) AS {QUERY}"
    made.sql("CREATE VIEW seen AS SELECT region FROM mv")
    made.sql("CREATE STREAM TABLE mv_other AS SELECT id AS mv FROM sales")
    made.sql("CREATE PUBLICATION mv_news FOR TABLE mv_other, sales WHERE (region <> 'mv')")
    made.sql("CREATE QUEUE mv_jobs FOR SUBSCRIBE (SELECT id AS mv, 'shop.mv' AS shop FROM sales)")
    for statement, name in (
        ("CREATE QUEUE q ON mv", "q"),
        ("CREATE QUEUE q FOR SUBSCRIBE (SELECT region FROM seen)", "q"),
        ("CREATE PUBLICATION p FOR ALL TABLES", "p"),
    ):
        made.sql(statement)
        with pytest.raises(DependentsExist, match=rf"is read by spark_catalog\.shop\.{name}, and cannot be laid out anew"):
            made.sql(create)
        told = made.sql(f"EXPLAIN {create}").collect()
        assert ("Held by", False, f"spark_catalog.shop.{name}") in [(row.operator, row.incremental, row.reason) for row in told]
        made.sql(f"DROP {statement.split()[1]} {name}")
    made.sql("CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE mv)")
    assert done(made, create)[0] == "REINITIALIZE"


def test_create_or_replace_table_makes_an_ordinary_table_of_it(made: SparkSession) -> None:
    made.sql("CREATE STREAM TABLE above AS SELECT region, count(DISTINCT total) AS n FROM mv GROUP BY region")
    with pytest.raises(DependentsExist, match="is read by spark_catalog.shop.above"):
        made.sql("CREATE OR REPLACE TABLE mv USING delta AS SELECT 1 AS id")
    with pytest.raises(DirectWriteRefused):
        made.range(1).write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("above")
    with pytest.raises(AnalysisException, match="no_such_table"):
        made.sql("CREATE OR REPLACE TABLE above USING delta AS SELECT * FROM no_such_table")
    assert done(made, "REFRESH STREAM TABLE above")[0] == "NO_DATA"
    made.sql("CREATE OR REPLACE TABLE above USING delta AS SELECT region FROM above")
    made.sql("CREATE OR REPLACE TABLE mv (id INT) USING delta")
    made.sql("INSERT INTO mv VALUES (7)")
    made.sql("INSERT INTO above VALUES ('west')")
    assert answer(made, "SHOW STREAM TABLES") == []
    assert answer(made, "SELECT * FROM mv") == [(7,)]
    assert made.table("above").count() == 4
    assert [find_table(made, ("shop", name)).accepted for name in ("mv", "above")] == [(), ()]
    assert not (folder(made, "above") / "_streamtable").exists() or not any((folder(made, "above") / "_streamtable").iterdir())


def test_comments_of_source_columns_are_inherited(shop: SparkSession) -> None:
    shop.sql("ALTER TABLE sales ALTER COLUMN region COMMENT 'where'")
    shop.sql("ALTER TABLE sales ALTER COLUMN amount COMMENT 'how much'")
    query = "SELECT region AS r, amount, amount + 1 AS more, id FROM sales"
    shop.sql(f"CREATE STREAM TABLE st (r, amount COMMENT 'own', more, id) AS {query}")
    assert comments(shop, "st") == {"r": "where", "amount": "own", "more": None, "id": None}
    shop.sql("ALTER TABLE sales ALTER COLUMN id COMMENT 'key'")
    assert done(shop, f"CREATE OR REPLACE STREAM TABLE st AS {query}")[0] == "NO_DATA"
    assert comments(shop, "st") == {"r": "where", "amount": "how much", "more": None, "id": "key"}
    shop.sql("INSERT INTO sales VALUES (4, 'north', 1)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", query)


def test_a_comment_on_a_column_does_not_bind_the_columns_of_another_query(made: SparkSession) -> None:
    made.sql("ALTER TABLE mv ALTER COLUMN region COMMENT 'where'")
    made.sql("ALTER STREAM TABLE mv AS SELECT amount AS total, region, id FROM sales")
    assert_exact(made, "mv", "SELECT amount AS total, region, id FROM sales")
    assert comments(made, "mv") == {"total": None, "region": "where", "id": None}
    made.sql("CREATE STREAM TABLE listed (a COMMENT 'first', b) AS SELECT region, id FROM sales")
    made.sql("ALTER STREAM TABLE listed AS SELECT id, region FROM sales")
    assert_exact(made, "listed", "SELECT id AS a, region AS b FROM sales")


def test_a_change_of_more_than_a_comment_is_refused(made: SparkSession) -> None:
    for change in ("total STRING COMMENT 'x'", "total BIGINT COMMENT 'x' FIRST"):
        with pytest.raises((DirectWriteRefused, AnalysisException)):
            made.sql(f"ALTER TABLE mv CHANGE COLUMN total {change}")
    assert comments(made, "mv")["total"] is None


def test_a_property_of_delta_in_another_case_could_not_be_taken_back(made: SparkSession) -> None:
    made.sql(
        "ALTER STREAM TABLE mv SET TBLPROPERTIES ('DELTA.logretentionduration' = '7 days', 'Delta.enableDeletionVectors' = 'true')"
    )
    assert detail(made, "mv")["properties"]["delta.logRetentionDuration"] == "7 days"
    made.sql("ALTER STREAM TABLE mv UNSET TBLPROPERTIES ('delta.LOGRETENTIONDURATION', 'delta.enabledeletionvectors')")
    left = detail(made, "mv")["properties"]
    assert "delta.logRetentionDuration" not in left and left["delta.enableDeletionVectors"] == "true"
    assert not [key for key in left if key.casefold().startswith("delta.") and key.startswith(("DELTA", "Delta"))]
