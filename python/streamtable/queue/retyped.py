"""Events that were put off, in the types that events have now: a captured column may have got a wider type since."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, AtomicType, DataType, MapType, StructField, StructType

from streamtable.delta.widening import widens

__all__ = ["fields", "retyped", "same_type", "unfit"]


def same_type(one: DataType, other: DataType) -> bool:
    """Tell whether two types are the same, wherever there may be NULL."""
    return one.simpleString() == other.simpleString()


def _fits(old: DataType, new: DataType) -> bool:
    """Tell whether a type holds all values of another one. Fields are known by their names, and one that is gone is left out."""
    match old, new:
        case StructType(), StructType():
            now = _types(new)
            return all(each.name not in now or _fits(each.dataType, now[each.name]) for each in old)
        case ArrayType(), ArrayType():
            return _fits(old.elementType, new.elementType)
        case MapType(), MapType():
            return same_type(old.keyType, new.keyType) and _fits(old.valueType, new.valueType)
    return same_type(old, new) or _widens(old, new)


def _widens(old: DataType, new: DataType) -> bool:
    """Tell whether Delta's type widening takes a column from one type to another."""
    return isinstance(old, AtomicType) and isinstance(new, AtomicType) and widens(str(old.jsonValue()), str(new.jsonValue()))


def fields(value: Column, old: StructType, new: StructType) -> list[Column]:
    """Return the fields of a struct, in types that hold them. Fields that came are NULL."""
    known = _types(old)
    return [
        (_converted(value.getField(each.name), known[each.name], each.dataType) if each.name in known else F.lit(None))
        .cast(each.dataType)
        .alias(each.name)
        for each in new
    ]


def _converted(value: Column, old: DataType, new: DataType) -> Column:
    match old, new:
        case _ if same_type(old, new):
            return value
        case StructType(), StructType():
            return F.when(value.isNotNull(), F.struct(*fields(value, old, new)))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda each: _converted(each, old.elementType, new.elementType))
        case MapType(), MapType():
            return F.transform_values(value, lambda _, each: _converted(each, old.valueType, new.valueType))
    return value.cast(new)


def retyped(old: StructType, new: StructType) -> StructType:
    """Return the old columns, in types that hold the values of both where the new ones hold the old values."""
    now = _types(new)
    return StructType(
        [
            StructField(each.name, _grown(each.dataType, now[each.name]))
            if each.name in now and _fits(each.dataType, now[each.name])
            else each
            for each in old
        ]
    )


def _grown(old: DataType, new: DataType) -> DataType:
    """Return a type for the values of two. Events that were put off keep fields that are gone."""
    match old, new:
        case StructType(), StructType():
            now, known = _types(new), _types(old)
            fields = [StructField(each.name, _grown(each.dataType, now.get(each.name, each.dataType))) for each in old]
            return StructType([*fields, *(StructField(each.name, each.dataType) for each in new if each.name not in known)])
        case ArrayType(), ArrayType():
            return ArrayType(_grown(old.elementType, new.elementType))
        case MapType(), MapType():
            return MapType(old.keyType, _grown(old.valueType, new.valueType))
    return new if _widens(old, new) else old


def unfit(old: StructType, new: StructType) -> str | None:
    """Return the name of a column whose new type does not hold the old values, or None."""
    now = _types(new)
    return next((each.name for each in old if each.name in now and not _fits(each.dataType, now[each.name])), None)


def _types(struct: StructType) -> dict[str, DataType]:
    return {each.name: each.dataType for each in struct}
