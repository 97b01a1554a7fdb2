"""The two Python stages as workers run them: graphs of operators, and the routing of rows to shards.

Workers import this module and the core, but neither planner nor SQL, so that they start fast.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import Frame, MaybeLateRows, Partials, Progress, Rows, SideRows, TriggerTimes
from windowpane.core.graph import Graph
from windowpane.core.hashing import shard_of
from windowpane.core.numbering import Portion
from windowpane.core.rows import flags, select, take
from windowpane.spark.overflow import NO_OVERFLOW, Overflow


@dataclass(frozen=True)
class Stages:
    """Both stages of a query, sent to the workers. Each task unpickles operators of its own."""

    fold_template: bytes
    merge_template: bytes
    aliases: tuple[tuple[str, str], ...]
    """Columns that operators read, each with the column that crosses."""
    stream: str
    """Name of the only stream, for sources of one partition."""
    route_by: tuple[str, ...]
    """Columns whose values determine the shard. Without any, all rows go to shard 0."""
    shards: int
    feedback: bool
    """The driver sends the watermark of the previous batch to the tasks."""
    time_source: str | None = None
    """The source of all event times; None if a column names it for each row."""
    clock_fallback: bool = False
    """Rows without a time get that of the micro-batch."""
    broadcast: bool = False
    """All rows that trigger a sliding window are announced to every shard."""
    result_columns: tuple[str, ...] | None = None
    """Columns of the results that leave the merge stage; None for all."""
    arrival_states: tuple[str, ...] = ()
    """State columns of partial accumulators that contain arrival numbers."""
    overflow: Overflow = NO_OVERFLOW
    """Where large results go."""
    ordered: bool = True
    """Results depend on the order of rows, so that rows are numbered in the order of their files."""

    def fold(self) -> Graph:
        """Operators before the shuffle; they hold no state between micro-batches."""
        graph: Graph = pickle.loads(self.fold_template)  # noqa: S301  # made by our own driver
        return graph

    def merge(self) -> Graph:
        """Operators after the shuffle, without state."""
        graph: Graph = pickle.loads(self.merge_template)  # noqa: S301
        return graph

    def complete_rows(self, batch: pa.RecordBatch, first_arrival: int) -> pa.RecordBatch:
        """A batch from Spark with the columns that operators expect and Spark does not send."""
        count = batch.num_rows
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns[c.ARRIVAL] = pa.array(first_arrival + np.arange(count, dtype=np.int64))
        if c.SOURCE_PARTITION not in columns:
            codes = pa.array(np.zeros(count, np.int8))
            columns[c.SOURCE_PARTITION] = pa.DictionaryArray.from_arrays(codes, pa.array([f"{self.stream}/0"]))
        columns |= {name: columns[column] for name, column in self.aliases}
        return pa.RecordBatch.from_pydict(columns)

    def route(self, frames: Iterable[Frame], home: int) -> list[list[Frame]]:
        """Frames by shard: data by its keys, side rows to `home`, progress and announced triggers to all."""
        routed: list[list[Frame]] = [[] for _ in range(self.shards)]
        for frame in frames:
            match frame:
                case Progress():
                    _to_all(routed, frame)
                case SideRows():
                    routed[home].append(frame)
                case Rows() | Partials() | MaybeLateRows():
                    for shard, part in self._split(frame.batch):
                        routed[shard].append(type(frame)(part))
                    if self.broadcast:
                        _to_all(routed, TriggerTimes(_triggering(frame.batch)))
        return routed

    def route_portions(self, portions: Iterable[Portion], home: int) -> list[list[Portion]]:
        """Portions by shard. Every shard gets all portions, each with only the frames of that shard."""
        routed: list[list[Portion]] = [[] for _ in range(self.shards)]
        for portion in portions:
            for shard, frames in enumerate(self.route(portion.frames, home)):
                routed[shard].append(Portion(portion.place, portion.rows, frames))
        return routed

    def _split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        keys = [batch.column(name) for name in self.route_by]
        owner = shard_of(keys, batch.num_rows, self.shards)
        counts = np.bincount(owner, minlength=self.shards)
        ordered = batch if counts[0] == batch.num_rows else take(batch, np.argsort(owner, kind="stable"))
        starts = np.cumsum(counts) - counts
        return [
            (shard, ordered.slice(int(starts[shard]), int(counts[shard]))) for shard in np.flatnonzero(counts).tolist()
        ]


def _to_all(routed: list[list[Frame]], frame: Frame) -> None:
    for frames_of_shard in routed:
        frames_of_shard.append(frame)


def _triggering(rows: pa.RecordBatch) -> pa.RecordBatch:
    times = rows.select([c.EVENT_TIME, c.ARRIVAL])
    return select(times, flags(rows, c.WHEN)) if c.WHEN in rows.schema.names else times
