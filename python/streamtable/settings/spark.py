"""The settings that a session starts with. Settings of the user and of the environment override ours."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from streamtable.jvm.gateway import SHIM
from streamtable.jvm.jars import delta_jars, shim_jar
from streamtable.settings.session import check_settings

EXTENSIONS = "spark.sql.extensions"
EXTENSION, DELTA_EXTENSION = f"{SHIM}.StreamTableExtension", "io.delta.sql.DeltaSparkSessionExtension"
SESSION_CATALOG, DELTA_CATALOG = "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
CATALOG_KIND, WAREHOUSE = "spark.sql.catalogImplementation", "spark.sql.warehouse.dir"
METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"
METASTORES_OF_THE_USER = (METASTORE, "spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")
DRIVER_PATH, EXECUTOR_PATH = "spark.driver.extraClassPath", "spark.executor.extraClassPath"
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
COMPILED = "spark.sql.codegen.cache.maxEntries"
LOG_STORES, S3_LOG_STORE = "spark.delta.logStore.class", "spark.delta.logStore.s3a.impl"
KEY_END = re.compile(r"\s*[=:]\s*|\s+")  # as in Java's properties files
MASTER = "spark.master"
SUBMIT_ARGUMENTS, PROPERTIES_FILE = "PYSPARK_SUBMIT_ARGS", "--properties-file"
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"})
KEYS_ESCAPES = {**ESCAPES, **str.maketrans({letter: f"\\{letter}" for letter in " :=#!"})}
LOCAL_DEFAULTS = {
    "spark.authenticate": "true",  # Spark's own ports read objects of Java from everybody otherwise
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks read a table's log otherwise
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",  # and 10,000 list files in VACUUM
    # Hadoop starts a dozen processes for each commit on a local disk, and of two commits at once it may lose one.
    "spark.hadoop.fs.file.impl": f"{SHIM}.LocalDiskFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{SHIM}.LocalDiskFileContext",
}


def settings_for(options: Mapping[str, str], folder: Path | None = None) -> dict[str, str]:
    """Return the settings to add to `options` on this machine, with the catalog in `folder` or the current one.

    Raises InvalidStatement for a value that is none of a setting of ours, NotEnabled for a package that is missing.
    """
    ambient = ambient_settings()
    check_settings({**ambient, **options})
    return settings(options, ambient, folder or Path.cwd(), (*delta_jars(), shim_jar()))


def settings(options: Mapping[str, str], ambient: Mapping[str, str], folder: Path, jars: Sequence[Path]) -> dict[str, str]:
    """Return the settings to add to the builder's `options`, given those of the environment (`ambient`)."""
    given = {**ambient, **options}
    added = {
        EXTENSIONS: _with_ours(items(given.get(EXTENSIONS, ""))),
        SESSION_CATALOG: given.get(SESSION_CATALOG, DELTA_CATALOG),
        # Not spark.jars: those are loaded by a class loader that sessions of the Thrift server do not see.
        **{key: _joined(given.get(key, ""), jars, os.pathsep) for key in (DRIVER_PATH, EXECUTOR_PATH)},
        # A refresh of a join compiles a hundred pieces of code, the same ones each time. With Spark's 100 places, each is compiled
        # again. All places together take 150 MB.
        COMPILED: given.get(COMPILED, "5000"),
    }
    if LOG_STORES not in given:  # Delta takes that setting, or one for each scheme, never both
        added[S3_LOG_STORE] = given.get(S3_LOG_STORE, f"{SHIM}.S3LogStore")
    if is_local(given):
        added |= {key: given.get(key, value) for key, value in LOCAL_DEFAULTS.items()}
    else:
        # Executors on other machines do not have our paths; this copies the jars to them.
        added["spark.jars"] = _joined(given.get("spark.jars", ""), jars, ",")
    return {**added, **_embedded_catalog(given, folder)}


def is_local(given: Mapping[str, str]) -> bool:
    """Tell whether the tasks of a session with these settings run in its own process."""
    master = given.get(MASTER, "local[*]")
    return master.startswith("local") and not master.startswith("local-cluster")


def _embedded_catalog(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings of a Hive metastore in `folder`, without those that the user has set."""
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


def ambient_settings() -> dict[str, str]:
    """Return the settings that spark-submit adds: of spark-defaults.conf or the file in its place, and of PYSPARK_SUBMIT_ARGS.

    It takes the master from the variable MASTER as well.
    """
    found = {MASTER: master} if (master := os.environ.get("MASTER")) else {}
    conf, files, others = parted(os.environ.get(SUBMIT_ARGUMENTS, ""))
    for file in [Path(each) for each in files] or [_configuration_folder() / "spark-defaults.conf"]:
        if file.is_file():
            for line in map(str.strip, file.read_text(encoding="utf-8").splitlines()):
                if line and not line.startswith("#"):
                    key, *value = KEY_END.split(line, maxsplit=1)
                    found[key] = "".join(value)
    return {**found, **conf, **_master_of(others)}


def _master_of(arguments: Sequence[str]) -> dict[str, str]:
    """Return the master that arguments of spark-submit name, if they do."""
    for word, after in pairwise((*arguments, "")):
        option, equals, joined = word.partition("=")
        if option == "--master":
            return {MASTER: joined if equals else after}
    return {}


def parted(submit_arguments: str) -> tuple[dict[str, str], list[str], list[str]]:
    """Return the settings among the arguments of spark-submit, the file of settings, if any, and the other arguments."""
    conf, files, others = dict[str, str](), list[str](), list[str]()
    words = iter(shlex.split(submit_arguments))
    for word in words:
        option, equals, joined = word.partition("=")
        if option in ("--conf", "-c", PROPERTIES_FILE):
            value = joined if equals else next(words, "")
            if option == PROPERTIES_FILE:
                files = [value]
            else:
                key, _, conf[key] = value.partition("=")
        else:
            others.append(word)
    return conf, files, others


def as_properties(settings: Mapping[str, str]) -> str:
    """Return the text of a properties file, as Java reads it."""
    return "".join(f"{_escaped(key, KEYS_ESCAPES)}={_escaped(value, ESCAPES)}\n" for key, value in settings.items())


def _escaped(text: str, escapes: Mapping[int, str]) -> str:
    written = str(text).translate(escapes)
    return f"\\{written}" if written.startswith(" ") else written


def _configuration_folder() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")


def _has_hive_site() -> bool:
    folders = (os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))
    return any((Path(folder) / "hive-site.xml").is_file() for folder in (_configuration_folder(), *folders) if folder)


def recipe(extensions: Sequence[str]) -> dict[str, str]:
    """Return the settings that make a session with these `extensions` know stream tables, with this machine's paths."""
    jars = os.pathsep.join(str(jar) for jar in (*delta_jars(), shim_jar()))
    return {
        EXTENSIONS: _with_ours(extensions),
        SESSION_CATALOG: DELTA_CATALOG,
        DRIVER_PATH: jars,
        EXECUTOR_PATH: jars,
    }


def items(text: str) -> list[str]:
    """Return the parts of a list between commas, as Spark reads one."""
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _with_ours(extensions: Sequence[str]) -> str:
    """Return the list of extensions with Delta's first and ours last.

    Spark calls the last parser first, and ours must insert parameters before Delta's drops them (delta#7640).
    """
    others = (name for name in extensions if name not in (DELTA_EXTENSION, EXTENSION))
    return ",".join((DELTA_EXTENSION, *others, EXTENSION))
