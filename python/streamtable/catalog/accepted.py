"""Accepted definitions: the catalog keeps digests of definitions in the entries of tables.

Anybody who may write a table's folder can change its log, and the definition in it: a query that runs as the user who refreshes the
table. Such a writer cannot change the catalog's entry, and Delta copies nothing from a log to the digests (`CatalogEntry.scala`).
So a definition is compared with the digests before any of it is read as SQL. A table without a digest for its name and for its id
by Delta is an ordinary table: a clone, a copy, a second name.

A statement that changes a definition adds the new digest, commits, and removes the old ones. A process that is killed in between
leaves both. A user who may write to the catalog asked for each of them.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.catalog.paths import is_path
from streamtable.catalog.restored import UNREADABLE
from streamtable.delta import ddl
from streamtable.delta.tables import Located, find_table
from streamtable.errors import DefinitionNotAccepted
from streamtable.language.names import Name, folded

__all__ = [
    "NAME",
    "accept",
    "accepted",
    "accepting",
    "check",
    "is_copy",
    "knows",
    "knows_this",
    "made_as",
    "never_accepted",
    "of_table",
    "withdraw",
]

NAME = "streamtable.name"
"""The property with the full name under which a table was made, which tells a copy from it."""

Code = Mapping[str, str]
"""The properties that decide what runs."""


def made_as(properties: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the full name under which the table was made, or None if it is unreadable."""
    try:
        parts = json.loads(properties[NAME])
    except UNREADABLE:
        return None
    return tuple(parts) if isinstance(parts, list) and parts and all(isinstance(part, str) for part in parts) else None


def of_table(located: Located, table_id: str) -> Located:
    """Return the catalog's digests for a name and the id of a table. The entry of a copy, or after a rename, has another id."""
    return replace(located, accepted=tuple(each for each in located.accepted if each.get("table", table_id) == table_id))


def knows(located: Located, key: str) -> bool:
    """Tell whether the catalog accepted, for this name, a definition of the kind that the property `key` marks."""
    return any(key in each["parts"] for each in located.accepted)


def knows_this(located: Located, code: Code) -> bool:
    """Tell whether the catalog accepted this definition for this name."""
    return _digest(code) in [each["digest"] for each in located.accepted]


def is_copy(located: Located, properties: Mapping[str, str]) -> bool:
    """Tell whether a table that the catalog did not accept was made under another name, by its own properties."""
    made = made_as(properties)
    return made is not None and folded(made) != folded(located.name)


def check(located: Located, code: Code, how: str) -> None:
    """Raise DefinitionNotAccepted unless the catalog accepted `code`; `how` is the statement that accepts it."""
    if knows_this(located, code):
        return
    parts, before = _parts(code), located.accepted[-1]["parts"]
    changed = sorted(key for key in {*parts, *before} if parts.get(key) != before.get(key))
    said = [f"{key} is now {code[key][:_LONGEST]!r}" if key in code else f"{key} is gone" for key in changed]
    raise DefinitionNotAccepted(
        f"the definition of {'.'.join(located.name)} was changed in its folder and not by a statement: "
        f"{'; '.join(said) or 'it is another one'}. Nothing of it was run",
        hint=f"find out who wrote it (DESCRIBE HISTORY {Name(located.name)}). {how} accepts it as it is now; otherwise drop it, "
        "and create it again",
    )


_LONGEST = 300


def never_accepted(located: Located, noun: str, how: str) -> DefinitionNotAccepted:
    """Return the error of a table whose definition no statement gave to this catalog."""
    return DefinitionNotAccepted(
        f"{'.'.join(located.name)} holds the definition of a {noun}, which the catalog has not accepted: it was made by an earlier "
        "version, by hand, or in another catalog. Nothing of it was run",
        hint=f"SHOW TBLPROPERTIES {Name(located.name)} shows it. {how} accepts it; otherwise DROP TABLE",
    )


def accept(spark: SparkSession, name: Sequence[str], code: Code, *, to: Sequence[str] | None = None) -> None:
    """Have the catalog accept one definition of a table, and no other; or one more, for the table's coming name."""
    before = [] if to else [each["token"] for each in find_table(spark, name).accepted]
    _write(spark, name, code, before, to)


def withdraw(spark: SparkSession, located: Located, table_id: str) -> None:
    """Have the catalog forget the definitions of a table that has gone from a name."""
    _write(spark, located.name, None, [each["token"] for each in of_table(located, table_id).accepted])


@contextmanager
def accepting(spark: SparkSession, name: Sequence[str], code: Code) -> Iterator[Callable[[Code, Code], bool]]:
    """Have the catalog accept the definitions that commits of this context store: the new digest first; old ones are removed at
    the end.

    If the context fails, both stay, because the commit may have succeeded. Yields a function by which the catalog accepts another
    definition, if the commit will be on top of one that came in between. The catalog must know that one.
    """
    if is_path(name):
        yield lambda between, stored: True
        return
    old = list[str]()

    def add(located: Located, stored: Code) -> None:
        old[:] = [each["token"] for each in located.accepted]
        _write(spark, name, stored, [])

    def instead(between: Code, stored: Code) -> bool:
        located = find_table(spark, name)
        if not knows_this(located, between):
            return False
        old.clear()
        if _digest(between) != _digest(stored):
            add(located, stored)
        return True

    located = find_table(spark, name)
    if [*{each["digest"] for each in located.accepted}] != [_digest(code)]:
        add(located, code)
    yield instead
    if old:
        with suppress(PySparkException, Py4JJavaError):  # an old digest that stays does no harm
            _write(spark, name, None, old)


def _write(
    spark: SparkSession, name: Sequence[str], code: Code | None, remove: Iterable[str], to: Sequence[str] | None = None
) -> None:
    add = "[]" if code is None else accepted(code)
    ddl.accept(spark, name, to or name, add, remove)


def accepted(code: Code, token: str = "") -> str:
    """Spell a digest for the catalog, with a token, so that removing it keeps an equal digest of another session."""
    return json.dumps([{"token": token or uuid.uuid4().hex, "digest": _digest(code), "parts": _parts(code)}])


def _digest(code: Code) -> str:
    return hashlib.sha256(json.dumps(sorted(code.items())).encode()).hexdigest()


def _parts(code: Code) -> dict[str, str]:
    """Return a few digits for each part, which show people the part that changed."""
    return {key: hashlib.sha256(value.encode()).hexdigest()[:8] for key, value in sorted(code.items())}
