"""SUBSCRIBE as a source of Structured Streaming. An offset is a time with its commits, so a checkpoint holds the position."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from streamtable.delta.folders import read_small, write_small
from streamtable.errors import HistoryLost, InvalidStatement
from streamtable.language.names import UNREAD
from streamtable.language.parse import AnyStatement
from streamtable.language.subscribe.ast import Subscribe, WithinTimestamp
from streamtable.language.write import to_sql
from streamtable.subscribing.feed import Feed, columns_of, meaning, opened
from streamtable.subscribing.inputs import Inputs
from streamtable.subscribing.output import Output
from streamtable.subscribing.query import TEXTS
from streamtable.subscribing.relation import Relation

__all__ = ["batch", "begun", "latest", "of_stream"]


_ANEW = "begin with a new checkpoint"


class _Begun(NamedTuple):
    """What a stream began with. `place` is its folder in its checkpoint, `tables` are the ids of its tables."""

    columns: str
    place: str
    tables: tuple[str, ...]

    @classmethod
    def read(cls, told: str) -> _Begun:
        columns, place, tables = json.loads(told)
        return cls(columns, place, tuple(tables))


class _Offset(NamedTuple):
    """A time, and what tells its commits from others of their numbers. Offsets of earlier releases are the time alone."""

    time: int
    commits: tuple[str | None, ...] = ()

    @classmethod
    def read(cls, text: str) -> _Offset:
        known = json.loads(text)
        return cls(known) if isinstance(known, int) else cls(known["time"], tuple(known["commits"]))

    def __str__(self) -> str:
        return json.dumps(self._asdict())


def begun(spark: SparkSession, statement: AnyStatement, place: str) -> str:
    """Return the columns and the ids of the tables at the begin of a stream; `latest` and `of_stream` get them as an argument.

    `place` is the stream's folder in its checkpoint. It keeps the texts of views and functions, and the ids of the tables, to which
    the position belongs.
    """
    subscribe = _checked(statement, UNREAD)
    columns = json.loads(columns_of(spark, subscribe.relation))
    with opened(spark, subscribe.relation) as feed:
        ids = feed.relation.inputs.ids
    kept = list(_kept(spark, place))
    texts = next((each for each in kept if isinstance(each, dict)), None)
    if texts is None:
        texts = columns.get(TEXTS, {})
        write_small(spark, f"{place}/streamtable/texts.json", json.dumps(texts))
    several = [each for each in kept if isinstance(each, list)]
    if not several:
        _keep(spark, place, ids)
    same = not several or list(ids) in several
    return json.dumps(_Begun(json.dumps({**columns, TEXTS: texts}) if texts or columns else UNREAD, place, ids if same else ()))


def _kept(spark: SparkSession, place: str) -> Iterator[dict[str, str] | list[str]]:
    """Yield what the folder of a stream keeps: the texts that it began with, and ids of tables, one list for each that it had."""
    for _, _, text in read_small(spark, f"{place}/streamtable"):
        with suppress(ValueError):  # killed while it was written: nobody had been told anything
            if isinstance(known := json.loads(text), (dict, list)):
                yield known


def _keep(spark: SparkSession, place: str, ids: tuple[str, ...]) -> None:
    """Keep the ids of the tables, in a file of their own: one that is written anew may be lost."""
    name = hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:32]
    write_small(spark, f"{place}/streamtable/tables-{name}.json", json.dumps(ids))


def latest(spark: SparkSession, statement: AnyStatement, told: str, start: str | None, newest: str | None = None) -> str | None:
    """Return the latest offset before UP TO, for a stream that has come to `start`; None while it cannot begin.

    With `newest`, such an offset: where the next batch ends, there or before it when it is far away.
    """
    stream = _Begun.read(told)
    subscribe = _checked(statement, stream.columns)
    with opened(spark, subscribe.relation) as feed:
        known = {_Offset.read(each): each for each in (start, newest) if each is not None}
        position = None if start is None else _Offset.read(start)
        _same(spark, stream, subscribe, feed.relation.inputs, position)
        begin = None if position is None else position.time
        if newest is None:
            time = _latest(subscribe, feed.relation, begin)
        else:
            time = _end(subscribe, feed.relation, begin, _Offset.read(newest).time)
        if time is None:
            return None
        same = (text for offset, text in known.items() if offset.time == time)  # one that differs would be another batch
        return next(same, None) or str(_Offset(time, feed.relation.inputs.commits_of(time)))


def _same(spark: SparkSession, stream: _Begun, subscribe: Subscribe, inputs: Inputs, position: _Offset | None) -> None:
    """Raise HistoryLost if a table was created again since the position, or an older copy took its place.

    One that was replaced in its place goes on.
    """
    known = [] if inputs.ids == stream.tables else [each for each in _kept(spark, stream.place) if isinstance(each, list)]
    same = inputs.ids == stream.tables or list(inputs.ids) in known
    if position is not None:
        name, came = f"the stream of {to_sql(subscribe)}", f"came to {position.time}"
        if not same and known:
            if len(known[0]) != len(inputs.ids):
                message = f"{name} reads other tables than when it {came}: its position means nothing"
                raise HistoryLost(message, hint=_ANEW)
            if table := inputs.recreated(known[0], position.time):
                message = f"{table} was dropped and created again since {name} {came}: the history of the one before is lost"
                raise HistoryLost(message, hint=_ANEW)
        if table := inputs.overwritten(position.time, position.commits):
            message = f"{table} has other commits than when {name} {came}: an older copy took its place, or it was created again. "
            raise HistoryLost(message + "The history of the one before is lost", hint=_ANEW)
    if not same:
        _keep(spark, stream.place, inputs.ids)


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


def of_stream(spark: SparkSession, statement: AnyStatement, told: str, start: str | None, end: str) -> DataFrame:
    """Return the rows of a batch of a stream."""
    stream = _Begun.read(told)
    subscribe = _checked(statement, stream.columns)
    with opened(spark, subscribe.relation) as feed:
        known = [None if each is None else _Offset.read(each) for each in (start, end)]
        for each in known:
            _same(spark, stream, subscribe, feed.relation.inputs, each)
        begin, until = (None if each is None else each.time for each in known)
        assert until is not None, "a batch has an end"
        return _batch(feed, subscribe, begin, until)


def batch(spark: SparkSession, statement: AnyStatement, columns: str, start: int | None, end: int) -> DataFrame:
    """Return the rows of a batch, the same at each call: the initial contents, or the changes."""
    subscribe = _checked(statement, columns)
    with opened(spark, subscribe.relation) as feed:
        return _batch(feed, subscribe, start, end)


def _batch(feed: Feed, subscribe: Subscribe, start: int | None, end: int) -> DataFrame:
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
