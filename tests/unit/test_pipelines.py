"""STREAMING TABLE, LIVE TABLE, STREAM and LIVE are words of pipelines: each gets an answer with what it is here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streamtable.algebra.reading import read_plan
from streamtable.errors import InvalidQuery, StatementSyntaxError
from streamtable.language.parse import parse
from streamtable.language.pipelines import tables_themselves
from streamtable.query.spellings import instead

SHIM = Path(__file__).parents[2] / "jvm_shim" / "src" / "main" / "scala" / "streamtable" / "plumbing"
NO_QUERY = "its query belongs to it: there is no flow that fills it from elsewhere\n"


def refusal(text: str) -> StatementSyntaxError:
    with pytest.raises(StatementSyntaxError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "left", "ours"),
    [
        (
            "CREATE STREAMING TABLE copied AS SELECT * FROM STREAM orders",
            "",
            "CREATE STREAM TABLE copied AS SELECT * FROM orders",
        ),
        (
            (
                "create or refresh\n streaming table -- all of it\n s.`t t` (CONSTRAINT c EXPECT (a > 0) ON VIOLATION DROP ROW)"
                " COMMENT 'as is' AS\nSELECT 'FROM STREAM x' AS s, a FROM STREAM(LIVE.b) JOIN stream live.`c c` USING (a) -- FROM STREAM y"
            ),
            "",
            (
                "CREATE OR REFRESH STREAM TABLE s.`t t` (CONSTRAINT c EXPECT (a > 0) ON VIOLATION DROP ROW)"
                " COMMENT 'as is' AS SELECT 'FROM STREAM x' AS s, a FROM b JOIN `c c` USING (a) -- FROM STREAM y"
            ),
        ),
        (
            "CREATE OR REFRESH PRIVATE STREAMING LIVE TABLE t AS SELECT * FROM cloud_files('/in', 'json')",
            (
                "leave PRIVATE out: it is one of its schema\n"
                "write the files into a table of Delta first, by INSERT or by Structured Streaming, and read that table\n"
            ),
            "CREATE OR REFRESH STREAM TABLE t AS SELECT * FROM cloud_files('/in', 'json')",
        ),
        ("CREATE LIVE TABLE t AS SELECT a FROM LIVE.b", "", "CREATE STREAM TABLE t AS SELECT a FROM b"),
        ("CREATE STREAMING TABLE t;", NO_QUERY, "CREATE STREAM TABLE t AS SELECT * FROM source"),
        ("REFRESH STREAMING TABLE s.t FULL", "", "REFRESH STREAM TABLE s.t FULL"),
        ("ALTER STREAMING TABLE t ADD SCHEDULE EVERY 1 HOUR", "", "ALTER STREAM TABLE t ADD SCHEDULE EVERY 1 HOUR"),
        ("DROP STREAMING TABLE IF EXISTS t", "", "DROP STREAM TABLE IF EXISTS t"),
    ],
)
def test_a_streaming_table_is_answered_with_the_stream_table_that_it_is(text: str, left: str, ours: str) -> None:
    refused = refusal(text)
    assert refused.hint == f"{left}write\n{ours}\n"
    assert re.match(r"(STREAMING|LIVE|STREAMING LIVE) TABLE is a word of pipelines: here it is STREAM TABLE", refused.reason)
    parse(ours)


def test_a_view_of_a_pipeline_is_answered_with_a_view() -> None:
    hint = refusal("CREATE TEMPORARY LIVE VIEW v AS SELECT * FROM LIVE.t").hint
    assert hint == "leave TEMPORARY out: it is one of its schema\nwrite\nCREATE VIEW v AS SELECT * FROM t\n"


def test_each_opening_of_pipelines_that_the_shim_takes_has_an_answer() -> None:
    text = (SHIM / "Slips.scala").read_text(encoding="utf-8").partition("val ofPipelines")[2].partition("yield")[0]
    verbs, hidden, kinds = (re.findall(r'"([A-Z ]*)"', line) for line in text.strip().splitlines()[1:4])
    assert (len(verbs), len(hidden), len(kinds)) == (6, 4, 5)
    for verb in verbs:
        for word in hidden:
            for kind in kinds:
                assert "write\n" in (refusal(f"{verb}{word} {kind} t").hint or "")


def test_what_the_shim_tells_outside_of_pipelines_is_what_python_answers() -> None:
    """The names of Spark's commands, of which one that is misspelt would be nobody's."""
    text = (SHIM / "OutsidePipelines.scala").read_text(encoding="utf-8")
    assert re.findall(r'"(\w+)"', text) == ["CreateStreamingTable", "CreateStreamingTableAsSelect"]
    assert "OutsidePipelines(session)" in (SHIM / "Extension.scala").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM STREAM orders", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `STREAM` cannot be found."),
        ("SELECT * FROM stream s.orders o", "[PARSE_SYNTAX_ERROR] Syntax error at or near 's'"),
        ("SELECT * FROM a JOIN STREAM(orders) USING (id)", "Could not resolve `STREAM` to a table-valued function."),
        ("SELECT * FROM STREAM orders", "Queries with streaming sources must be executed with writeStream.start()"),
        ("SELECT * FROM LIVE.orders", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `LIVE`.`orders` cannot be found."),
        ("SELECT * FROM live . `orders`", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `live`.`orders` cannot be found."),
    ],
)
def test_a_table_that_is_read_as_pipelines_do_is_answered_with_its_name(query: str, message: str) -> None:
    assert instead(query, message) == "name the table itself, without STREAM or LIVE: its changes are read anyway"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM stream WHERE a = 1", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `stream` cannot be found."),
        ("SELECT * FROM s.live.t JOIN stream ON true", "[TABLE_OR_VIEW_NOT_FOUND] The table or view `stream` cannot be found."),
        ("SELECT 'FROM STREAM orders' AS a FROM strem", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT a FROM t -- FROM STREAM orders", "[PARSE_SYNTAX_ERROR]"),
        ("SELECT b FROM STREAM orders", "[UNRESOLVED_COLUMN] A column with name `b` cannot be resolved."),
    ],
)
def test_a_table_of_such_a_name_is_left_alone(query: str, message: str) -> None:
    assert instead(query, message) is None


def test_a_query_keeps_all_but_the_words_of_pipelines() -> None:
    query = 'SELECT /* STREAM(a) */ "LIVE.a", live.b FROM STREAM(x) AS stream\nJOIN live ON stream.a = live.b'
    assert tables_themselves(query) == query.replace("STREAM(x)", "x")
    assert tables_themselves("SELECT a.live.b, `LIVE`.c FROM stream") == "SELECT a.live.b, `LIVE`.c FROM stream"


def test_a_query_that_reads_a_stream_is_refused_and_not_computed_whenever_it_is_refreshed() -> None:
    column = {"id": "c0", "name": "a", "type": "INT", "nullable": True}
    stream = {"op": "StreamingRelation", "unknown": True, "streaming": True, "source": None, "output": [column], "children": []}
    rest = {key: list[str]() for key in ("sources", "views", "temporary_views", "unversioned", "functions")}
    with pytest.raises(InvalidQuery) as refused:
        read_plan(json.dumps({"plan": stream, **rest, "clock": ""}), "reading")
    assert "without STREAM" in (refused.value.hint or "")
