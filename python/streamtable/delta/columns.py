"""The types and the names of columns that Delta can store."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VarcharType,
    VariantType,
)

__all__ = ["RESERVED", "needs_mapping", "refused_states", "unstorable"]

RESERVED = frozenset({"_change_type", "_commit_version", "_commit_timestamp", "_metadata"})
"""Names that the change data feed adds to a table's own columns, and the one by which Delta finds rows marked as deleted."""

_STORED = (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)
"""The types without parts that Delta stores. The list is closed: a new type of Spark is refused until it is tried."""


def unstorable(of: DataType, place: str = "", collations: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the place and the SQL name of each part of a type that Delta cannot store, as in `("points[].at", "INTERVAL DAY")`.

    `collations`: the session lets Delta store collated text, because its check of types is off.
    """
    match of:
        case StructType(fields=fields):
            for each in fields:
                yield from unstorable(each.dataType, f"{place}.{each.name}" if place else each.name, collations)
        case ArrayType(elementType=element):
            yield from unstorable(element, f"{place}[]", collations)
        case MapType(keyType=key, valueType=value):
            yield from unstorable(key, f"{place}[key]", collations)
            yield from unstorable(value, f"{place}[value]", collations)
        case UserDefinedType():
            yield from unstorable(of.sqlType(), place, collations)
        case StringType() if not collations and getattr(of, "collation", "UTF8_BINARY") != "UTF8_BINARY":
            yield place, of.simpleString().upper()
        case _ if not isinstance(of, _STORED):
            yield place, of.simpleString().upper()


def needs_mapping(name: str) -> bool:
    """Tell whether a column of this name needs column mapping, which gives the column another name in the files."""
    return re.search(r"[ ,;{}()\n\t=]", name) is not None


def refused_states(of: DataType, place: str = "") -> Iterator[str]:
    """Yield why Delta stores no column of this type in a table without column mapping, whose own columns have plain names."""
    match of:
        case StructType(fields=fields):
            names = [each.name.casefold() for each in fields]
            for each in fields:
                if names.count(each.name.casefold()) > 1:
                    yield f"two fields of {place or 'a row'} are called {each.name}"
                if needs_mapping(each.name):
                    yield f"the field name {each.name} needs column mapping"
                yield from refused_states(each.dataType, each.name)
        case ArrayType(elementType=element):
            yield from refused_states(element, place)
        case MapType(keyType=key, valueType=value):
            yield from refused_states(key, place)
            yield from refused_states(value, place)
        case _:
            yield from (f"it does not store the type {kind}" for _, kind in unstorable(of))
