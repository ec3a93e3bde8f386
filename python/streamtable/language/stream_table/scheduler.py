"""ALTER SCHEDULER: the switch of a catalog's schedulers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AlterScheduler"]


@dataclass(frozen=True)
class AlterScheduler:
    """ALTER SCHEDULER SUSPEND | RESUME, of all schedulers that serve the catalog."""

    suspend: bool
