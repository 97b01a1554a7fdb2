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
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import flags, int64s, select
from windowpane.core.segmented_rows import SegmentedRows
from windowpane.core.side import Key
from windowpane.core.state import Header, StateEntries
from windowpane.core.windows import Sliding
from windowpane.core.windows.cut import Cut
from windowpane.core.windows.ranges import rank_in_runs, run_heads

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LONG_AGO = -(2**63)
_ROWS, _ANNOUNCED = "rows", "told"
"""Names, in the state, of the rows, and of the triggers that all shards announce."""


@dataclass(frozen=True)
class Triggers:
    """Windows to emit, in order: their instants, and which of equal ones each is."""

    at_us: Int64s
    epoch: Int64s
    rows: pa.RecordBatch
    """The rows that trigger. Those that other shards announce have only time and arrival."""

    def __len__(self) -> int:
        return len(self.at_us)


def kept_columns(rows: pa.Schema) -> list[str]:
    """Columns of the rows that windows are made of."""
    return [name for name in rows.names if name not in (c.SOURCE_PARTITION, c.EVENT)]


@dataclass(frozen=True)
class _Fired:
    fired_us: int | None
    waiting: int | None = None
    """Older state does not have it, and does not list its segments either."""
    dead: int = 0
    """Only in older state."""


class SlidingOperator(Operator):
    """Keeps the rows that some window can still need, also those of triggers whose right edge is not covered yet.

    `broadcast`: the window is over the stream, and this is one of several shards. Triggers of all shards then come as
    TriggerTimes.
    """

    shard_scalars = ("waiting", "fired_us")
    """In older versions, only shards with rows knew when they had fired."""

    def __init__(
        self,
        spec: Sliding,
        partition_by: Sequence[str],
        keys: Sequence[Key],
        *,
        conditional: bool,
        broadcast: bool = False,
        cut: Cut | None = None,
    ) -> None:
        super().__init__()
        self._cut = cut
        """Of a version of a query: its triggers are within. The rows of its windows may be beyond."""
        self.spec, self.partition_by, self._conditional = spec, tuple(partition_by), conditional
        self._keys, self._broadcast = tuple(keys), broadcast
        self.kept, self._announced = SegmentedRows(_ROWS), SegmentedRows(_ANNOUNCED)
        self._fresh: tuple[int, int] | None = None
        """The least time and arrival of the rows of the micro-batch that runs."""
        self._waiting = 0
        """Rows of this shard that trigger and have not fired."""
        self._fired_us: int | None = None
        """The watermark after the last micro-batch: triggers whose windows end by then have fired."""

    @property
    def lookahead_us(self) -> int:
        return self.spec.lookahead_us or 0

    def on_rows(self, frame: Rows) -> list[Frame]:
        rows = frame.batch.select(kept_columns(frame.batch.schema))
        self.counts.aggregated += rows.num_rows
        if rows.num_rows:
            found = int(int64s(rows, c.EVENT_TIME).min()), int(int64s(rows, c.ARRIVAL).min())
            self._fresh = (
                found if self._fresh is None else (min(found[0], self._fresh[0]), min(found[1], self._fresh[1]))
            )
            self._waiting += int(self._triggering(rows).sum())
            self.kept.append(rows)
        return []

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        if self._broadcast:
            triggers = frame.batch
            own = triggers if self._cut is None else select(triggers, self._cut.has(int64s(triggers, c.EVENT_TIME)))
            self._announced.append(own)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        yield from self._fire(everything=False)
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._fire(everything=True)
        self.kept.clear()
        yield ControlSignal.END

    def _fire(self, *, everything: bool) -> Iterator[Frame]:
        """Windows that are due, in chunks: the rows of all of them may not fit into memory."""
        until_us = self._due_until()
        if everything or until_us is not None or self.spec.lookahead_us is None:
            until_us = None if everything else until_us
            own = self._own(until_us)
            for triggers in self._announced_by_all(until_us, own) if self._broadcast else own:
                yield from self._emit(triggers)
        self._fresh, self._fired_us = None, self.watermark_us
        if self.watermark_us is not None:
            # Triggers up to the watermark less the lookahead have fired.
            self.kept.drop_before(self.watermark_us - self.lookahead_us - self.spec.lookback_us)

    def _due_until(self) -> int | None:
        """Triggers up to this instant are due. None: none if the window looks ahead, and all if it does not.

        Without lookahead a trigger is due when its row is released, with it once the watermark reaches its edge.
        """
        if self.spec.lookahead_us is None or self.watermark_us is None:
            return None
        return self.watermark_us - self.spec.lookahead_us

    def _own(self, until_us: int | None) -> Iterator[Triggers]:
        """The rows that are due, as triggers, some at a time."""
        since_us = self._waiting_since()
        if since_us is None or (until_us is not None and until_us < since_us):
            return
        for last_us in self.kept.cuts(since_us, until_us):
            rows = self.kept.ordered(since_us, last_us)
            since_us = last_us + 1
            due = None if rows is None else select(rows, self._is_waiting(rows))
            if due is not None and due.num_rows:
                self._waiting -= due.num_rows
                at_us = int64s(due, c.EVENT_TIME)
                yield Triggers(at_us, _epochs(at_us, self._groups(due, self._identifying)), due)

    def _announced_by_all(self, until_us: int | None, own: Iterator[Triggers]) -> Iterator[Triggers]:
        """Triggers of all shards that are due. The window is over the stream, so that all have one partition."""
        for _ in own:
            pass
        for rows in self._announced.take(until_us):
            at_us = int64s(rows, c.EVENT_TIME)
            yield Triggers(at_us, rank_in_runs(run_heads(at_us)) + 1, rows)

    def _waiting_since(self) -> int | None:
        """All rows that have not fired are at this instant or later. None: there are none."""
        found = [] if self._fresh is None else [self._fresh[0]]
        if self.spec.lookahead_us is not None and self._waiting:
            found.append(LONG_AGO if self._fired_us is None else self._fired_us - self.spec.lookahead_us + 1)
        return min(found) if found else None

    def _is_waiting(self, rows: pa.RecordBatch) -> Bools:
        """Rows that trigger and have not fired: those of this micro-batch, and earlier ones with open windows.

        An earlier row is before those of this micro-batch, or, in processing time, of the same instant.
        """
        ts, waiting = int64s(rows, c.EVENT_TIME), np.zeros(rows.num_rows, bool)
        if self._fresh is not None:
            waiting = (ts >= self._fresh[0]) & (int64s(rows, c.ARRIVAL) >= self._fresh[1])
        if self.spec.lookahead_us is not None:
            waiting |= True if self._fired_us is None else ts > self._fired_us - self.spec.lookahead_us
        return waiting & self._triggering(rows)

    def _triggering(self, rows: pa.RecordBatch) -> Bools:
        chosen = flags(rows, c.WHEN) if self._conditional else np.ones(rows.num_rows, bool)
        return chosen if self._cut is None else chosen & self._cut.has(int64s(rows, c.EVENT_TIME))

    @property
    def _identifying(self) -> list[str]:
        """The partition columns that results contain. Windows that differ only in others are told apart by epochs."""
        shown = {key.name for key in self._keys}
        return [name for name in self.partition_by if name in shown]

    @staticmethod
    def _groups(rows: pa.RecordBatch, names: Sequence[str]) -> Groups:
        return group_rows([rows.column(name) for name in names], rows.num_rows)[0]

    def _emit(self, triggers: Triggers) -> Iterator[Frame]:
        """The windows of `triggers`, in their order."""
        raise NotImplementedError

    def open_count(self) -> int:
        """Triggers whose window is not covered yet."""
        return self._waiting

    def holdings(self) -> list[Holding]:
        held = [Holding(_ROWS, len(self.kept), self.kept.size)]
        held += [Holding(_ANNOUNCED, len(self._announced), self._announced.size)]
        return [each for each in held if each.count]

    def header(self) -> Header:
        return Header.of(_Fired(self._fired_us, self._waiting), self.kept.tables() | self._announced.tables())

    def load_header(self, header: Header) -> None:
        self._fired_us, self._fresh = header.read(_Fired).fired_us, None

    def save(self, entries: StateEntries) -> None:
        self.kept.save(entries)
        self._announced.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        fired = header.read(_Fired)
        self._announced = SegmentedRows.loaded(_ANNOUNCED, entries, header.tables)
        if fired.waiting is not None:
            self.kept, self._waiting = SegmentedRows.loaded(_ROWS, entries, header.tables), fired.waiting
            return
        self.kept = SegmentedRows.loaded_unlisted(_ROWS, entries, fired.dead)
        rows = self.kept.ordered()
        self._waiting = 0 if rows is None else int(self._is_waiting(rows).sum())

    def divided(self) -> tuple[Divisible, ...]:
        return (self.kept,)

    def repeated(self) -> tuple[Divisible, ...]:
        return (self._announced,)

    def on_taken_over(self) -> None:
        self._waiting = sum(int(self._is_waiting(rows).sum()) for rows in self.kept.between())


def _epochs(at_us: Int64s, groups: Groups) -> Int64s:
    """Triggers with equal instant and group have results of equal identity but for the epoch, which counts from 1."""
    if groups.count == 1:
        return rank_in_runs(run_heads(at_us)) + 1
    epochs = np.empty(len(at_us), np.int64)
    epochs[groups.order] = rank_in_runs(run_heads(groups.ids[groups.order], at_us[groups.order])) + 1
    return epochs
