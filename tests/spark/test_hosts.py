"""Every way into SQL gives the same rows and the same errors; one server serves all clients of this module."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import nbformat
import pytest
from bench.cancels import cancel_many, judge
from bench.sessions import SETUP
from impala.error import Error as ThriftError
from py4j.protocol import Py4JJavaError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect import functions, proto
from pyspark.sql.connect.session import SparkSession as RemoteSession
from tests.spark import guarded, hosts, notebooks
from tests.spark.doors import LOOPBACK, called_at, family, listening, nobody_is_let_in, on_command_lines
from tests.spark.script import BRIEF, REFUSED, SCRIPT
from tests.spark.serving import COMMAND, PASSWORD, SECRET, TOKEN, USER, Running, cursor_at, leaving_a_socket, serving, wait_until
from thrift.transport.TTransport import TTransportException
from typer.testing import CliRunner

from streamtable import StreamTables
from streamtable.errors import NotEnabled, StreamTableNotFound
from streamtable.hosts.cli.app import app
from streamtable.hosts.cli.output import ExitCode
from streamtable.hosts.progress import watched
from streamtable.hosts.roles import Role
from streamtable.hosts.server.passwords import add_user

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def client_python() -> Path:
    """Return an interpreter that has pyspark-client and what it needs; made once per checkout."""
    folder = ROOT / "build" / f"pyspark-client-{spark_version}-python-{sys.version_info.major}.{sys.version_info.minor}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        venv.create(folder, clear=True)
        pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile")
        subprocess.run([*pip, f"pyspark-client=={spark_version}", "pandas<3"], check=True)
        complete.touch()
    return python


@pytest.mark.core
def test_the_script_is_what_it_should_be(expected: list[hosts.Answer]) -> None:
    answers = dict(zip(SCRIPT, expected, strict=True))
    assert answers["SELECT * FROM by_region ORDER BY region"].rows == (
        ("NULL", "1", "30.00"),
        ("north", "2", "15.50"),
        ("south", "1", "20.00"),
    )
    assert answers["SELECT n, total FROM by_region WHERE region = 'north'"].rows == (("3", "21.50"),), "the INSERT waited for it"
    assert answers["FETCH 1 changes WITH (TIMEOUT = '1m')"].rows == (("3", "1", "5", "south", "1.00"),)
    assert answers["REFRESH STREAM TABLE busy CASCADE"].rows[0][1:5] == ("DIFFERENTIAL", "1 of 1 sources changed", "1", "0")
    refused = {statement: (each.condition, each.sqlstate) for statement, each in answers.items() if each.condition}
    assert refused == REFUSED


def of_beeline(server: Running, folder: Path, script: Sequence[str]) -> list[hosts.Answer]:
    return hosts.in_beeline(folder, f"jdbc:hive2://127.0.0.1:{server.thrift}", USER, PASSWORD, script)


@pytest.mark.core
def test_beeline(server: Running, expected_briefly: list[hosts.Answer], tmp_path: Path) -> None:
    assert of_beeline(server, tmp_path, BRIEF) == [hosts.as_beeline_shows(each) for each in expected_briefly]


@pytest.mark.fuzz
def test_the_whole_script_in_beeline(server: Running, expected: list[hosts.Answer], tmp_path: Path) -> None:
    assert of_beeline(server, tmp_path, SCRIPT) == [hosts.as_beeline_shows(each) for each in expected]


@pytest.mark.core
def test_a_python_client_of_thrift(server: Running, expected_briefly: list[hosts.Answer]) -> None:
    with server.cursor() as cursor, server.cursor() as other:
        assert hosts.in_cursor(cursor, ThriftError, BRIEF) == expected_briefly
        cursor.execute("CREATE TABLE typed USING delta AS SELECT 1 AS id, 'O\\'Neil' AS name")
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
        cursor.execute("INSERT INTO typed VALUES (2, %(name)s)", {"name": "O'Neil"})

        def seen() -> Any:
            other.execute("SELECT n FROM typed_names WHERE name = %s", ["O'Neil"])
            return other.fetchall()

        wait_until(lambda: seen() == [(2,)])
        cursor.execute("DROP STREAM TABLE typed_names")


@pytest.mark.fuzz
def test_the_whole_script_by_a_python_client_of_thrift(server: Running, expected: list[hosts.Answer]) -> None:
    with server.cursor() as cursor:
        assert hosts.in_cursor(cursor, ThriftError) == expected


def test_errors_over_thrift_are_text_and_sqlstate_alone(server: Running, tmp_path: Path) -> None:
    statement = "REFRESH STREAM TABLE nobody"
    texts = list[str]()
    with server.cursor() as cursor:
        with pytest.raises(ThriftError) as waited:
            cursor.execute(statement)
        texts.append(str(waited.value))
        with pytest.raises(ThriftError) as at_once:
            cursor.session.execute(statement, {}, run_async=False)
        texts.append(str(at_once.value))
        with pytest.raises(
            ThriftError, match=r"^\[STREAMTABLE_SYNTAX_ERROR\] (?s:.*)did you mean STREAM TABLE\?\nSQLSTATE: 42601$"
        ):
            cursor.execute("CREATE STRAEM TABLE nobody AS SELECT 1 AS a")
    done = hosts.beeline(tmp_path, f"jdbc:hive2://127.0.0.1:{server.thrift}", USER, PASSWORD, "-e", statement)
    texts.append(done.stderr.partition("Error: ")[2].partition(" (state=42P01")[0])
    for text in texts:
        is_text_and_sqlstate_alone(text)


def is_text_and_sqlstate_alone(text: str) -> None:
    """Check the error of REFRESH STREAM TABLE nobody, as a client shows it."""
    first, *_, last = text.splitlines()
    assert first.startswith("[STREAMTABLE_NOT_FOUND] there is no stream table spark_catalog.default.nobody."), text
    assert last == "SQLSTATE: 42P01" and "org.apache" not in text and "\tat " not in text


def test_errors_over_connect_are_text_and_sqlstate_alone(server: Running) -> None:
    remote = RemoteSession.builder.remote(server.connect).create()
    try:
        with pytest.raises(PySparkException) as caught:
            remote.sql("REFRESH STREAM TABLE nobody").collect()
        is_text_and_sqlstate_alone(str(caught.value))
    finally:
        remote.stop()


def test_a_server_listens_on_loopback_alone(server: Running) -> None:
    """All that it opens: end points, Spark's own ports and its UI, and the connections between Python and Java."""
    found = listening(*family(server.process.pid))
    assert found.keys() >= {server.thrift, int(server.ui.rpartition(":")[2])}
    assert set(found.values()) <= LOOPBACK


def test_nobody_calls_the_python_of_a_server_but_its_java(server: Running) -> None:
    nobody_is_let_in(called_at(server.process.pid))
    with server.cursor() as cursor:
        cursor.execute("SHOW STREAM TABLES")


def test_secrets_are_on_no_command_line_and_in_no_log(server: Running) -> None:
    for secret in (TOKEN, PASSWORD, SECRET):
        assert on_command_lines(secret) == []
        assert secret not in server.log()


def test_the_ui_of_spark_shows_no_secret(server: Running) -> None:
    (application,) = json.loads(seen(f"{server.ui}/api/v1/applications"))
    told = seen(f"{server.ui}/api/v1/applications/{application['id']}/environment")
    assert "fs.azure.account.key" in told and "fs.s3a.encryption.key" in told
    for page in (told, seen(f"{server.ui}/environment/")):
        assert SECRET not in page and TOKEN not in page


def test_nobody_cancels_by_the_ui_of_spark(server: Running) -> None:
    (application,) = json.loads(seen(f"{server.ui}/api/v1/applications"))
    at = f"{server.ui}/api/v1/applications/{application['id']}"
    before = {stage["stageId"] for stage in json.loads(seen(f"{at}/stages"))}

    def running(status: str) -> list[dict[str, Any]]:
        return [job for job in json.loads(seen(f"{at}/jobs?status={status}")) if not before.issuperset(job["stageIds"])]

    with server.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(cursor.execute, "SELECT count(*) FROM range(5000) a JOIN range(5000) b ON hash(a.id, b.id) = 7")
        wait_until(lambda: any(job["numActiveTasks"] for job in running("running")))
        for job in running("running"):
            for page in (f"jobs/job/kill/?id={job['jobId']}", *(f"stages/stage/kill/?id={n}" for n in job["stageIds"])):
                urlopen(f"{server.ui}/{page}", data=b"", timeout=30).close()  # noqa: S310
        answer.result(timeout=120)
        assert running("failed") == []


def seen(address: str) -> str:
    with urlopen(address, timeout=30) as page:  # noqa: S310
        return str(page.read().decode())


def unless_refused(attempt: Callable[[], object], kind: type[Exception]) -> str:
    """Return what was said to somebody who is to be refused; nothing if it was that."""
    try:
        return f"it was carried out: {attempt()}"
    except kind as error:
        return "" if "STREAMTABLE_NOT_ALLOWED" in str(error) else str(error)[:300]


@pytest.mark.core
def test_clients_of_thrift_run_no_code_and_reach_nothing_but_tables(server: Running) -> None:
    with server.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS guarded (k INT) USING delta")
        said = {sql: unless_refused(lambda: cursor.execute(sql), ThriftError) for sql in guarded.REFUSED}  # noqa: B023
        assert {sql: text for sql, text in said.items() if text} == {}
        for statement in guarded.UNREADABLE:
            with pytest.raises(ThriftError, match="STREAMTABLE_(INVALID_QUERY|SYNTAX_ERROR)") as refused:
                cursor.execute(statement)
            message = re.sub(r"== SQL ==.*", "", str(refused.value), flags=re.DOTALL)
            assert "root:" not in message and "/no/such/place" not in message, "nothing of it was looked up"
        with pytest.raises(ThriftError, match=r"line 2, pos 27(?s:.*)number the groups with dense_rank"):
            cursor.execute("CREATE STREAM TABLE no AS SELECT k,\n   sum(k) OVER (ORDER BY k GROUPS 1 PRECEDING) AS s FROM guarded")
        cursor.execute("INSERT INTO guarded VALUES (1)")
        for statement in guarded.LEAKS:
            cursor.execute(statement)
            told = str(cursor.fetchall())
            assert [secret for secret in (TOKEN, SECRET, os.environ["PATH"]) if secret in told] == [], statement
            if statement.startswith("SET"):
                assert "spark.sql.shuffle.partitions" in told and "spark.hadoop." not in told and "spark.driver." not in told
        for statement in guarded.ALLOWED:
            cursor.execute(statement)
        cursor.execute("SET spark.sql.shuffle.partitions = 3")
        cursor.execute("SET minimum = 7")
        cursor.execute("SELECT ${minimum}, '${hivevar:minimum}', '${spark.sql.shuffle.partitions}'")
        assert cursor.fetchall() == [(7, "7", "3")]


def of_java(remote: Any) -> Any:
    """Return a plan with an aggregate whose bytes the server would take for objects."""
    plan = proto.Plan()
    plan.root.project.input.CopyFrom(remote.range(1)._plan.to_proto(remote.client).root)
    plan.root.project.expressions.add().typed_aggregate_expression.scalar_scala_udf.payload = b"x"
    return plan


@pytest.mark.core
def test_clients_of_connect_run_no_code_and_reach_nothing_but_tables(server: Running, tmp_path: Path) -> None:
    with remote_session(server) as remote:
        said = {sql: unless_refused(lambda: remote.sql(sql).collect(), PySparkException) for sql in guarded.REFUSED}  # noqa: B023
        assert {sql: text for sql, text in said.items() if text} == {}
        file = tmp_path / "a.txt"
        file.write_text("a")
        of_python: Any = functions.udf(lambda a: a)
        remote.conf.set("named", "reflect")
        tried: dict[str, Callable[[], object]] = {
            "a function of Python": lambda: remote.range(1).select(of_python("id")).collect(),
            "a function over rows": lambda: remote.range(1).mapInPandas(lambda rows: rows, "id long").collect(),
            "a function by its class": lambda: remote.udf.registerJavaFunction("hiding", "a.B"),
            "a function by name": lambda: (
                remote.range(1).select(functions.call_function("reflect", functions.lit("a.B"))).collect()
            ),
            "a function by a variable": lambda: (
                remote.range(1).select(functions.call_function("${named}", functions.lit("a.B"))).collect()
            ),
            "bytes of Java": lambda: remote.client.to_table(of_java(remote), {}),
            "a function by its name in quotes": lambda: (
                remote.range(1).select(functions.call_function("`reflect`", functions.lit("a.B"))).collect()
            ),
            "a file of options": lambda: (
                remote.range(1)
                .select(functions.from_xml(functions.lit("<a/>"), "a INT", {"rowValidationXSDPath": "/etc/passwd"}))
                .collect()
            ),
            "a file of options that are computed": lambda: (
                remote.range(1)
                .select(functions.schema_of_xml(functions.lit("<a/>"), {"row" + "ValidationXSDPath": "/etc/passwd"}))
                .collect()
            ),
            "reflect": lambda: remote.range(1).select(functions.reflect(functions.lit("a.B"), functions.lit("c"))).collect(),
            "an expression": lambda: remote.range(1).selectExpr("reflect('java.lang.System', 'lineSeparator')").collect(),
            "a file": lambda: remote.read.text("/etc/passwd").collect(),
            "a path option": lambda: remote.read.format("text").option("path", "/etc/passwd").load().collect(),
            "a table by path": lambda: remote.table("text.`/etc/passwd`").collect(),
            "a database by JDBC": lambda: remote.read.jdbc("jdbc:derby:memory:a", "a").collect(),
            "writing a file": lambda: remote.range(1).write.parquet(str(tmp_path / "written")),
            "writing a table at a path": lambda: remote.range(1).write.option("path", str(tmp_path)).saveAsTable("hiding"),
            "writing to a source": lambda: remote.range(1).writeTo("hiding").using("jdbc").create(),
            "a table of the catalog": lambda: remote.catalog.createTable("hiding", str(tmp_path), "text"),
            "an artifact": lambda: remote.addArtifact(str(file), file=True),
            "a setting": lambda: remote.conf.set("fs.file.impl", "a.B"),
            "an option of Hadoop": lambda: remote.read.option("fs.file.impl", "a.B").table("guarded").collect(),
            "an option of Hadoop for a writer": lambda: (
                remote.range(1).write.option("parquet.crypto.factory.class", "a.B").format("parquet").saveAsTable("hiding")
            ),
            "a codec by its class": lambda: remote.range(1).write.option("compression", "a.B").format("csv").saveAsTable("hiding"),
            "the token": lambda: remote.conf.get("spark.connect.authenticate.token"),
        }
        said = {name: unless_refused(attempt, Exception) for name, attempt in tried.items()}
        assert {name: text for name, text in said.items() if text} == {}
        assert remote.createDataFrame([(1, "a")]).count() == 1
        told = str(remote.sql("SET").collect())
        assert "spark.sql.shuffle.partitions" in told and "spark.hadoop." not in told and SECRET not in told
        remote.range(1).write.option("compression", "gzip").format("csv").saveAsTable("gzipped")
        remote.sql("DROP TABLE gzipped").collect()


@contextmanager
def by_driver(spark: SparkSession, server: Running, schema: str) -> Iterator[Any]:
    """Connect by Hive's JDBC driver, in the JVM of the tests."""
    jvm: Any = spark._jvm
    login = jvm.java.util.Properties()
    login.setProperty("user", USER)
    login.setProperty("password", PASSWORD)
    with closing(jvm.org.apache.hive.jdbc.HiveDriver().connect(f"jdbc:hive2://127.0.0.1:{server.thrift}/{schema}", login)) as found:
        yield found


def rows_of(result: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Read a java.sql.ResultSet."""
    found = []
    while result.next():
        found.append(tuple(result.getObject(column) for column in columns))
    return found


def test_the_jdbc_driver(spark: SparkSession, server: Running) -> None:
    with by_driver(spark, server, "default") as first, by_driver(spark, server, "default") as second:
        for sql in (
            "CREATE DATABASE driven",
            "USE driven",
            "CREATE TABLE people (name STRING, age INT) USING delta",
            "INSERT INTO people VALUES ('Ada', 36), ('O\\'Neil', 50), ('Tom', 12)",
        ):
            first.createStatement().execute(sql)
        create = first.prepareStatement(
            "CREATE STREAM TABLE of_age (name COMMENT 'who', age) COMMENT 'grown up' AS SELECT name, age FROM people WHERE age >= ? AND name <> ?"
        )
        create.setInt(1, 18)
        create.setString(2, "O'Neil")
        assert rows_of(create.executeQuery(), "action", "rows_inserted") == [("REINITIALIZE", 1)]

        def columns(table: str) -> list[Any]:
            return rows_of(first.getMetaData().getColumns(None, "driven", table, "%"), "COLUMN_NAME", "TYPE_NAME", "REMARKS")

        tables = first.getMetaData().getTables(None, "driven", "%", None)
        assert sorted(rows_of(tables, "TABLE_NAME", "TABLE_TYPE", "REMARKS")) == [
            ("of_age", "TABLE", "grown up"),
            ("people", "TABLE", ""),
        ]
        assert columns("of_age") == [("name", "STRING", "who"), ("age", "INT", "")]
        long = "z" * 40_000  # more than a field of the metastore holds
        first.createStatement().execute(
            f"CREATE OR REPLACE STREAM TABLE of_age (n COMMENT 'in all', name, age) COMMENT 'counted' "
            f"AS SELECT count(*), name, age FROM people WHERE age > 18 AND name NOT IN ('O\\'Neil', '{long}') GROUP BY name, age"
        )
        tables = first.getMetaData().getTables(None, "driven", "of_age", None)
        assert rows_of(tables, "TABLE_NAME", "REMARKS") == [("of_age", "counted")]
        assert columns("of_age") == [("n", "BIGINT", "in all"), ("name", "STRING", ""), ("age", "INT", "")]
        for sql in (  # as where another process made it
            "SET spark.databricks.delta.catalog.update.enabled = false",
            f"CREATE STREAM TABLE unheard WITH NO DATA AS SELECT name FROM people WHERE name <> '{long}'",
            "SET spark.databricks.delta.catalog.update.enabled = true",
        ):
            first.createStatement().execute(sql)
        assert columns("unheard") == []
        first.createStatement().execute("REFRESH STREAM TABLE unheard")
        assert columns("unheard") == [("name", "STRING", "")]
        # USE is of one session; a URL may name a schema.
        assert rows_of(second.createStatement().executeQuery("SELECT current_schema() AS s"), "s") == [("default",)]
        with by_driver(spark, server, "driven") as third:
            assert rows_of(third.createStatement().executeQuery("SELECT * FROM of_age"), "name", "age", "n") == [("Ada", 36, 1)]
            (at,), *_ = rows_of(third.createStatement().executeQuery("SHOW REFRESH HISTORY FOR of_age"), "at")
            assert at.getClass().getName() == "java.sql.Timestamp" and abs(at.getTime() / 1000 - time.time()) < 3600
        with pytest.raises(Py4JJavaError) as raised:
            second.createStatement().execute("REFRESH STREAM TABLE of_age")
        error = raised.value.java_exception
        assert (error.getSQLState(), hosts.failure(error.getMessage()).condition) == ("42P01", "STREAMTABLE_NOT_FOUND")
        first.createStatement().execute("DROP DATABASE driven CASCADE")


def test_a_subscription_follows_a_schema_of_a_server(spark: SparkSession, server: Running, tmp_path: Path) -> None:
    token = tmp_path / "token.txt"
    token.write_text(TOKEN)
    identity = "TBLPROPERTIES (streamtable.replicaIdentity = 'id')"
    address, _, _ = server.connect.partition("/;")
    with server.cursor() as factory:
        for sql in (
            "CREATE DATABASE factory",
            f"CREATE TABLE factory.parts (id INT, n INT) USING delta {identity}",
            f"CREATE TABLE factory.Far (id INT, n INT) USING delta LOCATION '{tmp_path}/elsewhere' {identity}",
            "INSERT INTO factory.parts VALUES (1, 1), (2, 2)",
            "INSERT INTO factory.far VALUES (7, 7)",
            "CREATE PUBLICATION factory.stock FOR ALL TABLES",
        ):
            factory.execute(sql)
        for sql in (
            "CREATE DATABASE copied",
            "USE copied",
            *(f"CREATE TABLE {each} (id INT, n INT) USING delta" for each in ("parts", "far")),
        ):
            spark.sql(sql)
        create = f"CREATE SUBSCRIPTION copy CONNECTION 'remote={address} database=factory{{}}' PUBLICATION stock"
        with pytest.raises(NotEnabled, match=f"{address} asks for a token"):
            spark.sql(create.format(""))
        with pytest.raises(NotEnabled, match="nobody answers at sc://localhost:1"):
            spark.sql(create.format("").replace(address, "sc://localhost:1"))
        spark.sql(create.format(f" token_file={token}"))  # of those before nothing is left
        assert [row[:4] for row in spark.sql("APPLY SUBSCRIPTION copy").collect()] == [
            ("far", "finished copy", 1, 1),
            ("parts", "finished copy", 1, 2),
        ]
        factory.execute("UPDATE factory.parts SET n = 20 WHERE id = 2")
        factory.execute("DELETE FROM factory.far")
        (slot,) = spark.sql("SELECT DISTINCT slot FROM replication_slots() WHERE slot LIKE '%/copy'").collect()
        assert slot[0].endswith("factory.db/copy")
    spark.sql("APPLY SUBSCRIPTION copy")
    assert sorted(map(tuple, spark.table("parts").collect())) == [(1, 1), (2, 20)]
    assert spark.table("far").isEmpty()
    spark.sql("DROP SUBSCRIPTION copy")
    spark.sql("USE default")
    spark.sql("DROP DATABASE copied CASCADE")


def asked(server: Running, page: str = "metrics") -> tuple[int, str]:
    """Ask the port of metrics."""
    address = urlsplit(server.metrics)
    with closing(HTTPConnection(str(address.hostname), address.port, timeout=20)) as connection:
        connection.request("GET", f"/{page}")
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()


def refreshes_slow(server: Running, name: str = "slow") -> bool:
    return any(name in job for job in server.running_jobs())


SLOW = "STREAM TABLE {} AS SELECT id, count(*) AS n FROM (SELECT id, explode(sequence(0, length)) FROM lengths) GROUP BY id"


def begin_slow_refresh(server: Running, cursor: Any) -> None:
    cursor.execute("CREATE TABLE lengths USING delta AS SELECT 1 AS id, 0 AS length")
    cursor.execute(f"CREATE {SLOW.format('slow')}")
    # It would take minutes. A task notices that it was cancelled when it asks for the next few thousand rows of a file.
    cursor.execute("INSERT INTO lengths SELECT id, 1000 FROM range(2, 1000000, 1, 1)")  # one task, which leaves a core to others
    cursor.execute_async("REFRESH STREAM TABLE slow")
    wait_until(lambda: refreshes_slow(server))


def test_a_refresh_that_is_cancelled_or_whose_client_is_gone_has_not_happened(spark: SparkSession, server: Running) -> None:
    """Nor has a CREATE: its name is free again."""
    with server.cursor() as cursor, server.cursor() as other, remote_session(server) as remote, ThreadPoolExecutor(1) as pool:
        begin_slow_refresh(server, cursor)
        cursor.cancel_operation()
        wait_until(lambda: not refreshes_slow(server))
        login = f"host='127.0.0.1', port={server.thrift}, user={USER!r}, password={PASSWORD!r}, auth_mechanism='PLAIN'"
        client = f"from impala.dbapi import connect; connect({login}).cursor().execute('REFRESH STREAM TABLE slow')"
        with subprocess.Popen([sys.executable, "-c", client]) as left:
            wait_until(lambda: refreshes_slow(server))
            left.kill()
        wait_until(lambda: not refreshes_slow(server))
        refresh = pool.submit(lambda: remote.sql("REFRESH STREAM TABLE slow").collect())
        wait_until(lambda: refreshes_slow(server))
        remote.interruptAll()
        with pytest.raises(PySparkException, match="OPERATION_CANCELED|STREAMTABLE_CANCELLED"):
            refresh.result(60)
        wait_until(lambda: not refreshes_slow(server))
        with by_driver(spark, server, "default") as connection:
            statement = connection.createStatement()
            create = pool.submit(statement.execute, f"CREATE {SLOW.format('halted')}")
            wait_until(lambda: refreshes_slow(server, "halted"))
            statement.cancel()
            with pytest.raises(Py4JJavaError, match="cancel"):
                create.result(60)

        def there() -> Any:
            other.execute("SHOW TABLES LIKE 'halted'")
            return other.fetchall()

        wait_until(lambda: there() == [])
        other.execute("CREATE STREAM TABLE halted AS SELECT id FROM lengths WHERE id = 1")
        other.execute("DROP STREAM TABLE halted")
        other.execute("SELECT * FROM slow")
        assert other.fetchall() == [(1, 1)]
        cursor.execute("VERIFY STREAM TABLE slow")
        assert cursor.fetchall()[0][1]
        cursor.execute("DROP STREAM TABLE slow")
        cursor.execute("DROP TABLE lengths")


def cursors_of(server: Running) -> int:
    (number,) = re.findall(r"^streamtable_cursors (\d+)\.0$", asked(server)[1], re.MULTILINE)
    return int(number)


def test_cursors_end_with_the_session_of_their_client(server: Running) -> None:
    before = cursors_of(server)
    remote = RemoteSession.builder.remote(server.connect).create()
    with server.cursor() as kept:
        kept.execute("CREATE TABLE followed USING delta AS SELECT 1 AS id")
        kept.execute("DECLARE changes CURSOR FOR SUBSCRIBE followed")
        with server.cursor() as left:
            left.execute("DECLARE changes CURSOR FOR SUBSCRIBE followed")
            left.execute("DECLARE others CURSOR FOR SUBSCRIBE (SELECT sum(id) FROM followed)")
        remote.sql("DECLARE changes CURSOR FOR SUBSCRIBE followed")
        remote.stop()
        wait_until(lambda: cursors_of(server) == before + 1)
        kept.execute("FETCH ALL changes")
        assert kept.fetchall() == [(0, 1, 1)]  # what it shared with those that are gone is there
    wait_until(lambda: cursors_of(server) == before)


@contextmanager
def remote_session(server: Running) -> Iterator[RemoteSession]:
    remote = RemoteSession.builder.remote(server.connect).create()
    try:
        yield remote
    finally:
        remote.stop()


def test_a_fetch_that_waits_is_cancelled(server: Running) -> None:
    with (
        server.cursor() as cursor,
        server.cursor() as other,
        remote_session(server) as remote,
        ThreadPoolExecutor(1) as pool,
    ):
        cursor.execute("CREATE TABLE awaited USING delta AS SELECT 1 AS id")
        declare = "DECLARE changes CURSOR FOR SUBSCRIBE awaited WITH (SNAPSHOT = FALSE)"
        cursor.execute(declare)
        cursor.execute_async("FETCH changes")
        time.sleep(2)
        cursor.cancel_operation()
        other.execute("INSERT INTO awaited VALUES (3)")
        cursor.execute("FETCH changes")  # no other one reads it any more
        assert [row[2] for row in cursor.fetchall()] == [3]
        remote.sql(declare)
        waiting = pool.submit(lambda: remote.sql("FETCH changes").collect())

        def interrupted() -> bool:
            remote.interruptAll()
            return waiting.done()

        time.sleep(1)
        wait_until(interrupted)  # a slow machine may not have begun
        with pytest.raises(PySparkException, match="OPERATION_CANCELED|STREAMTABLE_CANCELLED"):
            waiting.result(20)
        other.execute("INSERT INTO awaited VALUES (4)")
        assert [row.id for row in remote.sql("FETCH changes").collect()] == [4]


def test_every_command_of_the_command_line_asks_a_server(server: Running, tmp_path: Path) -> None:
    def told(*arguments: str) -> Any:
        with patch.dict(os.environ):  # a process that is a client tells its children to be clients as well
            done = CliRunner().invoke(app, [*arguments, "--remote", server.connect, "--json"])
        assert done.exit_code == ExitCode.DONE, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    told("run", "-e", "CREATE DATABASE asked; CREATE TABLE asked.t USING delta AS SELECT 1 AS id")
    script = tmp_path / "tables.sql"
    script.write_text("USE asked; CREATE STREAM TABLE copy AS SELECT id FROM t; INSERT INTO t VALUES (2);")
    told("import", str(script))
    name = "spark_catalog.asked.copy"
    assert [row["action"] for row in told("refresh", "asked.copy")[0]] == ["DIFFERENTIAL"]
    assert [row["action"] for row in told("history", "asked.copy")[0]] == ["DIFFERENTIAL", "REINITIALIZE"]
    assert [row["incremental"] for row in told("explain", "asked.copy")[0]] == [True, True, True]
    assert told("verify", "asked.copy")[0][0] == {"name": name, "ok": True, "missing": 0, "surplus": 0}
    assert name in [row["name"] for row in told("status")[0]]
    assert name in [row["name"] for row in told("graph")[0]]
    assert sorted(row["id"] for row in told("subscribe", "asked.t WITH (SNAPSHOT = TRUE) UP TO 2")) == [1, 2]
    assert any("CREATE STREAM TABLE `spark_catalog`.`asked`.`copy`" in each for each in told("export")[0])
    assert [each["name"] for each in told("doctor")[0] if not each["ok"]] == []
    told("run", "-e", "DROP DATABASE asked CASCADE")


def test_connections_to_python_end_with_the_threads_that_opened_them(server: Running) -> None:
    """Each statement of Spark Connect is run by a thread of its own, and py4j opens a connection for each thread."""
    threads = Path(f"/proc/{server.process.pid}/task")
    with remote_session(server) as remote:

        def after_a_statement() -> int:
            remote.sql("SHOW STREAM TABLES").collect()
            return len(list(threads.iterdir()))

        before = after_a_statement()
        for _ in range(30):
            after_a_statement()
        wait_until(lambda: after_a_statement() < before + 10)


def test_several_sessions_at_once(server: Running) -> None:
    """Each in a schema of its own, under the same names; and all refresh one table."""
    with server.cursor() as cursor:
        cursor.execute("CREATE TABLE shared_rows USING delta AS SELECT 0 AS id")
        cursor.execute("CREATE STREAM TABLE shared AS SELECT count(*) AS n FROM shared_rows")

    def work(n: int) -> Any:
        with server.cursor() as cursor:
            for sql in (
                f"CREATE DATABASE session_{n}",
                f"USE session_{n}",
                f"CREATE TABLE mine USING delta AS SELECT {n} AS id",
                "CREATE STREAM TABLE summed AS SELECT sum(id) AS total FROM mine",
                "INSERT INTO mine SELECT id + 1 FROM mine",
                f"INSERT INTO default.shared_rows VALUES ({n})",
                "REFRESH STREAM TABLE summed",
            ):
                cursor.execute(sql)
            try:
                cursor.execute("REFRESH STREAM TABLE default.shared")
            except ThriftError as error:
                if hosts.failure(str(error)).condition != "STREAMTABLE_CONCURRENT_REFRESH":
                    raise
            cursor.execute("SELECT total FROM summed")
            return cursor.fetchall()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, (10, 20))) == [[(21,)], [(41,)]]
    with server.cursor() as cursor:
        cursor.execute("REFRESH STREAM TABLE shared")
        cursor.execute("SELECT n FROM shared")
        assert cursor.fetchall() == [(3,)]
        cursor.execute("DROP STREAM TABLE shared")


def test_the_console_of_a_server_lets_its_users_in(server: Running) -> None:
    assert "token" not in server.console
    browser = build_opener(HTTPCookieProcessor())

    def page(path: str, **form: str) -> str:
        with browser.open(f"{server.console}{path}", urlencode(form).encode() if form else None) as found:
            return str(found.read().decode())

    with server.cursor() as cursor:
        # Before anybody watches: the console rests for some time after it has looked.
        cursor.execute("CREATE STREAM TABLE in_the_console AS SELECT 1 AS one")
        assert "Password" in page("tables") and "is wrong" in page("login", user=USER, password=f"{PASSWORD}!")
        page("login", user=USER, password=PASSWORD)
        wait_until(lambda: "in_the_console" in page("tables"))
        assert USER in page("settings")
        cursor.execute("DROP STREAM TABLE in_the_console")


def test_a_viewer_comes_into_the_console_and_through_no_other_door(server: Running) -> None:
    add_user(server.folder / "users.txt", "ben", PASSWORD, Role.VIEWER)
    login = urlencode({"user": "ben", "password": PASSWORD}).encode()
    with build_opener(HTTPCookieProcessor()).open(f"{server.console}login", login) as found:
        assert ">ben<" in found.read().decode()
    login_refused = pytest.raises(TTransportException, match="validating the login")
    with leaving_a_socket(), login_refused, cursor_at(server.thrift, PASSWORD, "ben"):
        pass


def test_the_pages_of_the_port_of_metrics(server: Running) -> None:
    wait_until(lambda: "streamtable_tables" in asked(server)[1])
    assert (asked(server, "healthz"), asked(server, "readyz")) == ((200, "ok\n"), (200, "ready\n"))
    assert asked(server, "")[0] == asked(server, "api/v1/applications")[0] == 404
    with server.cursor() as busy, ThreadPoolExecutor(8) as pool:
        busy.execute_async("SELECT sum(a.id * b.id) FROM range(100000) a CROSS JOIN range(100000) b")

        def took(_: int) -> float:
            began = time.perf_counter()
            assert asked(server)[0] == 200
            return time.perf_counter() - began

        times = sorted(took(n) for n in range(20))
        together = list(pool.map(took, range(40)))
        busy.cancel_operation()
    assert times[10] < 0.1 and max(together) < 5, (times, together)


def test_statements_that_are_cancelled_at_random_instants_leave_a_server_that_works(server: Running) -> None:
    """`./run soak cancels` tries 500."""
    with server.cursor() as judging:
        for statement in ("CREATE DATABASE cancels", "USE cancels", *SETUP):
            judging.execute(statement.replace("SCHEDULE '2s'", "").replace("SCHEDULE '5s'", ""))
        with leaving_a_socket():
            told = cancel_many(server.cursor, server.connect, 12, schema="cancels")
        assert sum(told.values()) == 12
        assert judge(judging, 12) == []
        judging.execute("DROP DATABASE cancels CASCADE")


def login(port: int, source: str, user: str, password: str) -> bool:
    """Log in from an address of loopback, by hand: no client lets one choose it. Ask whether it was accepted."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0))) as connection:
        for status, content in ((1, b"PLAIN"), (5, f"\0{user}\0{password}".encode())):
            connection.sendall(bytes([status]) + len(content).to_bytes(4, "big") + content)
        return connection.recv(1)[0] == 5


def test_passwords_of_any_letters_and_wrong_ones_from_several_addresses(server: Running) -> None:
    password = "pä🔑 密\u0301"  # noqa: S105  (of a test)
    add_user(server.folder / "users.txt", "Zoë", password)
    with cursor_at(server.thrift, password, "Zoë") as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]

    def took(source: str, password: str, right: bool) -> float:
        began = time.monotonic()
        assert login(server.thrift, source, "Zoë", password) is right
        return time.monotonic() - began

    slow = [took("127.0.0.2", "guessed", right=False) for _ in range(6)]
    assert sum(slow[3:]) > 3, "0.5, 1 and 2 seconds"
    assert took("127.0.0.3", password, right=True) < 1.9, "the owner elsewhere does not wait for 4 seconds"
    assert took("127.0.0.2", password, right=True) > 3


def test_a_wrong_password_and_a_wrong_port(server: Running, tmp_path: Path) -> None:
    login_refused = pytest.raises(TTransportException, match="validating the login")
    with leaving_a_socket(), login_refused, server.cursor("guessed"):
        pass
    url = f"jdbc:hive2://127.0.0.1:{server.thrift}"
    refused = hosts.beeline(tmp_path, url, USER, "guessed", "-e", "SELECT 1")
    assert "Peer indicated failure: Error validating the login" in refused.stderr and "guessed" not in refused.stderr
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(TTransportException, match=f"Could not connect to .*{port}"), cursor_at(port):
        pass


ONCE = "spark.hadoop.hive.hmshandler.retry.attempts=1"
"""A setting: otherwise a process tries for 20 s to open a catalog that is in use."""


def test_a_second_process_on_the_catalog_of_the_server(server: Running) -> None:
    command, environment = (*COMMAND, "status", "--conf", ONCE), hosts.environment_of_commands()
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=server.folder)
    assert refused.returncode == ExitCode.NO_SESSION
    assert f"another process uses the catalog in {server.folder}" in refused.stderr
    assert "let it be a server (streamtable server)" in refused.stderr


SECOND_PROGRAM = """
from pyspark.sql import SparkSession
from streamtable import configure
from streamtable.hosts import notebook

quick = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.hadoop.hive.hmshandler.retry.interval": "10ms",
    "spark.hadoop.hive.hmshandler.retry.attempts": "1",
}
spark = configure(SparkSession.builder.config(map=quick)).getOrCreate()
for ask in (
    lambda: spark.sql("SHOW STREAM TABLES"),
    lambda: spark.sql("SELECT * FROM stream_tables()").collect(),
    lambda: notebook._session({}),
):
    try:
        ask()
    except Exception as error:
        print(str(error).splitlines()[0])
"""


def test_a_second_program_on_the_catalog_of_the_server(server: Running) -> None:
    """Its session starts; our statement, our table function and a notebook that has no session yet are refused."""
    (server.folder / "second.py").write_text(SECOND_PROGRAM)
    command, environment = (sys.executable, "second.py"), hosts.environment_of_commands()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=server.folder)
    said = f"[STREAMTABLE_NOT_ENABLED] another process uses the catalog in {server.folder}, and"
    assert [line[: len(said)] for line in done.stdout.splitlines()] == [said] * 3, done.stdout + done.stderr[-3000:]


def test_pyspark_client(server: Running, expected_briefly: list[hosts.Answer], client_python: Path) -> None:
    assert hosts.in_client(client_python, server.connect, BRIEF) == expected_briefly


@pytest.mark.fuzz
def test_the_whole_script_by_pyspark_client(server: Running, expected: list[hosts.Answer], client_python: Path) -> None:
    assert hosts.in_client(client_python, server.connect, SCRIPT) == expected


@pytest.mark.core
def test_the_command_line(server: Running, expected: list[hosts.Answer], tmp_path: Path) -> None:
    assert hosts.in_command_line(tmp_path, server.connect) == expected


@pytest.fixture
def of_server(server: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of notebooks that use the server."""
    monkeypatch.setenv("SPARK_REMOTE", server.connect)
    monkeypatch.setenv("PYTHONPATH", hosts.environment_of_commands()["PYTHONPATH"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    return tmp_path


def test_cells_of_a_notebook(of_server: Path, expected_briefly: list[hosts.Answer]) -> None:
    assert notebooks.in_cells(of_server, BRIEF) == expected_briefly


@pytest.mark.fuzz
def test_the_whole_script_in_cells_of_a_notebook(of_server: Path, expected: list[hosts.Answer]) -> None:
    assert notebooks.in_cells(of_server, SCRIPT) == expected


def test_a_notebook_without_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its first cell starts Spark, with the catalog in its folder."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    for key, value in hosts.environment_of_quick_sessions().items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("PYTHONPATH", hosts.environment_of_commands()["PYTHONPATH"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    statements = (
        "CREATE STREAM TABLE three AS SELECT id FROM range(3)",
        "REFRESH STREAM TABLE three",
        "SELECT count(*) AS n FROM three",
    )
    _, refreshed, counted = notebooks.in_cells(tmp_path, statements)
    assert "NO_DATA" in refreshed.rows[0]
    assert counted == hosts.Answer(("n",), (("3",),))
    assert (tmp_path / "metastore_db").is_dir()


@pytest.mark.core
def test_our_package_over_spark_connect(server: Running, tmp_path: Path) -> None:
    remote = RemoteSession.builder.remote(server.connect).create()
    try:
        remote.sql("CREATE TABLE numbers USING delta AS SELECT id FROM range(3)")
        # A task of more than a second: the server looks ten times a second which tasks run, and may miss those of a few rows.
        counted = "SELECT id, explode(sequence(id, id + 2000000)) AS n FROM numbers"
        told = list[str]()
        with watched(remote, lambda line, _: told.append(line)):  # type: ignore[arg-type]
            table = StreamTables(remote).create("large", f"SELECT id FROM ({counted}) WHERE id > 0 AND n = id + 7")  # type: ignore[arg-type]
        assert any(re.fullmatch(r"\d+ of [1-9]\d* tasks, \d+ s", line) for line in told), told
        assert table.to_df().groupBy().sum("id").collect()[0][0] == 3
        assert table.verify().ok and type(table.history()[0].version) is int
        with pytest.raises(StreamTableNotFound, match=r"^\[STREAMTABLE_NOT_FOUND\] there is no .*larg") as raised:
            StreamTables(remote).get("larg")  # type: ignore[arg-type]
        assert str(raised.value).endswith("lists those that exist\nSQLSTATE: 42P01") and "large" in raised.value.reason

        status = subprocess.run(
            [*COMMAND, "status", "--remote", server.connect, "--json"],
            env=hosts.environment_of_commands(),
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert "spark_catalog.default.large" in [each["name"] for each in json.loads(status.stdout)], status.stderr
        wait_until(lambda: 'streamtable_tables{status="ACTIVE"}' in asked(server)[1])
        table.drop()
    finally:
        remote.stop()
    refused = subprocess.run(
        [*COMMAND, "status", "--remote", server.connect.replace(TOKEN, "guessed")],
        env=hosts.environment_of_commands(),
        capture_output=True,
        text=True,
    )
    assert refused.returncode == ExitCode.NO_SESSION and "asks for a token" in refused.stderr and "guessed" not in refused.stderr


def test_the_notebook(of_server: Path) -> None:
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    client = notebooks.Watching(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(of_server)}})
    client.execute()
    outputs = [output["data"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    shown = [each["text/html"] for each in outputs if "text/html" in each]
    assert any("<td>DIFFERENTIAL</td>" in html for html in shown)
    assert any("<th>ok</th>" in html and "<td>True</td>" in html for html in shown)
    # Answers take the place of what was said while they were computed.
    assert any(" tasks, " in text for text in client.shown)
    assert not any(" tasks, " in each.get("text/plain", "") for each in outputs)


@contextmanager
def watching(server: Running) -> Iterator[subprocess.Popen[str]]:
    """Run `status --watch` as a process that has looked once."""
    where = server.connect.replace("0.0.0.0", "localhost")  # noqa: S104  (a token goes to that name alone)
    # What runs in the background of a shell ignores SIGINT, and so would its children.
    command = ["env", "--default-signal=INT", *COMMAND, "status", "--watch", "0.5", "--json", "--remote", where]
    with subprocess.Popen(command, env=hosts.environment_of_commands(), stdout=-1, stderr=-1, text=True) as watch:
        assert watch.stdout is not None
        assert "slow" in watch.stdout.readline()
        yield watch


def begin_brief_refresh(server: Running, cursor: Any) -> None:
    """Let the scheduler begin a refresh of a few seconds."""
    cursor.execute("CREATE TABLE few USING delta AS SELECT 1 AS id, 0 AS length")
    count = "SELECT id, count(*) AS n FROM (SELECT id, explode(sequence(0, length)) FROM few) GROUP BY id"
    cursor.execute(f"CREATE STREAM TABLE brief SCHEDULE '1s' AS {count}")
    cursor.execute("INSERT INTO few SELECT id, 250 FROM range(2, 1002, 1, 1)")
    wait_until(lambda: refreshes_slow(server, "brief"))


def make_what_clients_may_not_read(cursor: Any, file: Path) -> None:
    """Make a view over a file, a function over code and a stream table, as the owner of the server does elsewhere."""
    cursor.execute(f"CREATE VIEW lines AS SELECT * FROM text.`{file}`")
    cursor.execute("CREATE FUNCTION told() RETURNS STRING RETURN reflect('java.lang.System', 'lineSeparator')")
    cursor.execute("CREATE STREAM TABLE of_lines AS SELECT * FROM lines")


def clients_may_do_what_the_file_says(cursor: Any, file: Path) -> None:
    """Settings are allowed, and what lies in the folder of `file`."""
    cursor.execute(f"SELECT * FROM text.`{file}`")
    assert cursor.fetchall() == [("a",)]
    cursor.execute("SET spark.hadoop.anything = a.B")
    others = (
        guarded.CODE[0],
        guarded.SOURCES[0],
        f"SELECT * FROM text.`{file.parent}x`",
        f"SELECT * FROM text.`{file.parent}/../b`",
    )
    ours = (
        "SUBSCRIBE TO lines",
        "CREATE STREAM TABLE st AS SELECT * FROM lines",
        "CREATE STREAM TABLE st AS SELECT told() AS a",
        "CREATE STREAM TABLE st (CONSTRAINT c EXPECT (told() = value)) AS SELECT * FROM of_lines",
    )
    for statement in ("SELECT * FROM lines", "SELECT told()", *ours, *others):
        assert unless_refused(lambda: cursor.execute(statement), ThriftError) == "", statement  # noqa: B023
    cursor.execute("CREATE TEMPORARY VIEW lines AS SELECT 1 AS value")
    cursor.execute("CREATE TEMPORARY FUNCTION told() RETURNS STRING RETURN 'nothing'")
    for statement in ours:
        assert unless_refused(lambda: cursor.execute(statement), ThriftError) == "", f"{statement} behind temporary ones"  # noqa: B023
    cursor.execute("REFRESH STREAM TABLE of_lines FULL")  # its definition was judged when it was accepted
    cursor.execute("SELECT * FROM of_lines")
    assert cursor.fetchall() == [("a",)]


@pytest.mark.core
def test_the_end_of_a_server(server: Running, tmp_path: Path) -> None:
    """The last test of this module.

    SIGTERM cuts off a client's REFRESH and lets the scheduler's finish; Ctrl-C cuts off the scheduler's, within `stop_seconds`; then
    Java dies under a server. The second server lets everybody in, and finds its catalog elsewhere; the third is open to the network.
    """
    gone = suppress(ThriftError, TTransportException, OSError)
    with leaving_a_socket(), gone, server.cursor() as cursor, server.cursor() as other:
        begin_slow_refresh(server, cursor)
        begin_brief_refresh(server, other)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: asked(server, "readyz") == (503, "stopping\n"))
        server.ends(signal.SIGTERM)
    assert server.process.returncode == 0, "it was not asked to end"
    ended = time.time()
    outside, inside = (tmp_path / name / "a.txt" for name in ("outside", "inside"))
    for file in (outside, inside):
        file.parent.mkdir()
        file.write_text("a")
    named = {
        "spark.sql.warehouse.dir": f"{server.folder}/spark-warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={server.folder}/metastore_db;create=true",
    }
    with serving(tmp_path, "--stop-seconds", "6", doors="", spark=named, as_json=False) as again:
        with again.cursor(None) as cursor:
            moved = f"rows_inserted > 0 AND unix_seconds(end_time) <= {ended}"
            cursor.execute(f"SELECT rows_inserted FROM refresh_history('brief') WHERE {moved} ORDER BY version")
            assert cursor.fetchall() == [(1,), (1000,)], "what the scheduler had begun was finished"
            cursor.execute("ALTER STREAM TABLE slow SET SCHEDULE '1s'")
        with again.cursor(None) as cursor:
            make_what_clients_may_not_read(cursor, outside)
        with remote_session(again) as remote:
            assert remote.sql("SHOW STREAM TABLES").count() == 3
        with watching(again) as watch:
            watch.send_signal(signal.SIGINT)
            assert watch.wait(60) == 130
        wait_until(lambda: refreshes_slow(again))
        began = time.monotonic()
        again.ends(signal.SIGINT)
        assert time.monotonic() - began < 9, "it ends within stop_seconds"
    assert not (tmp_path / "metastore_db").exists()
    beyond_loopback = ("--host", "0.0.0.0", "--users", "users.txt", "--token-file", "token.txt")  # noqa: S104  (with both)
    allowed = f'allow = "settings"\npaths = "{inside.parent}"\n'
    with serving(server.folder, "--no-scheduler", *beyond_loopback, doors=allowed) as again:
        beyond = {port for port, address in listening(*family(again.process.pid)).items() if address not in LOOPBACK}
        assert beyond == {again.thrift, *(int(re.findall(r":(\d+)/", each)[0]) for each in (again.connect, again.console))}
        with again.cursor() as cursor:
            cursor.execute("VERIFY STREAM TABLE slow")
            assert cursor.fetchall()[0][1]
            cursor.execute("SELECT * FROM slow")
            assert cursor.fetchall() == [(1, 1)]
            clients_may_do_what_the_file_says(cursor, inside)
        with watching(again) as watch:
            (java,) = Path(f"/proc/{again.process.pid}/task/{again.process.pid}/children").read_text().split()
            os.kill(int(java), signal.SIGKILL)
            assert again.process.wait(60) == ExitCode.NO_SESSION
            assert "Java ended with exit code -9" in again.log()
            assert watch.wait(60) == ExitCode.NO_SESSION, "it tries for some seconds, not for minutes"
            assert watch.stderr is not None
            assert "the server does not answer any more" in watch.stderr.read()
