"""Publications, subscriptions and replication slots as data: what was asked for, with nothing looked up yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from streamtable.language.names import Name
from streamtable.language.stream_table.ast import AcceptDefinition, Rename

PUBLISH = ("insert", "update", "delete", "truncate")
"""The kinds of changes that a publication may send."""

GENERATED = ("none", "stored")
"""Whether generated columns are sent where no list of columns names them."""

SWITCHES = ("connect", "create_slot", "enabled", "copy_data", "disable_on_error", "refresh")
"""The options that are true or false."""

Options: TypeAlias = tuple[tuple[str, str], ...]
"""What stands behind WITH, in order: keys in lower case, switches as `true` and `false`."""


@dataclass(frozen=True)
class PublishedTable:
    """A table of a publication, with the columns (all if none are named) and the rows that are sent."""

    name: Name
    columns: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True)
class Objects:
    """What a publication is for: tables, schemas with all that they will ever hold, or all tables but some."""

    tables: tuple[PublishedTable, ...] = ()
    schemas: tuple[Name, ...] = ()
    all_tables: bool = False
    excepted: tuple[Name, ...] = ()


@dataclass(frozen=True)
class CreatePublication:
    """CREATE PUBLICATION."""

    name: Name
    objects: Objects = Objects()
    publish: tuple[str, ...] = PUBLISH
    generated: str = "none"

    def having(self, options: Options) -> CreatePublication:
        """Return it with these options; those that are not named stay."""
        said = {"publish": ",".join(self.publish), "publish_generated_columns": self.generated, **dict(options)}
        kinds = tuple(kind for kind in PUBLISH if kind in said["publish"].split(","))
        return replace(self, publish=kinds, generated=said["publish_generated_columns"])


@dataclass(frozen=True)
class AddObjects:
    """ADD."""

    objects: Objects


@dataclass(frozen=True)
class SetObjects:
    """SET, in place of all that the publication was for."""

    objects: Objects


@dataclass(frozen=True)
class DropObjects:
    """DROP; tables are given by their names alone."""

    objects: Objects


@dataclass(frozen=True)
class SetOptions:
    """SET (...): those not named stay."""

    options: Options


PublicationAction: TypeAlias = AddObjects | SetObjects | DropObjects | SetOptions | Rename | AcceptDefinition


@dataclass(frozen=True)
class AlterPublication:
    """ALTER PUBLICATION."""

    name: Name
    action: PublicationAction


@dataclass(frozen=True)
class DropPublication:
    """DROP PUBLICATION: all of them, or none where one is not there."""

    names: tuple[Name, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class CreateSubscription:
    """CREATE SUBSCRIPTION: `publications` are names in the place that `connection` says."""

    name: Name
    connection: str
    publications: tuple[str, ...]
    options: Options = ()


@dataclass(frozen=True)
class SetConnection:
    """CONNECTION."""

    connection: str


@dataclass(frozen=True)
class SetPublications:
    """SET, ADD or DROP PUBLICATION, as `how` says; unless `refresh` is false, the tables follow at once."""

    how: str
    publications: tuple[str, ...]
    options: Options = ()


@dataclass(frozen=True)
class RefreshPublication:
    """REFRESH PUBLICATION: tables that were added since are copied, those that went are forgotten."""

    options: Options = ()


@dataclass(frozen=True)
class Enable:
    """ENABLE."""


@dataclass(frozen=True)
class Disable:
    """DISABLE."""


@dataclass(frozen=True)
class Skip:
    """SKIP (lsn = version, table = name): leave out the commit at which a table stopped; the version None takes that back."""

    version: int | None
    table: str | None = None


@dataclass(frozen=True)
class ResetStatistics:
    """RESET STATISTICS: the counters of `subscription_stats()` begin anew."""


SubscriptionAction: TypeAlias = (
    SetConnection
    | SetPublications
    | RefreshPublication
    | Enable
    | Disable
    | SetOptions
    | Skip
    | ResetStatistics
    | Rename
    | AcceptDefinition
)


@dataclass(frozen=True)
class AlterSubscription:
    """ALTER SUBSCRIPTION."""

    name: Name
    action: SubscriptionAction


@dataclass(frozen=True)
class DropSubscription:
    """DROP SUBSCRIPTION, and its slot."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class ApplySubscription:
    """APPLY SUBSCRIPTION: copy what is to be copied, and apply what was committed up to now."""

    name: Name


@dataclass(frozen=True)
class CreateReplicationSlot:
    """CREATE REPLICATION SLOT: it begins at the present versions of the publications' tables."""

    name: Name
    publications: tuple[str, ...]


@dataclass(frozen=True)
class DropReplicationSlot:
    """DROP REPLICATION SLOT."""

    name: Name
    if_exists: bool = False


ReplicationStatement: TypeAlias = (
    CreatePublication
    | AlterPublication
    | DropPublication
    | CreateSubscription
    | AlterSubscription
    | DropSubscription
    | ApplySubscription
    | CreateReplicationSlot
    | DropReplicationSlot
)
