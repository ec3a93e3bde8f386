"""Properties of the schema `default`, which every catalog of Spark has: they hold for all drivers of the catalog."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtable.catalog.entries import CATALOG
from streamtable.language.names import Name
from streamtable.sessions.internal import new
from streamtable.sql.literals import quote_string

__all__ = ["share", "shared"]

_SCHEMA = "default"


def shared(spark: SparkSession, key: str) -> str | None:
    """Read a property; None where no driver has set it."""
    properties = spark._jsparkSession.sessionState().catalog().getDatabaseMetadata(_SCHEMA).properties()
    found = properties.get(key)
    return found.get() if found.isDefined() else None


def share(spark: SparkSession, key: str, text: str) -> None:
    """Set a property for all drivers. It needs the right to alter the schema."""
    schema = Name((CATALOG, _SCHEMA))
    new(spark).sql(f"ALTER DATABASE {schema} SET DBPROPERTIES ({quote_string(key)} = {quote_string(text)})")
