"""The joins of the benchmark in the harness give what DuckDB gives for the same rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace

import duckdb
import pytest

from bench.nexmark.datasets import rates
from bench.nexmark.generator import COLUMNS, chunk
from bench.nexmark.queries import QUERIES
from windowpane.testing import Harness

pytestmark = pytest.mark.slow

ROWS, PER_SECOND = 1_600, 80


def _us(value: object) -> object:
    return round(value.timestamp() * 1_000_000) if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("name", ["window-join", "interval-join"])
def test_a_join_gives_the_rows_of_duckdb(name: str) -> None:
    query = QUERIES[name]
    shape = replace(query.shape, keys=20)
    tables = {
        stream: chunk(stream, replace(shape, per_second=int(PER_SECOND * share)), 0, int(ROWS * share))
        for stream, share in rates(query.streams).items()
    }
    time = {"column": "ts", "type": "timestamp"}
    harness = Harness(
        query.windowpane,
        streams={stream: {"schema": COLUMNS[stream], "eventtime": time} for stream in query.streams},
        options={"eventtime": {"enabled": True, "late_tolerance": "2s"}, "max_future_skew": "off"},
    )
    steps = [harness.push(table.to_pylist(), stream) for stream, table in tables.items()]
    rows = [row for step in (*steps, harness.end()) for row in step.rows]
    database = duckdb.connect()
    for stream, table in tables.items():
        database.register(stream, table)
    wanted = database.execute(f"SELECT {', '.join(query.columns)} FROM ({query.duckdb})").fetchall()
    assert Counter(tuple(_us(row[column]) for column in query.columns) for row in rows) == Counter(wanted)
    assert len(wanted) > 50
