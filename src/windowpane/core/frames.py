"""Frames: what operators pass to each other. Rows, partial accumulators and results in Arrow, and messages.

A micro-batch is `Clock`, the `Watermark` that stood before it, data frames, `BatchEnd`. Time moves only by `Watermark`,
which follows the data it speaks of; the stream ends by `ControlSignal`, never by a maximal watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

import pyarrow as pa


@dataclass(frozen=True)
class Clock:
    """Starts a micro-batch: its timestamp is the processing time of its rows."""

    us: int


@dataclass(frozen=True)
class Rows:
    """Rows of one micro-batch, with the columns of `columns.py`."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class TriggerTimes:
    """EVENT_TIME and ARRIVAL of the rows that trigger sliding windows, for shards that hold other rows."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class WindowRows:
    """The rows of closed windows, each row with the bounds of its window. Input of an unfused aggregation.

    `continues`: these are rows of one window, which has more of them in the next frame.
    """

    batch: pa.RecordBatch
    continues: bool = False


@dataclass(frozen=True)
class Partials:
    """Partial accumulators, one row per (pane, group) or (session, group)."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class MaybeLateRows:
    """Session rows that are late unless they join a session that is still open. Only the merging operator can tell."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class GroupRequests:
    """The (window, group) pairs of some rows, each with the arrival number of its first row. Input of a quota."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class AdmittedGroups:
    """The pairs among the micro-batch's GroupRequests that the quota admits."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class Emissions:
    """Results: window bounds, group keys, values, epoch and finality."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class ClosedStates:
    """Accumulators of windows that have just closed: WINDOW_KEY, the group, the states, WINDOW_END, and EPOCH."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class SideRows:
    """Rows that reach no result, in the columns of `side.py`."""

    batch: pa.RecordBatch


@dataclass(frozen=True)
class Progress:
    """The largest event time of each source partition that may move the watermark; None if no row may."""

    maxima: Mapping[str, int | None]


@dataclass(frozen=True)
class Watermark:
    """No row with ts <= us follows."""

    us: int


@dataclass(frozen=True)
class BatchEnd:
    """The micro-batch has no more data. Time may now advance, once."""


class ControlSignal(Enum):
    """END: the stream ends gracefully, and everything open is emitted."""

    END = "end"


Frame: TypeAlias = (
    Clock
    | Rows
    | TriggerTimes
    | WindowRows
    | Partials
    | MaybeLateRows
    | GroupRequests
    | AdmittedGroups
    | Emissions
    | ClosedStates
    | SideRows
    | Progress
    | Watermark
    | BatchEnd
    | ControlSignal
)


class Given(NamedTuple):
    """A frame that leaves a graph of operators, with the node or entry it comes from."""

    source: str
    frame: Frame
