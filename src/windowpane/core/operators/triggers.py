"""What sliding windows share: which triggers are due, which rows a window can still need, and how both are kept.

Every trigger row has a window [t-lookback, t+lookahead] of its own, over the stream or its partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import BatchEnd, ControlSignal, Frame, Rows, TriggerTimes
from windowpane.core.groups import Groups, group_rows
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.rows import RowBuffer, flags, int64s, select
from windowpane.core.segments import SegmentedRows
from windowpane.core.side import Key
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows import Sliding
from windowpane.core.windows.ranges import rank_in_runs, run_heads

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LONG_AGO = -(2**63)
_ANNOUNCED = "told"
"""The name, in the state, of the table of triggers that all shards announce."""


@dataclass(frozen=True)
class Triggers:
    """Windows to emit, in order: their instants, the partition each looks at, and which of equal ones it is."""

    at_us: Int64s
    partition: Int64s
    epoch: Int64s

    def __len__(self) -> int:
        return len(self.at_us)

    def slice(self, low: int, high: int) -> Triggers:
        return Triggers(self.at_us[low:high], self.partition[low:high], self.epoch[low:high])


def kept_columns(rows: pa.Schema) -> list[str]:
    """Columns of the rows that windows are made of."""
    return [name for name in rows.names if name not in (c.SOURCE_PARTITION, c.EVENT)]


@dataclass(frozen=True)
class _Fired:
    fired_us: int | None
    dead: int


class SlidingOperator(Operator):
    """Keeps the rows that some window can still need, also those of triggers whose right edge is not covered yet.

    `broadcast`: the window is over the stream, and this is one of several shards. Triggers of all shards then come as
    TriggerTimes.
    """

    def __init__(
        self,
        spec: Sliding,
        partition_by: Sequence[str],
        keys: Sequence[Key],
        *,
        conditional: bool,
        broadcast: bool = False,
    ) -> None:
        super().__init__()
        self.spec, self._partition_by, self._conditional = spec, tuple(partition_by), conditional
        self._keys, self._broadcast = tuple(keys), broadcast
        self._rows, self._announced = SegmentedRows(), RowBuffer()
        self._fresh = 0
        """Rows of the micro-batch that runs."""
        self._fired_us: int | None = None
        """The watermark after the last micro-batch: triggers whose windows end by then have fired."""

    @property
    def lookahead_us(self) -> int:
        return self.spec.lookahead_us or 0

    def on_rows(self, frame: Rows) -> list[Frame]:
        self.counts.aggregated += frame.batch.num_rows
        self._fresh += frame.batch.num_rows
        self._rows.append(frame.batch.select(kept_columns(frame.batch.schema)))
        return []

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        if self._broadcast:
            self._announced.append(frame.batch)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        yield from self._fire(everything=False)
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._fire(everything=True)
        self._rows.clear()
        yield ControlSignal.END

    def _fire(self, *, everything: bool) -> Iterator[Frame]:
        """Windows that are due, in chunks: the rows of all of them may not fit into memory."""
        triggers, rows = self._due_broadcast(everything=everything), self._rows.rows()
        if rows is None:
            return
        due = self._waiting(rows) & (everything | self._covered(int64s(rows, c.EVENT_TIME)))
        if len(triggers) if self._broadcast else due.any():
            partitions = self._groups(rows, self._partition_by)
            yield from self._emit(rows, partitions, triggers if self._broadcast else self._own(rows, partitions, due))
        self._fresh, self._fired_us = 0, self.watermark_us
        self._trim(rows)

    def _waiting(self, rows: pa.RecordBatch) -> Bools:
        """Rows that trigger and have not fired: those of this micro-batch, and earlier ones with open windows."""
        waiting: Bools = np.arange(rows.num_rows) >= rows.num_rows - self._fresh
        if self.spec.lookahead_us is not None:
            fired_us = LONG_AGO if self._fired_us is None else self._fired_us
            waiting |= int64s(rows, c.EVENT_TIME) + self.spec.lookahead_us > fired_us
        return waiting & flags(rows, c.WHEN) if self._conditional else waiting

    def _own(self, rows: pa.RecordBatch, partitions: Groups, due: Bools) -> Triggers:
        """The rows that are due, as triggers."""
        shown = self._identifying
        same_identity = partitions if shown == list(self._partition_by) else self._groups(rows, shown)
        at_us = int64s(rows, c.EVENT_TIME)[due]
        return Triggers(at_us, partitions.ids[due], _epochs(at_us, same_identity.take(np.flatnonzero(due))))

    def _due_broadcast(self, *, everything: bool) -> Triggers:
        """Triggers of all shards that are due. The window is over the stream, so that all have one partition."""
        waiting = self._announced.rows()
        at_us = np.zeros(0, np.int64) if waiting is None else int64s(waiting, c.EVENT_TIME)
        due = everything | self._covered(at_us)
        if waiting is not None:
            self._announced.replace(select(waiting, ~due))
        at_us = at_us[due]
        return Triggers(at_us, np.zeros(len(at_us), np.int64), rank_in_runs(run_heads(at_us)) + 1)

    @property
    def _identifying(self) -> list[str]:
        """The partition columns that results contain. Windows that differ only in others are told apart by epochs."""
        shown = {key.name for key in self._keys}
        return [name for name in self._partition_by if name in shown]

    @staticmethod
    def _groups(rows: pa.RecordBatch, names: Sequence[str]) -> Groups:
        return group_rows([rows.column(name) for name in names], rows.num_rows)[0]

    def _covered(self, ts: Int64s) -> Bools:
        """Without lookahead a trigger is due when its row is released, with it once the watermark reaches its edge."""
        if self.spec.lookahead_us is None:
            return np.ones(len(ts), bool)
        if self.watermark_us is None:
            return np.zeros(len(ts), bool)
        return ts + self.spec.lookahead_us <= self.watermark_us

    def _trim(self, rows: pa.RecordBatch) -> None:
        """Drop rows that no pending or future trigger can reach. Rows are in order of time."""
        ts, waiting, triggers = int64s(rows, c.EVENT_TIME), np.flatnonzero(self._waiting(rows)), self._announced.rows()
        reach = [int(ts[waiting[0]])] if len(waiting) else []
        reach += [] if triggers is None else [int(int64s(triggers, c.EVENT_TIME).min())]
        reach += [] if self.watermark_us is None else [self.watermark_us]
        if reach:
            self._rows.drop_first(int(np.searchsorted(ts, min(reach) - self.spec.lookback_us)))

    def _emit(self, rows: pa.RecordBatch, partitions: Groups, triggers: Triggers) -> Iterator[Frame]:
        """The windows of `triggers`, in their order."""
        raise NotImplementedError

    def open_count(self) -> int:
        """Triggers whose window is not covered yet."""
        rows = self._rows.rows()
        return 0 if rows is None else int(self._waiting(rows).sum())

    def holdings(self) -> list[Holding]:
        rows = self._rows.rows()
        kept = [] if rows is None else [Holding("rows", rows.num_rows, rows.nbytes)]
        return kept + super().holdings()

    def header(self) -> Header:
        return Header.of(_Fired(self._fired_us, self._rows.dead), self._announced.tables(_ANNOUNCED))

    def load_header(self, header: Header) -> None:
        self._fired_us, self._fresh = header.read(_Fired).fired_us, 0
        self._announced.replace(header.tables.get(_ANNOUNCED))

    def save(self, entries: StateEntries) -> None:
        self._rows.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        self._rows.load(entries, self.read_header(entries).read(_Fired).dead)


def _epochs(at_us: Int64s, groups: Groups) -> Int64s:
    """Triggers with equal instant and group have results of equal identity but for the epoch, which counts from 1."""
    if groups.count == 1:
        return rank_in_runs(run_heads(at_us)) + 1
    epochs = np.empty(len(at_us), np.int64)
    epochs[groups.order] = rank_in_runs(run_heads(groups.ids[groups.order], at_us[groups.order])) + 1
    return epochs
