"""The supported pairs of Spark and Delta Lake. The build, `./run`, `configure` and the docs take them from this table.

The module imports nothing of the package or of Spark. Run with a version, it prints the requirements of that version.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

__all__ = ["PAIRS", "Pair", "is_since", "jar_name", "listed", "minor", "number", "pair_of"]


class Pair(NamedTuple):
    """A minor version of Spark, and the Delta Lake that fits.

    `tested` is the release of Spark that is compiled against and installed here. `also` are the other ends of the range of releases
    that pip may install: a wheel is tried with them.
    """

    spark: str
    delta: str
    tested: str
    also: tuple[str, ...] = ()


PAIRS = (
    Pair("4.0", "4.4.0", tested="4.0.5", also=("4.0.1",)),
    Pair("4.1", "4.4.0", tested="4.1.4"),
    Pair("4.2", "4.4.0", tested="4.2.0", also=("4.2.1",)),
)
"""The supported pairs. A checkout uses the last one by default."""


def minor(version: str) -> str:
    """Return the version of an interface: 4.2 for 4.2.0."""
    return ".".join(version.split(".")[:2])


def number(version: str) -> tuple[int, ...]:
    """Return a version of numbers alone as one that can be compared."""
    return tuple(map(int, version.split(".")))


def is_since(spark: str, first: str) -> bool:
    """Tell whether a Spark is of a minor version, or of a later one."""
    return number(minor(spark)) >= number(first)


def pair_of(spark: str) -> Pair | None:
    """Return the pair for a version of Spark, if it is supported."""
    return next((pair for pair in PAIRS if pair.spark == minor(spark)), None)


def listed() -> str:
    """Return all pairs as text."""
    return ", ".join(f"Spark {pair.spark} with Delta Lake {pair.delta}" for pair in PAIRS)


def jar_name(spark: str) -> str:
    """Return the name of the shim's jar for a version of Spark."""
    return f"streamtable-shim-{minor(spark)}.jar"


def _requirements(spark: str) -> str:
    pair = pair_of(spark)
    if pair is None:
        raise SystemExit(f"streamtable: Spark {spark} is not supported; there is {listed()}")
    return f"pyspark=={pair.tested} delta-spark=={pair.delta}"


if __name__ == "__main__":
    print(_requirements(sys.argv[1] if sys.argv[1:] else PAIRS[-1].spark))  # noqa: T201
