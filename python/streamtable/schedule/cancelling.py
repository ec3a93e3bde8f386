"""The end of refreshes that run longer than they may: their jobs are cancelled until they end."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import timedelta
from threading import Thread

from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.interface import Again, Engine, Failed

__all__ = ["CANCEL_AGAIN", "Running", "cancel_all"]

CANCEL_AGAIN = timedelta(milliseconds=500)
"""The pause between two cancels of what runs longer than it may."""

Running = Sequence[tuple[Task, Future[Refreshed | Failed | Again]]]


def cancel_all(engine: Engine, unfinished: Running) -> None:
    """Cancel the refreshes now, and on a thread of its own until all have ended.

    Spark cancels what runs at that moment, and a refresh may begin jobs later.
    """
    _cancel(engine, unfinished)
    Thread(target=_cancel_again, args=(engine, unfinished), name="streamtable scheduler cancels", daemon=True).start()


def _cancel(engine: Engine, unfinished: Running) -> None:
    for task, future in unfinished:
        if not future.done():
            engine.cancel(task)


def _cancel_again(engine: Engine, unfinished: Running) -> None:
    futures = [future for _, future in unfinished]
    while wait(futures, CANCEL_AGAIN.total_seconds()).not_done and engine.alive():
        with suppress(Exception):  # Spark may have ended meanwhile
            _cancel(engine, unfinished)
