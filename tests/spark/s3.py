"""A server of S3 in a process of its own, the jars by which Spark reads it, and the requests that it got."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.request import Request, urlopen

import pyspark

from streamtable.jvm.jars import resolve

ROOT = Path(__file__).parents[2]
REQUIRED = ("moto[server,s3]>=5.2.5,<6",)
BUCKET = "tables"
REQUESTS = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")


def moto_python() -> Path:
    """Return an interpreter that has moto; made once per checkout."""
    folder = ROOT / ".venv-s3"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists() or complete.read_text() != " ".join(REQUIRED):
        venv.create(folder, clear=True)
        pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile")
        subprocess.run([*pip, *REQUIRED], check=True)
        complete.write_text(" ".join(REQUIRED))
    return python


@lru_cache(maxsize=1)
def connector() -> tuple[Path, ...]:
    """Return the jars of Hadoop's connector for S3, of the version that the installed Spark has of Hadoop.

    Spark's resolver fetches them once (700 MB, of which most is the SDK of AWS). A list beside the environment of moto names them.
    """
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    known = ROOT / ".venv-s3" / f"hadoop-aws-{version}"
    jars = tuple(map(Path, known.read_text().splitlines())) if known.exists() else ()
    if not jars or not all(jar.is_file() for jar in jars):
        jars = resolve((f"org.apache.hadoop:hadoop-aws:{version}",), transitive=True)
        known.write_text("\n".join(map(str, jars)))
    return jars


@dataclass(frozen=True)
class Store:
    """A running server."""

    port: int
    record: Path

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of a session that reaches it as s3a://tables."""
        jars = os.pathsep.join(map(str, connector()))
        return {
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "spark.hadoop.fs.s3a.access.key": "nobody",
            "spark.hadoop.fs.s3a.secret.key": "in-particular",
        }

    def requests(self, after: int = 0) -> list[str]:
        """Return the requests so far, without the first ones."""
        return self.record.read_text(encoding="utf-8").splitlines()[after:]

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count the requests of a block by kind; the counter is filled at its end."""
        counted, before = Counter[str](), len(self.requests())
        yield counted
        counted.update(each.partition(" ")[0] for each in self.requests(before))


@contextmanager
def storing(folder: Path) -> Iterator[Store]:
    """Start a server, with an empty bucket."""
    record = folder / "requests.txt"
    with (folder / "s3.log").open("w") as log:
        process = subprocess.Popen(
            [moto_python(), Path(__file__).with_name("s3_server.py"), record],
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said, (folder / "s3.log").read_text()
        store = Store(int(said), record)
        urlopen(Request(f"http://127.0.0.1:{store.port}/{BUCKET}", method="PUT")).close()
        yield store
    finally:
        process.kill()
        process.communicate()


def _environment() -> Mapping[str, str]:
    """Return an environment without the packages of this one."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
