"""Where the server listens, and who may come in."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from streamtable.configuration import Server
from streamtable.errors import InvalidStatement, NotEnabled

__all__ = ["Endpoints", "endpoints_of", "is_loopback", "spark_settings", "wait_for", "with_options"]

LOOPBACK = "127.0.0.1"
ABSENT = -1
SECONDS_TO_LISTEN = 60.0


@dataclass(frozen=True)
class Endpoints:
    """Hosts and ports, None for what is left out."""

    host: str
    thrift: int | None
    connect: int | None
    metrics: int | None
    metrics_host: str

    def addresses(self, token: bool) -> dict[str, str]:
        """Return what people type to get there."""
        found = dict[str, str]()
        if self.thrift:
            found["thrift"] = f"jdbc:hive2://{_written(self.host)}:{self.thrift}"
        if self.connect:
            found["connect"] = (
                f"sc://localhost:{self.connect}" if is_loopback(self.host) else f"sc://{_written(self.host)}:{self.connect}"
            )
            found["connect"] += "/;token=..." if token else ""
        if self.metrics:
            found["metrics"] = f"http://{_written(self.metrics_host)}:{self.metrics}/metrics"
        return found


def endpoints_of(server: Server) -> Endpoints:
    """Decide where to listen. Raises InvalidStatement for what is not safe, NotEnabled for a port that is taken."""
    if not is_loopback(server.host) and not server.allow_anonymous:
        lacking = [
            f"{key} is not set, so that anybody could come in by {way}"
            for key, way, there, port in (
                ("users", "Thrift", server.users, server.thrift_port),
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
    metrics_host = server.host if server.allow_anonymous else LOOPBACK  # they know no users
    return Endpoints(
        server.host,
        _port("thrift_port", server.host, server.thrift_port),
        _port("connect_port", server.host, server.connect_port),
        _port("metrics_port", metrics_host, server.metrics_port),
        metrics_host,
    )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def spark_settings(server: Server, endpoints: Endpoints) -> dict[str, str]:
    """Return the settings of Spark that make its end points listen there, and let in whom they should."""
    settings = {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.hadoop.hive.server2.thrift.bind.host": endpoints.host,
        "spark.hadoop.hive.server2.thrift.port": str(endpoints.thrift or 0),
        "spark.hadoop.hive.server2.enable.doAs": "false",  # all work as the server's own user
        # Delta keeps schemas in its logs; getColumns of JDBC asks the metastore alone.
        "spark.databricks.delta.catalog.update.enabled": "true",
        "spark.connect.grpc.binding.address": endpoints.host,
        "spark.connect.grpc.binding.port": str(endpoints.connect or 0),
    }
    if server.users:
        settings["spark.hadoop.hive.server2.authentication"] = "CUSTOM"
    if server.token_file:
        settings["spark.connect.authenticate.token"] = _token(Path(server.token_file))
    return settings


def wait_for(host: str, port: int) -> None:
    """Return when somebody listens there; raise NotEnabled when nobody does for a minute."""
    patience = Retrying(stop=stop_after_delay(SECONDS_TO_LISTEN), wait=wait_fixed(0.05), retry=retry_if_exception_type(OSError))
    try:
        patience(lambda: socket.create_connection((host, port), timeout=1).close())
    except RetryError as error:
        raise NotEnabled(f"nothing listens on {host}:{port}", hint="Spark's log on stderr says why") from error


def _port(key: str, host: str, wanted: int) -> int | None:
    """Return the port, a free one for 0, or None when it is left out."""
    if wanted == ABSENT:
        return None
    try:
        with closing(socket.create_server((host, wanted), family=socket.AF_INET6 if ":" in host else socket.AF_INET)) as found:
            return int(found.getsockname()[1])
    except (OSError, OverflowError) as error:
        raise NotEnabled(
            f"the server cannot listen on {host}:{wanted} ({key}): {error}",
            hint=f"end what listens there, or set {key} (0: any free one)",
        ) from error


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


def with_options(server: Server, options: Mapping[str, object]) -> Server:
    """Return the settings with those that the command line gives in place of the file's."""
    return replace(server, **{key: value for key, value in options.items() if value is not None})  # type: ignore[arg-type]
