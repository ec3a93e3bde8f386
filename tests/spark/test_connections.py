"""What Java and Python say to each other is sent at once, whichever side opened the connection."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtable.jvm import callback
from streamtable.jvm.callback_server import callbacks

LONG = 40_000
"""Characters of an answer that Java writes in several parts."""


def sends_at_once(client: Any) -> bool:
    """Return whether the connection does that a client of py4j has for the thread of Java's that answers this one."""
    return bool(client.getPerThreadConnection().getSocket().getTcpNoDelay())


def test_threads_of_python(spark: SparkSession) -> None:
    spark.sql("SHOW STREAM TABLES")
    gateway: Any = spark.sparkContext._gateway
    client = gateway.java_gateway_server.getCallbackClient()
    with ThreadPoolExecutor(1) as pool:
        assert [sends_at_once(client), pool.submit(sends_at_once, client).result()] == [True, True]


def test_a_thread_of_java_has_one_connection(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    call, found, threads = callback.Handler.callFunction, list[bool](), set[int]()

    def seen(handler: callback.Handler, *arguments: Any) -> str:
        found.append(sends_at_once(callbacks(spark).getCallbackClient()))
        threads.add(get_ident())
        return call(handler, *arguments)

    monkeypatch.setattr(callback.Handler, "callFunction", seen)
    frame = spark.sql("SELECT * FROM stream_tables()")
    jvm: Any = spark._jvm
    runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
    for _ in range(2):
        thread = jvm.java.lang.Thread(jvm.java.beans.EventHandler.create(runnable, frame._jdf, "isEmpty"))
        thread.start()
        thread.join()
    assert found == [True, True]
    frame.isEmpty()
    frame.isEmpty()
    assert len(threads) == 3, "two of Java's, and this one"


def test_a_long_answer_does_not_wait_for_the_word_that_its_beginning_came(spark: SparkSession) -> None:
    """Also on the connection of the thread that made the session: it was there before us. The wait would be 40 ms."""
    jvm: Any = spark._jvm
    taken = list[float]()
    for _ in range(20):
        began = time.monotonic()
        assert len(jvm.org.apache.commons.lang3.StringUtils.repeat("x", LONG)) == LONG
        taken.append(time.monotonic() - began)
    assert min(taken) < 0.03
