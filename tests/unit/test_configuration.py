"""streamtable.toml: what it may hold, and what is said about the rest."""

from __future__ import annotations

from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest

from streamtable.errors import InvalidStatement
from streamtable.settings.server_file import Configuration, ServerSettings, load


def written(folder: Path, text: str) -> Path:
    path = folder / "streamtable.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_settings_of_spark_with_quotes_and_without(tmp_path: Path) -> None:
    text = '[spark]\n"spark.a.b" = "1"\nspark.c.d = 2\nspark.c.e = true\n[server]\nthrift_port = 0\nstop_seconds = 5\n'
    found = load(written(tmp_path, text))
    assert found == Configuration(
        {"spark.a.b": "1", "spark.c.d": "2", "spark.c.e": "true"}, ServerSettings(thrift_port=0, stop_seconds=5)
    )


def test_without_a_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load() == Configuration()
    written(tmp_path, "[server]\nscheduler = false")
    assert load().server.scheduler is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[sparc]", r"no section \[sparc\]"),
        ("[server]\nthrift_prot = 1", "Did you mean `thrift_port`"),
        ('[server]\nthrift_port = "10000"', "has to be a whole number, and is '10000'"),
        ("[server]\nscheduler = 1", "has to be true or false"),
        ("[server", "at the end of a table declaration"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidStatement, match=said):
        load(written(tmp_path, text))


def test_the_file_that_init_writes_names_every_setting_with_its_default(tmp_path: Path) -> None:
    text = (files("streamtable.hosts.cli") / "streamtable.toml").read_text(encoding="utf-8")
    assert load(written(tmp_path, text)).server == ServerSettings()
    assert [field.name for field in fields(ServerSettings) if f"\n{field.name} = " not in text] == []
