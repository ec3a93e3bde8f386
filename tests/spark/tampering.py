"""What somebody does to a table who may write nothing but its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["record", "reshape", "tamper"]

Action = dict[str, Any]


def tamper(table: Path, **changes: str | None) -> None:
    """Commit properties to a table."""
    commits, actions = _log(table)
    metadata = _latest(actions, "metaData")
    for key, value in changes.items():
        metadata["metaData"]["configuration"][key] = value
        if value is None:
            del metadata["metaData"]["configuration"][key]
    protocol = _latest(actions, "protocol")
    if any(key.startswith("delta.constraints.") and value for key, value in changes.items()):
        told = protocol["protocol"]
        told["writerFeatures"] = sorted({*told["writerFeatures"], "checkConstraints"})
    _commit(commits, protocol, metadata)


def reshape(table: Path, change: Callable[[list[Action]], list[Action]], *features: str) -> None:
    """Commit other columns, and features that they need, to a table."""
    commits, actions = _log(table)
    metadata, protocol = _latest(actions, "metaData"), _latest(actions, "protocol")
    schema = json.loads(metadata["metaData"]["schemaString"])
    metadata["metaData"]["schemaString"] = json.dumps(schema | {"fields": change(schema["fields"])})
    told = protocol["protocol"]
    told["writerFeatures"] = sorted({*told["writerFeatures"], *features})
    _commit(commits, protocol, metadata)


def record(table: Path, frontier: Callable[[str], str], history: str | None = None) -> None:
    """Commit another frontier than the last refresh recorded, and a line of the history."""
    commits, actions = _log(table)
    domain = _latest(actions, "domainMetadata")
    domain["domainMetadata"]["configuration"] = frontier(domain["domainMetadata"]["configuration"])
    said = {"timestamp": 1, "operation": "WRITE", "operationParameters": {}, "userMetadata": history}
    _commit(commits, {"commitInfo": said}, domain)


def _log(table: Path) -> tuple[list[Path], list[Action]]:
    commits = sorted((table / "_delta_log").glob("*.json"))
    return commits, [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]


def _latest(actions: list[Action], kind: str) -> Action:
    return [action for action in actions if kind in action][-1]


def _commit(commits: list[Path], *actions: Action) -> None:
    (commits[0].parent / f"{int(commits[-1].stem) + 1:020}.json").write_text("\n".join(map(json.dumps, actions)))
