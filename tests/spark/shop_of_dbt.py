"""The example's project of dbt in a folder of its own, and dbt itself, in the environment that ./run keeps for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.spark.hosts import environment_without_spark
from tests.spark.serving import PASSWORD, USER, Running

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "integrations" / "dbt"
SHOP = ROOT / "examples" / "dbt_shop"
REQUIRED = ("dbt-core>=1.11,<1.12", "dbt-spark[PyHive]>=1.11,<1.12", "dbt-tests-adapter>=1.19,<2", "pytest>=8")


def dbt_python() -> Path:
    """Return an interpreter that has dbt; made once per checkout."""
    folder = ROOT / ".venv-dbt"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists() or complete.read_text() != " ".join(REQUIRED):
        venv.create(folder, clear=True)
        pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile")
        subprocess.run([*pip, *REQUIRED], check=True)
        complete.write_text(" ".join(REQUIRED))
    return python


@dataclass(frozen=True)
class Built:
    """What dbt said of each node: its status, and what it shows of what it did."""

    success: bool
    nodes: Mapping[str, tuple[str, str]]
    error: str

    def message(self, name: str) -> str:
        return self.nodes[name][1]


@dataclass(frozen=True)
class Project:
    """A project of dbt, whose files the tests change."""

    folder: Path
    process: subprocess.Popen[str]

    def dbt(self, *arguments: str) -> Built:
        """Run dbt. What it wrote is in dbt.log."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps([*arguments]), file=self.process.stdin, flush=True)
        said = json.loads(self.process.stdout.readline())
        return Built(said["success"], {name: tuple(each) for name, each in said["nodes"].items()}, said["error"])

    def done(self, *arguments: str) -> Built:
        """Run dbt, which has to succeed."""
        built = self.dbt(*arguments)
        failed = {name: each for name, each in built.nodes.items() if each[0] not in ("success", "pass", "no-op")}
        assert built.success, (failed, built.error, self.log()[-3000:])
        return built

    def log(self) -> str:
        return (self.folder / "dbt.log").read_text()

    def edit(self, path: str, old: str, new: str) -> None:
        """Change a file of the project."""
        file = self.folder / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


def environment_of_dbt(server: Running) -> dict[str, str]:
    """Return the environment in which the profiles of the example and of the adapter's tests find the server."""
    return environment_without_spark() | {
        "STREAMTABLE_PORT": str(server.thrift),
        "STREAMTABLE_USER": USER,
        "STREAMTABLE_PASSWORD": PASSWORD,
        "STREAMTABLE_AUTH": "LDAP",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }


@contextmanager
def project_of(server: Running, folder: Path) -> Iterator[Project]:
    """Copy the example, with its package, and start a process that runs dbt there."""
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("target", "logs", "dbt_packages", "package-lock.yml"))
    (folder / "packages.yml").write_text(f"packages:\n  - local: {PACKAGE}\n")
    with (folder / "dbt.log").open("w") as log:
        process = subprocess.Popen(
            [dbt_python(), Path(__file__).with_name("client_of_dbt.py")],
            cwd=folder,
            env=environment_of_dbt(server) | {"DBT_PROFILES_DIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        yield Project(folder, process)
    finally:
        process.communicate(timeout=60)
