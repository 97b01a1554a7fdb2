"""Seeded streams for the core's benchmark, operators over them, and their results computed without windowpane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator, Call
from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Emissions, Frame, Rows, Watermark
from windowpane.core.graph import Graph
from windowpane.core.operators.base import IN, Operator

Int64s = npt.NDArray[np.int64]

SECOND_US = 1_000_000
KEY, VALUE = "_k0", "_a1_0"
CALLS = (Call("_a0", "count"), Call("_a1", "sum", (VALUE,)), Call("_a2", "max", (VALUE,)))
RESULTS = [c.WINDOW_START, KEY, "_a0", "_a1", "_a2"]
AGGREGATES = [([], "count_all"), (VALUE, "sum"), (VALUE, "max")]
"""What CALLS are to pyarrow's group_by."""


@dataclass(frozen=True)
class MicroBatch:
    """Rows, and the watermark that follows them."""

    rows: pa.RecordBatch
    watermark_us: int


def row_batch(ts: Int64s, keys: pa.Array | Int64s, values: Int64s, first_arrival: int = 0) -> pa.RecordBatch:
    arrival = np.arange(first_arrival, first_arrival + len(ts))
    return pa.RecordBatch.from_pydict({c.EVENT_TIME: ts, c.ARRIVAL: arrival, KEY: keys, VALUE: values})


def stream(batches: int, rows: int, keys: int, *, span_us: int, lag_us: int, seed: int = 7) -> list[MicroBatch]:
    """Micro-batches of `span_us` each, of random keys. Rows are out of order by up to `lag_us`, and so none is late."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(batches):
        in_order = np.linspace(number * span_us, (number + 1) * span_us, rows, endpoint=False).astype(np.int64)
        ts = in_order - random.integers(0, lag_us, rows)
        batch = row_batch(ts, random.integers(0, keys, rows), random.integers(-1000, 1000, rows), number * rows)
        made.append(MicroBatch(batch, (number + 1) * span_us - lag_us - 1))
    return made


def with_text_keys(batches: Sequence[MicroBatch]) -> list[MicroBatch]:
    """The same stream with keys such as `customer-000042`."""
    names = pa.array([f"customer-{number:06}" for number in range(_largest_key(batches) + 1)])
    index = batches[0].rows.schema.get_field_index(KEY)
    return [
        MicroBatch(each.rows.set_column(index, KEY, names.take(each.rows.column(KEY))), each.watermark_us)
        for each in batches
    ]


def _largest_key(batches: Sequence[MicroBatch]) -> int:
    return max(int(each.rows.column(KEY).to_numpy().max()) for each in batches)


def aggregator_for(rows: pa.RecordBatch, calls: Sequence[Call] = CALLS, keys: Sequence[str] = (KEY,)) -> Aggregator:
    return Aggregator(calls, keys, rows.schema)


class Pipeline:
    """Operators in a row, as hosts run them, without the account (which starts at the intake)."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self.operators = operators
        self._graph = Graph.linear(operators)

    def push(self, frames: Iterable[Frame]) -> list[pa.RecordBatch]:
        """The emissions that follow from the frames."""
        given = self._graph.feed(IN, frames)
        return [each.frame.batch for each in given if isinstance(each.frame, Emissions)]

    def step(self, batch: MicroBatch) -> list[pa.RecordBatch]:
        """One micro-batch: its rows, then time moves."""
        return self.push([Clock(0), Rows(batch.rows), Watermark(batch.watermark_us), BatchEnd()])

    def end(self) -> list[pa.RecordBatch]:
        return self.push([Clock(0), ControlSignal.END])

    def run(self, batches: Iterable[MicroBatch]) -> pa.Table:
        """All results of a stream, from its first row to its graceful end."""
        emitted = [result for batch in batches for result in self.step(batch)]
        return pa.Table.from_batches([*emitted, *self.end()])


def whole(batches: Sequence[MicroBatch]) -> pa.Table:
    return pa.Table.from_batches([each.rows for each in batches])


def by_window(rows: pa.Table, size_us: int, slide_us: int) -> pa.Table:
    """The expected results of aligned windows: pyarrow's group_by per slide, and again over the windows of each."""
    slides = pa.array(rows[c.EVENT_TIME].to_numpy() // slide_us * slide_us)
    partial = rows.append_column(c.WINDOW_START, slides).group_by([c.WINDOW_START, KEY]).aggregate(AGGREGATES)
    partial = partial.rename_columns(RESULTS)
    shifted = []
    for back in range(0, size_us, slide_us):
        starts = pa.array(partial[c.WINDOW_START].to_numpy() - back)
        shifted.append(partial.set_column(0, c.WINDOW_START, starts))
    merged = pa.concat_tables(shifted).group_by([c.WINDOW_START, KEY])
    return merged.aggregate([("_a0", "sum"), ("_a1", "sum"), ("_a2", "max")]).rename_columns(RESULTS)


def by_session(rows: pa.Table, gap_us: int) -> pa.Table:
    """The expected results of sessions: rows sorted by key and time, cut where a gap is."""
    ts, keys, values = (rows[name].to_numpy() for name in (c.EVENT_TIME, KEY, VALUE))
    order = np.lexsort((ts, keys))
    ts, keys, values = ts[order], keys[order], values[order]
    cut = np.flatnonzero((keys[1:] != keys[:-1]) | (ts[1:] - ts[:-1] >= gap_us)) + 1
    heads = np.concatenate([[0], cut])
    sizes = np.diff(np.append(heads, len(ts)))
    columns = [ts[heads], keys[heads], sizes, np.add.reduceat(values, heads), np.maximum.reduceat(values, heads)]
    return pa.table(dict(zip(RESULTS, columns, strict=True)))


def check_equal(found: pa.Table, expected: pa.Table, what: str) -> None:
    """Stop the benchmark unless the results are the same: no time is worth anything for a wrong result."""
    by = [(c.WINDOW_START, "ascending"), (KEY, "ascending")]
    left, right = (table.select(RESULTS).sort_by(by).combine_chunks() for table in (found, expected))
    if not left.cast(right.schema).equals(right):
        raise SystemExit(f"{what}: the results are wrong, no time was taken")
