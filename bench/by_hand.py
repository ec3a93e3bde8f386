"""The MERGE that a skilled person writes for each query: change feed since the last version, keyed by what they know of the data.

It relies on what the engine may not: `id` is unique, the dimension never changes, a group's count says when it is gone.
"""

from __future__ import annotations

__all__ = ["merge", "upsert"]

_FEED = "table_changes('src', {since}, {upto})"

# The last change of each key; the rows before an update say nothing new.
_LATEST_OF = """
    SELECT * EXCEPT (nth) FROM (
      SELECT *, row_number() OVER (PARTITION BY id ORDER BY _commit_version DESC) AS nth
      FROM {feed} WHERE _change_type <> 'update_preimage')
    WHERE nth = 1"""
_LATEST = _LATEST_OF.format(feed=_FEED)

_SIGN = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"

_UPSERT = """
    WHEN MATCHED AND s._change_type = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT *"""

_ADD = """
    WHEN MATCHED AND t.n + s.n = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET n = t.n + s.n, total = t.total + s.total
    WHEN NOT MATCHED THEN INSERT *"""

_MERGES = {
    "scan": f"MERGE INTO {{table}} t USING ({_LATEST}) s ON t.id = s.id {_UPSERT}",
    "filter": f"""
    MERGE INTO {{table}} t USING ({_LATEST}) s ON t.id = s.id
    WHEN MATCHED AND (s._change_type = 'delete' OR NOT s.amount > 5000) THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._change_type <> 'delete' AND s.amount > 5000 THEN INSERT *""",
    "aggregate": f"""
    MERGE INTO {{table}} t USING (
      SELECT grp, sum({_SIGN}) AS n, sum({_SIGN} * amount) AS total FROM {_FEED} GROUP BY grp) s
    ON t.grp = s.grp {_ADD}""",
    "join": f"""
    MERGE INTO {{table}} t USING (
      SELECT c.id, c.amount, d.region, d.label, c._change_type FROM ({_LATEST}) c JOIN dim d ON c.dim = d.dim) s
    ON t.id = s.id {_UPSERT}""",
    "join + aggregate": f"""
    MERGE INTO {{table}} t USING (
      SELECT region, sum({_SIGN}) AS n, sum({_SIGN} * amount) AS total FROM {_FEED} JOIN dim USING (dim) GROUP BY region) s
    ON t.region = s.region {_ADD}""",
}


def merge(query: str, table: str, since: int, upto: int) -> str:
    """Return the MERGE that brings `table` from before version `since` of src to version `upto`."""
    return _MERGES[query].format(table=table, since=since, upto=upto)


def upsert(table: str, feed: str) -> str:
    """Return the MERGE of a change feed, which is a relation of some versions, into `table` by its `id`."""
    return f"MERGE INTO {table} t USING ({_LATEST_OF.format(feed=feed)}) s ON t.id = s.id {_UPSERT}"
