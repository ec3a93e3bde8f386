"""Publications, slots and subscriptions whose statement is killed, or whose disk fails."""

from __future__ import annotations

from tests.spark.cases.case import Case

PUBLICATION, SLOT = "CREATE PUBLICATION goods FOR TABLE sales", "CREATE REPLICATION SLOT kept FOR PUBLICATION goods"
SUBSCRIPTION = "CREATE SUBSCRIPTION copies.shelf CONNECTION 'database=shop' PUBLICATION goods WITH (slot_name = 'shelf')"
SUBSCRIBED = (PUBLICATION, SUBSCRIPTION)
BOTH = tuple(f"CREATE TABLE {schema}.parts (id INT) USING delta" for schema in ("shop", "copies"))
"""A table at the publisher and the subscriber."""
UNSUBSCRIBED = ("DROP SUBSCRIPTION copies.shelf", "DROP PUBLICATION goods")

REPLICATION = {
    "CREATE PUBLICATION": Case(PUBLICATION, finally_=("DROP PUBLICATION goods",)),
    "ALTER PUBLICATION": Case(
        "ALTER PUBLICATION goods SET (publish = 'insert')", before=(PUBLICATION,), finally_=("DROP PUBLICATION goods",)
    ),
    "RENAME PUBLICATION": Case(
        "ALTER PUBLICATION goods RENAME TO stock", before=(PUBLICATION,), finally_=("DROP PUBLICATION stock",)
    ),
    "DROP PUBLICATION": Case("DROP PUBLICATION goods", before=(PUBLICATION,)),
    "DROP PUBLICATIONS": Case("DROP PUBLICATION goods, more", before=(PUBLICATION, PUBLICATION.replace("goods", "more"))),
    "CREATE SLOT": Case(SLOT, before=(PUBLICATION,), finally_=("DROP REPLICATION SLOT kept", "DROP PUBLICATION goods")),
    "DROP SLOT": Case("DROP REPLICATION SLOT kept", before=(PUBLICATION, SLOT), finally_=("DROP PUBLICATION goods",)),
    "CREATE SUBSCRIPTION": Case(SUBSCRIPTION, before=(PUBLICATION,), finally_=UNSUBSCRIBED),
    "ALTER SUBSCRIPTION": Case(
        "ALTER SUBSCRIPTION copies.shelf SET (disable_on_error = true)", before=SUBSCRIBED, finally_=UNSUBSCRIBED
    ),
    "ALTER SUBSCRIPTION CONNECTION": Case(
        "ALTER SUBSCRIPTION copies.shelf CONNECTION 'database=spark_catalog.shop'",
        before=SUBSCRIBED,
        after=("SELECT connection, slot_name FROM subscriptions()",),
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION ENABLE": Case(
        "ALTER SUBSCRIPTION copies.shelf ENABLE",
        before=(*SUBSCRIBED, "ALTER SUBSCRIPTION copies.shelf DISABLE"),
        after=("SELECT name, enabled FROM subscriptions()",),
        finally_=UNSUBSCRIBED,
    ),
    "ALTER SUBSCRIPTION REFRESH": Case(
        "ALTER SUBSCRIPTION copies.shelf REFRESH PUBLICATION",
        before=(*SUBSCRIBED, *BOTH, "ALTER PUBLICATION goods ADD TABLE parts"),
        after=("SELECT `table`, state FROM subscription_tables()", "SELECT `table` FROM replication_slots()"),
        finally_=(*UNSUBSCRIBED, "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "ALTER SUBSCRIPTION ADD PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf ADD PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, "CREATE PUBLICATION more FOR TABLE parts"),
        after=("SELECT publications FROM subscriptions()", "SELECT `table`, state FROM subscription_tables()"),
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "ALTER SUBSCRIPTION SET PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf SET PUBLICATION more",
        before=(*SUBSCRIBED, *BOTH, "CREATE PUBLICATION more FOR TABLE parts"),
        after=("SELECT publications FROM subscriptions()", "SELECT `table`, state FROM subscription_tables()"),
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "ALTER SUBSCRIPTION DROP PUBLICATION": Case(
        "ALTER SUBSCRIPTION copies.shelf DROP PUBLICATION more",
        before=(
            *SUBSCRIBED,
            *BOTH,
            "CREATE PUBLICATION more FOR TABLE parts",
            "ALTER SUBSCRIPTION copies.shelf ADD PUBLICATION more",
        ),
        after=("SELECT publications FROM subscriptions()", "SELECT `table`, state FROM subscription_tables()"),
        finally_=(*UNSUBSCRIBED, "DROP PUBLICATION more", "DROP TABLE parts", "DROP TABLE copies.parts"),
    ),
    "RENAME SUBSCRIPTION": Case(
        "ALTER SUBSCRIPTION copies.shelf RENAME TO copies.shelves",
        before=SUBSCRIBED,
        finally_=("DROP SUBSCRIPTION copies.shelves", "DROP PUBLICATION goods"),
    ),
    "DROP SUBSCRIPTION": Case("DROP SUBSCRIPTION copies.shelf", before=SUBSCRIBED, finally_=("DROP PUBLICATION goods",)),
}
