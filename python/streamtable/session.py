"""Put streamtable into a Spark session: the settings before it starts, the Python side once it runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamtable.callback import register
from streamtable.delta.bridge import SHIM, JavaRows, java_class
from streamtable.errors import NotEnabled
from streamtable.jars import delta_jars, shim_jar

if TYPE_CHECKING:
    from streamtable.monitor.alerts import Alert
    from streamtable.queue.reader import ChangeQueue
    from streamtable.schedule.loop import Scheduler
    from streamtable.sql.parse import AnyStatement
    from streamtable.subscriptions.subscriber import Subscriber

EXTENSIONS = "spark.sql.extensions"
EXTENSION, DELTA_EXTENSION = f"{SHIM}.StreamTableExtension", "io.delta.sql.DeltaSparkSessionExtension"
SESSION_CATALOG, DELTA_CATALOG = "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
CATALOG_KIND, WAREHOUSE = "spark.sql.catalogImplementation", "spark.sql.warehouse.dir"
METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
METASTORES_OF_THE_USER = (METASTORE, "spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")
DRIVER_PATH, EXECUTOR_PATH = "spark.driver.extraClassPath", "spark.executor.extraClassPath"
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
COMPILED = "spark.sql.codegen.cache.maxEntries"
KEY_END = re.compile(r"\s*[=:]\s*|\s+")  # as in Java's properties files
LOCAL_DEFAULTS = {
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks read a table's log otherwise
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",  # and 10,000 list files in VACUUM
    # Hadoop starts a dozen processes for each commit on a local disk, and of two commits at once it may lose one.
    "spark.hadoop.fs.file.impl": f"{SHIM}.LocalDiskFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{SHIM}.LocalDiskFileContext",
}


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Return a builder like `builder` whose getOrCreate() gives a session that knows stream tables.

    Adds Delta's extension and ours, Delta's catalog, and the jars. Unless a catalog was chosen, tables last: Hive's
    embedded metastore keeps them, in `metastore_db` and `spark-warehouse` in the folder that is current now. What the
    builder, spark-defaults.conf, hive-site.xml or PYSPARK_SUBMIT_ARGS set stays as it is.
    """
    return _Builder(builder._options, Path.cwd())


def enable(spark: SparkSession) -> None:
    """Let the session's stream table statements be answered by this process; call it as often as you like.

    Needed only where `configure` did not make the session. Raises NotEnabled for one without our extension or jar.
    """
    if not isinstance(spark, SparkSession):
        raise NotEnabled(
            f"a {type(spark).__module__}.{type(spark).__name__} is a client without a JVM",
            hint="enable the session on the server; its clients need nothing",
        )
    extensions = _items(spark.conf.get(EXTENSIONS, "") or "")
    # Spark leaves out an extension whose class is missing, with no more than a warning.
    loaded = EXTENSION in extensions and isinstance(getattr(spark._jvm, EXTENSION), JavaClass)
    if not loaded or DELTA_EXTENSION in extensions[extensions.index(EXTENSION) :]:
        raise NotEnabled(
            "the session was made without streamtable's extension (after Delta's), and Spark cannot add one later",
            hint="in a new process, make the session by streamtable.configure(SparkSession.builder), or with these "
            "settings:\n" + _recipe(extensions),
        )
    register(spark, _Statements())
    java_class(spark, f"{SHIM}.Origins").forget(spark._jsparkSession)


def start_scheduler(spark: SparkSession, on_alert: Callable[[Alert], object] | None = None) -> Scheduler:
    """Refresh stream tables by their schedules, and apply enabled subscriptions, in threads, until the scheduler is stopped.

    Alerts go to the logger `streamtable.alerts` and to `on_alert`. The session's settings count as they are at each moment.
    """
    from streamtable.monitor.watch import Watch
    from streamtable.replication.worker import ApplyWorker
    from streamtable.schedule.engine import SparkEngine
    from streamtable.schedule.loop import Scheduler

    enable(spark)
    scheduler = Scheduler(SparkEngine(spark)).start()
    Watch(spark, on_alert).start(scheduler.wait)
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
    """Begin what `SUBSCRIBE relation` says: a name, or a query in parentheses, and options if you like.

    with subscribe(spark, "orders ENVELOPE UPSERT (KEY (id))", progress=True) as rows:
        for row in rows: ...
    """
    from streamtable.sql.parse import parse
    from streamtable.sql.subscribe import Subscribe
    from streamtable.subscriptions.subscriber import Subscriber

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
    return Subscriber(spark, said)


def open_queue(spark: SparkSession, name: str) -> ChangeQueue:
    """Return a queue that CREATE QUEUE made, to register consumers and to read batches.

    with open_queue(spark, "orders_queue").batch("mailer") as batch:
        if batch: batch.append_to("mails")
    """
    from streamtable.queue.reader import ChangeQueue

    enable(spark)
    return ChangeQueue(spark, name)


class _Builder(SparkSession.Builder):
    """Add the settings at the last moment, so that what is set after `configure` counts as well."""

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
        spark = make()
        enable(spark)
        return spark


def settings_for(options: Mapping[str, str], folder: Path | None = None) -> dict[str, str]:
    """Return the settings to add to `options` on this machine, with the catalog in `folder` or the current one."""
    return settings(options, _ambient(), folder or Path.cwd(), (*delta_jars(), shim_jar()))


def settings(options: Mapping[str, str], ambient: Mapping[str, str], folder: Path, jars: Sequence[Path]) -> dict[str, str]:
    """Return the settings to add to the builder's `options`, given what the surroundings set (`ambient`)."""
    given = {**ambient, **options}
    master = given.get("spark.master", "local[*]")
    local = master.startswith("local") and not master.startswith("local-cluster")
    extensions = [name for name in _items(given.get(EXTENSIONS, "")) if name not in (DELTA_EXTENSION, EXTENSION)]
    added = {
        # The last parser is asked first, and ours must put parameters in before Delta's forgets them (delta#7640).
        EXTENSIONS: ",".join((DELTA_EXTENSION, *extensions, EXTENSION)),
        SESSION_CATALOG: given.get(SESSION_CATALOG, DELTA_CATALOG),
        # Not spark.jars: those are loaded by a class loader that sessions of the Thrift server do not see.
        **{key: _joined(given.get(key, ""), jars, os.pathsep) for key in (DRIVER_PATH, EXECUTOR_PATH)},
        # A refresh of a join compiles a hundred pieces of code, the same ones each time: with Spark's 100 places, each one anew.
        COMPILED: given.get(COMPILED, "2000"),
    }
    if local:
        added |= {key: given.get(key, value) for key, value in LOCAL_DEFAULTS.items()}
    else:
        # Executors on other machines do not have our paths; this copies the jars to them.
        added["spark.jars"] = _joined(given.get("spark.jars", ""), jars, ",")
    return {**added, **_embedded_catalog(given, folder)}


def _embedded_catalog(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings of a Hive metastore in `folder`, as far as the user has not chosen otherwise."""
    kind = given.get(CATALOG_KIND, "hive")
    if kind != "hive":
        return {}
    if any(key in given for key in METASTORES_OF_THE_USER) or _has_hive_site():
        return {CATALOG_KIND: kind}
    return {
        CATALOG_KIND: kind,
        WAREHOUSE: given.get(WAREHOUSE, str(folder / "spark-warehouse")),
        METASTORE: f"jdbc:derby:;databaseName={folder / 'metastore_db'};create=true",
        # derby.log goes where the metastore is, not where the process happens to run.
        DRIVER_OPTIONS: f'{given.get(DRIVER_OPTIONS, "")} "-Dderby.system.home={folder}"'.strip(),
    }


def _joined(present: str, jars: Iterable[Path], separator: str) -> str:
    parts = [part for part in present.split(separator) if part]
    return separator.join((*parts, *(str(jar) for jar in jars if str(jar) not in parts)))


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _ambient() -> dict[str, str]:
    """Return what spark-submit would add: spark-defaults.conf, and the --conf arguments in PYSPARK_SUBMIT_ARGS."""
    defaults = _configuration_folder() / "spark-defaults.conf"
    lines = [line.strip() for line in defaults.read_text(encoding="utf-8").splitlines()] if defaults.is_file() else []
    pairs = (KEY_END.split(f"{line} ", maxsplit=1) for line in lines if line and not line.startswith("#"))
    found = {key: value.strip() for key, value in pairs}
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for argument, value in pairwise(arguments):
        if argument in ("--conf", "-c"):
            key, _, text = value.partition("=")
            found[key] = text
    return found


def _configuration_folder() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")


def _has_hive_site() -> bool:
    folders = (os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))
    return any((Path(folder) / "hive-site.xml").is_file() for folder in (_configuration_folder(), *folders) if folder)


def _recipe(extensions: Sequence[str]) -> str:
    """Return the settings that the session lacks, one per line, with the real paths where they can be found."""
    others = [name for name in extensions if name not in (DELTA_EXTENSION, EXTENSION)]
    jars = os.pathsep.join(str(jar) for jar in (*delta_jars(), shim_jar()))
    lines = {
        EXTENSIONS: ",".join((DELTA_EXTENSION, *others, EXTENSION)),
        SESSION_CATALOG: DELTA_CATALOG,
        DRIVER_PATH: jars,
        EXECUTOR_PATH: jars,
    }
    return "\n".join(f"  {key} = {value}" for key, value in lines.items())


class _Statements:
    """Answer statements by the grammar and the dispatch; both are imported with the first statement."""

    def describe(self, spark: SparkSession, sql: str) -> StructType:
        from streamtable.monitor import dispatch

        return dispatch.describe(spark, _read(sql))

    def run(self, spark: SparkSession, sql: str) -> list[tuple[Any, ...]] | JavaRows:
        from streamtable.monitor import dispatch

        return dispatch.run(spark, _read(sql))

    def latest(self, spark: SparkSession, sql: str, start: int | None, newest: int | None) -> int | None:
        from streamtable.subscriptions import micro_batches

        return micro_batches.latest(spark, _read(sql), start, newest)

    def batch(self, spark: SparkSession, sql: str, start: int | None, end: int) -> DataFrame:
        from streamtable.subscriptions import micro_batches

        return micro_batches.batch(spark, _read(sql), start, end)

    def describe_function(self, name: str, arguments: Sequence[str | None]) -> StructType:
        from streamtable.monitor import functions

        return functions.describe(name, arguments)

    def call_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Iterable[Sequence[Any]]:
        from streamtable.monitor import functions

        return functions.call(spark, name, arguments)

    def check_source_ddl(self, spark: SparkSession, operation: str, name: str, place: str) -> None:
        from streamtable.refresh.checks import check_source_ddl

        check_source_ddl(spark, operation, name, place)


@lru_cache(maxsize=64)
def _read(sql: str) -> AnyStatement:
    """Parse once what `describe` and `run` both ask for; statements are immutable."""
    from streamtable.sql.parse import parse

    return parse(sql)
