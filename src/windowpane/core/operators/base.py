"""Operators: state machines that take frames, give frames, and save their state after each micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa

from windowpane.core.accounting import Accounting
from windowpane.core.frames import (
    AdmittedGroups,
    BatchEnd,
    Clock,
    ControlSignal,
    Emissions,
    Frame,
    GroupRequests,
    MaybeLateRows,
    Partials,
    Progress,
    Rows,
    TriggerTimes,
    Watermark,
    WindowRows,
)
from windowpane.core.rescaling import Divisible
from windowpane.core.state import HEADER, Header, StateEntries, Times

IN = "in"
"""The input of an operator that has only one."""


@dataclass(frozen=True)
class Holding:
    """Part of an operator's state, for `windowpane inspect`."""

    what: str
    """`window`, `pane`, `sessions`, or the operator's own name for it."""
    count: int
    """Groups of a window or pane, sessions, rows."""
    size: int
    """Bytes in memory."""
    start_us: int | None = None
    end_us: int | None = None


class Measured(Protocol):
    """State that can say how much it holds."""

    def measure(self) -> tuple[int, int]:
        """Rows, and their bytes in memory. Reads all of it, some at a time."""


def holdings_of(kept: Mapping[str, Measured]) -> list[Holding]:
    """What is kept, by its name."""
    found = {name: state.measure() for name, state in kept.items()}
    return [Holding(name, rows, size) for name, (rows, size) in found.items() if rows]


class Operator:
    """Base of all operators. Subclasses override the `on_…` methods they care about; all else is passed on.

    Called by the graph that contains it, one frame at a time, in the order of `frames.py`. `counts` is read and reset
    after every micro-batch: an operator that decides a row's fate adds it there, exactly once per row.
    """

    inputs: ClassVar[tuple[str, ...]] = (IN,)
    """Names of its inputs. An operator with several overrides `on_input`; `junction.py` combines their messages."""
    moves_time: ClassVar[bool] = False
    """Whether it decides on the watermark, instead of passing on the one it is given."""
    folds: ClassVar[bool] = False
    """Whether it turns rows into partial accumulators, and so can run before rows of all tasks meet."""
    divided_by: ClassVar[tuple[str, ...] | None] = None
    """Columns that determine the shard of its state. None: those that determine the shard of its rows."""
    shard_scalars: ClassVar[tuple[str, ...]] = ()
    """Scalars of its header that may differ between shards."""
    is_ordered: bool = True
    """Whether the order in which rows arrive matters to it."""
    arrival_states: tuple[str, ...] = ()
    """Columns of its partial accumulators that hold arrival numbers."""

    def __init__(self) -> None:
        self.clock_us = 0
        self.watermark_us: int | None = None
        """The watermark that operators behind this one know of."""
        self.counts = Accounting()

    def on_input(self, port: str, frame: Frame) -> Iterable[Frame]:
        """Take one frame that arrives at the input `port`."""
        return self.on_frame(frame)

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
            case GroupRequests():
                return self.on_requests(frame)
            case AdmittedGroups():
                return self.on_admitted(frame)
            case Emissions():
                return self.on_emissions(frame)
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

    def on_requests(self, frame: GroupRequests) -> list[Frame]:
        return [frame]

    def on_admitted(self, frame: AdmittedGroups) -> list[Frame]:
        return [frame]

    def on_emissions(self, frame: Emissions) -> list[Frame]:
        """Results of the stage before this operator."""
        return [frame]

    def on_progress(self, frame: Progress) -> list[Frame]:
        return [frame]

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        """Time advances. Rows of the next micro-batch are judged against it."""
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

    def schema_of(self, given: Mapping[str, pa.Schema]) -> pa.Schema:
        """The same, for an operator with any number of inputs, by their names."""
        return self.output_schema(given[IN])

    def buffered(self) -> int:
        """Rows that are held back and have no outcome yet."""
        return 0

    def open_count(self) -> int:
        """Open windows of single groups: sessions, pending triggers. `windowpane status` shows them."""
        return 0

    def open_runs(self) -> list[list[int]]:
        """Keys of the open windows that all groups share, as `arithmetic_runs`. The groups of one window live in
        several shards, so adding up the shards' counts would count it several times.
        """
        return []

    def holdings(self) -> list[Holding]:
        """What the operator keeps: one item per window, pane or table."""
        tables = self.header().tables.items()
        return [Holding(name, table.num_rows, table.nbytes) for name, table in tables if table.num_rows]

    def header(self) -> Header:
        """The small part of the state. Operators with much state keep the rest in entries of their own."""
        return Header()

    def load_header(self, header: Header) -> None:
        """Take up what `header` gave, when clock and watermark are already set."""

    def save(self, entries: StateEntries) -> None:
        """Write what has changed since `load` or the last `save`. The host calls this after every micro-batch."""
        entries.write(HEADER, self.header().pack(Times(self.clock_us, self.watermark_us)))

    def load(self, entries: StateEntries) -> None:
        """Take up what earlier calls of `save` wrote. The host calls this before the first frame.

        The operator may keep `entries` and read from them later in the micro-batch.
        """
        self.read_header(entries)

    def read_header(self, entries: StateEntries) -> Header:
        """Take up the header alone."""
        times, header = Header.unpack(entries.read(HEADER))
        self.clock_us, self.watermark_us = times.clock_us, times.watermark_us
        self.load_header(header)
        return header

    def divided(self) -> tuple[Divisible, ...]:
        """State outside of the header, of which each shard has other rows. `taking_over.py` divides it anew."""
        return ()

    def repeated(self) -> tuple[Divisible, ...]:
        """State outside of the header that all shards have alike."""
        return ()

    def on_taken_over(self) -> None:
        """The state has been divided anew: header, `divided` and `repeated` are there, and what follows from them."""
