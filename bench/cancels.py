"""500 statements over Thrift and Spark Connect, cancelled at random instants: no thread hangs, nothing leaks, no name is blocked.

Clients cancel their statement, close its operation, or leave without a word; over Spark Connect they interrupt it. Afterwards
statements are answered at once over both, every name is free or whole, all tables are exact, and the process holds what it held
before. At the end SIGTERM has to end it within `stop_seconds`.

    ./run soak cancels          CANCELS=100 SEED=7 ./run soak cancels for less, and others
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

from bench.sessions import SETUP, UNTIL_IDLE, Held, connect_of, cursor, server
from impala.error import Error
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from rich.console import Console
from tenacity import retry, retry_if_exception_message, stop_after_delay, wait_fixed

CANCELS, SEED = int(os.environ.get("CANCELS", "500")), int(os.environ.get("SEED", "1"))
AT_ONCE = 8
WARM_UP = 200
"""So many cancels come before the first look: Python's memory grows to a plateau, which is reached by then."""
PATIENCE = float(os.environ.get("PATIENCE", "120"))
"""After so many seconds a cancelled statement hangs."""

STATEMENTS = (
    "REFRESH STREAM TABLE by_region",
    "REFRESH STREAM TABLE large FULL",
    "REFRESH STREAM TABLE by_region CASCADE",
    "CREATE STREAM TABLE made_{n} AS SELECT region, count(*) AS n FROM sales GROUP BY region",
    "CREATE OR REPLACE STREAM TABLE again AS SELECT id FROM sales WHERE id > {n}",
    "ALTER STREAM TABLE large SET SCHEDULE '{n}s'",
    "CREATE TABLE plain_{n} USING delta AS SELECT 1 AS a",
    "INSERT INTO sales VALUES ({n}, 'r1', 77)",
    "DROP TABLE IF EXISTS plain_{n}",
    "SHOW STREAM TABLES",
    "SHOW TABLES",
    "SELECT * FROM stream_tables()",
    "SELECT region, total FROM by_region ORDER BY region",
    "SELECT count(*) FROM sales a CROSS JOIN sales b",
)

Cursors: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""Opens another session of Thrift each time."""


def over_thrift(open_cursor: Cursors, schema: str, statement: str, seconds: float, way: str) -> str:
    """Begin a statement and give it up after so many seconds; return how."""
    with open_cursor() as session:
        session.execute(f"USE {schema}")
        session.execute_async(statement)
        time.sleep(seconds)
        if way == "cancel":
            session.cancel_operation()
        elif way == "close":
            session.close_operation()
        if way != "leave":
            session.execute("SELECT 1")
            assert session.fetchall() == [(1,)]
    return f"Thrift: {way}"


def over_connect(url: str, schema: str, statement: str, seconds: float) -> str:
    """Begin a statement and interrupt it after so many seconds; return what became of it."""
    session = SparkSession.builder.remote(url).create()
    try:
        session.sql(f"USE {schema}")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(lambda: session.sql(statement).collect())
            time.sleep(seconds)
            until = time.monotonic() + PATIENCE
            session.interruptAll()
            while not wait([running], timeout=1).done:
                assert time.monotonic() < until, f"it hangs: {statement}"
                session.interruptAll()  # the one before may have come before the statement
            try:
                running.result()
            except PySparkException:
                return "Connect: interrupted, or refused"
            return "Connect: finished before"
    finally:
        session.stop()


def cancel_many(open_cursor: Cursors, url: str, number: int, seed: int = SEED, schema: str = "default") -> Counter[str]:
    """Cancel so many statements, several at once; return how often what happened. Raises what hung, or refused to go on."""

    def one(n: int) -> str:
        rnd = random.Random(seed * 1_000_003 + n)
        statement, seconds = rnd.choice(STATEMENTS).format(n=n + 1), rnd.choice((0.02, 0.3, 1.0)) * rnd.random()
        if n % 2:
            return over_connect(url, schema, statement, seconds)
        return over_thrift(open_cursor, schema, statement, seconds, rnd.choice(("cancel", "cancel", "close", "leave")))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(one, range(number)))


def judge(session: Any, number: int) -> list[str]:
    """Return what is not as it should be when all is over: a name that is blocked, contents that are not the query's."""
    wrong = list[str]()
    session.execute("SHOW STREAM TABLES")
    for row in session.fetchall():
        _settled(session, f"REFRESH STREAM TABLE {row[0]}")
        _settled(session, f"VERIFY STREAM TABLE {row[0]}")
        wrong += [str(each) for each in session.fetchall() if each[1] is not True]
    for n in range(1, number + 1):
        drop = f"DROP STREAM TABLE IF EXISTS made_{n}"
        tried = (drop, STATEMENTS[3].format(n=n), drop) if n % 10 == 0 else (drop,)
        wrong += [problem for statement in tried if (problem := _problem(session, statement))]
    return wrong


@retry(
    retry=retry_if_exception_message(match="(?s).*STREAMTABLE_CONCURRENT_REFRESH"), wait=wait_fixed(1), stop=stop_after_delay(60)
)
def _settled(session: Any, statement: str) -> None:
    """Carry a statement out, after the end of those whose clients left."""
    session.execute(statement)


def _problem(session: Any, statement: str) -> str | None:
    try:
        session.execute(statement)
    except Error as error:
        return f"{statement}: {error}"
    return None


def main() -> int:
    """Run it and print what happened; the status is 1 when something went wrong or grew."""
    console, told = Console(width=120), Counter[str]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, server(Path(place)) as (python, port):
        with cursor(port) as session:
            for statement in SETUP:
                session.execute(statement)
        url = connect_of(Path(place))

        def open_cursor() -> AbstractContextManager[Any]:
            return cursor(port)

        cancel_many(open_cursor, url, WARM_UP, SEED + 1)
        time.sleep(UNTIL_IDLE)
        early = Held.by(python)
        began = time.monotonic()
        told = cancel_many(open_cursor, url, CANCELS)
        took = time.monotonic() - began
        time.sleep(UNTIL_IDLE)
        with cursor(port) as session:
            wrong = judge(session, CANCELS)
        time.sleep(UNTIL_IDLE)  # its queries had threads as well
        late = Held.by(python)
        grown = late.grown_since(early)
        began = time.monotonic()
    ended = time.monotonic() - began
    console.print(f"{sum(told.values())} cancels in {took:.0f} s: {', '.join(f'{what}: {n}' for what, n in sorted(told.items()))}")
    console.print(f"before: {early}\nafter: {late}\nSIGTERM: ended in {ended:.1f} s")
    for text in wrong[:5]:
        console.print(text[:2000], markup=False)
    if grown:
        console.print(f"more than before: {', '.join(grown)}; threads: {late.new_threads(early)}", markup=False)
    return int(bool(wrong or grown))


if __name__ == "__main__":
    raise SystemExit(main())
