"""What joins of streams cost: pairs of the same window, and pairs that are near in time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
from core_streams import SECOND_US
from figures import Figure, seconds

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, Clock, Emissions, Frame, Rows
from windowpane.core.graph import Graph
from windowpane.plan.operators import build_graph
from windowpane.testing import Harness

MILLION = 1_000_000
KEYS, ROWS, BATCHES, WARM_UP, REPEATS = 1000, 250_000, 6, 2, 3
"""Rows of both sides in a micro-batch; 2,000 of them per second of event time, so 10 per key, side and 10 s."""
SELECT = "SELECT o.k, o.v, a.v AS asked FROM o JOIN a ON o.k = a.k"
LAG = " WATERMARK (LAG 2 SECONDS)"
QUERIES = {
    "window join 10 s": (f"{SELECT} WINDOW TUMBLING (SIZE 10 SECONDS){LAG}", "o.ts // 10000000 = a.ts // 10000000"),
    "interval join 5 s": (f"{SELECT} AND a.ts BETWEEN o.ts - 5000000 AND o.ts + 5000000{LAG}",
                          "a.ts BETWEEN o.ts - 5000000 AND o.ts + 5000000"),
}  # fmt: skip
"""Each with the condition by which DuckDB finds the same pairs."""


def joins() -> Iterator[Figure]:
    """Rows of both sides per second, in micro-batches that give five pairs for each row."""
    batches = [_batch(number) for number in range(BATCHES)]
    for name, (sql, condition) in QUERIES.items():
        _check(sql, condition, batches)
        taken = _taken(sql, batches)
        note = f"{KEYS:,} keys, {ROWS:,} rows a micro-batch; {5 * ROWS / taken / MILLION:.1f} M pairs/s"
        yield Figure(name, ROWS / taken / MILLION, "M rows/s", note=note)


def _batch(number: int) -> list[pa.RecordBatch]:
    """A batch of each side, as the source gives it. Rows are out of order by up to two seconds."""
    random, count = np.random.default_rng(number), ROWS // 2
    found = []
    for right, stream in enumerate(("o", "a")):
        in_order = 10 * SECOND_US + number * count * 1000 + np.arange(count, dtype=np.int64) * 1000
        columns = {
            c.EVENT_TIME: in_order - random.integers(0, 2 * SECOND_US, count),
            c.ARRIVAL: np.arange(count) + (2 * number + right) * count,
            c.SOURCE_PARTITION: pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), pa.array([f"{stream}/0"])),
            c.RIGHT: np.full(count, right > 0),
            "_j0": random.integers(0, KEYS, count),
            "_v": random.integers(0, 10_000, count),
        }
        found.append(pa.RecordBatch.from_pydict(columns))
    return found


def _graph(sql: str) -> tuple[Graph, dict[str, str]]:
    """The operators, and the columns that they read of the rows."""
    stream = {"schema": "ts BIGINT, k BIGINT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_us"}}
    options = {"eventtime.enabled": True, "max_future_skew": "off"}
    plan = Harness(sql, streams={"o": stream, "a": stream}, options=options).plan
    source = plan.stages.input
    own = {column.name: "_j0" if column.expr.text.endswith("k") else "_v" for column in source.columns}
    names = {name: column for name, column in own.items() if name not in (c.RIGHT, "_j0")}
    return build_graph(plan.stages, {source.name: _rows(_batch(0)[0], names).schema}), names


def _rows(batch: pa.RecordBatch, names: dict[str, str]) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in batch.schema.names if name != "_v"}
    return pa.RecordBatch.from_pydict(columns | {name: batch.column(column) for name, column in names.items()})


def _step(graph: Graph, names: dict[str, str], batch: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    (entry,) = graph.entries
    frames: list[Frame] = [Clock(0), *(Rows(_rows(each, names)) for each in batch), BatchEnd()]
    return [each.frame.batch for each in graph.flow(entry, frames) if isinstance(each.frame, Emissions)]


def _taken(sql: str, batches: Sequence[Sequence[pa.RecordBatch]]) -> float:
    """Seconds for a micro-batch, once the state is full-grown: the median of several runs."""
    samples = []
    for _ in range(REPEATS):
        graph, names = _graph(sql)
        for batch in batches[:WARM_UP]:
            _step(graph, names, batch)
        samples.append(sum(seconds(partial(_step, graph, names, batch)) for batch in batches[WARM_UP:]))
    return statistics.median(samples) / (BATCHES - WARM_UP)


def _check(sql: str, condition: str, batches: Sequence[Sequence[pa.RecordBatch]]) -> None:
    """The pairs of two micro-batches, in number and sum, against DuckDB."""
    graph, names = _graph(sql)
    found = [result for batch in batches[:2] for result in _step(graph, names, batch)]
    until = int(min(each.column(c.EVENT_TIME).to_numpy().max() for each in batches[1])) - 2 * SECOND_US
    o, a = (pa.Table.from_batches([batch[side].select([c.EVENT_TIME, "_j0", "_v"]) for batch in batches[:2]])
            for side in (0, 1))  # fmt: skip
    renamed = {"o": o.rename_columns(["ts", "k", "v"]), "a": a.rename_columns(["ts", "k", "v"])}
    closed = f"o.ts // 10000000 < {until} // 10000000" if "WINDOW" in sql else "true"
    database = duckdb.connect()
    for name, table in renamed.items():
        database.register(name, table)
    wanted = database.sql(f"SELECT count(*) FROM o JOIN a ON o.k = a.k AND {condition} WHERE {closed}").fetchall()[0][0]
    if sum(each.num_rows for each in found) != wanted:
        raise SystemExit(f"{sql}: the results are wrong, no time was taken")
