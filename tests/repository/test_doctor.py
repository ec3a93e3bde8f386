"""What `streamtable doctor` says of an installation that is sick: each sickness by itself, with what to do. No Spark starts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark import __version__ as spark_version

from streamtable.errors import NotEnabled
from streamtable.hosts.cli import doctor
from streamtable.hosts.cli.doctor import Check, examined
from streamtable.jvm import jars


@pytest.fixture(autouse=True)
def _folder_without_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opens(monkeypatch, NotEnabled("this test starts no Spark", hint="nothing"))


def opens(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def opened(remote: str | None, conf: dict[str, str]) -> NoReturn:
        raise error

    monkeypatch.setattr(doctor, "opened", opened)


def sick(remote: str | None = None, **conf: str) -> dict[str, Check]:
    return {check.name: check for check in examined(remote, conf) if not check.ok}


def put(path: str, text: str, mode: int = 0o644) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    Path(path).chmod(mode)


def old_java(monkeypatch: pytest.MonkeyPatch) -> None:
    put("java/bin/java", "#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n", 0o755)
    monkeypatch.setenv("JAVA_HOME", str(Path("java").absolute()))


def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(Path.cwd()))


def another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_delta_version", lambda: "4.0.0")


def spark_home(monkeypatch: pytest.MonkeyPatch, *versions: str) -> None:
    for version in versions:
        put(f"spark/jars/spark-core_2.13-{version}.jar", "")
    monkeypatch.setenv("SPARK_HOME", str(Path("spark").absolute()))


def home_of_another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    spark_home(monkeypatch, "4.0.1")


def no_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise NotEnabled("the jar is not there", hint="install it again")

    monkeypatch.setattr(doctor, "shim_jar", missing)


def no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(**options: object) -> NoReturn:
        raise LookupError("no network")

    monkeypatch.setattr(doctor, "delta_jars", jars.delta_jars.__wrapped__)  # without what it has found before
    monkeypatch.setattr(jars, "_resolver_folders", lambda: ())
    monkeypatch.setattr(jars, "launch_gateway", offline)


def broken_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    put("streamtable.toml", "[spork]\n")


def warehouse_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    put("taken", "")
    put("streamtable.toml", '[spark]\nspark.sql.warehouse.dir = "taken/warehouse"\n', 0o600)


def metastore_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    put("metastore_db", "")


@pytest.mark.parametrize(
    ("become", "name", "found", "remedy"),
    [
        (old_java, "java", "1.8.0_392", "install Java 17"),
        (no_java, "java", "none in PATH", "install Java 17"),
        (another_spark, "packages", f"Spark {spark_version} with Delta Lake 4.0.0 is not supported", "Spark 4.1 with Delta Lake"),
        (home_of_another_spark, "spark", f"SPARK_HOME=/.*/spark has 4.0.1, pyspark is {spark_version}", "unset SPARK_HOME"),
        (spark_home, "spark", "SPARK_HOME=/.*/spark has no Spark for Scala 2.13", "unset SPARK_HOME"),
        (no_shim, "shim", "the jar is not there", "install it again"),
        (
            no_delta,
            "delta",
            r"jars could not be fetched \(io.delta:delta-spark_.*: no network",
            "connect once to a Maven repository",
        ),
        (broken_settings, "catalog", r"there is no section \[spork\]", "docs/how-to/server.md"),
        (warehouse_in_a_file, "catalog", "not writable: .*taken/warehouse$", "spark.sql.warehouse.dir"),
        (metastore_in_a_file, "catalog", "not writable: .*metastore_db$", "a metastore in streamtable.toml"),
    ],
)
def test_a_sickness_is_named_with_what_helps(
    become: Callable[[pytest.MonkeyPatch], None], name: str, found: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(sick()) == ["session"], "it is well before"
    become(monkeypatch)
    checks = sick()
    assert "session" not in checks, "there is no use in trying"
    assert re.search(found, checks[name].found) and remedy in checks[name].remedy


def test_a_folder_that_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o500)
    if os.geteuid() == 0:  # who may write everywhere: the system is asked, and answers as it would others
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK or bool(Path(path).stat().st_mode & 0o200))
    assert sick()["catalog"].found == f"not writable: {tmp_path}/spark-warehouse, {tmp_path}/metastore_db"


def test_a_home_of_the_same_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    spark_home(monkeypatch, spark_version)
    assert list(sick()) == ["session"]


def test_settings_of_the_command_go_before_those_of_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    warehouse_in_a_file(monkeypatch)
    option = {"spark.sql.warehouse.dir": f"file:{tmp_path}/elsewhere"}
    assert list(sick(**option)) == ["session"]
    (catalog,) = (check for check in examined(None, option) if check.name == "catalog")
    assert catalog.found == f"{tmp_path}/elsewhere, {tmp_path}/metastore_db"


def test_a_metastore_of_ones_own_is_not_looked_for_here() -> None:
    option = {"spark.hadoop.hive.metastore.uris": "thrift://far:9083", "spark.sql.warehouse.dir": "s3a://bucket/tables"}
    (catalog,) = (check for check in examined(None, option) if check.name == "catalog")
    assert (catalog.ok, catalog.found) == (True, "of your own")


def test_a_client_needs_neither_java_nor_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    no_java(monkeypatch)
    broken_settings(monkeypatch)
    assert list(sick("sc://localhost:1")) == ["session"]


@pytest.mark.parametrize(
    ("raised", "remedy"),
    [(NotEnabled("nobody answers", hint="start it"), "start it"), (RuntimeError("nobody answers"), "Spark's own")],
)
def test_a_session_that_does_not_start(raised: Exception, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opens(monkeypatch, raised)
    session = sick()["session"]
    assert "nobody answers" in session.found and remedy in session.remedy


def test_everybody_could_read_the_settings_of_a_server() -> None:
    put("streamtable.toml", '[spark]\n"spark.hadoop.fs.s3a.secret.key" = "x"\n')
    assert sick()["secrets"].remedy == "chmod 600 streamtable.toml"
    Path("streamtable.toml").chmod(0o600)
    assert "secrets" not in sick()
