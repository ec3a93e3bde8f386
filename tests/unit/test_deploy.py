"""A folder of definitions is read, and put in order, before anything is done."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row
from typer.testing import CliRunner

from streamtable.api.answers import Listed
from streamtable.errors import DependentsExist, InvalidQuery, InvalidStatement
from streamtable.hosts.cli import options
from streamtable.hosts.cli.app import app
from streamtable.hosts.cli.folder import wanted_in

HERE = ("spark_catalog", "shop")


def folder(place: Path, **files: str) -> Path:
    for name, text in files.items():
        (place / name.replace("__", "/")).parent.mkdir(exist_ok=True)
        (place / f"{name.replace('__', '/')}.sql").write_text(text, encoding="utf-8")
    return place


def test_sources_come_before_their_readers_whatever_their_files_are_called(tmp_path: Path) -> None:
    made = folder(
        tmp_path,
        a="CREATE STREAM TABLE top AS WITH b AS (SELECT * FROM Middle) SELECT * FROM b;",
        b__c="-- a comment\nCREATE OR REPLACE MATERIALIZED VIEW shop.middle AS SELECT * FROM `base`;\nCREATE STREAM TABLE base AS SELECT 1 AS one",
    )
    found = [(each.name.parts[-1], each.place) for each in wanted_in(made, HERE)]
    assert found == [("base", "b/c.sql:3"), ("middle", "b/c.sql:2"), ("top", "a.sql:1")]
    assert all(each.statement.or_replace and each.statement.name.parts[:2] == HERE for each in wanted_in(made, HERE))


def test_a_query_that_only_spark_understands_is_no_obstacle(tmp_path: Path) -> None:
    made = folder(tmp_path, a="CREATE STREAM TABLE a AS SELECT * FROM t MATCH ~~ ((", b="CREATE STREAM TABLE b AS SELECT 1 AS one")
    assert [each.name.parts[-1] for each in wanted_in(made, HERE)] == ["a", "b"]


@pytest.mark.parametrize(
    "query",
    [
        "WITH t AS (SELECT * FROM a) SELECT * FROM t",
        "WITH T AS (SELECT * FROM a), u AS (SELECT * FROM t) SELECT * FROM u JOIN `t` AS again ON true",
        "SELECT * FROM (WITH t AS (SELECT * FROM a) SELECT * FROM t) AS inner_one",
        "WITH RECURSIVE t AS (SELECT 1 AS n FROM a UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t",
        "WITH RECURSIVE t MAX RECURSION LEVEL 9 AS (SELECT n FROM a UNION ALL SELECT n + 1 FROM t) SELECT * FROM t",
        "WITH t AS (VALUES (1)) SELECT * FROM t JOIN a ON true",
        "WITH t AS (TABLE a) SELECT * FROM t",
        "SELECT id AS t FROM a AS t WHERE t.id > 0",
        "SELECT * FROM elsewhere.t JOIN a ON true",
        "SELECT * FROM t(10) JOIN a ON true",
    ],
)
def test_a_name_that_is_no_table_in_its_query_is_no_cycle(tmp_path: Path, query: str) -> None:
    made = folder(tmp_path, a=f"CREATE STREAM TABLE t AS {query}", b="CREATE STREAM TABLE a AS SELECT 1 AS id")
    assert [each.name.parts[-1] for each in wanted_in(made, HERE)] == ["a", "t"]


def test_tables_that_name_each_other_by_with_alone_are_put_in_order(tmp_path: Path) -> None:
    made = folder(
        tmp_path,
        a="CREATE STREAM TABLE orders AS SELECT * FROM stg",
        b="CREATE STREAM TABLE stg AS WITH orders AS (SELECT 1 AS id) SELECT * FROM orders",
    )
    assert [each.name.parts[-1] for each in wanted_in(made, HERE)] == ["stg", "orders"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS id UNION ALL SELECT 2 UNION SELECT id FROM z",
        "SELECT 1 AS id WHERE EXISTS (SELECT 1 FROM z)",
        "SELECT 1 AS id WHERE 1 IN (SELECT id FROM Shop.Z)",
        "SELECT * FROM (SELECT 1 AS id) AS one, LATERAL (SELECT * FROM z WHERE z.id = one.id) AS found",
        "SELECT (SELECT max(id) FROM z) AS id",
        "SELECT 1 AS id ORDER BY (SELECT max(id) FROM `z`)",
        "WITH z AS (SELECT * FROM z) SELECT * FROM z",
        "WITH y AS (SELECT * FROM z), z AS (SELECT 1 AS id) SELECT * FROM y JOIN z ON true",
        "FROM z |> WHERE id > 1",
        "VALUES ((SELECT max(id) FROM z))",
        "TABLE z",
        "SELECT * FROM `z` MATCH ~~ ((",
    ],
)
def test_a_table_that_is_read_somewhere_in_a_query_comes_first(tmp_path: Path, query: str) -> None:
    made = folder(tmp_path, a=f"CREATE STREAM TABLE a AS {query}", b="CREATE STREAM TABLE z AS SELECT 1 AS id")
    assert [each.name.parts[-1] for each in wanted_in(made, HERE)] == ["z", "a"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no .sql file"),
        ({"a": "SELECT 1"}, "a.sql:1"),
        ({"a": "\n\nDROP STREAM TABLE t"}, "a.sql:3 is no CREATE STREAM TABLE"),
        (
            {"a": "CREATE STREAM TABLE t AS SELECT 1 AS one", "b": "CREATE STREAM TABLE SHOP.T AS SELECT 2 AS two"},
            "b.sql:1 defines .* a.sql:1",
        ),
        (
            {"a": "CREATE STREAM TABLE x AS SELECT * FROM y", "b": "CREATE STREAM TABLE y AS SELECT * FROM x"},
            "read each other: .*x.*y",
        ),
        ({"a": "CREATE STREAM TABLE x AS SELECT * FROM x"}, "read each other: .*x.* reads .*x"),
        ({"a": "CREATE STREAM TABLE x AS WITH x AS (SELECT * FROM X) SELECT * FROM x"}, "read each other: .*x.* reads .*x"),
    ],
)
def test_what_is_no_deployment_says_where(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidStatement, match=said):
        wanted_in(folder(tmp_path, **files), HERE)


def test_a_file_is_found_however_its_ending_is_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for file in ("A.SQL", "deep/b.Sql"):
        (tmp_path / file).write_text(f"CREATE STREAM TABLE {Path(file).stem} AS SELECT 1 AS one", encoding="utf-8")
    assert [each.place for each in wanted_in(tmp_path, HERE)] == ["A.SQL:1", "deep/b.Sql:1"]


@pytest.mark.parametrize("name", ["linked", "linked.sql"])
def test_a_linked_folder_is_refused_rather_than_left_out(tmp_path: Path, name: str) -> None:
    elsewhere = folder(tmp_path, elsewhere__a="CREATE STREAM TABLE a AS SELECT 1 AS one") / "elsewhere"
    made = folder(tmp_path, made__b="CREATE STREAM TABLE b AS SELECT 1 AS one") / "made"
    (made / name).symlink_to(elsewhere)
    with pytest.raises(InvalidStatement, match=f"{name} is a link to a folder"):
        wanted_in(made, HERE)
    (tmp_path / "whole").symlink_to(elsewhere)  # the folder itself may be a link
    assert len(wanted_in(tmp_path / "whole", HERE)) == 1


def test_what_cannot_be_read_is_refused_rather_than_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = folder(tmp_path, a="CREATE STREAM TABLE a AS SELECT 1 AS one")
    (made / "b.sql").symlink_to("nowhere.sql")
    with pytest.raises(InvalidStatement, match=r"b\.sql cannot be read: .*No such file"):
        wanted_in(made, HERE)
    (made / "b.sql").unlink()
    (made / "b.sql").write_bytes(b"\xff")
    with pytest.raises(InvalidStatement, match=r"b\.sql cannot be read: .*utf-8"):
        wanted_in(made, HERE)
    (made / "b.sql").unlink()
    (made / "closed").mkdir()
    listing = os.scandir

    def scandir(place: Any) -> Any:  # root, who may run tests, reads all folders
        if Path(place).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return listing(place)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InvalidStatement, match="closed cannot be read: Permission denied"):
        wanted_in(made, HERE)


def full(name: str) -> str:
    return ".".join((*HERE, name))


class Spark:
    """A catalog whose stream tables have readers, and which refuses some statements; it keeps the others.

    `explained` are the rows before the last one of EXPLAIN, of tables whose other definition would be refused.
    """

    def __init__(self, there: Mapping[str, str | None], refused: str, explained: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        self.there, self.refused, self.explained = dict(there), refused, explained
        self.done = list[str]()

    def sql(self, text: str) -> SimpleNamespace:
        rows = list(self._rows(text))
        return SimpleNamespace(collect=lambda: rows)

    def _rows(self, text: str) -> Iterator[Row]:
        match text.replace("`", "").split():
            case ["SELECT", "current_catalog(),", _]:
                yield Row(*HERE)
            case ["SELECT", "*", "FROM", "stream_tables()", *_]:
                nothing = {each.name: None for each in fields(Listed)}
                yield from (Row(**nothing | {"name": full(name)}) for name in self.there)
            case ["SHOW", "STREAM", "TABLE", "DEPENDENCIES"]:
                read = ((reader, source) for source, reader in self.there.items() if reader)
                yield from (
                    Row(name=full(reader), source=full(source), kind="stream table", columns=None) for reader, source in read
                )
            case ["EXPLAIN", "CREATE", "OR", "REPLACE", "STREAM", "TABLE", *_]:
                self._judge(text)
                name = text.replace("`", "").split()[6].rpartition(".")[2]
                said = self.explained.get(name, ())
                yield from (Row(operator=label, incremental=False, reason=full(of)) for label, of in said if label != "Replace")
                why = [of for label, of in said if label == "Replace"]
                yield Row(
                    operator="Replace", incremental=not why, reason=f"it is refused: {why[0]}" if why else "the query is another"
                )
            case ["CREATE", "OR", "REPLACE", "STREAM", "TABLE", name, *_]:
                self._judge(text)
                self._change(f"create {name}", name, "gone" in text)
            case ["DROP", *_, name]:
                self._change(f"drop {name}", name, True)
                del self.there[name.rpartition(".")[2]]
            case _:
                raise AssertionError(text)

    def _judge(self, text: str) -> None:
        if self.refused in text:
            raise InvalidQuery(f"there is no {self.refused}")

    def _change(self, deed: str, name: str, stops: bool) -> None:
        reader = self.there.get(name.rpartition(".")[2])
        if stops and reader in self.there:
            raise DependentsExist(f"{reader} reads it")
        self.done.append(deed.replace("spark_catalog.shop.", ""))


def deployed(
    monkeypatch: pytest.MonkeyPatch,
    place: Path,
    there: Mapping[str, str | None],
    *more: str,
    explained: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    **files: str,
) -> tuple[list[str], Any]:
    """Return what was done in the catalog by `deploy --prune`, where no query may have a `typo`, and what the command said."""
    spark = Spark(there, "typo", explained or {})

    @contextmanager
    def opened(remote: str | None, conf: dict[str, str]) -> Iterator[Spark]:
        yield spark

    monkeypatch.setattr(options, "opened", opened)
    folder(place, **{name: f"CREATE STREAM TABLE {name} AS SELECT {query}" for name, query in files.items()})
    return spark.done, CliRunner().invoke(app, ["deploy", str(place), "--prune", *more])


def test_a_new_table_with_a_typo_stops_a_deployment_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done, said = deployed(monkeypatch, tmp_path, {"old": None}, "--plan", new="typo")
    assert done == [] and said.exit_code == 1 and "there is no typo" in said.stderr and said.stdout == ""


@pytest.mark.parametrize("there", [{"old": None}, {"old": None, "new": None}, {"base": "old", "old": None}])
def test_prune_drops_nothing_while_another_table_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: dict[str, str | None]
) -> None:
    done, said = deployed(monkeypatch, tmp_path, there, base="1 AS gone", new="typo FROM base")
    assert not any(each.startswith("drop") for each in done), done
    assert said.exit_code == 1 and "there is no typo" in said.stderr
    assert [line.split()[1] for line in said.stdout.splitlines()] == [f"spark_catalog.shop.{each.split()[1]}:" for each in done]


def test_what_was_done_before_an_error_is_in_the_json_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done, said = deployed(monkeypatch, tmp_path, {}, "--json", base="1 AS one", new="typo FROM base")
    assert done == ["create base"] and [each["kind"] for each in json.loads(said.stdout)] == ["create"]


def test_prune_drops_last_and_a_reader_in_the_way_before_what_it_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done, said = deployed(monkeypatch, tmp_path, {"old": None}, base="1 AS one")
    assert (done, said.exit_code) == (["create base", "drop old"], 0)
    there = {"base": "old", "deep": "old", "old": None}
    done, said = deployed(monkeypatch, tmp_path, there, base="1 AS gone", other="1 AS one")
    assert (done, said.exit_code) == (["create other", "drop old", "create base", "drop deep"], 0), said.output


def test_a_reader_that_stays_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done, said = deployed(monkeypatch, tmp_path, {"base": "other", "other": None}, base="1 AS gone", other="one FROM base")
    assert (
        done == ["create other"] and isinstance(said.exception, (PySparkException, SystemExit)) and "other reads it" in said.stderr
    )


FROZEN = ("Replace", "t keeps frozen rows, and cannot be given other columns; keep the columns")
READ = ("Replace", "t is read by top, and would lose amount; keep the columns")


@pytest.mark.parametrize("more", [(), ("--plan",)])
def test_a_step_that_is_always_refused_leaves_the_steps_before_it_undone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: tuple[str, ...]
) -> None:
    files = {"base": "1 AS one", "t": "one FROM base"}
    done, said = deployed(monkeypatch, tmp_path, {"t": None}, *more, explained={"t": [FROZEN]}, **files)
    assert done == [] and said.exit_code == 1
    assert "here 1 of 2:" in said.stderr and f"spark_catalog.shop.t: {FROZEN[1]} (t.sql:1)" in said.stderr
    shown = [line.split(maxsplit=2)[:2] for line in said.stdout.splitlines()]
    assert shown == ([["create", "spark_catalog.shop.base:"], ["refused", "spark_catalog.shop.t:"]] if more else [])
    done, said = deployed(monkeypatch, tmp_path, {"t": None}, *more, "--json", explained={"t": [FROZEN]}, **files)
    assert done == [] and [each["kind"] for each in json.loads(said.stdout)] == (["create", "refused"] if more else [])
    assert json.loads(said.stderr)["error"]["condition"] == "STREAMTABLE_INVALID_STATEMENT"


@pytest.mark.parametrize(
    ("explained", "files", "kinds"),
    [
        ({"t": [FROZEN]}, {"t": "1"}, {"t": "refused"}),
        ({"t": [("Reads", "base"), FROZEN]}, {"t": "2 FROM base"}, {"base": "rebuild", "t": "refused"}),
        ({"t": [("Reads", "base"), FROZEN], "base": [("Columns", "a")]}, {"t": "2 FROM base"}, {"base": "rebuild", "t": "rebuild"}),
        ({"t": [("Read by", "top"), READ]}, {"top": "3 FROM t"}, {"t": "rebuild", "top": "rebuild"}),
        ({"t": [("Read by", "top"), ("Read by", "elsewhere"), READ]}, {"top": "3 FROM t"}, {"t": "refused", "top": "rebuild"}),
        ({"t": [("Read by", "gone"), READ]}, {}, {"t": "rebuild", "gone": "drop"}),
        ({"t": [("Followed by", "gone"), READ]}, {}, {"t": "rebuild", "gone": "drop"}),
        ({"t": [("Followed by", "top"), READ]}, {"top": "3 FROM t"}, {"t": "refused", "top": "rebuild"}),
        ({"t": [("Followed by", "top"), READ]}, {"top": "3"}, {"t": "rebuild", "top": "rebuild"}),
        ({"t": [("Followed by", "queue"), READ]}, {"top": "3 FROM t"}, {"t": "refused"}),
        ({"t": [("Read by", "top"), READ], "top": [FROZEN]}, {"top": "3 FROM t"}, {"t": "refused", "top": "refused"}),
        ({"t": [("Read by", "top"), ("Columns", "a"), READ]}, {"top": "typo FROM t"}, {"t": "refused", "top": "refused"}),
        ({}, {"top": "typo FROM t"}, {"t": "rebuild", "top": "refused"}),
        ({}, {"top": "typo FROM t JOIN view"}, {"t": "rebuild", "top": "rebuild"}),
        ({}, {"top": "1 FROM gone"}, {"top": "rebuild", "gone": "refused"}),
        ({}, {"new": "1 FROM gone"}, {"new": "create", "gone": "refused"}),
    ],
)
def test_a_refusal_is_told_from_one_that_another_step_lifts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    explained: dict[str, list[tuple[str, str]]],
    files: dict[str, str],
    kinds: dict[str, str],
) -> None:
    there = dict.fromkeys(("base", "t", "top", "gone", "other"))
    always = {"base": "1 AS a", "t": "1 AS a", "top": "1 AS a", "other": "1 AS a"}
    done, said = deployed(monkeypatch, tmp_path, there, "--plan", "--json", explained=explained, **{**always, **files})
    found = {each["name"].rpartition(".")[2]: each["kind"] for each in json.loads(said.stdout)}
    assert {name: found[name] for name in kinds} == kinds
    assert said.exit_code == ("refused" in found.values()) and done == []
