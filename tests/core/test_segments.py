"""Rows in segments: whatever is appended, taken out and dropped, just the rows that are left are there; few reads."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_state import Counting
from windowpane.core import columns as c
from windowpane.core import segmented_rows as segments
from windowpane.core.segmented_rows import SegmentedRows
from windowpane.core.state import EntryMap, Header, Times

steps = st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=9), st.integers(-1, 8)), max_size=14)
"""Times of rows to append, then by how much the instant moves on up to which rows are taken out."""


def batch_of(times: list[int], first: int = 0) -> pa.RecordBatch:
    arrivals = pa.array(range(first, first + len(times)), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), arrivals], [c.EVENT_TIME, c.ARRIVAL])


def pairs(batch: pa.RecordBatch | None) -> list[tuple[int, int]]:
    return [] if batch is None else list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def restarted(rows: SegmentedRows, entries: EntryMap) -> tuple[SegmentedRows, Counting]:
    """As a host does between micro-batches."""
    rows.save(entries)
    entries.write("", Header(tables=rows.tables()).pack(Times(0, None)))
    stored = Counting(entries.merged())
    _, header = Header.unpack(stored.merged()[""])
    stored.reads.clear()
    return SegmentedRows.loaded("rows", stored, header.tables), stored


@given(steps, st.integers(1, 12))
def test_taken_up_after_every_step(asked: list[tuple[list[int], int]], segment_rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_ROWS", segment_rows)
        patch.setattr(segments, "CHUNK_ROWS", 2 * segment_rows)
        rows, entries, wanted, first, floor = SegmentedRows("rows"), Counting({}), list[tuple[int, int]](), 0, -1
        for times, ahead in asked:
            rows.append(batch_of([floor + 1 + ts for ts in times], first))
            wanted = sorted(wanted + [(floor + 1 + ts, first + at) for at, ts in enumerate(times)])
            first += len(times)
            if ahead >= 0:
                floor += ahead
                taken = [pair for batch in rows.take(floor) for pair in pairs(batch)]
                assert taken == [pair for pair in wanted if pair[0] <= floor]
                wanted = wanted[len(taken) :]
            assert pairs(rows.ordered()) == wanted
            rows, entries = restarted(rows, entries)
            assert pairs(rows.ordered()) == wanted
            middle = [pair for pair in wanted if floor + 3 <= pair[0] <= floor + 9]
            assert pairs(rows.ordered(floor + 3, floor + 9)) == middle
            assert len(entries.merged()) - 1 == len(rows.segments)


def test_a_batch_writes_what_it_added_and_reads_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 100)
    rows, entries = SegmentedRows("rows"), Counting({})
    for batch in range(10):
        rows.append(batch_of(list(range(100 * batch, 100 * batch + 100))))
        rows, entries = restarted(rows, entries)
    before = set(entries.names())
    rows.append(batch_of(list(range(1000, 1010))))
    assert len(pairs(rows.ordered(150, 250))) == 101
    rows.drop_before(200)
    assert (len(entries.reads), len(rows)) == (2, 810)
    rows, entries = restarted(rows, entries)
    after = set(entries.names())
    assert (len(before - after), len(after - before)) == (2, 1)
    assert {name.partition(".")[0] for name in after - {""}} == {"rows"}


def test_rows_out_of_order_are_found_in_few_segments_and_no_batch_merges_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come up to 6,000 late, 50 a batch, and are taken out by time: those of 120 batches are kept."""
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 100)
    rng, rows, entries, reads, written = random.Random(3), SegmentedRows("rows"), Counting({}), [0], [0]
    for batch in range(300):
        rows.append(batch_of([50 * batch - rng.randrange(6_000) for _ in range(50)], 50 * batch))
        for _ in rows.take(50 * batch - 6_000):
            pass
        reads.append(len(entries.reads))
        before = set(entries.names())
        rows, entries = restarted(rows, entries)
        written.append(len(set(entries.names()) - before))
    assert len(rows.segments) > 60
    assert max(reads) <= 30, "of more than 60 that have such rows"
    assert max(written) <= 7
