"""Logical times: the versions of all inputs as one number, so that a time is a full position.

Over one input the time is its version. Over several inputs, each version takes the same number of decimal digits, the first input's
come first: 12000000034 is version 12 of the first input and 34 of the second. Versions only grow, and so do times.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, DecimalType, LongType

from streamtable.errors import NotSupported

__all__ = ["Times", "Versions"]

Versions = tuple[int, ...]
"""The version of each input, in the order in which the query mentions them."""

_DIGITS = 38  # of the widest number that Spark has
_MOST_DIGITS = 9  # a billion versions are enough, and two of them fit into a BIGINT
_LEAST_DIGITS = 4  # a table has more than 999 versions soon
_HINT = "create a stream table of the query and subscribe to that: its own version is the time"


@dataclass(frozen=True)
class Times:
    """The times of a relation over `inputs` tables."""

    inputs: int

    def __post_init__(self) -> None:
        if self.digits < _LEAST_DIGITS:
            raise NotSupported(f"a query over {self.inputs} tables has no time of {_DIGITS} digits", hint=_HINT)

    @property
    def digits(self) -> int:
        """Return how many digits each version takes."""
        return 18 if self.inputs <= 1 else min(_MOST_DIGITS, _DIGITS // self.inputs)

    @property
    def type(self) -> DataType:
        """Return the type of the column `timestamp`."""
        return LongType() if self.inputs <= 2 else DecimalType(_DIGITS, 0)

    def of(self, vector: Versions) -> int:
        """Write versions as one number."""
        time = 0
        for version in vector:
            if version >= 10**self.digits:
                raise NotSupported(f"version {version} of an input does not fit into {self.digits} digits", hint=_HINT)
            time = time * 10**self.digits + version
        return time

    def reached(self, time: int, vector: Versions) -> bool:
        """Tell whether every input has come to its version at `time`."""
        return all(have >= want for have, want in zip(vector, self.versions(time), strict=True))

    def versions(self, time: int) -> Versions:
        """Read the versions back."""
        found = list[int]()
        for _ in range(self.inputs - 1):
            time, version = divmod(time, 10**self.digits)
            found.insert(0, version)
        return (time, *found) if self.inputs else ()
