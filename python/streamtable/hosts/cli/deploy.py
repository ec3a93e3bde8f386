"""A folder of definitions, brought into a catalog: the plan of each table, and the statements in an order that works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from streamtable.api.tables import StreamTables
from streamtable.errors import DependentsExist, InvalidQuery, InvalidStatement, NotSupported, message_of
from streamtable.hosts.cli.folder import Wanted
from streamtable.language.names import Name, folded
from streamtable.language.parse import parse_name
from streamtable.language.stream_table.ast import DropStreamTable
from streamtable.language.stream_table.explained import (
    COLUMNS,
    CREATE,
    FOLLOWED_BY,
    READ_BY,
    READS,
    REFUSED,
    REPLACE,
    SAME,
    SAME_PLAN,
)
from streamtable.language.write import to_sql
from streamtable.sql.literals import quote_full_name

__all__ = ["Step", "StepKind", "allow", "carried_out", "planned"]

NEW = "there is no such stream table"
FITS = "its query fits once the tables that it reads are as planned"


class StepKind(str, Enum):
    """What a deployment does to one table."""

    CREATE = "create"
    ALTER = "alter"
    """The definition changes, and no row."""
    REBUILD = "rebuild"
    NOTHING = "nothing"
    DROP = "drop"
    REFUSED = "refused"
    """The step is impossible, and no other step of the deployment lifts that: no step is done."""


@dataclass(frozen=True)
class Step:
    """What is done to one table, why, and by which statement; `waits` for a step without which it would be refused."""

    name: str
    kind: StepKind
    why: str
    place: str
    sql: str
    waits: bool = False

    def __str__(self) -> str:
        """Return the step as a line for people."""
        return f"{self.kind.value:<8} {self.name}: {self.why}{self.place and f' ({self.place})'}"


@dataclass(frozen=True)
class _Judged:
    """A step, and what EXPLAIN says of it.

    `refused` is why it is impossible now. It may be possible when one of `reads` gets other columns, or when all of `users`, which
    use a column, have changed and none of `followers` reads the table any more. `columns`: it may give the table other columns.
    """

    step: Step
    reading: frozenset[str] | None = None
    refused: str = ""
    reads: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    followers: frozenset[str] = frozenset()
    columns: bool = False

    @property
    def key(self) -> str:
        return self.step.name.casefold()


def planned(spark: SparkSession, wanted: Sequence[Wanted], prune: bool) -> list[Step]:
    """Return what is to be done, sources before readers; with `prune` also the tables of the same schemas that no file defines.

    A step that is refused now waits for the steps that may lift that, or is REFUSED where there are none.
    """
    listed = (parse_name(quote_full_name(each.name)) for each in StreamTables(spark).list_all())
    there = {Name(folded(name.parts)): name for name in listed}
    found = list[_Judged]()
    for each in wanted:
        found.append(_judged(spark, each, each.name in there, found))
    if prune:
        schemas, names = {each.name.parts[:-1] for each in wanted}, {each.name for each in wanted}
        found += _drops(spark, [name for key, name in there.items() if key.parts[:-1] in schemas and key not in names], wanted)
    return _resolved(found)


def _judged(spark: SparkSession, wanted: Wanted, there: bool, before: Sequence[_Judged]) -> _Judged:
    """Ask what a definition does. The steps `before` it may move the tables that it reads."""
    step = Step(".".join(wanted.statement.name.parts), StepKind.REBUILD if there else StepKind.CREATE, NEW, wanted.place, "")
    step = replace(step, sql=to_sql(wanted.statement))
    reading = None if wanted.reads is None else frozenset(map(_key, wanted.reads))
    moving, moved = any(each.step.kind is not StepKind.NOTHING for each in before), any(each.columns for each in before)
    try:
        rows = spark.sql(f"EXPLAIN {step.sql}").collect()
    except PySparkException as error:
        if not moving or error.getCondition() != InvalidQuery.condition:
            raise
        return _unfit(replace(step, why=FITS if there else f"{NEW}; {FITS}", waits=True), reading, before, error)
    last = rows[-1]
    does = str(last["reason"])
    if last["operator"] in (REPLACE, CREATE) and not last["incremental"]:
        named = {label: _named(rows, label) for label in (READS, READ_BY, FOLLOWED_BY)}
        columns, step = bool(_named(rows, COLUMNS)) or moved, replace(step, why=FITS, waits=True)
        return _Judged(step, reading, does.removeprefix(REFUSED), named[READS], named[READ_BY], named[FOLLOWED_BY], columns)
    if not there:
        return _Judged(step, reading, columns=True)
    if does == f"{SAME}; nothing changes":
        return _Judged(replace(step, kind=StepKind.NOTHING, why=SAME), reading)
    step = replace(step, kind=StepKind.ALTER if does.startswith(SAME_PLAN) else StepKind.REBUILD, why=does)
    return _Judged(step, reading, columns=bool(_named(rows, COLUMNS)) or moved)


def _unfit(step: Step, reading: frozenset[str] | None, before: Sequence[_Judged], error: PySparkException) -> _Judged:
    """Judge a step whose query does not fit the tables that it reads now.

    If all of these are steps of the deployment, one of them must get other columns. Else a view may be among them, of which only
    Spark knows the tables.
    """
    reads, said = reading or frozenset(), message_of(error).strip().partition("\n")[0]
    all_known = bool(reads) and reads <= {each.key for each in before}
    return _Judged(step, reading, said if all_known else "", reads, columns=True)


def _named(rows: Sequence[Row], label: str) -> frozenset[str]:
    return frozenset(row["reason"].casefold() for row in rows if row["operator"] == label)


def _key(name: Name) -> str:
    return ".".join(name.parts).casefold()


def _drops(spark: SparkSession, gone: Sequence[Name], wanted: Sequence[Wanted]) -> Iterator[_Judged]:
    """Yield the steps that drop tables: each is possible when nobody reads the table any more."""
    known = StreamTables(spark).dependencies() if gone else ()
    for name in gone:
        full, key = ".".join(name.parts), _key(name)
        readers = {each.name.casefold() for each in known if each.source.casefold() == key}
        readers |= {_key(each.name) for each in wanted if each.reads and key in map(_key, each.reads)}
        step = Step(full, StepKind.DROP, "no file defines it", "", to_sql(DropStreamTable(name, if_exists=True)))
        why = f"{full} is read by {', '.join(sorted(readers))}; define it in a file again, or have them read something else"
        yield _Judged(step, refused=why if readers else "", followers=frozenset(readers))


def _resolved(found: Sequence[_Judged]) -> list[Step]:
    """Return the steps: of those that are refused now, the ones that others lift wait, and the rest is REFUSED."""
    possible = {each.key: each for each in found if not each.refused}
    while more := {each.key: each for each in found if each.key not in possible and _lifted(each, possible)}:
        possible |= more
    return [_resolved_one(each, possible) for each in found]


def _lifted(judged: _Judged, possible: Mapping[str, _Judged]) -> bool:
    """Tell whether possible steps may lift why another one is refused now."""
    if any(key in possible and possible[key].columns for key in judged.reads):
        return True
    used = judged.users | judged.followers
    return bool(used) and all(key in possible and _frees(possible[key], judged, key in judged.followers) for key in used)


def _frees(user: _Judged, judged: _Judged, whole: bool) -> bool:
    """Tell whether the step of a user may end what stands in the way of another step: use of a column, or of the `whole` table."""
    if user.step.kind is StepKind.REBUILD:
        return not whole or judged.key not in (user.reading or ())
    return user.step.kind is StepKind.DROP


def _resolved_one(judged: _Judged, possible: Mapping[str, _Judged]) -> Step:
    if judged.key not in possible:
        return replace(judged.step, kind=StepKind.REFUSED, why=judged.refused)
    used = judged.users | judged.followers
    if judged.step.kind is StepKind.REBUILD and used and used <= possible.keys():
        are = "is" if len(used) == 1 else "are"
        return replace(judged.step, why=f"the table is rebuilt once {', '.join(sorted(used))} {are} as planned")
    return judged.step


def allow(steps: Sequence[Step]) -> None:
    """Raise InvalidStatement, with all of them, if steps are REFUSED."""
    if refused := [step for step in steps if step.kind is StepKind.REFUSED]:
        named = "".join(f"\n  {step.name}: {step.why}{step.place and f' ({step.place})'}" for step in refused)
        raise InvalidStatement(
            f"nothing is deployed while steps are refused, here {len(refused)} of {len(steps)}:{named}",
            hint="change these definitions, or do by hand what stands behind each, then deploy again",
        )


def carried_out(spark: SparkSession, steps: Sequence[Step]) -> Iterator[Step]:
    """Carry the steps out, and yield each when it is done. Raises InvalidStatement, before the first one, if steps are REFUSED.

    A step that others still stand in the way of, as readers of a column that goes, comes again after them. A table is dropped
    when all other steps are done, or when nothing but readers stands in their way. Raises an error when no step gets further.
    """
    allow(steps)
    pending = [step for step in steps if step.kind not in (StepKind.NOTHING, StepKind.DROP)]
    drops = [step for step in steps if step.kind is StepKind.DROP]
    while pending or drops:
        waiting = list[tuple[Step, PySparkException]]()
        for step in pending:
            if error := _done(spark, step):
                waiting.append((step, error))
            else:
                yield step
        stuck = len(waiting) == len(pending)
        pending = [step for step, _ in waiting]
        if stuck:
            errors = sorted((error for _, error in waiting), key=_of_readers)
            if not drops or not all(map(_of_readers, errors)):
                raise errors[0]
            pending, drops = drops + pending, []


def _of_readers(error: PySparkException) -> bool:
    return error.getCondition() == DependentsExist.condition


def _done(spark: SparkSession, step: Step) -> PySparkException | None:
    """Carry a step out; return the error where another step may help. Raises any other error."""
    try:
        spark.sql(step.sql).collect()
    except PySparkException as error:
        lifted = (DependentsExist, InvalidQuery, NotSupported) if step.waits else (DependentsExist, InvalidQuery)
        if error.getCondition() in {each.condition for each in lifted}:
            return error
        raise
    return None
