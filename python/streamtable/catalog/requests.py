"""Requests: refreshes that REFRESH ... ASYNC leaves to a scheduler. Each is a property of its table until it is done.

A request is removed by the commit that holds its line of the history, so that it is carried out once. Two commits that change the
same property conflict, so that one scheduler takes a request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from streamtable.catalog.owners import gone
from streamtable.catalog.restored import UNREADABLE, restored

__all__ = ["LEASE", "REQUESTED", "Request", "ended", "requests_of"]

REQUESTED = "streamtable.request."
"""The prefix of the properties that hold requests; the id of the request follows."""

LEASE = timedelta(hours=1)
"""The time after which a request may be taken from a scheduler that cannot be seen from here."""


@dataclass(frozen=True)
class Request:
    """A request at a time. `by` is the process whose scheduler took it, and `taken` the time of that."""

    id: str
    at: datetime
    full: bool = False
    by: str | None = None
    taken: datetime | None = None

    def properties(self) -> dict[str, str | None]:
        """Spell the request as a property of its table."""
        told = {key: value for key, value in asdict(self).items() if key != "id"}
        return {REQUESTED + self.id: json.dumps(told, default=datetime.isoformat)}

    def free(self, now: datetime) -> bool:
        """Tell whether a scheduler may take it: nobody has it, or who had it is gone."""
        return self.by is None or self.taken is None or now > self.taken + LEASE or gone(self.by)

    def taken_by(self, owner: str | None, now: datetime) -> Request:
        """Return the request in the hands of a process, or of nobody."""
        return replace(self, by=owner, taken=now if owner else None)


def ended(request: str | None) -> dict[str, str | None]:
    """Return the change of properties that removes a request."""
    return {} if request is None else {REQUESTED + request: None}


def requests_of(properties: Mapping[str, str]) -> tuple[Request, ...]:
    """Return the requests of a table, the first one first. Who may write the table may write anything; that is no request."""
    found = list[Request]()
    for key, value in properties.items():
        if key.startswith(REQUESTED):
            with suppress(*UNREADABLE):
                found.append(restored(Request, {**json.loads(value), "id": key.removeprefix(REQUESTED)}))
    return tuple(sorted(found, key=lambda each: (each.at, each.id)))
