"""The exception tree: every way in which streamtable says no.

    StreamTableError
    ├── StatementSyntaxError      the statement is not ours to read: line, column, underline, what was expected
    ├── InvalidStatement          it reads, but asks for something impossible (unknown table, duplicate column, bad schedule)
    │   ├── InvalidQuery          Spark rejects the query after AS; Spark's own message is kept
    │   ├── StreamTableExists     the name is taken
    │   ├── StreamTableNotFound   no such stream table; near names are listed
    │   ├── DependencyCycle       a stream table would read itself
    │   ├── DependentsExist       other stream tables still read this one
    │   ├── CursorExists          the session has declared a cursor of this name
    │   ├── CursorNotFound        the session has declared no cursor of this name
    │   ├── QueueExists           the name is taken
    │   ├── QueueNotFound         no such queue; near names are listed
    │   ├── QueueInUse            the queue still has consumers
    │   ├── ConsumerExists        the queue has a consumer of this name
    │   ├── ConsumerNotFound      the queue has no consumer of this name
    │   ├── ReplicationObjectExists    the name is taken
    │   └── ReplicationObjectNotFound  no such publication, subscription or slot; near names are listed
    ├── NotIncremental            a valid query, but DIFFERENTIAL was asked for and an operator cannot be maintained
    ├── DefinitionNotAccepted     a definition was changed past the catalog, or is not of it; ACCEPT DEFINITION accepts it
    ├── DefinitionUnreadable      the definition of one table cannot be read
    ├── DirectWriteRefused        INSERT, UPDATE, DELETE, MERGE, TRUNCATE or ALTER TABLE on a stream table
    ├── RefreshError              a refresh could not be finished; the table keeps its last good state
    │   ├── SourceUnavailable     a source table is gone, or is no Delta table
    │   ├── SourceChanged         a source changed its shape so that the query no longer fits
    │   ├── HistoryLost           the change history since the frontier is no longer complete
    │   ├── ConcurrentRefresh     another refresh committed first, or a source got other columns
    │   ├── ReplicationConflict   a subscription cannot apply a change
    │   ├── ExpectationFailed     rows fail an expectation with ON VIOLATION FAIL UPDATE; some of them are shown
    │   └── StreamTableSuspended  the table is suspended; RESUME it first
    ├── StorageFailed             the storage failed in a statement
    ├── StatementFailed           Spark failed in a statement that is no refresh; its own text is kept
    ├── StatementCancelled        the client cancelled the statement, or its connection broke
    ├── NotSupported              valid and understood, but not built yet
    ├── NotEnabled                the session lacks a jar, a setting or the Python side; the text says what to add
    └── InternalError             our bug; the text says how to report it

Every error carries a condition (its error class for programs), an SQLSTATE, and a text for people in the order
what, where, why, what to do next. `StreamTableError` derives from `pyspark.errors.PySparkException`, so code that
catches Spark's own errors catches ours.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from heapq import nlargest

from pyspark.errors import PySparkException

__all__ = [
    "ConcurrentRefresh",
    "ConsumerExists",
    "ConsumerNotFound",
    "CursorExists",
    "CursorNotFound",
    "DefinitionNotAccepted",
    "DefinitionUnreadable",
    "DependencyCycle",
    "DependentsExist",
    "DirectWriteRefused",
    "ExpectationFailed",
    "HistoryLost",
    "InternalError",
    "InvalidQuery",
    "InvalidStatement",
    "NotEnabled",
    "NotIncremental",
    "NotSupported",
    "QueueExists",
    "QueueInUse",
    "QueueNotFound",
    "RefreshError",
    "ReplicationConflict",
    "ReplicationObjectExists",
    "ReplicationObjectNotFound",
    "SourceChanged",
    "SourceUnavailable",
    "StatementCancelled",
    "StatementFailed",
    "StatementSyntaxError",
    "StorageFailed",
    "StreamTableError",
    "StreamTableExists",
    "StreamTableNotFound",
    "StreamTableSuspended",
    "all_errors",
    "near_names",
]


class StreamTableError(PySparkException):
    """The base of all errors, never itself; `condition`, `sqlstate` and `remedy` are class constants, the message is for people."""

    condition = "STREAMTABLE_ERROR"
    sqlstate = "XX000"
    remedy = "catch it to catch all"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.reason = message
        self.hint = hint
        text = message + (f"\nWhat to do: {hint}" if hint else "")
        parts = {"reason": message, **({"hint": hint} if hint else {})}
        super().__init__(message=f"{text}\nSQLSTATE: {self.sqlstate}", messageParameters=parts)  # str() puts [condition] in front

    def getCondition(self) -> str:  # noqa: N802  (pyspark's own spelling)
        """Return the error class, as pyspark's exceptions do."""
        return self.condition

    def getErrorClass(self) -> str:  # noqa: N802
        """Return the error class under pyspark's older name."""
        return self.condition

    def getSqlState(self) -> str:  # noqa: N802
        """Return the SQLSTATE."""
        return self.sqlstate


class StatementSyntaxError(StreamTableError):
    """The statement does not parse; the message shows the line with an underline."""

    condition = "STREAMTABLE_SYNTAX_ERROR"
    sqlstate = "42601"
    remedy = "look at the underlined place, which shows what was expected"


class InvalidStatement(StreamTableError):
    """The statement parses but cannot be carried out as written: two columns of one name, an impossible schedule."""

    condition = "STREAMTABLE_INVALID_STATEMENT"
    sqlstate = "42000"
    remedy = "correct what the text names"


class InvalidQuery(InvalidStatement):
    """Spark rejects the query after AS, and its own message is kept; or the text is a statement and no query."""

    condition = "STREAMTABLE_INVALID_QUERY"
    remedy = "correct the query"


class NotAllowed(StreamTableError):
    """A server does not let its clients use this: it runs code, or reaches beyond tables."""

    condition = "STREAMTABLE_NOT_ALLOWED"
    sqlstate = "42501"
    remedy = "do without it, or have the server's owner allow it in [server]"


class StreamTableExists(InvalidStatement):
    """The name belongs to a table or view already."""

    condition = "STREAMTABLE_ALREADY_EXISTS"
    sqlstate = "42P07"
    remedy = "choose another name; OR REPLACE replaces a stream table"


class StreamTableNotFound(InvalidStatement):
    """No stream table has this name."""

    condition = "STREAMTABLE_NOT_FOUND"
    sqlstate = "42P01"
    remedy = "take one of the near names that the text lists, or look at SHOW STREAM TABLES"


class DependencyCycle(InvalidStatement):
    """The query would read, directly or through others, the stream table that it defines."""

    condition = "STREAMTABLE_DEPENDENCY_CYCLE"
    sqlstate = "42P19"
    remedy = "read another table"


class DependentsExist(InvalidStatement):
    """Stream tables still read this one, or a source whose DDL `spark.streamtable.blockSourceDdl` blocks."""

    condition = "STREAMTABLE_DEPENDENTS_EXIST"
    sqlstate = "2BP01"
    remedy = "do what the text names: drop or change the readers first, keep the columns and layout, or DROP ... CASCADE"


class CursorExists(InvalidStatement):
    """The session has declared a cursor of this name."""

    condition = "STREAMTABLE_CURSOR_EXISTS"
    sqlstate = "42P03"
    remedy = "CLOSE it, or choose another name"


class CursorNotFound(InvalidStatement):
    """The session has declared no cursor of this name."""

    condition = "STREAMTABLE_CURSOR_NOT_FOUND"
    sqlstate = "34000"
    remedy = "DECLARE it; a cursor is its session's own"


class QueueExists(InvalidStatement):
    """The name belongs to a table, a view or a queue already."""

    condition = "STREAMTABLE_QUEUE_EXISTS"
    sqlstate = "42P07"
    remedy = "choose another name"


class QueueNotFound(InvalidStatement):
    """No queue has this name."""

    condition = "STREAMTABLE_QUEUE_NOT_FOUND"
    sqlstate = "42P01"
    remedy = "take one of the near names that the text lists, or look at SHOW QUEUES"


class QueueInUse(InvalidStatement):
    """The queue still has consumers."""

    condition = "STREAMTABLE_QUEUE_IN_USE"
    sqlstate = "55006"
    remedy = "UNREGISTER CONSUMER, or DROP QUEUE ... FORCE"


class ConsumerExists(InvalidStatement):
    """The queue has a consumer of this name."""

    condition = "STREAMTABLE_CONSUMER_EXISTS"
    sqlstate = "42710"
    remedy = "choose another name"


class ConsumerNotFound(InvalidStatement):
    """The queue has no consumer of this name."""

    condition = "STREAMTABLE_CONSUMER_NOT_FOUND"
    sqlstate = "42704"
    remedy = "take one of the near names that the text lists, or REGISTER CONSUMER"


class ReplicationObjectExists(InvalidStatement):
    """The name belongs to a table, a view, a publication, a subscription or a slot already."""

    condition = "STREAMTABLE_REPLICATION_OBJECT_EXISTS"
    sqlstate = "42710"
    remedy = "choose another name, or DROP it"


class ReplicationObjectNotFound(InvalidStatement):
    """No publication, subscription or replication slot has this name."""

    condition = "STREAMTABLE_REPLICATION_OBJECT_NOT_FOUND"
    sqlstate = "42704"
    remedy = "take one of the near names that the text lists, or look at `publications()` and the like"


class NotIncremental(StreamTableError):
    """DIFFERENTIAL was asked for, and an operator has no delta rule; or DIFFERENTIAL STRICT, and a refresh must recompute."""

    condition = "STREAMTABLE_NOT_INCREMENTAL"
    sqlstate = "0A000"
    remedy = "the text says why: take REFRESH MODE AUTO, or another query; under STRICT, REFRESH ... FULL recomputes once"


class DirectWriteRefused(StreamTableError):
    """INSERT, UPDATE, DELETE, MERGE or ALTER TABLE of a stream table, which its refreshes alone write."""

    condition = "STREAMTABLE_DIRECT_WRITE"
    sqlstate = "42809"
    remedy = "change its sources; ALTER STREAM TABLE and DROP STREAM TABLE change the table itself"


class DefinitionNotAccepted(StreamTableError):
    """The log of a table holds a definition that the catalog has not accepted; nothing of it is run."""

    condition = "STREAMTABLE_DEFINITION_NOT_ACCEPTED"
    sqlstate = "42501"
    remedy = "find out who wrote it; ALTER STREAM TABLE ... ACCEPT DEFINITION, or drop the table"


class DefinitionUnreadable(StreamTableError):
    """The definition of one table cannot be read: a part is missing, is no JSON, or is no statement of this version."""

    condition = "STREAMTABLE_DEFINITION_UNREADABLE"
    sqlstate = "XX001"
    remedy = "use the version that wrote it, or drop the table and create it again"


class RefreshError(StreamTableError):
    """A refresh could not be finished; the table keeps its last good state."""

    condition = "STREAMTABLE_REFRESH_FAILED"
    sqlstate = "58000"
    remedy = "correct the cause and refresh again; the table keeps its last good state"


class SourceUnavailable(RefreshError):
    """The files of a source, or of the stream table itself, are gone or cannot be read, or it is no Delta table."""

    condition = "STREAMTABLE_SOURCE_UNAVAILABLE"
    sqlstate = "42P01"
    remedy = "restore it, or drop the stream table"


class SourceChanged(RefreshError):
    """A source changed its shape so that the stored query no longer gives the table's columns."""

    condition = "STREAMTABLE_SOURCE_CHANGED"
    sqlstate = "42804"
    remedy = "put the source right, or ALTER STREAM TABLE ... AS a query that fits"


class HistoryLost(RefreshError):
    """The log since the frontier is no longer complete (cleaned up, vacuumed, recreated, or replaced by an older copy)."""

    condition = "STREAMTABLE_HISTORY_LOST"
    sqlstate = "55000"
    remedy = "subscribe anew, or do what the text names; a refresh recomputes. Keep the log longer than a reader's longest pause"


class ConcurrentRefresh(RefreshError):
    """Another refresh of the same table committed first, or a source got other columns meanwhile; nothing was written."""

    condition = "STREAMTABLE_CONCURRENT_REFRESH"
    sqlstate = "40001"
    remedy = "refresh again"


class ReplicationConflict(RefreshError):
    """A change cannot be applied to the subscriber's table; `position` is the version of the publisher's that made it.

    `insert_exists` says that the row is there already, which `subscription_stats()` counts.
    """

    condition = "STREAMTABLE_REPLICATION_CONFLICT"
    sqlstate = "23505"
    remedy = "delete the row, or ALTER SUBSCRIPTION ... SKIP"

    def __init__(self, message: str, position: int, *, insert_exists: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.position = position
        self.insert_exists = insert_exists


class ExpectationFailed(RefreshError):
    """Rows of the query fail an expectation with ON VIOLATION FAIL UPDATE; some of them are shown."""

    condition = "STREAMTABLE_EXPECTATION_FAILED"
    sqlstate = "23514"
    remedy = "correct the sources, or take ON VIOLATION DROP ROW; `expectation_violations()` returns such rows"


class StreamTableSuspended(RefreshError):
    """The stream table is suspended."""

    condition = "STREAMTABLE_SUSPENDED"
    sqlstate = "55000"
    remedy = "put the cause right, which the text names, then ALTER STREAM TABLE ... RESUME"


class StorageFailed(StreamTableError):
    """The storage failed in a statement, a refresh included: no space, read-only, no permission, not mounted."""

    condition = "STREAMTABLE_STORAGE_FAILED"
    sqlstate = "58030"
    remedy = "correct the cause, which the text names first, and give the same statement again"


class StatementFailed(StreamTableError):
    """Spark failed while a statement other than a refresh was carried out; its own text is kept."""

    condition = "STREAMTABLE_STATEMENT_FAILED"
    sqlstate = "58000"
    remedy = "correct what the text names"


class StatementCancelled(StreamTableError):
    """The client cancelled the statement, or its connection broke."""

    condition = "STREAMTABLE_CANCELLED"
    sqlstate = "57014"
    remedy = "give the statement again; a FETCH goes on where it was, as nothing was taken"


class NotSupported(StreamTableError):
    """Valid and understood, but this version cannot do it."""

    condition = "STREAMTABLE_NOT_SUPPORTED"
    sqlstate = "0A000"
    remedy = "do what the text names instead"


class NotEnabled(StreamTableError):
    """The session lacks a jar, a setting or the Python side that stream tables need."""

    condition = "STREAMTABLE_NOT_ENABLED"
    sqlstate = "55000"
    remedy = "make the session with `configure`, or do what the text says"


class InternalError(StreamTableError):
    """Our bug."""

    condition = "STREAMTABLE_INTERNAL_ERROR"
    sqlstate = "XX000"
    remedy = "report it, with the statement and the text"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        report = "this is a defect of streamtable; please report it with the statement and this text"
        super().__init__(message, hint=hint or report)


def all_errors(root: type[StreamTableError] = StreamTableError) -> tuple[type[StreamTableError], ...]:
    """Return `root` and every class below it, parents first."""
    return (root, *(found for child in root.__subclasses__() for found in all_errors(child)))


def near_names(wanted: str, existing: Iterable[str]) -> str:
    """Return a sentence that lists the existing names nearest to `wanted`, or an empty text when none is near.

    Names are compared word by word, whatever the order of the words; of a full name the last part counts.
    """
    words = _words(wanted)
    near = [(_likeness(words, _words(name)), name) for name in existing]
    best = nlargest(3, (each for each in near if each[0] >= _NEAR), key=lambda each: each[0])
    return f" Did you mean {', '.join(f'`{name}`' for _, name in best)}?" if best else ""


_NEAR, _SHARED = 0.67, 0.15
"""How much alike names must be, and what a word that both have adds."""


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.rpartition(".")[2].casefold()) or [name.casefold()]


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how much of each has a word in the other that is like it; long words weigh more."""
    pairs = ((word, there) for here, there in ((one, other), (other, one)) for word in here)
    alike = sum(len(word) * max(_alike(word, each) for each in there) for word, there in pairs) / sum(map(len, (*one, *other)))
    return alike + (_SHARED if set(one) & set(other) else 0.0)


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def clear_frames(error: BaseException) -> None:
    """Forget what the functions that an error has left still hold; its text and its lines stay.

    An error refers to them by its traceback, and they refer to it: until Python happens to look for such cycles, or for as long
    as somebody keeps the error, every frame of a failed refresh would stay, and in the JVM its plan and its broadcast tables.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            left += [each.__cause__, each.__context__]


def message_of(error: BaseException) -> str:
    """Return an error's text without what Spark appends to its own: the plan that it could not resolve, Java's stack."""
    return str(error).partition(";\n'")[0].partition("\n\nJVM stacktrace:")[0]
