"""What a soak calls growth: more than pools with a bound can hold."""

from __future__ import annotations

from dataclasses import replace

from bench.sessions import Held

from streamtable.sessions.internal import MOST_IDLE

BEFORE = Held(threads=100, files=200, python_mib=100, heap_mib=300, sessions=7)


def test_a_pool_that_fills_up_to_its_bound_is_no_leak() -> None:
    filled = replace(BEFORE, sessions=7 + 2 * MOST_IDLE, heap_mib=300 + 5 * MOST_IDLE // 2)
    assert filled.grown_since(BEFORE) == []


def test_more_than_the_pool_can_hold_is_a_leak() -> None:
    leaked = Held(threads=111, files=221, python_mib=121, heap_mib=471, sessions=73)
    assert leaked.grown_since(BEFORE) == ["threads", "files", "python_mib", "heap_mib", "sessions"]


def test_what_nothing_measures_has_not_grown() -> None:
    assert replace(BEFORE, heap_mib=None, sessions=None).grown_since(BEFORE) == []
