"""The two Python stages as the workers see them: operators of the core, and how rows find their shard.

Workers import this module, and with it the core alone: neither planner nor SQL, which would make them slow to start.
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


@dataclass(frozen=True)
class Stages:
    """What both stages are made of. Travels to the workers; operators are taken out fresh for every task."""

    fold_template: bytes
    merge_template: bytes
    aliases: tuple[tuple[str, str], ...]
    """Columns that operators read, each with the column that crosses."""
    stream: str
    """Name of the only stream, for sources of one partition."""
    route_by: tuple[str, ...]
    """Columns whose values decide on the shard; none: everything lives in shard 0."""
    shards: int
    feedback: bool
    """The host tells tasks the watermark of the batch before."""
    time_source: str | None = None
    """Where all rows have their time from; None: each row says so itself."""
    clock_fallback: bool = False
    """A row without a time has that of the micro-batch."""
    broadcast: bool = False
    """Every shard hears of every row that triggers a sliding window."""
    result_columns: tuple[str, ...] | None = None
    """Columns of the emissions that leave the merge stage; None: all of them."""
    arrival_states: tuple[str, ...] = ()
    """State columns of partial accumulators that keep arrival numbers."""
    ordered: bool = True
    """Something depends on the order of rows: rows are numbered by the files they are from."""

    def fold(self) -> Graph:
        """Operators before the shuffle; they hold no state between micro-batches."""
        graph: Graph = pickle.loads(self.fold_template)  # noqa: S301  # made by our own driver
        return graph

    def merge(self) -> Graph:
        """Operators after the shuffle, without state."""
        graph: Graph = pickle.loads(self.merge_template)  # noqa: S301
        return graph

    def complete_rows(self, batch: pa.RecordBatch, first_arrival: int) -> pa.RecordBatch:
        """A batch as Spark gives it, with the columns that operators expect and Spark need not send."""
        count = batch.num_rows
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns[c.ARRIVAL] = pa.array(first_arrival + np.arange(count, dtype=np.int64))
        if c.SOURCE_PARTITION not in columns:
            codes = pa.array(np.zeros(count, np.int8))
            columns[c.SOURCE_PARTITION] = pa.DictionaryArray.from_arrays(codes, pa.array([f"{self.stream}/0"]))
        columns |= {name: columns[column] for name, column in self.aliases}
        return pa.RecordBatch.from_pydict(columns)

    def route(self, frames: Iterable[Frame], home: int) -> list[list[Frame]]:
        """Frames by shard: data where its keys live, side rows to `home`, progress and broadcast triggers to all."""
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
        """Portions by shard: every shard is told of all of them, with its own frames."""
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
