"""Users and passwords for Thrift: a file of hashes, which is read at each login."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import unicodedata
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement
from streamtable.hosts.server.slowdown import Slowdown
from streamtable.jvm.callback_server import implementation
from streamtable.jvm.gateway import SHIM, java_class

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Passwords", "add_user", "read_users"]

COST = {"n": 2**14, "r": 8, "p": 1}
"""The cost of scrypt: 16 MB and about 50 ms per login."""

_REFUSED = {"Cc": "control characters", "Cf": "invisible characters", "Cs": "half characters", "Zl": "line ends", "Zp": "line ends"}
"""Unicode's categories of characters that no name holds."""

_SIGNED = re.compile("[\x01-\x7f\uff80-\uffff]+")
_hashing = BoundedSemaphore(os.cpu_count() or 1)
"""The number of hashes at once, because each takes memory."""


class Passwords:
    """Tells the shim whether a name and a password belong together."""

    def __init__(self, file: Path) -> None:
        read_users(file)  # what is wrong with the file is told before the server starts
        self._file = file
        self._slowdown = Slowdown()

    def register(self, spark: SparkSession) -> None:
        """Let HiveServer2 ask this object.

        HiveServer2 looks for the class in a configuration that it makes at each login, and only system properties reach it.
        """
        java_class(spark, f"{SHIM}.Passwords").set(implementation(spark, self))
        java_class(spark, "java.lang.System").setProperty("hive.server2.custom.authentication.class", f"{SHIM}.PasswordCheck")

    def accepts(self, user: str, password: str, address: str = "") -> bool:
        """Return whether the password is the user's. Unknown names and wrong passwords take the same time."""
        name, typed = _normal(_as_sent(user)), _normal(_as_sent(password))
        return self._slowdown.attempt(name, address, lambda: self._fits(name, typed))

    def _fits(self, name: str, password: str) -> bool:
        salt, _, expected = read_users(self._file).get(name, ":").partition(":")
        try:
            found = _hash(password, salt)
        except UnicodeEncodeError:  # nobody has such a password
            return False
        return hmac.compare_digest(found.encode(), expected.encode())

    class Java:
        """Tell py4j which interface this object implements."""

        implements = [f"{SHIM}.Passwords"]


def add_user(file: Path, name: str, password: str) -> None:
    """Write a user into the file, or change the user's password. Only the owner can read the file."""
    name, password = _checked(_normal(name)), _normal(password)
    if not password or "\0" in password or not _is_unicode(password):
        raise InvalidStatement("a password is not empty, and holds neither a NUL nor half a character", hint="choose another one")
    salt = os.urandom(16).hex()
    users = {**(read_users(file) if file.exists() else {}), name: f"{salt}:{_hash(password, salt)}"}
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8", newline="") as opened:
        opened.writelines(f"{user}:{kept}\n" for user, kept in users.items())
    partial.replace(file)  # at once: a login that happens meanwhile sees the old file or the new one


def _checked(name: str) -> str:
    """Return a name that fits before the colon of a line in the file, and that cannot be mistaken for another name."""
    refused = {_REFUSED[kind] for kind in map(unicodedata.category, name) if kind in _REFUSED}
    if ":" in name:
        refused.add("colons")
    if refused or not name or name != name.strip():
        what = " and ".join(sorted(refused)) or "only spaces, or spaces around it" if name else "nothing"
        raise InvalidStatement(
            f"a name holds no colon and no control characters, and is not empty: {name!r} holds {what}",
            hint="choose another name; letters of any language are good",
        )
    return name


def read_users(file: Path) -> Mapping[str, str]:
    """Return the salt and the hash of each user, as `salt:hash`."""
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidStatement(f"the file of users cannot be read: {error}", hint="streamtable add-user writes one") from error
    lines = [
        line.removesuffix("\r") for line in text.split("\n") if line
    ]  # not splitlines(): Unicode has ends of lines that are part of a name here
    if wrong := next((number for number, line in enumerate(lines, 1) if line.count(":") != 2), None):
        raise InvalidStatement(f"{file}, line {wrong}: it is not name:salt:hash", hint="streamtable add-user writes such lines")
    return {user: kept for user, _, kept in (line.partition(":") for line in lines)}


def _normal(text: str) -> str:
    """Return the same text however a keyboard composes its letters."""
    return unicodedata.normalize("NFC", text)


def _is_unicode(text: str) -> bool:
    return not any(unicodedata.category(letter) == "Cs" for letter in text)


def _as_sent(text: str) -> str:
    """Return what a client sent as UTF-8: HiveServer2 makes a letter of each byte, and takes bytes to have a sign."""
    if _SIGNED.fullmatch(text) is None:
        return text
    try:
        return bytes(ord(letter) & 0xFF for letter in text).decode()
    except UnicodeDecodeError:  # letters after all
        return text


def _hash(password: str, salt: str) -> str:
    with _hashing:
        return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), dklen=32, **COST).hex()
