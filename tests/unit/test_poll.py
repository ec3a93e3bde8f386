"""A thread that looks again and again: until it is told to stop, whatever a look comes to, with the pause that is set."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from streamtable.errors import InvalidStatement
from streamtable.schedule.poll import poll
from streamtable.settings.session import REPLICATION_POLL


def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    spark = SimpleNamespace(conf={REPLICATION_POLL.key: "2"})
    pauses, looks = list[float](), list[int]()

    def stopped(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) > 3

    def look() -> None:
        looks.append(len(looks))
        if len(looks) == 1:
            raise ValueError("the catalog is away")
        spark.conf[REPLICATION_POLL.key] = "7"

    with caplog.at_level(logging.ERROR, "streamtable.scheduler"):
        poll("test", look, spark, REPLICATION_POLL, stopped).join(10)  # type: ignore[arg-type]
    assert (pauses, looks) == ([2, 2, 7, 7], [0, 1, 2])
    assert "the catalog is away" in caplog.text


def test_a_wrong_pause_is_told_to_who_starts() -> None:
    spark = SimpleNamespace(conf={REPLICATION_POLL.key: "soon"})
    with pytest.raises(InvalidStatement, match="cannot be 'soon'"):
        poll("test", lambda: None, spark, REPLICATION_POLL, lambda _: True)  # type: ignore[arg-type]
