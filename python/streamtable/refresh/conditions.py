"""Conditions without an answer for a row, as by a division by zero: the error of a refresh names the condition.

Spark's own error does not tell an expression of the condition from one of the query. So the condition is looked for where a refresh
failed: it is the cause if it cannot be computed for rows that can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame

from streamtable.delta.tables import Version
from streamtable.engine.pinned import pinned_query
from streamtable.errors import RefreshError
from streamtable.jvm.failures import cancelled, out_of_memory, root_cause
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import Condition
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.expectations import spelled
from streamtable.query.frozen import FROZEN
from streamtable.refresh.expectations import judged_rows

__all__ = ["conditions_named"]


@contextmanager
def conditions_named(
    name: str, analysed: AnalysedQuery, target: Mapping[str, Version], others: Iterable[DataFrame] = ()
) -> Iterator[None]:
    """Raise RefreshError where the block fails because a condition of the table has no answer for a row.

    The rows are those of the query at the `target`, and for frozen rows `others` in the columns of the table.
    """
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        if cancelled(error) or storage_failed(error) or out_of_memory(error):
            raise
        for rows, judged in _judged(analysed, target, others):
            found = next(((of, each, failure) for of, each, answers in judged if (failure := _failure(answers))), None)
            if found and not _failure(rows):
                raise _without_answer(name, *found) from error
        raise


def _judged(
    analysed: AnalysedQuery, target: Mapping[str, Version], others: Iterable[DataFrame]
) -> Iterator[tuple[DataFrame, list[tuple[str, Condition, DataFrame]]]]:
    """Yield rows, and each condition on them: what has it, and its answers alone."""
    if frozen := analysed.frozen:
        for rows in (pinned_query(replace(analysed, frame=frozen.whole), target), *others):
            yield rows, [(FROZEN, frozen.condition, rows.selectExpr(spelled(frozen.condition)))]
    if judged := analysed.judged:
        rows = judged_rows(analysed, judged, target)
        answers = [(f"the expectation {each.name}", each.condition, rows.select(flag.id)) for each, flag in judged.flags]
        yield rows.select(*(each.id for each in judged.columns)), answers


def _failure(rows: DataFrame) -> Exception | None:
    """Compute all columns of the rows, and return the error in place of them."""
    try:
        rows._jdf.javaRDD().count()  # which leaves out no column, as an aggregate of the frame would
    except (Py4JJavaError, CapturedException) as error:
        if cancelled(error):
            raise
        return error
    return None


def _without_answer(name: str, of: str, condition: Condition, failure: Exception) -> RefreshError:
    said = root_cause(failure).strip().partition("\n")[0]
    return RefreshError(
        f"the condition of {of}, ({condition.text}), has no answer for a row of {name}: {said}",
        hint="write a condition that has one for each row, as with try_divide, try_cast, try_to_date or nullif; "
        "or correct the row in its source",
    )
