"""The counts of expectations, from the rows of a query or from its delta, and what violates one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from streamtable.algebra.columns import Column
from streamtable.delta.tables import Version
from streamtable.engine.pinned import pinned_query
from streamtable.engine.workspace import Workspace
from streamtable.errors import ExpectationFailed
from streamtable.language.stream_table.expectations import Expectation, Violation
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.expectations import Judged
from streamtable.refresh.counts import Counts
from streamtable.sql.builder import alias, call, case, column, number, qualified, select, table

__all__ = ["SHOWN", "counted", "counting", "judged_rows", "kept_rows", "refuse_violations", "violating", "whole"]

SHOWN = 10
"""So many rows does an error show."""

_LONGEST = 300


def judged_rows(analysed: AnalysedQuery, judged: Judged, target: Mapping[str, Version]) -> DataFrame:
    """Return the judged rows over the sources at the given versions, columns under their ids."""
    rows = pinned_query(replace(analysed, frame=judged.frame), target)
    return rows.toDF(*(each.id for each in judged.tree.columns))


def whole(
    workspace: Workspace, analysed: AnalysedQuery, target: Mapping[str, Version], found: DataFrame | None = None
) -> tuple[DataFrame, Counts | None]:
    """Return the rows of the query that stay, and the counts of its expectations, for which its rows are computed once.

    `found` are the rows, of the judged query where there are expectations, if they are not those that Spark computes of the query.
    """
    judged = analysed.judged
    if judged is None:
        return pinned_query(analysed, target) if found is None else found, None
    workspace.name("judged", workspace.persist(judged_rows(analysed, judged, target) if found is None else found))
    return kept_rows(workspace, judged, "judged"), counted(workspace, judged, "judged", number(1))


def kept_rows(workspace: Workspace, judged: Judged, name: str) -> DataFrame:
    """Return which of the judged rows that bear a name stay in the table."""
    query = select([column(each.id) for each in judged.columns], table(name))
    return workspace.query(query.where(*(column(flag.id) for _, flag in judged.dropping), copy=False))


def counted(workspace: Workspace, judged: Judged, name: str, weight: exp.Expr) -> Counts:
    """Count the judged rows that bear a name; each counts `weight`."""
    rows, *failed = workspace.query(counting(judged, name, weight)).collect()[0]
    return Counts(rows, {each.name: number for (each, _), number in zip(judged.flags, failed, strict=True)})


def counting(judged: Judged, name: str, weight: exp.Expr) -> exp.Select:
    """Return the query that counts all rows, and those that fail each expectation."""
    failing = (case(column(flag.id), number(0), weight.copy()) for _, flag in judged.flags)
    return select(
        [alias(call("coalesce", call("sum", each), number(0)), f"n{n}") for n, each in enumerate((weight, *failing))], table(name)
    )


def violating(rows: DataFrame, flag: Column) -> DataFrame:
    """Return those of the judged rows that fail an expectation."""
    return rows.filter(~F.coalesce(F.col(qualified((flag.id,))), F.lit(False)))


def refuse_violations(name: str, analysed: AnalysedQuery, target: Mapping[str, Version], counts: Counts | None) -> None:
    """Raise ExpectationFailed where rows fail an expectation that no row may fail; show some of them."""
    judged = analysed.judged
    if judged is None or counts is None:
        return
    for each, flag in judged.flags:
        if each.violation is Violation.FAIL_UPDATE and (failed := counts.failed[each.name]):
            found = violating(judged_rows(analysed, judged, target), flag).limit(SHOWN)
            raise _violated(name, each, failed, _shown(judged, found))


def _violated(name: str, expectation: Expectation, failed: int, rows: list[str]) -> ExpectationFailed:
    listed = "\n  ".join(rows)
    some = "" if failed <= len(rows) else f", {len(rows)} of which are"
    return ExpectationFailed(
        f"{failed:,} {'row' if failed == 1 else 'rows'} of {name} would fail the expectation {expectation.name} "
        f"({expectation.condition.text}){some}:\n  {listed}",
        hint=f"correct the sources, or let the query leave such rows out; ON VIOLATION DROP ROW instead of "
        f"{expectation.violation.value} leaves them out and counts them",
    )


def _shown(judged: Judged, rows: DataFrame) -> list[str]:
    """Spell rows for people."""
    texts = rows.select(*(F.col(qualified((each.id,))).cast("string") for each in judged.columns)).collect()
    spelled = (
        ", ".join(f"{each.name}: {'NULL' if value is None else value}" for each, value in zip(judged.columns, row, strict=True))
        for row in texts
    )
    return [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..." for text in spelled]
