"""Changes of types that lose nothing."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import AtomicType, DataType

from streamtable.jvm.gateway import java_class

__all__ = ["widens"]


def widens(session: SparkSession, old: DataType, new: DataType) -> bool:
    """Tell whether Delta's type widening takes a column from one type to another."""
    if not (isinstance(old, AtomicType) and isinstance(new, AtomicType)):
        return False
    one, other = (session._jsparkSession.parseDataType(each.json()) for each in (old, new))
    return bool(java_class(session, "org.apache.spark.sql.delta.TypeWidening").isTypeChangeSupported(one, other))
