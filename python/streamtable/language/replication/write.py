"""Publications, subscriptions and slots as text."""

from __future__ import annotations

from streamtable.language.replication.ast import (
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
    PublicationAction,
    PublishedTable,
    RefreshPublication,
    ReplicationStatement,
    ResetStatistics,
    SetConnection,
    SetObjects,
    SetOptions,
    SetPublications,
    Skip,
    SubscriptionAction,
)
from streamtable.language.stream_table.ast import AcceptDefinition, Rename
from streamtable.sql.literals import enclosed, listed, quote_name, quote_string, words


def replication_sql(statement: ReplicationStatement) -> str:
    """Return the statement as text."""
    match statement:
        case CreatePublication(name, objects, publish, generated):
            said = (("publish", ",".join(publish), ",".join(PUBLISH)), ("publish_generated_columns", generated, "none"))
            options = tuple((key, value) for key, value, default in said if value != default)
            what = _objects(objects)
            return words("CREATE PUBLICATION", name, what and f"FOR {what}", _with(options))
        case AlterPublication(name, action):
            return f"ALTER PUBLICATION {name} {_publication_action(action)}"
        case DropPublication(names, if_exists):
            return words("DROP PUBLICATION", if_exists and "IF EXISTS", ", ".join(map(str, names)))
        case CreateSubscription(name, connection, publications, options):
            source = f"CONNECTION {quote_string(connection)} PUBLICATION {_names(publications)}"
            return words("CREATE SUBSCRIPTION", name, source, _with(options))
        case AlterSubscription(name, subscription_action):
            return f"ALTER SUBSCRIPTION {name} {_subscription_action(subscription_action)}"
        case DropSubscription(name, if_exists):
            return words("DROP SUBSCRIPTION", if_exists and "IF EXISTS", name)
        case ApplySubscription(name):
            return f"APPLY SUBSCRIPTION {name}"
        case CreateReplicationSlot(name, publications):
            return f"CREATE REPLICATION SLOT {name} FOR PUBLICATION {_names(publications)}"
        case DropReplicationSlot(name, if_exists):
            return words("DROP REPLICATION SLOT", if_exists and "IF EXISTS", name)


def _publication_action(action: PublicationAction) -> str:
    match action:
        case AddObjects(objects):
            return f"ADD {_objects(objects)}"
        case SetObjects(objects):
            return f"SET {_objects(objects)}"
        case DropObjects(objects):
            return f"DROP {_objects(objects)}"
        case SetOptions(options):
            return f"SET {_options(options)}"
        case Rename(to):
            return f"RENAME TO {to}"
        case AcceptDefinition():
            return "ACCEPT DEFINITION"


def _subscription_action(action: SubscriptionAction) -> str:
    match action:
        case SetConnection(connection):
            return f"CONNECTION {quote_string(connection)}"
        case SetPublications(how, publications, options):
            return words(how, "PUBLICATION", _names(publications), _with(options))
        case RefreshPublication(options):
            return words("REFRESH PUBLICATION", _with(options))
        case Enable():
            return "ENABLE"
        case Disable():
            return "DISABLE"
        case SetOptions(options):
            return f"SET {_options(options)}"
        case Skip(version, table):
            of = "" if table is None else f", table = {quote_string(table)}"
            return f"SKIP (lsn = {'NONE' if version is None else version}{of})"
        case ResetStatistics():
            return "RESET STATISTICS"
        case Rename(to):
            return f"RENAME TO {to}"
        case AcceptDefinition():
            return "ACCEPT DEFINITION"


def _objects(objects: Objects) -> str:
    if objects.all_tables:
        excepted = listed(f"TABLE {name}" for name in objects.excepted) if objects.excepted else None
        return words("ALL TABLES", excepted and "EXCEPT", excepted)
    schemas = (f"TABLES IN SCHEMA {schema}" for schema in objects.schemas)
    return ", ".join((*map(_table, objects.tables), *schemas))


def _table(table: PublishedTable) -> str:
    where = table.where is not None and f"WHERE {enclosed(table.where)}"
    return words("TABLE", table.name, bool(table.columns) and listed(map(quote_name, table.columns)), where)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(quote_name, names))


def _with(options: Options) -> str:
    return f"WITH {_options(options)}" if options else ""


def _options(options: Options) -> str:
    return listed(f"{key} = {value if key in SWITCHES else quote_string(value)}" for key, value in options)
