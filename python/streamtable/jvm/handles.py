"""Python's handles of objects in the JVM. Each is freed when its last reference goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaMember, JavaObject, is_magic_member
from py4j.protocol import REFERENCE_TYPE, register_output_converter
from pyspark.sql import SparkSession

__all__ = ["catalog_of", "keep_no_cycles", "local_property", "namespace_of"]


class _Handle(JavaObject):  # type: ignore[misc]  # py4j has no types
    """A Java object that does not keep its methods.

    py4j's own class keeps each called method, and the method refers to the object. Python searches for such cycles only after
    tens of thousands of new objects. Until then the JVM would hold every session, plan and broadcast table that was used.
    """

    def __getattr__(self, name: str) -> Any:
        if is_magic_member(name):
            raise AttributeError(name)
        if self._auto_field:  # of somebody else's gateway: which names are fields is asked once and kept
            return super().__getattr__(name)
        return JavaMember(name, self, self._target_id, self._gateway_client)


def keep_no_cycles() -> None:
    """Make py4j use this class in this process from now on."""
    register_output_converter(REFERENCE_TYPE, _Handle)


def catalog_of(session: SparkSession) -> Any:
    """Return the session's catalog in the JVM. PySpark's catalog is in a cycle with the session."""
    return session._jsparkSession.catalog()


def namespace_of(session: SparkSession) -> tuple[str, str]:
    """Return the names of the session's current catalog and database."""
    catalog = catalog_of(session)
    return catalog.currentCatalog(), catalog.currentDatabase()


@contextmanager
def local_property(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Set a property of the jobs of this thread, and restore it after the block."""
    context = spark.sparkContext
    before = context.getLocalProperty(key)
    context.setLocalProperty(key, value)
    try:
        yield
    finally:
        context.setLocalProperty(key, before)  # type: ignore[arg-type]
