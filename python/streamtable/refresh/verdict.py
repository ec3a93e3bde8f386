"""The verdict, the first row of EXPLAIN: what the next refresh would do."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.algebra.trees import sources_of
from streamtable.catalog.entries import Entry
from streamtable.differentiate.registry import prunes_nothing
from streamtable.engine import clock
from streamtable.errors import DependencyCycle, NotIncremental, SourceChanged
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.records import MANUAL
from streamtable.refresh.run import begin, decided

__all__ = ["VERDICT", "of_definition", "of_next_refresh"]

VERDICT = "Verdict"
"""Stands in the column of operators."""


def of_next_refresh(spark: SparkSession, entry: Entry, analysed: AnalysedQuery) -> tuple[str, bool, str]:
    """Return the action of a REFRESH now, and its reason. Raises SourceUnavailable."""
    frontier, vector = Frontier.of(entry.state.frontier), Vector({}, clock.now())
    run = begin(entry, analysed, frontier, vector, time.perf_counter(), MANUAL)
    try:
        _, choice = decided(spark, run)
    except (DependencyCycle, NotIncremental, SourceChanged) as error:
        return VERDICT, False, f"The next refresh fails: {error.reason}"
    cheap = choice.action in (Action.NO_DATA, Action.DIFFERENTIAL)
    return VERDICT, cheap, f"The next refresh is {choice.action.value}: {choice.reason}"


def of_definition(mode: RefreshMode, analysed: AnalysedQuery) -> tuple[str, bool, str]:
    """Return how a table with this query would be refreshed."""
    if mode is RefreshMode.FULL:
        return VERDICT, False, "Each refresh that finds a change is FULL: the refresh mode is FULL"
    if found := analysed.obstacle:
        return VERDICT, False, f"Each refresh is FULL: {found.operator}: {found.reason}"
    if mode is RefreshMode.AUTO and (told := _in_full(analysed)):
        return told
    most = ", as long as that costs less than a full one" if mode is RefreshMode.AUTO else ""
    return VERDICT, True, f"Each refresh is DIFFERENTIAL{most}"


def _in_full(analysed: AnalysedQuery) -> tuple[str, bool, str] | None:
    """Return the sources whose changes AUTO answers by a full refresh, because a delta would read whole tables, and why."""
    sources = sorted(sources_of(analysed.tree), key=str)
    tables = {source.path: source for source in sources}
    alike = {path: frozenset(each for each in sources if each.path == path) for path in tables}  # one table may have two names
    found = {tables[path]: why for path, changed in alike.items() if (why := prunes_nothing(analysed.tree, changed))}
    if not found:
        return None
    moves = CLOCK in found and analysed.bound.clock != "date"  # a date moves once in a day, a time for each refresh
    always, first = moves or len(found) == len(tables), next(iter(found.values()))
    after = "" if always else f" after a change of {', '.join(map(str, found))}"
    return VERDICT, not always, f"Each refresh{after} is FULL: {first.operator}: {first.reason}, so that a full refresh is cheaper"
