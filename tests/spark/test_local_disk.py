"""Commits on a local disk: no process is started for one, and of two at the same moment one is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

WRITERS = 8
WON, REFUSED = "won", "org.apache.hadoop.fs.FileAlreadyExistsException"


def test_a_commit_starts_no_process(spark: SparkSession, tmp_path: Path) -> None:
    write = f"INSERT INTO delta.`{tmp_path}/t` VALUES (1)"
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id INT) USING delta")
    spark.sql(write)
    flight, place = spark._jvm.jdk.jfr, spark._jvm.java.io.File(str(tmp_path / "flight.jfr")).toPath()  # type: ignore[union-attr]
    recording = flight.Recording()
    recording.enable("jdk.ProcessStart")
    recording.start()
    spark.sql(write)
    recording.stop()
    recording.dump(place)
    recording.close()
    found = flight.consumer.RecordingFile.readAllEvents(place)
    assert [command for each in found if str(tmp_path) in (command := each.getString("command"))] == []


def test_of_files_that_take_a_name_at_once_one_gets_it(spark: SparkSession, tmp_path: Path) -> None:
    together, hadoop = Barrier(WRITERS), spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    plainly = spark._sc._gateway.new_array(hadoop.Options.Rename, 0)  # type: ignore[union-attr]

    def write(turn: int, writer: int) -> str:
        here = hadoop.FileContext.getFileContext(spark._jsc.hadoopConfiguration())  # each its own, as other processes have
        source, target = tmp_path / f"{turn}-{writer}.part", tmp_path / f"{turn}.json"
        source.write_text(str(writer))
        together.wait()
        try:
            here.rename(hadoop.Path(f"file:{source}"), hadoop.Path(f"file:{target}"), plainly)
        except Py4JJavaError as error:
            return str(error.java_exception.getClass().getName())
        return "" if source.exists() else WON

    with ThreadPoolExecutor(WRITERS) as threads:
        for turn in range(20):
            ended = list(threads.map(write, [turn] * WRITERS, range(WRITERS)))
            assert sorted(ended) == [REFUSED] * (WRITERS - 1) + [WON]
            assert (tmp_path / f"{turn}.json").read_text() == str(ended.index(WON))
