"""Merging of segments: small ones as in a binary counter, and runs that overlap in time by levels, some rows at a time.

A row is rewritten a logarithmic number of times, and a micro-batch processes only a number of rows in proportion to
those that it added (or one segment's), so that none takes much longer than the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.rows import concat, in_time_order, int64s, joined

if TYPE_CHECKING:
    from windowpane.core.segmented_rows import SegmentedRows
    from windowpane.core.segments import Segment

FAN_IN = 8
"""So many runs of one level become one of the next."""


@dataclass
class Merge:
    """Runs of one level that become one, over many micro-batches."""

    target: int
    level: int
    sources: list[int]
    credit: int = 0
    """How many rows may be moved for those that came."""


def merge_small(kept: SegmentedRows, most: int) -> None:
    """Merge the last segments while the one before is not larger, up to `most` rows."""
    while (pair := _last_two(kept)) is not None and pair[0].count <= pair[1].count and _together(pair) <= most:
        rows = joined(kept.part(segment) for segment in pair)
        for segment in pair:
            kept.remove(segment)
        kept.add(in_time_order(rows), pair[0].run)


def _together(pair: tuple[Segment, Segment]) -> int:
    return pair[0].count + pair[1].count


def _last_two(kept: SegmentedRows) -> tuple[Segment, Segment] | None:
    """The last two segments, if they may become one: both of one run, or each a run alone that no merge has made."""
    busy = kept.merged_runs()
    free = [segment for segment in kept.segments if segment.run not in busy]
    if len(free) < 2:
        return None
    before, last = free[-2:]
    segments_of = Counter(segment.run for segment in free)
    alone = segments_of[before.run] == segments_of[last.run] == 1
    return (before, last) if last.run == before.run or (alone and not before.level) else None


def merge_runs(kept: SegmentedRows, step: int, added: int) -> None:
    """Merge runs that overlap, `step` rows at a time. The rows that were added pay for moving twice as many."""
    kept.merges += _begun(kept, step)
    for merge in list(kept.merges):
        merge.credit += 2 * added
        while merge.credit >= step and (members := _members(kept, merge)):
            merge.credit -= _merge_some(kept, merge, members, step)
        if not _members(kept, merge):
            kept.merges.remove(merge)


def _members(kept: SegmentedRows, merge: Merge) -> list[Segment]:
    return [segment for segment in kept.segments if segment.run in merge.sources]


def _begun(kept: SegmentedRows, step: int) -> list[Merge]:
    """New merges, for each level that has enough runs which are not being merged, or many with few rows."""
    busy, rows, runs = kept.merged_runs(), Counter[int](), dict[int, list[int]]()
    for segment in kept.segments:
        if segment.run not in busy and not rows[segment.run]:
            runs.setdefault(segment.level, []).append(segment.run)
        rows[segment.run] += segment.count
    begun, fresh = list[Merge](), kept.new_run()
    for level, same in runs.items():
        large = [run for run in same if rows[run] * 2 >= step]
        sources = large if len(large) >= FAN_IN else same if len(same) >= 3 * FAN_IN else []
        if sources:
            begun.append(Merge(fresh + len(begun), level + 1, sources[:FAN_IN]))
    return begun


def _merge_some(kept: SegmentedRows, merge: Merge, members: list[Segment], step: int) -> int:
    """Move the earliest rows of the sources, about `step`, to the end of the run that they become. Gives their number.

    Each source's earliest rows are in its first segment, its head.
    """
    heads = list({segment.run: segment for segment in reversed(members)}.values())
    first = min(heads, key=lambda head: head.last_us)
    if all(head is first or head.first_us > first.last_us for head in heads):
        _adopt(kept, first, merge)
        return 0
    last_us, parts = _earliest([kept.part(head, None, first.last_us) for head in heads], first.last_us, step)
    for head in heads:
        if head.first_us <= last_us:
            kept.advance(head, last_us + 1)
    moved = concat(part for part in parts if part.num_rows)
    if moved is not None:
        kept.add(in_time_order(moved), merge.target, merge.level)
    return step


def _adopt(kept: SegmentedRows, segment: Segment, merge: Merge) -> None:
    """A segment that overlaps with no other one becomes part of the run as it is."""
    kept.segments.remove(segment)
    segment.run, segment.level = merge.target, merge.level
    kept.segments.append(segment)


def _earliest(parts: list[pa.RecordBatch], last_us: int, step: int) -> tuple[int, list[pa.RecordBatch]]:
    """About `step` rows at the beginning of the parts, and the instant up to which they are."""
    times = [int64s(part, c.EVENT_TIME) for part in parts]
    ts = np.concatenate(times)
    if len(ts) > step:
        last_us = int(np.partition(ts, step - 1)[step - 1])
    return last_us, [
        part.slice(0, int(np.searchsorted(of_part, last_us, "right")))
        for part, of_part in zip(parts, times, strict=True)
    ]
