"""An expression that fails makes its row an error row, whatever the function and wherever the expression stands.

Each expression fails for the one row that has its bad value and has a value for all others: a broad corpus in few
queries, one query for each place in which an expression can stand.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import Job, Outcome, Query, run_together
from windowpane.spark.envelope import fallible, install

pytestmark = pytest.mark.spark

SCHEMA = (
    "ts BIGINT, id INT, one STRING, s STRING, n STRING, b STRING, w STRING, u STRING, z STRING, e BINARY, "
    "i INT, j INT, k INT, l BIGINT, m BIGINT, d DOUBLE, a ARRAY<INT>"
)
GOOD: dict[str, Any] = {
    "one": "g", "s": "7", "n": "3", "b": "2024-01-01", "w": "Mon", "u": "a%20b", "z": "UTC", "i": 1, "j": 2, "k": 1,
    "l": 5, "m": 6, "d": 1.5, "a": [1, 2], "e": "NWrQ16X/ZBZBL7HoYkgSwg==",
}  # fmt: skip
CORPUS: list[tuple[str, dict[str, Any]]] = [
    ("s > 5", {"s": "x"}),
    ("n = i", {"n": "three"}),
    ("n IN (1, 2)", {"n": "three"}),
    ("year(b)", {"b": "when"}),
    ("floor(d)", {"d": 1e30}),
    ("floor(d / 10) * 10", {"d": 1e30}),  # its guard fails too
    ("timestamp_millis(l)", {"l": 2**62}),
    ("make_date(2024, j, 1)", {"j": 13}),
    ("make_timestamp(2024, j, 1, 0, 0, 0)", {"j": 13}),
    ("unix_timestamp(b, 'yyyy-MM-dd')", {"b": "when"}),
    ("next_day(DATE'2024-01-01', w)", {"w": "Never"}),
    ("url_decode(u)", {"u": "%zz"}),
    ("elt(k, 'a')", {"k": 7}),
    ("bround(m, -18)", {"m": 2**63 - 1}),
    ("length(aes_decrypt(e, '0000111122223333', 'ECB'))", {"e": "bm9uc2Vuc2U="}),
    ("m * 4", {"m": 2**63 - 1}),
    ("m / i", {"i": 0}),
    ("CAST(s AS INT)", {"s": "x"}),
    ("a[1]", {"a": [1]}),
    ("element_at(a, 2)", {"a": [1]}),
    ("to_date(b)", {"b": "when"}),
    ("aggregate(a, 0, (x, y) -> x + y)", {"a": [2**31 - 1, 2]}),
    ("date_add(DATE'2024-01-01', n)", {"n": "three"}),
    ("to_utc_timestamp(TIMESTAMP'2024-01-01 00:00:00', z)", {"z": "Nowhere"}),
    ("assert_true(i > 0) IS NULL", {"i": 0}),
]  # fmt: skip
EXPRESSIONS = [text for text, _ in CORPUS]
BAD = [dict(change) for change in {str(change): change for _, change in CORPUS}.values()]


def given() -> list[dict[str, Any]]:
    """Good rows first and last, and a bad one for each value that makes an expression fail."""
    rows = [GOOD, *({**GOOD, **change} for change in BAD), GOOD]
    return [{"ts": 1000, "id": number} | row for number, row in enumerate(rows)]


STREAM = {"s": SCHEMA}
COLUMNS = ("s", "n", "b", "w", "u", "z", "i", "j", "k", "l", "m", "d")
LATER = [text for text, change in CORPUS if set(change) <= set(COLUMNS)]
"""Expressions over columns that can be group keys."""


def places(expressions: list[str]) -> dict[str, Query]:
    """A query for each place in which the expressions can stand."""
    where = " AND ".join(f"isnotnull({text})" for text in expressions)
    arguments = ", ".join(f"max({text}) AS x{number}" for number, text in enumerate(expressions))
    columns = ", ".join(f"{text} AS x{number}" for number, text in enumerate(expressions))
    window = "GROUP BY tumblingwindow('ss', 10)"
    branches = f"SELECT {columns} FROM s UNION ALL SELECT {columns} FROM r"
    return {
        "where": Query(f"SELECT count(*) AS c FROM s WHERE {where} {window}", STREAM),
        "argument": Query(f"SELECT count(*) AS c, {arguments} FROM s {window}", STREAM),
        "key": Query(f"SELECT count(*) AS c FROM s {window}, {', '.join(expressions)}", STREAM),
        "filter": Query(f"SELECT count(*) FILTER (WHERE {where}) AS c FROM s {window}", STREAM),
        "branch": Query(f"SELECT count(*) AS c FROM ({branches}) AS u {window}", {"s": SCHEMA, "r": SCHEMA}),
    }


def jobs(folder: Path, queries: dict[str, Query]) -> list[Job]:
    return [Job(folder / name, query, shards=1).feed_all([given()]) for name, query in queries.items()]


def assert_all_bad_rows_are_error_rows(name: str, outcome: Outcome, rows: int = 2) -> None:
    found = [record["original_event"]["id"] for record in outcome.all_side if record["kind"] == "error"]
    assert sorted(found) == list(range(1, 1 + len(BAD))), name
    totals = outcome.entries[-1].totals
    assert (totals["in_"], totals["error"], totals["aggregated"]) == (len(BAD) + 2, len(BAD), rows), name
    assert [row["c"] for row in outcome.all_rows] == [rows], name


@pytest.mark.parametrize("config", [{}, {"spark.sql.codegen.wholeStage": "false"}])
def test_a_failing_expression_of_any_kind_is_an_error_row_at_every_place(
    spark: SparkSession, tmp_path: Path, config: dict[str, str]
) -> None:
    session = spark.newSession()
    for name, value in config.items():
        session.conf.set(name, value)
    queries = places(EXPRESSIONS)
    if config:
        queries = {"argument": queries["argument"]}
    outcomes = run_together(session, jobs(tmp_path, queries), drain=True)
    for name, outcome in zip(queries, outcomes, strict=True):
        assert_all_bad_rows_are_error_rows(name, outcome)
        reasons = Counter(record["reason"] for record in outcome.all_side)
        assert reasons["evaluation_error"] > 0
        assert reasons["division_by_zero"] == 1, reasons


def test_without_ansi_mode_nothing_stops_and_every_row_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    """Spark then gives NULL where most functions fail. Guards still find what they know, the envelope the rest."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    queries = places([text for text in EXPRESSIONS if not text.startswith("date_add")])  # a STRING is no number of days
    for name, outcome in zip(queries, run_together(session, jobs(tmp_path, queries), drain=True), strict=True):
        found = sorted(record["original_event"]["id"] for record in outcome.all_side if record["kind"] == "error")
        assert set(found) <= set(range(1, 1 + len(BAD))), name
        reasons = Counter(record["reason"] for record in outcome.all_side)
        assert {"division_by_zero", "overflow", "evaluation_error"} <= set(reasons), (name, reasons)
        totals = outcome.entries[-1].totals
        placed = sum(totals[fate] for fate in ("error", "filtered", "unmatched", "aggregated"))
        assert totals["in_"] == len(BAD) + 2 == placed, name
        assert totals["error"] == len(found), name


def test_results_that_fail_in_having_outputs_and_order(spark: SparkSession, tmp_path: Path) -> None:
    """Groups are rows here: each bad one is an error of its group, and the good ones come out."""
    grouped = f"FROM s GROUP BY tumblingwindow('ss', 10), id, {', '.join(COLUMNS)}"
    good = " AND ".join(f"isnotnull({text})" for text in LATER)
    outputs = ", ".join(f"{text} AS x{number}" for number, text in enumerate(LATER))
    queries = {
        "having": Query(f"SELECT id {grouped} HAVING {good}", STREAM),
        "output": Query(f"SELECT id, {outputs} {grouped}", STREAM),
        "order": Query(f"SELECT id {grouped} ORDER BY {', '.join(LATER)}", STREAM),
        "top": Query(f"SELECT id {grouped} ORDER BY {', '.join(LATER)} LIMIT 50", STREAM),
    }
    outcomes = run_together(spark, jobs(tmp_path, queries), drain=True)
    failing = [number for number, change in enumerate(BAD, 1) if set(change) <= set(COLUMNS)]
    for name, outcome in zip(queries, outcomes, strict=True):
        found = [record["group_key"]["id"] for record in outcome.all_side]
        assert sorted(found) == failing, name
        assert {record["kind"] for record in outcome.all_side} == {"error"}
        assert sorted(row["id"] for row in outcome.all_rows) == [
            number for number in range(len(BAD) + 2) if number not in failing
        ], name


TIMES: dict[str, dict[str, Any]] = {
    "timestamp_millis(l)": {"l": 2**62},
    "make_timestamp(1970, j, 1, 0, 0, 0)": {"j": 13},
}


def test_event_times_and_joins_that_fail(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"ts": 1000, "id": 0} | GOOD, {"ts": 1000, "id": 1} | GOOD]
    times: dict[str, tuple[Query, dict[str, Any]]] = {
        f"time{number}": (Query(f"SELECT count(*) AS c FROM s WINDOW TUMBLING (SIZE 10 s) ON {text}", STREAM), change)
        for number, (text, change) in enumerate(TIMES.items())
    }
    table = {"t": {"schema": "id BIGINT, x STRING", "rows": [{"id": 7, "x": "2"}, {"id": 8, "x": "x"}]}}
    joins = {
        "equal": "s.s = t.id", "computed": "CAST(s.s AS INT) = t.id", "pairs": "s.s = t.id AND s.n + t.id > 1",
    }  # fmt: skip
    joined: dict[str, tuple[Query, dict[str, Any]]] = {
        name: (
            Query(
                f"SELECT count(*) AS c FROM s JOIN t ON {on} GROUP BY tumblingwindow('ss', 10)", STREAM, tables=table
            ),
            {"n": "x"} if name == "pairs" else {"s": "x"},
        )
        for name, on in joins.items()
    }
    cases = times | joined
    made = [
        Job(tmp_path / name, query, shards=1).feed_all([[*rows, {"ts": 1000, "id": 2} | GOOD | change]])
        for name, (query, change) in cases.items()
    ]
    for name, outcome in zip(cases, run_together(spark, made, drain=True), strict=True):
        errors = [(record["original_event"]["id"], record["reason"]) for record in outcome.all_side]
        assert [number for number, _ in errors] == [2], (name, errors)
        assert errors[0][1] in ("event_time_parse", "cast_error", "overflow", "evaluation_error")
        assert [row["c"] for row in outcome.all_rows] == [2], name


def test_what_cannot_fail_has_no_envelope(spark: SparkSession) -> None:
    install(spark)
    frame = spark.createDataFrame([], "price BIGINT, i INT, d DOUBLE, s STRING, st STRUCT<x: INT>")
    safe = ["price > 0", "price > i", "d + d", "d > i", "s = 'a'", "st.x", "CASE WHEN i > 0 THEN s END", "upper(s)"]
    failing = ["s > 5", "i + i", "price / i", "CAST(s AS INT)", "CAST(price AS INT)", "floor(d)", "i IN (s)"]
    assert fallible(frame, [*safe, *failing]) == set(failing)
