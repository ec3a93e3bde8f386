"""The port on which Python is called: whoever does not show the secret is sent away, and told nothing."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.doors import GREETINGS, answer, listening, nobody_is_let_in
from tests.spark.plain import run_python

from streamtable.jvm import callback_server
from streamtable.jvm.callback_server import callbacks


@pytest.fixture
def port(spark: SparkSession) -> int:
    """Return where this process is called; beside it, PySpark listens for accumulators."""
    return int(callbacks(spark).getCallbackClient().getPort())


def answers(spark: SparkSession, within: float = 60.0) -> bool:
    """Tell whether a thread that has no connection yet gets an answer; the first of a session takes its time."""
    jvm: Any = spark._jvm
    runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
    planning = spark.sql("SELECT * FROM stream_tables()")._jdf.queryExecution()  # calls Python when it makes the plan
    thread = jvm.java.lang.Thread(jvm.java.beans.EventHandler.create(runnable, planning, "sparkPlan"))
    thread.start()
    thread.join(int(within * 1000))
    return not thread.isAlive()


def test_strangers_are_sent_away_and_the_session_works(spark: SparkSession, port: int) -> None:
    nobody_is_let_in(port)
    assert answers(spark)


def test_who_says_nothing_is_sent_away_after_a_while(spark: SparkSession, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_server, "SECONDS_TO_GREET", 0.3)
    began = time.monotonic()
    assert [answer(port, b""), answer(port, b"A\n00")] == [b"", b""]
    assert 0.5 < time.monotonic() - began < 2.5


def test_a_greeting_letter_by_letter_takes_no_longer(spark: SparkSession, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_server, "SECONDS_TO_GREET", 0.5)
    sent = 0
    with socket.create_connection(("127.0.0.1", port)) as slow, suppress(OSError):  # a reset, or a broken pipe
        for letter in b"A\n" + b"0" * 64:
            slow.sendall(bytes([letter]))
            time.sleep(0.1)
            sent += 1
    assert 3 < sent < 15


def test_a_crowd_of_strangers_keeps_nobody_out(spark: SparkSession, port: int) -> None:
    with ExitStack() as crowd:
        for _ in range(100):
            crowd.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(b"A\n")
        assert answers(spark)


def test_a_server_that_asks_for_no_secret_has_none_of_our_objects(spark: SparkSession, port: int) -> None:
    """PySpark starts one for foreachBatch, and serves the pool of its gateway."""
    gateway: Any = spark.sparkContext._gateway
    spark.sql("SHOW STREAM TABLES")
    ours = [each for each in gateway.gateway_property.pool.dict.values() if type(each).__module__.startswith("streamtable")]
    assert not ours
    assert gateway.__dict__.get("_callback_server") is None, "we do not start it"
    assert gateway.java_gateway_server.getCallbackClient().getPort() != port
    assert listening(os.getpid())[port] == "0100007F", "on loopback"


def test_the_gateway_of_pyspark_answers_no_stranger(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    for name, said in GREETINGS.items():
        told = answer(gateway.gateway_parameters.port, said + b"\n")
        assert told is not None and not told.startswith(b"!y"), name


def test_the_other_callback_client_of_py4j_shows_the_secret_as_well(tmp_path: Path) -> None:
    """With PYSPARK_PIN_THREAD=false Java keeps a pool of connections, rather than one for each thread."""
    printed = run_python(
        tmp_path,
        """
        from py4j.clientserver import ClientServer
        from tests.spark.doors import nobody_is_let_in
        from tests.spark.test_callback_server import answers

        from streamtable.errors import StreamTableNotFound
        from streamtable.jvm.callback_server import callbacks

        spark = configure(builder("unpinned")).getOrCreate()
        assert not isinstance(spark.sparkContext._gateway, ClientServer)
        spark.sql("CREATE TABLE sales USING delta AS SELECT 1 AS id")
        print(*spark.sql("CREATE STREAM TABLE counted AS SELECT id, count(*) AS n FROM sales GROUP BY id").first()[1:2])
        nobody_is_let_in(callbacks(spark).getCallbackClient().getPort())
        spark.sql("INSERT INTO sales VALUES (1), (2)")
        print(*spark.sql("REFRESH STREAM TABLE counted").first()[1:2])
        print(sorted(map(tuple, spark.table("counted").collect())), answers(spark))
        try:
            spark.sql("REFRESH STREAM TABLE nobody")
        except StreamTableNotFound:
            print("not found")
        """,
        PYSPARK_PIN_THREAD="false",
    )
    assert printed.splitlines() == ["REINITIALIZE", "DIFFERENTIAL", "[(1, 2), (2, 1)] True", "not found"]
