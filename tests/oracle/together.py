"""Two clients at once: what a test does for each of many stream tables, on two threads, which is faster and closer to real use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def together(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the results in the order of `items`; the first failure ends the test, after what has begun is through."""
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
