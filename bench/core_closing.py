"""What accumulators are for: windows that close at once, whatever they have seen, from a state that does not grow."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from core_pipelines import rows_kept, streaming
from core_streams import (
    AGGREGATES,
    KEY,
    SECOND_US,
    MicroBatch,
    Pipeline,
    by_window,
    check_equal,
    row_batch,
    stream,
    whole,
)
from figures import Figure, median_seconds, percentile, seconds

from windowpane.core.frames import BatchEnd, Clock, Frame, Rows, Watermark
from windowpane.core.state import EntryMap
from windowpane.core.windows import Tumbling

MILLION = 1_000_000
HOUR = Tumbling(3600 * SECOND_US)
REPEATS = 5


def recompute() -> Iterator[Figure]:
    """Closing a window of 100 K events from its accumulators, against aggregating the rows it would have kept."""
    batches = stream(1000, 100, 10, span_us=SECOND_US, lag_us=1)
    incremental, own = _close_seconds(streaming, batches), _close_seconds(rows_kept, batches)
    bare = median_seconds(lambda: whole(batches).group_by([KEY], use_threads=False).aggregate(AGGREGATES), REPEATS)
    note = (
        "one window, 100,000 events in 1,000 micro-batches, 10 groups, then closed: "
        f"{incremental * 1e6:.0f} µs from state, {own * 1e3:.1f} ms from rows kept, by the same engine"
    )
    yield Figure("incremental to recompute", own / incremental, "x", at_least=100, note=note)
    note = f"the same, against rows only concatenated and grouped by pyarrow, one thread: {bare * 1e3:.1f} ms"
    yield Figure("incremental to bare group_by", bare / incremental, "x", note=note)


def _close_seconds(build: Callable[[Tumbling, pa.RecordBatch], Pipeline], batches: Sequence[MicroBatch]) -> float:
    expected, samples = by_window(whole(batches), HOUR.size_us, HOUR.size_us), []
    for _ in range(REPEATS + 1):
        pipeline = build(HOUR, batches[0].rows)
        for batch in batches:
            _fill(pipeline, batch.rows)
        results, taken = _close(pipeline, HOUR.size_us)
        check_equal(pa.Table.from_batches(results), expected, "close")
        samples.append(taken)
    return statistics.median(samples[1:])


def close_latency(closes: int = 200, warm_up: int = 20, groups: int = 10_000) -> Iterator[Figure]:
    """The time from the watermark to the results of a window with many groups, after several micro-batches of rows."""
    random, size_us = np.random.default_rng(3), 10 * SECOND_US
    everyone = row_batch(np.zeros(groups, np.int64), np.arange(groups), np.ones(groups, np.int64))
    pipeline, samples = streaming(Tumbling(size_us), everyone), []
    for start in range(0, (closes + warm_up) * size_us, size_us):
        touched = [*(random.permutation(groups) for _ in range(3)), random.integers(0, groups, groups // 100)]
        for keys in touched:
            times = start + random.integers(0, size_us, len(keys))
            _fill(pipeline, row_batch(times, keys, random.integers(0, 9, len(keys))))
        results, taken = _close(pipeline, start + size_us)
        counted = results[0].column("_a0").to_numpy()
        if len(counted) != groups or counted.sum() != sum(map(len, touched)):
            raise SystemExit("close: the results are wrong")
        samples.append(taken * 1000)
    note = f"{closes} closes of a window of {groups:,} groups, each after four micro-batches"
    yield Figure("close 10 K groups, median", statistics.median(samples[warm_up:]), "ms", at_most=1, note=note)
    yield Figure("close 10 K groups, p99", percentile(samples[warm_up:], 0.99), "ms", at_most=1, note=note)


def _fill(pipeline: Pipeline, rows: pa.RecordBatch) -> None:
    pipeline.push([Clock(0), Rows(rows), BatchEnd()])


def _close(pipeline: Pipeline, watermark_us: int) -> tuple[list[pa.RecordBatch], float]:
    """The results of a micro-batch in which only time moves, and how long they took."""
    results: list[pa.RecordBatch] = []
    frames: list[Frame] = [Clock(0), Watermark(watermark_us), BatchEnd()]
    return results, seconds(lambda: results.extend(pipeline.push(frames)))


def state_sizes() -> Iterator[Figure]:
    sizes = {events: _state_bytes(events) for events in (10_000, 100_000, MILLION, 10 * MILLION)}
    for events, size in sizes.items():
        yield Figure(f"state after {events:,} events", size, "bytes", note="one window, 1 k groups, as it is stored")
    growth = max(sizes.values()) / min(sizes.values())
    yield Figure("state, largest to smallest", growth, "x", at_most=1.05, note="flat: by groups, not by events")


def _state_bytes(events: int) -> int:
    random, chunk = np.random.default_rng(events), min(events, MILLION)
    pipeline: Pipeline | None = None
    for first in range(0, events, chunk):
        ts = np.arange(first, first + chunk) * 100
        rows = row_batch(ts, np.arange(chunk) % 1000, random.integers(-1000, 1000, chunk), first)
        pipeline = pipeline or streaming(HOUR, rows)
        _fill(pipeline, rows)
    assert pipeline is not None
    entries = EntryMap({})
    for number, operator in enumerate(pipeline.operators):
        operator.save(entries.of_operator(number))
    return entries.size()
