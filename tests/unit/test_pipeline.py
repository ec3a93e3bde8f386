"""What the pipeline leaves out and in which order it begins, held to the files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.oracle.queries_of_all_kinds import QUERIES as OF_ALL_KINDS
from tests.oracle.test_all_of_sql import ELSEWHERE, IN_PATTERNS
from tests.pipeline import LONGEST, WITHOUT_SPARK, has_turn, rank, turn

ROOT = Path(__file__).parents[2]


def test_long_files_begin_first_after_those_without_spark() -> None:
    begun = ["tests/unit/test_pipeline.py::a", *(f"{file}::a" for file in LONGEST), "tests/spark/test_no_such.py::a"]
    collected = [*begun]
    collected.reverse()
    collected.sort(key=rank)
    assert collected == begun


def test_each_file_with_spark_has_one_turn() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")]
    for of in (1, 2, 3):
        turns = {file: [number for number in range(1, of + 1) if has_turn(f"{file}::a", number, of)] for file in files}
        assert {len(each) for file, each in turns.items() if not file.startswith(WITHOUT_SPARK)} == {1}
        assert {len(each) for file, each in turns.items() if file.startswith(WITHOUT_SPARK)} == {of}


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b"])
def test_what_is_no_turn(text: str) -> None:
    assert turn("2/2") == (2, 2)
    with pytest.raises(ValueError, match="is no turn"):
        turn(text)


@pytest.mark.parametrize("file", LONGEST)
def test_a_long_file_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


@pytest.mark.parametrize("query", ELSEWHERE)
def test_a_query_that_is_left_to_another_test_is_there(query: str) -> None:
    place, word = ELSEWHERE[query].split(", ")
    files = [ROOT / place] if place.endswith(".py") else [*(ROOT / place).glob("*.py")]
    assert query in OF_ALL_KINDS and query not in IN_PATTERNS
    assert any(re.search(rf"\b{word}\b", file.read_text()) for file in files), f"{place} has no {word} any more"
