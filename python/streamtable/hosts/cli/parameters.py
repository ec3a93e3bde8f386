"""The values of `:name` in statements, as the command line gives them: NAME=TEXT, or NAME:TYPE=TEXT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Parameter", "bound", "parameters_of"]

TYPES = {"string": None, "int": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP"}
"""The types, and what Spark casts the text to."""
_DECIMAL = re.compile(r"decimal\(\d+, *\d+\)")
_PARAMETER = re.compile(r"(?P<name>[^\W\d]\w*)(?::(?P<type>[^=]+))?=(?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """The text of a value, and the type that Spark casts it to, None for a text."""

    text: str
    spark_type: str | None


def parameters_of(given: Iterable[str] | None) -> dict[str, Parameter]:
    """Read the values by name. A value has the type that is said, and is otherwise a text: 007 stays as it is."""
    found = dict[str, Parameter]()
    for each in given or ():
        read = _PARAMETER.fullmatch(each)
        if read is None:
            raise typer.BadParameter(f"{each} is not NAME=VALUE or NAME:TYPE=VALUE", param_hint="--param")
        if read["name"] in found:
            raise typer.BadParameter(f"{read['name']} has two values", param_hint="--param")
        found[read["name"]] = Parameter(read["text"], _spark_type(read["name"], (read["type"] or "string").strip().lower()))
    return found


def _spark_type(name: str, type_: str) -> str | None:
    if type_ in TYPES:
        return TYPES[type_]
    if _DECIMAL.fullmatch(type_):
        return type_.upper()
    known = ", ".join((*TYPES, "decimal(p,s)"))
    raise typer.BadParameter(f"{name} cannot be of type {type_}; the types are {known}", param_hint="--param")


def bound(spark: SparkSession, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the values for `spark.sql(..., args=...)`. Spark casts the texts, in the time zone of the session."""
    from streamtable.errors import InvalidStatement

    values = dict[str, Any]()
    for name, each in parameters.items():
        values[name] = each.text
        if each.spark_type is None:
            continue
        ((value,),) = spark.sql(f"SELECT try_cast(:value AS {each.spark_type})", args={"value": each.text}).collect()
        if value is None:
            raise InvalidStatement(
                f"the value of :{name} is no {each.spark_type}: {each.text}",
                hint="dates are written as 2026-01-05, times as 2026-01-05 12:30:00, numbers as 1.5",
            )
        values[name] = value
    return values
