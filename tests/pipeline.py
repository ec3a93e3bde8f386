"""What the pipeline runs of a test with many cases, and in which order files begin.

Those without Spark begin first, then those that take minutes, so that the two processes end together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any

import pytest

LONGEST = tuple(
    f"tests/{each}.py"
    for each in (
        "spark/test_hosts",
        "spark/test_docs",
        "spark/test_patterns_sources",
        "tpch/test_tpch",
        "spark/test_patterns_aggregates",
        "spark/test_replication_cases",
        "spark/test_sources_change",
        "spark/test_patterns_operators",
        "spark/test_statements_end_to_end",
        "spark/test_patterns",
        "spark/test_replication",
        "spark/test_half_made",
        "spark/test_jvm_hosts",
        "spark/test_killed_statements",
        "spark/test_left_behind",
        "spark/test_callback_server",
        "spark/test_console",
        "spark/test_schedule",
        "spark/test_frozen",
        "oracle/test_all_of_sql",
        "spark/test_expectations",
        "spark/test_queue",
        "oracle/test_random_dml",
        "spark/test_replication_targets",
        "spark/test_given_up",
        "spark/test_immediate",
        "spark/test_subscribe",
        "spark/test_subscribe_queries",
        "spark/test_interception",
        "spark/test_definition_is_code",
        "spark/test_monitoring",
        "spark/test_locating",
        "spark/test_meaning",
        "spark/test_demo",
        "spark/test_queue_history",
        "spark/test_drop",
        "oracle/test_random_queries",
        "spark/test_errors_named",
        "spark/test_many_files",
        "spark/test_partition_values",
        "spark/test_crashes",
        "spark/test_statements_create",
        "spark/test_cluster",
        "spark/test_session",
        "spark/test_dry_run",
        "spark/test_names",
    )
)
"""Files with Spark that take more than a minute, the longest first: one that began last would leave the other process without work."""

SHOWN = 30
"""The seconds from which on a file is told with what it took: those of a minute belong into the list."""

WITHOUT_SPARK = ("tests/repository/", "tests/unit/")


def rank(node: str) -> int:
    """Return when the file of a test begins, as a number to sort by; the order of tests within a file is its own."""
    file = node.partition("::")[0]
    if file.startswith(WITHOUT_SPARK):
        return -1
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def of_files(reports: Iterable[Any]) -> list[tuple[str, float]]:
    """Return files and their seconds, set-ups and clean-ups of their tests included, the longest first."""
    seconds = Counter[str]()
    for each in reports:
        seconds[each.nodeid.partition("::")[0]] += each.duration
    return [(file, took) for file, took in seconds.most_common() if took >= SHOWN]


def in_turn(cases: Iterable[Any], chosen: Container[Any]) -> list[Any]:
    """Return all cases as parameters of a test: the chosen ones, one of each kind, for the pipeline, the others for `./run fuzz`."""
    return [pytest.param(each, marks=[] if each in chosen else pytest.mark.fuzz) for each in cases]
