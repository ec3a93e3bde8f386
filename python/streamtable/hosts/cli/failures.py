"""The errors with which a command ends: what each says, and which of them mean that the session is gone."""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from streamtable.errors import NotEnabled, message_of
from streamtable.jvm.failures import causes
from streamtable.sessions.remote import unanswered

__all__ = ["ERRORS_OF_SPARK", "NO_JAVA", "ended", "said"]

ERRORS_OF_SPARK = (PySparkException, Py4JJavaError)
"""The errors of statements, ours included. Java's errors without a class of PySpark stay errors of py4j."""

NO_JAVA = (Py4JError, ConnectionRefusedError, ConnectionResetError)
"""The errors of py4j when Java is gone; Py4JError has other causes too."""


def ended(error: BaseException) -> NotEnabled | None:
    """Return an error about the end of the session's Java or server, if `error` means that."""
    network = isinstance(error, (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError))
    # Of the call that was under way; what Java answers has a trace.
    cut_off = type(error) is Py4JError and "An error occurred while calling" in str(error) and "Trace:" not in str(error)
    if network or cut_off:
        return NotEnabled(
            "Java ended before the statement did; a refresh that was cut off has not happened",
            hint="where it was killed for want of memory, give it more: --conf spark.driver.memory=4g",
        )
    if unanswered(error):
        return NotEnabled("the server does not answer any more", hint="see whether it runs, and what it said last")
    return None


def said(error: BaseException) -> dict[str, str | None]:
    """Return condition, SQLSTATE and text of an error."""
    if isinstance(error, Py4JJavaError):
        error = _captured(error)
    if not isinstance(error, PySparkException):
        return {"condition": type(error).__name__, "sqlstate": None, "message": str(error)}
    return {"condition": error.getCondition(), "sqlstate": error.getSqlState(), "message": message_of(error)}


def _captured(error: Py4JJavaError) -> CapturedException:
    """Return the error as PySpark would raise it if it had a class for it.

    It is the first one in the chain with an error class: failures of tasks wrap the error that stopped the task.
    """
    for java in causes(error.java_exception):
        found = CapturedException(origin=java)
        if found.getCondition():
            return found
    return CapturedException(desc=java.toString(), stackTrace="")
