"""One Spark session for all tests that need Spark; the rings without Spark never ask for it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from tests import archive, pipeline
from tests.settings import LEAN, QUICK
from tests.versions import LACKING, SPARK, is_since

from streamtable import configure

SMALL = LEAN | {
    "spark.driver.memory": "5g",
    # Plans are many and each is used once: with its usual thresholds, two fifths of Java's time go to its second compiler.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2 -Xms3g -XX:MetaspaceSize=256m "
    "-XX:ReservedCodeCacheSize=512m -XX:TieredStopAtLevel=4 "
    "-XX:Tier4InvocationThreshold=40000 -XX:Tier4MinInvocationThreshold=5000 "
    "-XX:Tier4CompileThreshold=120000 -XX:Tier4BackEdgeThreshold=320000 "
    "-Dderby.system.durability=test",  # the metastore waits for the disk at each of its thousands of commits otherwise
    "spark.ui.enabled": "false",
    "spark.ui.retainedStages": "50",  # what Spark remembers of its past is the most of its memory otherwise
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.streamtable.auto.fullShare": "1e9",  # what runs take must not decide what a test sees
    "spark.log.level": "ERROR",
}


class Defects(logging.Handler):
    """What the engine logs where Spark rejects the delta of a query whose operators all have rules."""

    def __init__(self) -> None:
        super().__init__()
        self.told = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if (text := record.getMessage()).startswith("defect: "):
            self.told.append(text)


DEFECTS = Defects()
UNIT = Path(__file__).parent / "unit"
STARTED = pytest.StashKey[SparkSession]()  # the session under test, from the first test that needs one


def archive_of(config: pytest.Config) -> Path:
    return archive.place(config.cache.mkdir("classes"))


def starts_spark(config: pytest.Config) -> bool:
    """Tell whether any of the tests asked for may start Spark: those of tests/unit do not, and need no jar."""
    return any(not Path(each.partition("::")[0]).resolve().is_relative_to(UNIT) for each in config.args)


def is_whole(config: pytest.Config) -> bool:
    """Tell whether this is a run as of ./run test, and the process that hands out the tests."""
    return bool(config.getoption("numprocesses", default=None)) and starts_spark(config)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what fixtures expect anew, instead of comparing it")
    parser.addoption("--wheel", help="the wheel that tests of an installation install, instead of one that they build")
    parser.addoption("--layouts", action="store_true", help="try every query that is created again over sources of each layout")


def pytest_configure(config: pytest.Config) -> None:
    # The machine decides how long an example takes. A run twice is the same run, unless EXAMPLES asks for that many new ones.
    settings.register_profile("settled", deadline=None, derandomize=True)
    settings.register_profile("random", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "100")))
    settings.load_profile("random" if "EXAMPLES" in os.environ else "settled")
    if not is_since("4.2"):  # PySpark leaves it to Python to close the sockets of its answers
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    logging.getLogger("streamtable").addHandler(DEFECTS)
    if starts_spark(config):
        os.environ.setdefault("SPARK_SUBMIT_OPTS", archive.options(archive_of(config)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: pipeline.rank(item.nodeid))


def pytest_report_header() -> str:
    return f"Spark {SPARK}" + (f": queries with {', '.join(LACKING)} are left out" if LACKING else "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for several in terminalreporter.stats.values() for each in several if getattr(each, "when", None)]
    if is_whole(terminalreporter.config) and (files := pipeline.of_files(reports)):
        terminalreporter.section("seconds of files")
        for file, took in files:
            terminalreporter.write_line(f"{took:5.0f} {file}")
    kills = [told for report in reports if report.when == "call" for key, told in report.user_properties if key == "kills"]
    if kills:
        tell_kills(terminalreporter, kills)


def tell_kills(terminalreporter: pytest.TerminalReporter, kills: Sequence[Any]) -> None:
    """Print what tests recorded of their kills, as a table of docs/explanation/reliability.md."""
    total = ["all", "", *map(sum, zip(*(told[2:] for told in kills), strict=True))]
    rows = [(name, every, f"{tried} of {events}", *more) for name, every, events, tried, *more in (*kills, total)]
    head = ["date", "statement", "at each n-th event", "events tried", "survived", "seconds"]
    today = time.strftime("%Y-%m-%d")
    terminalreporter.section("kills")
    for row in (head, ["---"] * len(head), *([today, *told] for told in rows)):
        terminalreporter.write_line(f"| {' | '.join(map(str, row))} |")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    with archive.making(archive_of(session.config)) if is_whole(session.config) else nullcontext():
        return (yield)


@pytest.fixture(autouse=True)
def no_defect(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test with a query whose delta Spark rejects: it would be FULL, and exact."""
    yield
    told = DEFECTS.told[:]
    DEFECTS.told.clear()
    assert not told or request.node.get_closest_marker("defects"), told


@pytest.fixture(scope="session")
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that holds the metastore and the warehouse of the session under test."""
    return tmp_path_factory.mktemp("working")


@pytest.fixture(scope="session")
def spark(working_folder: Path, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Return a session as a user gets it from `configure`, small enough for two cores."""
    fuzz = request.config.getoption("markexpr") == "fuzz"
    builder = SparkSession.builder.master("local[2]").appName("streamtable tests")
    for setting in (SMALL if fuzz else SMALL | QUICK).items():
        builder.config(*setting)
    before = Path.cwd()
    os.chdir(working_folder)  # configure() keeps the metastore and the warehouse in the current folder
    try:
        builder = configure(builder)
    finally:
        os.chdir(before)
    session = builder.getOrCreate()
    request.config.stash[STARTED] = session
    yield session
    session.stop()
    del request.config.stash[STARTED]


@pytest.fixture(scope="session", autouse=True)
def layouts(request: pytest.FixtureRequest, record_testsuite_property: Callable[[str, object], None]) -> Iterator[None]:
    """With --layouts: every query of which a test creates a stream table is tried over sources of each layout."""
    if not request.config.getoption("layouts"):
        yield
        return
    from tests.oracle.layouts import trying  # most runs do without

    with trying(request.getfixturevalue("spark")) as happened:
        yield
    record_testsuite_property("layouts", dict(happened))


@pytest.fixture(scope="module", autouse=True)
def no_view_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop the temporary views of a module: `SHOW TABLES` lists them everywhere, and which module comes next is chance."""
    yield
    session = request.config.stash.get(STARTED, None)
    if session is not None:
        for view in session.sql("SHOW VIEWS IN spark_catalog.default").where("isTemporary").collect():
            session.catalog.dropTempView(view["viewName"])
