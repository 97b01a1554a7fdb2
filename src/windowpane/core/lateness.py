"""A bounded sketch of lateness: how many rows of each source partition would be late under which lag.

A row is late if the watermark has passed its last chance: its own time, or the end of its last window. The sketch
counts rows by how far the watermark without any lag has passed it. A row at distance d is late if
`d >= lag + allowed_lateness`, so one sketch answers for every lag and every allowed lateness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.operators.aligned import AlignedPlan
from windowpane.core.rows import flags

Int64s = npt.NDArray[np.int64]

_MS, _S, _MIN, _H, _DAY = 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
BOUNDS_US: Int64s = np.array(
    [
        0, *(n * _MS for n in (1, 2, 5, 10, 20, 50)), *range(100 * _MS, 5 * _S, 100 * _MS),
        *range(5 * _S, 20 * _S, 500 * _MS), *range(20 * _S, 60 * _S, _S), *range(_MIN, 10 * _MIN, 10 * _S),
        *range(10 * _MIN, _H, _MIN), *range(_H, _DAY, 15 * _MIN), *range(_DAY, 31 * _DAY, _DAY),
        *(n * _DAY for n in (45, 60, 90, 180, 365, 3650)),
    ],
    np.int64,
)  # fmt: skip
"""Where the buckets begin: distances that people choose as lags, so that shares are exact for these."""
OTHERS = "others"
"""Stands for the partitions beyond MOST_PARTITIONS."""
MOST_PARTITIONS = 64
_PREFIX = "behind:"
"""What the names of tallies begin with, by which sketches travel from tasks to the driver."""
_JUDGED = -1
"""In place of a bucket: all rows that were judged."""


class LastChance(Protocol):
    """The instant that the watermark must reach for a row to be late, allowed lateness aside."""

    def safe_from_us(self, watermark_us: int) -> int:
        """The first event time that such a watermark leaves on time; all later ones are, too."""

    def behind_us(self, ts: Int64s, watermark_us: int) -> Int64s:
        """How far the watermark has passed the last chance of each row."""


@dataclass(frozen=True)
class RowChance:
    """Rows are judged one by one; those of a session have its gap."""

    grace_us: int = 0

    def safe_from_us(self, watermark_us: int) -> int:
        return watermark_us - self.grace_us + 1

    def behind_us(self, ts: Int64s, watermark_us: int) -> Int64s:
        return watermark_us - self.grace_us - ts


@dataclass(frozen=True)
class WindowChance:
    """Rows are late when the last of their windows is closed."""

    plan: AlignedPlan

    def safe_from_us(self, watermark_us: int) -> int:
        return self.plan.windows.open_from(watermark_us)

    def behind_us(self, ts: Int64s, watermark_us: int) -> Int64s:
        windows = self.plan.windows
        behind: Int64s = watermark_us - windows.bounds(windows.last_key(ts))[1]
        return np.where(windows.in_gap(ts), np.int64(-1), behind) if windows.has_gaps else behind


@dataclass(frozen=True)
class LatenessJudge:
    """How a transform judges rows. Sent to the workers."""

    chance: LastChance
    lag_us: int


@dataclass
class LatenessSketch:
    """Rows by source partition, and by bucket of `BOUNDS_US` those that some lag would make late."""

    judged: Counter[str] = field(default_factory=Counter)
    """All rows that had to be on time: neither filtered, unmatched nor unreadable."""
    behind: dict[str, Counter[int]] = field(default_factory=dict)

    def observe(self, rows: pa.RecordBatch, judge: LatenessJudge, watermark_us: int | None) -> None:
        """Add rows of the source. `watermark_us`: before the micro-batch; without one, no row can be late."""
        if not rows.num_rows:
            return
        kept = _kept(rows)
        places, buckets = _NONE, _NONE
        if watermark_us is not None:
            places, buckets = _passed(rows, kept, judge.chance, watermark_us + judge.lag_us)
        encoded = _partitions(rows)
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            self._add(names[0], rows.num_rows if kept is None else int(kept.sum()), buckets)
            return
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        counts = np.bincount(codes if kept is None else codes[kept], minlength=len(names))
        of_passed = codes[places]
        for code in np.flatnonzero(counts).tolist():
            self._add(names[code], int(counts[code]), buckets[of_passed == code])

    def _add(self, partition: str, judged: int, buckets: Int64s) -> None:
        self.judged[partition] += judged
        if len(buckets):
            counts = np.bincount(buckets)
            found = np.flatnonzero(counts)
            self.behind.setdefault(partition, Counter()).update(
                dict(zip(found.tolist(), counts[found].tolist(), strict=True))
            )

    def merge(self, other: LatenessSketch) -> None:
        self.judged.update(other.judged)
        for partition, counts in other.behind.items():
            self.behind.setdefault(partition, Counter()).update(counts)

    def partitions(self) -> list[str]:
        return sorted(self.judged)

    def late(self, threshold_us: int, partition: str | None = None) -> float:
        """How many rows are late if `lag + allowed_lateness` is `threshold_us`. Within a bucket, rows spread evenly."""
        chosen = self.behind.values() if partition is None else [self.behind.get(partition, Counter[int]())]
        bucket = int(np.searchsorted(BOUNDS_US, threshold_us, "right")) - 1
        total = 0.0
        for counts in chosen:
            total += sum(count for each, count in counts.items() if each > bucket)
            total += counts.get(bucket, 0) * _share_above(bucket, threshold_us)
        return total

    def rows(self, partition: str | None = None) -> int:
        return self.judged.total() if partition is None else self.judged[partition]

    def loses_nothing_us(self, partition: str | None = None) -> int:
        """The smallest bound from which on no row is late; 0 if none ever is."""
        chosen = self.behind.values() if partition is None else [self.behind.get(partition, Counter[int]())]
        last = max((max(counts, default=-1) for counts in chosen), default=-1)
        return int(BOUNDS_US[min(last + 1, len(BOUNDS_US) - 1)])

    def tallies(self) -> dict[str, int]:
        """The counts by name, which can be added up."""
        found = {f"{_PREFIX}{_JUDGED}:{partition}": count for partition, count in self.judged.items() if count}
        for partition, counts in self.behind.items():
            found |= {f"{_PREFIX}{bucket}:{partition}": count for bucket, count in counts.items()}
        return found

    @classmethod
    def of_tallies(cls, tallies: Mapping[str, int]) -> LatenessSketch:
        """What `tallies` gave; other names are ignored."""
        sketch = cls()
        for name, count in tallies.items():
            if name.startswith(_PREFIX):
                bucket, _, partition = name.removeprefix(_PREFIX).partition(":")
                sketch._count(partition, int(bucket), count)
        return sketch

    def _count(self, partition: str, bucket: int, count: int) -> None:
        if bucket == _JUDGED:
            self.judged[partition] += count
        else:
            self.behind.setdefault(partition, Counter())[bucket] += count

    def bounded(self) -> LatenessSketch:
        """The same with at most MOST_PARTITIONS partitions: those with the fewest rows become OTHERS."""
        if len(self.judged) <= MOST_PARTITIONS:
            return self
        kept = {name for name, _ in self.judged.most_common(MOST_PARTITIONS - 1)}
        found = LatenessSketch()
        for partition, count in self.judged.items():
            found.judged[partition if partition in kept else OTHERS] += count
        for partition, counts in self.behind.items():
            found.behind.setdefault(partition if partition in kept else OTHERS, Counter()).update(counts)
        return found

    def encoded(self) -> dict[str, str]:
        """For the ledger, by partition: `1000 12:5 13:2`, the rows and then the counts by bucket."""
        return {
            partition: " ".join([str(self.judged[partition]), *_pairs(self.behind.get(partition, {}))])
            for partition in self.partitions()
        }

    @classmethod
    def decoded(cls, texts: Mapping[str, str]) -> LatenessSketch:
        """What `encoded` gave; ValueError if it is damaged."""
        sketch = cls()
        for partition, text in texts.items():
            judged, *pairs = text.split()
            sketch.judged[partition] += int(judged)
            for pair in pairs:
                bucket, _, count = pair.partition(":")
                sketch._count(partition, int(bucket), int(count))
        return sketch


_NONE = np.zeros(0, np.int64)


def _passed(
    rows: pa.RecordBatch, kept: npt.NDArray[np.bool_] | None, chance: LastChance, unlagged_us: int
) -> tuple[Int64s, Int64s]:
    """Positions of the rows that the watermark without lag has passed, and their buckets.

    Rows that it has not passed, most of them, cost one comparison.
    """
    column = rows.column(c.EVENT_TIME)
    ts: Int64s = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    passed = ts < chance.safe_from_us(unlagged_us)
    if kept is not None:
        passed &= kept
    places = np.flatnonzero(passed)
    buckets = np.searchsorted(BOUNDS_US, chance.behind_us(ts[places], unlagged_us), "right") - 1
    known = buckets >= 0
    return places[known], buckets[known]


def _pairs(counts: Mapping[int, int]) -> Iterable[str]:
    return (f"{bucket}:{count}" for bucket, count in sorted(counts.items()))


def _share_above(bucket: int, threshold_us: int) -> float:
    if bucket < 0:
        return 1.0
    begin = int(BOUNDS_US[bucket])
    end = int(BOUNDS_US[bucket + 1]) if bucket + 1 < len(BOUNDS_US) else begin * 2
    return max(0.0, (end - threshold_us) / (end - begin))


def _kept(rows: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """Rows that are judged; None for all."""
    masks = []
    if rows.column(c.EVENT_TIME).null_count:
        masks.append(rows.column(c.EVENT_TIME).is_valid().to_numpy(zero_copy_only=False))
    if c.ERROR in rows.schema.names and rows.column(c.ERROR).null_count < rows.num_rows:
        masks.append(rows.column(c.ERROR).is_null().to_numpy(zero_copy_only=False))
    if c.UNMATCHED in rows.schema.names:
        masks.append(~flags(rows, c.UNMATCHED))
    if c.KEEP in rows.schema.names:
        masks.append(flags(rows, c.KEEP))
    return np.logical_and.reduce(masks) if masks else None


def _partitions(rows: pa.RecordBatch) -> pa.DictionaryArray:
    partitions = rows.column(c.SOURCE_PARTITION)
    if partitions.null_count:
        partitions = partitions.cast(pa.string()).fill_null(OTHERS)
    return partitions if pa.types.is_dictionary(partitions.type) else partitions.dictionary_encode()
