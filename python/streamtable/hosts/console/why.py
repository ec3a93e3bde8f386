"""Why the contents of a stream table are not the query's now, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from streamtable.catalog.definition import SUSPENDED
from streamtable.hosts.words import ago, amount, cut, short
from streamtable.observe.status import Status, TableStatus

__all__ = ["why_stale"]

LETTERS = 48
"""Of a name; the list of the sources has all of it."""


def why_stale(table: TableStatus, status: Status) -> str | None:
    """Return what the contents lack, and who is to bring it; None where they lack nothing."""
    return f"{_lacking(table, status)}; {_awaited(table, status)}." if table.waits else None


def _lacking(table: TableStatus, status: Status) -> str:
    if table.fresh.data_timestamp is None:
        return "It was never filled"
    if found := [*_commits(table, status), *_behind(table, status)]:
        return f"It lacks {', '.join(found)}"
    return f"What its query reads besides tables was read {ago(table.fresh.data_timestamp, status.at)}"


def _commits(table: TableStatus, status: Status) -> Iterator[str]:
    for each in table.sources:
        if each.waiting:
            first = f", the first {ago(each.behind_since, status.at)}" if each.behind_since else ""
            yield f"{amount(each.waiting)} {'commit' if each.waiting == 1 else 'commits'} of {_name(each.source)}{first}"


def _behind(table: TableStatus, status: Status) -> Iterator[str]:
    for each in table.sources:
        source = status.table(each.source)
        if source and source.waits:
            yield f"what {_name(each.source)} lacks itself"


def _awaited(table: TableStatus, status: Status) -> str:
    if table.status == SUSPENDED:
        return "it is suspended, and nobody refreshes it before it is resumed"
    if table.next_due is None:
        return "no schedule asks for a refresh, so that somebody has to"
    if status.suspended_since:
        return f"the schedulers were suspended {ago(status.suspended_since, status.at)}: ALTER SCHEDULER RESUME"
    if table.next_due >= status.at:
        return f"the next refresh is due {ago(table.next_due, status.at)}"
    due = f"a refresh was due {ago(table.next_due, status.at)}"
    return f"{due}, and the last attempt failed" if table.trouble else f"{due}: does a scheduler run?"


def _name(source: str) -> str:
    return cut(short(source), LETTERS)
