"""The process with Spark: it does what the demo shows, measures it, and writes each event as a line of JSON.

It ends, with its JVM, when its standard input ends, and kills itself where the story wants a crash.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import typer
from pyspark.sql import Row, SparkSession

from streamtable.catalog.entries import CATALOG
from streamtable.hosts.cli.demo.shop import TABLES, Table, changes, sources
from streamtable.hosts.cli.options import cli_context
from streamtable.refresh.failpoints import watch
from streamtable.settings.spark import (
    CATALOG_KIND,
    DELTA_CATALOG,
    DRIVER_OPTIONS,
    METASTORE,
    METASTORES_OF_THE_USER,
    SESSION_CATALOG,
    WAREHOUSE,
)

__all__ = ["Demo", "main", "settings_in"]

WARM_UP, MOST_ROUNDS, ROUNDS_UNTIL = 1, 3, 50.0
"""After the rounds that warm up, one is measured. Others follow while they are likely to end before so many seconds have passed."""
KILLED_AT = "before the table"
CORES = max(2, os.cpu_count() or 2)
SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": str(CORES)}


class Demo:
    """The story, in two processes: `play` ends by SIGKILL, `recover` goes on after it."""

    def __init__(self, spark: SparkSession, rows: int, rounds: int | None) -> None:
        self.spark, self.rows, self.rounds = spark, rows, rounds
        self._turn = 0

    def play(self) -> None:
        """Make the shop, measure rounds of changes, compare with what MERGE made, and die in the middle of a refresh."""
        began = time.perf_counter()
        for name, statement in sources(self.rows).items():
            self._timed(f"loading {name}", statement)
            tell("loaded", name=name, rows=self._count(name))
        for table in TABLES:
            _, seconds = self._timed(f"CREATE STREAM TABLE {table.name} AS {table.query}")
            tell("made", name=table.name, rows=self._count(table.name), seconds=seconds)
        for table in TABLES:
            copy = f"CREATE TABLE {table.name}_by_hand USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            self._timed(f"copying {table.name} for the MERGE by hand", f"{copy} AS SELECT * FROM {table.name}")
        last = 0.0
        while self._goes_on(time.perf_counter() - began, last):
            started = time.perf_counter()
            self.round()
            last = time.perf_counter() - started
        for table in TABLES:
            self.compare(table)
        self._change()
        victim = TABLES[0].name
        watch(lambda point: die(victim) if point == KILLED_AT else None)
        self._timed(f"REFRESH STREAM TABLE {victim}")

    def _goes_on(self, spent: float, last: float) -> bool:
        if self.rounds is not None:
            return self._turn < self.rounds
        return self._turn <= WARM_UP or (self._turn < MOST_ROUNDS and spent + last < ROUNDS_UNTIL)

    def round(self) -> None:
        """Let changes trickle in, then bring each table up to date in three ways.

        The first round leaves out the whole query, which CREATE has just computed: so each way was gone once before it is measured.
        """
        since = self._version() + 1
        self._change()
        versions = {"since": since, "upto": self._version()}
        for table in TABLES:
            self.refresh(table)
            _, seconds = self._timed(f"MERGE INTO {table.name}_by_hand", table.merge.format(**versions))
            tell("by_hand", name=table.name, seconds=seconds)
            if not self._warms_up:
                in_full = f"CREATE OR REPLACE TABLE {table.name}_in_full USING delta AS {table.query}"
                _, seconds = self._timed(f"computing {table.name} in full", in_full)
                tell("in_full", name=table.name, seconds=seconds)

    @property
    def _warms_up(self) -> bool:
        """Tell whether the round only warms up: of one round alone, all is measured."""
        return self._turn <= WARM_UP and self.rounds != 1

    def recover(self) -> None:
        """Go on after the crash: what is left, a refresh of everything, and the proof."""
        for table in TABLES:
            tell("found", name=table.name, rows=self._count(table.name))
        for table in TABLES:
            self.refresh(table)
        for table in TABLES:
            self.verify(table)

    def refresh(self, table: Table) -> None:
        """Refresh a stream table."""
        done, seconds = self._timed(f"REFRESH STREAM TABLE {table.name}")
        told = {key: done[key] for key in ("action", "reason", "rows_inserted", "rows_deleted")}
        tell("refreshed", name=table.name, seconds=seconds, **told)

    def verify(self, table: Table) -> None:
        """Have Spark evaluate the query, and compare."""
        done, seconds = self._timed(f"VERIFY STREAM TABLE {table.name}")
        tell("verified", name=table.name, seconds=seconds, **{key: done[key] for key in ("ok", "missing", "surplus")})

    def compare(self, table: Table) -> None:
        """Compare a stream table with the one that MERGE maintains."""
        tell("step", text=f"comparing {table.name} with what MERGE made")
        tell("compared", name=table.name, same=self._sum(table.name) == self._sum(f"{table.name}_by_hand"))

    def _change(self) -> None:
        self._turn += 1
        tell("round", turn=self._turn)
        for title, statement in changes(self.rows, self._turn):
            self._timed(title, statement)
            metrics = self.spark.sql("DESCRIBE HISTORY orders LIMIT 1").collect()[0]["operationMetrics"]
            found = (metrics.get(name) for name in ("numUpdatedRows", "numDeletedRows", "numOutputRows"))
            tell("changed", what=title, rows=next((int(each) for each in found if each is not None), 0))

    def _timed(self, what: str, statement: str | None = None) -> tuple[Row, float]:
        tell("step", text=" ".join(what.split()))
        started = time.perf_counter()
        rows = self.spark.sql(statement or what).collect()
        return (rows[0] if rows else Row()), time.perf_counter() - started

    def _version(self) -> int:
        return int(self.spark.sql("DESCRIBE HISTORY orders LIMIT 1").collect()[0]["version"])

    def _count(self, table: str) -> int:
        return int(self.spark.sql(f"SELECT count(*) AS n FROM {table}").collect()[0]["n"])

    def _sum(self, table: str) -> tuple[Any, ...]:
        """Return what tells two bags of rows apart."""
        query = f"SELECT count(*), bit_xor(xxhash64(*)) FROM {table}"
        return tuple(self.spark.sql(query).collect()[0])


def tell(event: str, **said: object) -> None:
    """Write an event."""
    sys.stdout.write(json.dumps({"event": event, **said}) + "\n")
    sys.stdout.flush()


def die(name: str) -> None:
    """Kill this process and its JVM: nothing is flushed, nothing is closed."""
    tell("killed", name=name)
    os.killpg(0, signal.SIGKILL)


def _end_with_the_input() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGKILL)


def main(part: str, rows: str, rounds: str) -> None:
    """Run a part of the demo in the current folder, in a process group of its own; 0 rounds are as many as there is time for."""
    Thread(target=_end_with_the_input, name="streamtable demo", daemon=True).start()
    tell("step", text="starting Spark")
    with cli_context(None, [f"{key}={value}" for key, value in settings_in(Path.cwd()).items()], as_json=False) as context:
        tell("started")
        demo = Demo(context.spark, int(rows), int(rounds) or None)
        if part == "play":
            demo.play()
            return
        demo.recover()
        tell("console", **_console(context.spark))
        signal.pause()  # the end of the input ends it


def settings_in(folder: Path) -> dict[str, str]:
    """Return the settings of a Spark that works in the folder alone, whatever catalog and cluster the user's own Spark has.

    Its tables bear names that others may have in that catalog. A process that is killed leaves its temporary files: they are to go
    with the folder.
    """
    options = (f"-Djava.io.tmpdir={folder}", f"-Dderby.system.home={folder}")
    return SETTINGS | {
        "spark.master": "local[*]",
        "spark.sql.defaultCatalog": CATALOG,
        SESSION_CATALOG: DELTA_CATALOG,
        CATALOG_KIND: "hive",
        **dict.fromkeys(METASTORES_OF_THE_USER, ""),
        METASTORE: f"jdbc:derby:;databaseName={folder / 'metastore_db'};create=true",
        WAREHOUSE: (folder / "spark-warehouse").as_uri(),
        DRIVER_OPTIONS: " ".join(map(shlex.quote, options)),
    }


def _console(spark: SparkSession) -> dict[str, str | None]:
    from streamtable.hosts.console import INSTALL, console, is_installed

    if is_installed():
        link = console(spark).link()
        return {"link": link, "text": f"look around in the console; this link lets one browser in:\n  {link}"}
    return {"link": None, "text": f"the same in a browser: {INSTALL}, then streamtable demo again"}


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except typer.Exit as end:
        sys.exit(end.exit_code)
