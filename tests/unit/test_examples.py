"""The scripts in examples/ are the tutorials in docs/, whose statements and results another test runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.test_docs import examples

from streamtable.language.scripts import split

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("script", "page"), [("org_chart", "org-chart"), ("changes", "changes")])
def test_the_script_holds_the_statements_of_the_tutorial(script: str, page: str) -> None:
    told = [
        each.sql for each in examples((ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")) if not each.fails
    ]
    text = (ROOT / "examples" / f"{script}.sql").read_text(encoding="utf-8")
    assert [each.sql for each in split(text)] == told
