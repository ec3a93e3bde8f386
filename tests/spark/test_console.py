"""The console over real tables: what it tells of them, and what its buttons do."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from starlette.testclient import TestClient
from tests.spark.hosts import environment_of_commands, environment_of_quick_sessions
from tests.spark.serving import COMMAND

from streamtable import console
from streamtable.hosts.cli.output import ExitCode
from streamtable.hosts.console.access import Doors
from streamtable.hosts.console.board import Act, Board, Job, Work
from streamtable.hosts.console.hands import SparkHands
from streamtable.hosts.console.pages import application
from streamtable.observe.status import Standing, graph_of

HOST = "http://127.0.0.1"
REGIONS = "spark_catalog.shop.regions"
ODD = "<odd>'\" text"


def until(done: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not done():
        assert time.monotonic() < patience
        time.sleep(0.02)


def done(board: Board, act: Act, name: str) -> Work:
    work = board.begin(act, tuple(name.split(".", 2)), "ada")
    until(lambda: (found := board.work(work.id)) is not None and found.ok is not None)
    found = board.work(work.id)
    assert found is not None
    board._next = 0.0
    board.turn(0.0)
    assert board.trouble is None
    return found


def test_a_shop_in_the_console(shop: SparkSession) -> None:
    shop.sql(
        "CREATE STREAM TABLE regions COMMENT '<odd>\\'\" text' AS SELECT region, sum(amount) AS total FROM sales GROUP BY region"
    )
    shop.sql("CREATE STREAM TABLE few AS SELECT region AS `<odd>` FROM regions WHERE total / 2 > 5")
    shop.sql("CREATE QUEUE jobs FOR SUBSCRIBE TO regions")
    shop.sql("REGISTER CONSUMER mailer ON jobs")
    shop.sql("CREATE PUBLICATION everything FOR TABLE sales")
    shop.sql("INSERT INTO sales VALUES (4, 'west', 40)")
    hands = SparkHands(shop)
    board = Board(hands)
    board.turn(0.0)
    assert board.trouble is None and board.status is not None
    regions = board.status.table(REGIONS)
    assert regions and regions.standing is Standing.STALE and regions.comment == ODD
    assert regions.size and regions.size.rows == 3 and [each.name for each in regions.columns] == ["region", "total"]
    assert [(each.source, each.waiting) for each in regions.sources] == [("spark_catalog.shop.sales", 1)]
    edges = {(a.removeprefix("table "), b.removeprefix("table ")) for a, b in graph_of(board.status).edges}
    few = "spark_catalog.shop.few"
    assert edges >= {
        ("spark_catalog.shop.sales", REGIONS),
        (REGIONS, few),
        (REGIONS, "queue spark_catalog.shop.jobs"),
        ("queue spark_catalog.shop.jobs", "consumer spark_catalog.shop.jobs: mailer"),
        ("spark_catalog.shop.sales", "publication spark_catalog.shop.everything"),
    }
    browser = TestClient(application(board, doors := Doors(None), "c"), HOST)
    text = browser.get(f"/?token={doors.link()}").text
    assert "stale" in text and "few" in text
    why = "It lacks 1 commit of shop.sales, the first"
    assert why in browser.get(f"/table?name={REGIONS}").text
    shop.sql("ALTER SCHEDULER SUSPEND")
    board._next = 0.0
    board.turn(0.0)
    assert board.trouble is None and board.status.suspended_since is not None
    shop.sql("ALTER SCHEDULER RESUME")
    csrf = re.search(r'name="csrf" value="([^"]+)"', text)
    assert csrf
    page = browser.post("/act", data={"csrf": csrf[1], "name": REGIONS, "act": "refresh"})  # follows to the table's page
    assert page.status_code == 200
    until(lambda: board.works[0].ok is not None)
    assert board.works[0].ok, board.works[0].text
    assert "DIFFERENTIAL: +1 -0 rows" in board.works[0].text
    assert "exact" in done(board, Act.VERIFY, REGIONS).text
    assert done(board, Act.REFRESH, few).ok and done(board, Act.FULL, few).ok
    regions = board.status.table(REGIONS)
    assert regions and regions.standing is Standing.FRESH
    assert [line.record.action.value for line in regions.history] == ["DIFFERENTIAL", "REINITIALIZE"]
    for path in ("/", "/tables", "/alerts", "/work", "/queues", "/replication", "/settings", f"/table?name={few}"):
        found_page = browser.get(path)
        assert found_page.status_code == 200 and "<odd>" not in found_page.text, path
    assert "&lt;odd&gt;" in browser.get(f"/table?name={REGIONS}").text and "&lt;odd&gt;" in browser.get(f"/rows?name={few}").text
    explained = hands.explain(tuple(few.split(".", 2)))
    assert explained.said[0].operator == "Verdict"
    assert {each.operator for each in explained.said}.isdisjoint(each.operator for each in explained.tree)
    depths = [each.depth for each in explained.tree]
    assert depths == list(range(len(depths))) and explained.tree[-1].operator.startswith("Scan")
    assert explained.tree[-1].did == "all 4 rows", "the last refresh of this table was one in full"
    explained = hands.explain(tuple(REGIONS.split(".", 2)))
    assert explained.last and explained.last.record.action.value == "DIFFERENTIAL" and explained.last.record.phases
    assert explained.effort and explained.effort.jobs >= 1 and 1 <= explained.effort.rows < 1000
    of_regions = explained.tree
    assert of_regions[-1].did == "1 changed row of 1 commit"
    assert [each.did for each in of_regions if each.operator.startswith("Aggregate")] == ["1 group written"]
    assert "Verdict" in browser.get(f"/explain?name={few}").text
    assert "west" in browser.get(f"/rows?name={REGIONS}").text and "NULL" in browser.get(f"/rows?name={REGIONS}").text
    assert done(board, Act.SUSPEND, few).ok
    found = board.status.table(few)
    assert found and found.standing is Standing.SUSPENDED
    assert done(board, Act.RESUME, few).ok


def test_a_refresh_that_fails_is_failing_at_once_and_its_error_is_shown(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE inverse AS SELECT id, 100 / (amount - 50) AS x FROM sales")
    board = Board(SparkHands(shop))
    shop.sql("INSERT INTO sales VALUES (5, 'east', 50)")
    name = "spark_catalog.shop.inverse"
    work = done(board, Act.REFRESH, name)
    assert not work.ok and "STREAMTABLE" in work.text and "zero" in work.text
    found = board.status.table(name) if board.status else None
    assert found and found.standing is Standing.FAILING and found.trouble and "zero" in found.trouble
    assert found.last_success and found.last_attempt and found.last_success.version < found.last_attempt.version
    browser = TestClient(application(board, doors := Doors(None), "c"), HOST)
    assert "zero" in browser.get(f"/?token={doors.link()}").text or "failing" in browser.get("/").text
    assert "zero" in browser.get(f"/table?name={name}").text


def test_work_of_others_is_shown_with_its_progress_and_cancelled(shop: SparkSession) -> None:
    board, ended = Board(SparkHands(shop)), list[BaseException]()

    def work() -> None:
        shop.sparkContext.setJobGroup("somebody", "counts <for ever>")
        try:
            shop.range(10**13).selectExpr("sum(id % 7)").collect()
        except Exception as error:
            ended.append(error)

    worker = InheritableThread(target=work)
    worker.start()

    def found() -> list[Job]:
        board.turn(0.0)
        return [each for each in board.jobs if each.group == "somebody"]

    until(lambda: bool(found()))
    (job,) = found()
    assert job.text == "counts <for ever>" and job.done < job.tasks
    assert board.cancel("somebody")
    worker.join(60)
    assert ended and "cancel" in str(ended[0]).lower()
    until(lambda: not found())


def test_a_session_shows_its_console_on_loopback_until_it_is_stopped(shop: SparkSession) -> None:
    from urllib.request import urlopen

    opened = console(shop)
    try:
        assert opened.address.startswith("http://127.0.0.1:") and "?token=" in opened.link()
        with urlopen(f"{opened.address}login") as page:  # noqa: S310 - our own, on loopback
            assert page.status == 200 and b"Log in" in page.read()
    finally:
        opened.stop()


def test_the_command_is_a_console_of_its_own_until_ctrl_c(tmp_path: Path) -> None:
    environment = environment_of_commands() | environment_of_quick_sessions()
    command = [*COMMAND, "console", "--json", "--conf", "spark.master=local[1]", "--scheduler"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = json.loads(process.stdout.readline())["console"]
        with build_opener().open(f"{link.partition('?')[0]}tables") as page:
            assert b"Log in" in page.read(), "who has no link sees nothing"
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(link) as page:
            assert b"Log out" in page.read()
        with build_opener().open(link) as page:
            assert b"This link was used before" in page.read()
        port = link.partition("?")[0].rpartition(":")[2].strip("/")
        second = subprocess.run(
            [*COMMAND, "console", "--port", port], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert (
            second.returncode == ExitCode.NO_SESSION and f"127.0.0.1:{port}" in second.stderr and "Traceback" not in second.stderr
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
