"""The demo without Spark: what its events come to, what is drawn of them, and its processes, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from streamtable.hosts.cli.app import app
from streamtable.hosts.cli.demo import play as playing
from streamtable.hosts.cli.demo.play import play, record
from streamtable.hosts.cli.demo.shop import TABLES, changes, sources
from streamtable.hosts.cli.demo.story import Story
from streamtable.hosts.cli.demo.view import view
from streamtable.hosts.cli.demo.worker import ROUNDS_UNTIL, Demo, settings_in
from streamtable.hosts.cli.output import ExitCode, Printer
from streamtable.settings.spark import CATALOG_KIND, METASTORE, SESSION_CATALOG, WAREHOUSE, settings

LINK = "http://127.0.0.1:1/?token=t"
REFRESHED = {"event": "refreshed", "name": "totals", "seconds": 0.5, "action": "DIFFERENTIAL", "reason": "", "rows_inserted": 7}
FIRST: list[dict[str, Any]] = [
    {"event": "step", "text": "starting Spark"},
    {"event": "started"},
    {"event": "loaded", "name": "orders", "rows": 1000},
    {"event": "made", "name": "totals", "rows": 100, "seconds": 2.0},
    {"event": "round", "turn": 1},
    {"event": "changed", "what": "new orders", "rows": 5},
    {**REFRESHED, "rows_deleted": 4},
    {"event": "by_hand", "name": "totals", "seconds": 1.0},
    {"event": "in_full", "name": "totals", "seconds": 2.0},
    {"event": "compared", "name": "totals", "same": True},
    {"event": "round", "turn": 2},
    {"event": "changed", "what": "orders cancelled", "rows": 5},
    {"event": "killed", "name": "totals"},
]
SECOND: list[dict[str, Any]] = [
    {"event": "found", "name": "totals", "rows": 103},
    {**REFRESHED, "rows_deleted": 0},
    {"event": "verified", "name": "totals", "ok": True, "missing": 0, "surplus": 0, "seconds": 1.0},
    {"event": "console", "link": LINK, "text": f"look around: {LINK}"},
]
PROGRAM = """
import os, signal, sys, time
part = sys.argv[1]
assert sys.argv[2:] == ["1000", "0"], sys.argv
print("not an event")
print({first!r} if part == "play" else {second!r}, flush=True)
if part == "play":
    os.killpg(0, signal.SIGKILL)
time.sleep(60)
"""


def told(story: Story, events: list[dict[str, Any]]) -> Story:
    for n, event in enumerate(events):
        story.hear(event, float(n))
    return story


def drawn(story: Story, now: float) -> str:
    console = Console(width=80)
    with console.capture() as seen:
        console.print(view(story, now))
    return seen.get()


def workers(monkeypatch: pytest.MonkeyPatch, second: list[dict[str, Any]] = SECOND, program: str = PROGRAM) -> None:
    lines = ["\n".join(map(json.dumps, events)) for events in (FIRST, second)]
    monkeypatch.setattr(playing, "WORKER", (sys.executable, "-c", program.format(first=lines[0], second=lines[1])))


def test_a_change_makes_a_table_stale_and_a_refresh_makes_it_fresh() -> None:
    story = told(Story(), FIRST[:6])
    assert "stale 4 s" in drawn(story, 9.0) and "times of round" not in drawn(story, 9.0)
    told(story, FIRST[6:9])
    shown = drawn(story, 9.0)
    assert "fresh" in shown and "stale" not in shown and "+7 -4 rows" in shown and " 103 " in shown
    assert "0.50 s" in shown and "1.00 s 2.0x" in shown and "2.00 s 4.0x" in shown
    assert "times of round 1 (cold)" in shown and story.lines["totals"].exact is None
    told(story, FIRST[9:10])
    assert not story.exact and "MERGE has the same rows" in drawn(story, 9.0)
    assert told(story, SECOND[2:3]).exact


def test_a_crash_is_shown_with_what_was_left_and_what_became_of_it() -> None:
    story = told(Story(), FIRST)
    assert story.killed and story.lines["totals"].exact is None
    told(story, SECOND)
    shown = drawn(story, 99.0)
    assert "kill -9 in the middle of REFRESH totals" in shown and "103 rows, as it was before the crash" in shown
    assert story.exact and story.ended and story.link == LINK and " 110 " in shown
    assert "1.00 s 2.0x" in shown and "2.00 s 4.0x" in shown, "the times stay that were measured side by side"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"event": "found", "name": "totals", "rows": 99}, "99 rows, but 103 before the crash"),
        ({**SECOND[2], "ok": False, "missing": 3}, "3 rows missing, 0 too many"),
        ({**FIRST[9], "same": False}, "totals: MERGE has other rows"),
    ],
)
def test_what_goes_wrong_is_said(event: dict[str, Any], said: str) -> None:
    assert said in drawn(told(told(Story(), FIRST), [event]), 99.0)


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    picture = record(told(told(Story(), FIRST), SECOND), 88.0)
    assert picture.startswith("<svg") and "DIFFERENTIAL" in picture and "exact" in picture
    assert "url(http" not in picture and "@font-face" not in picture


@pytest.mark.parametrize(("as_json", "terminal"), [(False, False), (True, False), (False, True)])
def test_one_process_is_killed_and_another_one_goes_on(
    as_json: bool, terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workers(monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for key, value in ({"FORCE_COLOR": "1", "COLUMNS": "80"} if terminal else {}).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    play(Printer(as_json), 1000, None, stay=False, picture=tmp_path / "demo.svg")
    said = capsys.readouterr().out
    if as_json:
        assert [json.loads(line)["event"] for line in said.splitlines()] == [each["event"] for each in FIRST + SECOND]
    elif terminal:
        assert "\x1b[?25l" in said and "as it was before the crash" in said and LINK in said
    else:
        assert "REFRESH totals: DIFFERENTIAL, +7 -4 rows in 0.50 s" in said and said.endswith(f"\nlook around: {LINK}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["demo.svg"], "the folder is gone, and the picture is there"


def test_a_table_that_is_not_exact_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    workers(monkeypatch, [*SECOND[:2], {**SECOND[2], "ok": False, "surplus": 2}, SECOND[3]])
    with pytest.raises(typer.Exit) as ended:
        play(Printer(as_json=False), 1000, None, stay=False, picture=None)
    assert ended.value.exit_code == ExitCode.NOT_EXACT


def test_a_process_that_cannot_start_is_told_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(playing, "WORKER", (sys.executable, "-c", "import sys; sys.stderr.write('no Java'); sys.exit(3)"))
    with pytest.raises(typer.Exit) as ended:
        play(Printer(as_json=False), 1000, None, stay=False, picture=None)
    assert ended.value.exit_code == ExitCode.NO_SESSION and "no Java" in capsys.readouterr().err


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, 129)])
def test_it_stays_until_it_is_told_to_end_and_leaves_nothing(signum: signal.Signals, code: int, tmp_path: Path) -> None:
    lines = ["\n".join(map(json.dumps, events)) for events in (FIRST, SECOND)]
    program = PROGRAM.format(first=lines[0], second=lines[1])
    command = f"""
import signal
import sys
from pathlib import Path
from streamtable.hosts.cli.demo import play
from streamtable.hosts.cli.output import Printer
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, for all below
play.WORKER = (sys.executable, "-c", {program!r})
play.play(Printer(False), 1000, None, True, None)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", command], env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while LINK not in demo.stdout.readline():
            assert demo.poll() is None
        time.sleep(0.3)  # it waits
        assert demo.poll() is None and len(list(tmp_path.glob("streamtable-demo-*"))) == 1
        demo.send_signal(signum)
        assert demo.wait(20) == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ambient", ["spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris", METASTORE])
def test_the_demo_makes_no_table_in_the_catalog_of_the_user(ambient: str, tmp_path: Path) -> None:
    """Not even where it has tables of these names."""
    theirs = {ambient: "theirs", "spark.master": "yarn", WAREHOUSE: "hdfs://theirs", "spark.sql.defaultCatalog": "theirs"}
    theirs |= {SESSION_CATALOG: "theirs", CATALOG_KIND: "in-memory"}
    own = settings_in(tmp_path)
    started = theirs | own | settings(own, theirs, tmp_path, ())
    assert "theirs" not in " ".join(started.values()) and started["spark.master"] == "local[*]"
    assert started[METASTORE] == f"jdbc:derby:;databaseName={tmp_path}/metastore_db;create=true"
    assert started[WAREHOUSE] == f"file://{tmp_path}/spark-warehouse" and started[CATALOG_KIND] == "hive"


def test_the_shop_is_the_same_whatever_its_size() -> None:
    assert list(sources(1000)) == ["products", "customers", "orders"]
    for statement in (*sources(1000).values(), *(each for _, each in changes(1000, 3))):
        assert "{" not in statement and "}" not in statement
    (_, new), *_ = changes(1000, 3)
    assert "range(1004, 1006)" in new, "two new orders in each round, after those of the rounds before"
    for table in TABLES:
        merge = table.merge.format(since=3, upto=5)
        assert f"MERGE INTO {table.name}_by_hand" in merge and "table_changes('orders', 3, 5)" in merge


def test_a_warm_round_is_always_measured_and_another_one_where_there_is_time() -> None:
    demo: Any = Demo(None, 1000, None)  # type: ignore[arg-type]

    def goes_on(turn: int, spent: float) -> bool:
        demo._turn = turn
        return bool(demo._goes_on(spent, 10.0))

    assert [goes_on(turn, 500.0) for turn in range(4)] == [True, True, False, False], "however slow the machine"
    assert [goes_on(turn, ROUNDS_UNTIL - 11.0) for turn in range(4)] == [True, True, True, False]


def test_a_picture_that_has_no_place_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "demo.svg"):
        assert CliRunner().invoke(app, ["demo", "--record", str(path)]).exit_code == 2
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert CliRunner().invoke(app, ["demo", "--record", str(tmp_path / "demo.svg")]).exit_code == 2
