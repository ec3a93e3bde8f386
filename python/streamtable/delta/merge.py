"""MERGE: rows of a Delta table are deleted, updated and inserted in one commit that is written once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession

from streamtable.delta.bridge import translated

__all__ = ["Values", "merge_once"]

Values: TypeAlias = Mapping[str, str | Column]
"""Columns of the table, with the expressions of their new values."""


def merge_once(
    session: SparkSession,
    path: str,
    changes: DataFrame,
    on: Column,
    *,
    delete: Column,
    updates: Sequence[tuple[Column | None, Values]],
    insert: tuple[Column, Values],
    application: str,
    number: int,
) -> None:
    """Merge `changes` into the table. Do nothing if the table has the application's `number` or a later one.

    Expressions call the two sides `target` and `changes`. Of a matched row the first clause counts whose condition holds: `delete`,
    then each of `updates`. A row without a match is inserted if the condition of `insert` holds.
    """
    merge = DeltaTable.forPath(session, path).alias("target").merge(changes.alias("changes"), on)
    merge = merge.whenMatchedDelete(delete)
    for condition, values in updates:
        merge = merge.whenMatchedUpdate(condition, dict(values))
    condition, values = insert
    merge = merge.whenNotMatchedInsert(condition, dict(values))
    with translated(path), _numbered(session, application, number):
        merge.execute()


@contextmanager
def _numbered(session: SparkSession, application: str, number: int) -> Iterator[None]:
    """Have Delta put the application's number into the commit, and skip a commit whose number the table has."""
    settings = {"txnAppId": application, "txnVersion": str(number)}
    for key, value in settings.items():
        session.conf.set(f"spark.databricks.delta.write.{key}", value)
    try:
        yield
    finally:
        for key in settings:
            session.conf.unset(f"spark.databricks.delta.write.{key}")
