"""Every generator and every aggregate of Spark, by name, where rows come, change and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

GENERATORS = {
    "explode_outer(ar)": "v",
    "explode(m)": "key, value",
    "posexplode(ar)": "p, v",
    "posexplode_outer(ar)": "p, v",
    "inline(st)": "x, y",
    "inline_outer(st)": "x, y",
    "stack(2, id, 'one', size(ar), 'two')": "n, name",
    "json_tuple(j, 'a', 'b')": "a, b",
}

# Wrapped where the order of rows, which nobody promises, would show: in lists, in the last digits of moments, in the bytes of a sketch.
AGGREGATES = {
    "any": "any(b)",
    "any_value": "any_value(k)",
    "approx_count_distinct": "approx_count_distinct(v)",
    "approx_percentile": "approx_percentile(v, array(0.1, 0.5, 0.9))",
    "approx_top_k": "approx_top_k(k, 1)",
    "approx_top_k_accumulate": "approx_top_k_estimate(approx_top_k_accumulate(k), 1)",
    "array_agg": "array_sort(array_agg(v))",
    "avg": "avg(v)",
    "bit_and": "bit_and(v)",
    "bit_or": "bit_or(v)",
    "bit_xor": "bit_xor(v)",
    "bitmap_construct_agg": "hex(bitmap_construct_agg(bitmap_bit_position(v)))",
    "bool_and": "bool_and(b)",
    "bool_or": "bool_or(b)",
    "collect_list": "array_sort(collect_list(v))",
    "collect_set": "array_sort(collect_set(v))",
    "corr": "round(corr(v, w), 9)",
    "count": "count(v)",
    "count_if": "count_if(v > 2)",
    "count_min_sketch": "hex(count_min_sketch(v, 0.5D, 0.5D, 1))",
    "covar_pop": "round(covar_pop(v, w), 9)",
    "covar_samp": "round(covar_samp(v, w), 9)",
    "every": "every(b)",
    "first": "first(k)",
    "first_value": "first_value(k)",
    "histogram_numeric": "histogram_numeric(v, 50)",
    "hll_sketch_agg": "hll_sketch_estimate(hll_sketch_agg(v))",
    "kll_sketch_agg_bigint": "kll_sketch_get_n_bigint(kll_sketch_agg_bigint(v))",
    "kll_sketch_agg_double": "kll_sketch_get_n_double(kll_sketch_agg_double(CAST(v AS DOUBLE)))",
    "kll_sketch_agg_float": "kll_sketch_get_n_float(kll_sketch_agg_float(CAST(v AS FLOAT)))",
    "kurtosis": "round(kurtosis(v), 9)",
    "last": "last(k)",
    "last_value": "last_value(k)",
    "listagg": "listagg(s, ',') WITHIN GROUP (ORDER BY s)",
    "max": "max(s)",
    "max_by": "max_by(s, id)",
    "mean": "mean(w)",
    "median": "median(v)",
    "min": "min(s)",
    "min_by": "min_by(s, id)",
    "mode": "mode(v, true)",
    "percentile": "percentile(v, 0.3)",
    "percentile_approx": "percentile_approx(v, 0.5)",
    "percentile_cont": "percentile_cont(0.3) WITHIN GROUP (ORDER BY v)",
    "percentile_disc": "percentile_disc(0.3) WITHIN GROUP (ORDER BY v DESC)",
    "regr_avgx": "round(regr_avgx(v, w), 9)",
    "regr_avgy": "round(regr_avgy(v, w), 9)",
    "regr_count": "regr_count(v, w)",
    "regr_intercept": "round(regr_intercept(v, w), 9)",
    "regr_r2": "round(regr_r2(v, w), 9)",
    "regr_slope": "round(regr_slope(v, w), 9)",
    "regr_sxx": "round(regr_sxx(v, w), 9)",
    "regr_sxy": "round(regr_sxy(v, w), 9)",
    "regr_syy": "round(regr_syy(v, w), 9)",
    "skewness": "round(skewness(v), 9)",
    "some": "some(b)",
    "std": "round(std(v), 9)",
    "stddev": "round(stddev(v), 9)",
    "stddev_pop": "round(stddev_pop(w), 9)",
    "stddev_samp": "round(stddev_samp(w), 9)",
    "string_agg": "string_agg(DISTINCT s) WITHIN GROUP (ORDER BY s)",
    "sum": "sum(w)",
    "theta_sketch_agg": "theta_sketch_estimate(theta_sketch_agg(v))",
    "try_avg": "try_avg(w)",
    "try_sum": "try_sum(v)",
    "tuple_sketch_agg_double": "tuple_sketch_estimate_double(tuple_sketch_agg_double(v, CAST(w AS DOUBLE)))",
    "tuple_sketch_agg_integer": "tuple_sketch_estimate_integer(tuple_sketch_agg_integer(v, w))",
    "var_pop": "round(var_pop(w), 9)",
    "var_samp": "round(var_samp(w), 9)",
    "variance": "round(variance(w), 9)",
}
# Of sketches and bitmaps, which aggregates of the groups below make.
OF_STATES = {
    "approx_top_k_combine": "approx_top_k_estimate(approx_top_k_combine(top), 1)",
    "bitmap_and_agg": "hex(bitmap_and_agg(bits))",
    "bitmap_or_agg": "hex(bitmap_or_agg(bits))",
    "hll_union_agg": "hll_sketch_estimate(hll_union_agg(hll))",
    "kll_merge_agg_bigint": "kll_sketch_get_n_bigint(kll_merge_agg_bigint(longs))",
    "kll_merge_agg_double": "kll_sketch_get_n_double(kll_merge_agg_double(doubles))",
    "kll_merge_agg_float": "kll_sketch_get_n_float(kll_merge_agg_float(floats))",
    "theta_intersection_agg": "theta_sketch_estimate(theta_intersection_agg(theta))",
    "theta_union_agg": "theta_sketch_estimate(theta_union_agg(theta))",
    "tuple_intersection_agg_double": "tuple_sketch_estimate_double(tuple_intersection_agg_double(of_doubles))",
    "tuple_intersection_agg_integer": "tuple_sketch_estimate_integer(tuple_intersection_agg_integer(of_integers))",
    "tuple_union_agg_double": "tuple_sketch_estimate_double(tuple_union_agg_double(of_doubles))",
    "tuple_union_agg_integer": "tuple_sketch_estimate_integer(tuple_union_agg_integer(of_integers))",
}
STATES = """SELECT k, b, approx_top_k_accumulate(k) AS top, bitmap_construct_agg(bitmap_bit_position(v)) AS bits, hll_sketch_agg(v) AS hll,
    kll_sketch_agg_bigint(v) AS longs, kll_sketch_agg_double(CAST(v AS DOUBLE)) AS doubles, kll_sketch_agg_float(CAST(v AS FLOAT)) AS floats,
    theta_sketch_agg(v) AS theta, tuple_sketch_agg_double(v, CAST(w AS DOUBLE)) AS of_doubles, tuple_sketch_agg_integer(v, w) AS of_integers
    FROM t GROUP BY k, b"""
OF_LEVELS = {"grouping": "grouping(b)", "grouping_id": "grouping_id(k, b)"}
OF_METRIC_VIEWS = {"measure"}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        yield scenario


def test_every_generator_stays_exact(s: Scenario) -> None:
    s.source("t", "id INT, ar ARRAY<INT>, st ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, INT>, j STRING")
    row = """SELECT {0}, array({0}, NULL, 7), array(named_struct('x', {0}, 'y', 'a'), NULL), map('p', {0}, 'q', NULL), '{{"a": {0}, "b": "z"}}'"""
    s.spark.sql(f"INSERT INTO t {row.format(1)} UNION ALL {row.format(2)} UNION ALL SELECT 3, array(), NULL, map(), 'no json'")
    queries = {
        f"rows_{n}": f"SELECT t.id, e.* FROM t LATERAL VIEW {generator} e AS {names}"
        for n, (generator, names) in enumerate(GENERATORS.items())
    }
    queries["in_select"] = "SELECT id, posexplode_outer(m) AS (p, key, value) FROM t"
    queries["as_relation"] = "SELECT t.id, e.*, f.c0 FROM t, LATERAL inline_outer(t.st) e, LATERAL json_tuple(t.j, 'a') f"
    s.streams(queries)
    done = s.step(
        f"INSERT INTO t {row.format(4)}",
        "UPDATE t SET ar = NULL, st = array(), m = map('r', 5), j = '{\"b\": 8}' WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
    )
    assert all(each["rows_inserted"] and each["rows_deleted"] for each in done), done


def listed(calls: dict[str, str]) -> str:
    return ", ".join(f"{call} AS `{name}`" for name, call in calls.items())


def aggregates_of(spark: SparkSession) -> set[str]:
    """Return the names of Spark's own aggregates, as Spark tells them."""
    catalyst: Any = spark._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]
    registry = catalyst.analysis.FunctionRegistry.builtin()
    names = (row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())
    found = {name: registry.lookupFunction(catalyst.FunctionIdentifier(name)) for name in names}
    return {name for name, info in found.items() if info.isDefined() and info.get().getGroup() == "agg_funcs"}


def test_every_aggregate_stays_exact(s: Scenario) -> None:
    assert aggregates_of(s.spark) == {*AGGREGATES, *OF_STATES, *OF_LEVELS, *OF_METRIC_VIEWS}
    rows = "(1, 'a', 1, 10, true, 'x'), (2, 'a', 3, 30, false, 'y'), (3, 'a', 3, 20, true, 'x'), (4, 'b', 5, 50, NULL, NULL), (5, NULL, NULL, 7, true, 'z')"
    s.source("t", "id INT, k STRING, v INT, w INT, b BOOLEAN, s STRING", rows)
    s.stream("of_rows", f"SELECT k, {listed(AGGREGATES)} FROM t GROUP BY k")
    s.stream("of_all", f"SELECT {listed({name: AGGREGATES[name] for name in AGGREGATES if '(k' not in AGGREGATES[name]})} FROM t")
    s.stream("of_states", f"SELECT k, {listed(OF_STATES)} FROM ({STATES}) GROUP BY k")
    s.stream("of_levels", f"SELECT k, b, {listed(OF_LEVELS)}, count(*) AS n FROM t GROUP BY CUBE (k, b)")
    done = s.step(
        "INSERT INTO t VALUES (6, 'a', 2, 5, false, 'w'), (7, 'c', 9, 90, true, 'v')",
        "UPDATE t SET v = 4, s = NULL WHERE id = 3",
        "DELETE FROM t WHERE id IN (2, 4)",
        "UPDATE t SET k = 'c' WHERE id = 5",
    )
    assert all(each["rows_inserted"] and each["rows_deleted"] for each in done), done
