"""Who waits for a statement is told how far it has come, on a terminal and in a cell of a notebook."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from streamtable.errors import StreamTableNotFound
from streamtable.hosts import notebook, progress
from streamtable.hosts.cli import output
from streamtable.hosts.progress import watched

CREATE = "CREATE STREAM TABLE counted AS SELECT region, count(*) AS n FROM sales GROUP BY region"
TOLD = re.compile(r"[1-9]\d* of [1-9]\d* tasks, \d+ s")
OFTEN = partial(watched, every=0.01)


def test_the_jobs_of_the_block_are_counted_and_no_others(shop: SparkSession) -> None:
    told = list[str]()
    with OFTEN(shop, lambda line, _: told.append(line)):
        shop.sql(CREATE).collect()
    assert any(TOLD.fullmatch(line) for line in told), told
    assert not shop.sparkContext.getJobTags()
    of_another = list[str]()
    with OFTEN(shop, lambda line, _: of_another.append(line)):
        while not of_another:
            time.sleep(0.01)
    assert set(of_another) == {"0 s"}


def test_a_cell_and_a_terminal_tell(
    shop: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notebook, "watched", OFTEN)
    magics = list[Callable[..., None]]()
    notebook.load_ipython_extension(
        SimpleNamespace(user_ns={"spark": shop}, register_magic_function=lambda magic, kind: magics.append(magic))
    )
    magics[0]("", f"{CREATE}; SELECT 'the answer' AS a")
    shown = capsys.readouterr().out  # without Jupyter, all that is shown one after the other stays
    assert TOLD.search(shown) and shown.index("tasks, ") < shown.index("REINITIALIZE") < shown.index("the answer")
    with pytest.raises(StreamTableNotFound):
        magics[0]("", "USE shop;\n\nREFRESH STREAM TABLE\nnobody; SELECT 1")
    assert re.search(r"\ndone, \d+\.\d s\n(?s:.*)\nfailed at line 4: REFRESH STREAM TABLE\n", f"\n{capsys.readouterr().out}")

    monkeypatch.setattr(progress, "watched", OFTEN)
    out = output.Printer(as_json=False)
    out._errors = Console(stderr=True, force_terminal=True)
    out.answer(shop, "REFRESH STREAM TABLE counted FULL", limit=10)
    said = capsys.readouterr()
    assert TOLD.search(said.err) and "━" in said.err and "FULL" in said.out
    out._errors = Console(stderr=True)
    out.answer(shop, "REFRESH STREAM TABLE counted FULL", limit=10)
    assert capsys.readouterr().err == ""  # nobody sits at a file
