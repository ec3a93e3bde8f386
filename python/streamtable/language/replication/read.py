"""Trees of publications, subscriptions and slots to statements; which options exclude each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from streamtable.errors import near_names
from streamtable.language.names import Name
from streamtable.language.replication.ast import (
    GENERATED,
    PUBLISH,
    SWITCHES,
    AddObjects,
    AlterPublication,
    AlterSubscription,
    ApplySubscription,
    CreatePublication,
    CreateReplicationSlot,
    CreateSubscription,
    Disable,
    DropObjects,
    DropPublication,
    DropReplicationSlot,
    DropSubscription,
    Enable,
    Objects,
    Options,
    PublishedTable,
    RefreshPublication,
    ResetStatistics,
    SetConnection,
    SetObjects,
    SetOptions,
    SetPublications,
    Skip,
)
from streamtable.language.transformer import MOST_DIGITS, Rules, second
from streamtable.sql.literals import unquote_string

REPLICATION: Mapping[str, Callable[..., Any]] = {
    "add_published": AddObjects,
    "apply_subscription": ApplySubscription,
    "create_slot": CreateReplicationSlot,
    "disable": Disable,
    "enable": Enable,
    "reset_statistics": ResetStatistics,
    "set_connection": SetConnection,
    "set_published": SetObjects,
}
"""Rules whose statement has the rule's children as its fields."""

_OF_A_PUBLICATION = ("publish", "publish_generated_columns")
_OF_A_SUBSCRIPTION = ("connect", "create_slot", "enabled", "slot_name", "copy_data", "disable_on_error", "origin")
_TO_BE_SET = ("slot_name", "disable_on_error", "origin")
_EXCLUDED = (
    (("connect", "false"), ("create_slot", "enabled", "copy_data")),
    (("slot_name", "none"), ("create_slot", "enabled")),
)
"""What is said, and what cannot be true then."""
_UNSAID = {"publish_generated_columns": "stored"}
"""The value of an option that is named without one, where that is not true."""
_CHOICES = {"origin": ("any", "none"), "publish_generated_columns": GENERATED}
_TRUTH = {"true": "true", "on": "true", "1": "true", "false": "false", "off": "false", "0": "false"}

Pairs = tuple[tuple[Token, str], ...]


@v_args(meta=True, inline=True)
class ReplicationRules(Rules):
    """The rules of CREATE, ALTER and DROP of publications, subscriptions and slots, and of APPLY SUBSCRIPTION."""

    def create_publication(self, at: Meta, name: Name, objects: Objects | None, options: Pairs | None) -> CreatePublication:
        return CreatePublication(name, objects or Objects()).having(self._options(options or (), _OF_A_PUBLICATION))

    def alter_publication(self, at: Meta, name: Name, action: Any) -> AlterPublication:
        if isinstance(action, tuple):
            action = SetOptions(self._options(action, _OF_A_PUBLICATION))
        return AlterPublication(name, action)

    def drop_published(self, at: Meta, objects: Objects) -> DropObjects:
        if objects.all_tables or any(table.columns or table.where for table in objects.tables):
            message = "DROP takes the names of tables and schemas, without columns and WHERE"
            raise self._invalid(at, message, "leave them out; SET says anew what a publication is for")
        return DropObjects(objects)

    def drop_publication(self, at: Meta, if_exists: Meta | None, *names: Name) -> DropPublication:
        return DropPublication(tuple(dict.fromkeys(names)), if_exists is not None)

    def all_tables(self, at: Meta, _: Token, excepted: tuple[Name, ...] | None) -> Objects:
        return Objects(all_tables=True, excepted=excepted or ())

    def except_list(self, at: Meta, *names: Name) -> tuple[Name, ...]:
        return names

    def objects_list(self, at: Meta, *objects: PublishedTable | Name | tuple[PublishedTable]) -> Objects:
        tables, schemas, of_schemas = list[PublishedTable](), list[Name](), False
        for each in objects:
            match each:
                case PublishedTable():
                    tables.append(each)
                    of_schemas = False
                case Name():
                    schemas.append(each)
                    of_schemas = True
                case (more,) if of_schemas:  # what is written without TABLE is of the kind in front of it
                    schemas.append(more.name)
                case (more,):
                    tables.append(more)
        if any(len(schema.parts) > 2 for schema in schemas):
            raise self._invalid(at, "a schema has a name of two parts at most: catalog.schema", None)
        return Objects(tuple(tables), tuple(schemas))

    def table_object(self, at: Meta, table: PublishedTable) -> PublishedTable:
        return table

    def schema_object(self, at: Meta, schema: Name) -> Name:
        return schema

    def more_objects(self, at: Meta, table: PublishedTable) -> tuple[PublishedTable]:
        return (table,)

    def published_table(self, at: Meta, name: Name, columns: tuple[str, ...] | None, where: str | None) -> PublishedTable:
        return PublishedTable(name, columns or (), where)

    def published_columns(self, at: Meta, *columns: Token) -> tuple[str, ...]:
        return self._columns(columns)

    def create_subscription(
        self, at: Meta, name: Name, connection: str, publications: tuple[str, ...], options: Pairs | None
    ) -> CreateSubscription:
        known = self._options(options or (), _OF_A_SUBSCRIPTION)
        said = dict(known)
        unsaid = "false" if said.get("connect") == "false" else "true"
        for (key, value), excluded in _EXCLUDED:
            for other in excluded if said.get(key) == value else ():
                if said.get(other, unsaid) == "true":
                    message = f"{key} = {value} and {other} = true are mutually exclusive options"
                    raise self._invalid(at, message, f"write {other} = false")
        return CreateSubscription(name, connection, publications, known)

    def alter_subscription(self, at: Meta, name: Name, action: Any) -> AlterSubscription:
        if isinstance(action, tuple):
            action = SetOptions(self._options(action, _TO_BE_SET))
        return AlterSubscription(name, action)

    def drop_subscription(self, at: Meta, if_exists: Meta | None, name: Name) -> DropSubscription:
        return DropSubscription(name, if_exists is not None)

    def drop_slot(self, at: Meta, if_exists: Meta | None, name: Name) -> DropReplicationSlot:
        return DropReplicationSlot(name, if_exists is not None)

    def set_publications(self, at: Meta, names: tuple[str, ...], options: Pairs | None) -> SetPublications:
        return SetPublications("SET", names, self._options(options or (), ("refresh", "copy_data")))

    def add_publications(self, at: Meta, names: tuple[str, ...], options: Pairs | None) -> SetPublications:
        return SetPublications("ADD", names, self._options(options or (), ("refresh", "copy_data")))

    def drop_publications(self, at: Meta, names: tuple[str, ...], options: Pairs | None) -> SetPublications:
        return SetPublications("DROP", names, self._options(options or (), ("refresh",)))

    def refresh_publication(self, at: Meta, options: Pairs | None) -> RefreshPublication:
        return RefreshPublication(self._options(options or (), ("copy_data",)))

    def skip(self, at: Meta, pairs: Pairs) -> Skip:
        said = {str(key): value for key, value in pairs}
        version, hint = said.get("lsn", ""), "write SKIP (lsn = n) with the version at which a table stopped, or SKIP (lsn = NONE)"
        if len(pairs) == 1 and not _is_version(version):
            key, value = pairs[0]
            raise self._invalid(at, f"{key} = {value[:40]} is nothing to skip", hint)
        self._options(pairs, ("lsn", "table"))
        if not _is_version(version):
            raise self._invalid(at, f"lsn = {version[:40]} is nothing to skip", hint)
        return Skip(int(version) if version.isdecimal() else None, said.get("table"))

    def set_options(self, at: Meta, pairs: Pairs) -> Pairs:
        return pairs

    def names_list(self, at: Meta, *names: Token) -> tuple[str, ...]:
        again = second(names, key=str.casefold)
        if again is not None:
            raise self._invalid(again, f"the publication '{again}' is listed twice", "list it once")
        return tuple(map(str, names))

    def option_list(self, at: Meta, *pairs: tuple[Token, str]) -> Pairs:
        return pairs

    def setting(self, at: Meta, key: Token, value: str | None) -> tuple[Token, str]:
        return key.update(value=key.casefold()), _UNSAID.get(key.casefold(), "true") if value is None else value

    def setting_value(self, at: Meta, token: Token) -> str:
        return unquote_string(token) if token.type == "STRING" else str(token)

    def _options(self, pairs: Pairs, known: tuple[str, ...]) -> Options:
        """Return the options with their values in one spelling."""
        again = second((key for key, _ in pairs), key=str)
        if again is not None:
            raise self._invalid(again, f"the option {again} is written twice", "leave one of them out")
        for key, _ in pairs:
            if key not in known:
                raise self._invalid(key, f"there is no option {key} here.{near_names(key, known)}", f"they are {', '.join(known)}")
        return tuple((str(key), self._value(key, value)) for key, value in pairs)

    def _value(self, key: Token, value: str) -> str:
        if key in SWITCHES:
            if value.casefold() not in _TRUTH:
                raise self._invalid(key, f"{key} cannot be {value!r}", "write true or false")
            return _TRUTH[value.casefold()]
        if key == "publish":
            kinds = [kind.strip().casefold() for kind in value.split(",") if kind.strip()]
            if wrong := [kind for kind in kinds if kind not in PUBLISH]:
                raise self._invalid(key, f"nothing of the kind {wrong[0]!r} is published", f"they are {', '.join(PUBLISH)}")
            return ",".join(kind for kind in PUBLISH if kind in kinds)
        if key == "slot_name" and not re.fullmatch(r"[A-Za-z0-9_]+", value):
            raise self._invalid(key, f"slot_name cannot be {value!r}", "write letters of ASCII, digits and underscores, or NONE")
        if key in _CHOICES and value.casefold() not in _CHOICES[key]:
            raise self._invalid(key, f"{key} cannot be {value!r}", f"write {' or '.join(_CHOICES[key])}")
        return value.casefold() if key in _CHOICES or value.casefold() == "none" else value


def _is_version(value: str) -> bool:
    return (value.isdecimal() and len(value) <= MOST_DIGITS) or value.casefold() == "none"
