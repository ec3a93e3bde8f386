"""One scripted session, and each host as a function that runs it: the answers must be the same wherever SQL is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException

SCRIPT = (
    "CREATE DATABASE scripted",
    "USE scripted",
    "CREATE TABLE sales (id INT, region STRING, amount DECIMAL(10, 2)) USING delta",
    "INSERT INTO sales VALUES (1, 'north', 10.00), (2, 'south', 20.00), (3, NULL, 30.00)",
    "CREATE STREAM TABLE by_region SCHEDULE CALCULATED AS SELECT region, count(*) AS n, sum(amount) AS total FROM sales GROUP BY region",
    "INSERT INTO sales VALUES (4, 'north', 5.50)",
    "REFRESH STREAM TABLE by_region",
    "SELECT * FROM by_region ORDER BY region",
    "SHOW STREAM TABLES",
    "SHOW STREAM TABLE DEPENDENCIES FOR by_region",
    "EXPLAIN STREAM TABLE by_region",
    "VERIFY STREAM TABLE by_region",
    "DECLARE changes CURSOR FOR SUBSCRIBE sales WITHIN TIMESTAMP ORDER BY id",
    "FETCH ALL changes",
    "INSERT INTO sales VALUES (5, 'south', 1.00)",
    "FETCH 1 changes WITH (TIMEOUT = '1m')",
    "CLOSE changes",
    "FETCH nobody",
    "REFRESH STREAM TABLE nobody",
    "CREATE STREAM TABLE wrong SCHEDULE AS SELECT 1 AS a",
    "CREATE STREAM TABLE wrong AS SELECT nothing FROM sales",
    "CREATE STREAM TABLE wrong REFRESH MODE DIFFERENTIAL AS SELECT rand() AS a FROM sales",
    "DELETE FROM by_region WHERE region = 'north'",
    "DROP STREAM TABLE by_region",
    "USE default",
    "DROP DATABASE scripted CASCADE",
)
SILENT = ("CREATE DATABASE", "USE", "CREATE TABLE", "INSERT", "DROP DATABASE")
ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
JARS = SPARK / "jars"
MARK = "--- next ---"
MEASURED = "duration_ms"
CONDITION = re.compile(r"\[(STREAMTABLE_\w+)\]")
STATE = re.compile(r"SQLSTATE: (\w{5})")


@dataclass(frozen=True)
class Answer:
    """The rows of a statement as text, without what is measured; or the condition and SQLSTATE of its error."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    condition: str = ""
    sqlstate: str = ""


def answer(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Answer:
    kept = [i for i, column in enumerate(columns) if column != MEASURED]
    texts = tuple(tuple(_text(row[i]) for i in kept) for row in rows)
    # Statements that have nothing to say are given all kinds of empty columns by the hosts.
    return Answer(tuple(columns[i] for i in kept), texts) if texts else Answer()


def failure(text: str) -> Answer:
    """Read an error as a person sees it; it must have both a condition of ours and an SQLSTATE."""
    condition, states = CONDITION.search(text), STATE.findall(text)
    assert condition and states, text
    return Answer(condition=condition[1], sqlstate=states[-1])  # before the last one there may be that of Spark's own error


def written(answers: Iterable[Answer]) -> str:
    """Write answers for another process to read: a line of JSON each."""
    return "".join(f"{json.dumps(asdict(each))}\n" for each in answers)


def read(text: str) -> list[Answer]:
    """Read what another process wrote."""
    return [
        Answer(condition=said["condition"], sqlstate=said["sqlstate"])
        if said["condition"]
        else answer(said["columns"], said["rows"])
        for said in map(json.loads, text.splitlines())
    ]


def in_session(sql: Callable[[str], Any]) -> list[Answer]:
    """Run the script by something like spark.sql, of this process or of Spark Connect."""

    def ask(statement: str) -> Answer:
        frame = sql(statement)
        return answer(frame.columns, frame.collect())

    return [_caught(ask, statement, PySparkException) for statement in SCRIPT]


def in_cursor(cursor: Any, kind: type[Exception]) -> list[Answer]:
    """Run the script by a cursor of Python's database API, over Thrift."""

    def ask(statement: str) -> Answer:
        cursor.execute(statement)
        if statement.startswith(SILENT):
            return Answer()  # impyla cannot fetch nothing
        return answer([column[0] for column in cursor.description], cursor.fetchall())

    return [_caught(ask, statement, kind) for statement in SCRIPT]


def _caught(ask: Callable[[str], Answer], statement: str, kind: type[Exception]) -> Answer:
    try:
        return ask(statement)
    except kind as error:
        said = failure(str(error))
        if isinstance(error, PySparkException):  # its methods say what its text says
            return Answer(condition=error.getCondition() or "none", sqlstate=error.getSqlState() or "none")
        return said


def in_beeline(folder: Path, url: str, user: str, password: str) -> list[Answer]:
    """Run the script by beeline: rows with tabs on stdout, errors on stderr in the order of the statements."""
    script = _marked(folder)
    connection = ("-u", url, "-n", user, "-p", password, "--force=true", "--silent=true", "--nullemptystring=false")
    done = subprocess.run(
        [
            "java",
            "-Xmx256m",
            "-cp",
            f"{JARS}/*",
            "org.apache.hive.beeline.BeeLine",
            *connection,
            "--outputformat=tsv2",
            "-f",
            str(script),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=folder,
    )
    errors = [line for line in done.stderr.split("Error: ") if "(state=" in line]
    for error in errors:  # what JDBC hands over beside the text
        assert f"(state={failure(error).sqlstate},code=0)" in error
    return _blocks([line.split("\t") for line in done.stdout.splitlines() if line], errors)


def in_spark_sql(folder: Path, properties: Path) -> tuple[list[Answer], str]:
    """Run the script by the spark-sql program, a JVM without Python; return what it printed on stderr as well."""
    settings = ("hive.cli.errors.ignore=true", "hive.cli.print.header=true")
    options = [part for setting in settings for part in ("--hiveconf", setting)]
    done = spark_sql(folder, "--properties-file", str(properties), *options, "-f", str(_marked(folder)))
    rows = [line.split("\t") for line in done.stdout.splitlines() if line]
    return _blocks(rows, errors_in(done.stderr)), done.stderr


def errors_in(stderr: str) -> list[str]:
    """Return the texts of our errors in what spark-sql printed."""
    return [text for text in re.split(r"\n(?=\[STREAMTABLE_)", f"\n{stderr}") if CONDITION.match(text)]


def in_client(python: Path, url: str) -> list[Answer]:
    """Run the script by pyspark-client: another interpreter, which has neither Spark's jars nor our package."""
    environment = {**environment_without_spark(), "PYTHONPATH": str(ROOT)}
    program = str(Path(__file__).with_name("client.py"))
    done = subprocess.run([python, program, url], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return read(done.stdout)


def settings_file(folder: Path, *wanted: str) -> Path:
    """Write the settings for a Spark that Python does not start, as docs/jvm.md says."""
    command = [sys.executable, "-m", "streamtable.cli", "settings", *(part for each in wanted for part in ("--conf", each))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    path = folder / "streamtable.conf"
    path.write_text(found.stdout)
    return path


def spark_sql(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program("spark-sql", folder, *arguments)


def run_program(
    name: str, folder: Path, *arguments: str, typed: str = "", patience: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a program of Spark's with little memory, and without what tells it of a Python."""
    command = [str(SPARK / "bin" / name), "--driver-memory", "1g", *arguments]
    environment = environment_without_spark()
    return subprocess.run(command, capture_output=True, text=True, timeout=patience, cwd=folder, env=environment, input=typed)


def environment_without_spark() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_HOME", "SPARK_REMOTE", "PYSPARK"))}


def _marked(folder: Path) -> Path:
    """Write the script with a mark before each statement, so that the output can be cut into answers."""
    path = folder / "script.sql"
    path.write_text("".join(f"SELECT '{MARK}' AS mark;\n{statement};\n" for statement in SCRIPT))
    return path


def _blocks(lines: Iterable[Sequence[str]], errors: Sequence[str]) -> list[Answer]:
    blocks = list[list[Sequence[str]]]()
    for line in lines:
        if list(line) == [MARK]:
            blocks.append([])
        elif blocks and list(line) != ["mark"]:
            blocks[-1].append(line)
    remaining = iter(errors)
    failing = {
        i for i, statement in enumerate(SCRIPT) if "nobody" in statement or "wrong" in statement or statement.startswith("DELETE")
    }
    return [
        failure(next(remaining)) if i in failing else answer(block[0] if block else (), block[1:]) for i, block in enumerate(blocks)
    ]


def _text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
