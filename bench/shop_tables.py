"""A shop: its tables, whose keys are scattered as a shop's are, what changes in them, and the queries that people maintain.

Per round the events change in three commits: 0.5 % new ones, 0.1 % updated, 0.02 % deleted. A few rows of the dimensions change
too.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["CHANGES", "SHAPES", "Shop"]

FEATURES = "'delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='true'"

_TABLES = {
    "events": (
        "event BIGINT, user_id INT, product INT, day DATE, at TIMESTAMP, kind STRING, amount DECIMAL(12,2), note STRING",
        """SELECT id AS event, CAST(pmod(hash(id), {users}) AS INT) AS user_id,
             CAST(pmod(hash(id, 1), {products}) AS INT) AS product,
             date_add(DATE'2026-01-01', CAST(pmod(hash(id, 2), 180) AS INT)) AS day,
             timestamp_seconds(1767225600 + pmod(hash(id, 2), 180) * 86400 + pmod(hash(id, 3), 86400)) AS at,
             element_at(array('view', 'cart', 'order', 'return'), CAST(1 + pmod(hash(id, 4), 4) AS INT)) AS kind,
             CAST(pmod(hash(id, 5), 100000) / 100 AS DECIMAL(12,2)) AS amount, concat('note ', id) AS note
           FROM range({first}, {last})""",
    ),
    "orders_abroad": (
        "event BIGINT, product INT, day DATE, amount DECIMAL(12,2)",
        """SELECT id AS event, CAST(pmod(hash(id, 1), {products}) AS INT) AS product,
             date_add(DATE'2026-01-01', CAST(pmod(hash(id, 2), 180) AS INT)) AS day,
             CAST(pmod(hash(id, 5), 100000) / 100 AS DECIMAL(12,2)) AS amount
           FROM range({first}, {last}) WHERE id % 10 = 0""",
    ),
}
_DIMENSIONS = {
    "users": "SELECT CAST(id AS INT) AS user_id, concat('user ', id) AS name, CAST(id % 200 AS INT) AS city FROM range({users})",
    "products": """SELECT CAST(id AS INT) AS product, concat('product ', id) AS title, CAST(id % 40 AS INT) AS category,
                     CAST(id % 90 AS INT) AS maker FROM range({products})""",
    "categories": "SELECT CAST(id AS INT) AS category, concat('category ', id) AS label FROM range(40)",
    "makers": "SELECT CAST(id AS INT) AS maker, concat('maker ', id) AS firm FROM range(90)",
    "cities": "SELECT CAST(id AS INT) AS city, concat('city ', id) AS place, CAST(id % 12 AS INT) AS country FROM range(200)",
    "prices": """SELECT CAST(id % {products} AS INT) AS product, CAST(pmod(hash(id), 9000) / 100 AS DECIMAL(8,2)) AS price,
                   timestamp_seconds(1767225600 + id * 37) AS since FROM range({products} * 10)""",
}

SHAPES = {
    "clean": """SELECT event, user_id, product, at, upper(kind) AS kind, CAST(amount AS DOUBLE) AS amount
        FROM events WHERE amount > 10""",
    "dedupe": """SELECT * EXCEPT (nth) FROM (
        SELECT *, row_number() OVER (PARTITION BY user_id, product, day ORDER BY at, event) AS nth FROM events) WHERE nth = 1""",
    "latest": """SELECT * EXCEPT (nth) FROM (
        SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY at DESC, event DESC) AS nth FROM events) WHERE nth = 1""",
    "latest max_by": "SELECT user_id, max(at) AS at, max_by(kind, struct(at, event)) AS kind FROM events GROUP BY user_id",
    "enriched": """SELECT e.event, e.day, e.amount, p.title, u.name
        FROM events e JOIN products p ON e.product = p.product JOIN users u ON e.user_id = u.user_id""",
    "enriched by 5": """SELECT e.event, e.amount, p.title, c.label, m.firm, u.name, t.place
        FROM events e JOIN products p ON e.product = p.product JOIN categories c ON p.category = c.category
        JOIN makers m ON p.maker = m.maker JOIN users u ON e.user_id = u.user_id JOIN cities t ON u.city = t.city""",
    "revenue": """SELECT e.day, p.category, count(*) AS n, sum(e.amount) AS total
        FROM events e JOIN products p ON e.product = p.product GROUP BY e.day, p.category""",
    "users per day": "SELECT day, count(DISTINCT user_id) AS users FROM events GROUP BY day",
    "users per month": "SELECT trunc(day, 'MM') AS month, count(DISTINCT user_id) AS users FROM events GROUP BY trunc(day, 'MM')",
    "totals": """SELECT u.user_id, u.name, coalesce(t.n, 0) AS n, t.total FROM users u
        LEFT JOIN (SELECT user_id, count(*) AS n, sum(amount) AS total FROM events GROUP BY user_id) t ON u.user_id = t.user_id""",
    "not exists": """SELECT e.event, e.user_id, e.amount FROM events e WHERE kind = 'order'
        AND NOT EXISTS (SELECT 1 FROM events r WHERE r.kind = 'return' AND r.user_id = e.user_id AND r.product = e.product)""",
    "exists in time": """SELECT e.event, e.user_id, e.at FROM events e WHERE kind = 'cart' AND EXISTS (
        SELECT 1 FROM events o WHERE o.kind = 'order' AND o.user_id = e.user_id AND o.at BETWEEN e.at AND e.at + INTERVAL 1 DAY)""",
    "top 100": "SELECT product, sum(amount) AS total FROM events GROUP BY product ORDER BY total DESC, product LIMIT 100",
    "sessions": """SELECT user_id, session_window.start AS start, count(*) AS n, sum(amount) AS total
        FROM events GROUP BY user_id, session_window(at, '2 hours')""",
    "balance": """SELECT event, user_id, sum(amount) OVER (PARTITION BY user_id ORDER BY at, event) AS balance FROM events
        WHERE kind IN ('order', 'return')""",
    "intervals": "SELECT product, price, since, lead(since) OVER (PARTITION BY product ORDER BY since) AS until FROM prices",
    "pivot": """SELECT day, sum(amount) FILTER (WHERE kind = 'order') AS ordered,
        sum(amount) FILTER (WHERE kind = 'return') AS back,
        count(*) FILTER (WHERE kind = 'view') AS views, count(*) AS n FROM events GROUP BY day""",
    "two feeds": """SELECT product, count(*) AS n, sum(amount) AS total FROM (
        SELECT product, amount FROM events WHERE kind = 'order' UNION ALL SELECT product, amount FROM orders_abroad)
        GROUP BY product""",
    "chain 1": "SELECT event, user_id, product, day, amount FROM events WHERE kind = 'order'",
    "chain 2": "SELECT c.*, p.category FROM chain_1 c JOIN products p ON c.product = p.product",
    "chain 3": "SELECT day, category, count(*) AS n, sum(amount) AS total FROM chain_2 GROUP BY day, category",
    "chain 4": "SELECT category, sum(total) AS total FROM chain_3 GROUP BY category ORDER BY total DESC LIMIT 10",
}
"""What is maintained; the links of the chain read each other, and the last three are recomputed from the table below."""

MIXED = (
    "INSERT INTO events {new}",
    "UPDATE events SET amount = amount + 1, kind = 'order' WHERE pmod(hash(event, {turn}), 1000) = 0",
    "DELETE FROM events WHERE pmod(hash(event, {turn}, 7), 5000) = 0",
    "UPDATE users SET name = concat(name, '!') WHERE user_id % 20000 = {turn}",
    "UPDATE products SET title = concat(title, '!') WHERE product % 1000 = {turn}",
    "INSERT INTO orders_abroad {abroad}",
    """INSERT INTO prices SELECT CAST(id AS INT), CAST({turn} + 1 AS DECIMAL(8,2)), timestamp_seconds(1900000000 + {turn})
       FROM range(50)""",
)
APPENDS = (MIXED[0], *MIXED[5:])
LATE = (
    "UPDATE events SET amount = amount + 1 WHERE day < DATE'2026-01-08' AND pmod(hash(event, {turn}), 20) = 0",
    "DELETE FROM events WHERE day < DATE'2026-01-08' AND pmod(hash(event, {turn}, 7), 200) = 0",
)
CHANGES = {"mixed": MIXED, "appends": APPENDS, "late": LATE}


class Shop:
    """The tables of a shop with so many events; `change` makes one round of changes."""

    def __init__(self, spark: SparkSession, events: int) -> None:
        self.spark, self.events, self._last, self._turn = spark, events, events, 0
        self._size = {"users": max(events // 40, 100), "products": max(events // 400, 60)}

    def load(self) -> None:
        """Create all tables."""
        for name, (columns, query) in _TABLES.items():
            self.spark.sql(f"CREATE TABLE {name} ({columns}) USING delta TBLPROPERTIES ({FEATURES})")
            self.spark.sql(f"INSERT INTO {name} {self._made(query, 0, self.events)}")
        for name, query in _DIMENSIONS.items():
            self.spark.sql(f"CREATE TABLE {name} USING delta TBLPROPERTIES ({FEATURES}) AS {query.format(**self._size)}")

    def change(self, kind: str) -> None:
        """Commit the next round of changes of a kind."""
        first, self._last, self._turn = self._last, self._last + self.events // 200, self._turn + 1
        new, abroad = (self._made(_TABLES[name][1], first, self._last) for name in ("events", "orders_abroad"))
        for statement in CHANGES[kind]:
            self.spark.sql(statement.format(turn=self._turn, new=new, abroad=abroad))

    def _made(self, query: str, first: int, last: int) -> str:
        return query.format(first=first, last=last, **self._size)
