"""SUBSCRIBE as a source of Structured Streaming. An offset is a logical time, so a checkpoint holds the position."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import NamedTuple, TypeVar

from pyspark.sql import DataFrame, SparkSession

from streamtable.delta.folders import read_small, write_small
from streamtable.errors import HistoryLost, InvalidStatement
from streamtable.language.names import UNREAD
from streamtable.language.parse import AnyStatement
from streamtable.language.subscribe.ast import Subscribe, WithinTimestamp
from streamtable.language.write import to_sql
from streamtable.subscribing.feed import columns_of, meaning, opened
from streamtable.subscribing.inputs import Inputs
from streamtable.subscribing.output import Output
from streamtable.subscribing.query import TEXTS
from streamtable.subscribing.relation import Relation

__all__ = ["batch", "begun", "latest", "of_stream"]


class _Begun(NamedTuple):
    """What a stream began with. `place` is its folder in its checkpoint, `tables` are the ids of its tables."""

    columns: str
    place: str
    tables: tuple[str, ...]

    @classmethod
    def read(cls, told: str) -> _Begun:
        columns, place, tables = json.loads(told)
        return cls(columns, place, tuple(tables))


def begun(spark: SparkSession, statement: AnyStatement, place: str) -> str:
    """Return the columns and the ids of the tables at the begin of a stream; `latest` and `of_stream` get them as an argument.

    `place` is the stream's folder in its checkpoint. It keeps the texts of views and functions, and the ids of the tables, to which
    the position belongs.
    """
    subscribe = _checked(statement, UNREAD)
    columns = json.loads(columns_of(spark, subscribe.relation))
    texts = _kept(spark, place, "texts", columns.get(TEXTS, {}))
    with opened(spark, subscribe.relation) as feed:
        tables = _kept(spark, place, "tables", list(feed.relation.inputs.ids))
    return json.dumps(_Begun(json.dumps({**columns, TEXTS: texts}) if texts or columns else UNREAD, place, tuple(tables)))


Kept = TypeVar("Kept", dict[str, str], list[str])


def _kept(spark: SparkSession, place: str, name: str, now: Kept) -> Kept:
    """Return what the folder of a stream keeps under a name, a map or a list. Where it has none, it keeps `now` from now on."""
    for _, _, text in read_small(spark, f"{place}/streamtable"):
        with suppress(ValueError):  # killed while it was written: nobody had been told anything
            if isinstance(known := json.loads(text), type(now)):
                return known
    _keep(spark, place, name, now)
    return now


def _keep(spark: SparkSession, place: str, name: str, now: Kept) -> None:
    write_small(spark, f"{place}/streamtable/{name}.json", json.dumps(now))


def latest(spark: SparkSession, statement: AnyStatement, told: str, start: int | None, newest: int | None = None) -> int | None:
    """Return the latest time before UP TO, for a stream that has come to `start`; None while it cannot begin.

    With `newest`, such a time: where the next batch ends, there or before it when it is far away.
    """
    stream = _Begun.read(told)
    subscribe = _checked(statement, stream.columns)
    with opened(spark, subscribe.relation) as feed:
        _same(spark, stream, subscribe, feed.relation.inputs, start)
        if newest is None:
            return _latest(subscribe, feed.relation, start)
        return _end(subscribe, feed.relation, start, newest)


def _same(spark: SparkSession, stream: _Begun, subscribe: Subscribe, inputs: Inputs, position: int | None) -> None:
    """Raise HistoryLost if a table was created again since the position. One that was replaced in its place goes on."""
    if inputs.ids == stream.tables or (known := _kept(spark, stream.place, "tables", list(inputs.ids))) == list(inputs.ids):
        return
    if position is not None and (table := inputs.recreated(known, position)):
        message = f"{table} was dropped and created again since the stream of {to_sql(subscribe)} came to {position}: "
        message += "the history of the one before is lost"
        raise HistoryLost(message, hint="begin with a new checkpoint")
    _keep(spark, stream.place, "tables", list(inputs.ids))


def _latest(subscribe: Subscribe, relation: Relation, start: int | None) -> int | None:
    inputs, times, up_to = relation.inputs, relation.inputs.times, subscribe.up_to
    begin = inputs.first(subscribe) if start is None else start
    now = inputs.latest()
    if start is None and (up_to == begin or not times.reached(begin, now)):
        return None
    time = times.of(now)
    if up_to is None or time < up_to:
        return time
    if times.inputs == 1:
        return up_to - 1
    return max((step for step in relation.steps(begin, time) if step < up_to), default=begin)


def _end(subscribe: Subscribe, relation: Relation, start: int | None, newest: int) -> int:
    if start is None and subscribe.as_of is None:
        return newest  # with the contents then
    inputs = relation.inputs
    begin = inputs.first(subscribe) if start is None else start
    if not inputs.times.reached(begin, inputs.times.versions(newest)):
        return newest  # `batch` says what is wrong
    return next(islice(relation.steps(begin, newest), relation.together - 1, None), newest)


def of_stream(spark: SparkSession, statement: AnyStatement, told: str, start: int | None, end: int) -> DataFrame:
    """Return the rows of a batch of a stream."""
    stream = _Begun.read(told)
    subscribe = _checked(statement, stream.columns)
    with opened(spark, subscribe.relation) as feed:
        _same(spark, stream, subscribe, feed.relation.inputs, end if start is None else start)
        return batch(spark, statement, stream.columns, start, end)


def batch(spark: SparkSession, statement: AnyStatement, columns: str, start: int | None, end: int) -> DataFrame:
    """Return the rows of a batch, the same at each call: the initial contents, or the changes."""
    subscribe = _checked(statement, columns)
    with opened(spark, subscribe.relation) as feed:
        relation = feed.relation
        _there(subscribe, relation.inputs, end if start is None else max(start, end))
        output = Output(relation.schema, relation.inputs.times.type, subscribe.modifier, progress=False)
        frames, position = list[DataFrame](), start
        if position is None:
            as_of, inputs = subscribe.as_of, relation.inputs
            position = end if as_of is None else inputs.begin(as_of, subscribe.at_least, subscribe.snapshot)
            if not inputs.times.reached(position, inputs.times.versions(end)):
                inputs.begin(end, at_least=False, snapshot=True)  # what the batch had held is not kept any more, and this says so
            if subscribe.snapshot:
                frames.append(output.frame(relation.snapshot(position), several=False))
        for step in relation.steps(position, end):
            with feed.lent(position, step) as changes:
                frames.append(output.frame(changes, several=False))
            position = step
        if not frames:
            frames.append(output.frame(relation.snapshot(end), several=False).limit(0))
        return reduce(DataFrame.unionAll, frames)


def _there(subscribe: Subscribe, inputs: Inputs, time: int) -> None:
    """Raise HistoryLost if the tables are behind the time in a checkpoint."""
    latest = inputs.latest()
    if not inputs.times.reached(time, latest):
        message = f"the stream of {to_sql(subscribe)} had come to {time}, and its tables have come to {inputs.times.of(latest)}: "
        message += "one of them was dropped and created again, so that the history of the one before is lost"
        raise HistoryLost(message, hint="begin with a new checkpoint")


def _checked(statement: AnyStatement, columns: str) -> Subscribe:
    assert isinstance(statement, Subscribe), "the shim puts SUBSCRIBE in front"
    if statement.progress or isinstance(statement.modifier, WithinTimestamp):
        message = "a stream has neither rows of progress nor an order within a time"
        raise InvalidStatement(message, hint="leave PROGRESS and WITHIN TIMESTAMP out; the checkpoint keeps the progress")
    return replace(statement, relation=meaning(statement.relation, columns))
