"""The pages that people write name all there is: every statement, command and state. Of lists, see test_reference.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from streamtable.hosts.cli.app import EXIT_CODES, app
from streamtable.hosts.cli.output import ExitCode
from streamtable.language.queue import ast as queue
from streamtable.language.replication import ast as replication
from streamtable.language.stream_table import ast as statements
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.subscribe import ast as subscribe
from streamtable.observe.alerts import AlertKind
from streamtable.observe.expectations import VIOLATIONS
from streamtable.observe.functions import FUNCTIONS
from streamtable.observe.health import SourceState
from streamtable.observe.replication_views import SLOT_STATUS
from streamtable.refresh.choose import Action
from streamtable.refresh.phases import Phase
from streamtable.replication.subscriptions import SyncState

DOCS = Path(__file__).parents[2] / "docs"
KEYWORDS = {
    statements.CreateStreamTable: "CREATE STREAM TABLE",
    statements.AlterStreamTable: "ALTER STREAM TABLE",
    AlterScheduler: "ALTER SCHEDULER",
    statements.DropStreamTable: "DROP STREAM TABLE",
    statements.RefreshStreamTable: "REFRESH STREAM TABLE",
    statements.RefreshStreamTables: "REFRESH STREAM TABLES",
    statements.ShowStreamTables: "SHOW STREAM TABLES",
    statements.DescribeStreamTable: "DESCRIBE STREAM TABLE",
    statements.ShowCreateStreamTable: "SHOW CREATE STREAM TABLE",
    statements.ShowRefreshHistory: "SHOW REFRESH HISTORY",
    statements.ShowDependencies: "SHOW STREAM TABLE DEPENDENCIES",
    statements.ExplainStreamTable: "EXPLAIN STREAM TABLE",
    statements.ExplainCreate: "EXPLAIN CREATE STREAM TABLE",
    statements.ExplainAlter: "EXPLAIN ALTER STREAM TABLE",
    statements.VerifyStreamTable: "VERIFY STREAM TABLE",
    statements.VerifyStreamTables: "VERIFY STREAM TABLES",
}

SUBSCRIBING = {
    subscribe.Subscribe: "SUBSCRIBE",
    subscribe.CopyToStdout: "COPY",
    subscribe.DeclareCursor: "DECLARE",
    subscribe.Fetch: "FETCH",
    subscribe.CloseCursor: "CLOSE",
}
QUEUEING = {
    queue.CreateQueue: "CREATE QUEUE",
    queue.AlterQueue: "ALTER QUEUE",
    queue.DropQueue: "DROP QUEUE",
    queue.PurgeQueue: "PURGE QUEUE",
    queue.RegisterConsumer: "REGISTER CONSUMER",
    queue.UnregisterConsumer: "UNREGISTER CONSUMER",
    queue.ShowQueues: "SHOW QUEUES",
    queue.ShowConsumers: "SHOW CONSUMERS",
    queue.NextBatch: "NEXT BATCH",
    queue.FinishBatch: "FINISH BATCH",
    queue.RetryEvents: "RETRY EVENTS",
    queue.GiveUpEvents: "GIVE UP EVENTS",
    queue.ShowDeadLetters: "SHOW DEAD LETTERS",
    queue.ReplayDeadLetters: "REPLAY DEAD LETTERS",
}
REPLICATING = {
    replication.CreatePublication: "CREATE PUBLICATION",
    replication.AlterPublication: "ALTER PUBLICATION",
    replication.DropPublication: "DROP PUBLICATION",
    replication.CreateSubscription: "CREATE SUBSCRIPTION",
    replication.AlterSubscription: "ALTER SUBSCRIPTION",
    replication.DropSubscription: "DROP SUBSCRIPTION",
    replication.ApplySubscription: "APPLY SUBSCRIPTION",
    replication.CreateReplicationSlot: "CREATE REPLICATION SLOT",
    replication.DropReplicationSlot: "DROP REPLICATION SLOT",
}
PAGES = {"reference/subscribe.md": SUBSCRIBING, "reference/queues.md": QUEUEING, "reference/replication.md": REPLICATING}


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_statement_has_keywords_here() -> None:
    assert set(KEYWORDS) == set(get_args(statements.Statement))
    assert set(SUBSCRIBING) == set(get_args(subscribe.SubscribeStatement))
    assert set(QUEUEING) == set(get_args(queue.QueueStatement))
    assert set(REPLICATING) == set(get_args(replication.ReplicationStatement))


@pytest.mark.parametrize("keywords", KEYWORDS.values())
def test_every_statement_has_a_section_and_an_example(keywords: str) -> None:
    _, _, section = page("reference/statements.md").partition(f"\n## {keywords}\n")
    section = section.partition("\n## ")[0]
    assert "```text\n" in section, f"no syntax of {keywords}"
    assert "```sql\n" in section, f"no example of {keywords}"


@pytest.mark.parametrize(
    ("name", "keywords"),
    [(name, keywords) for name, of_it in PAGES.items() for keywords in of_it.values()],
)
def test_every_other_statement_has_a_syntax_and_an_example(name: str, keywords: str) -> None:
    for language in ("text", "sql"):
        blocks = page(name).split(f"```{language}\n")[1:]
        assert any(f"\n{keywords} " in f"\n{block.partition('```')[0]}".replace(";", " ") for block in blocks), (keywords, language)


@pytest.mark.parametrize("action", Action)
def test_every_action_is_in_the_table(action: Action) -> None:
    table = page("reference/statements.md").partition("\n### Actions and reasons\n")[2].partition("\n### ")[0]
    assert f"| `{action.value}` |" in table


def test_every_command_is_in_the_table() -> None:
    words = set(re.findall(r"[\w-]+", page("reference/cli.md").partition("\n## ")[0]))
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert [name for name in group.commands if name not in words] == []


def test_every_command_takes_json_and_shows_an_example() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    commands = group.commands.items()
    assert [name for name, command in commands if not any("--json" in option.opts for option in command.params)] == []
    assert [name for name, command in commands if f"\nstreamtable {name}" not in (command.help or "")] == []


def test_every_exit_code_is_in_the_table_and_in_the_help() -> None:
    codes = [*map(int, ExitCode), 2, 130]
    assert [code for code in codes if f"\n| {code} |" not in page("reference/cli.md") or f" {code} " not in EXIT_CODES] == []


def test_the_shim_knows_the_names_of_all_table_functions() -> None:
    shim = (DOCS.parent / "jvm_shim/src/main/scala/streamtable/plumbing/TableFunctions.scala").read_text(encoding="utf-8")
    names = shim.partition("val names: Seq[String] =")[2].partition(")")[0]
    assert re.findall(r'"(\w+)"', names) == [*FUNCTIONS, VIOLATIONS.name]


@pytest.mark.parametrize("value", [*(state.value for state in SyncState), *SLOT_STATUS])
def test_every_state_of_a_subscribed_table_and_of_a_slot_is_in_a_table(value: str) -> None:
    assert f"| `{value}` |" in page("reference/replication.md")


@pytest.mark.parametrize("value", [*AlertKind, *SourceState, *Phase])
def test_every_alert_phase_and_state_of_a_source_is_in_a_table(value: AlertKind | SourceState | Phase) -> None:
    assert f"| `{value.value}` |" in page("reference/monitoring.md")
