"""The interactive shell: a statement ends with a semicolon, Tab completes words and tables, the history is kept."""

from __future__ import annotations

import re
import time
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement
from streamtable.hosts.cli.output import ERRORS_OF_SPARK, Printer
from streamtable.hosts.cli.sessions import NO_JAVA, ended
from streamtable.language.parse import keywords
from streamtable.language.scripts import is_complete, split

__all__ = ["completions", "interact"]

HISTORY = Path("~/.streamtable_history")
OF_SPARK = re.findall(
    r"\w+",
    "SELECT FROM WHERE GROUP ORDER HAVING JOIN LEFT INNER OUTER ON USING UNION ALL DISTINCT INSERT INTO VALUES UPDATE DELETE MERGE "
    "VIEW DATABASE DATABASES COLUMNS FUNCTIONS USE INTERVAL CAST CASE WHEN THEN ELSE END AND IS NULL COUNT SUM AVG MIN MAX",
)


def interact(spark: SparkSession, out: Printer, limit: int) -> None:
    """Read statements and answer them until the end of the input, `exit` or `quit`."""
    path = HISTORY.expanduser()
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(path)),
        completer=WordCompleter(lambda: completions(spark), ignore_case=True),
        complete_while_typing=False,
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation="... ",
    )
    while True:
        try:
            text = prompt.prompt("sql> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.rstrip(";").strip().lower() in ("exit", "quit"):
            return
        _answer(spark, out, text, limit)


def completions(spark: SparkSession) -> list[str]:
    """Return the words of our grammar, some of Spark's, and the tables of the current schema, if it answers."""
    words = sorted({*keywords(), *OF_SPARK})
    try:
        return [*words, *(row["tableName"] for row in spark.sql("SHOW TABLES").collect())]
    except (*ERRORS_OF_SPARK, *NO_JAVA):  # the next statement tells it; raised here, it would break the line that is typed
        return words


def _answer(spark: SparkSession, out: Printer, text: str, limit: int) -> None:
    try:
        for piece in split(text):
            started = time.perf_counter()
            out.answer(spark, piece.sql, limit)
            out.note(f"{time.perf_counter() - started:.1f} s")
    except (*ERRORS_OF_SPARK, KeyboardInterrupt) as error:
        if ended(error):
            raise
        out.error(error)


def _keys() -> KeyBindings:
    """Let Enter send a complete statement, a word of the shell or nothing; otherwise it begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        if _is_complete(text) or text.lower() in ("exit", "quit"):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _is_complete(text: str) -> bool:
    try:
        return is_complete(text)
    except InvalidStatement:  # the answer says why
        return True
