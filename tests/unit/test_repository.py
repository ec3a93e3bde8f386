"""What must hold for the repository as a whole: it builds everywhere, and its parts name the same versions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from streamtable.jvm.versions import PAIRS, minor

ROOT = Path(__file__).parents[2]
# Written so that neither pattern matches itself.
REGISTRY = re.compile(
    r"pypi[.]org|pythonhosted[.]org|maven[.]org|repo[.]maven|[.]anaconda[.]|registry[.]npm|docker[.]io|ghcr[.]io|quay[.]io"
    r"|[/.]artifactory|[/.]nexus",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.}~/-])/(?:root|home|work|Users|mnt|media|tmp)/\w")
FOLDERS = (".ci", "bench", "docs", "examples", "grammar", "jvm_shim", "manual", "project", "python", "tests")


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every text file of the repository: those that git knows or would add, or all that look like it."""
    command = ["git", f"--git-dir={ROOT / '.git'}", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        paths = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):  # no git here, or this is a copy without its history
        paths = [*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in paths:
        if path.is_file():
            content = path.read_bytes()
            if b"\0" not in content:
                yield path.relative_to(ROOT), content.decode("utf-8")


def strangers(text: str) -> list[str]:
    """Return the lines of a text that name a package registry or a path of one machine."""
    return [line for line in text.splitlines() if REGISTRY.search(line) or MACHINE_PATH.search(line)]


def test_no_registry_and_no_machine_is_named() -> None:
    found = {str(path): lines for path, text in texts() if (lines := strangers(text))}
    assert found == {}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("https://?.org/simple", "pypi"),
        ("FROM ?.io/x", "DOCKER"),
        ('jar = "/?/ada/x.jar"', "home"),
        ("cd /?/main", "work"),
    ],
)
def test_a_stranger_is_found(line: str, word: str) -> None:
    assert strangers(f"fine\n{line.replace('?', word)}\n") == [line.replace("?", word)]


def test_the_files_are_found() -> None:
    found = {path.as_posix() for path, _ in texts()}
    assert {"README.md", "pyproject.toml", "run", "python/streamtable/errors.py", "tests/conftest.py"} <= found


def test_the_readme_opens_with_the_two_commands() -> None:
    opening = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:12]
    commands = [line.split()[1] for line in opening if line.startswith("    ./run ")]
    assert commands == ["demo", "test"]


def test_the_pipeline_calls_what_everybody_calls() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    code = [line for line in script if not line.startswith("#")]
    assert code == ['cd "$(dirname "$0")/.." || exit', "exec ./run test --durations=10 --reruns 1 -raR --instafail --tb=short"]


@pytest.mark.parametrize("script", ["run", ".ci/run"])
def test_the_scripts_can_be_run(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111 == 0o111
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def next_minor(spark: str) -> str:
    major, _, least = spark.partition(".")
    return f"{major}.{int(least) + 1}"


def test_the_builds_agree_about_versions() -> None:
    sbt = dict(re.findall(r'val (\w+)Version = "(.+)"', (ROOT / "build.sbt").read_text(encoding="utf-8")))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    newest = PAIRS[-1]
    assert sbt == {"spark": newest.tested, "delta": newest.delta}
    assert {pair.delta for pair in PAIRS} == set(re.findall(r'"delta-spark==([\d.]+)"', project))
    least, below = re.findall(r'"pyspark>=([\d.]+),<([\d.]+)"', project)[0]
    assert minor(least) == PAIRS[0].spark and below == next_minor(newest.spark)
    assert project.count(f">={least},<{below}") == 2  # of clients of Spark Connect as well
    assert f'version := "{version("streamtable")}"' in (ROOT / "build.sbt").read_text(encoding="utf-8")


def test_sbt_knows_the_jars_that_the_shim_imports_from() -> None:
    build = (ROOT / "build.sbt").read_text(encoding="utf-8")
    thrift = dict.fromkeys(("org.apache.hive.service", "org.apache.thrift"), '"spark-hive-thriftserver"')
    homes = {"org.apache.spark.sql.delta": '"io.delta"', "org.sparkproject.connect.": '"spark-connect"', **thrift}
    apache = ("spark", "hadoop", "parquet")
    with_spark = (*(f"org.apache.{project}." for project in apache), "org.json4s.", "org.antlr.", "org.roaringbitmap.")
    for source in (ROOT / "jvm_shim").rglob("*.scala"):
        for imported in re.findall(r"^import (org\.\S+)", source.read_text(encoding="utf-8"), re.MULTILINE):
            home = next((jar for package, jar in homes.items() if imported.startswith(package)), None)
            known = imported.startswith(with_spark)
            assert home in build if home else known, f"{source.name} imports {imported}, of which build.sbt knows nothing"
