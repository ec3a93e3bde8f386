"""A new commit is found by the name of its file, on this machine's disk and nowhere else, and only then a version is read again."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from streamtable.delta import latest
from streamtable.delta.latest import KNOWN_FOR, LatestVersions, committed_after
from streamtable.delta.tables import Version
from streamtable.delta.unreadable import Unreadable


@pytest.mark.parametrize("scheme", ["file:", "file://", ""])
@pytest.mark.parametrize("name", ["t", "größe 100%", "a%20b"])
def test_the_next_version_of_a_local_table(tmp_path: Path, scheme: str, name: str) -> None:
    log = tmp_path / name / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{9:020d}.json").touch()
    path = f"{scheme}{tmp_path / name}"
    assert committed_after(path, 8)
    assert not committed_after(path, 9)
    (log / f"{10:020d}.crc").touch()
    (log / f"{10:020d}.checkpoint.parquet").touch()
    assert not committed_after(path, 9)
    (log / f"{10:020d}.json").touch()
    assert committed_after(f"{path}/", 9)
    assert not committed_after(f"{path} is gone", 9)


@pytest.mark.parametrize("path", ["s3a://bucket/t", "abfss://c@account/t", "hdfs://host/t", "dbfs:/t", "delta", ""])
def test_other_storages_are_not_asked(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda asked: pytest.fail(f"{asked} was looked at"))
    assert not committed_after(path, 0)


def test_only_what_has_a_commit_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, remote, missing, broken = f"file:{tmp_path}/a", "s3a://bucket/b", f"file:{tmp_path}/c", f"file:{tmp_path}/d"
    there = {local: Version("a", 4), remote: Version("b", 1), missing: None, broken: Unreadable("the log is forbidden")}
    read = list[list[str]]()

    def versions(_: object, paths: Sequence[str]) -> tuple[Version | Unreadable | None, ...]:
        read.append(list(paths))
        return tuple(there[path] for path in paths)

    monkeypatch.setattr(latest, "versions_or_why", versions)
    look, paths = LatestVersions(), [local, remote, missing, broken]
    log = tmp_path / "a" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{4:020d}.json").touch()

    def seen() -> list[str]:
        """Return what was read to see all tables as they are."""
        assert look(None, paths) == tuple(there.values())  # type: ignore[arg-type]
        return read.pop() if read else []

    assert seen() == paths
    assert seen() == [remote, missing, broken]
    for number in (5, 6):
        (log / f"{number:020d}.json").touch()
    there[local] = Version("a", 6)
    assert seen() == paths
    assert seen() == [remote, missing, broken]
    now = monotonic()
    for seconds, again in ((KNOWN_FOR[0] - 1, []), (KNOWN_FOR[1] + 1, [local])):
        monkeypatch.setattr(latest, "monotonic", lambda at=now + seconds: at)
        assert seen() == [*again, remote, missing, broken], "what the file tells is believed for a while"
    assert look(None, [local]) == (Version("a", 6),)  # type: ignore[arg-type]
    assert read == [], "nothing is asked where nothing is to be read"
    last = log / f"{6:020d}.json"
    (log / "another").touch()
    (log / "another").rename(last)
    there[local] = Version("made again, with as many commits", 6)
    assert seen() == paths
    last.unlink()
    there[local] = Version("nobody can tell", 6)
    assert seen() == paths
    assert seen() == paths, "what cannot be looked at is not remembered"


def test_a_table_that_is_made_again_while_versions_are_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the new table was taken for the old one's, whose version was believed for up to a minute."""
    log, path, made = tmp_path / "_delta_log", f"file:{tmp_path}", ["made again", "made first"]
    log.mkdir()
    last = log / f"{0:020d}.json"
    last.touch()

    def versions(_: object, paths: Sequence[str]) -> tuple[Version, ...]:
        found = Version(made.pop(), 0)
        if made:  # DROP TABLE; CREATE TABLE ... AS, which takes a while
            time.sleep(0.05)
            last.unlink()
            last.touch()
        return tuple(found for _ in paths)

    monkeypatch.setattr(latest, "versions_or_why", versions)
    look = LatestVersions()
    seen = [look(None, [path])[0] for _ in range(3)]  # type: ignore[arg-type]
    assert seen == [Version("made first", 0), Version("made again", 0), Version("made again", 0)]
    assert made == [], "then the file tells"
