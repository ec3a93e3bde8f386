"""All cases: statements whose disk fails, or whose process is killed."""

from __future__ import annotations

from tests.spark.cases.queues import QUEUES
from tests.spark.cases.replication import REPLICATION
from tests.spark.cases.tables import OF_SPARK, TABLES

CASES = {**TABLES, **QUEUES, **REPLICATION}
KILLED = {**CASES, **OF_SPARK}
"""With commands of Spark's and Delta's, whose errors are theirs."""
