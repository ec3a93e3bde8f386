"""Errors of the storage: the storage's own text comes first, however often Spark, Delta and the metastore wrapped it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from streamtable.errors import StorageFailed
from streamtable.jvm.failures import causes, interrupted, java_exception

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = ["cannot_write", "no_space", "not_mounted", "storage_failed", "storage_trouble"]

_NO_SPACE = r"No space left on device|Disk quota exceeded|There is not enough space on the disk"
_READ_ONLY = r"Read-only file system"
_SAID = {
    _NO_SPACE: "free some space, then run the statement again",
    rf"{_READ_ONLY}|Permission denied|Operation not permitted|AccessDenied\w*|AccessControlException|in read-only mode": (
        "let this process write there, then run the statement again"
    ),
    r"Input/output error|Stale file handle|Transport endpoint is not connected|No such device|Host is down|Connection timed out": (
        "see that the storage is mounted and answers, then run the statement again"
    ),
}
"""Texts of operating systems about their storage, with the remedy of each."""

_LASTING = ("FileNotFoundException", "NoSuchFileException", "AccessDeniedException", "AccessControlException")
"""Errors of the storage that stay until somebody acts."""


def storage_failed(error: BaseException) -> StorageFailed | None:
    """Return the error in place of an exception that the storage caused, or None."""
    java = java_exception(error)
    if java is None or interrupted(error):
        return None
    for text in reversed(list(_told(error))):  # the innermost says it shortest
        for said, hint in _SAID.items():
            if found := re.search(rf"[^\n:]*(?::[^\n:]*)?\b(?:{said})", text):
                return StorageFailed(f"the storage failed: {found[0].strip()}", hint=hint)
    if not storage_trouble(java):
        return None
    hint = "try again; if it stays so, look at the storage: the log has all of it"
    return StorageFailed(f"the storage failed: {java.getClass().getSimpleName()}: {java.getMessage()}", hint=hint)


def not_mounted(folder: str, known: bool = True) -> StorageFailed | None:
    """Return the error of a folder of a local disk that is out of reach, or around which nothing is any more.

    A folder that alone is gone is no error of the storage. Java says of all of them that they are not there. Where it is not
    `known` that the folder was ever there, its path may be misspelt: then the storage is away only if the first folder on the
    path that is there is empty, as where a disk was mounted.
    """
    scheme, _, name = folder.partition(":")
    place = Path(name)
    if scheme != "file":
        return None
    around = place.parent
    if why := _trouble(around):
        if not (known or _remedy(why) or _is_empty(next(each for each in around.parents if not _trouble(each)))):
            return None
        missing = (
            "make an empty folder there, if all of it is gone for good; else mount the storage again, and run the statement again"
        )
        return StorageFailed(f"the storage failed: {around}: {why}", hint=_remedy(why) or missing)
    why = _trouble(place)
    return StorageFailed(f"the storage failed: {place}: {why}", hint=_remedy(why)) if why and _remedy(why) else None


def _trouble(place: Path) -> str | None:
    try:
        place.stat()
    except OSError as error:
        return str(error.strerror)
    return None


def _is_empty(place: Path) -> bool:
    with suppress(OSError):
        return not any(place.iterdir())
    return False


def _remedy(text: str) -> str | None:
    return next((hint for said, hint in _SAID.items() if re.search(said, text)), None)


def no_space(error: BaseException) -> bool:
    """Tell whether the disk is full."""
    return any(re.search(_NO_SPACE, text) for text in _told(error))


def cannot_write(error: BaseException) -> bool:
    """Tell whether nothing can be written, because the disk is full or read-only."""
    return any(re.search(f"{_NO_SPACE}|{_READ_ONLY}", text) for text in _told(error))


def _told(error: BaseException) -> Iterator[str]:
    """Yield the texts of an exception and its causes, without Spark's own texts, which quote tables and queries."""
    for each in causes(java_exception(error)):
        if not str(each.getClass().getName()).startswith("org.apache.spark."):
            yield str(each)


def storage_trouble(java: JavaObject) -> bool:
    """Tell whether an exception is a transient error of the storage."""
    kind, names = java.getClass(), list[str]()
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return "java.io.IOException" in names and not any(name.endswith(_LASTING) for name in names)
