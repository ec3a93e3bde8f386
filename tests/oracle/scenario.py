"""A database with sources and stream tables; each step changes sources, refreshes every stream table and compares it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from pyspark.sql import Row, SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.copies import Copies
from tests.oracle.together import together

from streamtable.delta.ddl import as_engine

if TYPE_CHECKING:
    from typing_extensions import Self  # Python 3.10 has none of its own

FEED = "'delta.enableChangeDataFeed'='true'"
"""The properties of a source whose changes are read from its change feed; without it they are found by comparing files."""

ADAPTIVE = "spark.sql.adaptive.enabled"


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session some other settings for a while."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, known in before.items():
            spark.conf.unset(key) if known is None else spark.conf.set(key, known)


def planned_once(spark: SparkSession) -> AbstractContextManager[None]:
    """Let DML of a few rows in this session be planned once, not again after each of its stages; our own sessions decide themselves."""
    return with_settings(spark, {ADAPTIVE: "false"})


def dropped(spark: SparkSession, *schemas: str) -> None:
    """Leave these schemas and drop them in Spark's own way, which is quicker than that of DROP SCHEMA."""
    spark.sql("USE default")
    with as_engine(spark):
        for schema in schemas:
            spark.sql(f"DROP DATABASE IF EXISTS {schema} CASCADE")


_numbers = itertools.count()


class Scenario:
    """Sources and stream tables in a database of their own, dropped at the end."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.database = f"scenario_{next(_numbers)}"
        self.queries: dict[str, str] = {}
        self.sources: list[str] = []

    def __enter__(self) -> Self:
        self.spark.sql(f"CREATE DATABASE {self.database}")
        self.spark.sql(f"USE {self.database}")
        self.copies = Copies(self.spark, self.sources)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.copies.close()
        # Past statements of ours: DROP STREAM TABLE looks at all others for those that read it, and DROP SCHEMA reads each definition.
        self.spark.sql("USE default")
        self.spark._jsparkSession.sharedState().externalCatalog().dropDatabase(self.database, True, True)

    def source(self, name: str, columns: str, rows: str = "", properties: str = FEED, partitioned_by: str = "") -> None:
        """Create a Delta table; `rows` is what follows VALUES."""
        options = f" TBLPROPERTIES ({properties})" if properties else ""
        partitions = f" PARTITIONED BY ({partitioned_by})" if partitioned_by else ""
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING delta{partitions}{options}")
        if rows:
            self.spark.sql(f"INSERT INTO {name} VALUES {rows}")
        self.sources.append(name)

    def stream(self, name: str, query: str, mode: str = "DIFFERENTIAL") -> None:
        """Create a stream table. Its first contents are Spark's own answer; what is wrong with them shows after the next step."""
        self.streams({name: query}, mode)

    def streams(self, queries: Mapping[str, str], mode: str = "DIFFERENTIAL") -> None:
        """Create stream tables that do not read each other, together."""
        together(lambda name: self.spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE {mode} AS {queries[name]}"), queries)
        self.queries.update(queries)

    def change(self, *statements: str) -> None:
        """Run DML; fail when it leaves every source as it was, because the step would test nothing."""
        before = self.copies.rows()
        with planned_once(self.spark):
            for statement in statements:
                self.spark.sql(statement)
        assert before != self.copies.rows(), f"no row was touched by {statements}"

    def refresh(self, name: str, action: str = "DIFFERENTIAL") -> Row:
        """Refresh one stream table, compare it with its query and return the row of the refresh."""
        done = self.spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        assert done["action"] == action, done
        assert_exact(self.copies.session(), name, self.queries[name])
        return done

    def step(self, *statements: str, action: str = "DIFFERENTIAL") -> list[Row]:
        """Change the sources, then refresh every stream table in the order of creation; those that do not read each other, together."""
        self.change(*statements)
        done: list[Row] = []
        wave: list[str] = []
        for name, query in self.queries.items():
            if any(re.search(rf"\b{each}\b", query) for each in wave):
                done += together(lambda each: self.refresh(each, action), wave)
                wave = []
            wave.append(name)
        return done + together(lambda each: self.refresh(each, action), wave)

    def rows(self, name: str) -> list[tuple[object, ...]]:
        """Return what a reader of the table sees, sorted by its spelling; `refresh` compares by the checksum's files."""
        return sorted((tuple(row) for row in self.spark.table(name).collect()), key=repr)
