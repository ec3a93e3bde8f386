"""The delta rules, one module per operator, and their verdict on a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from types import ModuleType

from streamtable.algebra.columns import POSITION, WEIGHT
from streamtable.algebra.identity import identity
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Unsupported,
    Window,
    WorkingTable,
)
from streamtable.algebra.recursion import counted
from streamtable.algebra.sources import Source
from streamtable.algebra.trees import children, sources_of, walk
from streamtable.differentiate import (
    aggregate,
    constant,
    expand,
    filter,
    generate,
    join,
    left_join,
    project,
    recursion,
    scan,
    top_k,
    union_all,
    unsupported,
    window,
    working_table,
)
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.loose_keys import told_apart_above
from streamtable.differentiate.rounding import looked_at
from streamtable.sql.builder import column

__all__ = ["RULES", "RuleFinding", "findings", "label", "obstacle", "prunes_nothing"]

RULES: dict[type, ModuleType] = {
    Scan: scan,
    Constant: constant,
    Recursion: recursion,
    WorkingTable: working_table,
    Filter: filter,
    Project: project,
    Join: join,
    LeftJoin: left_join,
    UnionAll: union_all,
    Aggregate: aggregate,
    Generate: generate,
    Expand: expand,
    Window: window,
    TopK: top_k,
    Unsupported: unsupported,
}


TITLES: dict[type, str] = {
    Scan: "Delta of a source table",
    Constant: "Delta of a constant relation (VALUES, range, one row): empty, because nothing changes it",
    Recursion: "Delta of WITH RECURSIVE, level by level (semi-naive)",
    WorkingTable: "Delta of the rows of the level before, in the step of a recursion",
    Filter: "Delta of a filter",
    Project: "Delta of a projection",
    Join: "Delta of an inner join of any number of inputs",
    LeftJoin: "Delta of LEFT OUTER, SEMI and ANTI joins",
    UnionAll: "Delta of UNION ALL",
    Aggregate: "Delta of GROUP BY, of a global aggregate, and of SELECT DISTINCT",
    Generate: "Delta of a generator (explode, LATERAL VIEW, table functions)",
    Expand: "Delta of GROUPING SETS, CUBE, ROLLUP and UNPIVOT, which repeat each row in several forms",
    Window: "Delta of window functions",
    TopK: "Delta of ORDER BY ... LIMIT k OFFSET m",
    Unsupported: "No delta rule",
}
"""The names of the rules in EXPLAIN, by operator."""


@dataclass(frozen=True)
class RuleFinding:
    """The verdict on one operator: whether it is maintained incrementally, and the rule and the rows that it reads, or why not."""

    operator: str
    incremental: bool
    reason: str


def findings(tree: Operator) -> tuple[RuleFinding, ...]:
    """Judge each operator of `tree`, the root first."""
    return tuple(_finding(operator) for operator in walk(tree))


def obstacle(tree: Operator, stored: bool = True) -> RuleFinding | None:
    """Return the first operator or column of `tree` that cannot be maintained, or None.

    `stored`: the stream table stands for the rows before a change, as it does unless expectations drop some.
    """
    refused = (found for found in findings(tree) if not found.incremental)
    rest = chain(_names_of_ours(tree), _states_not_stored(tree), _rows_alike(tree), _keys_alike(tree), _rounded(tree, stored))
    return next(chain(refused, rest), None)


def _keys_alike(tree: Operator) -> Iterator[RuleFinding]:
    for operator, scalar in told_apart_above(tree):
        yield RuleFinding(
            label(operator),
            False,
            f"{scalar.text} may tell equal keys of a group or a partition apart, such as the zeros 0.0 and -0.0; "
            "group by the expression itself",
        )


def _rounded(tree: Operator, stored: bool) -> Iterator[RuleFinding]:
    for operator, scalar in looked_at(tree, stored):
        yield RuleFinding(
            label(operator),
            False,
            f"{scalar.text} uses a floating sum of a window whose rounding depends on the order of equal rows: "
            "order by more columns with ROWS, or sum DECIMAL",
        )


def _names_of_ours(tree: Operator) -> Iterator[RuleFinding]:
    scanned = (c for node in walk(tree) if isinstance(node, Scan) for c in node.columns)
    for c in (*scanned, *tree.columns):
        if c.name in (WEIGHT.name, *POSITION):
            yield RuleFinding("Column", False, f"the name {c.name} belongs to the engine; give the column another")


def _states_not_stored(tree: Operator) -> Iterator[RuleFinding]:
    for step in (AggregateStep.whole("", node) for node in walk(tree) if isinstance(node, Aggregate)):
        for c in (*step.keys, *(state.column for state in step.states)):
            if "INTERVAL" in c.type or "COLLATE" in c.type:
                yield RuleFinding(label(step.aggregate), False, f"Delta cannot store the type {c.type} of a group's state")


def _rows_alike(tree: Operator) -> Iterator[RuleFinding]:
    for c in tree.columns:
        if identity(column(c.id), c.type) is None:
            yield RuleFinding("Output", False, f"rows with column {c.name} of type {c.type} cannot be told apart")


def prunes_nothing(tree: Operator, changed: frozenset[Source]) -> RuleFinding | None:
    """Return the first operator whose delta reads whole tables twice, because no key tells which rows `changed` affects."""
    for operator in walk(tree):
        # A join is linear in its left input: only a changed right one asks for everything.
        asking = operator.right if isinstance(operator, LeftJoin) else operator
        if (reason := _reads_all(operator)) and not changed.isdisjoint(sources_of(asking)) and _reads_tables(operator):
            return RuleFinding(label(operator), True, reason)
    return None


def _reads_tables(operator: Operator) -> bool:
    """Tell whether `operator` reads a table itself, not only stored rows of aggregates and recursions."""
    if isinstance(operator, Aggregate) or (isinstance(operator, Recursion) and counted(operator)):
        return False
    return isinstance(operator, Scan) or any(map(_reads_tables, children(operator)))


def _finding(operator: Operator) -> RuleFinding:
    rule = RULES[type(operator)]
    refusal: str | None = rule.refuses(operator)
    read = _reads_all(operator) or f"reads {_judged('reads', operator) or 'the changed rows of its input'}"
    notes = [note for note in (TITLES[type(operator)], read, _judged("left_open", operator)) if note]
    return RuleFinding(label(operator), refusal is None, refusal or "; ".join(notes))


def _reads_all(operator: Operator) -> str | None:
    return _judged("reads_all", operator)


def _judged(about: str, operator: Operator) -> str | None:
    """Call the function `about` of the operator's rule, if the rule has one."""
    judge: Callable[[Operator], str | None] | None = getattr(RULES[type(operator)], about, None)
    return judge(operator) if judge else None


def label(operator: Operator) -> str:
    """Name an operator for people."""
    match operator:
        case Scan(source):
            return f"Scan {source}"
        case Aggregate(keys=keys, calls=()):
            return f"Distinct ({', '.join(key.name for key in keys)})"
        case Aggregate(keys=keys, calls=calls):
            return f"Aggregate ({', '.join([*(key.value.text for key in keys), *(c.value.text for c in calls)])})"
        case Filter(conjuncts=conjuncts):
            return f"Filter ({' AND '.join(c.text for c in conjuncts)})"
        case Join(inputs=inputs, conjuncts=conjuncts):
            return f"Join of {len(inputs)} ({' AND '.join(c.text for c in conjuncts) or 'no condition'})"
        case LeftJoin(join_type=join_type, conjuncts=conjuncts):
            return f"{join_type.value.title()} join ({' AND '.join(c.text for c in conjuncts) or 'no condition'})"
        case Window(items=items):
            return f"Window ({', '.join(item.value.text for item in items)})"
        case TopK(count=count, offset=offset):
            return f"Top {count if count is not None else 'all'}{f' after {offset}' if offset else ''}"
        case Unsupported(name):
            return name
        case Generate(generator=generator):
            return f"Generate ({generator.text})"
        case _:
            return type(operator).__name__
