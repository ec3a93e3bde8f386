"""What a scalar expression must be so that a rule may evaluate it on a delta instead of on the whole input."""

from __future__ import annotations

from collections.abc import Iterable

from streamtable.algebra.columns import Scalar

__all__ = ["refusal", "when_clocked"]


def refusal(scalars: Iterable[Scalar], clock: bool = False) -> str | None:
    """Return why one of `scalars` cannot be maintained, or None.

    A retraction must compute what the insertion that it cancels computed; a volatile expression would not, and one that reads the
    clock does only in a rule that tells the two instants apart (`clock`).
    """
    for scalar in scalars:
        if not scalar.deterministic:
            return f"volatile expression {scalar.text}: a retraction would not compute what the insertion computed"
        if scalar.clock and not clock:
            return f"{scalar.text} depends on the clock: rows would change without a change of a source"
        if scalar.open:
            return f"{scalar.text} depends on which of equal rows comes first, and nothing decides that: order by more columns"
        if scalar.subqueries:
            return f"subquery expression ({', '.join(scalar.subqueries)}) has no delta rule yet"
    return None


def when_clocked(scalars: Iterable[Scalar]) -> str | None:
    """Say what a rule reads that tells two instants apart, where one of `scalars` makes it."""
    if any(scalar.clock for scalar in scalars):
        return "what changed of its input, and the rows for which the time makes a difference"
    return None
