"""The types in which events that were put off are kept."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, MapType, StringType, StructType

from streamtable.queue.retyped import retyped, unfit

INT, BIGINT, STRING = IntegerType(), LongType(), StringType()


def struct(**fields: DataType) -> StructType:
    found = StructType()
    for name, kind in fields.items():
        found = found.add(name, kind)
    return found


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (INT, BIGINT, BIGINT),
        (BIGINT, INT, BIGINT),
        (struct(q=INT, z=STRING), struct(q=BIGINT), struct(q=BIGINT, z=STRING)),
        (struct(q=INT), struct(q=INT, z=STRING), struct(q=INT, z=STRING)),
        (ArrayType(struct(q=INT, z=INT)), ArrayType(struct(q=INT, y=INT)), ArrayType(struct(q=INT, z=INT, y=INT))),
        (MapType(STRING, INT), MapType(STRING, BIGINT), MapType(STRING, BIGINT)),
        (STRING, INT, STRING),
    ],
)
def test_no_value_of_an_event_is_lost_whichever_consumer_comes_first(old: DataType, new: DataType, kept: DataType) -> None:
    now = retyped(struct(n=old), struct(n=new))
    assert now.simpleString() == struct(n=kept).simpleString()
    assert unfit(struct(n=old), now) is None
