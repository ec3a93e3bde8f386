"""`streamtable subscribe`: changes as they come, for people, as lines of JSON, or as events in Debezium's form."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

import typer

from streamtable.hosts.cli.options import AsJson, Conf, Remote, cli_context

__all__ = ["Format", "as_event", "subscribe"]

_CURSOR = "streamtable_subscribe"
_OPERATIONS = {"insert": "c", "upsert": "u", "delete": "d"}


class Format(str, Enum):
    """How rows are printed."""

    ROWS = "rows"
    JSON = "json"
    DEBEZIUM = "debezium"


def subscribe(
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="What stands behind SUBSCRIBE TO, options included.")],
    form: Annotated[Format, typer.Option("--format", "-f", help="debezium needs ENVELOPE DEBEZIUM.")] = Format.ROWS,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Print changes as they come, until UP TO or an interrupt.

    streamtable subscribe "orders ENVELOPE DEBEZIUM (KEY (id))" --format debezium
    """
    if as_json and form is Format.ROWS:
        form = Format.JSON
    with cli_context(remote, conf, as_json=form is not Format.ROWS) as context:
        context.spark.sql(f"DECLARE {_CURSOR} CURSOR FOR SUBSCRIBE TO {relation}")
        try:
            columns = context.spark.sql(f"FETCH 0 {_CURSOR}").columns
            while rows := context.spark.sql(f"FETCH 1000 {_CURSOR}").collect():
                match form:
                    case Format.ROWS:
                        context.out.rows(columns, rows)
                    case Format.JSON:
                        _lines(context.out.json, (dict(zip(columns, row, strict=True)) for row in rows))
                    case Format.DEBEZIUM:
                        _lines(context.out.json, (as_event(columns, row) for row in rows))
                context.out.flush()
        finally:
            context.spark.sql(f"CLOSE {_CURSOR}")


def _lines(write: Any, values: Iterable[Mapping[str, Any]]) -> None:
    for value in values:
        write(value)


def as_event(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row of ENVELOPE DEBEZIUM in Debezium's form; one of progress, or of a key violation, has an `op` of null."""
    if "state" not in columns:
        raise typer.BadParameter("--format debezium needs ENVELOPE DEBEZIUM (KEY (...))")
    first = columns.index("state") + 1
    values = next(v for v in range((len(columns) - first) // 2, -1, -1) if _twice(columns, v))
    keys = dict(zip(columns[first : len(columns) - 2 * values], row[first:], strict=False))
    named = dict(zip(columns, row, strict=True))

    def side(prefix: str) -> dict[str, Any]:
        names = [name.removeprefix("after_") for name in columns[len(columns) - values :]]
        return {**keys, **{name: named[prefix + name] for name in names}}

    state = named["state"]
    return {
        "before": side("before_") if state in ("upsert", "delete") else None,
        "after": side("after_") if state in ("insert", "upsert") else None,
        "source": {"connector": "streamtable", "version": named["timestamp"], "state": state, "key": keys},
        "op": _OPERATIONS.get(state),
        "ts_ms": int(time.time() * 1000),
    }


def _twice(columns: Sequence[str], values: int) -> bool:
    """Tell whether the last columns are so many with `before_` and as many with `after_`."""
    after = columns[len(columns) - values :]
    before = columns[len(columns) - 2 * values : len(columns) - values]
    names = [name.removeprefix("after_") for name in after]
    return list(after) == [f"after_{name}" for name in names] and list(before) == [f"before_{name}" for name in names]
