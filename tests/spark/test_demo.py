"""What `./run demo` runs, on little data: every table is refreshed from its changes and verified."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.killed import environment_of_the_tests

DEMO = Path("examples", "demo.py").absolute()


def demo(folder: Path, scale: str) -> subprocess.CompletedProcess[str]:
    environment = {**environment_of_the_tests(), "SF": scale}
    return subprocess.run([sys.executable, DEMO], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.fuzz  # a session of its own, as a user's, takes minutes to get warm
def test_every_table_is_refreshed_incrementally_and_exact(tmp_path: Path) -> None:
    done = demo(tmp_path, "0.01")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("Refreshes at scale factor 0.01")[2]
    for table in ("returned_items", "order_lines", "nation_months", "nation_years"):
        row = next(line for line in shown.splitlines() if line.strip().startswith(table))
        assert row.split()[-2:] == ["DIFFERENTIAL", "exact"]


def test_a_scale_that_is_none(tmp_path: Path) -> None:
    done = demo(tmp_path, "much")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "SF must be a number above 0, such as 0.1; it is 'much'\n")
    assert list(tmp_path.iterdir()) == []
