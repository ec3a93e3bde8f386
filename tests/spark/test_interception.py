"""The shim takes our statements and no others; parameters work; errors arrive as what they were."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.captured import AnalysisException as CapturedAnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType
from tests.versions import is_since, needs, statements

from streamtable import enable
from streamtable.errors import InternalError, InvalidStatement, NotEnabled, RefreshError, StatementSyntaxError
from streamtable.jvm import callback, originals
from streamtable.jvm.callback import register

pytestmark = pytest.mark.core

ALL_TYPES = "s string, b boolean, i int, l bigint, d double, t timestamp"


def columns(ddl: str) -> StructType:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return parsed


@dataclass
class Recorder:
    """Answer every statement by `reply`, and remember what was asked."""

    reply: Callable[[SparkSession, str], Iterable[Sequence[Any]]] = lambda spark, sql: []
    schema: str = "name string, rows bigint"
    described: list[str] = field(default_factory=list)

    def describe(self, spark: SparkSession, sql: str) -> StructType:
        self.described.append(sql)
        if "syntax error" in sql:
            raise StatementSyntaxError("expected a name", hint="give one")
        return columns(self.schema)

    def run(self, spark: SparkSession, sql: str) -> Iterable[Sequence[Any]]:
        return self.reply(spark, sql)

    def begun(self, spark: SparkSession, sql: str, place: str) -> str:
        raise NotImplementedError

    def latest(self, spark: SparkSession, sql: str, columns: str, start: str | None, newest: str | None) -> str | None:
        raise NotImplementedError

    def batch(self, spark: SparkSession, sql: str, columns: str, start: str | None, end: str) -> DataFrame:
        raise NotImplementedError

    def mentioned(self, spark: SparkSession, sql: str) -> dict[str, Any]:
        return {}

    def describe_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> StructType:
        self.described.append(f"{name}{tuple(arguments)}")
        return columns(self.schema)

    def call_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Iterable[Sequence[Any]]:
        return self.reply(spark, f"{name}{tuple(arguments)}")

    def accompany(
        self, spark: SparkSession, operation: str, name: Sequence[str], statement: Callable[[], object]
    ) -> Iterable[Sequence[Any]]:
        return []

    def follow(self, spark: SparkSession, places: Sequence[str]) -> Sequence[str]:
        return []

    def check_source_ddl(self, spark: SparkSession, operation: str, name: str, place: str) -> None:
        self.described.append(f"{operation} {name}")

    def check_setting(self, key: str, value: str) -> None:
        raise NotImplementedError


@pytest.fixture
def recorder(spark: SparkSession) -> Iterator[Recorder]:
    """Answer statements by a Recorder for the length of a test."""
    answers = Recorder()
    register(spark, answers)
    yield answers
    enable(spark)


def raising(error: Exception) -> Callable[[SparkSession, str], Iterable[Sequence[Any]]]:
    def reply(spark: SparkSession, sql: str) -> Iterable[Sequence[Any]]:
        raise error

    return reply


def plan_of(spark: SparkSession, sql: str) -> str:
    """Return the name of the plan node that the session's parser makes of `sql`."""
    return str(spark._jsparkSession.sessionState().sqlParser().parsePlan(sql).getClass().getSimpleName())


def test_a_statement_is_judged_once(spark: SparkSession, recorder: Recorder) -> None:
    spark.sql("CREATE TABLE judged (id INT) USING delta")
    spark.conf.set("spark.streamtable.blockSourceDdl", "true")
    try:
        spark.sql("DROP TABLE judged")
    finally:
        spark.conf.unset("spark.streamtable.blockSourceDdl")
    assert [each.split()[:2] for each in recorder.described] == [["DROP", "TABLE"]]


OURS = [
    "CREATE STREAM TABLE t AS SELECT 1",
    "CREATE OR REPLACE STREAM TABLE t AS SELECT 1",
    "CREATE STREAM TABLE IF NOT EXISTS a.b.t AS SELECT 1",
    "ALTER STREAM TABLE t SUSPEND",
    "DROP STREAM TABLE IF EXISTS t",
    "REFRESH STREAM TABLE t",
    "VERIFY STREAM TABLE t",
    "SHOW STREAM TABLES",
    "SHOW STREAM TABLES IN db LIKE 'x'",
    "SHOW STREAM TABLE DEPENDENCIES",
    "SHOW CREATE STREAM TABLE t",
    "SHOW REFRESH HISTORY",
    "SHOW REFRESH HISTORY FOR t LIMIT 3",
    "DESCRIBE STREAM TABLE t",
    "DESC STREAM TABLE EXTENDED t",
    "DESCRIBE STREAM TABLE `t`",
    "EXPLAIN STREAM TABLE t",
    "EXPLAIN DELTA STREAM TABLE t",
    "EXPLAIN CREATE STREAM TABLE t AS SELECT 1",
    "EXPLAIN CREATE OR REPLACE STREAM TABLE t AS SELECT 1",
    "EXPLAIN ALTER STREAM TABLE t AS SELECT 1",
    "refresh stream table t;",
    "ReFresh\tStream\r\n  TABLE t ; ",
    "   \n\n\u00a0REFRESH STREAM TABLE t",
    "-- a comment\nREFRESH STREAM TABLE t",
    "--\n--x\n  REFRESH -- why not\n STREAM TABLE t",
    "/* a */ /* b\n */ REFRESH/**/STREAM/* /* nested */ */TABLE t",
    "REFRESH STREAM TABLE`t`",
    "/* " + "long " * 50_000 + "*/ REFRESH STREAM TABLE t",
    "REFRESH" + " " * 100_000 + "STREAM TABLE t",
    "REFRESH STREAM TABLE",
]


@pytest.mark.parametrize("sql", OURS, ids=lambda sql: sql[:40])
def test_our_statement_is_taken_with_its_text_unchanged(spark: SparkSession, recorder: Recorder, sql: str) -> None:
    assert plan_of(spark, sql) == "StreamTableCommand"
    assert recorder.described == [sql]


SPARKS = {
    "CREATE STREAMING TABLE t AS SELECT 1": "CreateStreamingTableAsSelect",
    "CREATE TABLE stream (table INT)": "CreateTable",
    "CREATE OR REPLACE TABLE stream AS SELECT 1": "ReplaceTableAsSelect",
    "SELECT * FROM stream": "Project",
    "SELECT 'REFRESH STREAM TABLE t'": "Project",
    "/* REFRESH STREAM TABLE t */ SELECT 1": "Project",
    "-- REFRESH STREAM TABLE t\nSELECT 1": "Project",
    "WITH stream AS (SELECT 1) SELECT * FROM stream": "UnresolvedWith",
    "DESCRIBE stream": "DescribeRelation",
    "DESC stream table": "DescribeColumn",
    "DESCRIBE stream table;": "DescribeColumn",
    "DESCRIBE stream table.x": "DescribeColumn",
    "DESCRIBE TABLE stream": "DescribeRelation",
    "DROP TABLE stream": "DropTable",
    "ALTER TABLE stream RENAME TO table": "RenameTable",
    "DESC straem table": "DescribeColumn",
    "REFRESH TABLE stream": "RefreshTable",
    "REFRESH streamtable": "RefreshResource",
    "REFRESH straem/table": "RefreshResource",
    "REFRESH 'straem table t'": "RefreshResource",
    "SHOW TABLES": "ShowTables",
    "SHOW CREATE TABLE stream": "ShowCreateTable",
    "EXPLAIN SELECT 1": "ExplainCommand",
    "`CREATE`": "",
    "CREATE STREAM": "",
    "CREATE STREAM VIEW t AS SELECT 1": "",
    "EXPLAIN REFRESH STREAM TABLE t": "",
    "/* never closed REFRESH STREAM TABLE t": "",
    "": "",
}


@pytest.mark.parametrize("sql", statements(SPARKS))
def test_what_is_not_ours_reaches_spark(spark: SparkSession, recorder: Recorder, sql: str) -> None:
    if SPARKS[sql]:
        assert plan_of(spark, sql) == SPARKS[sql]
    else:
        with pytest.raises(ParseException):
            plan_of(spark, sql)
    assert recorder.described == []


def test_deltas_statements_reach_deltas_parser(spark: SparkSession) -> None:
    assert plan_of(spark, "VACUUM t RETAIN 1 HOURS") == "VacuumTableCommand"
    assert plan_of(spark, "OPTIMIZE t") == "OptimizeTableCommand"
    assert plan_of(spark, "DESCRIBE HISTORY t") == "DescribeDeltaHistory"


def test_rows_are_typed_by_the_schema(spark: SparkSession, recorder: Recorder) -> None:
    recorder.schema = ALL_TYPES
    moment = datetime(1901, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)
    recorder.reply = lambda spark, sql: [
        ("é'\"\n\\", True, -1, 1, 0.5, moment),
        ("", False, 2**31 - 1, 2**62, float("inf"), datetime(9999, 12, 31, 23, tzinfo=timezone.utc)),
        (None, None, None, None, None, None),
    ]
    answer = spark.sql("REFRESH STREAM TABLE t")
    assert answer.schema == columns(ALL_TYPES)
    answer.createOrReplaceTempView("typed_answer")
    first, second, third = answer.collect()
    assert first[:5] == ("é'\"\n\\", True, -1, 1, 0.5)
    assert second[:5] == ("", False, 2**31 - 1, 2**62, float("inf"))
    assert tuple(third) == (None,) * 6
    micros = [row[0] for row in spark.sql("SELECT unix_micros(t) FROM typed_answer WHERE i = -1").collect()]
    assert micros == [(moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)]


def test_not_a_number_survives(spark: SparkSession, recorder: Recorder) -> None:
    recorder.schema = "d double"
    recorder.reply = lambda spark, sql: [(float("nan"),), (float("-inf"),)]
    answer = spark.sql("REFRESH STREAM TABLE t").selectExpr("isnan(d)", "d < 0").collect()
    assert [tuple(row) for row in answer] == [(True, False), (False, True)]


def test_a_statement_runs_once_however_often_its_result_is_read(spark: SparkSession, recorder: Recorder) -> None:
    runs: list[str] = []
    recorder.reply = lambda spark, sql: runs.append(sql) or [("t", 1)]  # type: ignore[func-returns-value]
    answer = spark.sql("REFRESH STREAM TABLE t")
    assert runs == ["REFRESH STREAM TABLE t"]  # as every command: when it is given, not when it is read
    assert answer.collect() == answer.collect() == [Row(name="t", rows=1)]
    assert answer.filter("rows = 1").count() == 1
    assert runs == ["REFRESH STREAM TABLE t"]


class TestParameters:
    """delta#7640: Delta's parser drops the values of parameters; ours puts them into the text first."""

    def test_named(self, spark: SparkSession) -> None:
        row = spark.sql("SELECT :x + 1 AS y, :name AS n", args={"x": 4, "name": "it's"}).first()
        assert row == Row(y=5, n="it's")

    def test_positional(self, spark: SparkSession) -> None:
        assert spark.sql("SELECT ? + 1 AS y, ? AS n", args=[4, "x"]).first() == Row(y=5, n="x")

    def test_execute_immediate(self, spark: SparkSession) -> None:
        assert spark.sql("EXECUTE IMMEDIATE 'SELECT ? + 1 AS y' USING 4").first() == Row(y=5)
        assert spark.sql("EXECUTE IMMEDIATE 'SELECT :x + 1 AS y' USING 4 AS x").first() == Row(y=5)

    def test_marker_lookalikes_stay(self, spark: SparkSession) -> None:
        row = spark.sql("""SELECT ':x ?' AS s, :x AS p --:x""", args={"x": 1}).first()
        assert row == Row(s=":x ?", p=1)

    @needs("v:field")
    def test_a_field_of_a_variant_is_no_marker(self, spark: SparkSession) -> None:
        row = spark.sql("""SELECT parse_json('{"x": 7}'):x::int AS v, :x AS p""", args={"x": 1}).first()
        assert row == Row(v=7, p=1)

    def test_a_value_is_no_variable(self, spark: SparkSession) -> None:
        row = spark.sql("SELECT :x AS x, '${spark.app.name}' AS name", args={"x": "${spark.app.name}"}).first()
        assert row == Row(x="${spark.app.name}", name="streamtable tests")

    def test_an_error_points_into_the_text_that_was_written(self, spark: SparkSession) -> None:
        with pytest.raises(AnalysisException) as raised:
            spark.sql("SELECT :long_parameter, no_such_column", args={"long_parameter": 1})
        (context,) = raised.value.getQueryContext()
        assert (context.fragment(), context.startIndex()) == ("no_such_column", 24)

    def test_a_missing_value_is_sparks_error(self, spark: SparkSession) -> None:
        for args in ({"other": 1}, None):
            with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
                spark.sql("SELECT :x", args=args).collect()

    def test_legacy_substitution_still_works(self, spark: SparkSession) -> None:
        spark.conf.set("spark.sql.legacy.parameterSubstitution.constantsOnly", "true")
        try:
            assert spark.sql("SELECT :x + 1 AS y", args={"x": 4}).first() == Row(y=5)
        finally:
            spark.conf.unset("spark.sql.legacy.parameterSubstitution.constantsOnly")

    def test_statements_of_delta(self, spark: SparkSession) -> None:
        spark.sql("CREATE OR REPLACE TABLE params_target USING delta AS SELECT id, 'a' AS s FROM range(3)")
        try:
            spark.sql(
                "MERGE INTO params_target t USING (SELECT :k AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET s = :s",
                args={"k": 1, "s": "b"},
            )
            spark.sql("DELETE FROM params_target WHERE id = ?", args=[2])
            spark.sql("OPTIMIZE params_target")
            history = spark.sql("DESCRIBE HISTORY params_target LIMIT :n", args={"n": 2}).collect()
            assert [row.operation for row in history] == ["OPTIMIZE", "DELETE"]
            assert len(spark.sql("VACUUM params_target RETAIN ? HOURS DRY RUN", args=[200]).collect()) == 0
            assert len(spark.sql("VACUUM params_target RETAIN :h HOURS DRY RUN", args={"h": 200}).collect()) == 0
            spark.sql("RESTORE TABLE params_target TO VERSION AS OF :version", args={"version": 1})
            assert len(spark.sql("EXECUTE IMMEDIATE 'VACUUM params_target RETAIN ? HOURS DRY RUN' USING 200").collect()) == 0
            spark.sql("EXECUTE IMMEDIATE 'INSERT INTO params_target VALUES (:id, :s)' USING 7 AS id, 'z' AS s")
            rows = sorted(tuple(row) for row in spark.table("params_target").collect())
            assert rows == [(0, "a"), (1, "b"), (2, "a"), (7, "z")]
        finally:
            spark.sql("DROP TABLE params_target")

    def test_statements_whose_text_delta_keeps(self, spark: SparkSession) -> None:
        spark.sql("CREATE OR REPLACE TABLE params_kept (id INT, day STRING) USING delta PARTITIONED BY (day)")
        try:
            spark.sql("INSERT INTO params_kept VALUES (1, 'mon:day?'), (2, 'mon:day?')")
            spark.sql("OPTIMIZE params_kept WHERE day = :day", args={"day": "mon:day?"})
            spark.sql("REORG TABLE params_kept WHERE day = ? APPLY (PURGE)", args=["mon:day?"])
            spark.sql("ALTER TABLE params_kept ADD CONSTRAINT small CHECK (id < :most)", args={"most": 10})
            with pytest.raises((PySparkException, Py4JJavaError), match="small"):
                spark.sql("INSERT INTO params_kept VALUES (11, 'mon:day?')")
        finally:
            spark.sql("DROP TABLE params_kept")

    def test_what_nobody_can_read_stays_an_error_of_the_parser(self, spark: SparkSession) -> None:
        for args in (None, {"x": 1}):
            with pytest.raises(ParseException) as raised:
                spark.sql("SELEC :x", args=args)
            assert not isinstance(raised.value, StatementSyntaxError)

    def test_our_statements(self, spark: SparkSession, recorder: Recorder) -> None:
        text = "CREATE STREAM TABLE t AS SELECT v:x FROM u WHERE a = :x AND s <> ':x' AND b IN (:x,:y) --:x"
        spark.sql(text, args={"x": 1, "y": "o'k \U0001f40d"})
        spark.sql("CREATE STREAM TABLE t AS SELECT '\U0001f40d' WHERE a = ?", args=[2])
        spark.sql("EXECUTE IMMEDIATE 'REFRESH STREAM TABLE t'")
        spark.sql("REFRESH STREAM TABLE :x")
        assert recorder.described == [
            "CREATE STREAM TABLE t AS SELECT v:x FROM u WHERE a = 1 AND s <> ':x' AND b IN (1,'o\\'k \U0001f40d') --:x",
            "CREATE STREAM TABLE t AS SELECT '\U0001f40d' WHERE a = 2",
            "REFRESH STREAM TABLE t",
            "REFRESH STREAM TABLE :x",
        ]

    def test_more_positional_parameters_than_spark_keeps_in_order(self, spark: SparkSession, recorder: Recorder) -> None:
        text = "CREATE STREAM TABLE t AS SELECT ?, ?, ?, ?, ?"
        if is_since("4.1"):
            with pytest.raises(InvalidStatement, match="name them"):
                spark.sql(text, args=[1, 2, 3, 4, 5])
        else:
            spark.sql(text, args=[1, 2, 3, 4, 5])
            assert recorder.described == ["CREATE STREAM TABLE t AS SELECT 1, 2, 3, 4, 5"]

    def test_a_marker_of_ours_without_a_value_stays(self, spark: SparkSession, recorder: Recorder) -> None:
        spark.sql("REFRESH STREAM TABLE :x /* :y */ :z", args={"x": 1})
        assert recorder.described == ["REFRESH STREAM TABLE 1 /* :y */ :z"]

    def test_variables_are_replaced_in_our_statements(self, spark: SparkSession, recorder: Recorder) -> None:
        spark.sql("REFRESH STREAM TABLE ${spark.sql.shuffle.partitions}")
        assert recorder.described == ["REFRESH STREAM TABLE 2"]


class TestErrors:
    def test_a_syntax_error_is_raised_by_the_parser(self, spark: SparkSession, recorder: Recorder) -> None:
        with pytest.raises(StatementSyntaxError, match="give one") as raised:
            plan_of(spark, "REFRESH STREAM TABLE syntax error")
        assert raised.value.getSqlState() == "42601"

    def test_the_object_itself_arrives_with_its_traceback_and_cause(self, spark: SparkSession, recorder: Recorder) -> None:
        error = RefreshError("no more disk", hint="buy one")
        error.__cause__ = OSError("disk")
        recorder.reply = raising(error)
        with pytest.raises(RefreshError) as raised:
            spark.sql("REFRESH STREAM TABLE t")
        assert raised.value is error
        assert isinstance(error.__cause__, OSError)
        shown = "".join(traceback.format_exception(error))
        assert "in reply" in shown and "OSError: disk" in shown  # where it was raised, and why
        assert "Py4JJavaError" not in shown

    def test_it_survives_sessions_made_in_between(self, spark: SparkSession, recorder: Recorder) -> None:
        spark.newSession()  # installs PySpark's own handler anew
        recorder.reply = raising(RefreshError("x"))
        with pytest.raises(RefreshError):
            spark.newSession().sql("REFRESH STREAM TABLE t")

    def test_anything_else_is_our_bug_and_says_so(self, spark: SparkSession, recorder: Recorder) -> None:
        recorder.reply = raising(ZeroDivisionError("oops"))
        with pytest.raises(InternalError, match="ZeroDivisionError: oops") as raised:
            spark.sql("REFRESH STREAM TABLE t")
        assert isinstance(raised.value.__cause__, ZeroDivisionError)

    def test_a_result_that_does_not_fit_is_our_bug(self, spark: SparkSession, recorder: Recorder) -> None:
        recorder.reply = lambda spark, sql: [(object(),)]
        with pytest.raises(InternalError, match="JSON"):
            spark.sql("REFRESH STREAM TABLE t")

    def test_sparks_own_error_stays_sparks(self, spark: SparkSession, recorder: Recorder) -> None:
        recorder.reply = lambda spark, sql: spark.sql("SELECT * FROM nowhere").collect()
        with pytest.raises(AnalysisException, match="nowhere") as raised:
            spark.sql("REFRESH STREAM TABLE t")
        assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
        assert raised.value.getSqlState() == "42P01"

    def test_an_error_of_a_running_job_stays_sparks(self, spark: SparkSession, recorder: Recorder) -> None:
        recorder.reply = lambda spark, sql: spark.sql("SELECT 1 / id FROM range(3)").collect()
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            spark.sql("REFRESH STREAM TABLE t")

    def test_jvm_callers_see_an_analysis_exception(
        self, spark: SparkSession, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Connect and JDBC read class, condition, SQLSTATE and text from the JVM's exception."""
        error = RefreshError("no more disk", hint="buy one")
        recorder.reply = raising(error)
        monkeypatch.setattr(originals, "_original", lambda java: None)
        with pytest.raises(CapturedAnalysisException) as raised:
            spark.sql("REFRESH STREAM TABLE t")
        thrown: Any = raised.value._origin
        assert thrown.getCondition() == "STREAMTABLE_REFRESH_FAILED"
        assert thrown.getSqlState() == "58000"
        assert thrown.getMessage() == str(error)
        if is_since("4.1"):
            assert thrown.getDefaultMessageTemplate() == str(error)
        said = raised.value.getMessageParameters()
        assert said is not None and len(said.pop("id")) == 32
        assert said == error.getMessageParameters() == {"reason": "no more disk", "hint": "buy one"}
        assert thrown.getClass().getSuperclass().getSuperclass().getName() == "org.apache.spark.sql.AnalysisException"

    def test_without_a_handler_the_error_says_what_to_call(self, spark: SparkSession, recorder: Recorder) -> None:
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.streamtable.Handlers.unset()
        with pytest.raises(NotEnabled, match="streamtable.enable"):
            spark.sql("REFRESH STREAM TABLE t")
        spark.sql("SET spark.streamtable.scheduler.retries = 3")  # it is judged by who answers later
        spark.sql("RESET spark.streamtable.scheduler.retries")


class TestNesting:
    def test_a_handler_runs_sql_in_the_session_of_the_statement(self, spark: SparkSession, recorder: Recorder) -> None:
        recorder.reply = lambda spark, sql: [("n", spark.table("only_there").count())]
        other = spark.newSession()
        other.range(7).createOrReplaceTempView("only_there")
        assert other.sql("REFRESH STREAM TABLE t").first() == Row(name="n", rows=7)
        with pytest.raises(AnalysisException, match="only_there"):
            spark.sql("REFRESH STREAM TABLE t")

    def test_a_handler_runs_our_statements(self, spark: SparkSession, recorder: Recorder) -> None:
        def reply(spark: SparkSession, sql: str) -> Iterable[Sequence[Any]]:
            depth = int(sql.rsplit("_", 1)[1])
            if depth == 0:
                raise RefreshError("at the bottom")
            return spark.sql(f"REFRESH STREAM TABLE t_{depth - 1}").collect()

        recorder.reply = reply
        with pytest.raises(RefreshError, match="at the bottom"):
            spark.sql("REFRESH STREAM TABLE t_5")
        assert len(recorder.described) == 6

    def test_many_threads_get_their_own_answers(self, spark: SparkSession, recorder: Recorder) -> None:
        def reply(spark: SparkSession, sql: str) -> Iterable[Sequence[Any]]:
            number = int(sql.rsplit("_", 1)[1])
            if number % 5 == 0:
                raise RefreshError(f"number {number}")
            return [(sql, spark.range(number).count())]

        def ask(number: int) -> object:
            try:
                return spark.sql(f"REFRESH STREAM TABLE t_{number}").collect()
            except RefreshError as error:
                return error.reason

        recorder.reply = reply
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(40)))
        expected = [f"number {n}" if n % 5 == 0 else [Row(name=f"REFRESH STREAM TABLE t_{n}", rows=n)] for n in range(40)]
        assert answers == expected


def test_a_table_function_is_asked_when_it_is_read(spark: SparkSession, recorder: Recorder) -> None:
    called: list[str] = []

    def reply(spark: SparkSession, call: str) -> Iterable[Sequence[Any]]:
        called.append(call)
        return [("a", len(called))]

    recorder.reply = reply
    frame = spark.sql("SELECT x.name, y.rows FROM refresh_history('it\\'s', 1 + 1) x JOIN refresh_history(NULL) y USING (name)")
    assert recorder.described == ["""refresh_history("it's", '2')""", "refresh_history(None,)"]
    assert called == []
    assert frame.collect() == [Row(name="a", rows=2)]
    assert called == ["""refresh_history("it's", '2')""", "refresh_history(None,)"]
    recorder.reply = lambda spark, call: spark.sql("SELECT 'nested', count(*) FROM range(3)").collect()
    assert spark.sql("SELECT name FROM staleness() WHERE rows = 3").collect() == [Row(name="nested")]
    recorder.reply = raising(StatementSyntaxError("no"))
    with pytest.raises(StatementSyntaxError):
        spark.sql("SELECT * FROM staleness()").collect()
    with pytest.raises(InvalidStatement, match="staleness cannot take"):
        spark.sql("SELECT s.* FROM range(3) r, LATERAL staleness(r.id) s")
    with pytest.raises(InvalidStatement, match="staleness cannot take"):
        spark.sql("SELECT * FROM staleness(name => 'a')")


class Held:
    """What a statement works with."""


def test_an_error_that_no_client_here_fetches_keeps_nothing_of_its_statement(spark: SparkSession, recorder: Recorder) -> None:
    held: list[weakref.ref[Held]] = []

    def inner(work: Held) -> None:
        try:
            int("no number")
        except ValueError as cause:
            raise RefreshError("cannot go on") from cause

    def reply(session: SparkSession, sql: str) -> Iterable[Sequence[Any]]:
        work = Held()
        held.append(weakref.ref(work))
        inner(work)
        return []

    recorder.reply = reply
    statement = "SHOW STREAM TABLES"
    gc.disable()  # only the cycles of errors, and who keeps them, count
    try:
        # As a client outside this process: the error is answered and never asked for again.
        told = callback.Handler(recorder).run(spark._jsparkSession, statement)
        assert "cannot go on" in told and held[0]() is None
    finally:
        gc.enable()
    with pytest.raises(RefreshError, match="cannot go on") as caught:
        spark.sql(statement).collect()
    assert "inner" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)], "its lines stay"
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_that_nobody_asks_for_is_not_kept_for_long(
    spark: SparkSession, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = list[weakref.ref[Held]]()

    def reply(session: SparkSession, sql: str) -> Iterable[Sequence[Any]]:
        work = Held()
        held.append(weakref.ref(work))

        def inner() -> None:
            raise RefreshError(f"cannot go on with {work}")

        inner()
        return []

    recorder.reply = reply
    handler, statement = callback.Handler(recorder), "SHOW STREAM TABLES"
    gc.disable()
    try:
        assert "cannot go on" in handler.run(spark._jsparkSession, statement)
        recorder.reply = lambda *_: []
        handler.run(spark._jsparkSession, statement)
        assert held[0]() is not None, "its lines stay, and a function that was defined where it failed"
        monkeypatch.setattr(originals, "KEPT_SECONDS", 0.0)
        handler.run(spark._jsparkSession, statement)
        assert held[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("CREATE STRAEM TABLE slip AS SELECT 1 AS a", "did you mean STREAM TABLE?"),
        ("create or replace streem table slip AS SELECT 1 AS a", "did you mean STREAM TABLE?"),
        ("CREATE STREAMTABLE slip AS SELECT 1 AS a", "did you mean STREAM TABLE?"),
        ("ALTER STREAM TABEL slip SUSPEND", "did you mean TABLE?"),
        ("DROP STREM TABLE slip", "did you mean STREAM TABLE?"),
        ("REFRESH STRAEM TABLE slip", "did you mean STREAM TABLE?"),
        ("REFRESH ALL STREAM TABLES", "leave ALL out: STREAM TABLES without a name are all of them"),
        ("SHOW STREAM TABLE", "SHOW STREAM TABLES lists all of them, DESCRIBE STREAM TABLE name tells of one"),
        ("SHOW STRAEM TABLES", "did you mean STREAM?"),
        ("DESCRIBE EXTENDED MATERIALIZED VIEW slip", "write DESCRIBE STREAM TABLE EXTENDED slip"),
        ("SHOW REFRESH HISTROY", "did you mean HISTORY?"),
        ("EXPLAIN STREAM TABEL slip", "did you mean TABLE?"),
        ("CREATE SUBSCRIPTON slip CONNECTION 'x' PUBLICATION p", "did you mean SUBSCRIPTION?"),
    ],
)
def test_a_misspelt_opening_is_answered_by_us(shop: SparkSession, statement: str, hint: str) -> None:
    with pytest.raises(StatementSyntaxError) as caught:
        shop.sql(statement)
    assert caught.value.hint == hint


def test_our_statements_in_scripts(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE a AS SELECT id FROM sales")
    shop.sql("INSERT INTO sales VALUES (4, 'it;s', 1)")
    inner = "CREATE STREAM TABLE b AS SELECT id, 'it;s' AS s FROM a; IF TRUE THEN REFRESH STREAM TABLE b; END IF;"
    shop.sql(f"BEGIN REFRESH STREAM TABLE a; {inner} END")
    shop.sql("BEGIN EXECUTE IMMEDIATE 'REFRESH STREAM TABLE a'; END")
    assert sorted(shop.table("b").collect()) == [(id_, "it;s") for id_ in (1, 2, 2, 3, 4)]


def test_a_misspelt_opening_is_answered_by_us_with_parameters_and_in_scripts(shop: SparkSession) -> None:
    with pytest.raises(StatementSyntaxError, match="did you mean STREAM TABLE"):
        shop.sql("CREATE STRAEM TABLE slip AS SELECT :a AS a", args={"a": 1})
    with pytest.raises(StatementSyntaxError, match="did you mean STREAM TABLE"):
        shop.sql("BEGIN REFRESH STRAEM TABLE slip; END")


@pytest.mark.parametrize(
    "statement", ["CREATE TABEL slip (a INT)", "SHOW TABLE", "DROP STRING TABLE x", "ALTER TABEL x SUSPEND", "EXPLAIN SELEC 1"]
)
def test_what_resembles_nothing_of_ours_stays_sparks_error(shop: SparkSession, statement: str) -> None:
    with pytest.raises(ParseException) as caught:
        shop.sql(statement)
    assert not isinstance(caught.value, StatementSyntaxError)
