"""Errors of Spark while it computes a refresh or a comparison, as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from streamtable.errors import RefreshError, StatementCancelled
from streamtable.jvm.failures import cancelled, root_cause
from streamtable.jvm.storage import storage_failed

__all__ = ["told_of"]


@contextmanager
def told_of(what: str) -> Iterator[None]:
    """Raise StatementCancelled, StorageFailed or RefreshError in place of an error of Spark that ends `what`."""
    try:
        yield
    except (Py4JJavaError, CapturedException, RecursionError) as error:
        if cancelled(error):
            raise StatementCancelled(f"{what} was cancelled") from error
        if failed := storage_failed(error):
            raise failed from error
        raise RefreshError(f"Spark could not compute {what}: {root_cause(error)}") from error
