"""File events as the kernel tells them (inotify), of all folders below some: a supervisor that acts at the n-th."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

MODIFY, MOVED, CREATE, DELETE = 0x2, 0xC0, 0x100, 0x200
FOLDER, IGNORED = 0x40000000, 0x8000
_HEADER = struct.Struct("iIII")


class Events:
    """The events below some folders; a folder that comes into being is watched from then on."""

    def __init__(self, *folders: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._libc.inotify_init()
        self._places: dict[int, Path] = {}
        for folder in folders:
            self._watch(folder)

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._queue)

    def _watch(self, folder: Path) -> None:
        known = self._libc.inotify_add_watch(self._queue, os.fsencode(folder), MODIFY | MOVED | CREATE | DELETE)
        if known < 0:
            return  # it is gone again
        self._places[known] = folder
        with suppress(FileNotFoundError):  # it is gone since
            for inner in [Path(each.path) for each in os.scandir(folder) if each.is_dir(follow_symlinks=False)]:
                self._watch(inner)

    def until(self, ended: Callable[[], bool]) -> Iterator[Path]:
        """Yield the paths of events, until there are no more and `ended` says so."""
        while True:
            ready, _, _ = select.select([self._queue], [], [], 0.2)
            if not ready:
                if ended():
                    return
                continue
            told, at = os.read(self._queue, 1 << 16), 0
            while at < len(told):
                watch, mask, _, length = _HEADER.unpack_from(told, at)
                name = os.fsdecode(told[at + _HEADER.size : at + _HEADER.size + length].rstrip(b"\0"))
                at += _HEADER.size + length
                if mask & IGNORED:
                    continue
                path = self._places[watch] / name
                if mask & FOLDER and mask & (CREATE | MOVED) and path.is_dir():
                    self._watch(path)
                yield path
