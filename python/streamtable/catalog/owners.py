"""The owner of an intent, and whether its statement still runs. Processes elsewhere renew their intents from time to time."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["BEAT", "alive", "gone", "owner"]

BEAT, PATIENCE = 20.0, 120.0
"""Seconds between two renewals of an intent, and seconds without a renewal after which its process counts as dead."""


def owner() -> str:
    """Name this process, so that other processes of the machine can tell whether it still runs."""
    return f"{_machine()}-{os.getpid()}-{_started(os.getpid())}"


@lru_cache(maxsize=1)
def _machine() -> str:
    """Identify the system that has the list of processes: a boot of a machine, or a container on it."""
    told = [socket.gethostname()]
    with suppress(OSError):
        told += [Path("/proc/sys/kernel/random/boot_id").read_text(), str(Path("/proc/self/ns/pid").readlink())]
    return uuid.uuid5(uuid.NAMESPACE_OID, "\n".join(told)).hex[:12]


def _started(pid: int) -> str | None:
    """Return the start of a process, in ticks of the machine; "0" if unknown, None for a missing process."""
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


def gone(name: str) -> bool:
    """Tell whether the process of that name ran on this machine, and runs no more. Other texts than names are of nobody."""
    machine, _, process = name.partition("-")
    pid, _, started = process.partition("-")
    return machine == _machine() and not (len(pid) < 20 and pid.isdecimal() and _started(int(pid)) == started)


def alive(name: str, at: int, running: bool) -> bool:
    """Tell whether the statement of an intent still runs: by its process if it is visible, else by its last renewal.

    `name` is the name of its file, `at` the file's last write. `running` says whether it is a running statement of this process.
    """
    machine, pid, started, _ = name.split("-", 3)
    if machine == _machine():
        if int(pid) == os.getpid():
            return running
        if _started(int(pid)) != started:
            return False
    return time.time() - at / 1000 < PATIENCE
