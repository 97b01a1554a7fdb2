"""Every query of Nexmark that the benchmark has, in the harness: what DuckDB gives for the same rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

from bench.nexmark.datasets import rates, tables
from bench.nexmark.generator import COLUMNS, TABLE_COLUMNS, Stream, static_table
from bench.nexmark.queries import QUERIES
from bench.nexmark.query import Query
from windowpane.errors import WindowpaneError
from windowpane.testing import Harness

pytestmark = pytest.mark.slow

ROWS, PER_SECOND = 490, 20
COMPARED = [name for name, query in QUERIES.items() if name.startswith("q") and not query.clocked_s]
FEWER_KEYS = {"q8": 100, "q8-join": 100, "q4": 20, "q6": 2, "q9": 20, "q20": 20}
DAYS = {"q14", "q15", "q16", "q17"}
"""Their rows are minutes apart, so that there are several days."""


def rows_of(query: Query) -> dict[Stream, pa.Table]:
    shape = replace(query.shape, keys=FEWER_KEYS.get(query.name, 5), per_second=PER_SECOND)
    found = {
        stream: next(tables(stream, share, shape, 1, ROWS, flush=False))
        for stream, share in rates(query.streams).items()
    }
    return {stream: _slower(table) for stream, table in found.items()} if query.name in DAYS else found


def _slower(table: pa.Table) -> pa.Table:
    first_us = 1_700_000_000_000_000
    times = pa.array([first_us + (us - first_us) * 12_000 for us in table["ts"].cast("int64").to_pylist()])
    return table.set_column(table.column_names.index("ts"), "ts", times.cast(table.schema.field("ts").type))


def started(sql: str, query: Query) -> Harness:
    time = {"column": "ts", "type": "timestamp"}
    return Harness(
        sql,
        streams={stream: {"schema": COLUMNS[stream], "eventtime": time} for stream in query.streams},
        tables={
            table: {"schema": TABLE_COLUMNS[table], "rows": static_table(table).slice(0, 20).to_pylist()}
            for table in query.tables
        },
        options={"eventtime": {"enabled": True, "late_tolerance": "8h"}, "max_future_skew": "off"},
    )


def _us(value: object) -> object:
    return round(value.timestamp() * 1_000_000) if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("name", COMPARED)
def test_a_query_gives_the_rows_of_duckdb(name: str) -> None:
    query = QUERIES[name]
    rows = rows_of(query)
    harness = started(query.windowpane, query)
    steps = [harness.push(table.to_pylist(), stream) for stream, table in rows.items()]
    found = [row for step in (*steps, harness.end()) for row in step.rows]
    assert not [side for step in steps for side in step.side if side["kind"] in ("late", "error")]
    database = duckdb.connect()
    for stream, table in rows.items():
        database.register(stream, table)
    for table_name in query.tables:
        database.register(table_name, static_table(table_name).slice(0, 20))
    wanted = database.execute(f"SELECT {', '.join(query.columns)} FROM ({query.duckdb})").fetchall()
    assert Counter(tuple(_us(row[column]) for column in query.columns) for row in found) == Counter(wanted)
    assert len(wanted) >= 2


def test_nexmarks_numbers_are_all_there() -> None:
    numbers = {int(name.split("-")[0][1:]) for name in QUERIES if name.startswith("q")}
    assert numbers == {*range(4, 10), *range(11, 21)}


_SOLD = "auctions AS a JOIN bids AS b ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires"
_LATEST = "row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC)"
UNBOUNDED = {
    "q4": (f"SELECT a.category, max(b.price) AS final FROM {_SOLD} GROUP BY a.id, a.category", "NEEDS_WINDOW"),
    "q9": (
        f"SELECT a.id, row_number() OVER (PARTITION BY a.id ORDER BY b.price) AS r FROM {_SOLD}",
        "OVER_WITHOUT_WINDOW",
    ),
    "q17": ("SELECT auction, count(*) AS n FROM bids GROUP BY auction, date_format(ts, 'yyyy')", "NEEDS_WINDOW"),
    "q18": (f"SELECT price FROM (SELECT *, {_LATEST} AS place FROM bids) WHERE place <= 1", "OVER_WITHOUT_WINDOW"),
    "q20": ("SELECT b.price FROM bids AS b JOIN auctions AS a ON b.auction = a.id", "UNBOUNDED_JOIN"),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_nexmarks_own_form_without_a_bound_in_time_is_refused(name: str) -> None:
    sql, code = UNBOUNDED[name]
    with pytest.raises(WindowpaneError) as refused:
        started(sql, QUERIES[name])
    assert refused.value.code == code
