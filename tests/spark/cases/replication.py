"""Publications, slots and subscriptions whose statement is killed, or whose disk fails."""

from __future__ import annotations

from tests.spark.cases.case import Case

PUBLICATION, SLOT = "CREATE PUBLICATION goods FOR TABLE sales", "CREATE REPLICATION SLOT kept FOR PUBLICATION goods"
SUBSCRIPTION = "CREATE SUBSCRIPTION copies.shelf CONNECTION 'database=shop' PUBLICATION goods WITH (slot_name = 'shelf')"
APPLY = "APPLY SUBSCRIPTION copies.shelf"
SUBSCRIBED = (PUBLICATION, SUBSCRIPTION)
BOTH = tuple(f"CREATE TABLE {schema}.parts (id INT) USING delta" for schema in ("shop", "copies"))
"""A table at the publisher and the subscriber."""
PARTS = "CREATE PUBLICATION more FOR TABLE parts"
UNPUBLISHED, UNSUBSCRIBED = ("DROP PUBLICATION goods",), ("DROP SUBSCRIPTION copies.shelf", "DROP PUBLICATION goods")
UNMADE, EMPTIED = ("DROP TABLE parts", "DROP TABLE copies.parts"), ("DELETE FROM copies.sales",)
GOODS = ("SELECT name, all_tables, tables, publish FROM publications()",)
SLOTS = ("SELECT slot, `table`, active, status FROM replication_slots()",)
LEFT = ("SELECT * FROM subscriptions()", "SELECT subscription, `table`, state, skip, error FROM subscription_tables()")
"""Of a subscription from which a table goes: the slot has that table until the next APPLY, or the next such statement."""
FOLLOWED = (*LEFT, *SLOTS)
COPIED = ("SELECT * FROM copies.sales", "SELECT subscription, `table`, stopped_at, error FROM subscription_tables()", *SLOTS)
"""A table has another state and another position once a second APPLY found nothing new."""

REPLICATION = {
    "CREATE PUBLICATION": Case(PUBLICATION, after=GOODS, finally_=UNPUBLISHED),
    "ALTER PUBLICATION": Case(
        "ALTER PUBLICATION goods SET (publish = 'insert')", before=(PUBLICATION,), after=GOODS, finally_=UNPUBLISHED
    ),
    "ALTER PUBLICATION ADD TABLE": Case(
        "ALTER PUBLICATION goods ADD TABLE parts",
        before=(PUBLICATION, *BOTH),
        after=GOODS,
        finally_=(*UNPUBLISHED, *UNMADE),
    ),
    "ALTER PUBLICATION SET TABLE": Case(
        "ALTER PUBLICATION goods SET TABLE parts",
        before=(PUBLICATION, *BOTH),
        after=GOODS,
        finally_=(*UNPUBLISHED, *UNMADE),
    ),
    "RENAME PUBLICATION": Case(
        "ALTER PUBLICATION goods RENAME TO stock",
        before=(PUBLICATION,),
        after=(*GOODS, "SHOW TBLPROPERTIES stock ('streamtable.name')"),
        finally_=("DROP PUBLICATION stock",),
    ),
    "DROP PUBLICATION": Case("DROP PUBLICATION goods", before=(PUBLICATION,), after=GOODS),
    "DROP PUBLICATIONS": Case(
        "DROP PUBLICATION goods, more", before=(PUBLICATION, PUBLICATION.replace("goods", "more")), after=GOODS
    ),
    "CREATE SLOT": Case(SLOT, before=(PUBLICATION,), after=SLOTS, finally_=("DROP REPLICATION SLOT kept", *UNPUBLISHED)),
    "DROP SLOT": Case("DROP REPLICATION SLOT kept", before=(PUBLICATION, SLOT), after=SLOTS, finally_=UNPUBLISHED),
    "CREATE SUBSCRIPTION": Case(SUBSCRIPTION, before=(PUBLICATION,), after=FOLLOWED, finally_=UNSUBSCRIBED),
    "CREATE SUBSCRIPTION WITHOUT COPY": Case(
        SUBSCRIPTION.replace("WITH (", "WITH (copy_data = false, "), before=(PUBLICATION,), after=FOLLOWED, finally_=UNSUBSCRIBED
    ),
    "APPLY COPY": Case(APPLY, before=SUBSCRIBED, after=COPIED, finally_=(*UNSUBSCRIBED, *EMPTIED)),
    "APPLY CHANGES": Case(
        APPLY,
        before=(*SUBSCRIBED, APPLY, "INSERT INTO sales VALUES (3, 30)"),
        after=COPIED,
        finally_=(*UNSUBSCRIBED, *EMPTIED, "DELETE FROM sales WHERE id = 3"),
    ),
    "ALTER SUBSCRIPTION": Case(
        "ALTER SUBSCRIPTION copies.shelf SET (disable_on_error = true)",
        before=SUBSCRIBED,
        after=FOLLOWED,
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION CONNECTION": Case(
        "ALTER SUBSCRIPTION copies.shelf CONNECTION 'database=spark_catalog.shop'",
        before=SUBSCRIBED,
        after=FOLLOWED,
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION ENABLE": Case(
        "ALTER SUBSCRIPTION copies.shelf ENABLE",
        before=(*SUBSCRIBED, "ALTER SUBSCRIPTION copies.shelf DISABLE"),
        after=FOLLOWED,
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION REFRESH": Case(
        "ALTER SUBSCRIPTION copies.shelf REFRESH PUBLICATION",
        before=(*SUBSCRIBED, *BOTH, "ALTER PUBLICATION goods ADD TABLE parts"),
        after=FOLLOWED,
        finally_=(*UNSUBSCRIBED, *UNMADE),
    ),
    "ALTER SUBSCRIPTION ADD PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf ADD PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, PARTS),
        after=FOLLOWED,
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", *UNMADE),
    ),
    "ALTER SUBSCRIPTION SET PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf SET PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, PARTS),
        after=LEFT,
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", *UNMADE),
    ),
    "ALTER SUBSCRIPTION DROP PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf DROP PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, PARTS, "ALTER SUBSCRIPTION copies.shelf ADD PUBLICATION more"),
        after=LEFT,
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", *UNMADE),
    ),
    "RENAME SUBSCRIPTION": Case(
        "ALTER SUBSCRIPTION copies.shelf RENAME TO copies.shelves",
        before=SUBSCRIBED,
        after=(*FOLLOWED, "SHOW TBLPROPERTIES copies.shelves ('streamtable.name')"),
        finally_=("DROP SUBSCRIPTION copies.shelves", *UNPUBLISHED),
    ),
    "DROP SUBSCRIPTION": Case("DROP SUBSCRIPTION copies.shelf", before=SUBSCRIBED, after=FOLLOWED, finally_=UNPUBLISHED),
}
