"""Keeps the output of a starting JVM from the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def jvm_output(path: Path) -> Iterator[None]:
    """Give processes started in the block, and only them, `path` as stderr. Show its text if the start fails."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    failed = True
    try:
        yield
        failed = False
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        if failed:
            sys.stderr.write(path.read_text(encoding="utf-8", errors="replace"))
