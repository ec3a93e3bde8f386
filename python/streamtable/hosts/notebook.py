"""Jupyter: `%load_ext streamtable`, then cells that begin with `%%sql`, or with `%%sql name` to keep the last answer.

Until a statement is done, its place in the output shows the progress. The session is the notebook's variable `spark`, else the
session of the server in SPARK_REMOTE, else a new one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from keyword import iskeyword
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamtable.errors import InvalidStatement, message_of
from streamtable.hosts.progress import watched
from streamtable.hosts.session import configure
from streamtable.hosts.start import not_started, started
from streamtable.language.scripts import split
from streamtable.sessions.remote import connected

__all__ = ["ShownRows", "load_ipython_extension"]

OPENING_WORDS = frozenset(
    re.findall(
        r"\w+",
        "ADD ALTER ANALYZE APPLY BEGIN CACHE CALL CLEAR CLOSE COMMENT CONVERT COPY CREATE DECLARE DELETE DESC DESCRIBE "
        "DROP EXECUTE EXPLAIN EXPORT FETCH FINISH FROM GENERATE GIVE GRANT IMPORT INSERT LIST LOAD LOCK MAP MERGE MSCK "
        "NEXT OPEN OPTIMIZE PURGE REDUCE REFRESH REGISTER REMOVE REORG REPAIR REPLACE REPLAY RESET RESTORE RETRY REVOKE "
        "SELECT SET SHOW SUBSCRIBE SYNC TABLE TRUNCATE UNCACHE UNLOCK UNREGISTER UNSET UPDATE USE VACUUM VALUES VERIFY "
        "WITH",
    )
)
"""The words with which statements begin. None of them alone behind `%%sql` is the name of a variable."""

SHOWN = 100
"""Rows of a result that a cell shows."""


@dataclass(frozen=True)
class ShownRows:
    """The part of a statement's answer that a cell shows."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: bool
    seconds: float

    def _repr_html_(self) -> str:
        if not self.columns:
            return f"<small>{escape(self._note())}</small>"
        head = _line("th", self.columns)
        body = "".join(_line("td", row) for row in self.rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><small>{escape(self._note())}</small>"

    def __repr__(self) -> str:
        lines = (" | ".join(map(_text, row)) for row in (self.columns, *self.rows) if self.columns)
        return "\n".join((*lines, self._note()))

    def _note(self) -> str:
        rows = f"the first {len(self.rows)} rows" if self.more else f"{len(self.rows)} rows"
        return f"{rows if self.columns else 'done'}, {self.seconds:.1f} s"


def load_ipython_extension(shell: Any) -> None:
    """Give the notebook `%%sql` for a cell and `%sql` for a line; Jupyter calls this."""

    def sql(line: str, cell: str | None = None) -> None:
        """Run SQL statements and show their answers; a variable of the notebook called `spark` is the session.

        `%%sql name` keeps the last statement's answer in the variable `name`, as a DataFrame.
        """
        try:
            _run(shell.user_ns, line, cell)
        except PySparkException as error:
            error._render_traceback_ = message_of(error).splitlines  # type: ignore[attr-defined]  # IPython asks for it
            raise

    shell.register_magic_function(sql, "line_cell")


def _run(names: dict[str, Any], line: str, cell: str | None) -> None:
    name = None if cell is None else _variable(line)
    spark = _session(names)
    pieces = split(line if cell is None else f"{'' if name else line}\n{cell}")
    frame: DataFrame | None = None
    for piece in pieces:
        place = _Place()
        try:
            with watched(spark, place.tell):
                frame, rows = _answer(spark, piece.sql)
        except Exception:
            if len(pieces) > 1:
                place.show(_Line(f"failed at line {piece.line}: {piece.sql.partition(chr(10))[0]}"))
            raise
        place.show(rows)
    if name and frame is not None:
        names[name] = frame


def _variable(line: str) -> str | None:
    """Return the name of the variable behind `%%sql`; None where SQL stands there, which may begin with a word of its own line."""
    name = line.strip()
    if not name.isidentifier() or name.upper() in OPENING_WORDS:
        return None
    if iskeyword(name) or name == "spark":
        raise InvalidStatement(
            f"the answer cannot be kept as {name}", hint="%%sql name wants the name of a variable; spark is the session"
        )
    return name


def _answer(spark: SparkSession, sql: str) -> tuple[DataFrame, ShownRows]:
    started = time.perf_counter()
    frame = spark.sql(sql)
    rows = frame.take(SHOWN + 1)
    return frame, ShownRows(frame.columns, rows[:SHOWN], len(rows) > SHOWN, time.perf_counter() - started)


class _Line(str):
    """Text that a cell shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Place:
    """A place in a cell's output that keeps its last content."""

    def __init__(self) -> None:
        self._handle: Any = None

    def tell(self, line: str, _: float | None) -> None:
        self.show(_Line(line))

    def show(self, shown: object) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)


def _session(names: dict[str, Any]) -> SparkSession:
    if "spark" not in names:
        remote = os.environ.get("SPARK_REMOTE")
        found = connected(remote) if remote else started(configure(SparkSession.builder))
        if isinstance(found, Exception):
            raise not_started(found)
        names["spark"] = found
    spark: SparkSession = names["spark"]
    return spark


def _line(kind: str, values: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(_text(value))}</{kind}>' for value in values)}</tr>"


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)
