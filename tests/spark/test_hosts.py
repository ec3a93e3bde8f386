"""Every way into SQL gives the same rows and the same errors; one server serves all clients of this module."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import nbclient
import nbformat
import pytest
from impala.dbapi import connect as thrift
from impala.error import Error as ThriftError
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession
from tests.spark import hosts
from thrift.transport.TTransport import TTransportException

from streamtable import StreamTables
from streamtable.cli.output import ExitCode
from streamtable.server.passwords import add_user

ROOT = Path(__file__).parents[2]
USER, PASSWORD, TOKEN = "ada", "correct-horse", "a-long-random-text"
COMMAND = (sys.executable, "-m", "streamtable.cli")
SMALL = {
    "spark.driver.memory": "2g",
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.streamtable.scheduler.pollSeconds": "1",
}


@dataclass(frozen=True)
class Running:
    """A server that said it was ready."""

    process: subprocess.Popen[str]
    thrift: int
    connect: str
    metrics: str

    @contextmanager
    def cursor(self, password: str = PASSWORD) -> Iterator[Any]:
        """Log in over Thrift, as another session each time."""
        login = {"auth_mechanism": "PLAIN", "user": USER, "password": password}
        with (
            closing(thrift(host="127.0.0.1", port=self.thrift, timeout=120, **login)) as connection,
            closing(connection.cursor()) as cursor,
        ):
            yield cursor


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TERM": "dumb"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Running]:
    """Start the program, and stop it by SIGTERM: it has to end by itself and without an error."""
    folder = tmp_path_factory.mktemp("server")
    add_user(folder / "users.txt", USER, PASSWORD)
    (folder / "token.txt").write_text(f"{TOKEN}\n")
    settings = "\n".join(f'"{key}" = "{value}"' for key, value in SMALL.items())
    (folder / "streamtable.toml").write_text(
        f'[spark]\n{settings}\n[server]\nusers = "users.txt"\ntoken_file = "token.txt"\nthrift_port = 0\nconnect_port = 0\nmetrics_port = 0\n'
    )
    log = (folder / "server.log").open("w+")
    process = subprocess.Popen(
        [*COMMAND, "server", "--json"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said, (folder / "server.log").read_text()
    found = json.loads(said)
    assert found.pop("ready") is True
    yield Running(
        process, int(found["thrift"].rpartition(":")[2]), found["connect"].replace("token=...", f"token={TOKEN}"), found["metrics"]
    )
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    code = process.wait(60)
    log.seek(0)
    assert code == 0, log.read()
    log.close()


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> list[hosts.Answer]:
    """Return what spark.sql answers in this process."""
    try:
        return hosts.in_session(spark.sql)
    finally:
        spark.sql("USE default")


def test_the_script_is_what_it_should_be(expected: list[hosts.Answer]) -> None:
    answers = dict(zip(hosts.SCRIPT, expected, strict=True))
    assert answers["SELECT * FROM by_region ORDER BY region"].rows == (
        ("NULL", "1", "30.00"),
        ("north", "2", "15.50"),
        ("south", "1", "20.00"),
    )
    assert answers["FETCH 1 changes WITH (TIMEOUT = '1m')"].rows == (("3", "1", "5", "south", "1.00"),)
    assert [(each.condition, each.sqlstate) for each in expected if each.condition] == [
        ("STREAMTABLE_CURSOR_NOT_FOUND", "34000"),
        ("STREAMTABLE_NOT_FOUND", "42P01"),
        ("STREAMTABLE_SYNTAX_ERROR", "42601"),
        ("STREAMTABLE_INVALID_QUERY", "42000"),
        ("STREAMTABLE_NOT_INCREMENTAL", "0A000"),
        ("STREAMTABLE_DIRECT_WRITE", "42809"),
    ]


def test_beeline(server: Running, expected: list[hosts.Answer], tmp_path: Path) -> None:
    assert hosts.in_beeline(tmp_path, f"jdbc:hive2://127.0.0.1:{server.thrift}", USER, PASSWORD) == expected


def test_a_python_client_of_thrift(server: Running, expected: list[hosts.Answer]) -> None:
    with server.cursor() as cursor, server.cursor() as other:
        assert hosts.in_cursor(cursor, ThriftError) == expected
        cursor.execute("CREATE TABLE typed USING delta AS SELECT 1 AS id, 'a' AS name")
        cursor.execute("CREATE STREAM TABLE typed_names SCHEDULE '1s' AS SELECT name, count(*) AS n FROM typed GROUP BY name")
        assert [(column[0], column[1]) for column in cursor.description][1:4] == [
            ("action", "STRING"),
            ("reason", "STRING"),
            ("rows_inserted", "BIGINT"),
        ]
        assert all(isinstance(value, int) for value in cursor.fetchall()[0][3:])
        cursor.get_tables(database_name="default")
        assert {row[2] for row in cursor.fetchall()} >= {"typed", "typed_names"}
        assert cursor.get_table_schema("typed_names", "default") == [("name", "STRING"), ("n", "BIGINT")]
        # The schedule runs in the server; another session sees what it does.
        cursor.execute("INSERT INTO typed VALUES (2, 'a')")
        until, rows = time.monotonic() + 60, list[Any]()
        while rows != [("a", 2)] and time.monotonic() < until:
            other.execute("SELECT * FROM typed_names")
            rows = other.fetchall()
        assert rows == [("a", 2)]
        cursor.execute("DROP STREAM TABLE typed_names")


@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
def test_a_wrong_password(server: Running) -> None:
    with pytest.raises(TTransportException, match="validating the login"), server.cursor("guessed"):
        pass
    gc.collect()  # impyla leaves the socket open


def test_spark_connect(server: Running, expected: list[hosts.Answer], environment: dict[str, str], tmp_path: Path) -> None:
    remote = RemoteSession.builder.remote(server.connect).create()
    try:
        assert hosts.in_session(remote.sql) == expected
        remote.sql("CREATE TABLE numbers USING delta AS SELECT id FROM range(3)")
        table = StreamTables(remote).create("large", "SELECT id FROM numbers WHERE id > 0")  # type: ignore[arg-type]
        assert table.to_df().groupBy().sum("id").collect()[0][0] == 3
        assert table.verify().ok and type(table.history()[0].version) is int

        status = subprocess.run(
            [*COMMAND, "status", "--remote", server.connect, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert "spark_catalog.default.large" in [each["name"] for each in json.loads(status.stdout)], status.stderr
        with urlopen(server.metrics) as page:  # noqa: S310  (our own, on loopback)
            assert 'streamtable_tables{status="ACTIVE"}' in page.read().decode()
        table.drop()
    finally:
        remote.stop()
    refused = subprocess.run(
        [*COMMAND, "status", "--remote", server.connect.replace(TOKEN, "guessed")], env=environment, capture_output=True, text=True
    )
    assert refused.returncode == ExitCode.NO_SESSION and "asks for a token" in refused.stderr and "guessed" not in refused.stderr


def test_the_notebook(server: Running, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_REMOTE", server.connect)
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        output["data"]["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    assert any("<td>DIFFERENTIAL</td>" in html for html in shown)
    assert any("<th>ok</th>" in html and "<td>True</td>" in html for html in shown)


def test_spark_sql_starts_its_own_python(
    spark: SparkSession, expected: list[hosts.Answer], environment: dict[str, str], tmp_path: Path
) -> None:
    """On two executors in JVMs of their own, too, so that nothing is left to the driver's process by accident."""
    wanted = (
        "spark.master=local-cluster[2,1,1024]",
        "spark.driver.memory=1g",
        "spark.sql.shuffle.partitions=2",
        "spark.log.level=OFF",
    )
    options = [part for setting in wanted for part in ("--conf", setting)]
    written = subprocess.run([*COMMAND, "settings", *options], env=environment, capture_output=True, text=True, cwd=tmp_path)
    properties = tmp_path / "streamtable.conf"
    properties.write_text(written.stdout)
    found, errors = hosts.in_spark_sql(tmp_path, properties)
    assert found == expected, errors[-3000:]

    # A Python that lacks the package.
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named streamtable\nexit 1\n")
    python.chmod(0o755)
    changed = ("spark.master=local[1]", "spark.sql.catalogImplementation=in-memory", f"spark.streamtable.python={python}")
    options = [part for setting in changed for part in ("--conf", setting)]
    failed = hosts.spark_sql(tmp_path, "--properties-file", str(properties), *options, "-e", "SHOW STREAM TABLES")
    assert failed.returncode != 0
    assert hosts.failure(failed.stderr).condition == "STREAMTABLE_NOT_ENABLED"
    assert f"{python}, which is to answer the statement, ended at once:\nNo module named streamtable" in failed.stderr
