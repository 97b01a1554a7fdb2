"""Integers that travel narrowed come out as they went in, in fewer bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.core import blob
from windowpane.core.narrowing import MIN_ROWS, narrow, widen

LIMIT = 1 << 63


def _column(low: int, high: int, *, nulls: bool) -> pa.Array:
    """Integers from low to high, both among them, and some NULLs if asked for."""
    step = max(1, (high - low) // MIN_ROWS)
    values = [min(high, low + number * step) for number in range(MIN_ROWS)] + [high]
    return pa.array([None if nulls and number % 7 == 3 else value for number, value in enumerate(values)], pa.int64())


@given(
    low=st.integers(-LIMIT, LIMIT - 1),
    width=st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1]),
    nulls=st.booleans(),
)
def test_what_goes_in_comes_out(low: int, width: int, nulls: bool) -> None:
    batch = pa.RecordBatch.from_pydict({"n": _column(low, min(low + width, LIMIT - 1), nulls=nulls)})
    assert widen(narrow(batch)).equals(batch)


@pytest.mark.parametrize(
    ("high", "kind"),
    [(255, pa.uint8()), (256, pa.uint16()), (65_535, pa.uint16()), (65_536, pa.uint32()), (2**32, pa.int64())],
)
def test_as_few_bytes_as_the_range_needs(high: int, kind: pa.DataType) -> None:
    assert narrow(pa.RecordBatch.from_pydict({"n": _column(0, high, nulls=False)})).schema.field("n").type == kind


def test_other_types_and_small_batches_stay_as_they_are() -> None:
    other = pa.RecordBatch.from_pydict(
        {"f": pa.array(np.zeros(MIN_ROWS)), "s": pa.array(["ü"] * MIN_ROWS), "i": pa.array([1] * MIN_ROWS, pa.int32())}
    )
    small = pa.RecordBatch.from_pydict({"n": pa.array([1, 2, None], pa.int64())})
    nothing = pa.RecordBatch.from_pydict({"n": pa.nulls(MIN_ROWS, pa.int64())})
    for batch in (other, small, nothing):
        assert narrow(batch).equals(batch, check_metadata=True)


def test_a_blob_is_smaller_and_says_what_its_columns_were() -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array(np.arange(100_000) % 200)})
    packed = blob.pack(blob.State({}, {"run": batch}))
    assert len(packed) < batch.nbytes / 7
    assert blob.unpack(packed).batches["run"].equals(batch, check_metadata=True)


def test_blobs_without_narrowed_columns_are_read_too() -> None:
    packed = bytearray(blob.pack(blob.State({"a": 1}, {"run": pa.RecordBatch.from_pydict({"n": [1, 2]})})))
    packed[4:6] = (1).to_bytes(2, "little")
    assert blob.unpack(bytes(packed)).batches["run"].column("n").to_pylist() == [1, 2]
