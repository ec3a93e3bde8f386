"""Checks of what a statement reads: names of the caller's session, and operators that the mode DIFFERENTIAL cannot maintain."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from streamtable.delta.tables import Located, find_table
from streamtable.errors import (
    InvalidQuery,
    InvalidStatement,
    NotIncremental,
)
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.jvm.handles import catalog_of
from streamtable.language.names import Name, Query
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.rewrite import rewritten
from streamtable.sql.literals import unquote_name

__all__ = ["AUTO", "allow", "find_source", "refuse_hidden_names", "refuse_session_names", "temporary_view_refused"]


def refuse_hidden_names(spark: SparkSession, query: Query) -> None:
    """Raise an error for a query whose names mean something else in the caller's session than in a session of ours.

    There a temporary view hides the table of its name, and SET PATH makes a name that of another schema.
    """
    if (spark.conf.get("spark.sql.path.enabled", None) or "false") == "true":
        hint = "SET spark.sql.path.enabled = false, and write the schemas of tables in the query"
        raise InvalidStatement("a definition keeps the current schema, and not the path of SET PATH", hint=hint)
    catalog = spark._jsparkSession.sessionState().catalog()
    if catalog.getTempViewNames().isEmpty():
        return
    reader = java_class(spark, f"{SHIM}.PlanReader")
    named = list[str]()
    with suppress(PySparkException):  # what does not parse is told with its place
        found = json.loads(reader.references(spark._jsparkSession, rewritten(query.text)))
        named = [parts[0] for parts, *_ in found if len(parts) == 1]
    for name in named:
        if catalog.getRawTempView(name).isDefined():
            raise temporary_view_refused(name)


def refuse_session_names(spark: SparkSession, error: InvalidQuery) -> None:
    """Raise an error for a missing name that only the caller's session knows: a refresh has a session of its own."""
    # Not spark.catalog.listTables(): it asks the metastore for every table of the database.
    for view in spark.sql("SHOW VIEWS").collect():
        if view["isTemporary"] and f"`{view['viewName']}` cannot be found" in error.reason:
            raise temporary_view_refused(view["viewName"]) from error
    for unknown, exists, what, hint in _OF_SESSION:
        if found := re.search(unknown, error.reason):
            *space, name = map(unquote_name, re.findall(r"`(?:[^`]|``)+`", found[1]))
            if tuple(space) in ((), ("session",), ("system", "session")) and exists(spark, name):
                raise InvalidStatement(f"the query {what} {name}, which ends with this session", hint=hint) from error


def _is_variable(spark: SparkSession, name: str) -> bool:
    try:
        spark.sql(f"SELECT {Name((name,))}")
    except AnalysisException:
        return False
    return True


_OF_SESSION: tuple[tuple[str, Callable[[SparkSession, str], bool], str, str], ...] = (
    (
        r"(?:Cannot resolve routine|Could not resolve) (`.+?`) (?:on search path|to a table-valued function)",
        lambda spark, name: catalog_of(spark).functionExists(str(Name((name,)))),
        "calls the temporary function",
        "create a permanent function with CREATE FUNCTION, or write what it computes into the query",
    ),
    (
        r"(?:function parameter with name|Cannot resolve variable) (`.+?`) (?:cannot be resolved|on search path)",
        _is_variable,
        "reads the session variable",
        "write its value into the query, or keep it in a table",
    ),
)
"""Spark's message about a missing name, the test whether the caller's session knows it, its kind, and the hint."""


def find_source(spark: SparkSession, name: Name) -> Located:
    """Look up a table or a view that a statement reads by its name. Raises InvalidStatement for a temporary view.

    Where Spark reads a name, a temporary view hides the table of that name in the current schema.
    """
    (*schema, last) = name.parts
    if not schema and spark._jsparkSession.sessionState().catalog().getRawTempView(last).isDefined():
        hint = f"for a table of that name write its schema too, as in schema.{Name((last,))}; else create a permanent view"
        raise InvalidStatement(f"the statement reads the temporary view {last}, which ends with this session", hint=hint)
    return find_table(spark, name.parts)


def temporary_view_refused(view: str) -> InvalidStatement:
    hint = "create a permanent view, or write its query in WITH"
    return InvalidStatement(f"the query reads the temporary view {view}, which ends with this session", hint=hint)


AUTO = "use REFRESH MODE AUTO"
"""The hint for a query that the mode DIFFERENTIAL cannot maintain."""


def allow(analysed: AnalysedQuery, mode: RefreshMode) -> None:
    """Raise NotIncremental for a query that the mode DIFFERENTIAL cannot maintain."""
    if mode.needs_rules and (stands := analysed.obstacle):
        raise NotIncremental(f"{stands.operator} cannot be maintained: {stands.reason}", hint=AUTO)
