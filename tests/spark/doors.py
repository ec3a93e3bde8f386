"""What a stranger on this machine can try: ports that processes listen on, and words that are no greeting."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

GREETINGS = {
    "a call": b"c\np0\nrun\nro999999\nsSHOW STREAM TABLES\ne\n",
    "a call in pieces": b"c",
    "freeing an object": b"g\np0\ne\n",
    "the entry point": b"c\nt\ntoString\ne\n",
    "a wrong secret": b"A\nwrong\ne\n",
    "a wrong secret as long as the right one": b"A\n" + b"0" * 64 + b"\ne\n",
    "an empty secret": b"A\n\ne\n",
    "a wrong secret, and a call": b"A\n" + b"0" * 64 + b"\ne\nc\np0\nrun\ne\n",
    "garbage": bytes(range(256)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a line without an end": b"A" * 1_000_000,
    "a secret without an end": b"A\n" + b"0" * 1_000_000,
}


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""The addresses of this machine alone, as Linux keeps them."""


def on_command_lines(text: str) -> list[str]:
    """Return the command lines of all processes of this machine that hold a text."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if text.encode() in (line := (process / "cmdline").read_bytes()):
                found.append(line.replace(b"\0", b" ").decode())
    return found


def family(process: int) -> list[int]:
    """Return a process and all that it started, directly or not; threads start processes as well."""
    children = {int(child) for file in Path(f"/proc/{process}/task").glob("*/children") for child in file.read_text().split()}
    return [process, *(each for child in sorted(children) for each in family(child))]


def listening(*processes: int) -> dict[int, str]:
    """Return the ports on which the processes listen, with the addresses in hexadecimal as Linux keeps them."""
    files = {os.path.realpath(file).rpartition("/")[2] for pid in processes for file in Path(f"/proc/{pid}/fd").iterdir()}
    sockets = [line.split() for kind in ("tcp", "tcp6") for line in Path("/proc/net", kind).read_text().splitlines()[1:]]
    places = [each[1].split(":") for each in sockets if each[3] == "0A" and f"socket:[{each[9]}]" in files]
    return {int(port, 16): address for address, port in places}


def answer(port: int, said: bytes, patience: float = 3.0) -> bytes | None:
    """Return what is written to a client that says this, until it is sent away; None if it is not."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as client:
        told = b""
        try:
            client.sendall(said)
            while more := client.recv(4096):
                told += more
        except TimeoutError:
            return None
        except (ConnectionResetError, BrokenPipeError):
            pass
        return told


def called_at(process: int) -> int:
    """Return the port at which a Python process of ours is called: PySpark's other one waits for more bytes."""
    (found,) = (port for port in listening(process) if answer(port, b"c", 2.0) == b"")
    return found


def nobody_is_let_in(port: int) -> None:
    """Try all of them: each is sent away at once, without a word."""
    for name, said in GREETINGS.items():
        began = time.monotonic()
        assert answer(port, said) == b"", name
        assert time.monotonic() - began < 2, name
