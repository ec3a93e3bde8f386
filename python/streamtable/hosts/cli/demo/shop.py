"""The shop: its sources, what changes in them, the stream tables, and the MERGE that an expert writes for each of them.

These MERGEs rely on what the engine may not: order_id is unique, and customers and products do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHANGES", "SOURCES", "TABLES", "Table", "changes", "sources"]

CUSTOMERS_PER_ORDER, PRODUCTS = 50, 2000
FEATURES = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"


def _one_of(*words: str, by: str) -> str:
    quoted = ", ".join(f"'{word}'" for word in words)
    return f"element_at(array({quoted}), CAST(1 + pmod({by}, {len(words)}) AS INT))"


_COUNTRY = _one_of("Austria", "Brazil", "Canada", "Denmark", "France", "Ghana", "India", "Japan", by="hash(id, 3)")
_FIRST = _one_of("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ines", "Jon", by="hash(id, 4)")
_LAST = _one_of("Abel", "Berg", "Costa", "Diaz", "Evans", "Fox", "Gray", "Holm", "Ito", "Jung", by="hash(id, 5)")
_MADE_OF = _one_of("Oak", "Steel", "Linen", "Copper", "Walnut", "Wool", "Glass", "Cork", by="hash(id, 6)")
_THING = _one_of("chair", "lamp", "table", "kettle", "shelf", "vase", "clock", "bowl", "bench", "tray", by="hash(id, 7)")
_CATEGORY = _one_of("Furniture", "Lighting", "Kitchen", "Garden", "Textiles", "Toys", by="hash(id, 8)")
_STATUS = _one_of("placed", "paid", "shipped", "shipped", "shipped", "returned", by="hash(id, 9)")

SOURCES = {
    "products": f"""
        SELECT CAST(id AS INT) AS product_id, concat({_MADE_OF}, ' ', {_THING}) AS title, {_CATEGORY} AS category
        FROM range({PRODUCTS})""",
    "customers": f"""
        SELECT CAST(id AS INT) AS customer_id, concat({_FIRST}, ' ', {_LAST}) AS name, {_COUNTRY} AS country
        FROM range({{customers}})""",
    "orders": f"""
        SELECT id AS order_id, CAST(pmod(hash(id, 1), {{customers}}) AS INT) AS customer_id,
          CAST(pmod(hash(id, 2), {PRODUCTS}) AS INT) AS product_id,
          date_add(DATE'2026-01-01', CAST(id * 180 DIV {{rows}} AS INT)) AS ordered_on,
          CAST(5 + pmod(hash(id, 10), 40000) / 100 AS DECIMAL(12,2)) AS amount, {_STATUS} AS status
        FROM range({{first}}, {{last}})""",
}
"""Queries over numbers; an order comes later than those with smaller numbers."""

CHANGES = (
    ("new orders", f"INSERT INTO orders {SOURCES['orders']}"),
    (
        "orders came back",
        "UPDATE orders SET status = 'returned' WHERE order_id >= {last} - {rows} DIV 10 AND pmod(hash(order_id, {turn}), 100) = 0",
    ),
    ("orders cancelled", "DELETE FROM orders WHERE order_id >= {last} - {rows} DIV 10 AND pmod(hash(order_id, {turn}), 500) = 1"),
)
"""What one round commits, one after the other: a quarter of a percent of the orders is new, a tenth of it changes or goes."""

_FEED = "table_changes('orders', {since}, {upto})"
_SIGN = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"
_LATEST = f"""
    SELECT * EXCEPT (nth) FROM (
      SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY _commit_version DESC) AS nth
      FROM {_FEED} WHERE _change_type <> 'update_preimage') WHERE nth = 1"""


def _added(table: str, keys: str, join: str, money: str) -> str:
    """Return the MERGE of sums and counts by keys."""
    equal = " AND ".join(f"t.{key} = s.{key}" for key in keys.split(", "))
    return f"""
        MERGE INTO {table}_by_hand t USING (
          SELECT {keys}, sum({_SIGN}) AS orders, sum({_SIGN} * amount) AS {money}
          FROM {_FEED} {join} WHERE status <> 'returned' GROUP BY {keys}) s ON {equal}
        WHEN MATCHED AND t.orders + s.orders = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET orders = t.orders + s.orders, {money} = t.{money} + s.{money}
        WHEN NOT MATCHED AND s.orders > 0 THEN INSERT *"""


@dataclass(frozen=True)
class Table:
    """A stream table: its query, and the MERGE for the versions `since` to `upto` of `orders`."""

    name: str
    query: str
    merge: str


_DETAILS = "o.order_id, o.ordered_on, o.status, o.amount, c.name AS customer, c.country, p.title, p.category"
_JOINED = "JOIN customers c ON o.customer_id = c.customer_id JOIN products p ON o.product_id = p.product_id"

TABLES = (
    Table(
        "order_details",
        f"SELECT {_DETAILS} FROM orders o {_JOINED}",
        f"""
        MERGE INTO order_details_by_hand t USING (SELECT {_DETAILS}, o._change_type FROM ({_LATEST}) o {_JOINED}) s
        ON t.order_id = s.order_id
        WHEN MATCHED AND s._change_type = 'delete' THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND s._change_type <> 'delete' THEN INSERT *""",
    ),
    Table(
        "revenue_per_day",
        """SELECT ordered_on, category, count(*) AS orders, sum(amount) AS revenue
           FROM order_details WHERE status <> 'returned' GROUP BY ordered_on, category""",
        _added("revenue_per_day", "ordered_on, category", "JOIN products USING (product_id)", "revenue"),
    ),
    Table(
        "customer_totals",
        """SELECT customer_id, count(*) AS orders, sum(amount) AS spent
           FROM orders WHERE status <> 'returned' GROUP BY customer_id""",
        _added("customer_totals", "customer_id", "", "spent"),
    ),
)
"""In the order of who reads whom."""


def sources(rows: int) -> dict[str, str]:
    """Return the statements that make the sources, with so many orders."""
    sizes = {"rows": rows, "customers": _customers(rows), "first": 0, "last": rows}
    return {
        name: f"CREATE TABLE {name} USING delta TBLPROPERTIES ({FEATURES}) AS {query.format(**sizes)}"
        for name, query in SOURCES.items()
    }


def changes(rows: int, turn: int) -> list[tuple[str, str]]:
    """Return what is committed in a round, counted from 1: a title and a statement each."""
    each = max(rows // 400, 1)
    sizes = {"rows": rows, "customers": _customers(rows), "first": rows + (turn - 1) * each, "last": rows + turn * each}
    return [(title, statement.format(**sizes, turn=turn)) for title, statement in CHANGES]


def _customers(rows: int) -> int:
    return max(rows // CUSTOMERS_PER_ORDER, 10)
