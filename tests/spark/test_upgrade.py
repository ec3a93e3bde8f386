"""Tables of version 0.1.0 in place: accepted, refreshed from where they are, and altered by this version's statements."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, done, folder
from tests.spark.tampering import record
from tests.spark.test_schedule import TOTALS
from tests.spark.test_unknown_definitions import earlier

from streamtable.hosts.cli.doctor import _definitions

KNOWN = {
    *("sources", "arrangements", "base", "number", "fingerprint", "action", "exact", "probe", "at", "runs", "clock"),
    *("arrangement_ids", "rejected"),
}
"""The parts of a frontier in 0.1.0."""


def as_written(frontier: str) -> str:
    return json.dumps({key: value for key, value in json.loads(frontier).items() if key in KNOWN})


def test_tables_of_0_1_0_go_on_from_where_they_are(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE a SCHEDULE '1h' AS {TOTALS}")
    shop.sql("CREATE STREAM TABLE b AS SELECT sum(total) AS total FROM a")
    for name in ("a", "b"):
        record(folder(shop, name), as_written)
        earlier(shop, name)
    assert _definitions(shop, accept=True).ok
    shop.sql("INSERT INTO sales VALUES (7, 'x', 1)")
    assert [done(shop, f"REFRESH STREAM TABLE {name}")[0] for name in ("a", "b")] == ["DIFFERENTIAL"] * 2
    assert [row[3] for row in answer(shop, "SHOW REFRESH HISTORY FOR a")] == ["DIFFERENTIAL", "REINITIALIZE"]
    shop.sql("ALTER STREAM TABLE a SET SCHEDULE ON UPDATE")
    shop.sql("ALTER STREAM TABLE a SUSPEND")
    shop.sql("ALTER STREAM TABLE a RESUME")
    shop.sql("ALTER STREAM TABLE a ADD CONSTRAINT c EXPECT (total > 0)")
    shop.sql("ALTER STREAM TABLE a RENAME TO renamed")
    shop.sql("INSERT INTO sales VALUES (8, 'y', 2)")
    assert done(shop, "REFRESH STREAM TABLE b CASCADE")[0] == "DIFFERENTIAL"
    assert_exact(shop, "renamed", TOTALS)
    assert_exact(shop, "b", f"SELECT sum(total) AS total FROM ({TOTALS})")
    assert all(row[1] for row in answer(shop, "VERIFY STREAM TABLES"))
