"""Window functions whose frame runs up to the current row: what comes before the first change is not computed again."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario
from tests.versions import known

from streamtable.algebra.operators import Operator, Window
from streamtable.differentiate import running
from streamtable.differentiate.deltas import Deltas

FUNCTIONS = (
    "rank() OVER w AS rank, count(v) OVER w AS n, count(*) FILTER (WHERE v > 2) OVER w AS many, "
    "sum(v) OVER w AS total, sum(price) OVER w AS paid, min(price) OVER w AS least, max(name) OVER w AS last"
)
QUERIES = {
    "up": f"SELECT k, at, v, {FUNCTIONS} FROM l WINDOW w AS (PARTITION BY k ORDER BY at)",
    "up_nulls_last": f"SELECT k, at, v, {FUNCTIONS} FROM l WINDOW w AS (PARTITION BY k, v % 2 ORDER BY at NULLS LAST, v)",
    "down_nulls_first": f"SELECT k, at, v, {FUNCTIONS} FROM l WINDOW w AS (PARTITION BY k ORDER BY price DESC NULLS FIRST)",
    "of_all": f"SELECT k, at, v, {FUNCTIONS} FROM l WINDOW w AS (ORDER BY at)",
    "numbered": "SELECT *, row_number() OVER (ORDER BY k DESC, at, v, price, name, large) AS n FROM l",
    "of_groups": "SELECT k, n, sum(n) OVER (ORDER BY k) AS s FROM (SELECT k, CAST(count(*) AS INT) AS n FROM l GROUP BY k)",
}
"""All functions of these run; OTHERS are computed as a whole: sums that a part could overflow, frames that go on, first rows."""

OTHERS = {
    "large": "SELECT k, at, sum(large) OVER (PARTITION BY k ORDER BY at) AS s FROM l",
    "first_of_each": "SELECT * FROM l QUALIFY row_number() OVER (PARTITION BY k ORDER BY at DESC, v, price, name, large) = 1",
    "first_two": "SELECT * FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY v, name) AS n FROM l) WHERE n <= 2",
    "ahead": "SELECT k, at, lead(v) OVER (PARTITION BY k ORDER BY at, v) AS next FROM l",
}


def test_what_follows_the_first_change_is_exact(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    most, followed, rule = 2**63 - 1, list[int](), running.delta

    def counted(operator: Window, changed: Operator, deltas: Deltas) -> Operator:
        followed.append(len(operator.items))
        return rule(operator, changed, deltas)

    monkeypatch.setattr(running, "delta", counted)
    with Scenario(spark) as scenario:
        scenario.source("l", "k INT, at TIMESTAMP, v INT, price DECIMAL(10, 2), name STRING, large BIGINT")
        # By the number of days, with ties, NULLs and one row twice. The sum of `large` fits in no part, but in each frame.
        scenario.change(
            "INSERT INTO l SELECT id % 4, timestamp_millis(id DIV 2 * 86400000), id % 5, id % 7 / 4, concat('n', id % 6), 0 FROM range(40)",
            "INSERT INTO l VALUES (1, NULL, 7, NULL, NULL, 0), (NULL, NULL, NULL, NULL, NULL, 0), (NULL, timestamp_millis(0), 1, 1.5, 'n', 0)",
            f"INSERT INTO l VALUES (9, timestamp_millis(0), 1, 1, 'a', {-most}), (9, timestamp_millis(1), 1, 1, 'a', {most})",
        )
        for name, query in known(QUERIES | OTHERS).items():
            scenario.stream(name, query)
        followed.clear()  # what CREATE tried
        scenario.step(
            "INSERT INTO l VALUES (1, timestamp_millis(1900000000), 3, 2.5, 'z', 0), (9, timestamp_millis(2), 1, 1, 'a', 5)"
        )
        assert len(followed) == len(QUERIES)
        scenario.step(
            "DELETE FROM l WHERE k = 2 AND at >= timestamp_millis(1500000000)",
            "UPDATE l SET v = v + 1, price = price * 2 WHERE k = 3 AND at > timestamp_millis(700000000)",
            f"UPDATE l SET large = {most} WHERE large = 5",
            "INSERT INTO l VALUES (1, NULL, 2, 0, 'm', 0), (NULL, NULL, 3, NULL, 'm', 0), (7, NULL, NULL, 1, NULL, 0)",
            "INSERT INTO l SELECT * FROM l WHERE k = 0 AND at > timestamp_millis(900000000)",
        )
