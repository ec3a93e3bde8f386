"""Nothing half made: the disk fails, or the process is killed, at one file event of each statement after the other.

Afterwards the same statement succeeds, and nothing is left that it did not make. In CI some events are tried, by `./run fuzz` all.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.cases.every import CASES
from tests.spark.failing import WRITES
from tests.spark.killed import ended, run
from tests.spark.scala import compile_scala

PROGRAM = """
import sys
from tests.spark.failing import looking, main

disk = "org.apache.spark.sql.streamtable.Failing"
spark = session(1, {
    "spark.driver.extraClassPath": sys.argv[1],
    "spark.hadoop.fs.file.impl": f"{disk}FileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{disk}FileContext",
})
if len(sys.argv) > 2:
    main(spark, int(sys.argv[2]), sys.argv[3])
else:
    looking(spark)
"""


def tried(folder: Path, step: int, names: str = "") -> dict[str, list[int]]:
    """Return, for each statement and kind of fault, how often it was tried, and how often it did not come to its end."""
    compile_scala("FailingDisk.scala", folder)
    done = run(folder, PROGRAM, str(folder), str(step), names, patience=7000)
    ended(done, 0)
    lines = [line.split("|") for line in done.stdout.splitlines() if line.count("|") == 3]
    return {f"{name} {kind}": [int(count), int(failed)] for name, kind, count, failed in lines}


def test_statements_at_some_file_events(tmp_path: Path) -> None:
    found = tried(tmp_path, 151, "CREATE,RENAME,DROP,CREATE SUBSCRIPTION")
    assert len(found) == 8
    assert all(count for count, _ in found.values()), found
    assert any(failed for _, failed in found.values()), found


def test_no_write_to_a_stream_table_passes_where_a_look_at_its_files_fails(tmp_path: Path) -> None:
    compile_scala("FailingDisk.scala", tmp_path)
    done = run(tmp_path, PROGRAM, str(tmp_path))
    ended(done, 0)
    told = {line for line in done.stdout.splitlines() if "|" in line}
    refused = {f"{name}|{how}" for name in WRITES for how in ("Forbidden", "DirectWriteRefused")}
    assert told == refused


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", CASES)
def test_statements_at_every_file_event(name: str, tmp_path: Path) -> None:
    found = tried(tmp_path, 1, name)
    assert found.keys() == {f"{name} failed", f"{name} killed"}
    assert found[f"{name} killed"][1], found
