"""What an operator is: a state machine that takes frames and gives frames, and can be put down and taken up again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.accounting import Accounting
from windowpane.core.frames import (
    BatchEnd,
    Clock,
    ControlSignal,
    Frame,
    MaybeLateRows,
    Partials,
    Progress,
    Rows,
    TriggerTimes,
    Watermark,
    WindowRows,
)


@dataclass(frozen=True)
class Holding:
    """Something that an operator keeps between micro-batches, for people who look into a checkpoint."""

    what: str
    """`window`, `pane`, `sessions`, or the operator's own name for it."""
    count: int
    """Groups of a window or pane, sessions, rows."""
    size: int
    """Bytes in memory."""
    start_us: int | None = None
    end_us: int | None = None


class Operator:
    """Base of all operators. Subclasses override the `on_…` methods they care about; all else is passed on.

    Called by the chain that hosts it, one frame at a time, in the order of `frames.py`. `counts` is read and reset by
    the chain after every micro-batch: an operator that decides a row's fate adds it there, exactly once per row.
    """

    def __init__(self) -> None:
        self.clock_us = 0
        self.watermark_us: int | None = None
        self.counts = Accounting()

    def on_frame(self, frame: Frame) -> Iterable[Frame]:
        """Take one frame, give the frames that follow from it, in order, all of which the caller must take."""
        match frame:
            case Clock():
                return self.on_clock(frame)
            case Progress():
                return self.on_progress(frame)
            case Watermark():
                return self.on_watermark(frame)
            case BatchEnd():
                return self.on_batch_end(frame)
            case ControlSignal.END:
                return self.on_end()
            case _:
                return self._on_data(frame)

    def _on_data(self, frame: Frame) -> list[Frame]:
        match frame:
            case Rows():
                return self.on_rows(frame)
            case TriggerTimes():
                return self.on_triggers(frame)
            case WindowRows():
                return self.on_window_rows(frame)
            case Partials():
                return self.on_partials(frame)
            case MaybeLateRows():
                return self.on_maybe_late_rows(frame)
            case _:
                return [frame]

    def on_clock(self, frame: Clock) -> list[Frame]:
        self.clock_us = frame.us
        return [frame]

    def on_rows(self, frame: Rows) -> list[Frame]:
        return [frame]

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        return [frame]

    def on_window_rows(self, frame: WindowRows) -> list[Frame]:
        return [frame]

    def on_partials(self, frame: Partials) -> list[Frame]:
        return [frame]

    def on_maybe_late_rows(self, frame: MaybeLateRows) -> list[Frame]:
        return [frame]

    def on_progress(self, frame: Progress) -> list[Frame]:
        return [frame]

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        """Time advances. By default it is noted, so that rows of the next micro-batch are judged against it."""
        self.watermark_us = frame.us
        return [frame]

    def on_batch_end(self, frame: BatchEnd) -> Iterable[Frame]:
        return [frame]

    def on_end(self) -> Iterable[Frame]:
        """Graceful end: emit everything that is open, then pass the signal on."""
        return [ControlSignal.END]

    def output_schema(self, given: pa.Schema) -> pa.Schema:
        """Schema of the batches that leave, for rows of schema `given`; after the last operator, of the emissions."""
        return given

    def buffered(self) -> int:
        """Rows held whose fate is not decided yet."""
        return 0

    def state(self) -> blob.State:
        """Everything that must survive a restart, besides clock and watermark."""
        return blob.State()

    def load(self, state: blob.State) -> None:
        """Take up what `state` gave."""

    def open_count(self) -> int:
        """Windows of single groups (sessions, pending triggers) that are open, for people who wonder why nothing
        comes out.
        """
        return 0

    def open_runs(self) -> list[list[int]]:
        """Keys of the open windows that all groups share, as `arithmetic_runs`. The groups of one window live in
        several shards, so adding up the shards' counts would count it several times.
        """
        return []

    def holdings(self) -> list[Holding]:
        """What is kept, one item per window or pane where state is kept so."""
        batches = self.state().batches.items()
        return [Holding(name, batch.num_rows, batch.nbytes) for name, batch in batches if batch.num_rows]

    def changed_entries(self) -> dict[str, bytes | None]:
        """For a host that keeps state by named entries: those that changed since the last call, None to remove one."""
        return {"": self.snapshot()}

    def load_entries(self, entries: dict[str, bytes]) -> None:
        """Take up all entries that were written."""
        self.restore(entries[""])

    def snapshot(self) -> bytes:
        inner = self.state()
        meta = {"clock_us": self.clock_us, "watermark_us": self.watermark_us, "own": dict(inner.meta)}
        return blob.pack(blob.State(meta, inner.batches))

    def restore(self, data: bytes) -> None:
        """Become what the operator was when `snapshot` gave `data`."""
        outer = blob.unpack(data)
        self.clock_us = int(str(outer.meta["clock_us"]))
        watermark = outer.meta["watermark_us"]
        self.watermark_us = None if watermark is None else int(str(watermark))
        own = outer.meta["own"]
        assert isinstance(own, dict)
        self.load(blob.State(own, outer.batches))


def emission_schema(operators: Sequence[Operator], rows: pa.Schema) -> pa.Schema:
    """Columns of the emissions of operators in a row, for rows of schema `rows`."""
    for operator in operators:
        rows = operator.output_schema(rows)
    return rows


def through(operators: Sequence[Operator], frames: Iterable[Frame]) -> list[Frame]:
    """What comes out when frames go through operators in a row: each frame all the way, before the next one is made."""
    for operator in operators:
        frames = _through_one(operator, frames)
    return list(frames)


def _through_one(operator: Operator, frames: Iterable[Frame]) -> Iterator[Frame]:
    for frame in frames:
        yield from operator.on_frame(frame)
