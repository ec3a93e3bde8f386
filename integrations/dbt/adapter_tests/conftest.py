"""dbt's own tests of adapters, with the package of macros, against a running server. `tests/spark/test_dbt.py` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["dbt.tests.fixtures.project"]

MATERIALIZED_VIEW = """
{% materialization materialized_view, adapter='spark' %}
  {{ return(streamtable.materialization_stream_table_spark()) }}
{% endmaterialization %}
"""


@pytest.fixture(scope="class")
def dbt_profile_target() -> dict[str, Any]:
    return {
        "type": "spark",
        "method": "thrift",
        "host": "127.0.0.1",
        "port": int(os.environ["STREAMTABLE_PORT"]),
        "user": os.environ["STREAMTABLE_USER"],
        "password": os.environ["STREAMTABLE_PASSWORD"],
        "auth": "LDAP",
        "poll_interval": 0,
    }


@pytest.fixture(scope="class")
def packages() -> dict[str, Any]:
    return {"packages": [{"local": str(Path(__file__).parents[1])}]}


@pytest.fixture(scope="class")
def macros() -> dict[str, str]:
    return {"materialized_view.sql": MATERIALIZED_VIEW}


@pytest.fixture(scope="class")
def dbt_project_yml(dbt_project_yml: dict[str, Any], project_root: Any) -> dict[str, Any]:
    """Take the package's macros for those of dbt-spark, and make Delta tables, whatever else the class wants."""
    import yaml

    dbt_project_yml["dispatch"] = [{"macro_namespace": "dbt", "search_order": ["test", "streamtable", "dbt"]}]
    for kind in ("models", "seeds", "snapshots"):
        dbt_project_yml.setdefault(kind, {}).setdefault("+file_format", "delta")
    Path(project_root, "dbt_project.yml").write_text(yaml.safe_dump(dbt_project_yml))
    return dbt_project_yml


@pytest.fixture(scope="class", autouse=True)
def installed(project: Any) -> None:
    """Install the package in a process of its own: `deps` in this one forgets the adapter of the project."""
    dbt = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
    where = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
    subprocess.run([*dbt, "deps", *where], check=True)
