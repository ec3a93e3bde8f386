"""The phases of a refresh: their times add up to the whole."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from streamtable.refresh import phases as module
from streamtable.refresh.phases import Phase, Phases


def test_each_phase_begins_where_the_one_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((10.1, 10.3, 10.3, 11.3, 11.5))
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    phases = Phases(10.0)
    for phase in (Phase.ANALYSE, Phase.COMPUTE, Phase.STATES, Phase.GIVEN_UP, Phase.COMPUTE):
        phases.ended(phase)
    assert phases.ms == {"analyse": 100, "compute": 400, "given up": 1000}, "one that took no time is left out"
    assert sum(phases.ms.values()) == 1500
