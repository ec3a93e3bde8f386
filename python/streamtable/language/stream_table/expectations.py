"""Expectations as data: what each row of a query is to meet, and what becomes of a row that does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from streamtable.language.names import Condition


class Violation(str, Enum):
    """Say what becomes of a row that does not meet an expectation: it is kept and counted, dropped and counted, or refused."""

    KEEP = "KEEP"
    DROP_ROW = "DROP ROW"
    FAIL_UPDATE = "FAIL UPDATE"


@dataclass(frozen=True)
class Expectation:
    """CONSTRAINT ... EXPECT: what each row of the query is to meet; a row meets it for which the condition is TRUE."""

    name: str
    condition: Condition
    violation: Violation = Violation.KEEP


@dataclass(frozen=True)
class AddExpectation:
    """ADD CONSTRAINT."""

    expectation: Expectation


@dataclass(frozen=True)
class DropExpectation:
    """DROP CONSTRAINT; with `if_exists` also where there is none of the name."""

    name: str
    if_exists: bool = False
