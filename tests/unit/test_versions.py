"""The table of versions: the docs show it, a build makes jars by it, and `configure` refuses all else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jvm_shim import build_hook
from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession
from tests import versions
from tests.versions import SINCE

from streamtable import NotEnabled, configure
from streamtable.jvm import jars
from streamtable.jvm.versions import PAIRS, jar_name, minor, pair_of

ROOT = Path(__file__).parents[2]
VERSIONS = ROOT / "docs" / "reference" / "versions.md"


def test_the_docs_show_the_table() -> None:
    text = VERSIONS.read_text(encoding="utf-8")
    rows = [tuple(cell.strip(" `") for cell in line.strip("|").split("|")) for line in text.split("\n\n")[2].splitlines()[2:]]
    jar = "io.delta:delta-spark_{}_2.13:{}"
    assert rows == [
        (pair.spark, pair.delta, pair.tested, ", ".join((pair.tested, *pair.also)), jar.format(pair.spark, pair.delta))
        for pair in PAIRS
    ]


def test_every_pair_is_tested_with_a_release_of_its_own() -> None:
    assert [minor(pair.tested) for pair in PAIRS] == [pair.spark for pair in PAIRS]
    assert {minor(release) for pair in PAIRS for release in pair.also if minor(release) != pair.spark} == set()
    assert [pair_of(pair.tested) for pair in PAIRS] == list(PAIRS)
    assert pair_of("3.5.1") is None and pair_of("4.3.0") is None and pair_of("4.20.0") is None


@pytest.mark.parametrize("version", ["3.5.7", "4.3.0", "4.10.0"])
def test_another_spark_is_refused_with_the_pairs(version: str) -> None:
    with pytest.raises(NotEnabled) as refused:
        jars.check_versions(version)
    assert version in refused.value.reason
    assert all(f"Spark {pair.spark} with Delta Lake {pair.delta}" in str(refused.value) for pair in PAIRS)


@pytest.mark.parametrize("delta", ["4.0.0", "4.3.1", "(none is installed)"])
def test_another_delta_is_refused_by_configure(delta: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_delta_version", lambda: delta)
    with pytest.raises(NotEnabled, match="with Delta Lake 4.4.0") as refused:
        configure(SparkSession.builder)
    assert delta in refused.value.reason


def test_a_spark_beside_the_installed_one_is_refused() -> None:
    other = next(pair.tested for pair in PAIRS if pair.spark != minor(spark_version))
    with pytest.raises(NotEnabled, match=f"(?s)runs on Spark {re.escape(other)}.*SPARK_HOME"):
        jars.check_versions(other)


def test_run_installs_the_pair_that_was_asked_for() -> None:
    script = ROOT / "python" / "streamtable" / "jvm" / "versions.py"
    for pair in PAIRS:
        said = subprocess.run([sys.executable, str(script), pair.spark], capture_output=True, check=True, text=True).stdout
        assert said == f"pyspark=={pair.tested} delta-spark=={pair.delta}\n"
    refused = subprocess.run([sys.executable, str(script), "3.5"], capture_output=True, check=False, text=True)
    assert refused.returncode == 1 and "Spark 4.0 with Delta Lake" in refused.stderr


def test_each_version_is_built_from_its_folders() -> None:
    own = {pair.spark: {path.parent.name for path in build_hook._sources(ROOT, pair.spark)} for pair in PAIRS}
    assert own["4.0"] & {"spark-4.0", "spark-4.1", "spark-4.2", "spark-4.1-4.2"} == {"spark-4.0"}
    assert {"spark-4.1", "spark-4.1-4.2", "patches", "plumbing", "semantics"} == own["4.1"]
    assert {"spark-4.2", "spark-4.1-4.2", "patches", "plumbing", "semantics"} == own["4.2"]


@pytest.mark.parametrize(
    ("installed", "wanted"),
    [
        (("pyspark", "delta"), []),
        (("pyspark",), ["pyspark==4.0.5", "delta-spark==4.4.0"]),
        ((), ["pyspark==4.2.0", "delta-spark==4.4.0"]),
    ],
)
def test_a_checkout_is_built_for_the_pyspark_that_is_installed(
    installed: tuple[str, ...], wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_hook, "find_spec", lambda name: name in installed)
    monkeypatch.setattr(build_hook, "_installed", lambda root: "4.0")
    hook: Any = object.__new__(build_hook.ShimBuildHook)
    monkeypatch.setattr(build_hook.ShimBuildHook, "root", str(ROOT))
    assert hook.dependencies() == wanted


def test_versions_do_not_share_a_jar() -> None:
    assert len({jar_name(pair.tested) for pair in PAIRS}) == len(PAIRS)
    assert len({build_hook._digest(ROOT, pair.spark) for pair in PAIRS}) == len(PAIRS)


def test_the_docs_name_what_older_versions_lack() -> None:
    text = VERSIONS.read_text(encoding="utf-8").partition("## What older versions lack")[2]
    lacks = {row.split("|")[1].strip(): row.split("|")[2] for row in text.splitlines() if row.startswith("| 4.")}
    before = dict(zip((pair.spark for pair in PAIRS[1:]), (pair.spark for pair in PAIRS), strict=False))
    assert {words: since for words, since in SINCE.items() if f"`{words}`" not in lacks[before[since]]} == {}


def test_what_spark_does_not_know_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "SPARK", "4.1")
    monkeypatch.setattr(versions, "LACKING", ("QUALIFY",))
    first, second = versions.statements(["SELECT 1", "SELECT 1 QUALIFY true"])
    assert [mark.args or mark.kwargs for each in (first, second) for mark in each.marks] == [(True,)]
    assert second.marks[0].kwargs == {"reason": "Spark 4.1 has no QUALIFY"}
    assert versions.known({"a": "SELECT 1", "b": "SELECT 1 QUALIFY true"}) == {"a": "SELECT 1"}
