"""The reading of a query: our tree, rendered and run over the latest versions, against the query itself, as Spark runs it.

The rules start from the tree; a mistake in the reading or in a normalisation pass would be in every delta that follows from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import bag, bag_of
from tests.oracle.queries_of_all_kinds import QUERIES
from tests.oracle.together import together
from tests.oracle.workload import QUERIES as FIRST_QUERIES
from tests.oracle.workload import create_sources

from streamtable.algebra.operators import Aggregate
from streamtable.algebra.render import render
from streamtable.algebra.trees import walk
from streamtable.delta.tables import versions
from streamtable.engine.sources import Sources
from streamtable.engine.workspace import Workspace
from streamtable.language.names import Query
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.sessions.captured import captured_settings
from streamtable.sessions.internal import lend


@contextmanager
def reading(spark: SparkSession, query: str) -> Iterator[AnalysedQuery]:
    namespace = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
    analysed = analyse(lend(spark, namespace, captured_settings(spark)), Query(query))
    try:
        yield analysed
    finally:
        release(analysed)


def rendered(spark: SparkSession, query: str) -> tuple[list[str], Counter[str]]:
    """Return the types and the rows that our tree of the query gives."""
    with reading(spark, query) as analysed:
        target = dict(zip(analysed.paths, versions(spark, analysed.paths), strict=True))
        found = {path: version for path, version in target.items() if version is not None}
        with Workspace(analysed.session) as workspace:
            frame = workspace.query(render(analysed.tree, Sources(analysed, workspace, found, found)))
            return [field.dataType.simpleString() for field in frame.schema], bag_of(frame.toDF(*analysed.frame.columns))


@pytest.mark.core
@pytest.mark.timeout(900)
def test_the_tree_of_every_query_means_the_query(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE readings")
    spark.sql("USE readings")
    create_sources(spark, seed=11)
    queries = [query for name, query in (FIRST_QUERIES | QUERIES).items() if name != "chained"]

    def compare(query: str) -> None:
        types, rows = rendered(spark, query)
        assert types == [field.dataType.simpleString() for field in spark.sql(query).schema], query
        assert rows == bag(spark, query), query

    together(compare, queries)
    with reading(spark, FIRST_QUERIES["cte_twice"]) as analysed:
        groups = [node for node in walk(analysed.tree) if isinstance(node, Aggregate)]
    assert len(groups) == 2 and len(set(groups)) == 1, "a CTE that is used twice is stored once"
    spark.sql("USE default")
    spark.sql("DROP DATABASE readings CASCADE")
