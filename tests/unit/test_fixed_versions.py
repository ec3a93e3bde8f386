"""Which queries a look at versions alone decides: those that read no table at a fixed version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.language.names import Query
from streamtable.refresh.frontier import decided_by_versions

AT_A_VERSION = (
    "SELECT k FROM a VERSION AS OF 3",
    "SELECT k FROM a TIMESTAMP AS/* a comment */OF '2026-01-01'",
    "SELECT k FROM a FOR SYSTEM_VERSION AS -- a comment\n OF 3",
    "SELECT k FROM a@v3",
    "SELECT k FROM delta.`/a@20260101000000000`",
    "SELECT k FROM a WITH ('versionAsOf' = '3')",
    "SELECT k FROM a WITH (\"TimestampAsOf\" = '2026-01-01')",
)
AS_THEY_ARE = (
    "SELECT k FROM a -- the table of all, as of today",
    "SELECT 1 of, k FROM a /* VERSION AS OF 3 */",
    "SELECT k FROM a WHERE mail = 'me@1.example'",
)


@pytest.mark.parametrize("query", AT_A_VERSION + AS_THEY_ARE)
def test_a_table_at_a_fixed_version_is_looked_at_and_a_comment_about_one_is_not(query: str) -> None:
    statement = SimpleNamespace(query=Query(query))
    entry: Any = SimpleNamespace(definition=SimpleNamespace(statement=statement, sources={}), views={}, functions={})
    frontier: Any = SimpleNamespace(exact=True, reads=lambda _: True)
    assert decided_by_versions(entry, frontier) is (query in AS_THEY_ARE)
