"""Spark that no Python started: spark-sql, spark-shell, a Scala job, a Thrift server; they have our jar and settings, and nothing else.

`./run fuzz` has spark-sql answer the script of all hosts on a cluster (test_cluster.py).
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from impala.error import Error as ThriftError
from tests.settings import QUICK
from tests.spark import hosts
from tests.spark.scala import compile_scala
from tests.spark.script import BRIEF, SCRIPT
from tests.spark.serving import cursor_at

from streamtable.hosts.server.endpoints import wait_for

SMALL = (
    "spark.driver.memory=1g",
    "spark.sql.shuffle.partitions=2",
    "spark.ui.enabled=false",
    "spark.log.level=OFF",
    *(f"{key}={value}" for key, value in QUICK.items()),
)

LACKING = """#!/bin/sh
echo No module named streamtable
exit 1
"""
HANGING = """#!/bin/sh
echo waiting for a licence
exec sleep 1000
"""
DYING = """
import os, signal
from pathlib import Path
from streamtable.hosts import jvm_child
from streamtable.refresh.failpoints import watch

def kill(reached):
    if reached == "before the table" and Path("kill").exists():
        Path("kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)

watch(kill)
jvm_child.main()
"""
OUTDATED = """
import importlib.metadata
known = importlib.metadata.version
importlib.metadata.version = lambda name: "0.0.1" if name == "streamtable" else known(name)
from streamtable.hosts import jvm_child
jvm_child.main()
"""
STRANGERS = """
import os
import stat
from pathlib import Path
from tests.spark.doors import called_at, nobody_is_let_in, on_command_lines

(child,) = (int(each.name) for each in Path("/proc").glob("[0-9]*") if b"dying.py" in (each / "cmdline").read_bytes())
nobody_is_let_in(called_at(child))
assert on_command_lines("the-key-of-a-store") == []
said = Path(f"/proc/{child}/fd/1").readlink()
assert said.name.startswith("streamtable-python-") and stat.S_IMODE(said.stat().st_mode) == 0o600, said
Path("sent_away").touch()
"""
PYTHONS_THAT_FAIL = """
SET spark.streamtable.scheduler.retries = never;
SHOW STREAM TABLES;
!cp outdated python;
SHOW STREAM TABLES;
!rm python;
SHOW STREAM TABLES;
!cp hanging python;
SET spark.streamtable.python.startSeconds = soon;
SHOW STREAM TABLES;
SET spark.streamtable.python.startSeconds = 2;
SHOW STREAM TABLES;
!cp dying python;
RESET spark.streamtable.python.startSeconds;
SHOW STREAM TABLES;
RESET spark.streamtable.scheduler.retries;
SET spark.streamtable.scheduler.retries = 3;
CREATE TABLE source USING delta AS SELECT 1 AS id;
CREATE STREAM TABLE copied AS SELECT id FROM source;
INSERT INTO source VALUES (2);
!./strangers;
!touch kill;
REFRESH STREAM TABLE copied;
!sleep 1;
SELECT concat('still ', count(*)) FROM copied;
REFRESH STREAM TABLE copied;
VERIFY STREAM TABLE copied;
DROP STREAM TABLE copied;
DROP TABLE source;
!./kill_java;
"""


def processes_in(folder: Path) -> list[str]:
    """List the command lines of the processes whose current folder this is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def test_a_python_that_lacks_the_package_or_has_another_does_not_exist_hangs_or_is_killed(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "outdated.py").write_text(OUTDATED)
    (tmp_path / "strangers.py").write_text(STRANGERS)
    for name, text in {
        "python": LACKING,
        "outdated": f"#!/bin/sh\nexec {sys.executable} outdated.py\n",
        "hanging": HANGING,
        "dying": f"#!/bin/sh\nexec {sys.executable} dying.py\n",
        "strangers": f"#!/bin/sh\nPYTHONPATH={hosts.ROOT} exec {sys.executable} strangers.py\n",
        "kill_java": "#!/bin/sh\nkill -9 $PPID\n",
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    python = tmp_path / "python"
    script = tmp_path / "script.sql"
    script.write_text(PYTHONS_THAT_FAIL)
    properties = hosts.settings_file(
        tmp_path,
        "spark.master=local[1]",
        f"spark.streamtable.python={python}",
        "spark.hadoop.fs.s3a.secret.key=the-key-of-a-store",
        *SMALL,
    )
    options = ("--properties-file", str(properties), "--hiveconf", "hive.cli.errors.ignore=true")
    done = hosts.spark_sql(tmp_path, *options, "-f", str(script))
    errors = hosts.errors_in(done.stderr)
    conditions = ["STREAMTABLE_NOT_ENABLED"] * 5 + ["STREAMTABLE_INVALID_STATEMENT", "STREAMTABLE_NOT_ENABLED"]
    assert [hosts.failure(error).condition for error in errors] == conditions, done.stderr[-3000:]
    lacking, outdated, missing, misspelt, hanging, judged, killed = errors  # SET needs no Python, and is judged when one is there
    assert "spark.streamtable.scheduler.retries cannot be 'never'" in judged
    assert f"{python}, which is to answer the statement, ended at once:\nNo module named streamtable" in lacking
    assert f"ended at once:\nits streamtable is 0.0.1, the jar of this application is that of {version('streamtable')}" in outdated
    assert f"{python}, which is to answer the statement, does not start" in missing
    assert "startSeconds is no whole number" in misspelt
    assert "did not begin to answer within 2 seconds" in hanging and "waiting for a licence" in hanging
    assert "the Python process did not answer" in killed and "try again" in killed
    assert (tmp_path / "sent_away").exists(), "strangers were let in, or not sent away"
    assert re.search(r"still 1\n.*\tDIFFERENTIAL\t.*\n.*\ttrue\t0\t0\n", done.stdout), done.stdout
    until = time.monotonic() + 30
    while (left := processes_in(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == [], "the JVM was killed, and what it started goes on"


def test_spark_sql_starts_its_own_python(expected_briefly: list[hosts.Answer], tmp_path: Path) -> None:
    properties = hosts.settings_file(tmp_path, "spark.master=local[1]", *SMALL)
    for planted in ("py4j.py", "pyspark.py", "json.py"):  # the current folder may be one that others write
        (tmp_path / planted).write_text("open('imported', 'w').close(); raise SystemExit('planted')")
    found, errors = hosts.in_spark_sql(tmp_path, properties, BRIEF)
    assert not (tmp_path / "imported").exists()
    assert found == expected_briefly, errors[-3000:]


@pytest.mark.fuzz
@pytest.mark.parametrize("program", ["spark-submit", "spark-shell"])
def test_scala(program: str, expected: list[hosts.Answer], tmp_path: Path) -> None:
    properties = hosts.settings_file(tmp_path, "spark.master=local[2]", *SMALL)
    (tmp_path / "statements").write_text("\n".join(SCRIPT))
    options = ("--properties-file", str(properties))
    if program == "spark-submit":
        compile_scala("Script.scala", tmp_path / "script.jar")
        done = hosts.run_program(program, tmp_path, *options, "--class", "Script", "script.jar", "statements", "answers")
    else:
        source = Path(__file__).with_name("Script.scala")
        typed = f':load {source}\nScript.main(Array("statements", "answers"))\n:quit\n'
        done = hosts.run_program(program, tmp_path, *options, typed=typed)
    assert done.returncode == 0 and (tmp_path / "answers").exists(), done.stdout[-3000:] + done.stderr[-3000:]
    assert hosts.read((tmp_path / "answers").read_text()) == expected


@contextmanager
def thrift_server(folder: Path) -> Iterator[int]:
    """Start Spark's own Thrift server with our settings; yields its port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    host = ("spark.hadoop.hive.server2.thrift.bind.host=127.0.0.1", f"spark.hadoop.hive.server2.thrift.port={port}")
    columns = "spark.databricks.delta.catalog.update.enabled=true"
    properties = hosts.settings_file(folder, "spark.master=local[2]", *host, columns, *SMALL)
    program = ("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal")
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [hosts.SPARK / "bin" / "spark-submit", "--properties-file", properties, *program],
            cwd=folder,
            env=hosts.environment_without_spark(),
            stdout=log,
            stderr=log,
        )
    try:
        wait_for("127.0.0.1", port)
        yield port
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.fuzz
def test_the_thrift_server_of_spark(expected: list[hosts.Answer], tmp_path: Path) -> None:
    with thrift_server(tmp_path) as port, cursor_at(port) as cursor, cursor_at(port) as another:
        another.execute("SET spark.streamtable.scheduler.retries = never")  # before Python is there
        assert hosts.in_cursor(cursor, ThriftError) == expected
        with pytest.raises(ThriftError, match="spark.streamtable.scheduler.retries cannot be 'never'"):
            another.execute("SHOW STREAM TABLES")
        another.execute("RESET spark.streamtable.scheduler.retries")
        another.execute("SHOW STREAM TABLES")
        cursor.execute("CREATE TABLE people USING delta AS SELECT 'Ada' AS name, 36 AS age")
        cursor.execute("CREATE STREAM TABLE of_age AS SELECT name, age + 1 AS next FROM people WHERE age >= 18")
        cursor.get_tables(database_name="default")
        assert sorted(row[2] for row in cursor.fetchall()) == ["of_age", "people"]
        assert cursor.get_table_schema("of_age", "default") == [("name", "STRING"), ("next", "INT")]
