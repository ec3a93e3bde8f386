"""What there is to see of expectations: how many rows meet each of them, and the rows that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from streamtable.catalog.entries import Entry, load
from streamtable.engine import clock
from streamtable.errors import InvalidStatement, near_names
from streamtable.jvm.gateway import JavaRows
from streamtable.language.names import Name
from streamtable.language.parse import parse_name
from streamtable.language.stream_table.expectations import Expectation
from streamtable.observe.results import Rows, columns, limit_of
from streamtable.query.analyse import release
from streamtable.query.fits import check_columns
from streamtable.query.stored import analyse_again
from streamtable.refresh.conditions import conditions_named
from streamtable.refresh.expectations import judged_rows, violating
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.targets import targets
from streamtable.sessions.internal import lend
from streamtable.sql.literals import quote_string

__all__ = ["EXPECTATIONS", "MOST", "VIOLATIONS", "Violations", "counts_of", "expectation_rows"]

MOST = 10_000
"""So many rows are returned where nobody gives a limit."""


def counts_of(entry: Entry) -> Iterator[tuple[Expectation, int | None, int | None]]:
    """Yield the expectations of a table, and how many rows pass and fail as of its last refresh; None before the first."""
    frontier = Frontier.of(entry.state.frontier)
    counts = frontier.counts if frontier else None
    for each in entry.definition.statement.expectations:
        known = counts is not None and each.name in counts.failed
        yield each, *((counts.passed(each.name), counts.failed[each.name]) if known and counts else (None, None))


def expectation_rows(tables: Sequence[Entry]) -> Rows:
    """Return the rows of `expectations()`."""
    return [
        (entry.definition.name, each.name, each.condition.text, each.violation.value, passed, failed, entry.state.version)
        for entry in tables
        for each, passed, failed in counts_of(entry)
    ]


EXPECTATIONS = columns(
    name=StringType,
    expectation=StringType,
    condition=StringType,
    on_violation=StringType,
    passed=LongType,
    failed=LongType,
    version=LongType,
)


@dataclass(frozen=True)
class Violations:
    """The function `expectation_violations`: its columns are those of the table that it is asked about."""

    name: str
    parameters: tuple[str, ...] = ("name", "expectation", "limit")

    def columns(self, spark: SparkSession, arguments: Sequence[str | None]) -> StructType:
        """Return the columns. Raises InvalidStatement for other arguments, StreamTableNotFound, with near names."""
        entry, _, _ = self._asked(spark, arguments)
        return entry.state.schema

    def rows(self, spark: SparkSession, arguments: Sequence[str | None]) -> JavaRows:
        """Return the rows of the query over the sources as they are now that fail the expectation, dropped or not."""
        entry, name, limit = self._asked(spark, arguments)
        definition = entry.definition
        session = lend(spark, definition.namespace, definition.settings)
        analysed = analyse_again(session, entry)
        try:
            check_columns(entry, analysed)
            judged = analysed.judged
            assert judged is not None, "the table has an expectation"
            target = targets(definition, analysed, Frontier.of(entry.state.frontier), Vector({}, clock.now()))
            (flag,) = (flag for each, flag in judged.flags if each.name == name)
            found = violating(judged_rows(analysed, judged, target), flag).select(*(each.id for each in judged.columns))
            with conditions_named(definition.name, analysed, target):
                return _held(found.limit(limit)) if limit is not None else self._all(definition.statement.name, name, found)
        finally:
            release(analysed)

    def _all(self, table: Name, expectation: str, found: DataFrame) -> JavaRows:
        """Return all rows, if they are few: the driver holds them while the query around the call is planned."""
        rows = _held(found.limit(MOST + 1))
        if len(rows) <= MOST:
            return rows
        raise InvalidStatement(
            f"more than {MOST:,} rows of {'.'.join(table.parts)} fail the expectation {expectation}",
            hint=f"give a limit: {self.name}({quote_string(str(table))}, {quote_string(expectation)}, 100); "
            f"expectations({quote_string(str(table))}) has their number",
        )

    def _asked(self, spark: SparkSession, arguments: Sequence[str | None]) -> tuple[Entry, str, int | None]:
        table, expectation, limit = (*arguments, None, None, None)[:3]
        usage = f"call it as {self.name}(name, expectation[, limit])"
        if table is None or expectation is None or len(arguments) > len(self.parameters):
            raise InvalidStatement(f"{self.name} takes the name of a stream table and that of one of its expectations", hint=usage)
        most = limit_of(self.name, limit, usage)
        entry = load(spark, parse_name(table))
        known = [each.name for each in entry.definition.statement.expectations]
        name = next((each for each in known if each.casefold() == expectation.casefold()), None)
        if name is None:
            listed = f"it has {', '.join(known)}" if known else "it has none"
            message = f"{entry.definition.name} has no expectation {expectation}, {listed}.{near_names(expectation, known)}"
            raise InvalidStatement(message)
        return entry, name, most


VIOLATIONS = Violations("expectation_violations")


def _held(rows: DataFrame) -> JavaRows:
    return JavaRows(rows.sparkSession, rows._jdf.collectAsList())
