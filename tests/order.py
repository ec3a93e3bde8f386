"""In which order files begin: those without Spark, then those that take minutes, so that the two processes end together."""

from __future__ import annotations

LONGEST = ()
"""Files with Spark that take more than a minute, the longest first: one that began last would leave the other process without work."""

WITHOUT_SPARK = ("tests/repository/", "tests/unit/")


def rank(node: str) -> int:
    """Return when the file of a test begins, as a number to sort by; the order of tests within a file is its own."""
    file = node.partition("::")[0]
    if file.startswith(WITHOUT_SPARK):
        return -1
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)
