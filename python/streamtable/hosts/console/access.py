"""Access to the console, and protection against other sites in the same browser.

A session begins with a password of the server's users, or with a link that works once. It lives in a cookie that scripts do not see
and other sites do not send. A request that changes something must also show the session's token, because other programs on this
machine are the same site to a browser.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from starlette.datastructures import Headers
from starlette.requests import Request

from streamtable.errors import InvalidStatement
from streamtable.hosts.roles import Role, Standing

__all__ = ["HEADERS", "Doors", "Session", "Users", "is_own_host", "is_own_origin"]

log = logging.getLogger("streamtable.console")

IDLE, LONGEST = 12 * 3600.0, 7 * 86_400.0
"""Seconds after which an idle session ends, and seconds after which any session ends."""
GRACE = 60.0
"""Seconds for which a session goes on as before while nobody can tell what its user may do."""
MOST_SESSIONS, MOST_LINKS = 1000, 10

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_OWNER = Standing(Role.FULL, "")
"""Who comes by a link."""


class Users(Protocol):
    """Who may log in. `Passwords` of a server implements it. Raises InvalidStatement while the users cannot be read."""

    def login(self, user: str, password: str, address: str = "") -> bool:
        """Tell whether the password is the user's. May take seconds: wrong ones are slowed down."""

    def standing(self, user: str) -> Standing | None:
        """Return what the user is now; None for nobody."""


@dataclass
class Session:
    """The session of one browser; `csrf` is the token in its forms. It ends when the `mark` of its user's password changes."""

    user: str
    began: float
    used: float
    known: float
    """When the users last said what this one may do."""
    role: Role = Role.FULL
    mark: str = field(default="", repr=False)
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def may_act(self) -> bool:
        """Tell whether the user may press buttons."""
        return self.role is Role.FULL


class Doors:
    """Admits people, and keeps their sessions. Without `users` a link admits people, who may do everything.

    Nothing is kept on disk: a session ends with the process.
    """

    def __init__(self, users: Users | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.users = users
        self._clock = clock
        self._lock = Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._links: list[str] = []

    def link(self) -> str:
        """Return a token that admits one browser, once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links = [*self._links[1 - MOST_LINKS :], token]
        return token

    def by_link(self, token: str) -> str | None:
        """Return the cookie of a new session, if the token is good; it is used up."""
        with self._lock:
            fitting = [each for each in self._links if hmac.compare_digest(each.encode(), token.encode("utf-8", "replace"))]
            self._links = [each for each in self._links if each not in fitting]
        return self._begin("owner", _OWNER) if fitting else None

    def by_password(self, user: str, password: str, address: str) -> str | None:
        """Return the cookie of a new session, if the password is the user's. May take seconds: wrong ones are slowed down.

        Raises InvalidStatement while the users cannot be read: nobody begins a session then.
        """
        if self.users is None:
            return None
        found = self.users.standing(user)  # before the login: a password that changes meanwhile ends the session
        return self._begin(user, found) if self.users.login(user, password, address) and found else None

    def session(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie, with the role that its user has now.

        While the users cannot be read, as in the middle of an edit, it goes on for GRACE seconds, and then rests.
        """
        now = self._clock()
        with self._lock:
            found = self._sessions.get(cookie or "")
        if found is None:
            return None
        if now - found.used > IDLE or now - found.began > LONGEST:
            self.leave(cookie)
            return None
        try:
            standing = self.users.standing(found.user) if self.users else _OWNER
        except InvalidStatement as error:
            log.warning("what %s may do is not known: %s", found.user, error)
            return found if now - found.known <= GRACE else None
        if standing is None or standing.mark != found.mark:
            self.leave(cookie)
            return None
        found.used, found.known, found.role = now, now, standing.role
        return found

    def leave(self, cookie: str | None) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(cookie or "", None)

    def _begin(self, user: str, standing: Standing) -> str:
        cookie, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._sessions[cookie] = Session(user, now, now, now, standing.role, standing.mark)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return cookie


def is_own_host(header: str | None, names: Collection[str]) -> bool:
    """Tell whether a request was meant for this host: it names an address, localhost, or one of the `names`.

    A foreign name can be made to lead here (DNS rebinding), an address cannot.
    """
    if not header:
        return False
    host = header.partition("]")[0].removeprefix("[") if header.startswith("[") else header.rpartition(":")[0] or header
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host.casefold() in {"localhost", *(name.casefold() for name in names)}
    return True


def is_own_origin(headers: Headers) -> bool:
    """Tell whether a page of ours sent the request, as far as the browser says where it comes from."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2] == headers.get("host")


def shows_token(session: Session, shown: str | None) -> bool:
    """Tell whether a request has the session's own token."""
    return shown is not None and hmac.compare_digest(session.csrf.encode(), shown.encode("utf-8", "replace"))


def address_of(request: Request) -> str:
    """Return the address of the client."""
    return request.client.host if request.client else ""
