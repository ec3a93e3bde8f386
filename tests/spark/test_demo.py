"""`streamtable demo`, on little data: every refresh is incremental and exact, also after the crash, and nothing is left."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

from tests.spark.hosts import environment_of_commands, environment_of_quick_sessions
from tests.spark.serving import COMMAND

from streamtable.hosts.cli.demo.shop import TABLES

NAMES = [table.name for table in TABLES]


def test_the_demo_is_exact_through_a_crash_and_ends_with_the_console(tmp_path: Path) -> None:
    settings = {**environment_of_quick_sessions(), "TMPDIR": str(tmp_path), "SPARK_REMOTE": "sc://localhost:1"}
    picture = tmp_path / "demo.svg"
    command = [*COMMAND, "demo", "--rows", "20000", "--rounds", "1", "--stay", "--record", str(picture), "--json"]
    said, errors = list[dict[str, Any]](), tmp_path / "errors"
    with (
        errors.open("w") as log,
        subprocess.Popen(
            command, cwd=tmp_path, env=environment_of_commands() | settings, stdout=subprocess.PIPE, stderr=log, text=True
        ) as demo,
    ):
        assert demo.stdout is not None
        for line in demo.stdout:
            said.append(json.loads(line))
            if said[-1]["event"] == "console":
                break
        assert said and said[-1]["event"] == "console", errors.read_text()
        with build_opener(HTTPCookieProcessor()).open(said[-1]["link"]) as page:
            assert b"streamtable" in page.read()
        while "Ctrl-C ends the demo" not in errors.read_text():
            assert demo.poll() is None, errors.read_text()
            time.sleep(0.05)
        demo.terminate()
        assert demo.wait(30) == 0, errors.read_text()
    told = {kind: [each for each in said if each["event"] == kind] for kind in {each["event"] for each in said}}
    refreshed = [(each["name"], each["action"]) for each in told["refreshed"]]
    assert refreshed == [(name, "DIFFERENTIAL") for name in NAMES] * 2
    assert [each["name"] for each in told["by_hand"]] == [each["name"] for each in told["in_full"]] == NAMES
    assert [(each["name"], each["same"]) for each in told["compared"]] == [(name, True) for name in NAMES]
    assert [(each["name"], each["ok"]) for each in told["verified"]] == [(name, True) for name in NAMES]
    assert all(each["rows"] > 0 for each in told["changed"]) and len(told["changed"]) == 6
    (killed,) = told["killed"]
    rows = {each["name"]: each["rows"] for each in told["made"]}
    for each in told["refreshed"][:3]:
        rows[each["name"]] += each["rows_inserted"] - each["rows_deleted"]
    assert killed["name"] == NAMES[0] and {each["name"]: each["rows"] for each in told["found"]} == rows
    assert picture.read_text().startswith("<svg")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("streamtable")] == []
