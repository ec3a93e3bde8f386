"""Scripted sessions, and each host as a function that runs one: the answers must be the same wherever SQL is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from tests.settings import QUICK
from tests.spark.script import MEASURED, REFUSED, SCRIPT, SILENT

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
JARS = SPARK / "jars"
MARK = "--- next ---"
ERROR = re.compile(r".*\[(STREAMTABLE_\w+)\](.*)SQLSTATE: (\w{5})", re.DOTALL)
"""An error's last copy, since those of Thrift repeat it; within it there may be Spark's own error with another SQLSTATE."""
ERROR_OF_SPARK = re.compile(r".*?\[([A-Z][A-Z0-9_.]+)\] .*?SQLSTATE: (\w{5})", re.DOTALL)
NUMBERED = re.compile(r"#\d+L?")
"""The numbers that Spark gives to columns."""
WAREHOUSE = re.compile(r"file:/\S*/(?=scripted\.db/)")


@dataclass(frozen=True)
class Answer:
    """The rows of a statement as text, without what is measured; or condition, SQLSTATE and, if it is ours, words of its error."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    condition: str = ""
    sqlstate: str = ""
    message: str = ""


def answer(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Answer:
    kept = [i for i, column in enumerate(columns) if column not in MEASURED]
    texts = tuple(tuple(_text(row[i]) for i in kept) for row in rows)
    if len(kept) == 1:  # some hosts say one text of several lines, some several texts
        texts = tuple((line,) for (text,) in texts for line in text.splitlines())
    # Statements that have nothing to say are given all kinds of empty columns by the hosts.
    return Answer(tuple(columns[i] for i in kept), texts) if texts else Answer()


def failure(text: str) -> Answer:
    """Read an error as a person sees it; it must have a condition and an SQLSTATE. What is beside these in Spark's own differs."""
    found = ERROR.match(text)
    if not found:
        found = ERROR_OF_SPARK.match(text)
        assert found, text
        return Answer(condition=found[1], sqlstate=found[2])
    condition, message, sqlstate = found.groups()
    return Answer(condition=condition, sqlstate=sqlstate, message=" ".join(NUMBERED.sub("#", message).split()))


def written(answers: Sequence[Answer]) -> str:
    """Write answers for another process to read: a line of JSON each."""
    texts = (f"[{each.condition}]{each.message} SQLSTATE: {each.sqlstate}" for each in answers)
    return "".join(f"{json.dumps({**asdict(each), 'message': text})}\n" for each, text in zip(answers, texts, strict=True))


def _failed(said: Mapping[str, Any]) -> Answer:
    """Read an error that is told in parts: they must be what its text says."""
    read = failure(said["message"])
    assert (said["condition"], said["sqlstate"]) == (read.condition, read.sqlstate), said
    return read


def read(text: str) -> list[Answer]:
    """Read what another process wrote."""
    return [
        _failed(said) if said["condition"] else answer(said["columns"], said["rows"]) for said in map(json.loads, text.splitlines())
    ]


def in_session(sql: Callable[[str], Any], script: Sequence[str] = SCRIPT) -> list[Answer]:
    """Run a script by something like spark.sql, of this process or of Spark Connect."""

    def ask(statement: str) -> Answer:
        frame = sql(statement)
        return answer(frame.columns, frame.collect())

    return [_caught(ask, statement, PySparkException) for statement in script]


def in_cursor(cursor: Any, kind: type[Exception], script: Sequence[str] = SCRIPT) -> list[Answer]:
    """Run a script by a cursor of Python's database API, over Thrift."""

    def ask(statement: str) -> Answer:
        cursor.execute(statement)
        if statement.startswith(SILENT):
            return Answer()  # impyla cannot fetch nothing
        return answer([column[0] for column in cursor.description], cursor.fetchall())

    return [_caught(ask, statement, kind) for statement in script]


def _caught(ask: Callable[[str], Answer], statement: str, kind: type[Exception]) -> Answer:
    try:
        return ask(statement)
    except kind as error:
        if not isinstance(error, PySparkException):
            return failure(str(error))
        return _failed({"condition": error.getCondition(), "sqlstate": error.getSqlState(), "message": str(error)})


def in_beeline(folder: Path, url: str, user: str, password: str, script: Sequence[str] = SCRIPT) -> list[Answer]:
    """Run a script by beeline: rows with tabs on stdout, errors on stderr in the order of the statements."""
    done = beeline(folder, url, user, password, "--force=true", "-f", str(_marked(folder, script)))
    errors = [line for line in done.stderr.split("Error: ") if "(state=" in line]
    for error in errors:  # what JDBC hands over beside the text
        assert f"(state={failure(error).sqlstate},code=0)" in error
    return _blocks(script, [line.split("\t") for line in done.stdout.splitlines() if line], errors)


def beeline(folder: Path, url: str, user: str, password: str, *options: str) -> subprocess.CompletedProcess[str]:
    program = ("java", "-Xmx256m", "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine")
    form = ("--silent=true", "--nullemptystring=false", "--outputformat=tsv2")
    command = (*program, "-u", url, "-n", user, "-p", password, *form, *options)
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


def as_beeline_shows(said: Answer) -> Answer:
    """Its tables of tabs leave out the ends of lines within a text, and put a text with tabs or lines between zeros."""
    if said.columns == ("createtab_stmt",):
        return Answer(said.columns, ((f"\0{''.join(line for (line,) in said.rows)}\0",),))
    rows = (tuple(f"\0{text}\0" if "\t" in text else text for text in row) for row in said.rows)
    return Answer(said.columns, tuple(rows), said.condition, said.sqlstate, said.message)


def in_spark_sql(folder: Path, properties: Path, script: Sequence[str] = SCRIPT) -> tuple[list[Answer], str]:
    """Run a script by the spark-sql program, a JVM without Python; return what it printed on stderr as well."""
    settings = ("hive.cli.errors.ignore=true", "hive.cli.print.header=true")
    options = [part for setting in settings for part in ("--hiveconf", setting)]
    # It hands a statement over with the end of the line of the one before, which errors would count.
    marked = _marked(folder, script, after_mark="")
    done = spark_sql(folder, "--properties-file", str(properties), *options, "-f", str(marked))
    rows = [line.split("\t") for line in done.stdout.splitlines() if line]
    return _blocks(script, rows, errors_in(done.stderr)), done.stderr


def errors_in(stderr: str) -> list[str]:
    """Return the texts of errors, ours and Spark's, in what spark-sql printed."""
    _, *texts = re.split(r"\n(?=\[[A-Z][A-Z_.]+\] )", f"\n{stderr}")
    return texts


def in_client(python: Path, url: str, script: Sequence[str] = SCRIPT) -> list[Answer]:
    """Run a script by pyspark-client: another interpreter, which has neither Spark's jars nor our package."""
    environment = {**environment_without_spark(), "PYTHONPATH": str(ROOT)}
    program = str(Path(__file__).with_name("client.py"))
    told = json.dumps(script)
    done = subprocess.run([python, program, url], capture_output=True, text=True, timeout=600, env=environment, input=told)
    assert done.returncode == 0, done.stderr[-3000:]
    return read(done.stdout)


def in_command_line(folder: Path, url: str) -> list[Answer]:
    """Run the script by `streamtable run`: a line of JSON for each answer on stdout, and for each error on stderr."""
    script = folder / "script.sql"
    script.write_text(";\n".join(SCRIPT))
    command = [sys.executable, "-m", "streamtable", "run", str(script), "--keep-going", "--json", "--remote", url]
    done = subprocess.run(command, cwd=folder, env=environment_of_commands(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    errors = {error["at"]: error for error in (json.loads(line)["error"] for line in done.stderr.splitlines())}
    answers = iter(done.stdout.splitlines())

    def said(line: int) -> Answer:
        if (error := errors.get(f"line {line}")) is not None:
            return _failed(error)
        rows = json.loads(next(answers))
        return answer(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])

    return [said(line) for line, _ in enumerate(SCRIPT, 1)]


def settings_file(folder: Path, *wanted: str) -> Path:
    """Write the settings for a Spark that Python does not start, as docs/how-to/jvm.md says."""
    command = [sys.executable, "-m", "streamtable", "settings", *(part for each in wanted for part in ("--conf", each))]
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


def environment_of_quick_sessions() -> dict[str, str]:
    """Return what tells a program of ours, which takes no settings, to plan as the sessions of the tests do."""
    return {"PYSPARK_SUBMIT_ARGS": " ".join([*(f"--conf {key}={value}" for key, value in QUICK.items()), "pyspark-shell"])}


def environment_without_spark() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_HOME", "SPARK_REMOTE", "PYSPARK"))}


def _marked(folder: Path, script: Sequence[str], after_mark: str = "\n") -> Path:
    """Write a script with a mark before each statement, so that the output can be cut into answers."""
    path = folder / "script.sql"
    path.write_text("".join(f"SELECT '{MARK}' AS mark;{after_mark}{statement};\n" for statement in script))
    return path


def _blocks(script: Sequence[str], lines: Iterable[Sequence[str]], errors: Sequence[str]) -> list[Answer]:
    blocks = list[list[Sequence[str]]]()
    for line in lines:
        if list(line) == [MARK]:
            blocks.append([])
        elif blocks and list(line) != ["mark"]:
            blocks[-1].append(line)
    remaining = iter(errors)

    def said(head: Sequence[str], *rows: Sequence[str]) -> Answer:
        return answer(head, [["\t".join(row)] for row in rows] if len(head) == 1 else rows)  # COPY's own tabs

    found = [
        failure(next(remaining)) if statement in REFUSED else said(*(block or [()]))
        for statement, block in zip(script, blocks, strict=True)
    ]
    assert (more := next(remaining, None)) is None, more
    return found


def _text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case _:
            return WAREHOUSE.sub("", str(value))
