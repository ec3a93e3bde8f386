"""What the pipeline leaves out and in which order it begins, held to the files that are there."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.oracle.queries_of_all_kinds import QUERIES as OF_ALL_KINDS
from tests.oracle.test_all_of_sql import ELSEWHERE, IN_PATTERNS
from tests.oracle.test_random_dml import IN_PATTERNS as OF_RANDOM_DML
from tests.oracle.workload import QUERIES as OF_THE_WORKLOAD
from tests.pipeline import LONGEST, SHOWN, of_files, rank

ROOT = Path(__file__).parents[2]


def test_long_files_begin_first_after_those_without_spark() -> None:
    begun = ["tests/unit/test_pipeline.py::a", *(f"{file}::a" for file in LONGEST), "tests/spark/test_no_such.py::a"]
    collected = [*begun]
    collected.reverse()
    collected.sort(key=rank)
    assert collected == begun


@pytest.mark.parametrize("file", LONGEST)
def test_a_long_file_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_files_are_told_that_take_long() -> None:
    tests = (
        ("tests/a.py::one", SHOWN / 2),
        ("tests/b.py::two", SHOWN - 1),
        ("tests/c.py::x", 2 * SHOWN),
        ("tests/a.py::one", SHOWN),
    )
    assert of_files(SimpleNamespace(nodeid=node, duration=took) for node, took in tests) == [
        ("tests/c.py", 2 * SHOWN),
        ("tests/a.py", 1.5 * SHOWN),
    ]


def test_the_patterns_are_there_that_keep_queries() -> None:
    assert OF_RANDOM_DML.keys() < OF_THE_WORKLOAD.keys()
    texts = [file.read_text() for file in (ROOT / "tests" / "spark").glob("test_patterns*.py")]
    for number in {*IN_PATTERNS.values(), *OF_RANDOM_DML.values()}:
        assert any(f"def test_pattern_{number:02}_" in text for text in texts), number


@pytest.mark.parametrize("query", ELSEWHERE)
def test_a_query_that_is_left_to_another_test_is_there(query: str) -> None:
    place, word = ELSEWHERE[query].split(", ")
    files = [ROOT / place] if place.endswith(".py") else [*(ROOT / place).glob("*.py")]
    assert query in OF_ALL_KINDS and query not in IN_PATTERNS
    assert any(re.search(rf"\b{word}\b", file.read_text()) for file in files), f"{place} has no {word} any more"
