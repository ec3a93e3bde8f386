"""Calls of table functions: their columns and rows, and what is wrong with their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import InvalidStatement, StreamTableError
from streamtable.jvm.gateway import JavaRows
from streamtable.language.names import Name
from streamtable.language.parse import parse_name
from streamtable.observe.expectations import VIOLATIONS
from streamtable.observe.functions import FUNCTIONS, Asked
from streamtable.observe.results import Rows, limit_of

__all__ = ["call", "describe", "names"]


def describe(spark: SparkSession, name: str, arguments: Sequence[str | None]) -> StructType:
    """Return the columns of the function; raise InvalidStatement for arguments that it does not take."""
    if name == VIOLATIONS.name:
        return VIOLATIONS.columns(spark, arguments)
    _arguments(name, arguments)
    return FUNCTIONS[name].columns


def call(spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Rows | JavaRows:
    """Return the rows of the function. Raises StreamTableNotFound, with near names."""
    if name == VIOLATIONS.name:
        return VIOLATIONS.rows(spark, arguments)
    return FUNCTIONS[name].rows(Asked(spark, *_arguments(name, arguments)))


def names(arguments: Sequence[str | None]) -> tuple[Name, ...]:
    """Return the name in a call. What is no name, `call` refuses."""
    with suppress(StreamTableError):
        return tuple(parse_name(each) for each in arguments[:1] if each is not None)
    return ()


def _arguments(function: str, arguments: Sequence[str | None]) -> tuple[str | None, int | None]:
    parameters = FUNCTIONS[function].parameters
    name, limit = (*arguments, None, None)[:2]
    usage = f"call it as {function}([{', '.join(parameters)}])"
    if len(arguments) > len(parameters):
        raise InvalidStatement(f"{function} takes at most {len(parameters)} arguments, not {len(arguments)}", hint=usage)
    return name, limit_of(function, limit, usage)
