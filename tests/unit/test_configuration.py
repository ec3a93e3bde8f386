"""streamtable.toml: what it may hold, and what is said about the rest."""

from __future__ import annotations

import os
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
from pyspark import SparkContext

from streamtable.errors import InvalidStatement
from streamtable.hosts.launch import launch
from streamtable.hosts.start import not_started
from streamtable.settings import session
from streamtable.settings.server_file import Configuration, ServerSettings, exposed, load
from streamtable.settings.session import DEFAULT_SCHEDULE, SETTINGS, check_setting
from streamtable.settings.spark import ambient_settings, is_local, settings_for


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


def test_everybody_could_read_the_secrets_of_a_server(tmp_path: Path) -> None:
    users, token = tmp_path / "users.txt", tmp_path / "token.txt"
    server = ServerSettings(users=str(users), token_file=str(token))
    file = written(tmp_path, "")
    assert exposed(Configuration({"a": "b"}, server), file) == [str(file)], "who needs the others says that they are missing"
    for each in (users, token, file):
        each.touch()
        each.chmod(0o644)
    assert exposed(Configuration({"a": "b"}, server), file) == [str(users), str(token), str(file)]
    assert exposed(Configuration({}, server), file) == [str(users), str(token)], "a file without values of Spark has no secret"
    for each in (users, token, file):
        each.chmod(0o640)
    assert exposed(Configuration({"a": "b"}, server), file) == []


def test_a_session_does_not_start_with_a_wrong_setting_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidStatement, match=r"spark.streamtable.traces cannot be 'yes'"):
        settings_for({"spark.streamtable.traces": "yes"})
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.streamtable.lineage=console pyspark-shell")
    with pytest.raises(InvalidStatement, match=r"spark.streamtable.lineage cannot be 'console'") as refused:
        settings_for({})
    assert not_started(refused.value) is refused.value


def test_the_file_that_init_writes_names_every_setting_with_its_default(tmp_path: Path) -> None:
    text = (files("streamtable.hosts.cli") / "streamtable.toml").read_text(encoding="utf-8")
    assert load(written(tmp_path, text)).server == ServerSettings()
    assert [field.name for field in fields(ServerSettings) if f"\n{field.name} = " not in text] == []


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("scheduler.pollSeconds", "0", "more than zero"),
        ("scheduler.pollSeconds", "999999999999", "at most 100000000"),  # no look would come to an end
        ("maintenance.vacuum", "maybe", "neither true nor false"),
        ("schedule.default", "often", "expected"),
        ("schedule.default", "5 minuts", "unknown unit"),
        ("scheduler.polSeconds", "5", "Did you mean `spark.streamtable.scheduler.pollSeconds`"),
    ],
)
def test_a_wrong_setting_is_refused(key: str, text: str, said: str) -> None:
    with pytest.raises(InvalidStatement, match=said):
        check_setting(f"spark.streamtable.{key}", text)


@pytest.mark.parametrize(
    ("text", "schedule"), [("5m", "'5m'"), ("'1h'", "'1h'"), ("calculated", "CALCULATED"), ("CRON '@daily'", "CRON '@daily'")]
)
def test_the_default_schedule_is_what_stands_after_schedule(text: str, schedule: str) -> None:
    assert DEFAULT_SCHEDULE.parse(text) == schedule
    check_setting(DEFAULT_SCHEDULE.key, text)


def test_a_setting_of_the_manual_could_not_be_set() -> None:
    declared = [each for each in vars(session).values() if isinstance(each, session.Setting)]
    assert [each.key for each in declared if each not in SETTINGS] == []
    check_setting("spark.streamtable.python.startSeconds", "30")


def test_every_default_is_a_value_of_its_setting() -> None:
    for setting in SETTINGS:
        if setting.default is not None:
            assert setting.parse(str(setting.default)) == setting.default, setting.key


@pytest.mark.parametrize(
    ("given", "variables", "listens_on"),
    [
        ({}, {}, "127.0.0.1"),
        ({"spark.master": "local[2]"}, {}, "127.0.0.1"),
        ({"spark.driver.host": "10.0.0.1"}, {}, "127.0.0.1"),  # the UI; Spark's other ports follow the setting
        ({}, {"SPARK_LOCAL_IP": "10.0.0.1"}, "10.0.0.1"),
        ({"spark.master": "yarn"}, {}, None),
        ({"spark.master": "local-cluster[1,1,1024]"}, {}, None),
        ({}, {"MASTER": "spark://there:7077"}, None),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, None),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--master=yarn pyspark-shell"}, None),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"}, None),
        ({"spark.master": "local"}, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, "127.0.0.1"),
    ],
)
def test_spark_listens_on_loopback_unless_the_user_or_a_cluster_needs_more(
    given: dict[str, str], variables: dict[str, str], listens_on: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_LOCAL_IP", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = list[str | None]()
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: found.append(os.environ.get("SPARK_LOCAL_IP")))
    launch(given)
    assert found == [listens_on]
    assert os.environ.get("SPARK_LOCAL_IP") == variables.get("SPARK_LOCAL_IP")
    assert os.environ.get("PYSPARK_SUBMIT_ARGS") == variables.get("PYSPARK_SUBMIT_ARGS")
    assert is_local({**ambient_settings(), **given}) == (listens_on is not None)
