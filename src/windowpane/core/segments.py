"""Rows in segments: new rows are appended, old ones are dropped from the front, and each segment is written once.

For windows that keep rows over many micro-batches. A micro-batch writes only the rows that it added.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.rows import concat, plain
from windowpane.core.state import HEADER, StateEntries

DIGEST = "#"
"""Precedes the digest of the content in the name of an entry. The content under such a name never changes."""
SEGMENT_ROWS = 50_000
"""Rows are added to a segment until it has this many, so that small micro-batches do not leave many segments."""


@dataclass
class _Segment:
    number: int
    rows: pa.RecordBatch
    dead: int = 0
    """Rows at the front of the stored segment that are no longer needed."""
    entry: str | None = None
    """The name under which it is stored; None if it is not, or has changed since."""


class SegmentedRows:
    """Rows in one order; new ones come last, and those that come first are dropped first."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []
        self._dropped: list[str] = []
        self._next = 0
        self._whole: pa.RecordBatch | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._whole, batch = None, plain(batch)
        last = self._segments[-1] if self._segments else None
        if last is not None and last.rows.num_rows < SEGMENT_ROWS:
            whole = concat([last.rows, batch])
            assert whole is not None
            self._rewrite(last, whole)
            return
        self._segments.append(_Segment(self._next, batch))
        self._next += 1

    def rows(self) -> pa.RecordBatch | None:
        """All rows as one batch; None when there are none."""
        if self._whole is None:
            self._whole = concat(segment.rows for segment in self._segments)
        return self._whole

    def drop_first(self, count: int) -> None:
        """Drop this many rows from the front. A stored segment is written again when half of its rows are dead."""
        if count and self._whole is not None:
            self._whole = self._whole.slice(count) if count < self._whole.num_rows else None
        while count and self._segments:
            first = self._segments[0]
            if count >= first.rows.num_rows:
                count -= first.rows.num_rows
                self._forget_entry(self._segments.pop(0))
                continue
            first.rows, first.dead = first.rows.slice(count), first.dead + count
            if first.dead >= first.rows.num_rows or first.entry is None:
                self._rewrite(first, first.rows)
            return

    def _rewrite(self, segment: _Segment, rows: pa.RecordBatch) -> None:
        self._forget_entry(segment)
        segment.rows, segment.dead, segment.entry = rows, 0, None

    def _forget_entry(self, segment: _Segment) -> None:
        if segment.entry is not None:
            self._dropped.append(segment.entry)

    def clear(self) -> None:
        self.drop_first(len(self))

    def __len__(self) -> int:
        return sum(segment.rows.num_rows for segment in self._segments)

    @property
    def dead(self) -> int:
        """How many rows of the first entry to skip when it is loaded."""
        return self._segments[0].dead if self._segments else 0

    def save(self, entries: StateEntries) -> None:
        """Write the segments that are new, and remove those that are gone."""
        for name in self._dropped:
            entries.remove(name)
        for segment in self._segments:
            if segment.entry is None:
                data = blob.pack(blob.State({}, {"rows": segment.rows}))
                segment.entry = f"{segment.number}{DIGEST}{blake2b(data, digest_size=16).hexdigest()}"
                entries.write(segment.entry, data)
        self._dropped = []

    def load(self, entries: StateEntries, dead: int) -> None:
        found = {int(name.partition(DIGEST)[0]): name for name in entries.names() if name != HEADER}
        self._segments = [
            _Segment(number, blob.unpack(entries.read(name)).batches["rows"], entry=name)
            for number, name in sorted(found.items())
        ]
        self._dropped, self._whole, self._next = [], None, max(found, default=-1) + 1
        if dead:
            self._segments[0].rows, self._segments[0].dead = self._segments[0].rows.slice(dead), dead
