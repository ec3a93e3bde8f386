"""Put streamtable into a Spark session: the settings before it starts, the Python side once it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import NotEnabled
from streamtable.hosts.launch import launch
from streamtable.jvm.callback import register
from streamtable.jvm.gateway import SHIM, JavaRows, java_class
from streamtable.jvm.jars import check_versions
from streamtable.settings.spark import DELTA_EXTENSION, EXTENSION, EXTENSIONS, items, recipe, settings_for

if TYPE_CHECKING:
    from streamtable.language.parse import AnyStatement
    from streamtable.observe.alerts import Alert
    from streamtable.queue.reader import ChangeQueue
    from streamtable.schedule.loop import Scheduler
    from streamtable.subscribing.subscriber import Subscriber


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return a builder like `builder` whose getOrCreate() gives a session that knows stream tables.

    Adds Delta's extension and ours, Delta's catalog, and the jars. Unless a catalog was chosen, tables are kept by Hive's
    embedded metastore, in `metastore_db` and `spark-warehouse` in the folder that is current now. Settings of the builder,
    of spark-defaults.conf, hive-site.xml and PYSPARK_SUBMIT_ARGS stay as they are. Raises NotEnabled, with the supported
    pairs, for another version of Spark or Delta Lake.
    """
    check_versions()
    return _Builder(builder._options, Path.cwd())


def enable(spark: SparkSession) -> None:
    """Let this process answer the session's stream table statements. Repeated calls do no harm.

    Only needed for sessions that `configure` did not make. Raises NotEnabled for a session without our extension or jar.
    """
    if not isinstance(spark, SparkSession):
        raise NotEnabled(
            f"a {type(spark).__module__}.{type(spark).__name__} is a client without a JVM",
            hint="enable the session on the server; its clients need nothing",
        )
    check_versions(spark.version)
    extensions = items(spark.conf.get(EXTENSIONS, "") or "")
    # Spark leaves out an extension whose class is missing, with no more than a warning.
    loaded = EXTENSION in extensions and isinstance(getattr(spark._jvm, EXTENSION), JavaClass)
    if not loaded or DELTA_EXTENSION in extensions[extensions.index(EXTENSION) :]:
        raise NotEnabled(
            "the session was made without streamtable's extension (after Delta's), and Spark cannot add one later",
            hint="in a new process, make the session by streamtable.configure(SparkSession.builder), or with these "
            "settings:\n" + "\n".join(f"  {key} = {value}" for key, value in recipe(extensions).items()),
        )
    register(spark, _Statements())
    java_class(spark, f"{SHIM}.Origins").forget(spark._jsparkSession)


def start_scheduler(spark: SparkSession, on_alert: Callable[[Alert], object] | None = None) -> Scheduler:
    """Refresh stream tables by their schedules, and apply enabled subscriptions, in threads, until the scheduler is stopped.

    Alerts go to the logger `streamtable.alerts`, to queues FOR EVENTS and to `on_alert`. The session's current settings apply;
    raises InvalidStatement for what is no value of one.
    """
    from streamtable.observe.events import Events
    from streamtable.observe.watch import Watch
    from streamtable.replication.worker import ApplyWorker
    from streamtable.schedule.engine import SparkEngine
    from streamtable.schedule.loop import Scheduler
    from streamtable.settings.session import SETTINGS, read_setting

    enable(spark)
    for setting in SETTINGS:
        read_setting(spark, setting)
    scheduler = Scheduler(SparkEngine(spark)).start()
    events = Events(spark)
    events.start(scheduler.wait)
    Watch(spark, *([on_alert] if on_alert else []), holding=events.alerts).start(scheduler.wait)
    ApplyWorker(spark).start(scheduler.wait)
    return scheduler


def subscribe(
    spark: SparkSession,
    relation: str,
    *,
    progress: bool = False,
    snapshot: bool = True,
    as_of: int | None = None,
    at_least: bool = False,
    up_to: int | None = None,
) -> Subscriber:
    """Begin `SUBSCRIBE relation`, where `relation` is a name, or a query in parentheses, with options if needed.

    with subscribe(spark, "orders ENVELOPE UPSERT (KEY (id))", progress=True) as rows:
        for row in rows: ...
    """
    from streamtable.language.parse import parse
    from streamtable.language.subscribe.ast import Subscribe
    from streamtable.statements.failures import named
    from streamtable.subscribing.subscriber import Subscriber

    enable(spark)
    statement = parse(f"SUBSCRIBE TO {relation}")
    assert isinstance(statement, Subscribe), "what opens with SUBSCRIBE is nothing else"
    said = replace(
        statement,
        progress=progress or statement.progress,
        snapshot=snapshot and statement.snapshot,
        as_of=statement.as_of if as_of is None else as_of,
        at_least=at_least or statement.at_least,
        up_to=statement.up_to if up_to is None else up_to,
    )
    with named(spark, said):
        return Subscriber(spark, said)


def open_queue(spark: SparkSession, name: str) -> ChangeQueue:
    """Return a queue that CREATE QUEUE made, to register consumers and to read batches.

    with open_queue(spark, "orders_queue").batch("mailer") as batch:
        if batch: batch.append_to("mails")
    """
    from streamtable.language.parse import parse_name
    from streamtable.queue.reader import ChangeQueue
    from streamtable.statements.failures import named

    enable(spark)
    with named(spark, queue := parse_name(name)):
        return ChangeQueue(spark, queue)


class _Builder(SparkSession.Builder):
    """Adds the settings at the last moment, so that settings after `configure` count as well."""

    def __init__(self, options: Mapping[str, Any], folder: Path) -> None:
        super().__init__()
        self._options = dict(options)
        self._folder = folder

    def getOrCreate(self) -> SparkSession:  # noqa: N802  (pyspark's own spelling)
        return self._enabled(super().getOrCreate)

    def create(self) -> SparkSession:
        return self._enabled(super().create)

    def _enabled(self, make: Callable[[], SparkSession]) -> SparkSession:
        self._options.update(settings_for(self._options, self._folder))
        launch(self._options)
        spark = make()
        enable(spark)
        return spark


class _Statements:
    """Answers statements by the grammar and the dispatch; both are imported with the first statement."""

    def describe(self, spark: SparkSession, sql: str) -> StructType:
        from streamtable.statements import dispatch
        from streamtable.statements.failures import named

        with named(spark, statement := _read(sql)):
            return dispatch.describe(spark, statement)

    def run(self, spark: SparkSession, sql: str) -> list[tuple[Any, ...]] | JavaRows:
        from streamtable.statements import dispatch
        from streamtable.statements.failures import named

        with named(spark, statement := _read(sql)):
            return dispatch.run(spark, statement)

    def begun(self, spark: SparkSession, sql: str, place: str) -> str:
        from streamtable.statements.failures import named
        from streamtable.subscribing import micro_batches

        with named(spark, statement := _read(sql)):
            return micro_batches.begun(spark, statement, place)

    def latest(self, spark: SparkSession, sql: str, told: str, start: str | None, newest: str | None) -> str | None:
        from streamtable.statements.failures import named
        from streamtable.subscribing import micro_batches

        with named(spark, statement := _read(sql)):
            return micro_batches.latest(spark, statement, told, start, newest)

    def batch(self, spark: SparkSession, sql: str, told: str, start: str | None, end: str) -> DataFrame:
        from streamtable.statements.failures import named
        from streamtable.subscribing import micro_batches

        with named(spark, statement := _read(sql)):
            return micro_batches.of_stream(spark, statement, told, start, end)

    def mentioned(self, spark: SparkSession, sql: str) -> dict[str, Any]:
        from streamtable.statements.mentions import readable

        return readable(spark, _read(sql))

    def describe_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> StructType:
        from streamtable.observe import calls
        from streamtable.statements.failures import named

        with named(spark, calls.names(arguments)):
            return calls.describe(spark, name, arguments)

    def call_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Iterable[Sequence[Any]] | JavaRows:
        from streamtable.observe import calls
        from streamtable.statements.failures import named

        with named(spark, calls.names(arguments)):
            return calls.call(spark, name, arguments)

    def accompany(
        self, spark: SparkSession, operation: str, name: Sequence[str], statement: Callable[[], object]
    ) -> Iterable[Sequence[Any]]:
        from streamtable.definitions.accompany import accompany

        return accompany(spark, operation, name, statement)

    def follow(self, spark: SparkSession, places: Sequence[str]) -> Sequence[str]:
        from streamtable.schedule.immediate import follow

        return follow(spark, places)

    def check_source_ddl(self, spark: SparkSession, operation: str, name: str, place: str) -> None:
        from streamtable.catalog.entries import readers_of
        from streamtable.definitions.checks import check_source_ddl

        check_source_ddl(spark, operation, name, lambda: readers_of(spark, place))

    def check_setting(self, key: str, value: str) -> None:
        from streamtable.settings.session import check_setting

        check_setting(key, value)


@lru_cache(maxsize=64)
def _read(sql: str) -> AnyStatement:
    """Parse a statement once for `describe` and `run`; statements are immutable."""
    from streamtable.language.parse import parse

    return parse(sql)
