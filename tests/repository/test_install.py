"""The wheel beside each version of Spark, in a fresh environment, as users install it: without a compiler, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from streamtable.jvm.versions import PAIRS, pair_of

ROOT = Path(__file__).parents[2]
RELEASES = [release for pair in PAIRS for release in (pair.tested, *pair.also)]
PROGRAM = """
from pyspark.sql import SparkSession
from streamtable import configure
spark = configure(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")).getOrCreate()
spark.sql("CREATE TABLE sales (region STRING, amount INT) USING delta")
spark.sql("INSERT INTO sales VALUES ('north', 10), ('south', 20)")
spark.sql("CREATE STREAM TABLE totals AS SELECT region, sum(amount) AS total FROM sales GROUP BY region")
spark.sql("INSERT INTO sales VALUES ('north', 5)")
print("SPARK", spark.version)
print("ACTION", spark.sql("REFRESH STREAM TABLE totals").first()["action"])
print("ROWS", sorted(map(tuple, spark.table("totals").collect())))
print("VERIFIED", spark.sql("VERIFY STREAM TABLE totals").first()["ok"])
"""


@pytest.fixture(scope="module")
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that --wheel names, as `./run release` does, or one as `./run wheel` makes it."""
    if given := request.config.getoption("wheel"):
        return Path(given)
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "jvm_shim/build_hook.py", "--all"], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    (made,) = folder.glob("streamtable-*-py3-none-any.whl")
    return made


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", RELEASES)
def test_the_wheel_works_beside(release: str, wheel: Path, tmp_path: Path) -> None:
    pair = pair_of(release)
    assert pair, "it is supported"
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    without_java = os.environ | {"PATH": "", "JAVA_HOME": ""}
    subprocess.run([*install, f"pyspark=={pair.tested}", str(wheel)], check=True, env=without_java)
    if release != pair.tested:  # as docs/reference/versions.md says: the metadata of delta-spark allow no later one
        subprocess.run([*install, "--no-deps", f"pyspark=={release}"], check=True)
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "JAVA_HOME") if name in os.environ}
    done = subprocess.run(
        [python, "-c", PROGRAM], cwd=tmp_path, env=kept | {"SPARK_LOCAL_IP": "127.0.0.1"}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        f"SPARK {release}",
        "ACTION DIFFERENTIAL",
        "ROWS [('north', 15), ('south', 20)]",
        "VERIFIED True",
    ], done.stdout + done.stderr[-3000:]
