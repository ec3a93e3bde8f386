"""Spans and lineage of real refreshes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

from streamtable.errors import RefreshError
from streamtable.refresh import lineage

QUERY = "SELECT s.region AS place, sum(s.amount * r.rate) AS total, count(*) AS n FROM sales s JOIN rates r USING (region) GROUP BY s.region"


def test_a_refresh_is_told_by_spans_and_events(shop: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, kept, provider = tmp_path / "events.jsonl", InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(lineage, "_client", lambda spark: lineage._connected(file.as_uri()))
    shop.sql("CREATE TABLE rates (region STRING, rate INT) USING delta")
    shop.sql("INSERT INTO rates VALUES ('north', 2)")
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    shop.sql("INSERT INTO rates VALUES ('south', 0)")
    shop.conf.set("spark.streamtable.traces", "true")
    try:
        shop.sql("REFRESH STREAM TABLE st")
        shop.conf.set("spark.streamtable.traces", "perhaps")
        shop.sql("INSERT INTO rates VALUES ('west', 0)")
        shop.sql("REFRESH STREAM TABLE st")
    finally:
        shop.conf.unset("spark.streamtable.traces")
    shop.sql(f"CREATE OR REPLACE STREAM TABLE st AS {QUERY} HAVING count(*) > 0")
    shop.sql("DROP TABLE rates")
    with pytest.raises(RefreshError):
        shop.sql("REFRESH STREAM TABLE st FULL")
    lineage._sender().submit(lambda: None).result(20)
    events: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"] * 4 + ["START", "FAIL"]
    for done in events[1:8:2]:
        assert done["job"]["name"] == "spark_catalog.shop.st"
        sources = {each["facets"]["symlinks"]["identifiers"][0]["name"]: each["name"] for each in done["inputs"]}
        fields = done["outputs"][0]["facets"]["columnLineage"]["fields"]
        found = {key: sorted((each["name"], each["field"]) for each in value["inputFields"]) for key, value in fields.items()}
        sales, rates = sources["spark_catalog.shop.sales"], sources["spark_catalog.shop.rates"]
        assert found == {"place": [(sales, "region")], "total": sorted([(sales, "amount"), (rates, "rate")])}
    assert "rates, which is gone" in events[-1]["run"]["facets"]["errorMessage"]["message"]
    spans = kept.get_finished_spans()
    assert {each.name.removeprefix("streamtable.") for each in spans} >= {"refresh", "analyse", "choose", "differential", "commit"}
    (whole,) = (each for each in spans if each.parent is None)
    assert dict(whole.attributes or {})["streamtable.action"] == "DIFFERENTIAL"
    shop.sql("DROP STREAM TABLE st")
