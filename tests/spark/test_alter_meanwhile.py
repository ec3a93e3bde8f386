"""ALTER STREAM TABLE while the table is refreshed: what moves no rows stops no refresh, and no refresh stops it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.oracle.comparison import assert_exact
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, folder

from streamtable.catalog.entries import Entry, load
from streamtable.delta import commit as commits
from streamtable.delta.commit import Metadata, RowChange, Transaction, commit
from streamtable.errors import ConcurrentRefresh
from streamtable.language.names import Name
from streamtable.refresh import failpoints

QUERY = "SELECT region, count(*) AS n, sum(amount) AS total FROM sales GROUP BY region"
HARMLESS = {
    "schedule": "ALTER STREAM TABLE st SET SCHEDULE '7m'",
    "mode": "ALTER STREAM TABLE st SET REFRESH MODE FULL",
    "suspend": "ALTER STREAM TABLE st SUSPEND",
    "resume": "ALTER STREAM TABLE st RESUME",
    "properties": "ALTER STREAM TABLE st SET TBLPROPERTIES ('team' = 'north', 'delta.logRetentionDuration' = 'interval 40 days')",
    "comment": "ALTER STREAM TABLE st SET TBLPROPERTIES ('comment' = 'by region')",
    "column": "ALTER STREAM TABLE st ALTER COLUMN n COMMENT 'rows'",
    "two at once": "ALTER STREAM TABLE st SET SCHEDULE '7m'; ALTER STREAM TABLE st SUSPEND",
}


ON_TOP = [HARMLESS[each] for each in ("mode", "comment", "column", "two at once", "properties", "resume")]


def entry_of(spark: SparkSession) -> Entry:
    return load(spark, Name(("st",)))


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], point: str = "before the table") -> None:
    """Act once when the next refresh has read the table, and has written none of its files yet."""
    left = [act]

    def reached(failpoint: str) -> None:
        if failpoint == point and left:
            left.pop()()

    monkeypatch.setattr(failpoints, "_watchers", [reached])


def once_written(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once when the next commit has its files, and is not in the log yet."""

    def late(*of: Any) -> str:
        monkeypatch.undo()
        act()
        return commits._on_top(*of)

    monkeypatch.setattr(commits, "_on_top", late)


@pytest.fixture
def st(shop: SparkSession) -> SparkSession:
    """Return the shop with a stream table that is behind its source by one row."""
    shop.sql(f"CREATE STREAM TABLE st SCHEDULE '1h' AS {QUERY}")
    shop.sql("INSERT INTO sales VALUES (4, 'north', 5)")
    return shop


def run(spark: SparkSession, statements: str) -> None:
    for statement in statements.split("; "):
        spark.sql(statement)


@pytest.mark.parametrize("statement", in_turn(ON_TOP, ON_TOP[:3]))
def test_a_refresh_is_committed_on_top_of_an_alter(st: SparkSession, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    states = list[Any]()

    def meanwhile() -> None:
        run(st, statement)
        states.append(entry_of(st).state)

    between(monkeypatch, meanwhile)
    kind = " FULL" if "comment" in statement else ""  # each kind of refresh once
    assert done(st, f"REFRESH STREAM TABLE st{kind}")[0] == ("FULL" if kind else "DIFFERENTIAL")
    assert_exact(st, "st", QUERY)
    (altered,), after = states, entry_of(st).state
    assert (after.properties, after.schema_json) == (altered.properties, altered.schema_json)
    assert after.version == altered.version + 1
    st.sql("INSERT INTO sales VALUES (5, NULL, 1)")
    st.sql("ALTER STREAM TABLE st RESUME")
    assert done(st, "REFRESH STREAM TABLE st")[0] == ("FULL" if "MODE FULL" in statement else "DIFFERENTIAL")
    assert answer(st, "VERIFY STREAM TABLE st")[0][1]


@pytest.mark.parametrize(
    "statement",
    in_turn([HARMLESS[each] for each in ("schedule", "suspend", "properties")], [HARMLESS["suspend"], HARMLESS["properties"]]),
)
def test_an_alter_is_committed_on_top_of_a_refresh(st: SparkSession, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    before, path = entry_of(st).state, "streamtable.refresh.records.commit"

    def second(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(path, commit)
        st.sql("REFRESH STREAM TABLE st")
        return commit(*arguments, **options)

    monkeypatch.setattr(path, second)
    st.sql(statement)
    after = entry_of(st).state
    assert after.version == before.version + 2 and after.frontier != before.frontier
    assert after.properties != before.properties
    assert answer(st, "VERIFY STREAM TABLE st")[0][1]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER STREAM TABLE st AS SELECT region, count(*) AS n, max(amount) AS total FROM sales GROUP BY region",
        "CREATE OR REPLACE STREAM TABLE st WITH NO DATA AS SELECT region, 1L AS n, 2L AS total FROM sales",
        "REFRESH STREAM TABLE st",
    ],
)
def test_what_gives_the_table_other_rows_still_comes_first(
    st: SparkSession, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    between(monkeypatch, lambda: st.sql(statement))
    with pytest.raises(ConcurrentRefresh):
        st.sql("REFRESH STREAM TABLE st")
    st.sql("REFRESH STREAM TABLE st")
    assert answer(st, "VERIFY STREAM TABLE st")[0][1]


def test_a_refresh_that_finds_other_sources_keeps_what_an_alter_said(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commit has properties itself: those that it changes, and no other, are put on top."""
    shop.sql("CREATE TABLE others (region STRING) USING delta")
    shop.sql("CREATE VIEW seen AS SELECT region FROM sales")
    shop.sql("CREATE STREAM TABLE st SCHEDULE '1h' AS SELECT region FROM seen")
    shop.sql("CREATE OR REPLACE VIEW seen AS SELECT region FROM others")
    between(monkeypatch, lambda: run(shop, HARMLESS["two at once"]))
    shop.sql("REFRESH STREAM TABLE st")
    definition = entry_of(shop).definition
    assert definition.status == "SUSPENDED" and "7" in str(definition.statement.schedule)
    assert [path.rpartition("/")[2] for path in definition.sources] == ["others"]
    assert shop.table("st").isEmpty()


@pytest.mark.parametrize("full", ["", " FULL"])
def test_a_refresh_commits_nothing_into_a_table_that_took_the_place_of_its_own(
    st: SparkSession, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """Both are at one version, so that the commit met no conflict, and the new table had the old one's rows."""
    other = "SELECT region, count(*) AS n, sum(amount) AS total FROM sales WHERE amount > 5 GROUP BY region"
    between(monkeypatch, partial(run, st, f"DROP STREAM TABLE st; CREATE STREAM TABLE st SCHEDULE '1h' AS {other}"))
    with pytest.raises(ConcurrentRefresh, match="another process has made the table"):
        st.sql(f"REFRESH STREAM TABLE st{full}")
    assert_exact(st, "st", other)


@pytest.mark.parametrize("moment", [between, once_written])
@pytest.mark.parametrize("made_anew", [False, True])
def test_a_commit_broke_the_log_of_a_table_that_another_driver_dropped_or_made_anew(
    st: SparkSession, monkeypatch: pytest.MonkeyPatch, made_anew: bool, moment: Callable[..., None]
) -> None:
    st.sql("CREATE TABLE other USING delta AS SELECT 1 AS id")
    of_st, of_other = folder(st, "st"), folder(st, "other")

    def act() -> None:
        shutil.rmtree(of_st)  # this driver does not see that
        if made_anew:
            shutil.copytree(of_other, of_st)

    moment(monkeypatch, act)
    with pytest.raises(ConcurrentRefresh, match="another process has (dropped|made) the table"):
        st.sql("REFRESH STREAM TABLE st")
    found, expected = ({each.name for each in place.glob("_delta_log/*.json")} for place in (of_st, of_other))
    assert found == (expected if made_anew else set())


def test_of_two_who_make_one_table_the_second_adds_nothing_to_it(st: SparkSession, tmp_path: Path) -> None:
    """The rows of an arrangement that two sessions filled first were there twice."""
    rows = st.range(3).select(F.col("id").cast("int"))
    for n in range(2):
        with pytest.raises(ConcurrentRefresh) if n else nullcontext():
            commit(
                st,
                str(tmp_path / "new"),
                -1,
                Transaction("a", n),
                RowChange(rows),
                Metadata(schema_json=rows.schema.json(), properties={}),
            )
    assert st.read.format("delta").load(str(tmp_path / "new")).count() == 3
