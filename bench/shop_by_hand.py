"""The MERGE that an expert writes for shapes of the shop, where one is known.

It reads the change feed of `events` since a version, and relies on what the engine may not: `event` is unique, and nobody changes
the user or the time of an event. Dimensions are taken as unchanged, so these tables may differ from ours where one changed.
"""

from __future__ import annotations

__all__ = ["merge"]

_FEED = "table_changes('events', {since}, {upto})"
_SIGN = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
_LAST = f"""
    SELECT * EXCEPT (nth) FROM (
      SELECT *, row_number() OVER (PARTITION BY event ORDER BY _commit_version DESC) AS nth
      FROM {_FEED} WHERE _change_type <> 'update_preimage') WHERE nth = 1"""
_UPSERT = """
    WHEN MATCHED AND s._change_type = 'delete' THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT *"""
_ADD = """
    WHEN MATCHED AND t.n + s.n = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET n = t.n + s.n, total = t.total + s.total
    WHEN NOT MATCHED THEN INSERT *"""

_MERGES = {
    "clean": f"""
    MERGE INTO {{table}} t USING (
      SELECT event, user_id, product, at, upper(kind) AS kind, CAST(amount AS DOUBLE) AS amount, amount > 10 AS stays, _change_type
      FROM ({_LAST})) s ON t.event = s.event
    WHEN MATCHED AND (s._change_type = 'delete' OR NOT s.stays) THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._change_type <> 'delete' AND s.stays THEN INSERT *""",
    "enriched": f"""
    MERGE INTO {{table}} t USING (
      SELECT e.event, e.day, e.amount, p.title, u.name, e._change_type FROM ({_LAST}) e
      JOIN products p ON e.product = p.product JOIN users u ON e.user_id = u.user_id) s ON t.event = s.event {_UPSERT}""",
    "revenue": f"""
    MERGE INTO {{table}} t USING (
      SELECT e.day, p.category, sum({_SIGN}) AS n, sum({_SIGN} * e.amount) AS total
      FROM {_FEED} e JOIN products p ON e.product = p.product GROUP BY e.day, p.category) s
    ON t.day = s.day AND t.category = s.category {_ADD}""",
    "two feeds": f"""
    MERGE INTO {{table}} t USING (
      SELECT product, sum(sign) AS n, sum(sign * amount) AS total FROM (
        SELECT product, amount, {_SIGN} AS sign FROM {_FEED} WHERE kind = 'order'
        UNION ALL SELECT product, amount, {_SIGN} FROM table_changes('orders_abroad', {{since_abroad}}, {{upto_abroad}}))
      GROUP BY product) s ON t.product = s.product {_ADD}""",
    "latest": f"""
    MERGE INTO {{table}} t USING (
      SELECT * EXCEPT (nth) FROM (
        SELECT e.*, row_number() OVER (PARTITION BY e.user_id ORDER BY at DESC, event DESC) AS nth
        FROM events e LEFT SEMI JOIN {_FEED} c ON e.user_id = c.user_id) WHERE nth = 1) s ON t.user_id = s.user_id
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *""",
    "users per day": f"""
    MERGE INTO {{table}} t USING (
      SELECT e.day, count(DISTINCT e.user_id) AS users FROM events e LEFT SEMI JOIN {_FEED} c ON e.day = c.day GROUP BY e.day) s
    ON t.day = s.day
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *""",
}


def merge(shape: str, table: str, versions: dict[str, int]) -> str | None:
    """Return the MERGE that brings `table` to the newest versions, or None where nobody writes one.

    `versions` holds, for `events` and `orders_abroad`, the first version that is new (`since...`) and the newest one (`upto...`).
    """
    known = _MERGES.get(shape)
    return None if known is None else known.format(table=table, **versions)
