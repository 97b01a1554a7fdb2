"""The schema that operators declare for their emissions is that of the emissions: every window, every aggregate."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from windowpane.core.accumulators.pairs import OF_BOTH, OF_ONE
from windowpane.core.accumulators.registry import _BUILT_IN, resolve
from windowpane.core.windows.base import KINDS
from windowpane.testing import Harness

STREAM = {
    "schema": "ts BIGINT, k STRING, v INT, l BIGINT, x DOUBLE, f FLOAT, c DECIMAL(10,2), b BOOLEAN, d DATE, "
    "t TIMESTAMP, a ARRAY<INT>, r STRUCT<y: INT>",
    "eventtime": {"column": "ts", "type": "unixtimestamp_ms"},
}  # fmt: skip
OPTIONS = {"eventtime.enabled": True}
WINDOWS = {
    "tumbling": ["TUMBLING (SIZE 10 ms)", "TUMBLING (SIZE 10 ms, OFFSET 3 ms)"],
    "hopping": ["HOPPING (SIZE 20 ms, SLIDE 10 ms)", "HOPPING (SIZE 7 ms, SLIDE 10 ms, OFFSET 3 ms)"],
    "cumulate": ["CUMULATE (STEP 10 ms, SIZE 20 ms)"],
    "session": ["SESSION (GAP 10 ms)"],
    "sliding": ["slidingwindow('ms', 5)", "slidingwindow('ms', 5, 3) OVER (PARTITION BY k WHEN v > 0)"],
    "count": ["countwindow(2)", "countwindow(2, 3) OVER (PARTITION BY k)"],
    "state": ["statewindow(v > 0)", "statewindow(v > 0, v > 1) OVER (PARTITION BY k)"],
}
NUMBERS = ("v", "l", "x", "f", "c")
CALLS: dict[str, list[str]] = {
    "count": ["count(*)", "count(k, v)", "count(DISTINCT k)", "count(*) FILTER (WHERE b)"],
    "count_if": ["count_if(b)"],
    "sum": [*(f"sum({name})" for name in NUMBERS), "sum(DISTINCT v)"],
    "avg": [f"avg({name})" for name in NUMBERS],
    "approx_count_distinct": ["approx_count_distinct(k)"],
    "approx_percentile": ["approx_percentile(x, 0.5)", "approx_percentile(v, 0.5, 100)"],
    "median": ["median(v)"],
    "percentile": ["percentile(v, 0.5)"],
    "min_by": ["min_by(k, v)"],
    "max_by": ["max_by(c, x)", "max_by(r, x, 2)"],
    "bool_and": ["bool_and(b)"],
    "bool_or": ["bool_or(b)"],
    "approx_top_k": ["approx_top_k(k)", "approx_top_k(c, 2, 10)"],
    "mode": ["mode(k)", "mode(c, TRUE)"],
    "histogram_numeric": ["histogram_numeric(v, 3)", "histogram_numeric(x, 2)", "histogram_numeric(t, 5)"],
    **{name: [f"{name}(v)", f"{name}(l)"] for name in ("bit_and", "bit_or", "bit_xor")},
    **{name: [f"{name}(x, c)"] for name in (*OF_BOTH, *OF_ONE, "regr_count", "regr_avgx", "regr_avgy")},
    "listagg": ["listagg(k)", "string_agg(v, ',') WITHIN GROUP (ORDER BY x DESC, k)"],
    **{name: [f"{name}(0.5) WITHIN GROUP (ORDER BY c DESC)"] for name in ("percentile_cont", "percentile_disc")},
    "skewness": ["skewness(v)"],
    "kurtosis": ["kurtosis(x)"],
    "collect_list": ["collect_list(d)", "collect_list(r)"],
    "collect_set": ["collect_set(t)"],
} | {
    name: [f"{name}({column})" for column in columns]
    for names, columns in (
        (("min", "max"), (*NUMBERS, "k", "b", "d", "t")),
        (("first", "last", "any_value"), (*NUMBERS, "k", "b", "d", "t", "a", "r")),
        (("var_samp", "var_pop", "stddev_samp", "stddev_pop"), NUMBERS),
    )
    for name in names
}  # fmt: skip
UNFUSED = frozenset(name for name in CALLS if not resolve(name).incremental)
"""Aggregates that need all rows of a window: one of them makes the whole query unfused."""
ROWS: list[dict[str, Any]] = [
    {"ts": 1003, "k": "a", "v": 1, "l": 2, "x": 1.5, "f": 2.5, "c": "1.25", "b": True, "d": "2024-01-01",
     "t": "2024-01-01T00:00:00Z", "a": [1], "r": {"y": 1}},
    {"ts": 1004, "k": "b", "v": 2},
    {"ts": 1005, "k": None, "v": 3},
]  # fmt: skip


def emitted(sql: str) -> tuple[pa.Schema, list[pa.Schema]]:
    """The declared schema, and those of real emissions: of the window that a row far ahead closes, and at the end."""
    harness = Harness(sql, streams={"s": STREAM}, options=OPTIONS, now=0)
    runner, inputs = harness._runner, harness._inputs
    first, second = (inputs.rows(harness._pushed(rows, "s", "0")) for rows in (ROWS, [ROWS[0] | {"ts": 5003}]))
    results = [runner.run_batch(0, {"input": [first]}), runner.run_batch(0, {"input": [second]}), runner.end(0)]
    (declared,) = (runner.graph.schemas({"input": first.schema})[name] for name in runner.graph.exits)
    return declared, [batch.schema for result in results for batches in result.emissions.values() for batch in batches]


def assert_declared(sql: str) -> None:
    declared, seen = emitted(sql)
    assert seen, sql
    assert all(schema.equals(declared) for schema in seen), f"{sql}\n{declared}\n\n{seen}"


def calls(*, fused: bool) -> str:
    chosen = [text for name, texts in CALLS.items() if not fused or name not in UNFUSED for text in texts]
    return ", ".join(f"{text} AS c{number}" for number, text in enumerate(chosen))


def windowed(select: str, window: str, keys: str = "") -> str:
    if "window(" in window:
        return f"SELECT {select} FROM s GROUP BY {window}{keys}"
    group = f" GROUP BY {keys.removeprefix(', ')}" if keys else ""
    return f"SELECT {select} FROM s{group} WINDOW {window}"


@pytest.mark.parametrize("window", [window for kind in WINDOWS.values() for window in kind])
def test_every_window(window: str) -> None:
    assert_declared(windowed("k, l, count(*) AS n, sum(c) AS t, first(r) AS f", window, ", k, l"))
    assert_declared(windowed("median(v) AS m, collect_list(r) AS c", window))
    assert_declared(windowed("k, v, a, r, window_start", window))


@pytest.mark.parametrize("fused", [True, False])
def test_every_aggregate(fused: bool) -> None:
    assert_declared(windowed(calls(fused=fused), "TUMBLING (SIZE 10 ms)"))


def test_rows_without_a_window() -> None:
    assert_declared("SELECT k, v + 1 AS w, a FROM s WHERE v > 0")


def test_updates_before_the_end() -> None:
    for window in ("TUMBLING (SIZE 10 s)", "SESSION (GAP 10 s)"):
        assert_declared(f"SELECT k, sum(v) AS t FROM s GROUP BY k WINDOW {window} EMIT ON UPDATE")


def test_nothing_is_left_out() -> None:
    assert set(WINDOWS) == set(KINDS)
    assert set(CALLS) == {function.name for function in _BUILT_IN}
