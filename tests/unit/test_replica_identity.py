"""The columns that `streamtable.replicaIdentity` names."""

from __future__ import annotations

import pytest

from streamtable.errors import InvalidStatement
from streamtable.replication.source import _key


@pytest.mark.parametrize(
    ("declared", "columns"),
    [
        ("id", ("id",)),
        (" ID ,part", ("id", "part")),
        ("`id`, `a,b`", ("id", "a,b")),
        ("`a,b`,id", ("a,b", "id")),
        ("`x``,y`", ("x`,y",)),
    ],
)
def test_names_of_an_identity_are_read_as_in_sql(declared: str, columns: tuple[str, ...]) -> None:
    assert _key(declared, ["id", "part", "a,b", "x`,y"], "t") == columns


def test_a_column_of_an_identity_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidStatement, match="the replica identity of t is the column gone, which it does not have"):
        _key("id, gone", ["id"], "t")
