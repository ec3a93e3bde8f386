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
    "CREATE TABLE sales (id INT, region STRING, amount DECIMAL(10, 2)) USING delta TBLPROPERTIES (streamtable.replicaIdentity = 'id')",
    "INSERT INTO sales VALUES (1, 'north', 10.00), (2, 'south', 20.00), (3, NULL, 30.00)",
    "EXPLAIN CREATE STREAM TABLE by_region AS SELECT region, count(*) AS n FROM sales GROUP BY region",
    "CREATE STREAM TABLE by_region SCHEDULE CALCULATED AS SELECT region, count(*) AS n, sum(amount) AS total FROM sales GROUP BY region",
    "CREATE OR REPLACE STREAM TABLE busy SCHEDULE '1d' COMMENT 'on top' AS SELECT region FROM by_region WHERE n > 1",
    "INSERT INTO sales VALUES (4, 'north', 5.50)",
    "REFRESH STREAM TABLE by_region",
    "REFRESH STREAM TABLE busy CASCADE",
    "SELECT * FROM by_region ORDER BY region",
    "SHOW STREAM TABLES",
    "SHOW STREAM TABLE DEPENDENCIES FOR by_region",
    "SHOW CREATE STREAM TABLE busy",
    "EXPLAIN STREAM TABLE by_region",
    "VERIFY STREAM TABLE by_region",
    "ALTER STREAM TABLE busy SUSPEND",
    "REFRESH STREAM TABLE busy",
    "ALTER STREAM TABLE busy SET REFRESH MODE FULL",
    "ALTER STREAM TABLE busy RENAME TO busiest",
    "SELECT name, status, refresh_mode, schedule FROM stream_tables() WHERE name LIKE '%scripted.busiest'",
    "SELECT name, action, status, rows_inserted FROM refresh_history('busiest') ORDER BY version",
    "SELECT name, source, state, versions_behind FROM source_health() WHERE name LIKE '%scripted.busiest'",
    "DECLARE changes CURSOR FOR SUBSCRIBE sales WITHIN TIMESTAMP ORDER BY id",
    "FETCH ALL changes",
    "INSERT INTO sales VALUES (5, 'south', 1.00)",
    "FETCH 1 changes WITH (TIMEOUT = '1m')",
    "CLOSE changes",
    "FETCH nobody",
    "CREATE PUBLICATION stock FOR TABLE sales WHERE (id < 4)",
    "CREATE DATABASE copies",
    "CREATE TABLE copies.sales (id INT, region STRING, amount DECIMAL(10, 2)) USING delta",
    "CREATE SUBSCRIPTION copies.shelf CONNECTION 'database=scripted' PUBLICATION stock WITH (enabled = false)",
    "ALTER SUBSCRIPTION copies.shelf RENAME TO copies.shelves",
    "SELECT * FROM subscriptions() WHERE name LIKE '%copies.shelves'",
    "DROP SUBSCRIPTION copies.shelves",
    "DROP SUBSCRIPTION copies.nobody",
    "DROP PUBLICATION stock",
    "CREATE QUEUE jobs (body STRING)",
    "REGISTER CONSUMER worker ON jobs",
    "INSERT INTO jobs VALUES ('only')",
    "NEXT BATCH FROM jobs FOR worker",
    "RETRY EVENTS FROM jobs FOR worker WHERE (body = 'only') AFTER '0s'",
    "FINISH BATCH FROM jobs FOR worker",
    "NEXT BATCH FROM jobs FOR worker",
    "NEXT BATCH FROM jobs FOR nobody",
    "DROP QUEUE jobs FORCE",
    "REFRESH STREAM TABLE nobody",
    "CREATE STREAM TABLE wrong SCHEDULE AS SELECT 1 AS a",
    "CREATE STREAM TABLE wrong AS SELECT nothing FROM sales",
    "CREATE STREAM TABLE wrong REFRESH MODE DIFFERENTIAL AS SELECT rand() AS a FROM sales",
    "DELETE FROM by_region WHERE region = 'north'",
    "DROP STREAM TABLE by_region",
    "DROP STREAM TABLE by_region CASCADE",
    "USE default",
    "DROP DATABASE copies CASCADE",
    "DROP DATABASE scripted CASCADE",
)
REFUSED = {
    "REFRESH STREAM TABLE busy": ("STREAMTABLE_SUSPENDED", "55000"),
    "FETCH nobody": ("STREAMTABLE_CURSOR_NOT_FOUND", "34000"),
    "DROP SUBSCRIPTION copies.nobody": ("STREAMTABLE_REPLICATION_OBJECT_NOT_FOUND", "42704"),
    "NEXT BATCH FROM jobs FOR nobody": ("STREAMTABLE_CONSUMER_NOT_FOUND", "42704"),
    "REFRESH STREAM TABLE nobody": ("STREAMTABLE_NOT_FOUND", "42P01"),
    "CREATE STREAM TABLE wrong SCHEDULE AS SELECT 1 AS a": ("STREAMTABLE_SYNTAX_ERROR", "42601"),
    "CREATE STREAM TABLE wrong AS SELECT nothing FROM sales": ("STREAMTABLE_INVALID_QUERY", "42000"),
    "CREATE STREAM TABLE wrong REFRESH MODE DIFFERENTIAL AS SELECT rand() AS a FROM sales": (
        "STREAMTABLE_NOT_INCREMENTAL",
        "0A000",
    ),
    "DELETE FROM by_region WHERE region = 'north'": ("STREAMTABLE_DIRECT_WRITE", "42809"),
    "DROP STREAM TABLE by_region": ("STREAMTABLE_DEPENDENTS_EXIST", "2BP01"),
}
"""Statements of the script that are errors, with condition and SQLSTATE."""
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
    if len(kept) == 1:  # some hosts say one text of several lines, some several texts
        texts = tuple((line,) for (text,) in texts for line in text.splitlines())
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
    done = beeline(folder, url, user, password, "--force=true", "-f", str(_marked(folder)))
    errors = [line for line in done.stderr.split("Error: ") if "(state=" in line]
    for error in errors:  # what JDBC hands over beside the text
        assert f"(state={failure(error).sqlstate},code=0)" in error
    return _blocks([line.split("\t") for line in done.stdout.splitlines() if line], errors)


def beeline(folder: Path, url: str, user: str, password: str, *options: str) -> subprocess.CompletedProcess[str]:
    program = ("java", "-Xmx256m", "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine")
    form = ("--silent=true", "--nullemptystring=false", "--outputformat=tsv2")
    command = (*program, "-u", url, "-n", user, "-p", password, *form, *options)
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


def as_beeline_shows(said: Answer) -> Answer:
    """Its tables of tabs leave out the ends of lines within a text, and put the text between zeros."""
    if said.columns != ("createtab_stmt",):
        return said
    return Answer(said.columns, ((f"\0{''.join(line for (line,) in said.rows)}\0",),))


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


def in_command_line(folder: Path, url: str) -> list[Answer]:
    """Run the script by `streamtable run`: a line of JSON for each answer on stdout, and for each error on stderr."""
    script = folder / "script.sql"
    script.write_text(";\n".join(SCRIPT))
    command = [sys.executable, "-m", "streamtable.cli", "run", str(script), "--keep-going", "--json", "--remote", url]
    done = subprocess.run(command, cwd=folder, env=environment_of_commands(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    errors = {error["at"]: error for error in (json.loads(line)["error"] for line in done.stderr.splitlines())}
    answers = iter(done.stdout.splitlines())

    def said(line: int) -> Answer:
        if (error := errors.get(f"line {line}")) is not None:
            return Answer(condition=error["condition"], sqlstate=error["sqlstate"])
        rows = json.loads(next(answers))
        return answer(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])

    return [said(line) for line, _ in enumerate(SCRIPT, 1)]


def settings_file(folder: Path, *wanted: str) -> Path:
    """Write the settings for a Spark that Python does not start, as docs/jvm.md says."""
    command = [sys.executable, "-m", "streamtable.cli", "settings", *(part for each in wanted for part in ("--conf", each))]
    found = subprocess.run(command, cwd=folder, env=environment_of_commands(), capture_output=True, text=True)
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


def environment_of_commands() -> dict[str, str]:
    """Return the environment of a command of ours, which finds what this process finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TERM": "dumb"}


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
    return [
        failure(next(remaining)) if statement in REFUSED else answer(block[0] if block else (), block[1:])
        for statement, block in zip(SCRIPT, blocks, strict=True)
    ]


def _text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
