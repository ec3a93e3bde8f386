"""Runs dbt for the tests, in the environment that has it: a list of arguments as JSON per line, and the answer as a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from dbt.cli.main import dbtRunner


def told(result: Any) -> Mapping[str, Any]:
    """Return what a command did to each node: status and message."""
    nodes = getattr(result.result, "results", None) or []
    named = {each.node.name if getattr(each, "node", None) else str(each): [str(each.status), each.message] for each in nodes}
    return {"success": result.success, "nodes": named, "error": str(result.exception or "")}


def main() -> None:
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        for line in sys.stdin:
            said = told(dbtRunner().invoke(json.loads(line)))
            print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
