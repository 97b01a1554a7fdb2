"""Summaries of segments: the accumulators of a segment's rows, for windows that contain all of the segment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import Aggregator
from windowpane.core.groups import Groups, group_rows
from windowpane.core.hashing import UInt64s, hash_rows
from windowpane.core.rows import Int64s, concat, take
from windowpane.core.segmented_rows import SegmentedRows
from windowpane.core.segments import Segment
from windowpane.core.windows.ranges import expand

SUMMARY_ROWS = 10_000
"""Segments with fewer rows have no summary: they are soon merged with others."""


class Summaries:
    """One state per partition and group of a segment, sorted by the hash of the partition."""

    def __init__(self, aggregator: Aggregator, partition_by: Sequence[str]) -> None:
        self._aggregator, self._partition_by = aggregator, tuple(partition_by)
        self._others = [name for name in partition_by if name not in aggregator.keys]

    def is_possible(self, segment: Segment) -> bool:
        return segment.name is not None and segment.is_whole and segment.count >= SUMMARY_ROWS

    def states(self, rows: SegmentedRows, segments: Sequence[Segment], partitions: UInt64s) -> pa.RecordBatch | None:
        """States of whole segments for the partitions with these hashes, and maybe for others too."""
        wanted = np.unique(partitions)
        return concat(self._lookup(self._of(rows, segment), wanted) for segment in segments)

    def hashes(self, rows: pa.RecordBatch) -> UInt64s:
        return hash_rows([rows.column(name) for name in self._partition_by], rows.num_rows)

    def merged(self, states: pa.RecordBatch, groups: Groups, first: Int64s) -> pa.RecordBatch:
        """States to states; `first` is some state of each group."""
        heads = take(states, first)
        return self._aggregator.merge_groups(states, groups, [heads.column(key) for key in self._aggregator.keys], [])

    def _of(self, rows: SegmentedRows, segment: Segment) -> pa.RecordBatch:
        found = rows.store.summary(segment)
        if found is None:
            found = self._made(rows.store.read(segment))
            rows.store.summarize(segment, found)
        return found

    def _made(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys = self._aggregator.keys
        groups, first = group_rows([rows.column(name) for name in (*self._others, *keys)], rows.num_rows)
        heads = take(rows, first)
        states = self._aggregator.fold_groups(rows, groups, [heads.column(key) for key in keys], [])
        for name in self._others:
            states = states.append_column(heads.schema.field(name), heads.column(name))
        hashes = self.hashes(heads)
        order = np.argsort(hashes, kind="stable")
        return take(states, order).append_column(c.HASH, pa.array(hashes[order]))

    @staticmethod
    def _lookup(summary: pa.RecordBatch, wanted: UInt64s) -> pa.RecordBatch:
        present = summary.column(c.HASH).to_numpy()
        low, high = np.searchsorted(present, wanted), np.searchsorted(present, wanted, side="right")
        found = summary.drop_columns([c.HASH])
        return found if (high - low).sum() == len(present) else take(found, expand(low, high)[1])
