"""Slows wrong passwords down, by user and address, so that nobody is locked out from other addresses."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Lock

__all__ = ["Slowdown"]

FREE = 3
"""The number of wrong passwords without a delay, because people mistype."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
"""Seconds before the next attempt; each wrong password doubles them."""

FORGOTTEN_AFTER = 900.0
MOST_KNOWN = 10_000
MOST_WAITING = 16
"""The number of logins that may wait at once. Each holds one of HiveServer2's threads, which others need."""


@dataclass
class _Failures:
    number: int = 0
    next: float = 0.0
    """The time of the next allowed attempt."""


class Slowdown:
    """Counts wrong passwords by user and address, the latest ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._waiting = 0
        self._checking = Counter[tuple[str, str]]()
        self._lock = Lock()
        self._checked = Condition(self._lock)

    def attempt(self, user: str, address: str, check: Callable[[], bool]) -> bool:
        """Check a password when its turn has come. If too many attempts wait, it is refused unchecked."""
        key = (user, address)
        with self._checked:
            self._checked.wait_for(lambda: self._may_begin(key))
            self._checking[key] += 1
        try:
            if not self._turn(key):
                return False
            right = check()
            with self._lock:
                if right:
                    self._failures.pop(key, None)
                else:
                    self._failed(key)
            return right
        finally:
            with self._checked:
                self._checking -= Counter({key: 1})  # a counter keeps no zeros
                self._checked.notify_all()

    def _may_begin(self, key: tuple[str, str]) -> bool:
        """Tell whether an attempt could be wrong without a delay, even if all that are checked now are wrong. Others take turns."""
        known = self._known(key)
        number = known.number if known else 0
        return number >= FREE or number + self._checking[key] < FREE

    def _turn(self, key: tuple[str, str]) -> bool:
        """Wait for the turn of an attempt. Simultaneous attempts take turns."""
        with self._lock:
            now, known = self._clock(), self._known(key)
            if not known or known.number < FREE:
                return True
            turn = max(now, known.next)
            if turn - now > LONGEST_PAUSE or self._waiting >= MOST_WAITING:
                return False
            known.next = turn + _pause(known.number)
            self._waiting += 1
        try:
            self._sleep(turn - now)
        finally:
            with self._lock:
                self._waiting -= 1
        return True

    def _known(self, key: tuple[str, str]) -> _Failures | None:
        """Return the failures that are not forgotten. The lock is held."""
        known = self._failures.get(key)
        if known and self._clock() - known.next > FORGOTTEN_AFTER:
            del self._failures[key]
            known = None
        return known

    def _failed(self, key: tuple[str, str]) -> None:
        known = self._failures.setdefault(key, _Failures())
        self._failures.move_to_end(key)
        known.number += 1
        known.next = max(known.next, self._clock() + (_pause(known.number) if known.number >= FREE else 0.0))
        if len(self._failures) > MOST_KNOWN:
            self._failures.popitem(last=False)


def _pause(failures: int) -> float:
    return float(min(FIRST_PAUSE * 2 ** min(failures - FREE, 10), LONGEST_PAUSE))
