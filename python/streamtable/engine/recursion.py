"""Following the change of a recursion from level to level."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.recursion import LEVEL
from streamtable.algebra.render import render
from streamtable.differentiate.deltas import Recursed
from streamtable.engine.netting import netted
from streamtable.engine.sources import Sources
from streamtable.engine.workspace import Workspace
from streamtable.errors import RefreshError

__all__ = ["recurse"]

_LIMIT = "spark.sql.cteRecursionLevelLimit"


def recurse(workspace: Workspace, sources: Sources, change: Recursed) -> DataFrame:
    """Return the changes of all levels, each netted. Raises RefreshError when the recursion exceeds Spark's limit of levels."""
    arriving = workspace.materialise(workspace.query(render(change.arriving, sources)))
    due = sorted(row[0] for row in arriving.select(LEVEL.id).distinct().collect())
    names = [*(c.id for c in change.working.columns), WEIGHT.id]
    found: list[DataFrame] = []
    before: DataFrame | None = None
    level = 0
    while due or before is not None:
        level = due[0] if before is None else level + 1
        parts = []
        if due and due[0] == level:
            parts.append(arriving.where(F.col(LEVEL.id) == due.pop(0)))
        if before is not None:
            workspace.name(change.recursion.loop.path, before.toDF(*names))
            parts.append(workspace.query(render(change.step, sources)))
        rows = reduce(DataFrame.unionAll, parts)
        columns = [each for each in change.arriving.columns if each != WEIGHT]
        here = workspace.materialise(workspace.query(netted(workspace.name("arrived", rows), columns)))
        before = None if here.isEmpty() else here
        if before is not None:
            _within_limit(workspace, change, level)
            found.append(before)
    return reduce(DataFrame.unionAll, found) if found else arriving.limit(0)


def _within_limit(workspace: Workspace, change: Recursed, level: int) -> None:
    limit = change.recursion.most
    limit = int(workspace.session.conf.get(_LIMIT) or -1) if limit is None else limit
    if level >= limit != -1:
        raise RefreshError(
            f"the recursion passes {limit} levels, Spark's limit (RECURSION_LEVEL_LIMIT_EXCEEDED)",
            hint=f"end it by a condition in its step, or raise {_LIMIT} or MAX RECURSION LEVEL",
        )
