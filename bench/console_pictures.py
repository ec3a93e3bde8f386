"""The pictures of the console in the README and the docs, taken by a browser: ./run bench console_pictures."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random

from playwright.sync_api import sync_playwright
from tests.unit import consoles
from tests.unit.consoles import CATALOG, answering, board_of, line, table

from streamtable.delta.tables import Size
from streamtable.observe.status import PublicationStatus, QueueStatus, Status, SubscriptionStatus
from streamtable.queue.consumers import Consumer
from streamtable.refresh.choose import Action

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
QUERY = """CREATE STREAM TABLE shop.revenue_per_region
SCHEDULE '5m'
AS SELECT region, date_trunc('DAY', ordered_at) AS day, sum(amount) AS revenue, count(*) AS orders
FROM shop.orders_clean JOIN shop.regions USING (region_id)
GROUP BY region, date_trunc('DAY', ordered_at)"""


def name(short: str) -> str:
    return f"{CATALOG}.{short}"


def shop() -> Status:
    """Return a shop as it could be: most of it is fresh."""
    random = Random(7)
    full = "81 % of the rows of shop.orders_clean changed: more than the share up to which a differential refresh is cheaper"
    lines = [line(5 * n + 1, took=300 + random.randrange(500)) for n in range(160)]
    lines[40] = line(201, Action.FULL, full, 4200)
    lines[90] = line(451, Action.FAILED, "the storage did not answer", 900)
    lines = [replace(each, record=replace(each.record, rows_inserted=random.randrange(400))) for each in lines]
    failed = [line(2, Action.FAILED, "[DIVIDE_BY_ZERO] Division by zero: visits is 0 for 3 products", 350), *lines[3:]]
    tables = [
        table("shop", "orders_clean", [name("shop.orders"), name("shop.customers")], history=lines),
        table("shop", "revenue_per_region", [name("shop.orders_clean"), name("shop.regions")], history=lines),
        table("shop", "revenue_per_customer", [name("shop.orders_clean")], history=lines),
        table("shop", "conversion", [name("shop.orders_clean"), name("web.visits")], history=failed),
        table("shop", "top_customers", [name("shop.revenue_per_customer")], late=25, history=lines[6:]),
        table("office", "forecast", [name("shop.revenue_per_region")], schedule="MANUAL", late=90, history=lines[20:]),
    ]
    tables = [replace(each, comment=None, expectations=()) for each in tables]
    tables[1] = replace(tables[1], statement=QUERY, comment="what each region earns, day by day", size=Size(48_210, 1_900_000))
    now = consoles.NOW
    return Status(
        now,
        tuple(tables),
        (
            QueueStatus(
                (CATALOG, "shop", "order_mails"),
                "CREATE QUEUE",
                (name("shop.orders_clean"),),
                (Consumer("mailer", 5, 3, now, now, now),),
                (),
            ),
        ),
        (PublicationStatus((CATALOG, "shop", "reports"), "CREATE PUBLICATION", (name("shop.revenue_per_region"),)),),
        (SubscriptionStatus((CATALOG, "branch", "from_shop"), "database=shop", True, (name("shop.reports"),), ()),),
    )


def main() -> None:
    """Take them."""
    PICTURES.mkdir(exist_ok=True)
    consoles.NOW = datetime.now(timezone.utc)
    status = shop()
    board, _ = board_of(status)
    with answering(board) as console, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 640})
        page.goto(console.link())
        page.click("a[aria-label*='shop.revenue_per_region']")
        page.wait_for_selector("#pane dl")
        page.screenshot(path=PICTURES / "console-graph.png")
        page.goto(f"{console.address}table?name={name('shop.revenue_per_region')}")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.screenshot(path=PICTURES / "console-table.png")
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(f"{console.address}table?name={name('shop.conversion')}")
        page.screenshot(path=PICTURES / "console-phone.png")
        browser.close()


if __name__ == "__main__":
    main()
