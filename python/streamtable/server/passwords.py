"""Users and passwords for Thrift: a file of hashes, read anew at each login."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from streamtable.callback_server import implementation
from streamtable.delta.bridge import SHIM, java_class
from streamtable.errors import InvalidStatement

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Passwords", "add_user", "read_users"]

COST = {"n": 2**14, "r": 8, "p": 1}
"""Of scrypt: 16 MB and some 50 ms per login."""


class Passwords:
    """Tell the shim whether a name and a password belong together."""

    def __init__(self, file: Path) -> None:
        read_users(file)  # what is wrong with the file is told before the server starts
        self._file = file

    def register(self, spark: SparkSession) -> None:
        """Let HiveServer2 ask this object.

        It looks for the class in a configuration that it makes anew at each login: of all settings, system properties get there.
        """
        java_class(spark, f"{SHIM}.Passwords").set(implementation(spark, self))
        java_class(spark, "java.lang.System").setProperty("hive.server2.custom.authentication.class", f"{SHIM}.PasswordCheck")

    def accepts(self, user: str, password: str) -> bool:
        """Return whether the password is the user's; a name that is not there takes as long."""
        salt, _, expected = read_users(self._file).get(user, ":").partition(":")
        return hmac.compare_digest(_hash(password, salt), expected)

    class Java:
        """Tell py4j which interface this object implements."""

        implements = [f"{SHIM}.Passwords"]


def add_user(file: Path, name: str, password: str) -> None:
    """Write a user into the file, or give him another password; nobody but its owner can read the file."""
    if not name or any(letter in name for letter in ":\n") or not password:
        raise InvalidStatement("a name holds no colon, and neither name nor password is empty")
    salt = os.urandom(16).hex()
    users = {**(read_users(file) if file.exists() else {}), name: f"{salt}:{_hash(password, salt)}"}
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
        opened.writelines(f"{user}:{kept}\n" for user, kept in users.items())
    partial.replace(file)  # at once: a login that happens meanwhile sees the old file or the new one


def read_users(file: Path) -> Mapping[str, str]:
    """Return the salt and the hash of each user, as `salt:hash`."""
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line]
    except OSError as error:
        raise InvalidStatement(f"the file of users cannot be read: {error}", hint="streamtable add-user writes one") from error
    if wrong := next((number for number, line in enumerate(lines, 1) if line.count(":") != 2), None):
        raise InvalidStatement(f"{file}, line {wrong}: it is not name:salt:hash", hint="streamtable add-user writes such lines")
    return {user: kept for user, _, kept in (line.partition(":") for line in lines)}


def _hash(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), dklen=32, **COST).hex()
