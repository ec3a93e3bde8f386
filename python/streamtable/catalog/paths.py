"""Delta tables that no catalog in sight knows, by their path: delta.`/a/path`, as Delta's own statements name them."""

from __future__ import annotations

from collections.abc import Sequence

from streamtable.sql.statements import Name

__all__ = ["is_path", "name_at"]

_NAMESPACE = ("spark_catalog", "delta")


def name_at(path: str) -> Name:
    """Return the full name of the table at an absolute path."""
    return Name((*_NAMESPACE, path))


def is_path(parts: Sequence[str]) -> bool:
    """Tell whether a full name is a path: names of a schema `delta` hold no slash."""
    return tuple(parts[:-1]) == _NAMESPACE and "/" in parts[-1]
