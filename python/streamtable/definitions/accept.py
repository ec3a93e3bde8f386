"""ALTER STREAM TABLE ... ACCEPT DEFINITION: the catalog accepts the definition in the log of a table.

For tables of an earlier release or of another catalog, and for definitions that were changed without the catalog.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog.accepted import accept, knows, knows_this, of_table
from streamtable.catalog.definition import FORMATTED, Definition, code_of
from streamtable.catalog.entries import load
from streamtable.catalog.halves import properties_at
from streamtable.catalog.immediate import announce
from streamtable.catalog.paths import is_path
from streamtable.delta.tables import Located, find_table, state
from streamtable.errors import InvalidStatement
from streamtable.language.names import Name, folded
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.records import annotate

__all__ = ["accept_definition"]


def accept_definition(spark: SparkSession, name: Name) -> Definition:
    """Have the catalog accept the definition in a table's log, under the name that the table has.

    Raises InvalidStatement for a copy of a stream table that exists, DefinitionUnreadable for an unreadable definition.
    """
    located = find_table(spark, name.parts)
    found = state(spark, located.path) if located.kind == "delta" else None
    definition = Definition.of(found.properties) if found else None
    if found is None or definition is None or is_path(located.name):
        return load(spark, name).definition  # which says that it is no stream table
    located, code = of_table(located, found.table_id), code_of(found.properties)
    if knows_this(located, code):
        return definition
    _refuse_copy(spark, located, definition)
    if not (known := knows(located, FORMATTED)):
        definition = definition.with_statement(name=Name(located.name))
    announce(spark, definition.statement.schedule)
    accept(spark, located.name, code)
    # Unchanged sources must not make the next refresh believe that the contents are those of this query. If the catalog knew
    # another definition, the settings may differ too, and no plan shows settings.
    frontier = Frontier.of(found.frontier)
    unsure = frontier and replace(frontier, exact=False, fingerprint="" if known else frontier.fingerprint)
    annotate(spark, load(spark, name), properties=definition.properties(), frontier=unsure)
    return definition


def _refuse_copy(spark: SparkSession, located: Located, definition: Definition) -> None:
    made = definition.statement.name
    if folded(made.parts) == folded(located.name):
        return
    original = find_table(spark, made.parts)
    if original.accepted or (original.kind == "delta" and FORMATTED in properties_at(spark, original.path)):
        what = "a second name of the folder" if original.path == located.path else "a copy"
        raise InvalidStatement(
            f"{'.'.join(located.name)} is {what} of the stream table {definition.name}, and an ordinary table",
            hint="CREATE STREAM TABLE makes another one",
        )
