"""`streamtable server` as a process, for tests of its clients."""

from __future__ import annotations

import gc
import json
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from impala.dbapi import connect as thrift
from tests.settings import QUICK
from tests.spark.hosts import environment_of_commands

from streamtable.hosts.server.passwords import add_user

USER, PASSWORD, TOKEN = "ada", "correct-horse", "a-long-random-text"
SECRET = "the-key-of-a-store"  # noqa: S105  (as TOKEN)
"""A value in [spark] that nobody but the owner may read."""
COMMAND = (sys.executable, "-m", "streamtable")
SMALL = QUICK | {
    "spark.driver.memory": "2g",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": SECRET,
    "spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net": SECRET,
    "spark.hadoop.fs.s3a.encryption.key": SECRET,
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.streamtable.scheduler.pollSeconds": "1",
    "spark.streamtable.replication.pollSeconds": "86400",  # the script of the hosts applies its subscription itself
    "spark.connect.progress.reportInterval": "100ms",
    "spark.hadoop.hive.hmshandler.retry.interval": "10ms",  # or it tries for 20 s to open a catalog that is in use
}


@dataclass(frozen=True)
class Running:
    """A server that said it was ready."""

    folder: Path
    thrift: int
    connect: str
    metrics: str
    console: str
    ui: str
    process: subprocess.Popen[str]

    def cursor(self, password: str | None = PASSWORD) -> AbstractContextManager[Any]:
        """Log in over Thrift, as another session each time."""
        return cursor_at(self.thrift, password)

    def ends(self, signum: signal.Signals) -> None:
        """Stop it: it has to end by itself and without an error."""
        self.process.send_signal(signum)
        code = self.process.wait(60)
        assert code == 0, self.log()

    def log(self) -> str:
        """Return what it wrote to stderr."""
        return (self.folder / "server.log").read_text()

    def running_jobs(self) -> list[str]:
        """Return what the jobs of Spark do that run now."""
        (application,) = _get(f"{self.ui}/api/v1/applications")
        return [
            job.get("description", "") for job in _get(f"{self.ui}/api/v1/applications/{application['id']}/jobs?status=running")
        ]


def _get(url: str) -> Any:
    with urlopen(url) as page:  # noqa: S310  (our own, on loopback)
        return json.load(page)


@contextmanager
def cursor_at(port: int, password: str | None = PASSWORD, user: str = USER) -> Iterator[Any]:
    """Log in over Thrift; without a password, as nobody in particular."""
    login = {"user": user, "password": password} if password else {}
    with (
        closing(thrift(host="127.0.0.1", port=port, timeout=120, auth_mechanism="PLAIN", **login)) as connection,
        closing(connection.cursor()) as made,
    ):
        yield made


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


@contextmanager
def leaving_a_socket() -> Iterator[None]:
    """Let impyla leave the socket open of a login that is refused, or of a connection that breaks, without failing the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


GUARDED = 'users = "users.txt"\ntoken_file = "token.txt"\n'


@contextmanager
def serving(
    folder: Path, *options: str, doors: str = GUARDED, spark: Mapping[str, str] | None = None, as_json: bool = True
) -> Iterator[Running]:
    """Start the program with these options and settings, and stop it by SIGTERM unless it has ended."""
    add_user(folder / "users.txt", USER, PASSWORD)
    (folder / "token.txt").write_text(f"{TOKEN}\n")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        ui = free.getsockname()[1]
    given = {**SMALL, "spark.ui.enabled": "true", "spark.ui.port": ui, **(spark or {})}
    settings = "\n".join(f'"{key}" = "{value}"' for key, value in given.items())
    (folder / "streamtable.toml").write_text(
        f"[spark]\n{settings}\n[server]\n{doors}thrift_port = 0\nconnect_port = 0\nmetrics_port = 0\nconsole_port = 0\n"
    )
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, "server", *(("--json",) if as_json else ()), *options],
            cwd=folder,
            env=environment_of_commands(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said, (folder / "server.log").read_text()
    if as_json:
        found = json.loads(said)
        assert found.pop("ready") is True
    else:
        assert said == "streamtable server is ready\n"
        found = dict(process.stdout.readline().split() for _ in range(4))
    running = Running(
        folder,
        int(found["thrift"].rpartition(":")[2]),
        found["connect"].replace("token=...", f"token={TOKEN}"),
        found["metrics"],
        found["console"],
        f"http://127.0.0.1:{ui}",
        process,
    )
    try:
        yield running
    finally:
        process.stdout.close()
        if process.poll() is None:
            running.ends(signal.SIGTERM)
