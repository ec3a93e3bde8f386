"""The files of JavaScript that the console brings along, as npm has them, with their licences: `./run vendor`.

A package changes here alone: a new version and the digests of its files, then `./run vendor`. Another digest is refused.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["FOLDER", "LICENCES", "PACKAGES", "Package", "vendored"]

FOLDER = Path(__file__).parent / "python/streamtable/hosts/console/static/vendor"
LICENCES = "LICENSES.txt"


@dataclass(frozen=True)
class Package:
    """A package of npm: the paths of its files in it, with the digest of each; `licence` is a path as well."""

    name: str
    version: str
    files: Mapping[str, str]
    licence: str = "LICENSE"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


PACKAGES = (
    Package("htmx.org", "2.0.11", {"dist/htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"}),
    Package("htmx-ext-sse", "2.2.4", {"dist/sse.min.js": "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136"}),
)


def vendored(packed: Iterable[tuple[Package, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """Return what stands in the folder, by name, given all files of each package. Raises ValueError for another digest."""
    found, licences = dict[str, bytes](), list[str]()
    for package, files in packed:
        for path, digest in package.files.items():
            if (came := sha256(files[path]).hexdigest()) != digest:
                raise ValueError(f"{path} of {package} has the digest {came} instead of {digest}")
            found[Path(path).name] = files[path]
        licences.append(f"{package}\n\n{files[package.licence].decode().strip()}\n")
    return {**found, LICENCES: "\n".join(licences).encode()}


def _packed(package: Package) -> dict[str, bytes]:
    """Have npm fetch a package, and return its files by their paths."""
    with TemporaryDirectory() as folder:
        pack = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
        subprocess.run(pack, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as opened:
            members = ((member.name, opened.extractfile(member)) for member in opened if member.isfile())
            return {name.partition("/")[2]: file.read() for name, file in members if file is not None}


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with --check only compare; return the exit code."""
    found = vendored((package, _packed(package)) for package in PACKAGES)
    there = {file.name: file.read_bytes() for file in FOLDER.iterdir()}
    if "--check" in arguments:
        return int(found != there)
    for name in there.keys() - found.keys():
        (FOLDER / name).unlink()
    for name, content in found.items():
        (FOLDER / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
