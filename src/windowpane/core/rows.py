"""Small operations on row batches that several operators need: selecting, ordering, gathering over micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
CHUNK_ROWS = 1_000_000
"""Rows that are folded at once. The more rows per fold, the fewer partial accumulators to merge."""


def int64s(batch: pa.RecordBatch, name: str) -> Int64s:
    """A column without NULLs as int64."""
    values: Int64s = batch.column(name).to_numpy(zero_copy_only=False)
    return values


def flags(batch: pa.RecordBatch, name: str) -> Bools:
    """A bool column as a mask in which NULL is false."""
    values: Bools = pc.fill_null(batch.column(name), False).to_numpy(zero_copy_only=False).astype(bool)
    return values


def select(batch: pa.RecordBatch, mask: Bools) -> pa.RecordBatch:
    """The rows where `mask` is true. Does not copy if all are."""
    return batch if mask.all() else batch.filter(pa.array(mask))


def take(batch: pa.RecordBatch, rows: Int64s) -> pa.RecordBatch:
    return batch.take(pa.array(rows))


def in_time_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows by (ts, arrival). Does not copy if they are in that order."""
    ts, arrival = int64s(batch, c.EVENT_TIME), int64s(batch, c.ARRIVAL)
    if ((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (arrival[1:] >= arrival[:-1]))).all():
        return batch
    return take(batch, time_order(ts, arrival))


def time_order(ts: Int64s, arrival: Int64s) -> Int64s:
    """Positions of rows by (ts, arrival), and by position where both are equal."""
    if not len(ts):
        return np.zeros(0, np.int64)
    (first_us, last_us), (low, high) = ((int(each.min()), int(each.max())) for each in (ts, arrival))
    width = high - low + 1
    if (last_us - first_us + 1) * width < 1 << 63:
        # Both in one number are sorted in half the time of two, if no number occurs twice.
        numbers = (ts - first_us) * width + (arrival - low)
        order = np.argsort(numbers)
        if (np.diff(numbers[order]) > 0).all():
            return order
    return np.lexsort((arrival, ts))


def concat(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The batches as one; None if there are none. Columns match by name, since older state may order them otherwise."""
    found = list(batches)
    if len(found) <= 1:
        return found[0] if found else None
    names = found[0].schema.names
    return pa.concat_batches([plain(batch if batch.schema.names == names else batch.select(names)) for batch in found])


def joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """As `concat`, of at least one batch."""
    whole = concat(batches)
    assert whole is not None
    return whole


def in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about CHUNK_ROWS."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
        if sum(part.num_rows for part in gathered) >= CHUNK_ROWS:
            yield joined(gathered)
            gathered = []
    if gathered:
        yield joined(gathered)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its dictionary columns decoded, because dictionaries differ between batches."""
    for index, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type):
            decoded = batch.column(index).dictionary_decode()
            batch = batch.set_column(index, pa.field(field.name, decoded.type), decoded)
    return batch


class RowBuffer:
    """Rows kept over micro-batches, in order of arrival."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._batches.append(plain(batch))

    def rows(self) -> pa.RecordBatch | None:
        """All rows as one batch; None if there are no rows."""
        whole = concat(self._batches)
        self._batches = [] if whole is None or not whole.num_rows else [whole]
        return whole if self._batches else None

    def replace(self, batch: pa.RecordBatch | None) -> None:
        self._batches = []
        if batch is not None:
            self.append(batch)

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def tables(self, name: str) -> dict[str, pa.RecordBatch]:
        """For an operator's header: the buffer under `name`, nothing if it is empty."""
        whole = self.rows()
        return {} if whole is None else {name: whole}
