"""The conditions under which a rule may evaluate a scalar expression on a delta, in place of the whole input."""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamtable.algebra.columns import Scalar

__all__ = ["refusal", "when_clocked"]

_INSTEAD = {
    r"\b(current_user|session_user|user)\(\)": "each user has another answer, which a view over the stream table gives",
    r"\bcurrent_time\(": "write date_format(current_timestamp(), 'HH:mm:ss')",
}
"""What to do instead of some volatile functions, by their calls."""


def refusal(scalars: Iterable[Scalar], clock: bool = False) -> str | None:
    """Return why one of `scalars` cannot be maintained, or None.

    A retraction must compute the same value as the insertion that it cancels. A volatile expression does not. An expression that
    reads the clock does so only in a rule that tells the two instants apart (`clock`).
    """
    for scalar in scalars:
        if not scalar.deterministic:
            return (
                f"volatile expression {scalar.text}: a retraction would not compute what the insertion computed{_instead(scalar)}"
            )
        if scalar.clock and not clock:
            return f"{scalar.text} depends on the clock: rows would change without a change of a source"
        if scalar.open:
            return f"{scalar.text} depends on which of equal rows comes first, and nothing decides this: order by more columns"
        if scalar.subqueries:
            return f"subquery expression ({', '.join(scalar.subqueries)}) has no delta rule yet"
    return None


def _instead(scalar: Scalar) -> str:
    found = (said for call, said in _INSTEAD.items() if re.search(call, scalar.text, re.IGNORECASE))
    return next((f"; {said}" for said in found), "")


def when_clocked(scalars: Iterable[Scalar]) -> str | None:
    """Return which rows a rule reads that tells two instants apart, if one of `scalars` reads the clock."""
    if any(scalar.clock for scalar in scalars):
        return "the changed rows of its input, and the rows whose values change with the time"
    return None
