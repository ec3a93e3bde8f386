"""What all hosts are asked is everything that can be asked."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

import pytest
from tests.spark.script import BRIEF, REFUSED, SCRIPT

from streamtable.errors import StatementSyntaxError
from streamtable.language.parse import parse
from streamtable.language.queue import ast as queue
from streamtable.language.replication import ast as replication
from streamtable.language.stream_table import ast as statements
from streamtable.language.subscribe import ast as subscribe
from streamtable.observe.expectations import VIOLATIONS
from streamtable.observe.functions import FUNCTIONS

KINDS = (statements.Statement, subscribe.SubscribeStatement, queue.QueueStatement, replication.ReplicationStatement)
ALTER = (statements.AlterStreamTable, replication.AlterPublication, replication.AlterSubscription)
ACTIONS = (statements.Action, replication.PublicationAction, replication.SubscriptionAction)


def test_the_script_has_every_kind_of_statement() -> None:
    parsed = []
    for text in SCRIPT:
        with suppress(StatementSyntaxError):  # Spark's own, and the wrong one
            parsed.append(parse(text))
    assert {type(each) for each in parsed} >= {kind for kinds in KINDS for kind in get_args(kinds)}
    altered = {type(each.action) for each in parsed if isinstance(each, ALTER)}
    assert altered == {action for actions in ACTIONS for action in get_args(actions)}


@pytest.mark.parametrize("name", [*FUNCTIONS, VIOLATIONS.name])
def test_the_script_calls_every_table_function(name: str) -> None:
    assert any(f" FROM {name}(" in text for text in SCRIPT)


def test_the_brief_script_is_a_part_of_the_whole_with_each_family() -> None:
    remaining = iter(SCRIPT)
    assert all(each in remaining for each in BRIEF)
    parsed = []
    for text in BRIEF:
        with suppress(StatementSyntaxError):
            parsed.append(parse(text))
    assert all(any(isinstance(each, get_args(kinds)) for each in parsed) for kinds in KINDS)
    assert len([each for each in BRIEF if each in REFUSED]) > len(REFUSED) / 2
