"""A standalone cluster, a master and two workers on loopback: exact, also when executors are killed while a table is refreshed.

Executors see neither the driver's folder nor our jars: those come to them through Spark.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from tests.settings import QUICK
from tests.spark import hosts
from tests.spark.script import SCRIPT

from streamtable.hosts.server.endpoints import wait_for
from streamtable.jvm.jars import delta_jars, shim_jar

SMALL = (
    "spark.executor.memory=700m",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1",  # they live for minutes: a quarter less work
    "spark.sql.shuffle.partitions=4",
    "spark.ui.enabled=false",
    "spark.log.level=OFF",
    "spark.databricks.delta.snapshotPartitions=2",
    *(f"{key}={value}" for key, value in QUICK.items()),
)
JOB = """
import os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from streamtable import enable

spark = SparkSession.builder.getOrCreate()
enable(spark)
context = spark.sparkContext

def executors():
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\\0")
        except OSError:  # it has ended
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and context.applicationId in words:
            yield int(process.name)

def kill_one(name, jobs):
    tracker = context.statusTracker()
    group = f"streamtable spark_catalog.default.{name}"
    begun = len(tracker.getJobIdsForGroup(group))
    def work():
        while len(tracker.getJobIdsForGroup(group)) < begun + jobs or not any(
            info.numRunningTasks for info in tracker.getExecutorInfos()
        ):
            time.sleep(0.01)
        os.kill(next(executors()), signal.SIGKILL)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread

spark.sql("CREATE TABLE facts USING delta AS SELECT id, id % 1000 AS k, hash(id) % 100 AS v FROM range(0, 300000, 1, 4)")
spark.sql("CREATE TABLE names USING delta AS SELECT id AS k, concat('name ', id) AS name FROM range(900)")
QUERIES = {
    "grouped": "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS hi FROM facts GROUP BY k",
    "joined": "SELECT f.id, f.v, n.name FROM facts f LEFT JOIN names n ON f.k = n.k WHERE f.v > 50",
}
for name in {kill.partition(":")[0] for kill in sys.argv[1:]}:
    spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")
for n, kill in enumerate(sys.argv[1:], 1):
    name, _, jobs = kill.partition(":")
    spark.sql(f"INSERT INTO facts SELECT id + {n} * 10000000, id % 1100, hash(id, {n}) % 100 FROM range(0, 60000, 1, 4)")
    spark.sql(f"UPDATE names SET name = upper(name) WHERE k % 10 = {n}")
    killing = kill_one(name, int(jobs))
    done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
    assert done.action == "DIFFERENTIAL", done
    killing.join(60)
    assert not killing.is_alive(), f"{name} took less than {jobs} jobs"
    verdict = spark.sql(f"VERIFY STREAM TABLE {name}").first()
    assert (verdict.ok, verdict.missing, verdict.surplus) == (True, 0, 0), (name, verdict)
known = context._jsc.sc().statusStore().executorList(False)
lost = [known.apply(n) for n in range(known.size()) if not known.apply(n).isActive()]
print("exact, without", len(lost))
"""


@contextmanager
def running(folder: Path, name: str, command: Sequence[str]) -> Iterator[None]:
    with (folder / f"{name}.log").open("w") as log:
        environment = {**hosts.environment_without_spark(), "SPARK_DAEMON_MEMORY": "256m"}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def without(hidden: Sequence[Path]) -> list[str]:
    """Return the beginning of a command that does not see these folders, where this system lets us hide them."""
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True).returncode:
        return []
    mounts = " && ".join(f"mount -t tmpfs none '{folder}'" for folder in hidden)
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{mounts} && exec "$0" "$@"']


@contextmanager
def cluster(folder: Path, hidden: Sequence[Path]) -> Iterator[str]:
    """Start a master and two workers that do not see the hidden folders; yields the URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    program, where = str(hosts.SPARK / "bin" / "spark-class"), ("--host", "127.0.0.1", "--webui-port", "0")
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master = (program, "org.apache.spark.deploy.master.Master", *where, "--port", str(port))
        stack.enter_context(running(folder, "master", master))
        wait_for("127.0.0.1", port)
        for name in ("first", "second"):
            worker = (
                program,
                "org.apache.spark.deploy.worker.Worker",
                *where,
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                name,
                url,
            )
            stack.enter_context(running(folder, name, [*without(hidden), *worker]))
        yield url


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a cluster; return the settings of a driver there, in the folder that is to be the driver's."""
    folder = tmp_path_factory.mktemp("cluster")
    driver = folder / "driver"
    driver.mkdir()
    hidden = {driver, *(jar.parent for jar in (*delta_jars(), shim_jar()))}
    with cluster(folder, sorted(hidden)) as url:
        shared = f"spark.sql.warehouse.dir={folder / 'warehouse'}"
        own = (f"spark.local.dir={driver}", f"spark.pyspark.python={sys.executable}")
        yield hosts.settings_file(driver, f"spark.master={url}", shared, *own, *SMALL)


def exact_without(properties: Path, *kills: str) -> None:
    """Kill executors during refreshes, at the n-th job each."""
    (properties.parent / "job.py").write_text(JOB)
    job = ("--properties-file", str(properties), "job.py", *kills)
    done = hosts.run_program("spark-submit", properties.parent, *job, patience=800)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == f"exact, without {len(kills)}", done.stdout


def test_folders_can_be_hidden_from_executors(tmp_path: Path) -> None:
    """Where they cannot, the tests below prove less: executors could read our jars and the driver's folder by themselves."""
    (tmp_path / "file").touch()
    if not (hiding := without([tmp_path])):
        pytest.skip("unshare is not permitted here: nothing is hidden from the executors of this module")
    assert subprocess.run([*hiding, "ls", str(tmp_path)], check=True, capture_output=True, text=True).stdout == ""


@pytest.mark.fuzz
def test_the_whole_script_in_spark_sql(properties: Path, expected: list[hosts.Answer]) -> None:
    """A JVM that no Python started runs it here, so that nothing is left to one process by accident; in the pipeline see test_jvm_hosts.py."""
    found, errors = hosts.in_spark_sql(properties.parent, properties, SCRIPT)
    assert found == expected, errors[-3000:]


def test_an_executor_is_killed(properties: Path) -> None:
    exact_without(properties, "joined:1")


@pytest.mark.fuzz
def test_executors_are_killed_at_several_jobs(properties: Path) -> None:
    exact_without(properties, "grouped:1", "joined:2", "grouped:3")
