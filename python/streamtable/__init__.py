"""Declarative, incrementally maintained tables for Spark SQL on Delta Lake.

from pyspark.sql import SparkSession
from streamtable import configure

spark = configure(SparkSession.builder).getOrCreate()
spark.sql("CREATE STREAM TABLE per_city AS SELECT city, count(*) AS n FROM people GROUP BY city")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamtable.api.tables import StreamTable as StreamTable
    from streamtable.api.tables import StreamTables as StreamTables
    from streamtable.errors import *  # noqa: F403
    from streamtable.hosts.console import console as console
    from streamtable.hosts.notebook import load_ipython_extension as load_ipython_extension
    from streamtable.hosts.session import configure as configure
    from streamtable.hosts.session import enable as enable
    from streamtable.hosts.session import open_queue as open_queue
    from streamtable.hosts.session import start_scheduler as start_scheduler
    from streamtable.hosts.session import subscribe as subscribe

    __all__: list[str]
    __version__: str
else:
    # Imported when somebody asks: Spark takes long to import, and `streamtable --version` needs none of it.
    _HOMES = {
        "StreamTable": "api.tables",
        "StreamTables": "api.tables",
        "configure": "hosts.session",
        "console": "hosts.console",
        "enable": "hosts.session",
        "load_ipython_extension": "hosts.notebook",
        "open_queue": "hosts.session",
        "start_scheduler": "hosts.session",
        "subscribe": "hosts.session",
    }

    def __getattr__(name):
        found = _found(name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *_found("__all__")})

    def _found(name):
        from importlib import import_module

        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        if name == "__version__":
            from streamtable.hosts.cli.versions import installed

            return installed("streamtable") or "0+unknown"  # a checkout that is on the path but not installed
        if name == "__all__" or not name.startswith("_"):
            errors = import_module(f"{__name__}.errors")
            if name == "__all__":
                return sorted((*_HOMES, "__version__", *errors.__all__))
            if name in errors.__all__:
                return getattr(errors, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
