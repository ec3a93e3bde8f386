"""Cut a release, by `./run release 0.3.0`: the version and the changelog are set, and what people install is built and checked.

Nothing is committed, tagged or uploaded: the end of the output says what is left to do.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from jvm_shim import build_hook

from streamtable.jvm.versions import PAIRS, jar_name

ROOT = Path(__file__).resolve().parent
CHANGELOG = ROOT / "CHANGELOG.md"
DIST = ROOT / "dist"
UNRELEASED = "## [Unreleased]\n"
PLACES = {
    "pyproject.toml": r'(?m)^(version = ")(.+)(")$',
    "build.sbt": r'(version := ")(.+)(")',
    "docs/reference/versions.md": r"(streamtable-)([\d.]+)(-py3)",
    "docs/start/install.md": r"(streamtable-)([\d.]+)(-py3)",
    "integrations/dbt/dbt_project.yml": r"(?m)^(version: )(.+)($)",
}
"""Where the version stands: what is before it, the version, what is after it."""

_SET = " ".join([*PLACES, CHANGELOG.name])
"""The files that a release changes."""


class NotReleased(Exception):
    """Why there is no release, as a text for people."""


def clean(root: Path) -> None:
    """Raise NotReleased for a checkout with changes of somebody, which the release's commit would take along."""
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise NotReleased(f"git does not tell whether the checkout has changes: {listed.stderr.strip()}")
    if files := [line[3:] for line in listed.stdout.splitlines()]:
        raise NotReleased(f"the checkout has changes: commit or stash them first, which are {', '.join(files)}")


def number(version: str) -> tuple[int, ...]:
    """Return a version such as 0.2.0 as numbers that can be compared."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReleased(f"{version!r} is no version such as 0.2.0")
    return tuple(map(int, version.split(".")))


def cut(changelog: str, version: str, day: str) -> str:
    """Return the changelog with what is unreleased under the heading of a version, and nothing unreleased above it."""
    released = re.findall(r"(?m)^## \[(\d.*)\]", changelog)
    if any(number(version) <= number(each) for each in released):
        raise NotReleased(f"{version} is not later than {released[0]}, which CHANGELOG.md has already")
    _, found, below = changelog.partition(UNRELEASED)
    if not found or not re.search(r"(?m)^- ", below.partition("\n## ")[0]):
        raise NotReleased(f"CHANGELOG.md has no lines under {UNRELEASED.strip()}: there is nothing to release")
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1)


def put(text: str, place: str, version: str) -> str:
    """Return the text of a file of PLACES with another version."""
    changed, count = re.subn(PLACES[place], rf"\g<1>{version}\g<3>", text)
    if not count:
        raise NotReleased(f"{place} names no version")
    return changed


def build(version: str) -> tuple[Path, Path]:
    """Build the source distribution and the wheel, with the jars for all versions of Spark; return both."""
    for pair in PAIRS:
        build_hook.build(spark=pair.spark)
    for stale in DIST.glob("streamtable-*"):
        stale.unlink()
    python("hatchling", "build", "--directory", str(DIST))
    made = (DIST / f"streamtable-{version}.tar.gz", DIST / f"streamtable-{version}-py3-none-any.whl")
    if missing := [file.name for file in made if not file.is_file()]:
        raise NotReleased(f"the build made no {' and no '.join(missing)}")
    return made


def check(source: Path, wheel: Path, version: str) -> None:
    """Check the metadata of both files, that the first is complete, and that the second works with each version of Spark."""
    python("twine", "check", "--strict", str(source), str(wheel))
    with TemporaryDirectory() as folder:
        python("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, str(source))
    with ZipFile(wheel) as archive:
        for pair in PAIRS:
            with archive.open(f"streamtable/shim/{jar_name(pair.spark)}") as file, ZipFile(file) as jar:
                if (told := jar.read(build_hook.VERSION.as_posix()).decode()) != version:
                    raise NotReleased(f"the jar for Spark {pair.spark} is one of {told}")
    python("pytest", "-m", "fuzz", f"--wheel={wheel}", "tests/repository/test_install.py")


def python(module: str, *arguments: str) -> None:
    """Run a module of Python in the checkout; what it says is shown, and the end of all where it fails."""
    if subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False).returncode:
        raise NotReleased(f"python -m {module} failed: what it says is above. `git checkout {_SET}` takes back what was set")


def main(version: str) -> None:
    """Set the version, cut the changelog, build and check; files are changed only where all of them can be."""
    number(version)
    clean(ROOT)
    texts = {ROOT / place: put((ROOT / place).read_text(encoding="utf-8"), place, version) for place in PLACES}
    day = datetime.now(timezone.utc).date().isoformat()
    texts[CHANGELOG] = cut(CHANGELOG.read_text(encoding="utf-8"), version, day)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    source, wheel = build(version)
    check(source, wheel, version)
    print(f"streamtable: {version} is in {DIST}. Now read CHANGELOG.md once more, then commit, tag and upload:")
    print(f"  git commit -m 'release: {version}' -- {_SET} && git tag v{version}\n  python -m twine upload {source} {wheel}")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if sys.argv[1:] else "")
    except NotReleased as why:
        raise SystemExit(f"streamtable: {why}") from None
