"""Replication slots: for each table of the publisher, the version up to which changes were applied and confirmed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.kinds import SLOT, CatalogObject, unreadable
from streamtable.catalog.mounted import path_away
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.tables import Version, versions
from streamtable.engine import clock
from streamtable.language.names import Name
from streamtable.replication.publications import Published

__all__ = ["Position", "advance", "begun", "content", "create", "positions"]


@dataclass(frozen=True)
class Position:
    """A slot's position in one table: all changes up to `confirmed` are applied or not needed, as of an ISO time."""

    table: str
    path: str
    table_id: str
    confirmed: int
    confirmed_at: str


def create(spark: SparkSession, name: Name, tables: Iterable[Published]) -> CatalogObject:
    """Make a slot that begins at the current versions of the tables."""
    return objects.create(spark, SLOT, name, content(begun(spark, tables)))


def begun(spark: SparkSession, tables: Iterable[Published]) -> dict[str, Position]:
    """Return the positions, by table, of a slot that begins at the present versions of the tables."""
    now = clock.now().isoformat()
    return {name: _at_present(spark, name, table, now) for name, table in _listed(tables).items()}


def _listed(tables: Iterable[Published]) -> dict[str, Published]:
    return {".".join(each.name): each for each in {each.path: each for each in tables}.values()}


def _at_present(spark: SparkSession, name: str, table: Published, now: str) -> Position:
    (version,) = versions(spark, [table.path])
    assert version is not None, "it was there a moment ago"
    return Position(name, table.path, table.table_id, version.number, now)


def content(positions: Mapping[str, Position]) -> dict[str, Any]:
    """Return the property of a slot's table."""
    return {"positions": [asdict(positions[name]) for name in sorted(positions)]}


def positions(slot: CatalogObject) -> dict[str, Position]:
    """Return the positions by table. Raises DefinitionUnreadable."""
    try:
        found = [restored(Position, each) for each in slot.content["positions"]]
    except UNREADABLE as error:
        raise unreadable(slot, error) from error
    return {each.table: each for each in found}


def advance(
    spark: SparkSession,
    slot: CatalogObject,
    tables: Iterable[Published],
    confirmed: Mapping[str, tuple[str, int]],
    followed: Collection[str] = (),
) -> CatalogObject:
    """Add new tables at their current versions, remove tables that are not listed, and confirm applied versions.

    What is `confirmed` of a table has the id with the version: of one that was created again the version of before says nothing.
    Tables whose ids are `followed` keep their positions even if they are not listed, because their publication may be created
    again. If two processes move a slot at once, the second one fails. The slot is then behind until the next time, which does no
    harm.
    """
    before, now = positions(slot), clock.now().isoformat()
    listed = _listed(tables)
    after = _existing(spark, [each for each in before.values() if each.table_id in followed and each.table not in listed])
    for name, table in listed.items():
        known = before.get(name)
        if known is None or known.table_id != table.table_id:
            known = _at_present(spark, name, table, now)
        table_id, done = confirmed.get(name, (known.table_id, known.confirmed))
        moves = table_id == known.table_id and done > known.confirmed
        after[name] = replace(known, confirmed=done, confirmed_at=now) if moves else known
    if after == before:
        return slot
    return objects.change(spark, slot, content(after))


def _existing(spark: SparkSession, found: list[Position]) -> dict[str, Position]:
    """Return the positions by table, without dropped tables. A table whose storage is away is not dropped."""
    now = versions(spark, [each.path for each in found]) if found else ()
    return {each.table: each for each, at in zip(found, now, strict=True) if _exists(spark, each, at)}


def _exists(spark: SparkSession, position: Position, at: Version | None) -> bool:
    return at.table_id == position.table_id if at else path_away(spark, position.path) is not None
