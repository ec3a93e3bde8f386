"""The commands of the shell that begin with a backslash, as in psql."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from streamtable.errors import InvalidStatement, StreamTableNotFound
from streamtable.language.parse import parse_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamtable.hosts.cli.output import Printer
    from streamtable.language.names import Name

__all__ = ["COMMANDS", "Backslash"]

COMMANDS = {
    "\\d": ("[NAME]", "the tables and views of the current schema; of one, its columns, and what a stream table is made of"),
    "\\dt": ("[SCHEMA]", "the tables of the current schema, or of another one, without its views"),
    "\\timing": ("[on|off]", "show how long each statement took, or no longer"),
    "\\q": ("", "leave the shell; exit and Ctrl-D do so too"),
    "\\?": ("", "this list"),
}


@dataclass
class Backslash:
    """Carries out the commands; `timing` is what \\timing set."""

    spark: SparkSession
    out: Printer
    timing: bool = True

    def run(self, text: str) -> bool:
        """Carry out a command; return whether the shell goes on. Raises InvalidStatement for one that is not there."""
        word, *arguments = text.rstrip("; \t\n").split(maxsplit=1)
        argument = arguments[0].strip() if arguments else ""
        known: dict[str, Callable[[str], None]] = {
            "\\d": self._described,
            "\\dt": self._tables,
            "\\timing": self._timed,
            "\\q": lambda _: None,
            "\\?": lambda _: self._listed(),
        }
        if word not in known:
            raise InvalidStatement(
                f"the shell has no command {word}", hint="\\? lists the commands; SQL has no word that begins so"
            )
        if argument and not COMMANDS[word][0]:
            raise InvalidStatement(f"{word} takes nothing behind it, and there is: {argument}", hint=f"write {word} alone")
        known[word](argument)
        return word != "\\q"

    def _described(self, argument: str) -> None:
        if not argument:
            self._relations(None, views=True)
            return
        name = parse_name(argument)
        columns = self.spark.sql(f"DESCRIBE TABLE {name}")
        self.out.rows(columns.columns, columns.collect())
        try:
            stream = self.spark.sql(f"DESCRIBE STREAM TABLE {name}")
            rows = stream.collect()
        except PySparkException as error:
            if error.getCondition() != StreamTableNotFound.condition:
                raise
        else:
            self.out.rows(stream.columns, rows)

    def _tables(self, argument: str) -> None:
        self._relations(parse_name(argument) if argument else None, views=False)

    def _relations(self, schema: Name | None, *, views: bool) -> None:
        """Print what a schema holds, and of which kind each is."""
        where = f" IN {schema}" if schema else ""
        kinds = dict.fromkeys((row["viewName"] for row in self.spark.sql(f"SHOW VIEWS{where}").collect()), "view")
        for row in self.spark.sql(f"SHOW STREAM TABLES{where}").collect():
            kinds[row["name"].rpartition(".")[2]] = "stream table"
        rows = []
        for row in self.spark.sql(f"SHOW TABLES{where}").collect():
            kind = "temporary view" if row["isTemporary"] else kinds.get(row["tableName"], "table")
            if views or not kind.endswith("view"):
                rows.append((row["tableName"], kind))
        self.out.rows(("name", "kind"), rows)

    def _timed(self, argument: str) -> None:
        if argument.lower() not in ("", "on", "off"):
            raise InvalidStatement(f"\\timing is on or off, and not {argument}", hint="\\timing alone changes it")
        self.timing = argument.lower() == "on" if argument else not self.timing
        self.out.note(f"the time of each statement is {'shown' if self.timing else 'not shown'}")

    def _listed(self) -> None:
        for word, (argument, meaning) in COMMANDS.items():
            self.out.note(f"{f'{word} {argument}':18} {meaning}")
        self.out.note(f"{'statement;':18} what Spark and streamtable answer; docs/reference/statements.md lists streamtable's")
