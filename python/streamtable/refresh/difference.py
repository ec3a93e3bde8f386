"""A full refresh of a table that others read: it commits the rows that differ, so that its readers see a small change.

Identity: contents + (query - contents) = query, as Z-sets. It holds for any contents and any query whose rows can be told apart.
"""

from __future__ import annotations

from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from sqlglot import exp

from streamtable.algebra.columns import WEIGHT, Column
from streamtable.algebra.identity import told_apart
from streamtable.delta.rows import read
from streamtable.delta.tables import size
from streamtable.engine import limits
from streamtable.engine.locate import Current, measure
from streamtable.engine.netting import net
from streamtable.engine.workspace import Workspace
from streamtable.jvm.failures import cancelled
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.table_change import NotWhatTheFrontierSays, TableChange, applied
from streamtable.sql.builder import alias, column, number, qualified, select, subquery, table, union_all

__all__ = ["difference"]


def difference(workspace: Workspace, path: str, version: int, whole: TableChange, analysed: AnalysedQuery) -> TableChange:
    """Return the change from the contents of the table at `path` to the rows of `whole`, or `whole` itself where that costs less.

    `whole` replaces all of the contents but the frozen rows.

    `whole` is computed once in both cases. Contents that cannot be read are replaced.
    """
    assert whole.add is not None, "a query has rows, if only none"
    fields = whole.add.schema.fields
    columns = [Column(f"v{n}", field.name, field.dataType.simpleString().upper()) for n, field in enumerate(fields)]
    if not told_apart(columns):
        return whole
    whole = replace(whole, add=workspace.persist(whole.add))
    try:
        return _difference(workspace, path, version, whole, columns, analysed)
    except (NotWhatTheFrontierSays, Py4JJavaError, CapturedException) as error:
        if cancelled(error):
            raise
        return whole  # An error of the query itself is raised again when its rows are written.


def _difference(
    workspace: Workspace, path: str, version: int, whole: TableChange, columns: list[Column], analysed: AnalysedQuery
) -> TableChange:
    assert whole.add is not None
    names, ids = whole.add.columns, [c.id for c in columns]
    present = analysed.outside(read(workspace.session, path, version)).select(*(qualified((name,)) for name in names))
    sides = (("expected", whole.add.toDF(*ids), 1), ("contents", present.toDF(*ids), -1))
    signed: list[exp.Query] = []
    for view, frame, weight in sides:
        workspace.name(view, frame)
        signed.append(select([*(column(each) for each in ids), alias(number(weight), WEIGHT.id)], table(view)))
    workspace.name("differing", workspace.persist(workspace.query(net(columns, subquery(union_all(signed), "delta")))))
    measured = measure(workspace, "differing", columns, None)
    stored = size(workspace.session, path, version)
    if stored is None or limits.DIFFERENCE_ONE_IN * measured.going > stored.rows:
        return whole
    current = Current.of(path, version, names, columns, analysed)
    return applied(workspace, "differing", columns, names, current, measured, None)
