"""The port of metrics: its pages, what else it answers, and how fast; without Spark."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from http.client import HTTPConnection, HTTPResponse
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import Row

from streamtable.hosts.server import health, metrics, watchdog
from streamtable.hosts.server.health import Health
from streamtable.hosts.server.metrics import OF_ALL, OF_EACH_EXPECTATION, OF_EACH_TABLE, Metrics
from streamtable.hosts.server.pages import MOST_AT_ONCE, answering
from streamtable.observe.status_rows import STATUS

PROMTOOL = shutil.which("promtool")
AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
TABLE = {
    **{column: AT if "timestamp" in metric else 1500 for metric, column, _ in OF_EACH_TABLE},
    "name": 'a."b\\\n',
    "status": "ACTIVE",
    "state": "stale",
    "refresh_mode": "AUTO",
    "schedule": "'5m'",
    "last_action": None,
}
EXPECTATION = {"name": "a.b", "expectation": "c", "passed": 3, "failed": 1}
ANSWERS: dict[str, dict[str, Any]] = {
    "refresh_stats": TABLE,
    "stream_tables": TABLE,
    "alerts": {"alert": "STALE"},
    "expectations": EXPECTATION,
}
"""One row of each function that Metrics asks."""


class FakeSpark:
    """Answers the questions of Metrics, once it may."""

    def __init__(self, answers: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> None:
        self._answers = answers or {function: [row] for function, row in ANSWERS.items()}
        self.asked, self.may_answer = list[str](), Event()
        self.may_answer.set()
        self.conf = MagicMock(get=lambda key, default=None: "0.01")

    def sql(self, question: str) -> Any:
        self.asked.append(question)
        self.may_answer.wait(60)
        rows = [Row(**row) for function, rows in self._answers.items() if f" {function}(" in question for row in rows]
        return MagicMock(collect=lambda: rows)


@contextmanager
def served() -> Iterator[tuple[Metrics, Health, int]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    found = Metrics()
    state = Health(found.silence)
    pages = {"/metrics": found.page, "/healthz": state.healthz, "/readyz": state.readyz}
    with answering("127.0.0.1", port, pages):
        yield found, state, port


def asked(port: int, path: str, method: str = "GET") -> tuple[HTTPResponse, str]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read().decode()


@contextmanager
def watched(found: Metrics, spark: FakeSpark) -> Iterator[None]:
    ended = Event()
    found.watch(spark, None, ended.wait)  # type: ignore[arg-type]
    try:
        yield
    finally:
        ended.set()
        spark.may_answer.set()


def until(happened: Any) -> None:
    patience = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < patience, "it did not happen"
        time.sleep(0.01)


def test_a_scrape_asks_nobody_and_is_quick_while_the_tables_do_not_answer() -> None:
    spark = FakeSpark()
    with served() as (found, _, port), watched(found, spark):
        until(lambda: "streamtable_tables" in asked(port, "/metrics")[1])
        spark.may_answer.clear()
        stuck = len(spark.asked) + 1
        until(lambda: len(spark.asked) == stuck)
        took = list[float]()
        for _ in range(20):
            began = time.perf_counter()
            _, text = asked(port, "/metrics")
            took.append(time.perf_counter() - began)
            assert 'streamtable_tables{status="ACTIVE"} 1.0' in text
        assert len(spark.asked) == stuck, "the scheduler's thread alone asks"
        assert sorted(took)[10] < 0.1


def test_a_scrape_is_quick_however_many_tables_there_are() -> None:
    spark = FakeSpark({function: [row | {"name": f"t{number}"} for number in range(2000)] for function, row in ANSWERS.items()})
    with served() as (found, _, port), watched(found, spark):
        until(lambda: "streamtable_tables" in found.page().text)
        took = list[float]()
        for _ in range(10):
            began = time.perf_counter()
            assert 'streamtable_tables{status="ACTIVE"} 2000.0' in found.page().text
            took.append(time.perf_counter() - began)
        assert 'streamtable_rows{name="t1999"} 1500.0' in asked(port, "/metrics")[1]
    assert sorted(took)[5] < 0.1


@contextmanager
def computing(threads: int) -> Iterator[None]:
    """Let threads of this process compute, which take turns with those that answer."""
    ended = Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    busy = [Thread(target=compute, daemon=True) for _ in range(threads)]
    for each in busy:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in busy:
            each.join()


SCRAPES = """
import sys, time
from urllib.request import urlopen
for _ in range(30):
    began = time.perf_counter()
    urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=60).read()
    print(time.perf_counter() - began)
"""


def test_a_scrape_is_quick_while_many_threads_compute() -> None:
    spark, turn = FakeSpark(), sys.getswitchinterval()
    with served() as (found, _, port), watched(found, spark):
        until(lambda: "streamtable_tables" in found.page().text)
        spark.may_answer.clear()
        with computing(8):
            done = subprocess.run([sys.executable, "-c", SCRAPES, str(port)], capture_output=True, text=True, check=True)
    assert sorted(map(float, done.stdout.split()))[15] < 0.1
    assert sys.getswitchinterval() == turn


def test_a_scrape_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the process are made beside those of the tables."""
    found = Metrics()
    monkeypatch.setattr("builtins.open", MagicMock(side_effect=AssertionError))
    assert "process_resident_memory_bytes" in found.page().text and "python_info" in found.page().text


def test_the_figures_of_the_process_go_on_while_the_tables_do_not_answer() -> None:
    spark = FakeSpark()
    spark.may_answer.clear()
    with served() as (found, _, port), watched(found, spark):
        first = cpu_seconds(asked(port, "/metrics")[1])
        with computing(1):
            until(lambda: cpu_seconds(asked(port, "/metrics")[1]) > first)


def cpu_seconds(text: str) -> float:
    (said,) = (line for line in text.splitlines() if line.startswith("process_cpu_seconds_total "))
    return float(said.split()[1])


def scraped() -> tuple[HTTPResponse, str]:
    with served() as (found, _, port), watched(found, FakeSpark()):
        until(lambda: "streamtable_tables" in asked(port, "/metrics")[1])
        return asked(port, "/metrics")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there; apt-get install prometheus")
def test_promtool_finds_nothing_wrong_with_the_metrics() -> None:
    checked = subprocess.run([str(PROMTOOL), "check", "metrics"], input=scraped()[1], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_metrics_are_in_base_units_and_keep_the_rules_of_prometheus() -> None:
    answer, text = scraped()
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert {*OF_ALL, *(metric for metric, _, _ in (*OF_EACH_TABLE, *OF_EACH_EXPECTATION))} <= families.keys()
    (duration,) = families["streamtable_refresh_duration_seconds"].samples
    assert (duration.value, duration.labels) == (1.5, {"name": TABLE["name"]})
    (due,) = families["streamtable_next_due_timestamp_seconds"].samples
    assert due.value == AT.timestamp()
    states = {each.labels["state"]: each.value for each in families["streamtable_state"].samples}
    assert states == {"fresh": 0, "stale": 1, "failing": 0, "suspended": 0}
    for name, family in families.items():
        assert family.documentation and not any(unit in name for unit in ("milli", "minutes", "hours", "kilo", "_ms", "_kb", "_mb"))
        assert name.islower() and not (family.type == "gauge" and name.endswith(("_total", "_count", "_sum", "_bucket")))


def test_a_table_that_nobody_can_read_is_counted_and_has_no_numbers() -> None:
    gone = Row(**dict.fromkeys(STATUS.names) | {"name": "gone", "status": "UNREADABLE"})
    families = {each.name: each for each in metrics.families(metrics._joined([], [gone]), [], [], 0.0)}
    assert [(each.labels, each.value) for each in families["streamtable_tables"].samples] == [({"status": "UNREADABLE"}, 1)]
    assert {each.value for each in families["streamtable_state"].samples} == {0}
    assert [each for metric, _, _ in OF_EACH_TABLE for each in families[metric].samples] == []


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics/",
        "/metricsx",
        "/-/metrics",
        "/healthz/x",
        "/favicon.ico",
        "/../metrics",
        "/%6detrics",
        "*",
    ],
)
def test_nothing_else_is_answered(path: str) -> None:
    with served() as (_, _, port):
        for method in ("GET", "HEAD"):
            answer, text = asked(port, path, method)
            assert answer.status == 404 and text == ("no such page\n" if method == "GET" else "")


@pytest.mark.parametrize("target", ["http://[/metrics", "/\x00", "/é"])
def test_what_is_no_address_at_all_is_answered_as_well(target: str) -> None:
    with served() as (_, _, port), socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        with connection.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.0 404 Not Found\r\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/other"])
def test_nobody_sends_anything(method: str, path: str) -> None:
    with served() as (_, _, port):
        assert asked(port, path, method)[0].status == (501 if method == "BREW" else 405)


def test_head_says_what_get_says() -> None:
    with served() as (_, _, port):
        for path in ("/healthz", "/readyz", "/healthz?verbose"):
            (got, text), (head, nothing) = asked(port, path), asked(port, path, "HEAD")
            assert (got.status, got.headers["Content-Length"]) == (head.status, head.headers["Content-Length"]) and nothing == ""
            assert str(len(text)) == got.headers["Content-Length"]
            assert got.headers["Server"] == "streamtable ", "nor what it is made of"


def test_ready_is_who_can_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = FakeSpark()
    with served() as (found, state, port):

        def says() -> tuple[int, str]:
            answer, text = asked(port, "/readyz")
            return answer.status, text

        assert says() == (503, "starting\n")
        with watched(found, spark):
            state.ready()
            assert says() == (200, "ready\n")
            spark.may_answer.clear()
            monkeypatch.setattr(health, "LONGEST_SILENCE", 0.5)
            monkeypatch.setattr(metrics, "REST", 0)
            until(lambda: says() == (503, "the catalog does not answer\n"))
            assert asked(port, "/healthz")[1] == "ok\n"
            spark.may_answer.set()
            until(lambda: says() == (200, "ready\n"))
            state.stop()
            assert says() == (503, "stopping\n")
            state.ready()
            assert says() == (503, "stopping\n"), "a signal while it starts counts"


def test_an_open_connection_is_cut_for_more_than_there_is_room_for_alone() -> None:
    """With half as many as there is room for, each new one cut most of them."""
    with served() as (_, _, port):
        some = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MOST_AT_ONCE - 2)]
        assert asked(port, "/healthz")[1] == "ok\n"
        for each in some:
            each.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert each.recv(4096).startswith(b"HTTP/1.0 200")
            each.close()


def test_who_sends_nothing_keeps_nobody_out() -> None:
    with served() as (_, _, port):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        assert asked(port, "/healthz")[1] == "ok\n"
        for each in silent:
            each.close()


STUCK = """
import signal, subprocess, sys, threading, time
from types import SimpleNamespace
from pyspark import SparkContext
from streamtable.hosts.server.stopping import STOPS
from streamtable.hosts.server.watchdog import Watchdog

java = subprocess.Popen(["sleep", "1000"])
java.send_signal(signal.SIGSTOP)  # it does not answer
SparkContext._gateway = SimpleNamespace(proc=java)
Watchdog(2.0)
for signum in STOPS:
    signal.signal(signum, lambda *_: None)
threading.Thread(target=threading.Event().wait).start()  # would keep the process
print(java.pid, flush=True)
{hang}
"""


@pytest.mark.parametrize(
    "hang",
    [
        "threading.Event().wait()",
        "threading.Lock().acquire() and threading.RLock().acquire() and time.sleep(1000)",
        "try:\n    time.sleep(1000)\nfinally:\n    time.sleep(1000)",
        "import ctypes; ctypes.CDLL(None).sleep(1000) or time.sleep(1000)",
        "sys.stderr.write('x' * 10_000_000)",
    ],
)
def test_a_process_whose_threads_hang_ends(hang: str) -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK.format(hang=hang)], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        java = int(process.stdout.readline())
        time.sleep(0.3)
        began = time.monotonic()
        process.terminate()
        assert process.wait(20) == 0
        assert 0.9 < time.monotonic() - began < 10
        assert subprocess.run(["ps", "-o", "stat=", "-p", str(java)], capture_output=True, text=True).stdout.strip()[:1] in (
            "",
            "Z",
        )


@pytest.mark.parametrize("seconds", [60.0, 1.5, 0.25])
def test_a_process_ended_a_second_after_the_time_that_it_was_given(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads what it says at the end, and that takes a second."""
    spent: list[float] = []
    said = SimpleNamespace(start=lambda: None, join=spent.append)
    monkeypatch.setattr(watchdog, "Thread", lambda *of, **named: said)
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(sleep=spent.append))
    monkeypatch.setattr(watchdog, "os", SimpleNamespace(read=lambda *of: b"\x00", _exit=lambda code: None))
    monkeypatch.setattr(watchdog, "SparkContext", SimpleNamespace(_gateway=None))
    dog: Any = SimpleNamespace(_told=0, _seconds=seconds)
    watchdog.Watchdog._watch(dog)
    assert sum(spent) == pytest.approx(seconds)
