"""What windows over windows cost: rows to seconds, and the same with minutes and hours over the seconds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from core_streams import KEY, SECOND_US, VALUE, MicroBatch, stream
from figures import Figure, seconds

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, Clock, Emissions, Frame, Rows
from windowpane.core.graph import Graph
from windowpane.plan.operators import build_graph
from windowpane.testing import Harness

MILLION = 1_000_000
KEYS, BATCHES, WARM_UP, REPEATS = 1000, 13, 7, 5
PER_SECOND = """SELECT k, count(*) AS n, sum(v) AS total, max(v) AS most FROM s GROUP BY k
WINDOW TUMBLING (SIZE 1 SECOND) WATERMARK (LAG 1 SECOND)"""
OVER = """SELECT k, sum(n) AS n, sum(total) AS total, max(most) AS most FROM {below} GROUP BY k
WINDOW TUMBLING (SIZE 1 {unit})"""
ROLL_UP = f"""WITH seconds AS ({PER_SECOND}), minutes AS ({OVER.format(below="seconds", unit="MINUTE")})
{OVER.format(below="minutes", unit="HOUR")}"""


def rollup() -> Iterator[Figure]:
    """Seconds alone, then seconds, minutes and hours in one query."""
    for rows, goal in ((MILLION, 1.3), (MILLION // 10, None)):
        batches = stream(BATCHES, rows, KEYS, span_us=10 * SECOND_US, lag_us=SECOND_US, seed=7)
        _check(batches)
        alone, chained = _taken(PER_SECOND, batches), _taken(ROLL_UP, batches)
        note = f"{KEYS:,} keys, {rows:,} rows and 10 windows a micro-batch; {rows / alone / MILLION:.1f} M rows/s alone"
        yield Figure("1 s to 1 min to 1 h", chained / alone, "x of 1 s", at_most=goal, note=note)


def _graph(sql: str) -> Graph:
    stream = {"schema": "ts BIGINT, k BIGINT, v BIGINT", "eventtime": {"column": "ts", "type": "unixtimestamp_us"}}
    options = {"eventtime.enabled": True, "max_future_skew": "off"}
    plan = Harness(sql, streams={"s": stream}, options=options).plan
    return build_graph(plan.stages, {plan.stages.input.name: _rows(stream_batch()).schema})


def stream_batch() -> pa.RecordBatch:
    """Any batch of the stream, for its schema."""
    return stream(1, 1, 1, span_us=SECOND_US, lag_us=SECOND_US)[0].rows


def _rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as the source gives it."""
    partition = pa.DictionaryArray.from_arrays(np.zeros(batch.num_rows, np.int8), pa.array(["s/0"]))
    columns = {name: batch.column(name) for name in (c.EVENT_TIME, c.ARRIVAL, KEY, VALUE)}
    return pa.RecordBatch.from_pydict(columns | {c.SOURCE_PARTITION: partition})


def _step(graph: Graph, batch: MicroBatch) -> list[pa.RecordBatch]:
    (entry,) = graph.entries
    frames: list[Frame] = [Clock(0), Rows(_rows(batch.rows)), BatchEnd()]
    return [each.frame.batch for each in graph.feed(entry, frames) if isinstance(each.frame, Emissions)]


def _taken(sql: str, batches: Sequence[MicroBatch]) -> float:
    """Seconds for a micro-batch, once the state is full-grown: the median of several runs."""
    samples = []
    for _ in range(REPEATS):
        graph = _graph(sql)
        for batch in batches[:WARM_UP]:
            _step(graph, batch)
        samples.append(sum(seconds(partial(_step, graph, batch)) for batch in batches[WARM_UP:]))
    return statistics.median(samples) / (BATCHES - WARM_UP)


def _check(batches: Sequence[MicroBatch]) -> None:
    """The minutes that were closed hold the rows of their time."""
    sql = ROLL_UP.replace("1 HOUR", "1 MINUTE")
    graph = _graph(sql)
    found = pa.Table.from_batches([result for batch in batches for result in _step(graph, batch)])
    times = np.concatenate([batch.rows.column(c.EVENT_TIME).to_numpy() for batch in batches])
    ends = np.unique(found[c.WINDOW_END].to_numpy())
    expected = sum(int(((times >= end - 60 * SECOND_US) & (times < end)).sum()) for end in ends)
    if not len(ends) or int(np.sum(found["_a0"].to_numpy())) != expected:
        raise SystemExit("roll-up: the results are wrong, no time was taken")
