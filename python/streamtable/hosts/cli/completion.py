"""Tab in the shell: words of SQL, the schemas, the tables of all of them, and the columns of the tables at hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from pyspark.sql import SparkSession

from streamtable.hosts.cli.backslash import COMMANDS
from streamtable.hosts.cli.failures import ERRORS_OF_SPARK, NO_JAVA
from streamtable.language.parse import keywords
from streamtable.sql.literals import quote_name

__all__ = ["Completions", "completions"]

OF_SPARK = re.findall(
    r"\w+",
    "SELECT FROM WHERE GROUP ORDER HAVING JOIN LEFT INNER OUTER ON USING UNION ALL DISTINCT INSERT INTO VALUES UPDATE DELETE MERGE "
    "VIEW DATABASE DATABASES COLUMNS FUNCTIONS USE INTERVAL CAST CASE WHEN THEN ELSE END AND IS NULL COUNT SUM AVG MIN MAX",
)
MOST = 50
"""Tables of the current schema whose columns are offered where a statement names no table yet."""
_NAME = re.compile(r"(?:`(?:[^`]|``)*`|\w+)(?:\.(?:`(?:[^`]|``)*`|\w+))*")
_TYPED = re.compile(r"[\w.`]*\Z")
_PLAIN = re.compile(r"[^\W\d]\w*")


def completions(spark: SparkSession) -> list[str]:
    """Return the words of our grammar, some of Spark's, the schemas, and the tables, those of the current schema by name alone."""
    names = Names(spark)
    return [*_words(), *names.schemas, *names.tables]


class Names:
    """The names in the catalog, as they are written in SQL; each is asked for once. Where the session does not answer, none."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._columns = dict[str, list[str]]()
        self.current = [_written(row["tableName"]) for row in self._asked("SHOW TABLES")]
        self.schemas = [_written(row[0]) for row in self._asked("SHOW SCHEMAS")]
        self.tables = [*self.current, *(each for schema in self.schemas for each in self._of(schema))]

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table."""
        if table not in self._columns:
            self._columns[table] = [_written(row["col_name"]) for row in _of_columns(self._asked(f"DESCRIBE TABLE {table}"))]
        return self._columns[table]

    def _of(self, schema: str) -> Iterator[str]:
        rows = self._asked(f"SHOW TABLES IN {schema}")
        return (f"{schema}.{_written(row['tableName'])}" for row in rows if row["namespace"])  # temporary views are in none

    def _asked(self, sql: str) -> list[Any]:
        try:
            return self._spark.sql(sql).collect()
        except (*ERRORS_OF_SPARK, *NO_JAVA):  # the next statement tells it; raised here, it would break the line that is typed
            return []


class Completions(Completer):
    """Complete what stands before the cursor. What a statement may have changed is asked for again after `forget`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._names: Names | None = None

    def forget(self) -> None:
        """Take what is known of the catalog for outdated."""
        self._names = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what begins as the typed word does, columns also behind the name or alias of a table."""
        before = document.text_before_cursor
        if before.lstrip().startswith("\\") and not re.search(r"\s", before.strip()):
            yield from (Completion(each, -len(before.lstrip())) for each in COMMANDS if each.startswith(before.lstrip()))
            return
        (typed,) = _TYPED.findall(before)[:1]
        names = self._names = self._names or Names(self._spark)
        space, dot, last = typed.rpartition(".")
        offered = dict[tuple[str, int], None]()
        if not dot:
            offered.update(((each, -len(typed)), None) for each in _beginning(typed, _words()))
        offered.update(((each, -len(typed)), None) for each in _beginning(typed, (*names.schemas, *names.tables), by_last=not dot))
        if not dot or _key(space) not in map(_key, names.schemas):
            columns = (each for table in _at_hand(document.text, names, typed) for each in names.columns(table))
            offered.update(((each, -len(last)), None) for each in _beginning(last, columns))
        yield from (Completion(text, start) for text, start in offered)


def _at_hand(text: str, names: Names, typed: str) -> list[str]:
    """Return the table before the dot of the typed word, else those that the statement names, else some of the current schema."""
    known = {_key(each): each for each in names.tables}
    if before := known.get(_key(typed.rpartition(".")[0])):
        return [before]
    named = (_key(each) for each in _NAME.findall(text) if each != typed)
    return list(dict.fromkeys(known[each] for each in named if each in known)) or names.current[:MOST]


def _beginning(typed: str, known: Iterable[str], by_last: bool = False) -> list[str]:
    """Return what begins as the typed word does, whatever case and backquotes; `by_last` looks at the last part of names too."""
    start = _key(typed)
    return [
        each for each in known if (key := _key(each)).startswith(start) or (by_last and key.rpartition(".")[2].startswith(start))
    ]


def _words() -> list[str]:
    return sorted({*keywords(), *OF_SPARK})


def _key(name: str) -> str:
    return name.replace("`", "").casefold()


def _written(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote_name(name)


def _of_columns(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of DESCRIBE TABLE that are columns; partitions and the like follow them."""
    for row in rows:
        if not row["col_name"] or row["col_name"].startswith("#"):
            return
        yield row
