"""The versions of the packages that are installed, without an import of them."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed", "versions"]


def installed(package: str) -> str | None:
    """Return the version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str | None]:
    """Return the versions that a report of a fault needs."""
    packages = {name: installed(name) for name in ("streamtable", "pyspark", "delta-spark")}
    return {**packages, "python": platform.python_version()}
