"""Spark's own message about a text that it rejects, with places in the whole statement and with our hints."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.errors import InvalidQuery, StreamTableError, message_of, near_names
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.language.names import Condition, Query
from streamtable.query.rewrite import rewritten
from streamtable.query.spellings import instead, of_pipelines

__all__ = ["refuse_unreadable", "rejection"]


def rejection(session: SparkSession, text: Query | Condition, error: PySparkException) -> InvalidQuery:
    """Return the error that says why Spark rejects a query or a condition."""
    said = _moved(message_of(error), text)
    if isinstance(text, Condition):
        return InvalidQuery(f"Spark rejects the condition: {said}", hint=instead(text.text, said))
    hint = of_pipelines(text.text, said) or _nearest_table(session, said) or instead(text.text, said)
    return InvalidQuery(f"Spark rejects the query: {said}", hint=hint)


def refuse_unreadable(session: SparkSession, texts: Iterable[Query | Condition]) -> None:
    """Raise InvalidQuery for a text that Spark cannot parse. Nothing is looked up."""
    for text in texts:
        _parse(session, text)


def _parse(session: SparkSession, text: Query | Condition) -> None:
    try:
        if isinstance(text, Query):  # by no rule that knows statements: those of ours are looked into as they are parsed
            java_class(session, f"{SHIM}.Queries").readable(session._jsparkSession, rewritten(text.text))
        else:
            session._jsparkSession.sessionState().sqlParser().parseExpression(rewritten(text.text))
    except StreamTableError:
        raise
    except PySparkException as error:
        raise rejection(session, text, error) from error


def _moved(message: str, text: Query | Condition) -> str:
    """Translate Spark's positions in a text into positions in the whole statement."""

    def moved(found: re.Match[str]) -> str:
        line, column = int(found[1]), int(found[2])
        if line == 1:
            column += text.column - 1
        return f"line {line + text.line - 1}, pos {column}"

    return re.sub(r"line (\d+),? pos(?:ition)? (\d+)", moved, message)


def _nearest_table(session: SparkSession, message: str) -> str | None:
    """Suggest tables for a name that Spark does not find. Spark itself suggests columns."""
    missing = re.search(r"The table or view (\S+) cannot be found", message)
    if missing is None:
        return None
    wanted = missing[1].replace("`", "").split(".")[-1]
    known = [row["tableName"] for row in session.sql("SHOW TABLES").collect()]
    return near_names(wanted, known).strip() or None
