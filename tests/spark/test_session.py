"""What `configure` sets and leaves alone, where the jars come from, and what `enable` accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession
from tests.spark.doors import LOOPBACK
from tests.spark.plain import completed, run_python

from streamtable import configure, enable
from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.jvm import jars
from streamtable.jvm.gateway import SHIM
from streamtable.jvm.versions import minor
from streamtable.language.names import Query
from streamtable.query.analyse import analyse, release
from streamtable.sessions.captured import captured_settings
from streamtable.sessions.internal import MOST_IDLE, lend, lent
from streamtable.settings.session import Setting, read_setting
from streamtable.settings.spark import DELTA_CATALOG, DELTA_EXTENSION, EXTENSION, ambient_settings, as_properties, parted, settings

FOLDER = Path("/somewhere/to work")
JARS = (Path("/jars/delta.jar"), Path("/jars/shim.jar"))
SPARK = minor(spark_version)


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep what this machine configures for Spark out of the tests."""
    for variable in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def added(**given: str) -> dict[str, str]:
    return settings({key.replace("__", "."): value for key, value in given.items()}, {}, FOLDER, JARS)


def test_defaults() -> None:
    assert added() == {
        "spark.sql.extensions": f"{DELTA_EXTENSION},{EXTENSION}",
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.driver.extraClassPath": "/jars/delta.jar:/jars/shim.jar",
        "spark.executor.extraClassPath": "/jars/delta.jar:/jars/shim.jar",
        "spark.sql.codegen.cache.maxEntries": "5000",
        "spark.delta.logStore.s3a.impl": f"{SHIM}.S3LogStore",
        "spark.authenticate": "true",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        "spark.hadoop.fs.file.impl": f"{SHIM}.LocalDiskFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": f"{SHIM}.LocalDiskFileContext",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": "/somewhere/to work/spark-warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": ("jdbc:derby:;databaseName=/somewhere/to work/metastore_db;create=true"),
        "spark.driver.extraJavaOptions": '"-Dderby.system.home=/somewhere/to work"',
    }


def test_settings_are_added_once() -> None:
    once = added()
    assert settings(once, {}, FOLDER, JARS).items() <= once.items()


def test_extensions_and_class_path_of_the_user_are_kept() -> None:
    found = added(
        spark__sql__extensions=f"a.B, {EXTENSION}, c.D",
        spark__driver__extraClassPath="/mine.jar",
        spark__driver__extraJavaOptions="-Xss4m",
    )
    assert found["spark.sql.extensions"] == f"{DELTA_EXTENSION},a.B,c.D,{EXTENSION}"
    assert found["spark.driver.extraClassPath"] == "/mine.jar:/jars/delta.jar:/jars/shim.jar"
    assert found["spark.driver.extraJavaOptions"] == '-Xss4m "-Dderby.system.home=/somewhere/to work"'


def test_a_catalog_of_the_user_is_left_alone() -> None:
    assert added(spark__sql__catalog__spark_catalog="my.Catalog")["spark.sql.catalog.spark_catalog"] == "my.Catalog"
    in_memory = added(spark__sql__catalogImplementation="in-memory")
    assert not {"spark.sql.warehouse.dir", "spark.hadoop.javax.jdo.option.ConnectionURL"} & in_memory.keys()
    assert "spark.sql.catalogImplementation" not in in_memory


@pytest.mark.parametrize("key", ["spark.hadoop.hive.metastore.uris", "spark.hadoop.javax.jdo.option.ConnectionURL"])
def test_a_metastore_of_the_user_is_left_alone(key: str) -> None:
    found = settings({key: "mine"}, {}, FOLDER, JARS)
    assert found["spark.sql.catalogImplementation"] == "hive"
    assert not {"spark.sql.warehouse.dir", "spark.hadoop.javax.jdo.option.ConnectionURL"} & found.keys()


def test_a_hive_site_is_a_metastore_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "hive-site.xml").write_text("<configuration/>")
    assert "spark.hadoop.javax.jdo.option.ConnectionURL" not in added()


def test_a_warehouse_of_the_user_is_left_alone() -> None:
    assert added(spark__sql__warehouse__dir="/mine")["spark.sql.warehouse.dir"] == "/mine"


def test_on_a_cluster_the_jars_are_copied_and_deltas_own_defaults_stay() -> None:
    for master in ("spark://host:7077", "local-cluster[2,1,1024]"):
        found = added(spark__master=master, spark__jars="/mine.jar")
        assert found["spark.jars"] == "/mine.jar,/jars/delta.jar,/jars/shim.jar"
        assert "spark.databricks.delta.snapshotPartitions" not in found
        assert found["spark.sql.codegen.cache.maxEntries"] == "5000"


def test_what_the_user_sets_in_place_of_a_default_is_left_alone() -> None:
    assert added(spark__sql__codegen__cache__maxEntries="50")["spark.sql.codegen.cache.maxEntries"] == "50"


def test_a_log_store_of_the_user_is_left_alone() -> None:
    assert added(spark__delta__logStore__s3a__impl="my.Store")["spark.delta.logStore.s3a.impl"] == "my.Store"
    assert "spark.delta.logStore.s3a.impl" not in added(spark__delta__logStore__class="my.Store")  # Delta takes no other beside it


def test_spark_defaults_and_submit_arguments_count_as_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# mine\nspark.sql.extensions  a.B\nspark.sql.warehouse.dir=/defaults\nspark.driver.extraClassPath\t/d.jar\n"
    )
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--conf spark.sql.warehouse.dir=/submit --conf 'spark.driver.extraJavaOptions=-Da=b' x"
    )
    assert ambient_settings() == {
        "spark.sql.extensions": "a.B",
        "spark.sql.warehouse.dir": "/submit",
        "spark.driver.extraClassPath": "/d.jar",
        "spark.driver.extraJavaOptions": "-Da=b",
    }
    found = settings({}, ambient_settings(), FOLDER, JARS)
    assert found["spark.sql.extensions"] == f"{DELTA_EXTENSION},a.B,{EXTENSION}"
    assert found["spark.sql.warehouse.dir"] == "/submit"
    assert found["spark.driver.extraClassPath"] == "/d.jar:/jars/delta.jar:/jars/shim.jar"


def test_settings_of_submit_arguments_move_to_the_file_and_all_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = "--driver-memory 1g -c spark.a=b=c --conf='spark.d= e' --properties-file my.conf --name x pyspark-shell"
    assert parted(given) == (
        {"spark.a": "b=c", "spark.d": " e"},
        ["my.conf"],
        ["--driver-memory", "1g", "--name", "x", "pyspark-shell"],
    )
    (tmp_path / "my.conf").write_text("spark.mine 1\n")
    (tmp_path / "spark-defaults.conf").write_text("spark.default 1\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path / 'my.conf'} x")
    assert ambient_settings() == {"spark.mine": "1"}, "spark-submit does not read the defaults either"


def test_sparks_own_ports_ask_who_calls(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    assert jvm.org.apache.spark.SparkEnv.get().securityManager().isAuthenticationEnabled()
    assert settings({}, {"spark.authenticate": "false"}, FOLDER, JARS)["spark.authenticate"] == "false"
    assert "spark.authenticate" not in settings({"spark.master": "yarn"}, {}, FOLDER, JARS)


def test_a_properties_file_says_what_it_should(spark: SparkSession) -> None:
    given = {"spark.a": "C:\\b\n\tc = d", "spark.path with: =#": "#x!", "spark.empty": "", "spark.é": "ü", "spark.b": " blank"}
    jvm: Any = spark._jvm
    read_setting = jvm.java.util.Properties()
    read_setting.load(jvm.java.io.StringReader(as_properties(given)))
    assert {key: read_setting.getProperty(key) for key in read_setting.stringPropertyNames()} == given


def test_configure_keeps_the_builder_usable_and_leaves_the_given_one_alone() -> None:
    builder = SparkSession.builder.config("spark.a", "1")
    configured = configure(builder).config("spark.b", "2").appName("x")
    assert isinstance(configured, SparkSession.Builder)
    assert builder._options == {"spark.a": "1"}
    assert configured._options == {"spark.a": "1", "spark.b": "2", "spark.app.name": "x"}


class TestJars:
    def test_the_shim_comes_from_the_package_or_from_the_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        packaged, built = tmp_path / "packaged.jar", tmp_path / "built.jar"
        built.touch()
        monkeypatch.setattr(jars, "SHIM", packaged)
        monkeypatch.setenv("STREAMTABLE_SHIM_JAR", str(built))
        assert jars.shim_jar() == built
        packaged.touch()
        assert jars.shim_jar() == packaged

    def test_a_missing_shim_is_explained(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jars, "SHIM", tmp_path / "packaged.jar")
        monkeypatch.delenv("STREAMTABLE_SHIM_JAR", raising=False)
        with pytest.raises(NotEnabled, match="STREAMTABLE_SHIM_JAR"):
            jars.shim_jar()

    def test_deltas_jars_are_found_without_starting_java(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        names = (f"io.delta_delta-spark_{SPARK}_2.13-4.4.0.jar", "io.delta_delta-storage-4.4.0.jar")
        (tmp_path / "jars").mkdir()
        for name in names:
            (tmp_path / "jars" / name).touch()
        monkeypatch.setattr(jars, "_resolver_folders", lambda: (tmp_path / "not here", tmp_path))
        monkeypatch.setattr(jars, "launch_gateway", None)
        assert jars.delta_jars.__wrapped__() == tuple(tmp_path / "jars" / name for name in names)

    def test_spark_resolves_them_where_they_are_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jars, "_resolver_folders", tuple)
        found = jars.delta_jars.__wrapped__()
        assert [jar.name.split("-")[1] for jar in found] == [f"spark_{SPARK}_2.13", "storage"]
        assert all(jar.is_file() for jar in found)

    def test_what_the_resolver_says_is_passed_on(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(jars, "_resolver_folders", tuple)
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf spark.jars.ivy={tmp_path} pyspark-shell")
        with pytest.raises(NotEnabled, match="unresolved dependency") as raised:
            jars.resolve(("io.delta:no-such-artifact:0.0.1",))
        assert "spark.jars.repositories" in str(raised.value)


class TestLiveSession:
    def test_it_is_a_session_on_delta_and_hive(self, spark: SparkSession, working_folder: Path) -> None:
        assert spark.conf.get("spark.sql.catalogImplementation") == "hive"
        assert str(spark.conf.get("spark.sql.warehouse.dir")).endswith(str(working_folder / "spark-warehouse"))
        spark.sql("SHOW TABLES").collect()
        assert (working_folder / "metastore_db").is_dir()
        assert not (Path.cwd() / "metastore_db").exists()

    def test_enable_can_be_called_again(self, spark: SparkSession) -> None:
        enable(spark)
        enable(spark.newSession())
        assert spark.sql("SELECT 1").count() == 1

    def test_hadoops_settings_are_sent_without_their_origins(self, spark: SparkSession) -> None:
        def bytes_of(settings: Any) -> int:
            buffer = spark._jvm.java.io.ByteArrayOutputStream()  # type: ignore[union-attr]
            settings.write(spark._jvm.java.io.DataOutputStream(buffer))  # type: ignore[union-attr]
            return int(buffer.size())

        settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
        settings.set("streamtable.test", "kept")
        anew = spark._jvm.org.apache.hadoop.conf.Configuration()  # type: ignore[union-attr]
        assert settings.size() >= anew.size() > 500
        enable(spark)
        assert settings.get("streamtable.test") == "kept"
        assert settings.get("io.file.buffer.size") == "65536"  # Spark's, where Hadoop's is 4096
        assert settings.get("io.bytes.per.checksum") == anew.get("io.bytes.per.checksum")
        assert bytes_of(settings) < 0.75 * bytes_of(anew)
        settings.unset("streamtable.test")

    def test_getting_the_session_again_returns_it(self, spark: SparkSession) -> None:
        assert configure(SparkSession.builder).getOrCreate() is spark

    def test_a_setting_is_read_from_the_session(self, spark: SparkSession) -> None:
        setting: Setting[int] = Setting("streamtable.test.number", 7, "a whole number", int)
        assert read_setting(spark, setting) == 7
        spark.sql("SET streamtable.test.number = 12")
        try:
            assert read_setting(spark, setting) == 12
            spark.sql("SET streamtable.test.number = twelve")
            with pytest.raises(InvalidStatement, match="a whole number"):
                read_setting(spark, setting)
        finally:
            spark.conf.unset("streamtable.test.number")

    @pytest.mark.parametrize(
        ("key", "value", "said"),
        [
            ("scheduler.parallelism", "many", "cannot be 'many'"),
            ("schedule.default", "5 minuts", "cannot be '5 minuts'.*duration"),
            ("scheduler.polSeconds", "5", "Did you mean `spark.streamtable.scheduler.pollSeconds`"),
        ],
    )
    def test_a_wrong_setting_is_refused_by_set(self, spark: SparkSession, key: str, value: str, said: str) -> None:
        with pytest.raises(InvalidStatement, match=said) as refused:
            spark.sql(f"SET spark.streamtable.{key} = {value}")
        assert refused.value.getSqlState() == InvalidStatement.sqlstate
        assert spark.conf.get(f"spark.streamtable.{key}", None) != value
        spark.sql("SET spark.streamtable.scheduler.retries = 4")
        spark.sql("RESET spark.streamtable.scheduler.retries")

    def test_a_crowd_of_refreshes_leaves_few_sessions(self, spark: SparkSession) -> None:
        def lent() -> list[SparkSession]:
            kind = captured_settings(spark) | {"streamtable.test.crowd": "true"}  # nobody else's are among them
            return [lend(spark, ("spark_catalog", "default"), kind) for _ in range(MOST_IDLE + 2)]

        crowd = lent()
        for analysed in [analyse(session, Query("SELECT 1 AS a")) for session in crowd]:
            release(analysed)
        assert sum(session in crowd for session in lent()) == MOST_IDLE

    def test_a_setting_of_one_caller_is_not_one_of_the_next(self, spark: SparkSession) -> None:
        key, kind = "spark.sql.autoBroadcastJoinThreshold", {"streamtable.test.inherited": "true"}
        other = spark.newSession()
        other.conf.set(key, "-1")
        with lent(other, ("spark_catalog", "default"), kind) as session:
            assert session.conf.get(key) == "-1"
        with lent(spark, ("spark_catalog", "default"), kind) as again:
            assert again is session
            assert again.conf.get(key) == spark.conf.get(key) != "-1"


def test_tables_last_from_one_session_to_the_next_and_a_new_context_works(tmp_path: Path) -> None:
    first = run_python(
        tmp_path,
        """
        import os
        ready = configure(builder("first"))
        os.chdir("/")  # too late to move the tables
        spark = ready.getOrCreate()
        spark.sql("CREATE TABLE kept USING delta AS SELECT 42 AS answer")
        register(spark, Answers())
        print(spark.sql("REFRESH STREAM TABLE t").first().name)
        spark.stop()
        spark = configure(builder("second")).getOrCreate()
        register(spark, Answers())
        print(spark.sql("REFRESH STREAM TABLE t").first().name)
        """,
    )
    assert first.split() == ["first", "second"]
    assert {path.name for path in tmp_path.iterdir()} >= {"metastore_db", "spark-warehouse"}
    second = run_python(
        tmp_path,
        """
        spark = configure(builder("third")).getOrCreate()
        print(spark.table("kept").first().answer)
        """,
    )
    assert second.split() == ["42"]


def test_a_plain_driver_listens_on_loopback_alone(tmp_path: Path) -> None:
    printed = run_python(
        tmp_path,
        """
        import json, os

        from pyspark.sql.functions import udf
        from tests.spark.doors import family, listening

        from streamtable.jvm.callback_server import callbacks

        os.environ.pop("SPARK_LOCAL_IP", None)
        plain = builder("loopback").config("spark.ui.enabled", "true").config("spark.ui.port", "0")
        spark = configure(plain).getOrCreate()
        assert "SPARK_LOCAL_IP" not in os.environ
        assert spark.sql("SHOW TABLES").isEmpty(), "with the embedded catalog"
        assert spark.range(1).select(udf(str)("id")).first()[0] == "0"
        context = spark.sparkContext
        print(json.dumps({
            "driver": int(context.getConf().get("spark.driver.port")),
            "block manager": spark._jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId().port(),
            "ui": int(context.uiWebUrl.rpartition(":")[2]),
            "gateway": context._gateway.gateway_parameters.port,
            "accumulators": context._accumulatorServer.server_address[1],
            "callbacks": callbacks(spark).getCallbackClient().getPort(),
        }))
        print(json.dumps(listening(*family(os.getpid()))))
        """,
    )
    known, found = map(json.loads, printed.splitlines())
    assert len({*known.values()}) == 6 and {*map(str, known.values())} < found.keys()
    assert len(found) == 7, "the daemon of Python workers, and nobody else"
    assert {*found.values()} <= LOOPBACK, printed


_INFO = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = info
"""


def test_secrets_of_a_plain_driver_are_on_no_command_line_and_in_no_log(tmp_path: Path) -> None:
    """Those that Spark, PySpark and we draw, and settings of the user; the script draws the latter, as it is on a command line itself.

    At DEBUG Spark's own SharedState logs the options of the session. `spark.log.level` cannot say INFO: Spark takes it for
    the level that there is, and still keeps to warnings.
    """
    (tmp_path / "log4j2.properties").write_text(_INFO)
    done = completed(
        tmp_path,
        """
        import json, pathlib, secrets

        from pyspark.sql.functions import udf
        from tests.spark.doors import on_command_lines

        from streamtable.jvm.callback_server import _server

        given = {"spark.hadoop.fs.s3a.secret.key": secrets.token_hex(32), "spark.my.password": secrets.token_hex(32)}
        plain = builder("secrets").config("spark.log.level", "INFO").config("spark.logConf", "true").config(map=given)
        spark = configure(plain).getOrCreate()
        spark.sql("CREATE TABLE source USING delta AS SELECT 1 AS id")
        spark.sql("CREATE STREAM TABLE copied AS SELECT id FROM source")
        assert spark.table("copied").select(udf(str)("id")).first()[0] == "1", "with a worker of Python"
        gateway = spark.sparkContext._gateway
        known = {
            **given,
            "Spark's own": spark._jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey(),
            "PySpark's": gateway.gateway_parameters.auth_token,
            "accumulators": spark.sparkContext._accumulatorServer.auth_token,
            "callbacks": _server(spark)._greeting.decode().split()[1],
        }
        assert all(each and len(each) > 30 for each in known.values()), known.keys()
        pathlib.Path("known").write_text(json.dumps(known))
        print([name for name, secret in known.items() if on_command_lines(secret)])
        """,
        SPARK_CONF_DIR=str(tmp_path),
    )
    logged = done.stdout + done.stderr
    assert done.stdout == "[]\n" and len(done.stderr) > 10_000, "what was logged"
    assert [name for name, secret in json.loads((tmp_path / "known").read_text()).items() if secret in logged] == []


def test_a_session_without_the_extension_is_refused_with_the_settings_to_add(tmp_path: Path) -> None:
    printed = run_python(
        tmp_path,
        """
        spark = builder("plain").config("spark.sql.catalogImplementation", "in-memory").getOrCreate()
        try:
            enable(spark)
        except NotEnabled as error:
            print(error)
        """,
    )
    shim = str(jars.shim_jar())
    assert f"spark.sql.extensions = {DELTA_EXTENSION},{EXTENSION}" in printed
    assert "spark.driver.extraClassPath = " in printed and shim in printed


def test_plain_settings_and_enable_do_as_well_if_the_extensions_are_in_order(tmp_path: Path) -> None:
    given: dict[str, Any] = settings({}, {}, tmp_path, (*jars.delta_jars(), jars.shim_jar()))
    printed = run_python(
        tmp_path,
        f"""
        spark = builder("plain").config(map={given!r}).getOrCreate()
        enable(spark)
        enable(spark)
        register(spark, Answers())
        print(spark.sql("SHOW STREAM TABLES").first().name)
        spark.stop()

        ours, deltas = {EXTENSION!r}, {DELTA_EXTENSION!r}
        given = {{**{given!r}, "spark.sql.extensions": ours + "," + deltas}}
        spark = builder("wrong order").config(map=given).getOrCreate()
        try:
            enable(spark)
        except NotEnabled as error:
            print(error.getCondition())
        """,
    )
    assert printed.split() == ["plain", "STREAMTABLE_NOT_ENABLED"]
