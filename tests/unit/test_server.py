"""Where a server listens, whom it lets in, and what it refuses, without starting one."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import socket
import stat
import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.unit.jvm import Raised, java
from typer.testing import CliRunner

from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.hosts.cli.app import app
from streamtable.hosts.cli.output import ExitCode
from streamtable.hosts.console import access
from streamtable.hosts.roles import Role
from streamtable.hosts.server import serve
from streamtable.hosts.server.endpoints import FREE as PORTS
from streamtable.hosts.server.endpoints import HIDDEN, endpoints_of, environment, is_loopback, spark_settings, with_options
from streamtable.hosts.server.passwords import Passwords, add_user, read_users
from streamtable.hosts.server.serve import _notify
from streamtable.hosts.server.slowdown import FORGOTTEN_AFTER, MOST_KNOWN, Slowdown
from streamtable.hosts.server.stopping import STOPS
from streamtable.settings.server_file import ServerSettings
from streamtable.settings.session import SETTINGS

FREE = ServerSettings(thrift_port=0, connect_port=0, metrics_port=0, console_port=0)


def test_free_ports_are_found_and_end_points_left_out() -> None:
    found = endpoints_of(with_options(FREE, {"metrics_port": -1, "users": None}), {})
    assert found.thrift and found.connect and found.thrift != found.connect
    assert {found.thrift, found.connect} < set(PORTS), "outgoing connections take the others"
    assert found.addresses(token=True) == {
        "thrift": f"jdbc:hive2://127.0.0.1:{found.thrift}",
        "connect": f"sc://localhost:{found.connect}/;token=...",
    }


def test_a_port_that_is_taken_is_named() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotEnabled, match=rf"127.0.0.1:{port} \(connect_port\)"):
            endpoints_of(with_options(FREE, {"connect_port": port}), {})


def test_a_host_beyond_loopback_alone_is_refused_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    handlers = [signal.getsignal(each) for each in STOPS]
    refused = CliRunner().invoke(app, ["server", "--host", "0.0.0.0"])  # noqa: S104  (that is the point)
    assert refused.exit_code == ExitCode.FAILED and "beyond this machine" in refused.stderr, refused.output
    assert [signal.getsignal(each) for each in STOPS] == handlers
    assert signal.set_wakeup_fd(-1) == -1, "a watchdog of what never started would end this process after a signal"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ({}, "users is not set.*token_file is not set"),
        ({"users": "users.txt"}, "token_file is not set"),
        ({"token_file": "token.txt"}, "users is not set"),
        ({"users": "users.txt", "connect_port": -1}, None),
        ({"users": "users.txt", "token_file": "token.txt"}, None),
        ({"allow_anonymous": True}, None),
    ],
)
def test_nobody_is_let_in_unnamed_beyond_loopback(options: dict[str, object], lacking: str | None) -> None:
    server = with_options(FREE, {"host": "0.0.0.0", **options})  # noqa: S104  (what is tested)
    if lacking:
        with pytest.raises(InvalidStatement, match=f"beyond this machine: .*{lacking}"):
            endpoints_of(server, {})
    else:
        found = endpoints_of(server, {})
        assert found.open_host == ("0.0.0.0" if server.allow_anonymous else "127.0.0.1")  # noqa: S104


@pytest.mark.parametrize("spelling", ["spark.hadoop.hive", "spark.hive", "hive"])
@pytest.mark.parametrize(
    ("method", "lets_in"), [("LDAP", False), ("KERBEROS", False), ("NONE", True), ("NOSASL", True), ("ldap", True)]
)
def test_users_that_hive_knows_are_users_of_thrift(spelling: str, method: str, lets_in: bool) -> None:
    given = {f"{spelling}.server2.authentication": method}
    server = with_options(FREE, {"host": "0.0.0.0", "connect_port": -1})  # noqa: S104
    if lets_in:
        with pytest.raises(InvalidStatement, match="anybody could come in by Thrift"):
            endpoints_of(server, given)
        return
    endpoints = endpoints_of(server, given)
    assert endpoints.open_host == "127.0.0.1"
    assert spark_settings(server, endpoints, given)["spark.hive.server2.authentication"] == method
    with pytest.raises(InvalidStatement, match="token_file is not set"):
        endpoints_of(with_options(server, {"connect_port": 0}), given)


@pytest.mark.parametrize(
    ("key", "value", "said_by"),
    [
        ("spark.hadoop.hive.server2.thrift.bind.host", "0.0.0.0", "host"),  # noqa: S104
        ("spark.hive.server2.thrift.bind.host", "0.0.0.0", "host"),  # noqa: S104
        ("hive.server2.thrift.bind.host", "", "host"),
        ("spark.hadoop.hive.server2.thrift.port", "1", "thrift_port"),
        ("spark.hadoop.hive.server2.transport.mode", "http", "thrift_port"),
        ("spark.hadoop.hive.server2.authentication", "NONE", "users"),
        ("spark.hive.server2.authentication", "NOSASL", "users"),
        ("spark.connect.grpc.binding.address", "0.0.0.0", "host"),  # noqa: S104
        ("spark.connect.grpc.binding.port", "1", "connect_port"),
        ("spark.connect.authenticate.token", "", "token_file"),
    ],
)
def test_no_setting_of_spark_opens_a_door(key: str, value: str, said_by: str, tmp_path: Path) -> None:
    token = tmp_path / "token.txt"
    token.write_text("secret")
    server = with_options(FREE, {"users": "users.txt", "token_file": str(token)})
    endpoints = endpoints_of(server, {key: value})
    with pytest.raises(InvalidStatement, match=rf"{key} .* contradicts {said_by} in \[server\]"):
        spark_settings(server, endpoints, {"spark.driver.memory": "1g", key: value})


def test_settings_of_spark_that_agree_or_open_nothing_are_taken() -> None:
    endpoints = endpoints_of(FREE, {})
    agreeing = {"spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1", "spark.driver.host": "10.0.0.1"}
    assert agreeing.items() <= spark_settings(FREE, endpoints, agreeing).items()
    with pytest.raises(InvalidStatement, match="contradicts users"):  # one of two would win without a word
        spark_settings(FREE, endpoints, {"spark.hadoop.hive.server2.authentication": "LDAP", "hive.server2.authentication": "NONE"})


def test_an_end_point_that_is_left_out_is_not_opened_by_a_plugin() -> None:
    plugins = {"spark.plugins": "my.Plugin, org.apache.spark.sql.connect.SparkConnectPlugin"}
    server = with_options(FREE, {"host": "0.0.0.0", "users": "users.txt", "connect_port": -1})  # noqa: S104
    with pytest.raises(InvalidStatement, match=r"SparkConnectPlugin in spark.plugins .* contradicts connect_port in \[server\]"):
        spark_settings(server, endpoints_of(server, plugins), plugins)
    assert spark_settings(FREE, endpoints_of(FREE, plugins), plugins)["spark.plugins"] == plugins["spark.plugins"]


def test_the_environment_opens_no_door_either() -> None:
    found = environment(endpoints_of(with_options(FREE, {"host": "0.0.0.0", "users": "users.txt", "token_file": "token.txt"}), {}))  # noqa: S104
    assert found["SPARK_LOCAL_IP"] == "127.0.0.1"  # of Spark's UI, which knows no users
    assert found["HIVE_SERVER2_THRIFT_BIND_HOST"] == "0.0.0.0"  # noqa: S104


def test_settings_of_spark(tmp_path: Path) -> None:
    token = tmp_path / "token.txt"
    with pytest.raises(InvalidStatement, match="cannot be read"):
        spark_settings(with_options(FREE, {"token_file": str(token)}), endpoints_of(FREE, {}), {})
    token.write_text(" \n")
    with pytest.raises(InvalidStatement, match="is empty"):
        spark_settings(with_options(FREE, {"token_file": str(token)}), endpoints_of(FREE, {}), {})
    token.write_text("secret\n")
    endpoints = endpoints_of(FREE, {})
    open_to_all = spark_settings(FREE, endpoints, {})
    assert open_to_all["spark.hive.server2.thrift.port"] == str(endpoints.thrift)
    assert not any("authenticat" in key for key in open_to_all)
    closed = spark_settings(with_options(FREE, {"token_file": str(token), "users": "users.txt"}), endpoints, {})
    assert closed["spark.connect.authenticate.token"] == "secret"
    assert closed["spark.hive.server2.authentication"] == "CUSTOM"


@pytest.mark.parametrize(("given", "kill"), [({}, "false"), ({"spark.ui.killEnabled": "true"}, "true")])
def test_the_ui_of_spark_cancels_jobs_only_where_the_file_says_so(given: dict[str, str], kill: str) -> None:
    assert spark_settings(FREE, endpoints_of(FREE, {}), given)["spark.ui.killEnabled"] == kill


@pytest.mark.parametrize(
    "key",
    [
        "spark.connect.authenticate.token",
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.c.a.blob.core.windows.net",
        "spark.hadoop.fs.azure.encryption.encoded.client-provided-key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.server-side-encryption.key",
        "spark.hadoop.fs.s3a.bucket.a.encryption.key",
        "spark.hadoop.fs.oss.accessKeyId",
        "spark.hadoop.javax.jdo.option.ConnectionURL",
        "spark.hadoop.parquet.encryption.key.list",
        "spark.kafka.sasl.jaas.config",
        "spark.ssl.keyPassword",
        "spark.streamtable.lineage",
    ],
)
def test_set_and_the_ui_of_spark_showed_a_secret(key: str) -> None:
    assert re.search(spark_settings(FREE, endpoints_of(FREE, {}), {})["spark.redaction.regex"], key)


@pytest.mark.parametrize(
    "shown",
    [*(each.key for each in SETTINGS), "spark.sql.shuffle.partitions", "spark.sql.mapKeyDedupPolicy", "spark.driver.memory"],
)
def test_settings_without_a_secret_are_shown(shown: str) -> None:
    assert bool(re.search(HIDDEN, shown)) == (shown == "spark.streamtable.lineage")


def test_another_file_is_read_instead_of_that_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streamtable.toml").write_text('[spark]\n"spark.of.the.folder" = "1"')
    (tmp_path / "other.toml").write_text('[spark]\n"spark.of.the.other" = "1"')
    monkeypatch.chdir(tmp_path)
    given = list[dict[str, str]]()

    def start(builder: Any) -> Exception:
        given.append(builder._options)
        return NotEnabled("it was only asked for", hint="")

    monkeypatch.setattr("streamtable.hosts.cli.sessions.started", start)
    monkeypatch.setattr("streamtable.hosts.server.serve.serve", lambda _, given, start, ready: start(given))
    for arguments in (["status"], ["server", "--config", "other.toml"]):
        assert CliRunner().invoke(app, arguments).exit_code == ExitCode.NO_SESSION
    assert [sorted(key for key in each if key.startswith("spark.of.")) for each in given] == [
        ["spark.of.the.folder"],
        ["spark.of.the.other"],
    ]


class Doors:
    """The doors of a Spark that opens what a test says, and remembers on which thread."""

    def __init__(self, opens: Any, connect: int = 0) -> None:
        self._opens, self._connect = opens, connect
        self.thread = 0
        setattr(self, "MODULE$", self)  # Scala's object

    def startWithSparkSession(self, *_: object) -> object:  # noqa: N802  (Java's name)
        self.thread = threading.get_ident()
        return self._open()

    def start(self, *_: object) -> object:
        return self._open()

    def localPort(self) -> int:  # noqa: N802
        return self._connect

    def remember(self, hive: object) -> None:
        pass

    plain = remember

    def _open(self) -> object:
        if isinstance(self._opens, Exception):
            raise self._opens
        return self._opens


TAKEN = Raised(
    java("org.apache.hive.service.ServiceException", cause=java("java.net.BindException", says="Address already in use"))
)


def test_a_door_that_does_not_open_says_which_port_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "java_class", lambda *_: Doors(TAKEN))
    with pytest.raises(NotEnabled, match="Thrift does not open 127.0.0.1:7: Address already in use"):
        serve.open_thrift(MagicMock(), "127.0.0.1", 7)
    with pytest.raises(NotEnabled, match="Spark Connect does not open 127.0.0.1:7: Address already in use"):
        serve._open_connect(MagicMock(), "127.0.0.1", 7)


def test_the_port_of_another_process_is_not_taken_for_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect goes on to the next port where its own is taken; clients would show their token to whoever took it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as theirs:
        port = theirs.getsockname()[1]
        monkeypatch.setattr(serve, "java_class", lambda *_: Doors(None, port + 1))
        with pytest.raises(NotEnabled, match=f"listens on port {port + 1}: another process took 127.0.0.1:{port}"):
            serve._open_connect(MagicMock(), "127.0.0.1", port)
        monkeypatch.setattr(serve, "java_class", lambda *_: Doors(None, port))
        serve._open_connect(MagicMock(), "127.0.0.1", port)


def test_thrift_opens_where_the_session_says_though_the_metastore_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive keeps the metastore's settings in each thread that asked it, and HiveServer2 would take those."""
    doors = Doors(object())
    monkeypatch.setattr(serve, "java_class", lambda *_: doors)
    with closing(socket.create_server(("127.0.0.1", 0))) as opened:
        serve.open_thrift(MagicMock(), "127.0.0.1", opened.getsockname()[1])
    assert doors.thread not in (0, threading.get_ident())


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"@{tmp_path}/notify" if abstract else f"{tmp_path}/notify"
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as systemd:
        systemd.bind(f"\0{path[1:]}" if abstract else path)
        systemd.settimeout(10)
        for state in ("READY=1", "STOPPING=1"):
            _notify(state)
            assert systemd.recv(100) == state.encode()


def test_the_unit_gives_the_server_the_time_that_it_takes_to_stop() -> None:
    unit = (Path(__file__).parents[2] / "examples" / "streamtable.service").read_text("utf-8")
    (given,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(given) >= ServerSettings().stop_seconds + 30  # Spark takes its time as well


def test_add_user_asks_for_the_password_twice_and_never_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    command = ["add-user", "ada", "--users", str(file)]
    done = CliRunner().invoke(app, command, input="secret\nsecert\nsecret\nsecret\n")
    assert done.exit_code == 0, done.output
    assert "do not match" in done.output and "secret" not in done.output
    assert Passwords(file).accepts("ada", "secret") and not Passwords(file).accepts("ada", "secert")
    assert "secret" not in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600


def test_passwords(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    with pytest.raises(InvalidStatement, match="cannot be read"):
        Passwords(file)
    add_user(file, "ada", "one")
    add_user(file, "ben", "two")
    passwords = Passwords(file)
    assert passwords.accepts("ada", "one") and passwords.accepts("ben", "two")
    assert not any(passwords.accepts(*wrong) for wrong in (("ada", "two"), ("ada", ""), ("eve", "one"), ("eve", ""), ("", "")))
    add_user(file, "ada", "three")  # counts at once
    assert passwords.accepts("ada", "three") and not passwords.accepts("ada", "one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "three" not in file.read_text()
    assert list(read_users(file)) == ["ada", "ben"]


@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_a_file_without_users_cannot_be_read(text: str, tmp_path: Path) -> None:
    """A disk that is full leaves an empty file, and so does an editor for a moment: nobody was taken out."""
    file = tmp_path / "users.txt"
    add_user(file, "ada", "one")
    passwords, now = Passwords(file), 0.0
    doors = access.Doors(passwords, lambda: now)
    session, kept = doors.by_password("ada", "one", ""), file.read_text()
    file.write_text(text)
    for ask in (
        lambda: Passwords(file),
        lambda: passwords.accepts("ada", "one"),
        lambda: passwords.standing("ada"),
        lambda: doors.by_password("ada", "one", ""),
        lambda: add_user(file, "ben", "two"),
    ):
        with pytest.raises(InvalidStatement, match="cannot be read: .* has no users"):
            ask()
    assert file.read_text() == text and doors.session(session), "the session rests on what was known"
    now = access.GRACE + 1
    assert doors.session(session) is None
    file.write_text(kept)
    assert doors.session(session), "and goes on"


def test_a_session_of_the_console_ends_with_the_password_that_began_it(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    for name in ("ada", "ben"):
        add_user(file, name, "one")
    doors = access.Doors(Passwords(file))
    ada, ben = (doors.by_password(name, "one", "") for name in ("ada", "ben"))
    add_user(file, "ada", "two")
    assert doors.session(ada) is None and doors.session(ben)
    again = doors.by_password("ada", "two", "")
    add_user(file, "ada", "two", Role.VIEWER)  # writes the password anew
    assert doors.session(again) is None


def test_users_that_cannot_be_written_stay_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users.txt"
    add_user(file, "ada", "one")
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidStatement, match="cannot be written: .*No space left"):
        add_user(file, "ben", "two")
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
    with pytest.raises(InvalidStatement, match="cannot be written"):
        add_user(tmp_path / "missing" / "users.txt", "ben", "two")


def test_thrift_lets_no_viewer_in(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    add_user(file, "ada", "one")
    assert add_user(file, "ben", "two", Role.VIEWER) is Role.VIEWER
    passwords = Passwords(file)
    assert passwords.login("ben", "two") and not passwords.login("ben", "one")
    assert passwords.accepts("ada", "one") and not passwords.accepts("ben", "two")
    known = [passwords.standing(name) for name in ("ada", "ben", "eve")]
    assert [each and each.role for each in known] == [Role.FULL, Role.VIEWER, None]
    add_user(file, "ben", "three")  # a new password is no new role
    assert passwords.login("ben", "three") and not passwords.accepts("ben", "three")
    add_user(file, "ben", "three", Role.FULL)
    assert passwords.accepts("ben", "three")


def test_add_user_says_who_is_a_viewer(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    command = ["add-user", "ben", "--users", str(file), "--password", "two"]
    said = [CliRunner().invoke(app, [*command, *more]).output.strip() for more in (["--viewer"], [], ["--no-viewer"])]
    assert said == [f"ben is in {file} as a viewer"] * 2 + [f"ben is in {file}"]


@pytest.mark.parametrize("role", ["", "full", "admin", "VIEWER", "viewer:viewer"])
def test_a_role_that_there_is_not_lets_nobody_in(role: str, tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    add_user(file, "ada", "one")
    passwords = Passwords(file)
    file.write_text(f"{file.read_text().strip()}:{role}\n")
    for ask in (lambda: passwords.accepts("ada", "one"), lambda: passwords.standing("ada")):
        with pytest.raises(InvalidStatement, match="line 1"):
            ask()


def test_a_name_that_is_not_there_costs_as_much_as_a_wrong_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, costs = tmp_path / "users.txt", list[dict[str, Any]]()
    add_user(file, "ada", "one")
    passwords, scrypt = Passwords(file), hashlib.scrypt
    monkeypatch.setattr(hashlib, "scrypt", lambda typed, **cost: costs.append(cost) or scrypt(typed, **cost))  # type: ignore[func-returns-value]
    assert not passwords.accepts("ada", "two") and not passwords.accepts("eve", "two")
    (there, absent) = ({key: value for key, value in each.items() if key != "salt"} for each in costs)
    assert there == absent


def test_users_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    for name, password in (("", "a"), ("a:b", "a")):
        with pytest.raises(InvalidStatement, match="holds no colon"):
            add_user(file, name, password)
    file.write_text("ada:salt:hash\nbroken\n")
    with pytest.raises(InvalidStatement, match="line 2"):
        Passwords(file)
    file.write_bytes(b"ada:salt:\xff\n")
    with pytest.raises(InvalidStatement, match="cannot be read"):
        Passwords(file)


@pytest.mark.parametrize(
    "letter",
    [
        *map(chr, range(32)),
        "\x7f",
        "\x80",
        "\x85",
        "\x9f",
        "\u2028",
        "\u2029",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\ud800",
        ":",
    ],
)
def test_a_name_that_would_spoil_the_file_is_refused(letter: str, tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    add_user(file, "ada", "one")
    before = file.read_bytes()
    for name in (f"b{letter}c", letter, f"{letter}b", f"b{letter}"):
        with pytest.raises(InvalidStatement, match="a name holds no colon and no control characters"):
            add_user(file, name, "two")
    assert file.read_bytes() == before and Passwords(file).accepts("ada", "one")


@pytest.mark.parametrize("name", [" ada", "ada ", "ada\u00a0", " "])
def test_a_name_has_no_spaces_around_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidStatement, match="spaces"):
        add_user(tmp_path / "users.txt", name, "one")


def test_a_file_of_names_that_were_taken_once_is_read(tmp_path: Path) -> None:
    """Unicode has more ends of lines than the file."""
    file = tmp_path / "users.txt"
    add_user(file, "ada", "one")
    with file.open("a", encoding="utf-8", newline="") as more:
        more.write("b\x85\u2028\x0c\rc:00:00\r\n")
    assert list(read_users(file)) == ["ada", "b\x85\u2028\x0c\rc"] and Passwords(file).accepts("ada", "one")


def as_hiveserver2_says_it(text: str) -> str:
    """Return what its PlainSaslServer makes of the bytes of a text."""
    return "".join(chr(byte if byte < 128 else 0xFF00 + byte) for byte in text.encode())


@pytest.mark.parametrize(
    "password",
    ["päss", "пароль", "密码", "🔑", "a\u0301", "\u00e1", "ﾊﾟｽ", "\uff80", "x\n\ty", "\u2028", " ", "\x01", "a" * 5000, "\\n"],
)
def test_any_password_of_unicode_works(password: str, tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    add_user(file, "Zoë", password)
    passwords = Passwords(file)
    assert passwords.accepts("Zoë", password)
    sent = [as_hiveserver2_says_it(unicodedata.normalize("NFD", each)) for each in ("Zoë", password)]
    assert passwords.accepts(*sent), "however the keyboard composes it"
    assert not passwords.accepts(as_hiveserver2_says_it("Zoë"), as_hiveserver2_says_it(f"{password}x"))


def test_the_console_took_another_password_than_the_one_typed(tmp_path: Path) -> None:
    """Letters of half width that could be bytes of Thrift are letters there."""
    file, typed = tmp_path / "users.txt", "\uffc3\uffa9"
    for name, password in (("ada", typed), ("ben", "\u00e9"), ("\u00e9", "one")):
        add_user(file, name, password)
    passwords = Passwords(file)
    assert passwords.login("ada", typed)
    assert not passwords.login("ben", typed) and not passwords.login(typed, "one")
    assert passwords.standing(typed) is None
    assert passwords.accepts("ben", typed), "so HiveServer2 says it"


@pytest.mark.parametrize("password", ["", "a\0b", "\0", "a\ud800", "\udcff"])
def test_a_password_that_nobody_could_send_is_refused(password: str, tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    with pytest.raises(InvalidStatement, match="a password is not empty"):
        add_user(file, "ada", password)
    assert not file.exists()
    add_user(file, "ada", "one")
    assert not Passwords(file).accepts("ada", password)


class Hours:
    """A clock that goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_wrong_passwords_are_slowed_down_for_a_user_from_an_address() -> None:
    hours = Hours()
    slowdown = Slowdown(lambda: hours.now, hours.sleep)
    checked = list[str]()

    def attempt(user: str, address: str, right: bool) -> bool:
        def check() -> bool:
            checked.append(user)
            return right

        return slowdown.attempt(user, address, check)

    for _ in range(10):
        assert not attempt("ada", "10.0.0.1", right=False)
    assert hours.slept == [0.5, 1, 2, 4, 8, 8, 8] and len(checked) == 10
    hours.slept.clear()
    assert attempt("ada", "10.0.0.2", right=True) and attempt("ben", "10.0.0.1", right=True)
    assert hours.slept == [], "the owner from elsewhere, and others from there"
    assert attempt("ada", "10.0.0.1", right=True) and hours.slept == [8]
    assert not attempt("ada", "10.0.0.1", right=False) and hours.slept == [8], "a login begins anew"


def test_wrong_passwords_at_once_are_no_way_around() -> None:
    """They have their turns one after the other, and those for which it would take too long are not looked at."""
    waiting = list[float]()
    slowdown = Slowdown(lambda: 0.0, waiting.append)
    checked = list[int]()

    def check() -> bool:
        checked.append(1)
        return False

    for _ in range(100):
        slowdown.attempt("ada", "10.0.0.1", check)
    assert len(checked) < 12 and max(waiting) <= 8


def test_wrong_passwords_that_come_before_the_first_is_checked_are_slowed_down_too() -> None:
    checked, begun, over = list[int](), threading.Event(), threading.Event()

    def until_the_end(_: float) -> None:
        begun.set()
        over.wait(10)

    slowdown = Slowdown(sleep=until_the_end)

    def check() -> bool:
        checked.append(1)
        time.sleep(0.02)
        return False

    with ThreadPoolExecutor(10) as pool:
        for _ in range(10):
            pool.submit(slowdown.attempt, "ada", "10.0.0.1", check)
        assert begun.wait(10)
        time.sleep(0.2)
        found = len(checked)
        over.set()
    assert (found, len(checked)) == (3, 10)


def test_failures_that_are_forgotten_let_no_more_attempts_begin_at_once() -> None:
    now, key = 0.0, ("ada", "10.0.0.1")
    slowdown = Slowdown(lambda: now, lambda _: None)
    for _ in range(3):
        slowdown.attempt(*key, lambda: False)
    assert slowdown._may_begin(key), "it takes its turn"
    now = FORGOTTEN_AFTER + 60
    slowdown._checking[key] = 3
    assert not slowdown._may_begin(key)


def test_what_is_known_of_wrong_passwords_is_bounded() -> None:
    slowdown = Slowdown(lambda: 0.0, lambda _: None)
    for n in range(MOST_KNOWN + 10):
        slowdown.attempt(f"user {n}", "10.0.0.1", lambda: False)
    assert len(slowdown._failures) == MOST_KNOWN


def test_wrong_passwords_are_forgotten() -> None:
    hours = Hours()
    slowdown = Slowdown(lambda: hours.now, hours.sleep)
    for _ in range(5):
        slowdown.attempt("ada", "10.0.0.1", lambda: False)
    hours.now += FORGOTTEN_AFTER + 60
    hours.slept.clear()
    assert slowdown.attempt("ada", "10.0.0.1", lambda: True) and hours.slept == []


@pytest.mark.parametrize(
    ("options", "host"),
    [
        ({}, "127.0.0.1"),
        ({"users": "users.txt", "token_file": "token.txt"}, "0.0.0.0"),  # noqa: S104  (they have passwords)
        ({"allow_anonymous": True}, "127.0.0.1"),  # a link is for who sits at this machine
    ],
)
def test_the_console_leaves_this_machine_with_passwords_only(options: dict[str, object], host: str) -> None:
    found = endpoints_of(with_options(FREE, {"host": "0.0.0.0" if options else "127.0.0.1", **options}), {})  # noqa: S104
    assert found.console and found.console_host == host
    assert endpoints_of(with_options(FREE, {"console_port": -1}), {}).console is None


def test_a_server_without_the_packages_of_the_console_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamtable.hosts.server.endpoints.is_installed", lambda: False)
    assert endpoints_of(FREE, {}).console is None
