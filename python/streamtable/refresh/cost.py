"""The cost of a refresh, differential or in full, estimated from the last refreshes of the same plan. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamtable.engine import limits
from streamtable.engine.load import Load

__all__ = ["Costs", "Ran", "costs", "full_share", "remembered", "too_much"]


@dataclass(frozen=True)
class Ran:
    """The load of one refresh and its time in milliseconds; `removes` as in `Load`."""

    differential: bool
    changed: int
    rows: int
    ms: int
    removes: bool = True


@dataclass(frozen=True)
class Costs:
    """Estimates in milliseconds."""

    differential: int
    full: int

    def __str__(self) -> str:
        return f"estimated {self.differential:,} ms, in full {self.full:,} ms"


def remembered(runs: Sequence[Ran], last: Ran) -> tuple[Ran, ...]:
    """Return the runs to keep: the last ones, and the last full one, however old, because estimates need one."""
    known = (*runs, last)
    kept, full = known[-limits.REMEMBERED_RUNS :], [ran for ran in known if not ran.differential][-1:]
    return kept if set(full) <= set(kept) else (*full, *kept[1:])


def costs(load: Load, runs: Sequence[Ran]) -> Costs | None:
    """Estimate both refreshes; None until two differential refreshes and a full one of a similar size are known.

    The cost of a full refresh is proportional to the rows. The cost of a differential one has a fixed part, the least time so far,
    and a part proportional to the changed rows. The limit for the first refreshes counts as one more observation, of a hundredth of
    the rows. Refreshes that locate rows are estimated from such refreshes, and the others from others, once there are two of the
    kind.
    """
    learnt = _learnt(load, runs)
    return Costs(round(learnt.fixed + learnt.each_row * load.changed), round(learnt.full)) if learnt else None


def full_share(runs: Sequence[Ran]) -> float | None:
    """Return the share of changed rows from which on AUTO recomputes the table, as far as earlier refreshes tell; else None.

    The table has the rows of its last refresh, and the changes are of the kind of the last differential one.
    """
    last = next((ran for ran in reversed(runs) if ran.differential), None)
    learnt = _learnt(Load(0, runs[-1].rows, removes=last.removes), runs) if last else None
    if learnt is None:
        return None
    saved = learnt.full + limits.SAVED_MILLISECONDS - learnt.fixed
    return max(saved, 0.0) / (learnt.each_row * runs[-1].rows) if learnt.each_row else None


@dataclass(frozen=True)
class _Learnt:
    """Milliseconds of a differential refresh, apart from its rows and for each changed row, and of one in full."""

    fixed: float
    each_row: float
    full: float


def _learnt(load: Load, runs: Sequence[Ran]) -> _Learnt | None:
    differential = [ran for ran in runs if ran.differential]
    alike = [ran for ran in differential if ran.removes is load.removes]
    seen = alike if len(alike) > 1 else differential
    similar = (ran for ran in runs if load.rows / limits.SIMILAR_SIZE <= ran.rows <= load.rows * limits.SIMILAR_SIZE)
    full = [ran.ms / ran.rows for ran in similar if not ran.differential and ran.rows]
    if not full or len(seen) < 2 or not load.rows:
        return None
    in_full = min(full) * load.rows
    fixed = min(ran.ms for ran in seen)
    known = 0.01 * load.rows
    taken = known * in_full / (limits.FULL_SHARE_AT_FIRST * load.rows) + sum(ran.ms - fixed for ran in seen)
    each_row = taken / (known + sum(ran.changed for ran in seen))
    return _Learnt(fixed, each_row, in_full)


def too_much(load: Load, estimated: Costs | None, share: float | None) -> str | None:
    """Return why a full refresh is better than a delta of this size, or None. A `share` set by the user replaces all estimates."""
    changed = f"{load.changed:,} changed rows for {load.rows:,} rows" + (f", most of them in {load.most}" if load.most else "")
    advice = f". {load.advice}" if load.advice else ""
    if share is not None:
        return f"{changed}, over the limit of {share:.0%}{advice}" if load.changed > share * load.rows else None
    if estimated is not None:
        return f"{changed}: {estimated}{advice}" if estimated.differential > estimated.full + limits.SAVED_MILLISECONDS else None
    over = load.changed > max(limits.FULL_SHARE_AT_FIRST * load.rows, limits.NEGLIGIBLE_ROWS)
    return f"{changed}, over the limit of {limits.FULL_SHARE_AT_FIRST:.0%}{advice}" if over else None
