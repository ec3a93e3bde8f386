"""The macros of dbt rendered by jinja, without dbt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2

from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable

MACROS = Path(__file__).parents[2] / "integrations" / "dbt" / "macros"
FILES = ("config.sql", "expectations.sql", "statement.sql", "operations.sql", "relations.sql", "stream_table.sql")


def macros(file: str) -> str:
    """Return the macros of a file, without the materialisation, which is no statement of jinja's own."""
    text = (MACROS / file).read_text()
    return re.sub(r"{% materialization .*?{% endmaterialization %}", "", text, flags=re.DOTALL)


class Returned(Exception):
    """How a macro of dbt gives back a value."""


class Package:
    """The macros of the package, as dbt calls them: `streamtable.name(...)`."""

    def __init__(self, **context: Any) -> None:
        environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)  # noqa: S701  (SQL, not HTML)
        environment.globals |= {
            "streamtable": self,
            "return": self._back,
            "get_columns_in_query": lambda _: ["Day", "a b"],
        } | context
        self._module = environment.from_string("".join(map(macros, FILES))).module

    @staticmethod
    def _back(value: object) -> None:
        raise Returned(value)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object, **named: object) -> object:
            try:
                return getattr(self._module, name)(*arguments, **named)
            except Returned as returned:
                return returned.args[0]

        return call


class Config(dict[str, Any]):
    """dbt's config of a model."""

    def persist_relation_docs(self) -> bool:
        return bool(self.get("persist_docs"))

    persist_column_docs = persist_relation_docs


def statement(config: dict[str, Any], **model: Any) -> CreateStreamTable:
    """Return the statement of a model as the grammar reads it."""
    package = Package(config=Config(config), model={"columns": {}, "description": "", "alias": "t"} | model)
    query = "select 1 as day, 2 as `a b`"
    parsed = parse(package.create("create or refresh", "shop.t", package.clauses(query), query))
    assert isinstance(parsed, CreateStreamTable)
    assert (str(parsed.name), parsed.query.text) == ("`shop`.`t`", query)
    return parsed
