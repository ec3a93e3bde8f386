"""Whose statement an intent is, and whether it still runs: processes of this machine are looked at, others say so now and then."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["BEAT", "alive", "owner"]

BEAT, PATIENCE = 20.0, 120.0
"""Seconds after which a statement that runs says so again, and after which one that did not say so is taken to be dead."""


def owner() -> str:
    """Name this process so that another on the machine can tell whether it is there."""
    return f"{_machine()}-{os.getpid()}-{_started(os.getpid())}"


@lru_cache(maxsize=1)
def _machine() -> str:
    """Identify what has one list of processes: a start of a machine, or a container on it."""
    told = [socket.gethostname()]
    with suppress(OSError):
        told += [Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())]
    return uuid.uuid5(uuid.NAMESPACE_OID, "\n".join(told)).hex[:12]


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks of the machine: "0" where that cannot be known, None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return "0"


def alive(name: str, at: int, running: bool) -> bool:
    """Tell whether the statement of an intent still runs: by its process where that can be seen, else by when it last said so.

    `name` is that of its file, `at` when this was written last; `running` says whether it is one of this process that runs.
    """
    machine, pid, started, _ = name.split("-", 3)
    if machine == _machine():
        if int(pid) == os.getpid():
            return running
        if _started(int(pid)) != started:
            return False
    return time.time() - at / 1000 < PATIENCE
