"""The switch of a catalog's schedulers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.catalog.shared import share, shared
from streamtable.engine import clock

__all__ = ["Switch", "switch", "turn"]

_KEY = "streamtable.scheduler"


@dataclass(frozen=True)
class Switch:
    """The schedulers of the catalog are suspended since a time, or run."""

    suspended_since: datetime | None = None


def switch(spark: SparkSession) -> Switch:
    """Read the switch. A text that no statement wrote is none: the schedulers run."""
    found = shared(spark, _KEY)
    try:
        return restored(Switch, json.loads(found)) if found else Switch()
    except UNREADABLE:
        return Switch()


def turn(spark: SparkSession, suspend: bool) -> Switch:
    """Suspend the schedulers of the catalog, or let them run. What is so already stays since when it is."""
    before = switch(spark)
    if suspend is (before.suspended_since is not None):
        return before
    after = Switch(clock.now() if suspend else None)
    share(spark, _KEY, json.dumps(asdict(after), default=datetime.isoformat))
    return after
