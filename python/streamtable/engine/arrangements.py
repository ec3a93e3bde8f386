"""Arrangements: the stored keys and partial states of each aggregate and each recursion.

An arrangement is usually a Delta table in the hidden folder `_streamtable/` in the stream table's location. Readers and VACUUM of
the outer table ignore names that start with an underscore. The stream table itself is the arrangement where its columns hold all
states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType
from sqlglot import exp

from streamtable.algebra.columns import POSITION
from streamtable.algebra.operators import Aggregate, Operator, Recursion
from streamtable.algebra.recursion import counted
from streamtable.algebra.trees import walk
from streamtable.catalog.definition import DELTA_PROPERTIES
from streamtable.catalog.paths import HIDDEN
from streamtable.delta.commit import Metadata, RowChange, Transaction, commit
from streamtable.delta.commit_ids import is_same, version_at
from streamtable.delta.rows import read, read_located
from streamtable.delta.summaries import commits
from streamtable.delta.tables import Version, drop_files
from streamtable.delta.unreadable import Unreadable, versions_or_why
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.stored_before import without_states
from streamtable.differentiate.visible import visible_states
from streamtable.engine.sources import Sources
from streamtable.engine.workspace import Workspace
from streamtable.errors import HistoryLost
from streamtable.query.analyse import AnalysedQuery
from streamtable.sql.builder import alias, column, select, subquery, table

__all__ = ["Arrangement", "arrangements_of", "build", "folder_of", "over_states", "path_of", "register", "roll_back"]


@dataclass(frozen=True)
class Arrangement:
    """The place of one aggregate's states. `columns` maps the ids of its keys and states to columns of the table at `path`.

    `owner` is the path of the stream table.
    """

    name: str
    path: str
    columns: Mapping[str, str]
    visible: bool
    owner: str


def arrangements_of(analysed: AnalysedQuery, path: str, names: Sequence[str]) -> dict[Aggregate, Arrangement]:
    """Return the arrangement of each aggregate of the query that has states, named by its place. An aggregate counts the rows of a
    recursion (`counted`).

    `names` are the columns of the stream table at `path`. Its rows are no states where nobody compared them with the query.
    """
    stateless = without_states(analysed.tree) if analysed.judged is None else ()
    return {of: each for of, each in _of_all(analysed, path, names).items() if of not in stateless}


def _of_all(analysed: AnalysedQuery, path: str, names: Sequence[str]) -> dict[Aggregate, Arrangement]:
    tree, fingerprint = analysed.tree, analysed.fingerprint
    if seen := None if analysed.trusted else visible_states(tree):
        aggregate, places = seen
        return {
            aggregate: Arrangement("a0", path, {name: names[at] for name, at in places.items()}, visible=True, owner=path)
        } | _hidden(aggregate.child, path, fingerprint, first=1)
    return _hidden(tree, path, fingerprint, first=0)


def _hidden(tree: Operator, path: str, fingerprint: str, first: int) -> dict[Aggregate, Arrangement]:
    found: dict[Aggregate, Arrangement] = {}
    for node in walk(tree):
        stored = counted(node) if isinstance(node, Recursion) else node
        if isinstance(stored, Aggregate) and stored not in found:
            name = f"a{first + len(found)}"
            step = AggregateStep.whole(name, stored)
            columns = {key.id: f"k{n}" for n, key in enumerate(step.keys)} | {s.column.id: s.column.id for s in step.states}
            found[stored] = Arrangement(name, path_of(path, fingerprint, name), columns, visible=False, owner=path)
    return found


def path_of(path: str, fingerprint: str, name: str) -> str:
    """Return the path of the hidden arrangement `name` of the stream table at `path`."""
    return f"{folder_of(path)}/{fingerprint}/{name}"


def folder_of(path: str) -> str:
    """Return the folder of the arrangements of the stream table at `path`. Each fingerprint of a plan has a folder of its own."""
    return f"{path}{HIDDEN}"


def register(workspace: Workspace, arrangement: Arrangement, stored: DataFrame) -> None:
    """Name the states of the `stored` rows `<name>_state`: columns under their ids, with positions."""
    present = workspace.name(f"{arrangement.name}_present", stored)
    items: list[exp.Expr] = [alias(column(name), id_) for id_, name in arrangement.columns.items()]
    workspace.name(f"{arrangement.name}_state", workspace.query(select([*items, *(column(p) for p in POSITION)], table(present))))


def content(workspace: Workspace, arrangement: Arrangement, query: exp.Query) -> DataFrame:
    """Plan `query`, whose columns are ids, with the columns of the arrangement's table."""
    items = [alias(column(id_), name) for id_, name in arrangement.columns.items()]
    return workspace.query(select(items, subquery(query, "content")))


def build(
    analysed: AnalysedQuery,
    workspace: Workspace,
    sources: Sources,
    arrangements: Mapping[Aggregate, Arrangement],
    application: str,
    pinned: Callable[[str], Version | None],
    read_all: bool,
) -> Iterator[tuple[str, Version]]:
    """Compute the hidden arrangements at the target versions; yield the name and the version of each.

    Those below come first, and those above read their rows. Computed twice, a sum of floating numbers or a first value may come
    out otherwise: a change of the row below would not find the row above. `pinned` gives the versions in the frontier. `read_all`:
    the table's rows are computed from the arrangements as well, by `over_states`.
    """
    below = dict[Aggregate, str]()
    hidden = [(each, arrangements[each]) for each in _from_below(analysed.tree, arrangements) if not arrangements[each].visible]
    for aggregate, arrangement in hidden:
        step = AggregateStep.whole(arrangement.name, aggregate)
        over = replace(step, child=Deltas(frozenset(), below, {}).old(aggregate.child))
        version = _build(analysed, workspace, sources, arrangement, over, application, pinned(arrangement.name))
        yield arrangement.name, version
        if aggregate is hidden[-1][0] and not read_all:
            return  # nothing is above
        register(workspace, arrangement, read_located(analysed.session, arrangement.path, version.number))
        workspace.name(f"{arrangement.name}_old", workspace.query(step.stored()))
        below[aggregate] = arrangement.name


def over_states(tree: Operator, arrangements: Mapping[Aggregate, Arrangement]) -> Operator:
    """Return the tree over the stored rows of the hidden arrangements."""
    names = {aggregate: each.name for aggregate, each in arrangements.items() if not each.visible}
    return Deltas(frozenset(), names, {}).old(tree)


def _from_below(tree: Operator, known: Collection[Aggregate]) -> list[Aggregate]:
    """Return the aggregates, those below others first. One that occurs twice comes before all that is above any of its places."""
    stored = (counted(node) if isinstance(node, Recursion) else node for node in reversed([*walk(tree)]))
    return list(dict.fromkeys(each for each in stored if isinstance(each, Aggregate) and each in known))


def _build(
    analysed: AnalysedQuery,
    workspace: Workspace,
    sources: Sources,
    arrangement: Arrangement,
    step: AggregateStep,
    application: str,
    pinned: Version | None,
) -> Version:
    """Compute one arrangement. One that differs from the `pinned` version is deleted, whatever its state."""
    rows = content(workspace, arrangement, step.initial(sources))
    try:
        version = _standing(workspace, arrangement, pinned or Version("", 0)).number
    except HistoryLost:
        version = -1
        # A log without its beginning looks like no log. A first fill deletes nothing: another session may build the same
        # arrangement now.
        if pinned is not None or versions_or_why(workspace.session, [arrangement.path]) != (None,):
            # Under its id, caches may know versions that are written again.
            drop_files(workspace.session, arrangement.owner, arrangement.path)
    schema = None if version >= 0 else StructType([StructField(f.name, f.dataType) for f in rows.schema]).toNullable().json()
    properties = None if version >= 0 else dict(DELTA_PROPERTIES)
    done = commit(
        analysed.session,
        arrangement.path,
        version,
        Transaction(application, version + 1),
        RowChange(rows, replace_all=version >= 0),
        Metadata(schema_json=schema, properties=properties),
    )
    found = _standing(workspace, arrangement, Version("", done.version))
    return version_at(workspace.session, arrangement.path, found.table_id, done.version)


def _standing(workspace: Workspace, arrangement: Arrangement, pinned: Version) -> Version:
    """Return the latest version of an arrangement, if it is the frontier's version or a later one. Raises HistoryLost otherwise."""
    (found,) = versions_or_why(workspace.session, [arrangement.path])
    match found:
        case None:
            why = "is gone"
        case Unreadable(reason):
            why = f"cannot be read: {reason}"
        case Version(table_id) if pinned.table_id not in ("", table_id):  # earlier releases did not record the id
            why = "is another table than the one that the last refresh left"
        case Version(_, number) if number < pinned.number:
            why = f"is at version {number}, and the contents stand for version {pinned.number}, as where a backup of it was behind"
        case Version() if not is_same(workspace.session, arrangement.path, pinned, found):
            why = f"has another version {pinned.number} than the contents stand for, as where a backup of it was put in its place"
        case _:
            return found
    raise HistoryLost(f"the arrangement {arrangement.name} {why}")


def roll_back(workspace: Workspace, arrangement: Arrangement, pinned: Version, application: str) -> Version:
    """Restore the arrangement to `pinned` if a refresh that never finished moved it; return its version.

    Raises HistoryLost for an arrangement that does not fit the frontier.
    """
    found = _standing(workspace, arrangement, pinned)
    if found.number == pinned.number or not any(
        each.data_change for each in commits(workspace.session, arrangement.path, pinned.number, found.number)
    ):
        return found  # at most it was compacted
    rows = read(workspace.session, arrangement.path, pinned.number)
    done = commit(
        workspace.session,
        arrangement.path,
        found.number,
        Transaction(application, found.number + 1),
        RowChange(rows, replace_all=True),
        table_id=found.table_id,
    )
    return version_at(workspace.session, arrangement.path, found.table_id, done.version)
