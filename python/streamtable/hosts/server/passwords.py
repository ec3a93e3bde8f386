"""Users, their passwords and roles: a file of hashes, which is read each time."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkstemp
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement
from streamtable.hosts.roles import Role, Standing
from streamtable.hosts.server.slowdown import Slowdown
from streamtable.jvm.callback_server import implementation
from streamtable.jvm.gateway import SHIM, java_class

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Passwords", "User", "add_user", "read_users"]

COST = {"n": 2**14, "r": 8, "p": 1}
"""The cost of scrypt: 16 MB and about 50 ms per login."""

_REFUSED = {"Cc": "control characters", "Cf": "invisible characters", "Cs": "half characters", "Zl": "line ends", "Zp": "line ends"}
"""Unicode's categories of characters that no name holds."""

_SIGNED = re.compile("[\x01-\x7f\uff80-\uffff]+")
_hashing = BoundedSemaphore(os.cpu_count() or 1)
"""The number of hashes at once, because each takes memory."""


@dataclass(frozen=True)
class User:
    """A line of the file, without the name."""

    salt: str = field(repr=False)
    hash: str = field(repr=False)
    role: Role = Role.FULL

    def __str__(self) -> str:
        """Spell the user as the file has it; a role that is not said is FULL."""
        return ":".join((self.salt, self.hash, *([] if self.role is Role.FULL else [self.role.value])))


_NOBODY = User("", "")


class Passwords:
    """Tells whether a name and a password belong together, and what the user may do."""

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
        """Return whether somebody may use Thrift: the password is the user's, and the role is FULL."""
        user, password = _as_sent(user), _as_sent(password)
        return self.login(user, password, address) and (found := self.standing(user)) is not None and found.role is Role.FULL

    def login(self, user: str, password: str, address: str = "") -> bool:
        """Return whether the password is the user's. Unknown names and wrong passwords take the same time."""
        name, typed = _normal(user), _normal(password)
        return self._slowdown.attempt(name, address, lambda: self._fits(name, typed))

    def standing(self, user: str) -> Standing | None:
        """Return what the user is now; None for nobody. Raises InvalidStatement while the file cannot be read."""
        found = read_users(self._file).get(_normal(user))
        return Standing(found.role, found.salt) if found else None

    def _fits(self, name: str, password: str) -> bool:
        user = read_users(self._file).get(name, _NOBODY)
        try:
            found = _hash(password, user.salt)
        except UnicodeEncodeError:  # nobody has such a password
            return False
        return hmac.compare_digest(found.encode(), user.hash.encode())

    class Java:
        """Tell py4j which interface this object implements."""

        implements = [f"{SHIM}.Passwords"]


def add_user(file: Path, name: str, password: str, role: Role | None = None) -> Role:
    """Write a user into the file, or change the user's password and role; return the role. Only the owner can read the file.

    Without a `role` the user keeps the one that is there; a new one is FULL.
    """
    name, password = _checked(_normal(name)), _normal(password)
    if not password or "\0" in password or not _is_unicode(password):
        raise InvalidStatement("a password is not empty, and holds neither a NUL nor half a character", hint="choose another one")
    users = dict(read_users(file)) if file.exists() else {}
    role = role or users.get(name, _NOBODY).role
    users[name] = User(salt := os.urandom(16).hex(), _hash(password, salt), role)
    _write(file, users)
    return role


def _write(file: Path, users: Mapping[str, User]) -> None:
    """Put the users in the place of the file at once: a login that happens meanwhile sees the old file or the new one.

    So it is if the disk is full, or the machine stops. Raises InvalidStatement if it cannot be written: the old file stays.
    """
    try:
        number, partial = mkstemp(prefix=f"{file.name}.", dir=file.parent)  # which the owner alone can read
        try:
            with os.fdopen(number, "w", encoding="utf-8", newline="") as opened:
                opened.writelines(f"{user}:{kept}\n" for user, kept in users.items())
                opened.flush()
                os.fsync(number)
            Path(partial).replace(file)
        finally:
            Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise InvalidStatement(f"the file of users cannot be written: {error}", hint="name another file: --users FILE") from error


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


def read_users(file: Path) -> Mapping[str, User]:
    """Return the users by name.

    Raises InvalidStatement for a line that cannot be read, for a role that there is not, and for a file without users: a full disk
    leaves one, and so does an editor for a moment.
    """
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidStatement(f"the file of users cannot be read: {error}", hint="streamtable add-user writes one") from error
    lines = [
        line.removesuffix("\r") for line in text.split("\n") if line
    ]  # not splitlines(): Unicode has ends of lines that are part of a name here
    users = dict[str, User]()
    for number, line in enumerate(lines, 1):
        match line.split(":"):
            case [name, salt, hashed]:
                users[name] = User(salt, hashed)
            case [name, salt, hashed, Role.VIEWER.value]:
                users[name] = User(salt, hashed, Role.VIEWER)
            case _:
                raise InvalidStatement(
                    f"{file}, line {number}: it is neither name:salt:hash nor name:salt:hash:{Role.VIEWER.value}",
                    hint="streamtable add-user writes such lines",
                )
    if not users:
        hint = "write its users again: delete it, then streamtable add-user makes a new one"
        raise InvalidStatement(f"the file of users cannot be read: {file} has no users", hint=hint)
    return users


def _normal(text: str) -> str:
    """Return the same text however a keyboard composes its letters."""
    return unicodedata.normalize("NFC", text)


def _is_unicode(text: str) -> bool:
    return not any(unicodedata.category(letter) == "Cs" for letter in text)


def _as_sent(text: str) -> str:
    """Return what a client of Thrift sent as UTF-8: HiveServer2 makes a letter of each byte, and takes bytes to have a sign."""
    if _SIGNED.fullmatch(text) is None:
        return text
    try:
        return bytes(ord(letter) & 0xFF for letter in text).decode()
    except UnicodeDecodeError:  # letters after all
        return text


def _hash(password: str, salt: str) -> str:
    with _hashing:
        return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), dklen=32, **COST).hex()
