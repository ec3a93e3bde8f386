"""The file streamtable.toml: settings of Spark, and of the server. Only a server and the command line read it.

[spark]
"spark.driver.memory" = "2g"

[server]
thrift_port = 10000
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from streamtable.errors import InvalidStatement, near_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["FILE", "Configuration", "ServerSettings", "exposed", "load"]

FILE = Path("streamtable.toml")
_TYPES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


def _setting(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class ServerSettings:
    """What `streamtable server` offers; each field is a key of [server] and an option of the command."""

    host: str = _setting(
        "127.0.0.1",
        "the address on which Thrift and Spark Connect listen; the console follows where users is set, metrics only where "
        "allow_anonymous is",
    )
    thrift_port: int = _setting(10000, "Thrift, for JDBC and ODBC; 0 takes a free port, -1 leaves it out")
    connect_port: int = _setting(15002, "Spark Connect; 0 takes a free port, -1 leaves it out")
    metrics_port: int = _setting(9464, "metrics for Prometheus; 0 takes a free port, -1 leaves them out")
    console_port: int = _setting(9465, "the console; 0 takes a free port, -1 leaves it out")
    console_hosts: str = _setting("", "names of hosts under which browsers ask for the console, separated by commas")
    console_read_only: bool = _setting(False, "show a console without buttons")
    users: str = _setting("", "the file of users and hashed passwords for Thrift (streamtable add-user writes it)")
    token_file: str = _setting("", "the file that holds the token which clients of Spark Connect have to show")
    allow_anonymous: bool = _setting(False, "let anybody in who reaches a host beyond loopback")
    allow: str = _setting("", "what clients may use although it reaches beyond tables: code, files, sources, settings")
    paths: str = _setting("", "folders whose files clients may read and write by path, separated by commas")
    scheduler: bool = _setting(True, "refresh stream tables by their schedules")
    stop_seconds: float = _setting(
        60.0,
        "how long the server may take to end: refreshes that run may use all but the last 10 seconds, or half of a shorter time",
    )


@dataclass(frozen=True)
class Configuration:
    """The whole file."""

    spark: Mapping[str, str] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)


def load(path: Path | None = None) -> Configuration:
    """Read the file, or streamtable.toml of the current folder if it is there; raise InvalidStatement for what is wrong."""
    if path is None and not FILE.is_file():
        return Configuration()
    path = path or FILE
    try:
        text = path.read_text(encoding="utf-8")
        return _configuration(tomllib.loads(text))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError) as error:
        raise InvalidStatement(f"{path}: {error}", hint="docs/how-to/server.md lists what the file may hold") from error


def exposed(found: Configuration, path: Path | None = None) -> list[str]:
    """Return the files of secrets that everybody on the machine can read: of users, the token, and values of Spark."""
    files = [Path(each) for each in (found.server.users, found.server.token_file) if each]
    return [str(each) for each in (*files, *([path or FILE] if found.spark else [])) if _is_open(each)]


def _is_open(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:  # who needs the file says so
        return False


def _configuration(found: Mapping[str, Any]) -> Configuration:
    unknown = found.keys() - {"spark", "server"}
    if unknown:
        raise ValueError(f"there is no section [{min(unknown)}]; known are [spark] and [server]")
    spark = {key: _text(value) for key, value in _flat(found.get("spark", {}))}
    return Configuration(spark, _server(found.get("server", {})))


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return dotted keys as they are meant: in TOML, spark.driver.memory without quotes is a table in a table."""
    return [
        pair
        for key, value in table.items()
        for pair in (_flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)])
    ]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _server(table: Mapping[str, Any]) -> ServerSettings:
    known = {each.name: type(each.default) for each in fields(ServerSettings)}
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"there is no setting {key} in [server].{near_names(key, known)}")
        kind = known[key]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{key} in [server] has to be {_TYPES[kind.__name__]}, and is {value!r}")
    return ServerSettings(**table)
