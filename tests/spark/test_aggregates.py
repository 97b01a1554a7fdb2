"""Aggregates give what Spark gives: value and type, for groups with NULLs, NaN, one row, one value, and none."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from windowpane.core import accumulators
from windowpane.core.accumulators import resolve
from windowpane.sql.functions import SPARK_AGGREGATES
from windowpane.sql.types import from_arrow
from windowpane.testing import Harness

pytestmark = pytest.mark.spark

SCHEMA = "ts BIGINT, g STRING, i INT, l BIGINT, x DOUBLE, y DOUBLE, d DECIMAL(7,2), s STRING, b BOOLEAN"
ROWS: list[tuple[Any, ...]] = [
    ("plain", 1, 10, 1.0, 2.0, "1.50", "a", True),
    ("plain", 2, 12, 2.0, 4.5, "2.50", "b", False),
    ("plain", 2, 7, 5.0, 4.0, "7.25", "b", True),
    ("plain", None, None, None, 3.0, None, None, None),
    ("plain", 9, 8, 0.25, None, "9.00", "c", None),
    ("nan", 3, 3, math.nan, 1.0, "0.01", "n", True),
    ("nan", -4, 5, 1.0, math.nan, "0.02", "n", True),
    ("nan", 6, -9, 2.0, 0.5, "0.03", "m", False),
    ("one", -7, 5, 1.5, -2.0, "3.00", "z", False),
    ("same", 5, 1, 0.1, 1.0, "4.00", "q", True),
    ("same", 5, 1, 0.1, 2.0, "4.00", "q", True),
    ("same", 5, 1, 0.1, 4.0, "4.00", "q", True),
    ("nulls", None, None, None, None, None, None, None),
]
PAIRS = (
    *("covar_samp", "covar_pop", "corr", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"),
    *("regr_slope", "regr_intercept", "regr_r2"),
)
WITHIN = (
    *("percentile_cont(0.3) {}", "percentile_cont(array(0.0, 0.6)) {}", "percentile_disc(0.3) {}"),
    *("percentile_disc(array(0.0, 0.5, 0.51, 1.0)) {}", "mode() {}", "listagg(s, '-') {}", "string_agg(s) {}"),
)
"""With a sort key without ties among the rows that count."""
CALLS = [
    *(f"{name}({args})" for name in PAIRS for args in ("y, x", "d, i")),
    *(f"{name}(DISTINCT i, l)" for name in PAIRS if resolve(name).takes_distinct),
    *(f"{name}({arg})" for name in ["skewness", "kurtosis", "var_samp", "stddev_pop"] for arg in ("i", "x", "d")),
    *(f"{name}({arg})" for name in ["bit_and", "bit_or", "bit_xor"] for arg in ("i", "l", "CAST(i AS TINYINT)")),
    *(f"mode({arg}, TRUE)" for arg in ("i", "d", "s", "b")),
    *(f"{name}(b)" for name in ["count_if", "any", "some", "every", "bool_and", "bool_or"]),
    *(call.format(f"WITHIN GROUP (ORDER BY {key})") for call in WITHIN for key in ("l", "l DESC")),
    *("listagg(s, ',') WITHIN GROUP (ORDER BY i DESC, l)", "listagg(s) WITHIN GROUP (ORDER BY y NULLS LAST, l)"),
    *("listagg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s DESC)", "listagg(i, NULL) WITHIN GROUP (ORDER BY l)"),
    *("listagg(i, '/') WITHIN GROUP (ORDER BY l) FILTER (WHERE b)", "listagg(b) WITHIN GROUP (ORDER BY l)"),
    *("max_by(s, l, 2)", "min_by(s, l, 10)", "max_by(i, x, 1)", "min_by(b, l, 3) FILTER (WHERE i > 1)"),
    *("approx_top_k(s, 1) FILTER (WHERE g <> 'nulls')", "approx_top_k(b, 1, 10) FILTER (WHERE b)"),
    *(f"histogram_numeric({arg}, {bins})" for arg in ("i", "l", "x", "d") for bins in (30,)),
    *("histogram_numeric(i, 2) FILTER (WHERE g IN ('one', 'same'))", "histogram_numeric(DISTINCT i, 50)"),
    *("skewness(DISTINCT i)", "bit_xor(DISTINCT i)", "kurtosis(i) FILTER (WHERE i > 1)", "corr(y, x) FILTER (WHERE b)"),
    *("min(x)", "max(x)", "sum(d)", "avg(d)", "avg(i)", "median(i)", "percentile(i, array(0.1, 0.5))", "count(i, x)"),
]


def test_aggregates_give_what_spark_gives(spark: SparkSession) -> None:
    rows = [(number, *row[:5], row[5] and Decimal(row[5]), *row[6:]) for number, row in enumerate(ROWS)]
    found = by_harness(rows)
    spark.createDataFrame(rows, SCHEMA).coalesce(1).createOrReplaceTempView("aggregated")
    # Spark's optimizer fails when listagg with an order stands beside the DISTINCT form of another aggregate.
    alone = [call for call in CALLS if call.startswith("listagg(DISTINCT")]
    distinct = [call for call in CALLS if "DISTINCT" in call and call not in alone]
    for calls in (alone, distinct, [call for call in CALLS if "DISTINCT" not in call]):
        expected = spark.sql(f"SELECT g, {listed(calls)} FROM aggregated GROUP BY g").toArrow()
        types = [from_arrow(expected.schema.field(name(call)).type) for call in calls]
        assert types == [from_arrow(found.schema.field(name(call)).type) for call in calls]
        ours = {row["g"]: row for row in found.to_pylist()}
        for row in expected.to_pylist():
            for call in calls:
                wanted, got = row[name(call)], ours[row["g"]][name(call)]
                assert same(got, wanted), f"{call} of {row['g']}: {got!r}, in Spark {wanted!r}"


def by_harness(rows: list[tuple[Any, ...]]) -> pa.Table:
    query = f"SELECT g, {listed(CALLS)} FROM s GROUP BY tumblingwindow('ss', 10), g"
    stream = {"schema": SCHEMA, "eventtime": {"column": "ts", "type": "unixtimestamp_ms"}}
    harness = Harness(query, streams={"s": stream}, options={"eventtime.enabled": True}, now=0)
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    harness.push([dict(zip(names, row, strict=True)) for row in rows])
    return harness.end().table


def name(call: str) -> str:
    return f"c{CALLS.index(call)}"


def listed(calls: list[str]) -> str:
    return ", ".join(f"{call} AS {name(call)}" for call in calls)


def same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(same(got[name], wanted[name]) for name in wanted)
    if isinstance(wanted, float) and isinstance(got, float):
        near = math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
        return near or (math.isnan(got) and math.isnan(wanted))
    return type(got) is type(wanted) and bool(got == wanted)


def test_the_list_of_aggregates_is_sparks(spark: SparkSession) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()
    listed, found = registry.listFunction().iterator(), set()
    while listed.hasNext():
        identifier = listed.next()
        if registry.lookupFunction(identifier).get().getGroup() == "agg_funcs":
            found.add(identifier.funcName())
    assert found == SPARK_AGGREGATES
    assert found.issuperset(accumulators.names())
