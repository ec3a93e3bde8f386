"""The files that browsers load."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files

__all__ = ["address", "assets"]


@lru_cache(maxsize=1)
def assets() -> dict[str, bytes]:
    """Return the files that browsers load, by name."""
    folder = files("streamtable.hosts.console") / "static"
    own = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    vendored = {f"vendor/{each.name}": each.read_bytes() for each in (folder / "vendor").iterdir() if each.is_file()}
    return own | vendored


def address(name: str) -> str:
    """Return the address of a file, which changes with its contents."""
    return f"/static/{name}?{hashlib.sha256(assets()[name]).hexdigest()[:12]}"
