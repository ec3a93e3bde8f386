r"""The interactive shell: a statement ends with a semicolon, Tab completes, the history is kept, `\?` lists its commands."""

from __future__ import annotations

import time
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement
from streamtable.hosts.cli.backslash import Backslash
from streamtable.hosts.cli.completion import Completions, completions
from streamtable.hosts.cli.failures import ERRORS_OF_SPARK, ended
from streamtable.hosts.cli.output import Printer
from streamtable.hosts.cli.versions import installed
from streamtable.language.scripts import is_complete, split
from streamtable.sessions.remote import without_token

__all__ = ["banner", "completions", "interact"]

HISTORY = Path("~/.streamtable_history")
LEAVE = ("exit", "quit")


def banner(spark: SparkSession, remote: str | None) -> str:
    """Return what the shell says first: which versions answer, where, and how to go on."""
    where = f"of the server {without_token(remote)}" if remote else f"with Delta Lake {installed('delta-spark')}, in this process"
    return (
        f"streamtable {installed('streamtable')}, Spark {spark.version} {where}\n"
        r"A statement ends with a semicolon, Tab completes. \? lists the commands of the shell, \q leaves."
    )


def interact(spark: SparkSession, out: Printer, limit: int) -> None:
    r"""Read statements and answer them until the end of the input, `exit`, `quit` or `\q`."""
    names, backslash = Completions(spark), Backslash(spark, out)
    prompt: PromptSession[str] = PromptSession(
        history=_history(),
        completer=names,
        complete_in_thread=True,  # a catalog may take long to answer
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
        if text.rstrip(";").strip().lower() in LEAVE or not _answer(spark, out, text, limit, backslash):
            return
        names.forget()


def _history() -> History:
    """Return the history: in a file that its owner alone can read, as statements may hold secrets, or else in memory."""
    place = HISTORY.expanduser()
    try:
        place.touch(mode=0o600)
        place.chmod(0o600)  # one of an earlier release
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(place))


def _answer(spark: SparkSession, out: Printer, text: str, limit: int, backslash: Backslash | None = None) -> bool:
    """Answer statements, or a command of the shell; return whether it goes on."""
    try:
        if backslash and text.startswith("\\"):
            return backslash.run(text)
        for piece in split(text):
            started = time.perf_counter()
            out.answer(spark, piece.sql, limit)
            if backslash is None or backslash.timing:
                out.note(f"{time.perf_counter() - started:.1f} s")
    except (*ERRORS_OF_SPARK, KeyboardInterrupt) as error:
        if ended(error):
            raise
        out.error(error)
    return True


def _keys() -> KeyBindings:
    """Let Enter send a complete statement, a command of the shell or nothing; otherwise it begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        if text.startswith("\\") or text.lower() in LEAVE or _is_complete(text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _is_complete(text: str) -> bool:
    try:
        return is_complete(text)
    except InvalidStatement:  # the answer says why
        return True
