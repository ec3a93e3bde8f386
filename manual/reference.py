"""The pages of the reference that are lists: each is written from the declaration that the program itself reads.

python -m manual.reference        writes them; ./run docs does it before it builds the site, and a test compares
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric

from manual.syntax import statements, text
from streamtable import errors
from streamtable.hosts.server.metrics import Metrics, families
from streamtable.observe.expectations import MOST, VIOLATIONS
from streamtable.observe.functions import FUNCTIONS
from streamtable.settings.server_file import ServerSettings
from streamtable.settings.session import SETTINGS, Setting

DOCS = Path(__file__).parents[1] / "docs"
MARK = "<!-- Written by ./run docs; to change it, change what it is written from. -->\n\n"


def syntax() -> str:
    """Return the page with the syntax of each statement."""
    opening = """\
# Syntax

What the parser accepts, statement by statement, from the grammar `grammar/streamtable.lark`. The pages of the statements say what each
clause does: [stream tables](statements.md), [SUBSCRIBE](subscribe.md), [queues](queues.md), [replication](replication.md).

Words in capitals are written as they stand, in any case. `[ ]` is optional, `{ }` groups, `|` separates alternatives, `...` repeats,
with commas where one stands before it. Each line of a part below a statement is one way to write that part.

| stands for | |
|---|---|
| `name` | a name with or without schema and catalog, as `sales.orders` |
| `identifier` | one word, or anything between backquotes |
| `query`, `condition`, `expression` | SQL of Spark |
| `relation` | a table or a view |
| `'duration'` | `'30s'`, `'5m'`, `'1h30m'`, `'1d'` |
| `bound` | a [time](subscribe.md#time): a number, an expression of literals and the clock |
"""
    return opening + "".join(f"\n## {each.title}\n\n```text\n{text(each)}\n```\n" for each in statements())


def settings() -> str:
    """Return the page with all settings of our own."""
    return f"""\
# Settings

All settings of streamtable: those of a session, and those of a server. What a query means is decided by Spark's own settings, which are
[kept with each table](statements.md#create-stream-table).

## Of a session

`SET` refuses an unknown setting and an impossible value. A new value counts at once, also for a scheduler that runs in this session.
Some settings are read only when the application starts; their rows say so.

A session does not start with an impossible value. In a JVM [without Python](../how-to/jvm.md), `SET` checks nothing: the first statement
of streamtable does.

After a wrong `SET`, statements that need the setting fail. Scheduled refreshes, spans and lineage use the default, and warn once.

`spark.streamtable.patches.off` is not in the list: it [switches off](../explanation/architecture.md#patches) code of streamtable in place
of Spark's or Delta's.

{_table(("setting", "default", ""), ((f"`{each.key}`", _default(each), each.doc) for each in SETTINGS))}
## Of a server

Keys of `[server]` in `streamtable.toml`, and options of [`streamtable server`](../how-to/server.md#settings): `thrift_port` is
`--thrift-port`. An option wins over the file.

{_table(("key", "default", ""), ((f"`{each.name}`", _shown(each.default), each.metadata["doc"]) for each in fields(ServerSettings)))}"""


def _default(setting: Setting[Any]) -> str:
    return _shown("learnt" if setting.default is None else setting.default)


def _shown(value: object) -> str:
    return "" if value == "" else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def conditions() -> str:
    """Return the page with all errors."""
    rows = (
        (f"`{each.condition}`", f"`{each.__name__}`", each.sqlstate, _meaning(each), each.remedy) for each in errors.all_errors()
    )
    return f"""\
# Errors

Every way in which streamtable says no, to look up an error that you met. The text of an error says what, where, why, and what to do next.

All are classes of `streamtable.errors` below `StreamTableError`, which derives from `pyspark.errors.PySparkException`: who catches
Spark's errors catches these. `getCondition()` gives the condition, `getSqlState()` the SQLSTATE.

{_table(("condition", "class", "SQLSTATE", "meaning", "what to do"), rows)}"""


def _meaning(error: type[errors.StreamTableError]) -> str:
    return " ".join((error.__doc__ or "").partition("\n\n")[0].split())


def functions() -> str:
    """Return the page with all table functions."""
    parts = (
        f"\n## {name}\n\n`{name}([{', '.join(FUNCTIONS[name].parameters)}])` has one row per {FUNCTIONS[name].each}.\n\n"
        + _table(("column", "type"), ((f"`{each.name}`", each.dataType.simpleString()) for each in FUNCTIONS[name].columns))
        for name in FUNCTIONS
    )
    opening = """\
# Table functions

What there is to see of stream tables, queues and replication, as tables for any query. [Monitoring](monitoring.md) says what the columns mean.

Arguments in brackets may be left out. `name` is a constant text, written as in a statement; without it the rows are those of all objects.
"""
    violations = f"""
## {VIOLATIONS.name}

`{VIOLATIONS.name}(name, expectation[, limit])` has the rows of a stream table's query that fail an [expectation](../how-to/expectations.md), over
the sources as they are now. Its columns are those of the table. Without a limit, more than {MOST:,} rows are an error.
"""
    return opening + "".join(parts) + violations


def metrics() -> str:
    """Return the page with all metrics."""
    return f"""\
# Metrics

What a [server](../how-to/server.md#metrics) tells Prometheus on `metrics_port`, to write queries and alert rules with. It asks the tables every
`spark.streamtable.scheduler.pollSeconds`, and less often where they take long; a scrape gets what they said last.

{_table(("metric", "kind", "labels", ""), (_metric(each) for each in (*Metrics().collect(), *families([], [], [], 0.0))))}
`process_...` and `python_info` are those of the Python process, as in any Python program.
"""


def _metric(metric: Metric) -> tuple[str, ...]:
    labels: Sequence[str] = getattr(metric, "_labelnames", ())
    return f"`{metric.name}`", metric.type, ", ".join(f"`{label}`" for label in labels), metric.documentation


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "syntax": syntax,
    "settings": settings,
    "errors": conditions,
    "functions": functions,
    "metrics": metrics,
}


def page(name: str) -> str:
    """Return the whole text of a page."""
    return MARK + PAGES[name]()


def path(name: str) -> Path:
    """Return where the page stands."""
    return DOCS / "reference" / f"{name}.md"


if __name__ == "__main__":
    for each in PAGES:
        path(each).write_text(page(each), encoding="utf-8")
