"""A console over tables that are made up: what the tests of its pages, and of a browser, look at."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from threading import Event

from streamtable.api.answers import Finding
from streamtable.catalog.definition import ACTIVE, SUSPENDED, Failure
from streamtable.delta.tables import Size
from streamtable.errors import InvalidStatement, NotSupported
from streamtable.hosts.console.access import Doors
from streamtable.hosts.console.board import Act, Board, Contents, Explained, Job
from streamtable.hosts.console.serve import Console
from streamtable.hosts.roles import Role, Standing
from streamtable.observe.alerts import Alert, AlertKind
from streamtable.observe.effort import Effort
from streamtable.observe.freshness import Freshness
from streamtable.observe.health import Health, SourceState
from streamtable.observe.operators import Node
from streamtable.observe.status import (
    Column,
    Expected,
    PublicationStatus,
    QueueStatus,
    Status,
    SubscribedRow,
    SubscriptionStatus,
    TableStatus,
)
from streamtable.queue.consumers import Consumer
from streamtable.refresh.choose import Action
from streamtable.refresh.cost import Ran
from streamtable.refresh.history import Line
from streamtable.refresh.records import Record

NOW = datetime(2026, 11, 28, 14, tzinfo=timezone.utc)
NASTY = "<script>`\"'"
CATALOG = "spark_catalog"
PHASES = {"analyse": 60, "write": 1500}


def line(minutes: float, action: Action = Action.DIFFERENTIAL, reason: str = "few rows changed", took: int = 900) -> Line:
    return Line("t", 7, NOW - timedelta(minutes=minutes), Record(action, reason, took, {}, 3, 1, "SCHEDULER", phases=PHASES))


def table(
    schema: str,
    name: str,
    sources: Sequence[str] = (),
    *,
    late: float = 0.0,
    schedule: str = "EVERY 5 MINUTES",
    history: Sequence[Line] = (),
    status: str = ACTIVE,
    error: Failure | None = None,
) -> TableStatus:
    """Return a table that has been late for so many minutes; without a history, one refresh each minute."""
    full = (CATALOG, schema, name)
    shown = ".".join(full)
    since = NOW - timedelta(minutes=late + 1 if late else 0)
    deadline = None if schedule == "MANUAL" else NOW + timedelta(minutes=-late if late else 5)
    lines = history or [line(n + 1, took=200 + 40 * (n % 9)) for n in range(30)]
    read = tuple(Health(shown, each, f"/{each}", SourceState.OK, "cdf", 4, 7, 2, NOW, NOW) for each in sources)
    columns = (Column("region", "string", "where it was sold"), Column("total", "bigint", None))
    return TableStatus(
        full,
        f"/{shown}",
        shown,
        7,
        status,
        "AUTO",
        schedule,
        f"CREATE STREAM TABLE {shown} SCHEDULE {schedule} AS SELECT region, sum(amount) AS total FROM sales GROUP BY region",
        "what was sold <where>",
        columns,
        Size(1_234_567, 89_000_000),
        Freshness(since, deadline, NOW),
        error,
        tuple(lines),
        read,
        (Ran(False, 0, 1_200_000, 4200), Ran(True, 300, 1_200_000, 450)),
        expectations=(
            Expected("paid", "total > <0>", "DROP ROW", 1_234_567, 12),
            Expected("known", "region IS NOT NULL", "KEEP", None, None),
        ),
    )


BROKEN = [
    line(2, Action.FAILED, "[STREAMTABLE_REFRESH_FAILED] a division by zero in <amount>", 30),
    line(30, Action.FULL, "sales was rewritten: a change data feed would help"),
]


def small() -> Status:
    """Return a shop in which something of everything is there, and something is wrong with most of it."""
    sales, nasty = f"{CATALOG}.shop.sales", f"{CATALOG}.shop.{NASTY}"
    failure = Failure("the source is gone", "STREAMTABLE_SOURCE_UNAVAILABLE", NOW, 3)
    waiting = Health(f"{CATALOG}.shop.jobs: mailer", nasty, "/n", SourceState.OK, "cdf", 1, 3, 2, NOW)
    return Status(
        NOW,
        (
            table("shop", "per_region", [sales]),
            table("shop", NASTY, [f"{CATALOG}.shop.per_region", sales]),
            table("shop", "late", [sales], late=20),
            table("shop", "broken", [f"{CATALOG}.shop.late"], history=BROKEN),
            table("shop", "stopped", [nasty], status=SUSPENDED, error=failure),
            table("office", "by_hand", [f"{CATALOG}.shop.late"], late=3, schedule="MANUAL"),
        ),
        (
            QueueStatus(
                (CATALOG, "shop", "jobs"),
                "CREATE QUEUE shop.jobs FOR SUBSCRIBE TO x",
                (nasty,),
                (Consumer("mailer", 5, 3, NOW, NOW, NOW),),
                (waiting,),
            ),
        ),
        (PublicationStatus((CATALOG, "shop", "out"), "CREATE PUBLICATION shop.out FOR TABLE late", (f"{CATALOG}.shop.late",)),),
        (
            SubscriptionStatus(
                (CATALOG, "office", "from_shop"),
                "database=shop",
                True,
                (f"{CATALOG}.shop.out",),
                (SubscribedRow(f"{CATALOG}.office.late", "r", 12, "a row <was> refused", 1500),),
            ),
        ),
        (
            Health(
                f"{CATALOG}.shop.from_shop",
                f"{CATALOG}.shop.late",
                "/l",
                SourceState.EXPIRING,
                "cdf",
                3,
                9,
                6,
                NOW,
                NOW,
                "apply soon",
            ),
        ),
        (Alert(f"{CATALOG}.shop.stopped", AlertKind.SUSPENDED, NOW, "the source is gone"),),
        (("spark.streamtable.scheduler.pollSeconds", "5.0", "how often the scheduler looks"),),
    )


def large(tables: int = 200, history: int = 30) -> Status:
    """Return so many tables in twenty schemas, each reading one or two before it."""
    names = [(f"team_{n % 20}", f"a_stream_table_with_a_rather_long_name_{n}") for n in range(tables)]
    full = [f"{CATALOG}.{schema}.{name}" for schema, name in names]

    def sources(n: int) -> list[str]:
        return [f"{CATALOG}.raw.source_{n}"] if n < 40 else [full[n - 40], full[n // 3]]

    late, lines = {7: 30.0, 63: 10.0}, [line(n + 1, took=200 + 40 * (n % 9)) for n in range(history)]
    return Status(NOW, tuple(table(*name, sources(n), late=late.get(n, 0.0), history=lines) for n, name in enumerate(names)))


class FakeHands:
    """Does nothing, and remembers what it was asked; `gate` holds up what is begun."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.asked: list[tuple[object, ...]] = []
        self.running: tuple[Job, ...] = ()
        self.gate = Event()
        self.gate.set()
        self.cancelled = Event()
        self.error: Exception | None = None

    def look(self, before: Status | None) -> Status:
        if self.error:
            raise self.error
        return self.status

    def jobs(self) -> Sequence[Job]:
        return self.running

    def act(self, act: Act, name: tuple[str, ...], group: str) -> tuple[bool, str]:
        self.asked.append((act, name, group))
        assert self.gate.wait(10)
        if self.cancelled.is_set():
            raise NotSupported("the refresh was <cancelled>")
        return True, f"{act.value} <done>"

    def cancel(self, key: str) -> None:
        self.asked.append(("cancel", key))
        self.cancelled.set()
        self.gate.set()

    def explain(self, name: tuple[str, ...]) -> Explained:
        if self.error:
            raise self.error
        tree = (
            Node(0, "Aggregate (region)", True, "each <group> is added to"),
            Node(1, "Scan sales", True, "its changes", "42 changed rows of 3 commits"),
        )
        said = Finding("Verdict", True, "The next refresh is DIFFERENTIAL: <few> rows")
        return Explained((said,), tree, line(1, took=200), Effort(4, 46_000, 3_200_000, 1300))

    def rows(self, name: tuple[str, ...]) -> Contents:
        return Contents(("region", "<b>"), (("<i>north</i>", None),))


class FakeUsers:
    """Users with their passwords and roles, which remembers who asked."""

    def __init__(self, **passwords: str) -> None:
        self.passwords = passwords
        self.roles: dict[str, Role] = dict.fromkeys(passwords, Role.FULL)
        self.asked: list[tuple[str, str, str]] = []
        self.readable = True

    def login(self, user: str, password: str, address: str = "") -> bool:
        self._read()
        self.asked.append((user, password, address))
        return self.passwords.get(user) == password

    def standing(self, user: str) -> Standing | None:
        self._read()
        return Standing(self.roles[user], self.passwords[user]) if user in self.roles else None

    def _read(self) -> None:
        if not self.readable:
            raise InvalidStatement("the file of users cannot be read: it is gone", hint="streamtable add-user writes one")


def board_of(status: Status, read_only: bool = False) -> tuple[Board, FakeHands]:
    """Return a board that has looked once."""
    hands = FakeHands(status)
    board = Board(hands, read_only)
    board.turn(1e9)
    return board, hands


@contextmanager
def answering(board: Board, doors: Doors | None = None) -> Iterator[Console]:
    """Let a board answer on a free port of this machine; people come in by a link if nothing else is said."""
    console = Console(board, doors or Doors(None), socket.create_server(("127.0.0.1", 0))).start()
    try:
        yield console
    finally:
        console.stop()
