"""The two ways in docs/explanation/architecture.md lead through files and functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import streamtable

PACKAGE = Path(streamtable.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
WAYS = re.findall(r"^### The way of .*?^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NAMED = sorted({found for way in WAYS for found in re.findall(r"(\w[\w/]*\.py) \(([\w.]+)\)", way)})
SCALA = sorted({found for way in WAYS for found in re.findall(r"\w+\.scala", way)})


def test_both_ways_are_drawn() -> None:
    assert len(WAYS) == 2
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_python_stop_is_there(file: str, name: str) -> None:
    body: list[ast.stmt] = ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body
    for part in name.split("."):
        (found,) = (each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == part)
        body = found.body


@pytest.mark.parametrize("file", SCALA)
def test_a_scala_stop_is_there(file: str) -> None:
    assert list((ROOT / "jvm_shim").rglob(file))
