"""Rows in segments: whatever is appended and dropped, the entries written hold just the rows that are left."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.core import blob, segments
from windowpane.core.segments import SegmentedRows

steps = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=12)
"""Rows to append, then rows to drop."""


def batch_of(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(first, first + count), pa.int64())})


def numbers(rows: SegmentedRows) -> list[int]:
    whole = rows.rows()
    return [] if whole is None else whole.column("n").to_pylist()


@given(steps, st.integers(1, 12))
def test_taken_up_after_every_step(asked: list[tuple[int, int]], segment_rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_ROWS", segment_rows)
        rows, entries, wanted, first = SegmentedRows(), dict[str, bytes](), list[int](), 0
        for added, dropped in asked:
            rows.append(batch_of(first, added))
            wanted = (wanted + list(range(first, first + added)))[dropped:]
            first += added
            rows.drop_first(min(dropped, len(rows)))
            assert numbers(rows) == wanted
            for name, data in rows.changed_entries().items():
                if data is None:
                    entries.pop(name, None)
                else:
                    entries[name] = data
            dead, rows = rows.dead, SegmentedRows()
            rows.load_entries(entries, dead)
            assert numbers(rows) == wanted
            assert _stored(entries) <= 2 * len(wanted)


def _stored(entries: dict[str, bytes]) -> int:
    return sum(blob.unpack(data).batches["rows"].num_rows for data in entries.values())


def test_a_batch_writes_what_it_added() -> None:
    rows = SegmentedRows()
    rows.append(batch_of(0, segments.SEGMENT_ROWS))
    (first,) = rows.changed_entries()
    rows.append(batch_of(0, 10))
    (second,) = rows.changed_entries()
    assert [name.partition(segments.DIGEST)[0] for name in (first, second)] == ["0", "1"]
    rows.drop_first(10)
    assert rows.changed_entries() == {}
    rows.drop_first(segments.SEGMENT_ROWS - 10)
    assert rows.changed_entries() == {first: None}
