"""The watermark operators: move time once per micro-batch, and release rows in order for operators that need it.

Rows are released before the watermark that covers them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from windowpane.core.frames import BatchEnd, Clock, ControlSignal, Frame, Progress, Rows, TriggerTimes, Watermark
from windowpane.core.graph import Graph
from windowpane.core.operators.base import Holding, Operator
from windowpane.core.rescaling import Divisible
from windowpane.core.segmented_rows import SegmentedRows
from windowpane.core.state import Header, StateEntries
from windowpane.core.watermark import PartitionWatermark

_ROWS, _TRIGGERS = "held", "held_triggers"
"""Names, in the state, of what is held back."""


@dataclass(frozen=True)
class _Progress:
    maxima: dict[str, int]
    last_seen: dict[str, int]
    watermarks_emitted: int
    held: int | None = None
    """Rows that are held back. Older state has none of them in segments."""


class EventtimeWatermark(Operator):
    """Event time inferred from the progress of the source partitions.

    `ordered`: rows are held back and released by (ts, arrival) once the watermark covers them; after Watermark(W) no
    row with ts <= W is released. `data_driven` False: only Watermark frames from upstream move it.
    """

    moves_time = True
    shard_scalars = ("held",)

    def __init__(
        self,
        *,
        lag_us: int = 0,
        streams: Collection[str] = (),
        idle_timeout_us: int | None = None,
        ordered: bool = False,
        data_driven: bool = True,
    ) -> None:
        super().__init__()
        self.tracker = PartitionWatermark(lag_us, tuple(streams), idle_timeout_us)
        self.ordered, self.data_driven = ordered, data_driven
        self.watermarks_emitted = 0
        self._held, self._held_triggers = SegmentedRows(_ROWS), SegmentedRows(_TRIGGERS)
        self._held_rows = 0
        self._asked_us: int | None = None

    def on_clock(self, frame: Clock) -> list[Frame]:
        self.tracker.begin(frame.us)
        return super().on_clock(frame)

    def on_progress(self, frame: Progress) -> list[Frame]:
        self.tracker.observe(frame.maxima, self.clock_us)
        return []

    def on_rows(self, frame: Rows) -> list[Frame]:
        if not self.ordered:
            return [frame]
        self._held.append(frame.batch)
        self._held_rows += frame.batch.num_rows
        return []

    def on_triggers(self, frame: TriggerTimes) -> list[Frame]:
        if not self.ordered:
            return [frame]
        self._held_triggers.append(frame.batch)
        return []

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        self._asked_us = frame.us if self._asked_us is None else max(frame.us, self._asked_us)
        return []

    def on_batch_end(self, frame: BatchEnd) -> Iterator[Frame]:
        target = self.tracker.advance(self.clock_us) if self.data_driven else self.watermark_us
        if self._asked_us is not None:
            target = self._asked_us if target is None else max(target, self._asked_us)
            self._asked_us = None
        if target is not None and (self.watermark_us is None or target > self.watermark_us):
            self.watermark_us = self.tracker.watermark_us = target
            self.watermarks_emitted += 1
            yield from self._release(target)
            yield Watermark(target)
        yield frame

    def on_end(self) -> Iterator[Frame]:
        yield from self._release(None)
        yield ControlSignal.END

    def buffered(self) -> int:
        return self._held_rows

    def _release(self, target_us: int | None) -> Iterator[Frame]:
        """Rows and triggers up to an instant, in order and some at a time; all of them for None."""
        for rows in self._held.take(target_us):
            self._held_rows -= rows.num_rows
            yield Rows(rows)
        for triggers in self._held_triggers.take(target_us):
            yield TriggerTimes(triggers)

    def holdings(self) -> list[Holding]:
        held = [Holding(_ROWS, self._held_rows, self._held.size)]
        held += [Holding(_TRIGGERS, len(self._held_triggers), self._held_triggers.size)]
        return [each for each in held if each.count]

    def header(self) -> Header:
        progress = _Progress(self.tracker.maxima, self.tracker.last_seen, self.watermarks_emitted, self._held_rows)
        return Header.of(progress, self._held.tables() | self._held_triggers.tables())

    def load_header(self, header: Header) -> None:
        progress = header.read(_Progress)
        self.tracker.watermark_us = self.watermark_us
        self.tracker.maxima, self.tracker.last_seen = dict(progress.maxima), dict(progress.last_seen)
        self.watermarks_emitted = progress.watermarks_emitted

    def follow(self, other: EventtimeWatermark) -> None:
        """Begin where time stands in another query over the same rows."""
        self.clock_us, self.watermark_us = other.clock_us, other.watermark_us
        self.tracker.watermark_us = other.watermark_us
        if set(self.tracker.streams) == set(other.tracker.streams):  # else partitions have other names
            self.load_header(other.header())

    def save(self, entries: StateEntries) -> None:
        self._held.save(entries)
        self._held_triggers.save(entries)
        super().save(entries)

    def load(self, entries: StateEntries) -> None:
        header = self.read_header(entries)
        self._held = SegmentedRows.loaded(_ROWS, entries, header.tables)
        self._held_triggers = SegmentedRows.loaded(_TRIGGERS, entries, header.tables)
        held = header.read(_Progress).held
        self._held_rows = len(self._held) if held is None else held

    def divided(self) -> tuple[Divisible, ...]:
        return (self._held,)

    def repeated(self) -> tuple[Divisible, ...]:
        return (self._held_triggers,)

    def on_taken_over(self) -> None:
        self._held_rows = len(self._held)


def follow_time(graph: Graph, other: Graph) -> None:
    """Let the watermarks of a query's sources begin where those of another query over the same rows stand.

    Queries that are joined have a watermark each, all over the same streams. Those of windows over results follow.
    """
    own, found = (
        [each for each in of.operators if isinstance(each, EventtimeWatermark) and each.data_driven]
        for of in (graph, other)
    )
    for each in own if found else ():
        each.follow(found[0])


class ProcessTimeWatermark(Operator):
    """Processing time: the watermark is the micro-batch's timestamp."""

    moves_time = True

    def on_watermark(self, frame: Watermark) -> list[Frame]:
        return []

    def on_batch_end(self, frame: BatchEnd) -> list[Frame]:
        if self.watermark_us is not None and self.clock_us <= self.watermark_us:
            return [frame]
        self.watermark_us = self.clock_us
        return [Watermark(self.clock_us), frame]
