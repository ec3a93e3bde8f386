"""What Java and Python say to each other is sent at once, whichever side opened the connection."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamtable import callback

LONG = 40_000
"""Characters of an answer that Java writes in several parts."""


@pytest.fixture
def greetings(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return the greetings of threads that had no connection yet."""
    found = list[None]()
    monkeypatch.setattr(callback.Handler, "greet", lambda handler: found.append(None))
    return found


def sends_at_once(spark: SparkSession) -> bool:
    """Return whether the thread of Java's that answers this one does."""
    gateway: Any = spark.sparkContext._gateway
    return bool(gateway.java_gateway_server.getCallbackClient().getPerThreadConnection().getSocket().getTcpNoDelay())


def test_threads_of_python(spark: SparkSession, greetings: list[None]) -> None:
    spark.sql("SHOW STREAM TABLES")
    greetings.clear()
    with ThreadPoolExecutor(1) as pool:
        assert [sends_at_once(spark), pool.submit(sends_at_once, spark).result()] == [True, True]
    spark.sql("SHOW STREAM TABLES")
    assert not greetings, "it has a connection"


def test_a_thread_of_java(spark: SparkSession, greetings: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    call, found = callback.Handler.callFunction, list[bool]()

    def seen(handler: callback.Handler, *arguments: Any) -> str:
        found.append(sends_at_once(spark))
        return call(handler, *arguments)

    monkeypatch.setattr(callback.Handler, "callFunction", seen)
    frame = spark.sql("SELECT * FROM stream_tables()")
    jvm: Any = spark._jvm
    runnable = jvm.java.lang.Class.forName("java.lang.Runnable")
    thread = jvm.java.lang.Thread(jvm.java.beans.EventHandler.create(runnable, frame._jdf, "isEmpty"))
    thread.start()
    thread.join()
    assert (found, len(greetings)) == ([True], 1)


def test_a_long_answer_does_not_wait_for_the_word_that_its_beginning_came(spark: SparkSession) -> None:
    """Also on the connection of the thread that made the session: it was there before us. The wait would be 40 ms."""
    jvm: Any = spark._jvm
    taken = list[float]()
    for _ in range(20):
        began = time.monotonic()
        assert len(jvm.org.apache.commons.lang3.StringUtils.repeat("x", LONG)) == LONG
        taken.append(time.monotonic() - began)
    assert min(taken) < 0.03
