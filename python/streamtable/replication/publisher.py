"""Publishers: a schema of this session's catalog, a schema of another server, or the folder of a schema."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from streamtable.catalog.entries import table_names
from streamtable.catalog.paths import name_at
from streamtable.delta.folders import children
from streamtable.errors import InvalidStatement
from streamtable.language.names import Name
from streamtable.language.parse import parse_name
from streamtable.sessions.remote import ask, without_token

__all__ = ["Folder", "Publisher", "Schema", "Server", "publisher_of", "same"]

_KINDS = (
    ({"database"}, {"database"}),
    ({"warehouse"}, {"warehouse", "database"}),
    ({"remote"}, {"remote", "database", "token_file"}),
)
"""The required and the optional parts of a connection."""

_HINT = "write CONNECTION 'database=schema', 'remote=sc://host:15002 database=schema' or 'warehouse=/path database=schema'"


@dataclass(frozen=True)
class Schema:
    """A schema of a catalog that this session has."""

    namespace: tuple[str, ...]

    def name(self, name: str) -> Name:
        """Return the full name of what the publisher calls so."""
        return Name((*self.namespace, name))

    known_name = name

    def tables(self, spark: SparkSession) -> Iterator[str]:
        """Yield the names of its tables, and perhaps of what is none."""
        return (parts[-1] for parts in table_names(spark, self.namespace))


@dataclass(frozen=True)
class Folder:
    """The folder of a schema, with a folder for each table. The publisher shares its storage, not its catalog."""

    path: str

    def name(self, name: str) -> Name:
        """Return the full name of what the publisher calls so; Spark's catalog writes folders in lower case.

        Raises InvalidStatement for a name that leads out of the folder: publishers of others may say any.
        """
        if "/" in name or name in ("", ".", ".."):
            hint = "ask the publisher why his publication says so"
            raise InvalidStatement(f"{name!r} is no name of a table in {self.path}", hint=hint)
        return name_at(f"{self.path}/{name.lower()}")

    known_name = name

    def tables(self, spark: SparkSession) -> Iterator[str]:
        """Yield the names of its tables, and perhaps of what is none."""
        return (path.rpartition("/")[2] for path in children(spark, self.path))


_told: dict[tuple[str, Name, str], Name] = {}
"""The names that servers told: by address, schema and what the publisher calls it."""


@dataclass(frozen=True)
class Server:
    """A schema of another server's catalog. The server tells the paths of its tables, which are read without the server."""

    address: str
    schema: Name
    token_file: str | None = None

    def name(self, name: str) -> Name:
        """Return the full name, by its path, of what the publisher calls so, or may come to call so."""
        try:
            (detail,) = self._ask(f"DESCRIBE DETAIL {Name((*self.schema.parts, name))}")
        except AnalysisException:  # it is not there, or no table
            found = self._folder.name(name)
        else:
            found = name_at(_path(detail["location"]))
        _told[self.address, self.schema, name] = found
        return found

    def known_name(self, name: str) -> Name | None:
        """Return the full name as the server told it to this process last, without asking; None if it was not asked yet."""
        return _told.get((self.address, self.schema, name))

    def tables(self, spark: SparkSession) -> Iterator[str]:
        """Yield the names of its tables, and perhaps of what is none."""
        return (row["tableName"] for row in self._ask(f"SHOW TABLES IN {self.schema}") if not row["isTemporary"])

    @cached_property
    def _folder(self) -> Folder:
        try:
            described = {row[0]: row[1] for row in self._ask(f"DESCRIBE SCHEMA {self.schema}")}
        except AnalysisException as error:
            raise InvalidStatement(f"{self.address} has no schema {self.schema}", hint=_HINT) from error
        return Folder(_path(described["Location"]).rstrip("/"))

    def _ask(self, statement: str) -> list[Row]:
        token = f"/;token={Path(self.token_file).read_text().strip()}" if self.token_file else ""
        return ask(self.address + token, statement)


def _path(location: str) -> str:
    """Spell a location as this session's catalog does: local files without their scheme."""
    url = urlsplit(location)
    return url.path if url.scheme == "file" else location


Publisher: TypeAlias = Schema | Folder | Server


def publisher_of(connection: str, catalog: str) -> Publisher:
    """Return the publisher of a connection; `catalog` is the default. Raises InvalidStatement and NotSupported."""
    try:
        pairs = dict(pair.partition("=")[::2] for pair in shlex.split(connection))
    except ValueError as error:
        raise InvalidStatement(f"the connection {connection!r} cannot be read: {error}", hint=_HINT) from error
    if not pairs or not all(pairs.values()) or not any(needed <= pairs.keys() <= possible for needed, possible in _KINDS):
        raise InvalidStatement(f"the connection {connection!r} names no publisher", hint=_HINT)
    database = parse_name(pairs["database"]).parts if "database" in pairs else ()
    if len(database) > 2:
        raise InvalidStatement(f"{pairs['database']} is no schema", hint=_HINT)
    if "remote" in pairs:
        return _server(pairs["remote"].rstrip("/"), Name(database or ("default",)), pairs.get("token_file"))
    if "warehouse" not in pairs:
        return Schema(database if len(database) == 2 else (catalog, *database))
    root = pairs["warehouse"].rstrip("/")
    if not root.startswith("/") and ":/" not in root:
        raise InvalidStatement(f"the warehouse {root!r} is no absolute path", hint=_HINT)
    if len(database) > 1:
        raise InvalidStatement(
            f"{pairs['database']} is no schema of a warehouse", hint="its folder is called after the schema alone"
        )
    return Folder(f"{root}/{database[0].lower()}.db" if database else root)


def same(publisher: Publisher, other: Publisher) -> bool:
    """Tell whether two connections name the same schema in the same way. A catalog ignores the case of names."""
    if isinstance(publisher, Schema) and isinstance(other, Schema):
        return [part.casefold() for part in publisher.namespace] == [part.casefold() for part in other.namespace]
    return publisher == other


def _server(address: str, schema: Name, token_file: str | None) -> Server:
    if not address.startswith("sc://") or not urlsplit(address).hostname:
        raise InvalidStatement(f"{without_token(address)!r} is no address of a server", hint="write remote=sc://host:15002")
    if ";" in address:
        hint = "put the token into a file that only this user may read, and write token_file=/path"
        raise InvalidStatement("a token in the connection could be read by whoever may read the subscription", hint=hint)
    if token_file and not Path(token_file).is_file():
        raise InvalidStatement(f"there is no file {token_file}", hint="write token_file=/path, as this process sees it")
    return Server(address, schema, token_file)
