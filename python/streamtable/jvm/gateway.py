"""The py4j gateway to the JVM: classes, frames, and rows that stay in the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, is_magic_member
from py4j.protocol import STATIC_PREFIX
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

__all__ = ["HANDLERS", "SHIM", "JavaRows", "frame_of", "java_class", "planned"]


SHIM = "org.apache.spark.sql.streamtable"
"""The package of the shim's classes, except the DeltaBridge, which must be in Delta's."""

HANDLERS = f"{SHIM}.Handlers"
"""The class of the shim that asks Python."""


class _StaticMethods(JavaClass):  # type: ignore[misc]  # py4j has no types
    """A Java class whose names in capitals are constants, and all others methods. py4j's own class asks the JVM for each name."""

    def __getattr__(self, name: str) -> Any:
        if is_magic_member(name) or name.isupper():
            return super().__getattr__(name)
        return JavaMember(name, None, STATIC_PREFIX + self._fqn, self._gateway_client)


def java_class(session: SparkSession | SparkContext | type[SparkContext], name: str) -> Any:
    """Return the class of the session's JVM that has this full name.

    `session._jvm.org.apache...` asks the JVM, for each part of the name, whether it is a class. For a class of ours the JVM then
    searches all of Spark's jars more than ten times.
    """
    return _StaticMethods(name, session._jvm._gateway_client)  # type: ignore[union-attr]


def frame_of(session: SparkSession, java_frame: Any) -> DataFrame:
    """Wrap a Dataset of the JVM."""
    return DataFrame(java_frame, session)


def planned(session: SparkSession, query: str) -> DataFrame:
    """Let Spark analyse a query, without running commands as session.sql does. Raises InvalidQuery for a statement."""
    return frame_of(session, java_class(session, f"{SHIM}.Queries").planned(session._jsparkSession, query))


@dataclass(frozen=True)
class JavaRows:
    """Rows that stay in the JVM: a java.util.List that only grows."""

    session: SparkSession
    list: Any

    @classmethod
    def empty(cls, session: SparkSession) -> JavaRows:
        """Return a list to be filled."""
        return cls(session, session._jvm.java.util.ArrayList())  # type: ignore[union-attr]

    def __len__(self) -> int:
        return int(self.list.size())

    def again(self) -> Any:
        """Iterate over the rows."""
        return self.list.iterator()

    def take(self, rows: Any, count: int) -> bool:
        """Move at most `count` rows from a java.util.Iterator; tell whether there were that many."""
        before = len(self)
        java_class(self.session, HANDLERS).take(rows, count, self.list)
        return len(self) - before == count
