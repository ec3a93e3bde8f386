"""Which tables are vacuumed along with their compaction. Delta is played."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry
from streamtable.engine.arrangements import path_of
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.refresh import compact
from streamtable.settings.session import SMALL_FILES, VACUUM


@pytest.mark.parametrize("clause", ["", "LOCATION '/ext/st'"])
def test_vacuum_of_a_scheduler_deleted_what_others_had_put_at_a_location(clause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vacuumed = dict[str, bool]()
    statement = cast("CreateStreamTable", parse(f"CREATE STREAM TABLE c.shop.st {clause} AS SELECT 1 AS one"))
    state = cast("Any", SimpleNamespace(path="/ext/st", frontier="{}"))
    entry = Entry(Definition(statement, "1", (), {}, {}), state, ("c", "shop", "st"))
    frontier = SimpleNamespace(fingerprint="f", arrangements={"groups": 1})

    monkeypatch.setattr(compact, "Frontier", SimpleNamespace(of=lambda text: frontier))
    monkeypatch.setattr(compact, "read_setting", lambda spark, setting: {SMALL_FILES: 1, VACUUM: True}[setting])
    monkeypatch.setattr(compact, "files_to_compact", lambda *of: 2)
    monkeypatch.setattr(compact, "new", lambda spark, settings: spark)
    monkeypatch.setattr(compact, "jobs_named_after", lambda *of: nullcontext())
    monkeypatch.setattr(compact, "_forget", lambda *of: None)
    monkeypatch.setattr("streamtable.delta.maintenance.compact", lambda session, path, vacuum: vacuumed.update({path: vacuum}))
    hidden = path_of("/ext/st", "f", "groups")
    assert compact.maintain(cast("SparkSession", None), entry) == ["/ext/st", hidden]
    assert vacuumed == {"/ext/st": not clause, hidden: True}
