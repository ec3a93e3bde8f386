"""Which errors pass by themselves, and what is kept of one that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtable.delta.bridge import causes, java_exception
from streamtable.errors import ConcurrentRefresh, StreamTableError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = ["condition_of", "is_transient", "text_of"]

_LASTING = ("FileNotFoundException", "NoSuchFileException", "AccessDeniedException", "AccessControlException")
"""Trouble of the storage that stays until somebody does something."""

LONGEST_TEXT = 2000


def is_transient(error: BaseException) -> bool:
    """Tell whether the same refresh may succeed a moment later: another commit came first, or the storage was in trouble."""
    if isinstance(error, ConcurrentRefresh):
        return True
    return any(_is_trouble_of_the_storage(java) for java in causes(java_exception(error))) or (
        error.__cause__ is not None and is_transient(error.__cause__)
    )


def _is_trouble_of_the_storage(java: JavaObject) -> bool:
    kind, names = java.getClass(), list[str]()
    while kind is not None:
        names.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return "java.io.IOException" in names and not any(name.endswith(_LASTING) for name in names)


def condition_of(error: BaseException) -> str:
    """Return the error's class for programs."""
    return error.getCondition() if isinstance(error, StreamTableError) else type(error).__name__


def text_of(error: BaseException) -> str:
    """Return what people read of the error: without a stack trace, and no longer than a line of the history may be."""
    text = error.reason if isinstance(error, StreamTableError) else str(error)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
