"""A release sets the version where it stands, and dates what the changelog has collected."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import release

ROOT = Path(__file__).parents[2]
BEFORE = "# Changelog\n\n## [Unreleased]\n\n### Added\n- This.\n\n## [0.9.0] - 2026-01-01\n\n### Added\n- That.\n"


def test_what_was_unreleased_gets_a_heading() -> None:
    after = BEFORE.replace("## [Unreleased]\n", "## [Unreleased]\n\n## [0.10.0] - 2026-02-03\n")
    assert release.cut(BEFORE, "0.10.0", "2026-02-03") == after


@pytest.mark.parametrize(
    ("text", "number", "why"),
    [
        (BEFORE, "0.9.0", "not later than 0.9.0"),
        (BEFORE, "0.8.5", "not later than 0.9.0"),
        (BEFORE, "1.0", "no version such as"),
        (BEFORE, "", "no version such as"),
        (BEFORE.replace("- This.\n", ""), "0.10.0", "nothing to release"),
        ("# Changelog\n", "0.10.0", "nothing to release"),
    ],
)
def test_a_release_that_is_none_is_refused(text: str, number: str, why: str) -> None:
    with pytest.raises(release.NotReleased, match=why):
        release.cut(text, number, "2026-02-03")


@pytest.mark.parametrize("place", release.PLACES)
def test_the_version_is_set_everywhere(place: str) -> None:
    text = (ROOT / place).read_text(encoding="utf-8")
    now = version("streamtable")
    changed = release.put(text, place, "12.3.4")
    assert "12.3.4" in changed and changed.replace("12.3.4", now) == text
    with pytest.raises(release.NotReleased, match="names no version"):
        release.put("nothing", place, "12.3.4")


def test_a_checkout_with_changes_is_not_released(tmp_path: Path) -> None:
    with pytest.raises(release.NotReleased, match="git does not tell"):
        release.clean(tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    release.clean(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("mine")
    with pytest.raises(release.NotReleased, match="folder/notes.txt"):
        release.clean(tmp_path)


def test_a_release_of_a_checkout_with_changes_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(root: Path) -> None:
        raise release.NotReleased("the checkout has changes")

    monkeypatch.setattr(release, "clean", changed)
    monkeypatch.setattr(release, "put", lambda text, place, version: pytest.fail(f"{place} was set"))
    with pytest.raises(release.NotReleased, match="has changes"):
        release.main("99.0.0")
