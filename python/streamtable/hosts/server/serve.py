"""The life of a server: start everything, say so, wait for the signal, stop everything in turn."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from streamtable.errors import NotEnabled
from streamtable.hosts.console import INSTALL
from streamtable.hosts.server.endpoints import ABSENT, Endpoints, endpoints_of, environment, has_strangers, spark_settings, wait_for
from streamtable.hosts.server.guard import guard, kinds_of
from streamtable.hosts.server.health import Health
from streamtable.hosts.server.metrics import Metrics
from streamtable.hosts.server.pages import answering
from streamtable.hosts.server.passwords import Passwords
from streamtable.hosts.server.stopping import Stopping
from streamtable.hosts.server.watchdog import Watchdog
from streamtable.hosts.session import start_scheduler
from streamtable.jvm.failures import root_cause
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.schedule.loop import Scheduler
from streamtable.settings.server_file import ServerSettings
from streamtable.settings.spark import items

if TYPE_CHECKING:
    from streamtable.hosts.console.serve import Console

__all__ = ["for_refreshes", "serve", "wait"]

log = logging.getLogger("streamtable.console")

THRIFT = "org.apache.spark.sql.hive.thriftserver"
SECONDS_OF_SPARK = 10.0
"""What Spark may need to end when nothing runs any more."""


def serve(
    server: ServerSettings,
    given: Mapping[str, str],
    start: Callable[[Mapping[str, str]], SparkSession],
    ready: Callable[[Mapping[str, str]], None],
) -> None:
    """Serve until SIGTERM or SIGINT, with the user's settings of Spark; `start` makes the session, `ready` is told the addresses.

    Running refreshes may finish; those that take too long are cancelled and leave their tables as they were. The process has ended
    `stop_seconds` after the signal, whatever hangs.
    """
    endpoints = endpoints_of(server, given)
    settings = spark_settings(server, endpoints, given)
    kinds_of(server)  # what is wrong with them is told before anything starts
    passwords = Passwords(Path(server.users)) if server.users else None
    os.environ.update(environment(endpoints))
    watchdog, metrics = Watchdog(server.stop_seconds), Metrics()
    health = Health(metrics.silence)
    stopping = Stopping(health.stop)
    stopping.listen()
    # By default all servers of a user log their operations to one folder, which each of them deletes when it stops.
    with (
        _pages(endpoints, metrics, health),
        TemporaryDirectory(prefix="streamtable-operations-", ignore_cleanup_errors=True) as operations,
    ):
        spark = start({"spark.hadoop.hive.server2.logging.operation.log.location": operations, **settings})
        java_class(spark, "org.apache.spark.sql.hive.streamtable.Metastore").shield(spark._jsparkSession)
        stopping.listen()  # again: at Ctrl-C, pyspark's own handler cancels all jobs and raises KeyboardInterrupt
        scheduler = start_scheduler(spark) if server.scheduler else None
        stopped, console = Event(), None
        try:
            if passwords:
                passwords.register(spark)
            if has_strangers(server, given):
                guard(spark, server)
            _listen(spark, endpoints)
            if endpoints.metrics:
                metrics.watch(spark, scheduler, stopped.wait)
            console = _console(spark, server, endpoints, scheduler, passwords)
            health.ready()
            addresses = endpoints.addresses(bool(server.token_file))
            ready(addresses | {"console": console.link()} if console else addresses)
            _notify("READY=1")
            wait(spark, stopping)
        finally:
            health.stop()
            watchdog.begin()
            _notify("STOPPING=1")
            stopped.set()
            if console:
                console.stop()
            _stop(spark, scheduler, for_refreshes(server.stop_seconds))


def _pages(endpoints: Endpoints, metrics: Metrics, health: Health) -> AbstractContextManager[None]:
    if not endpoints.metrics:
        return nullcontext()
    pages = {"/metrics": metrics.page, "/healthz": health.healthz, "/readyz": health.readyz}
    return answering(endpoints.open_host, endpoints.metrics, pages)


def _console(
    spark: SparkSession, server: ServerSettings, endpoints: Endpoints, scheduler: Scheduler | None, passwords: Passwords | None
) -> Console | None:
    if not endpoints.console:
        if server.console_port != ABSENT:
            log.warning("there is no console: %s, or set console_port = -1", INSTALL)
        return None
    from streamtable.hosts.console.serve import serve as open_console

    host = endpoints.console_host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return open_console(
        spark,
        socket.create_server((host, endpoints.console), family=family),
        scheduler,
        passwords,
        items(server.console_hosts),
        server.console_read_only,
    )


def for_refreshes(seconds: float) -> float:
    """Return how long refreshes may take to end, so that Spark has time to end as well."""
    return seconds - min(SECONDS_OF_SPARK, seconds / 2)


def _listen(spark: SparkSession, endpoints: Endpoints) -> None:
    """Open the doors, after everything behind them is there."""
    java_class(spark, f"{THRIFT}.streamtable.GivenUp").watch(spark._jsparkSession)
    if endpoints.thrift:
        open_thrift(spark, endpoints.host, endpoints.thrift)
    if endpoints.connect:
        _open_connect(spark, endpoints.host, endpoints.connect)


def open_thrift(spark: SparkSession, host: str, port: int) -> Any:
    """Open the door of Thrift where the settings say, and return the HiveServer2 behind it.

    A thread of its own opens it: in a thread that has asked the metastore, HiveServer2 takes the settings of its client.
    Raises NotEnabled where the port does not open.
    """
    server = java_class(spark, f"{THRIFT}.HiveThriftServer2")
    with ThreadPoolExecutor(1, thread_name_prefix="streamtable thrift") as own:
        hive = _opened("Thrift", host, port, lambda: own.submit(server.startWithSparkSession, spark._jsparkSession, False).result())
    wait_for(host, port)
    java_class(spark, f"{SHIM}.Addresses").remember(hive)
    java_class(spark, f"{SHIM}.ThriftErrors").plain(hive)
    return hive


def _open_connect(spark: SparkSession, host: str, port: int) -> None:
    service = "org.apache.spark.sql.connect.service.SparkConnectService"
    _opened("Spark Connect", host, port, lambda: java_class(spark, service).start(spark.sparkContext._jsc.sc()))
    taken = getattr(java_class(spark, f"{service}$"), "MODULE$").localPort()
    if taken != port:  # it goes on to the next port where another process has come before
        raise NotEnabled(
            f"Spark Connect listens on port {taken}: another process took {host}:{port} meanwhile", hint="start the server again"
        )
    wait_for(host, port)


def _opened(door: str, host: str, port: int, start: Callable[[], Any]) -> Any:
    try:
        return start()
    except Py4JJavaError as error:
        raise NotEnabled(
            f"{door} does not open {host}:{port}: {root_cause(error)}",
            hint="end what listens there, and start again",
        ) from error


def wait(spark: SparkSession, stopping: Stopping) -> None:
    """Wait for a signal. Raises NotEnabled where Java ends before."""
    if not stopping.wait(lambda: _end_of_java(spark) is None):
        raise NotEnabled(f"Java ended with exit code {_end_of_java(spark)}", hint="its last words are on stderr; start again")


def _stop(spark: SparkSession, scheduler: Scheduler | None, seconds: float) -> None:
    try:
        if scheduler:
            scheduler.stop(seconds)
        spark.stop()  # HiveServer2 listens for the end of the application
    except (Py4JError, OSError):
        if _end_of_java(spark) is None:
            raise  # otherwise there is nothing left to stop, and `wait` has said why


def _end_of_java(spark: SparkSession) -> int | None:
    """Return its exit code once it ended. Where spark-submit started this process, Java is its parent, and takes it along."""
    gateway: Any = spark.sparkContext._gateway
    return gateway.proc.poll() if gateway.proc else None


def _notify(state: str) -> None:
    """Tell systemd, where it started this process and wants to know."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(f"\0{path[1:]}" if path.startswith("@") else path)
            sender.sendall(state.encode())
