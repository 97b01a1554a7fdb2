"""Rows in segments: whatever is appended and dropped, the entries written hold just the rows that are left."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowpane.core import blob, segments
from windowpane.core.segments import SegmentedRows
from windowpane.core.state import EntryMap

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
        rows, entries, wanted, first = SegmentedRows(), EntryMap({}), list[int](), 0
        for added, dropped in asked:
            rows.append(batch_of(first, added))
            wanted = (wanted + list(range(first, first + added)))[dropped:]
            first += added
            rows.drop_first(min(dropped, len(rows)))
            assert numbers(rows) == wanted
            rows.save(entries)
            dead, rows, entries = rows.dead, SegmentedRows(), EntryMap(entries.merged())
            rows.load(entries, dead)
            assert numbers(rows) == wanted
            assert _stored(entries.merged()) <= 2 * len(wanted)


def _stored(entries: dict[str, bytes]) -> int:
    return sum(blob.unpack(data).batches["rows"].num_rows for data in entries.values())


def test_a_batch_writes_what_it_added() -> None:
    rows, stored = SegmentedRows(), dict[str, bytes]()

    def changes() -> dict[str, bytes | None]:
        entries = EntryMap(stored.copy())
        rows.save(entries)
        stored.update(entries.merged())
        return entries.changes

    rows.append(batch_of(0, segments.SEGMENT_ROWS))
    (first,) = changes()
    rows.append(batch_of(0, 10))
    (second,) = changes()
    assert [name.partition(segments.DIGEST)[0] for name in (first, second)] == ["0", "1"]
    rows.drop_first(10)
    assert changes() == {}
    rows.drop_first(segments.SEGMENT_ROWS - 10)
    assert changes() == {first: None}
