"""The wheel holds all that an installation needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from streamtable.jvm.jars import SHIM

ROOT = Path(__file__).parents[2]


def pages_of(package: Path, kind: str) -> list[Path]:
    """Return the files of the console that are no Python."""
    return [path for path in (package / "hosts/console" / kind).rglob("*") if path.is_file()]


def test_the_wheel_holds_the_jar_and_the_grammar(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("streamtable-*-py3-none-any.whl")
    package = ROOT / "python/streamtable"
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        sources = {path.relative_to(ROOT / "python").as_posix() for path in (ROOT / "python").rglob("*.py")}
        data = {
            "py.typed",
            f"shim/{SHIM.name}",
            "grammar/streamtable.lark",
            "hosts/cli/streamtable.toml",
            *(path.relative_to(package).as_posix() for kind in ("static", "templates") for path in pages_of(package, kind)),
        }
        assert len(data) > 20, "the pages of the console were found"
        others = {name for name in names if name.startswith("streamtable/shim/")}  # of other versions, where they are up to date
        assert names - (others - {f"streamtable/shim/{SHIM.name}"}) == sources | {f"streamtable/{name}" for name in data}
        assert archive.read("streamtable/grammar/streamtable.lark") == (ROOT / "grammar/streamtable.lark").read_bytes()
        archive.extract(f"streamtable/shim/{SHIM.name}", tmp_path)
    with ZipFile(tmp_path / "streamtable/shim" / SHIM.name) as jar:
        names = set(jar.namelist())
    assert "org/apache/spark/sql/streamtable/StreamTableExtension.class" in names
    assert "META-INF/MANIFEST.MF" in names
