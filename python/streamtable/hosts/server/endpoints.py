"""The end points of the server: their addresses, and the users that they admit."""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_fixed

from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.hosts.console import is_installed
from streamtable.hosts.server.guard import INTERCEPTORS, interceptors
from streamtable.settings.server_file import ServerSettings

__all__ = ["Endpoints", "endpoints_of", "environment", "has_strangers", "is_loopback", "spark_settings", "wait_for", "with_options"]

LOOPBACK = "127.0.0.1"
ABSENT = -1
FREE = range(20_000, 32_768)
"""The range of free ports. A port for outgoing connections could be taken before Spark has started."""
SECONDS_TO_LISTEN = 60.0
AUTHENTICATION = "spark.hive.server2.authentication"
HIDDEN = (
    "(?i)secret|passw|passphrase|token|access[.]?key|api[.]?key|credential|connectionurl|extrajavaoptions|[.]auth|jaas|signature"
    "|[.]sas[.]|[.-]keys?([.]|$)|^spark[.]streamtable[.]lineage"
)
"""Names of settings with a secret in their value. An address may have a password in it."""
KNOWS_USERS = ("LDAP", "KERBEROS", "PAM", "CUSTOM")  # written like this: Hive compares letters
PLUGINS, CONNECT = "spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin"
SAID_BY = {
    "spark.hive.server2.thrift.bind.host": "host",
    "spark.hive.server2.thrift.port": "thrift_port",
    "spark.hive.server2.transport.mode": "thrift_port",
    AUTHENTICATION: "users",
    "spark.connect.grpc.binding.address": "host",
    "spark.connect.grpc.binding.port": "connect_port",
    "spark.connect.authenticate.token": "token_file",
}
"""Settings of Spark that open doors, and the setting of [server] that decides about each. Of the spellings of a setting of Hive's,
`spark.hive.` wins over `spark.hadoop.hive.`, over `hive.`, and over hive-site.xml."""


@dataclass(frozen=True)
class Endpoints:
    """Hosts and ports; None for an end point that is left out."""

    host: str
    thrift: int | None
    connect: int | None
    metrics: int | None
    console: int | None
    open_host: str
    """Of metrics and of Spark's UI, which know no users."""
    console_host: str
    """Beyond loopback, it asks for a password."""

    def addresses(self, token: bool) -> dict[str, str]:
        """Return the address for people."""
        found = dict[str, str]()
        if self.thrift:
            found["thrift"] = f"jdbc:hive2://{_written(self.host)}:{self.thrift}"
        if self.connect:
            found["connect"] = (
                f"sc://localhost:{self.connect}" if is_loopback(self.host) else f"sc://{_written(self.host)}:{self.connect}"
            )
            found["connect"] += "/;token=..." if token else ""
        if self.metrics:
            found["metrics"] = f"http://{_written(self.open_host)}:{self.metrics}/metrics"
        return found


def endpoints_of(server: ServerSettings, given: Mapping[str, str]) -> Endpoints:
    """Decide where to listen; `given` are the user's settings of Spark.

    Raises InvalidStatement for unsafe settings, NotEnabled for a port that is taken.
    """
    known = _knows_users(server, given)
    if not is_loopback(server.host) and not server.allow_anonymous:
        lacking = [
            f"{key} is not set, so that anybody could come in by {way}"
            for key, way, there, port in (
                ("users", "Thrift", known, server.thrift_port),
                ("token_file", "Spark Connect", server.token_file, server.connect_port),
            )
            if port != ABSENT and not there
        ]
        if lacking:
            raise InvalidStatement(
                f"the server would listen on {server.host}, beyond this machine: {'; '.join(lacking)}",
                hint="set what is lacking (streamtable add-user writes users), leave the end point out (port -1), or say "
                "allow_anonymous = true (--allow-anonymous) if everybody who reaches this host may do everything",
            )
    open_host = server.host if server.allow_anonymous else LOOPBACK
    console_host = server.host if server.users else LOOPBACK
    free = iter(random.sample(FREE, 60))  # no two are the same
    return Endpoints(
        server.host,
        _port("thrift_port", server.host, server.thrift_port, free),
        _port("connect_port", server.host, server.connect_port, free),
        _port("metrics_port", open_host, server.metrics_port, free),
        _port("console_port", console_host, server.console_port, free) if is_installed() else None,
        open_host,
        console_host,
    )


def has_strangers(server: ServerSettings, given: Mapping[str, str]) -> bool:
    """Tell whether the server serves other users. On loopback without users and token it serves its own user alone."""
    return bool(_knows_users(server, given) or server.token_file or server.allow_anonymous)


def _knows_users(server: ServerSettings, given: Mapping[str, str]) -> bool:
    return bool(server.users) or any(_winning(key) == AUTHENTICATION and value in KNOWS_USERS for key, value in given.items())


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def spark_settings(server: ServerSettings, endpoints: Endpoints, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Spark for these end points and their users; `given` are the user's settings.

    Raises InvalidStatement for a setting that contradicts [server], because only [server] was checked.
    """
    doors = {
        "spark.hive.server2.thrift.bind.host": endpoints.host,
        "spark.hive.server2.thrift.port": str(endpoints.thrift or 0),
        "spark.hive.server2.transport.mode": "binary",  # over HTTP it would listen on all addresses
        "spark.connect.grpc.binding.address": endpoints.host,
        "spark.connect.grpc.binding.port": str(endpoints.connect or 0),
    }
    if server.users:
        doors[AUTHENTICATION] = "CUSTOM"
    if server.token_file:
        doors["spark.connect.authenticate.token"] = _token(Path(server.token_file))
    for key, value in given.items():
        name = _winning(key)
        if name in SAID_BY and doors.setdefault(name, value) != value:
            raise _contradiction(key, SAID_BY[name])
    if endpoints.connect is None and CONNECT in (each.strip() for each in given.get(PLUGINS, "").split(",")):
        raise _contradiction(f"{CONNECT} in {PLUGINS}", "connect_port")  # it would open Spark Connect, with or without a token
    others = {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.hadoop.hive.server2.enable.doAs": "false",  # all work as the server's own user
        "spark.ui.killEnabled": "false",  # the UI asks nobody for a password
        # What SET and Spark's UI show is hidden by the name of the setting.
        "spark.redaction.regex": HIDDEN,
        "spark.sql.connect.serverStacktrace.enabled": "false",  # of Java, behind the text of each error
        # Delta keeps schemas in its logs; getColumns of JDBC asks the metastore alone.
        "spark.databricks.delta.catalog.update.enabled": "true",
        # Hive compares them with the column that it makes up where Delta has given it none, and complains in the log.
        "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
    }
    doors[INTERCEPTORS] = interceptors(given.get(INTERCEPTORS, ""))
    return {**others, **given, **doors}


def _contradiction(setting: str, key: str) -> InvalidStatement:
    return InvalidStatement(
        f"{setting} among the settings of Spark contradicts {key} in [server]",
        hint="leave it out: [server] alone says where the server listens and whom it lets in (docs/how-to/server.md)",
    )


def environment(endpoints: Endpoints) -> dict[str, str]:
    """Return the environment variables of Java that override all settings."""
    return {
        "SPARK_LOCAL_IP": endpoints.open_host,  # where the UI listens; without it, on all addresses
        "HIVE_SERVER2_THRIFT_BIND_HOST": endpoints.host,
        "HIVE_SERVER2_THRIFT_PORT": str(endpoints.thrift or 0),
        "PYSPARK_PIN_THREAD": "true",  # the guard tells Python's own threads from those of clients
    }


def wait_for(host: str, port: int) -> None:
    """Wait until the port listens. Raises NotEnabled after a minute."""
    patience = Retrying(stop=stop_after_delay(SECONDS_TO_LISTEN), wait=wait_fixed(0.05), retry=retry_if_exception_type(OSError))
    try:
        patience(lambda: socket.create_connection((host, port), timeout=1).close())
    except RetryError as error:
        raise NotEnabled(f"nothing listens on {host}:{port}", hint="Spark's log on stderr says why") from error


def _winning(key: str) -> str:
    """Return the spelling of a setting that wins over its others, see SAID_BY."""
    return f"spark.{key.removeprefix('spark.hadoop.').removeprefix('spark.')}"


def _port(key: str, host: str, wanted: int, free: Iterator[int]) -> int | None:
    """Return the port, a free one for 0, or None when it is left out."""
    if wanted == ABSENT:
        return None
    several = Retrying(stop=stop_after_attempt(1 if wanted else 20), retry=retry_if_exception_type(OSError), reraise=True)
    try:
        return several(lambda: _can_listen(host, wanted or next(free)))
    except (OSError, OverflowError) as error:
        raise NotEnabled(
            f"the server cannot listen on {host}:{wanted} ({key}): {error}",
            hint=f"end what listens there, or set {key} (0: any free one)",
        ) from error


def _can_listen(host: str, port: int) -> int:
    socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    return port


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidStatement(f"the file of the token cannot be read: {error}", hint="see token_file") from error
    if not token:
        raise InvalidStatement(f"the file of the token is empty: {file}", hint="write a long random text into it")
    return token


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def with_options(server: ServerSettings, options: Mapping[str, object]) -> ServerSettings:
    """Return the settings of the file, overridden by those of the command line."""
    return replace(server, **{key: value for key, value in options.items() if value is not None})  # type: ignore[arg-type]
