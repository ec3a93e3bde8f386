"""What an error holds or says beside its own text."""

from __future__ import annotations

import traceback

__all__ = ["let_go", "words_of"]


def let_go(error: BaseException) -> None:
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


def words_of(error: BaseException) -> str:
    """Return an error's text without what Spark appends to its own: the plan that it could not resolve, Java's stack."""
    return str(error).partition(";\n'")[0].partition("\n\nJVM stacktrace:")[0]
