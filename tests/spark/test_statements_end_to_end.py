"""Every statement but CREATE end to end: exact rows, exact column names and types, and what it leaves behind."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact, bag
from tests.oracle.together import together
from tests.pipeline import in_turn
from tests.spark.statements import answer, detail, done, jobs, properties, shown, version

from streamtable.definitions import rename
from streamtable.engine.workspace import Workspace
from streamtable.errors import (
    ConcurrentRefresh,
    DependentsExist,
    InternalError,
    InvalidStatement,
    NotIncremental,
    NotSupported,
    StreamTableExists,
    StreamTableNotFound,
    StreamTableSuspended,
)
from streamtable.refresh import failpoints, records
from streamtable.refresh.failpoints import FAILPOINTS

pytestmark = pytest.mark.core

ST = "spark_catalog.shop.st"
ALL = "SELECT * FROM sales"
BY_REGION = "SELECT region, max(amount) AS most, count(*) AS n FROM sales GROUP BY region"
REFRESHED = "name:string,action:string,reason:string,rows_inserted:bigint,rows_deleted:bigint,duration_ms:bigint,version:bigint"
EXPLAINED = "operator:string,incremental:boolean,reason:string"

# In this order, because each works on what those before it made.
RESULTS = {
    f"EXPLAIN CREATE STREAM TABLE st AS {ALL}": EXPLAINED,
    f"CREATE STREAM TABLE st AS {ALL}": REFRESHED,
    "REFRESH STREAM TABLE st": REFRESHED,
    "ALTER STREAM TABLE st SUSPEND": "name:string,status:string",
    "SHOW STREAM TABLES": "name:string,status:string,refresh_mode:string,schedule:string,state:string,last_success:timestamp,"
    "last_attempt:timestamp,next_due:timestamp,staleness_seconds:double,row_count:bigint,size_bytes:bigint,reason:string,"
    "last_action:string,version:bigint,error:string",
    "DESCRIBE STREAM TABLE st": "property:string,value:string",
    "SHOW CREATE STREAM TABLE st": "createtab_stmt:string",
    "SHOW REFRESH HISTORY": "name:string,version:bigint,at:timestamp,action:string,reason:string,rows_inserted:bigint,rows_deleted:bigint,duration_ms:bigint",
    "SHOW STREAM TABLE DEPENDENCIES": "name:string,source:string,kind:string,columns:string",
    "EXPLAIN STREAM TABLE st": EXPLAINED,
    "VERIFY STREAM TABLE st": "name:string,ok:boolean,missing:bigint,surplus:bigint",
    "DROP STREAM TABLE st": "name:string,status:string",
}


def test_columns_and_types_of_every_result(shop: SparkSession) -> None:
    frames = {statement: shop.sql(statement) for statement in RESULTS}
    assert {statement: frame.schema.simpleString()[7:-1] for statement, frame in frames.items()} == RESULTS
    assert all(frame.count() > 0 for frame in frames.values())


def test_refresh_says_what_it_did(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    assert answer(shop, "REFRESH STREAM TABLE st")[0][:5] == (ST, "NO_DATA", "no source changed", 0, 0)
    assert version(shop, "st") == 1
    shop.sql("UPDATE sales SET amount = 21 WHERE id = 2")
    assert answer(shop, "REFRESH STREAM TABLE st")[0][:5] == (ST, "DIFFERENTIAL", "1 of 1 sources changed", 2, 2)
    row = shop.sql("REFRESH STREAM TABLE st FULL").collect()[0]
    assert tuple(row)[:5] == (ST, "FULL", "REFRESH ... FULL was asked for", 4, 4)
    assert row["version"] == version(shop, "st") == 3
    assert_exact(shop, "st", ALL)


def test_what_spark_caches_of_a_table_is_computed_again_after_a_refresh(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE cached AS SELECT region, sum(amount) AS total FROM sales GROUP BY region")
    shop.sql("CACHE TABLE cached")
    doubled = "SELECT region, total * 2 AS twice FROM cached"
    kept = shop.sql(doubled).cache()
    before = kept.collect()
    shop.sql("UPDATE sales SET amount = amount + 1")
    shop.sql("REFRESH STREAM TABLE cached")
    assert_exact(shop, "cached", "SELECT region, sum(amount) AS total FROM sales GROUP BY region")
    assert shop.sql(doubled).collect() != before
    kept.unpersist()
    shop.sql("UNCACHE TABLE cached")


@pytest.mark.parametrize("source", ["sales", "large"], ids=["a table", "a view"])
def test_a_refresh_without_changes_costs_neither_a_job_nor_a_commit(shop: SparkSession, source: str) -> None:
    shop.sql("CREATE OR REPLACE VIEW large AS SELECT id, amount FROM sales WHERE amount > 10")
    shop.sql(f"CREATE STREAM TABLE st AS SELECT id, sum(amount) AS total FROM {source} GROUP BY id")
    written, before = version(shop, "st"), jobs(shop)
    assert done(shop, "REFRESH STREAM TABLE st") == ("NO_DATA", "no source changed")
    assert jobs(shop) == before
    assert version(shop, "st") == written
    shop.sql("INSERT INTO sales VALUES (7, 'west', 70)")
    before = jobs(shop)
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert jobs(shop) > before, "this way of counting sees no jobs"


def test_refresh_cascade_begins_with_the_sources(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {BY_REGION}")
    shop.sql("CREATE STREAM TABLE above AS SELECT region FROM st WHERE n > 1")
    shop.sql("INSERT INTO sales VALUES (4, 'north', 40)")
    assert done(shop, "REFRESH STREAM TABLE above")[0] == "NO_DATA"
    assert done(shop, "REFRESH STREAM TABLE above CASCADE")[0] == "DIFFERENTIAL"
    assert sorted(answer(shop, "SELECT * FROM above")) == [("north",), ("south",)]


def test_alter_set_refresh_mode(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {BY_REGION}")
    for mode, expected in (("FULL", "FULL"), ("AUTO", "DIFFERENTIAL"), ("DIFFERENTIAL", "DIFFERENTIAL")):
        assert answer(shop, f"ALTER STREAM TABLE shop.st SET REFRESH MODE {mode}") == [(ST, "ACTIVE")]
        assert answer(shop, "SHOW STREAM TABLES")[0][2] == mode
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
        shop.sql("INSERT INTO sales VALUES (5, 'east', 50)")
        assert done(shop, "REFRESH STREAM TABLE st")[0] == expected
        assert_exact(shop, "st", BY_REGION)


def test_alter_to_differential_is_refused_where_there_is_no_rule(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st AS SELECT id, rand() AS r FROM sales")
    with pytest.raises(NotIncremental, match=r"rand\(\)"):
        shop.sql("ALTER STREAM TABLE st SET REFRESH MODE DIFFERENTIAL")
    assert answer(shop, "SHOW STREAM TABLES")[0][2] == "AUTO"
    shop.sql("INSERT INTO sales VALUES (5, 'east', 50)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "FULL"


def test_alter_set_schedule(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '5m' AS {ALL}")
    for schedule in ("'1h30m'", "CRON '0 6 * * mon-fri' AT TIME ZONE 'Europe/Berlin'", "CALCULATED", "MANUAL"):
        assert answer(shop, f"ALTER STREAM TABLE st SET SCHEDULE {schedule}") == [(ST, "ACTIVE")]
        assert answer(shop, "SHOW STREAM TABLES")[0][3] == schedule
        assert f"\nSCHEDULE {schedule}\n" in shown(shop, "st")


def test_no_schedule_is_shorter_than_the_minimum(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '59s' AS {ALL}")
    shop.conf.set("spark.streamtable.schedule.minimumSeconds", "60")
    try:
        for statement in (f"CREATE STREAM TABLE other SCHEDULE '59s' AS {ALL}", "ALTER STREAM TABLE st SET SCHEDULE '30s'"):
            with pytest.raises(InvalidStatement, match="shorter than 60s"):
                shop.sql(statement)
        shop.sql("ALTER STREAM TABLE st SET SCHEDULE '1m'")
    finally:
        shop.conf.unset("spark.streamtable.schedule.minimumSeconds")
    assert [row[3] for row in answer(shop, "SHOW STREAM TABLES")] == ["'1m'"]


def test_alter_set_properties_adds_to_those_that_are_there(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st TBLPROPERTIES ('a' = '1', 'b' = '2') AS {ALL}")
    assert answer(shop, "ALTER STREAM TABLE st SET TBLPROPERTIES ('b' = '3', 'c' = '4')") == [(ST, "ACTIVE")]
    assert properties(shop, "st") == {"a": "1", "b": "3", "c": "4"}
    assert "TBLPROPERTIES ('a' = '1', 'b' = '3', 'c' = '4')" in shown(shop, "st")
    for wrong in ("'delta.checkpointInterval' = '0'", "'delta.noSuchProperty' = 'x'"):
        with pytest.raises(PySparkException, match=r"(?i)checkpointInterval|noSuchProperty"):
            shop.sql(f"ALTER STREAM TABLE st SET TBLPROPERTIES ({wrong})")
    assert "delta." not in shown(shop, "st")


def test_alter_suspend_and_resume(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {BY_REGION}")
    assert answer(shop, "ALTER STREAM TABLE st SUSPEND") == [(ST, "SUSPENDED")]
    assert answer(shop, "SHOW STREAM TABLES")[0][1] == "SUSPENDED"
    before = bag(shop, "SELECT * FROM st")
    shop.sql("DELETE FROM sales WHERE id = 3")
    for statement in ("REFRESH STREAM TABLE st", "REFRESH STREAM TABLE st FULL"):
        with pytest.raises(StreamTableSuspended, match="RESUME"):
            shop.sql(statement)
    assert bag(shop, "SELECT * FROM st") == before
    assert answer(shop, "ALTER STREAM TABLE st RESUME") == [(ST, "ACTIVE")]
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", BY_REGION)


def test_alter_rename_takes_everything_along(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE old_name COMMENT 'kept' AS {BY_REGION} HAVING count(*) < 9")  # HAVING: a stored arrangement
    shop.sql("ALTER STREAM TABLE old_name SUSPEND")
    assert answer(shop, "ALTER STREAM TABLE old_name RENAME TO st") == [(ST, "SUSPENDED")]
    shop.sql("ALTER STREAM TABLE st RESUME")
    with pytest.raises(StreamTableNotFound, match="old_name"):
        shop.sql("REFRESH STREAM TABLE old_name")
    assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == [ST]
    assert shown(shop, "st").startswith("CREATE STREAM TABLE `spark_catalog`.`shop`.`st`\n")
    assert answer(shop, "SHOW REFRESH HISTORY FOR st")[0][0] == ST
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"
    shop.sql("UPDATE sales SET amount = 5 WHERE id = 3")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", BY_REGION)


def test_alter_rename_is_refused_where_it_would_break_something(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    with pytest.raises(StreamTableExists, match="sales"):
        shop.sql("ALTER STREAM TABLE st RENAME TO sales")
    for elsewhere in ("default", "no_catalog.shop"):
        with pytest.raises(NotSupported, match=elsewhere):
            shop.sql(f"ALTER STREAM TABLE st RENAME TO {elsewhere}.st2")
    shop.sql("CREATE VIEW between AS SELECT id FROM st")
    shop.sql("CREATE STREAM TABLE above AS SELECT id FROM between")
    with pytest.raises(DependentsExist, match=r"above cannot be told the new name: it reads .*\.st through .*\.between"):
        shop.sql("ALTER STREAM TABLE st RENAME TO st2")
    assert done(shop, "REFRESH STREAM TABLE above CASCADE")[0] == "NO_DATA"
    # Another reader follows first, and comes back.
    shop.sql("CREATE STREAM TABLE a_reader AS SELECT id FROM st")
    shop.sql("CREATE STREAM TABLE z_reader AS SELECT shop.st.id FROM shop.st WHERE EXISTS (SELECT 1 FROM st AS x)")
    shop.sql("DROP STREAM TABLE above")
    with pytest.raises(DependentsExist, match=r"z_reader cannot be told the new name: neither the name alone"):
        shop.sql("ALTER STREAM TABLE st RENAME TO st2")
    shop.sql("DELETE FROM sales WHERE id = 3")
    assert done(shop, "REFRESH STREAM TABLE a_reader CASCADE")[0] == "DIFFERENTIAL"
    assert "FROM st" in shown(shop, "a_reader")
    assert_exact(shop, "a_reader", "SELECT id FROM sales")
    shop.sql("DROP VIEW between")


READERS = {
    "plain": ("SELECT id FROM st", "SELECT id FROM `busy`"),
    "qualified": ("SELECT st.id FROM st", "SELECT st.id FROM `busy` AS `st`"),
    "parts": (
        "SELECT x.id FROM Shop.ST x /* st */ JOIN spark_catalog.shop.`st` y ON x.id = y.id",
        "SELECT x.id FROM `shop`.`busy` x /* st */ JOIN `spark_catalog`.`shop`.`busy` y ON x.id = y.id",
    ),
    "shadowed": ("WITH st AS (SELECT id FROM st) SELECT id FROM st", "WITH st AS (SELECT id FROM `busy`) SELECT id FROM st"),
    "nested": (
        "SELECT id, '𝄞st' AS st FROM sales WHERE id IN (SELECT id FROM st) AND EXISTS (SELECT 1 FROM st WHERE st.id > 0)",
        "SELECT id, '𝄞st' AS st FROM sales WHERE id IN (SELECT id FROM `busy` AS `st`) AND EXISTS (SELECT 1 FROM `busy` AS `st` WHERE st.id > 0)",
    ),
    "grouped": (
        "SELECT region, max(amount) AS m FROM st GROUP BY region HAVING count(*) > 0",
        "SELECT region, max(amount) AS m FROM `busy` GROUP BY region HAVING count(*) > 0",
    ),
    "computed": (
        "SELECT upper(region) AS r, count(*) AS n FROM st GROUP BY upper(region)",
        "SELECT upper(region) AS r, count(*) AS n FROM `busy` GROUP BY upper(region)",
    ),
    "computed_qualified": (
        "SELECT upper(st.region) AS r, count(*) AS n FROM st GROUP BY upper(st.region)",
        "SELECT upper(st.region) AS r, count(*) AS n FROM `busy` AS `st` GROUP BY upper(st.region)",
    ),
    "beside_a_subquery": (
        "SELECT upper(region) AS r, count(*) + (SELECT max(id) FROM st) AS n FROM st GROUP BY upper(region)",
        "SELECT upper(region) AS r, count(*) + (SELECT max(id) FROM `busy`) AS n FROM `busy` GROUP BY upper(region)",
    ),
    "pivoted": (
        "SELECT * FROM (SELECT region, amount FROM st) PIVOT (sum(amount) AS t, count(*) FOR region IN ('north', 'south'))",
        "SELECT * FROM (SELECT region, amount FROM `busy`) PIVOT (sum(amount) AS t, count(*) FOR region IN ('north', 'south'))",
    ),
}


def test_a_rename_is_told_to_the_readers(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    together(lambda name: shop.sql(f"CREATE STREAM TABLE {name} AS {READERS[name][0]}"), READERS)
    shop.sql("CREATE STREAM TABLE top AS SELECT region FROM grouped")
    shop.sql("ALTER STREAM TABLE st RENAME TO busy")
    for name, (_, query) in READERS.items():
        assert shown(shop, name).endswith(f"AS\n{query}"), name
    shop.sql("UPDATE sales SET amount = 5 WHERE id = 3")
    shop.sql("INSERT INTO sales VALUES (77, 'north', 5)")
    shop.sql("REFRESH STREAM TABLE busy")

    def refresh(name: str) -> None:
        assert done(shop, f"REFRESH STREAM TABLE {name}")[0] == "DIFFERENTIAL", name
        assert_exact(shop, name, READERS[name][1])

    together(refresh, READERS)
    shop.sql("ALTER STREAM TABLE grouped RENAME TO groups")
    assert done(shop, "REFRESH STREAM TABLE top")[0] == "DIFFERENTIAL"
    with pytest.raises(DependentsExist, match="plain"):
        shop.sql("DROP STREAM TABLE busy")


def rename_and_be_killed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """Rename the table st to busy; the process is killed before that one of the commits that follow."""

    class Killed(ExitStack):
        def __exit__(self, *error: object) -> None:
            self.pop_all()  # nobody is there to undo anything

    calls = iter(range(1, 9))

    def annotated(*arguments: Any, **more: Any) -> None:
        if next(calls) == commits:
            raise ZeroDivisionError
        records.annotate(*arguments, **more)

    with monkeypatch.context() as killing:
        killing.setattr(rename, "ExitStack", Killed)
        killing.setattr(rename, "annotate", annotated)
        with pytest.raises(InternalError, match="ZeroDivisionError"):
            spark.sql("ALTER STREAM TABLE st RENAME TO busy")


@pytest.mark.parametrize("commits", [1, 2])
def test_a_table_whose_rename_was_killed_is_dropped_by_its_new_name(
    shop: SparkSession, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("CREATE STREAM TABLE above AS SELECT id FROM st")
    place = detail(shop, "st")["location"].removesuffix("st") + "busy"
    rename_and_be_killed(shop, monkeypatch, commits)
    assert answer(shop, "DROP STREAM TABLE IF EXISTS st") == []
    with pytest.raises(DependentsExist, match=r"shop\.busy is read by spark_catalog\.shop\.above"):
        shop.sql("DROP STREAM TABLE busy")
    names = ("spark_catalog.shop.above", "spark_catalog.shop.busy")
    assert answer(shop, "DROP STREAM TABLE busy CASCADE") == [(name, "DROPPED") for name in names]
    assert answer(shop, "SHOW TABLES LIKE 'busy|above'") == []
    assert not Path(place.removeprefix("file:")).exists()


@pytest.mark.parametrize("commits", in_turn([1, 2, 3], [2]))
def test_a_rename_that_was_killed_goes_on(shop: SparkSession, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """Killed after the table was renamed and before the first, the second or the last of the commits that follow."""
    readers = {name: READERS[name][0] for name in ("plain", "grouped")}
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    for name, query in readers.items():
        shop.sql(f"CREATE STREAM TABLE {name} AS {query}")
    rename_and_be_killed(shop, monkeypatch, commits)
    shop.sql("INSERT INTO sales VALUES (77, 'north', 5)")
    assert answer(shop, "ALTER STREAM TABLE st RENAME TO busy") == [("spark_catalog.shop.busy", "ACTIVE")]
    assert [row[0].split(".")[-1] for row in answer(shop, "SHOW STREAM TABLES")] == ["busy", "grouped", "plain"]
    shop.sql("REFRESH STREAM TABLE busy")
    for name in readers:
        query = READERS[name][1]
        assert shown(shop, name).endswith(f"AS\n{query}"), name
        assert done(shop, f"REFRESH STREAM TABLE {name}")[0] == "DIFFERENTIAL", name
        assert_exact(shop, name, query)
    with pytest.raises(StreamTableNotFound, match="st"):
        shop.sql("ALTER STREAM TABLE st RENAME TO busy")


@pytest.mark.parametrize("commits", [1, 2])
def test_a_rename_that_was_killed_is_taken_back(shop: SparkSession, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("CREATE STREAM TABLE above AS SELECT id FROM st")
    rename_and_be_killed(shop, monkeypatch, commits)
    assert answer(shop, "ALTER STREAM TABLE busy RENAME TO st") == [("spark_catalog.shop.st", "ACTIVE")]
    shop.sql("INSERT INTO sales VALUES (77, 'north', 5)")
    shop.sql("REFRESH STREAM TABLE st")
    assert done(shop, "REFRESH STREAM TABLE above")[0] == "DIFFERENTIAL"
    assert_exact(shop, "above", "SELECT id FROM st")


@pytest.mark.parametrize("point", FAILPOINTS[:-1])
def test_a_refresh_that_comes_second_changes_nothing(shop: SparkSession, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    query = "SELECT s.id, a.n FROM sales s JOIN (SELECT region, count(*) AS n FROM sales GROUP BY region) a ON s.region = a.region"
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")
    shop.sql("INSERT INTO sales VALUES (4, 'north', 1), (5, 'west', 2)")
    first = list[str]()

    def come_first(reached: str) -> None:
        if reached == point and not first:
            first.append(reached)
            answer(shop, "REFRESH STREAM TABLE st")

    monkeypatch.setattr(failpoints, "_watchers", [come_first])
    with pytest.raises(ConcurrentRefresh):
        shop.sql("REFRESH STREAM TABLE st")
    assert first == [point]
    assert_exact(shop, "st", query)
    assert answer(shop, "REFRESH STREAM TABLE st")[0][1] == "NO_DATA"
    shop.sql("DELETE FROM sales WHERE id = 4")
    assert answer(shop, "REFRESH STREAM TABLE st")[0][1] == "DIFFERENTIAL"
    assert_exact(shop, "st", query)


def test_drop_leaves_neither_name_nor_files(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {BY_REGION}")
    place = Path(detail(shop, "st")["location"].removeprefix("file:"))
    assert place.is_dir()
    assert answer(shop, "DROP STREAM TABLE st") == [(ST, "DROPPED")]
    assert not shop.catalog.tableExists("st")
    assert not place.exists()
    with pytest.raises(StreamTableNotFound, match="st"):
        shop.sql("DROP STREAM TABLE st")
    assert answer(shop, "DROP STREAM TABLE IF EXISTS st") == []


def test_drop_of_a_table_that_is_read(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("CREATE STREAM TABLE b AS SELECT id FROM st")
    shop.sql("CREATE STREAM TABLE c AS SELECT b.id FROM b JOIN st ON b.id = st.id")
    for statement in ("DROP STREAM TABLE st", "DROP STREAM TABLE IF EXISTS st"):
        with pytest.raises(DependentsExist, match=r"shop\.b"):
            shop.sql(statement)
    assert answer(shop, "DROP STREAM TABLE IF EXISTS b CASCADE") == [
        ("spark_catalog.shop.c", "DROPPED"),
        ("spark_catalog.shop.b", "DROPPED"),
    ]
    assert [row[0] for row in answer(shop, "SHOW STREAM TABLES")] == [ST]


def test_show_stream_tables(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL SCHEDULE '30s' AS {ALL}")
    shop.sql(f"CREATE STREAM TABLE other WITH NO DATA AS {ALL}")
    other, st = (
        ("spark_catalog.shop.other", "ACTIVE", "AUTO", "MANUAL", None, 0, None),
        (ST, "ACTIVE", "DIFFERENTIAL", "'30s'", "REINITIALIZE", 1, None),
    )

    def shown(statement: str) -> list[tuple[object, ...]]:
        return [(*row[:4], *row[-3:]) for row in answer(shop, statement)]

    assert shown("SHOW STREAM TABLES") == [other, st]
    assert shown("SHOW STREAM TABLES LIKE 'S*'") == [st]
    assert shown("SHOW STREAM TABLES IN `spark_catalog`.shop LIKE 'sale*|oth*|no';") == [other]
    assert shown("SHOW STREAM TABLES FROM default") == []


def test_describe(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '1d' AS {BY_REGION} HAVING count(*) < 9")
    described = answer(shop, "DESC STREAM TABLE st")
    assert described == [
        ("name", ST),
        ("status", "ACTIVE"),
        ("refresh_mode", "AUTO"),
        ("schedule", "'1d'"),
        ("query", f"{BY_REGION} HAVING count(*) < 9"),
        ("location", detail(shop, "st")["location"]),
        ("version", "1"),
        ("last_action", "REINITIALIZE"),
        ("source spark_catalog.shop.sales", f"version {version(shop, 'sales')}"),
    ]
    extended = answer(shop, "DESCRIBE STREAM TABLE EXTENDED st")
    assert extended[: len(described)] == described
    for key in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone"):  # never set here: defaults are captured as well
        assert (f"setting {key}", shop.conf.get(key)) in extended
    assert [row for row in extended if row[0].startswith("arrangement")] == [("arrangement a0", "version 0")]


CREATED = [
    f"CREATE STREAM TABLE st AS {ALL};",
    f"create or replace stream table st schedule cron '@daily' at time zone 'UTC' with no data as -- why\n{BY_REGION} ;",
    """CREATE STREAM TABLE IF NOT EXISTS `st` (`a``b` COMMENT 'it''s; "so"', `Select`) TBLPROPERTIES (b.c = 1.5, 'a' = 'x''y\\\\z')
    COMMENT 'a\\nb' PARTITIONED BY (`Select`) REFRESH MODE FULL SCHEDULE '1h30m' AS SELECT ';' AS x, id FROM sales /* end */""",
    f"CREATE STREAM TABLE st CLUSTER BY (region, amount) SCHEDULE CALCULATED AS {ALL}",
]


@pytest.mark.parametrize("create", in_turn(CREATED, CREATED[1:3]), ids=range(len(CREATED)))
def test_show_create_runs_and_shows_itself(shop: SparkSession, create: str) -> None:
    shop.sql(create)
    shop.sql("REFRESH STREAM TABLE st")
    text, schema, found = shown(shop, "st"), shop.table("st").schema, detail(shop, "st")
    rows = bag(shop, "SELECT * FROM st")
    shop.sql("DROP STREAM TABLE st")
    assert done(shop, text) == ("REINITIALIZE", "the table was created")
    assert shown(shop, "st") == text
    assert (shop.table("st").schema, bag(shop, "SELECT * FROM st")) == (schema, rows)
    kept = ("description", "partitionColumns", "clusteringColumns", "location")
    assert {key: detail(shop, "st")[key] for key in kept} == {key: found[key] for key in kept}


def test_show_refresh_history(shop: SparkSession) -> None:
    start = datetime.now() - timedelta(seconds=1)  # noqa: DTZ005  (Spark hands out local times)
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("INSERT INTO sales VALUES (4, 'west', 40)")
    for statement in (
        "REFRESH STREAM TABLE st",
        "REFRESH STREAM TABLE st",
        "ALTER STREAM TABLE st SUSPEND",
        "ALTER STREAM TABLE st RESUME",
    ):
        shop.sql(statement)
    shop.sql("CREATE STREAM TABLE above AS SELECT id FROM st")
    shop.sql("REFRESH STREAM TABLE st FULL")
    history = answer(shop, "SHOW REFRESH HISTORY FOR st")
    assert [(*row[:2], *row[3:7]) for row in history] == [
        (ST, 5, "FULL", "REFRESH ... FULL was asked for", 0, 0),  # a table that others read: no row differs
        (ST, 2, "DIFFERENTIAL", "1 of 1 sources changed", 1, 0),
        (ST, 1, "REINITIALIZE", "the table was not populated yet", 4, 0),
    ]
    times = [row[2] for row in history]
    assert [start, *reversed(times)] == sorted([start, *times])
    assert all(row[7] > 0 for row in history)
    assert answer(shop, "SHOW REFRESH HISTORY FOR shop.st LIMIT 2") == history[:2]
    everything = answer(shop, "SHOW REFRESH HISTORY")
    assert [row[0] for row in everything] == [ST, "spark_catalog.shop.above", ST, ST]
    assert answer(shop, "SHOW REFRESH HISTORY LIMIT 1") == everything[:1]


def test_show_refresh_history_reaches_as_far_as_the_log(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st TBLPROPERTIES ('delta.checkpointInterval' = '2') AS {ALL}")
    for _ in range(2):
        shop.sql("REFRESH STREAM TABLE st FULL")
    log = Path(detail(shop, "st")["location"].removeprefix("file:")) / "_delta_log"
    assert list(log.glob("*2.checkpoint*.parquet")), "without a checkpoint Delta would not clean the log up either"
    for number in (0, 1):
        for file in log.glob(f"*0{number}.*"):
            file.unlink()
    for statement in ("SHOW REFRESH HISTORY FOR st", "SHOW REFRESH HISTORY"):
        assert [row[1] for row in answer(shop, statement)] == [3, 2]


def test_show_dependencies(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    shop.sql("CREATE STREAM TABLE above AS SELECT st.id FROM st JOIN sales ON st.id = sales.id")
    above = [
        ("spark_catalog.shop.above", "spark_catalog.shop.sales", "table", "id"),
        ("spark_catalog.shop.above", ST, "stream table", "id"),
    ]
    assert sorted(answer(shop, "SHOW STREAM TABLE DEPENDENCIES FOR above")) == above
    assert sorted(answer(shop, "SHOW STREAM TABLE DEPENDENCIES")) == [
        *above,
        (ST, "spark_catalog.shop.sales", "table", "amount, id, region"),
    ]
    shop.sql("CREATE VIEW seen AS SELECT id FROM sales")
    shop.sql("CREATE FUNCTION twice(n INT) RETURNS INT RETURN 2 * n")
    shop.sql("CREATE STREAM TABLE through AS SELECT twice(id) AS n FROM seen")
    assert [row[1:] for row in answer(shop, "SHOW STREAM TABLE DEPENDENCIES FOR through")] == [
        ("spark_catalog.shop.sales", "table", "id"),
        ("spark_catalog.shop.seen", "view", None),
        ("spark_catalog.shop.twice", "function", None),
    ]
    columns = "SELECT columns FROM stream_table_dependencies('{}')"
    shop.sql("CREATE OR REPLACE VIEW seen AS SELECT amount AS id FROM sales")
    shop.sql("REFRESH STREAM TABLE through")  # what the query means is what it read last
    assert answer(shop, f"{columns.format('through')} WHERE kind = 'table'") == [("amount",)]
    shop.sql("CREATE STREAM TABLE counted AS SELECT s.id, count(*) AS n FROM sales s CROSS JOIN st WHERE st.id > 1 GROUP BY s.id")
    shop.sql("ALTER STREAM TABLE st RENAME TO renamed")
    assert sorted(answer(shop, columns.format("counted"))) == [("id",), ("id",)]
    shop.sql("ALTER STREAM TABLE renamed RENAME TO st")
    shop.sql("CREATE STREAM TABLE every AS SELECT count(*) AS n FROM sales")
    assert answer(shop, columns.format("every")) == [("",)]
    for name in ("counted", "every"):
        shop.sql(f"DROP STREAM TABLE {name}")
    shop.sql("DROP STREAM TABLE through")
    shop.sql("DROP FUNCTION twice")


def test_a_refresh_leaves_no_temporary_view_and_no_kept_rows(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = list[SparkSession]()
    enter = Workspace.__enter__

    def entered(workspace: Workspace) -> Workspace:
        sessions.append(workspace.session)
        return enter(workspace)

    monkeypatch.setattr(Workspace, "__enter__", entered)
    kept = shop._jsc.getPersistentRDDs().size()
    shop.sql("CREATE STREAM TABLE st AS SELECT region, sum(100 / (amount - 7)) AS n FROM sales GROUP BY region")
    shop.sql("INSERT INTO sales VALUES (4, 'west', 8)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    shop.sql("INSERT INTO sales VALUES (5, 'west', 7)")
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        shop.sql("REFRESH STREAM TABLE st")
    assert len(sessions) > 2
    for session in (shop, *sessions):
        assert session.sql("SHOW TABLES").where("isTemporary").collect() == []
    assert shop._jsc.getPersistentRDDs().size() == kept
