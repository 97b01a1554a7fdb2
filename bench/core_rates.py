"""How many rows a second the core takes, and how many sliding windows it gives."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from core_pipelines import sliding, streaming
from core_streams import (
    AGGREGATES,
    KEY,
    SECOND_US,
    VALUE,
    MicroBatch,
    by_session,
    by_window,
    check_equal,
    row_batch,
    stream,
    whole,
    with_text_keys,
)
from figures import Figure, median_seconds, seconds

from windowpane.core import columns as c
from windowpane.core.aggregation import Call
from windowpane.core.windows import Hopping, Session, Sliding, Tumbling

MILLION = 1_000_000
BATCHES, WARM_UP, REPEATS = 13, 7, 5
"""Micro-batches of 10 s. After seven a window of 60 s has been closed; rates are over the six that follow, in which
whatever is done once in a window's length is done once.
"""
TUMBLING, HOPPING, SESSION = Tumbling(10 * SECOND_US), Hopping(60 * SECOND_US, SECOND_US), Session(30_000)


def aligned_rates() -> Iterator[Figure]:
    """Rows a second through both halves of the streaming aggregation over tumbling and hopping windows."""
    batches = _stream(seed=7)
    for spec, slide_us in ((TUMBLING, TUMBLING.size_us), (HOPPING, HOPPING.slide_us)):
        expected = by_window(whole(batches), spec.size_us, slide_us)
        check_equal(streaming(spec, batches[0].rows).run(batches), expected, str(spec))
    limit, tumbling, hopping = _limit(batches[-1]), _rate(TUMBLING, batches), _rate(HOPPING, batches)
    text = _rate(TUMBLING, with_text_keys(batches))
    yield _rows("limit: pyarrow group_by", limit, None, "one thread, one micro-batch by (window, key), windows given")
    note = f"{tumbling / limit:.2f} of the limit; count, sum, max; 1 k keys; 1 M rows a batch; windows closed"
    yield _rows("tumbling 10 s", tumbling, 10, note)
    yield _rows("hop 60 s / 1 s", hopping, 10, f"{hopping / limit:.2f} of the limit; 10 windows closed a batch")
    yield Figure("tumbling to hop", tumbling / hopping, "x", at_most=1.5, note="what 60-fold overlap costs")
    yield _rows("tumbling 10 s, text keys", text, None, "the same stream, keys such as customer-000042")


def session_rate() -> Iterator[Figure]:
    batches = _stream(seed=11)
    expected = by_session(whole(batches), SESSION.gap_us)
    check_equal(streaming(SESSION, batches[0].rows).run(batches), expected, str(SESSION))
    note = "the same load, rows out of order; 20 rows a session, 50 k sessions closed a batch"
    yield _rows("session 30 ms", _rate(SESSION, batches), 3, note)


def sliding_rates() -> Iterator[Figure]:
    """Every row is a trigger with a window of its own, of the 1,000 rows up to it."""
    spacing_us, width = 100, 1000
    values = np.random.default_rng(5).integers(-1000, 1000, MILLION)
    rows = row_batch(np.arange(MILLION) * spacing_us, np.arange(MILLION) % 1000, values)
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    spec, per_key = Sliding((width - 1) * spacing_us), Sliding((width * 1000 - 1) * spacing_us)
    for function, goal, expected in (("sum", 5, windows.sum(axis=1)), ("min", 1, windows.min(axis=1))):
        found = _slide(spec, function, rows, per_key=False)[0].column("_a0").to_numpy()
        if not np.array_equal(found[width - 1 :], expected):
            raise SystemExit(f"sliding {function}: the results are wrong, no time was taken")
        taken = median_seconds(partial(_slide, spec, function, rows, per_key=False), REPEATS)
        yield _triggers(f"sliding {function}", taken, goal, "1,000 rows a window, over the stream")
    taken = median_seconds(partial(_slide, per_key, "sum", rows, per_key=True), REPEATS)
    yield _triggers("sliding sum per key", taken, None, "1 k keys, up to 1,000 rows a window")


def _stream(seed: int) -> list[MicroBatch]:
    return stream(BATCHES, MILLION, 1000, span_us=10 * SECOND_US, lag_us=SECOND_US, seed=seed)


def _rate(spec: Tumbling | Hopping | Session, batches: Sequence[MicroBatch]) -> float:
    """Rows a second, closing windows included, once the state is full-grown: the median of several runs."""
    samples = []
    for _ in range(REPEATS):
        pipeline = streaming(spec, batches[0].rows)
        for batch in batches[:WARM_UP]:
            pipeline.step(batch)
        samples.append(sum(seconds(partial(pipeline.step, batch)) for batch in batches[WARM_UP:]))
    return MILLION * (BATCHES - WARM_UP) / statistics.median(samples)


def _limit(batch: MicroBatch) -> float:
    slots = pa.array(batch.rows.column(c.EVENT_TIME).to_numpy() // TUMBLING.size_us)
    table = pa.Table.from_batches([batch.rows.append_column("slot", slots)])
    grouped = partial(table.group_by(["slot", KEY], use_threads=False).aggregate, AGGREGATES)
    return MILLION / median_seconds(grouped, 3 * REPEATS)


def _slide(spec: Sliding, function: str, rows: pa.RecordBatch, *, per_key: bool) -> list[pa.RecordBatch]:
    pipeline = sliding(spec, Call("_a0", function, (VALUE,)), rows, per_key=per_key)
    return pipeline.step(MicroBatch(rows, int(rows.column(c.EVENT_TIME)[-1].as_py())))


def _rows(name: str, per_second: float, goal: float | None, note: str) -> Figure:
    return Figure(name, per_second / MILLION, "M rows/s", at_least=goal, note=note)


def _triggers(name: str, taken: float, goal: float | None, note: str) -> Figure:
    return Figure(name, 1 / taken, "M windows/s", at_least=goal, note=note)
