"""Which tables are vacuumed along with their compaction. Delta is played."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry
from streamtable.delta.folders import link_in
from streamtable.engine.arrangements import path_of
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.refresh import compact
from streamtable.settings.session import SMALL_FILES, VACUUM


def maintained(path: str, clause: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Have a table compacted with one hidden table; return which were vacuumed."""
    vacuumed = dict[str, bool]()
    statement = cast("CreateStreamTable", parse(f"CREATE STREAM TABLE c.shop.st {clause} AS SELECT 1 AS one"))
    state = cast("Any", SimpleNamespace(path=path, frontier="{}"))
    entry = Entry(Definition(statement, "1", (), {}, {}), state, ("c", "shop", "st"))
    frontier = SimpleNamespace(fingerprint="f", arrangements={"groups": 1})

    monkeypatch.setattr(compact, "Frontier", SimpleNamespace(of=lambda text: frontier))
    monkeypatch.setattr(compact, "read_setting", lambda spark, setting: {SMALL_FILES: 1, VACUUM: True}[setting])
    monkeypatch.setattr(compact, "refuse_outside", lambda *of: None)
    monkeypatch.setattr(compact, "files_to_compact", lambda *of: 2)
    monkeypatch.setattr(compact, "new", lambda spark, settings: spark)
    monkeypatch.setattr(compact, "jobs_named_after", lambda *of: nullcontext())
    monkeypatch.setattr(compact, "_forget", lambda *of: None)
    monkeypatch.setattr("streamtable.delta.maintenance.compact", lambda session, path, vacuum: vacuumed.update({path: vacuum}))
    assert compact.maintain(cast("SparkSession", None), entry) == [path, path_of(path, "f", "groups")]
    return vacuumed


@pytest.mark.parametrize("clause", ["", "LOCATION '/ext/st'"])
def test_vacuum_of_a_scheduler_deleted_what_others_had_put_at_a_location(clause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = path_of("/ext/st", "f", "groups")
    assert maintained("/ext/st", clause, monkeypatch) == {"/ext/st": not clause, hidden: True}


@pytest.mark.parametrize("at", ["link", "part=1/link", "", "_streamtable/f/groups/link", "_delta_log/link"])
def test_vacuum_of_a_scheduler_followed_a_link(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, foreign = tmp_path / "st", tmp_path / "foreign"
    foreign.mkdir()
    link = folder / at
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(foreign)
    table, hidden = f"file:{folder}", path_of(f"file:{folder}", "f", "groups")
    with caplog.at_level(logging.WARNING):
        found = maintained(table, "", monkeypatch)
    within = [path for path in (table, hidden) if not found[path]]
    assert within == {"_streamtable/f/groups/link": [hidden], "_delta_log/link": []}.get(at, [table])
    assert [str(link) in each.getMessage() for each in caplog.records] == [True] * len(within)


def test_a_table_with_a_folder_that_cannot_be_looked_into_was_compacted_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: str) -> str | None:
        raise PermissionError(13, "Permission denied", f"{path}/lost+found")

    monkeypatch.setattr(compact, "link_in", refused)
    with caplog.at_level(logging.WARNING):
        assert set(maintained(str(tmp_path), "", monkeypatch).values()) == {False}
    assert all("lost+found" in each.getMessage() for each in caplog.records)


def test_a_folder_that_goes_while_links_are_looked_for_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part=1").mkdir()
    monkeypatch.setattr("streamtable.delta.folders.os.scandir", _going(tmp_path / "part=1"))
    assert link_in(str(tmp_path)) is None


def _going(folder: Path) -> Callable[[str], Any]:
    """List folders as they are, but for one that goes before it is listed."""
    scandir = os.scandir

    def scan(path: str) -> Any:
        if Path(path) == folder:
            folder.rmdir()
        return scandir(path)

    return scan
