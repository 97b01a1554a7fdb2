"""Arrival numbers. A task counts the rows of each portion of its input from 0. The merge stage knows the sizes of all
portions of the micro-batch and adds the number at which each portion begins. Numbers therefore have no gaps, are
bounded only by int64, and do not depend on the number of tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.frames import Frame, Given, GroupRequests, MaybeLateRows, Partials, Rows, SideRows, TriggerTimes
from windowpane.errors import StateError

END = 1 << 63
"""The first number beyond int64."""


@dataclass(frozen=True, order=True)
class Place:
    """Where the rows of a portion come from. Portions are numbered in this order, those of one place by their tasks."""

    modified_us: int = 0
    name: str = ""
    start: int = 0

    def parts(self) -> tuple[int, str, int]:
        """The fields, as the constructor takes them."""
        return self.modified_us, self.name, self.start

    @classmethod
    def of_file(cls, modified_us: int, path: str, start: int = 0) -> Place:
        """The rows of a file from the byte `start`. The files of a folder come before those of its subfolders, each by
        name, as they are listed.
        """
        *folders, name = path.split("/")
        return cls(modified_us, "".join(f"\x01{folder}" for folder in folders) + f"\x00{name}", start)


NOWHERE = Place()
"""The place of rows that are not read from a file."""


@dataclass
class Portion:
    """Rows of one place, as the frames that one task has made of them. Their arrival numbers count from 0."""

    place: Place = NOWHERE
    rows: int = 0
    frames: list[Given] = field(default_factory=list)


@dataclass(frozen=True)
class Numbers:
    """The arrival numbers that a micro-batch may use."""

    first: int
    room: int

    @classmethod
    def onwards(cls, first: int) -> Numbers:
        """All numbers from `first` on."""
        return cls(first, END - first)

    @classmethod
    def of_batch(cls, batch_id: int) -> Numbers:
        """For hosts that do not count the rows before a batch: numbers that `onwards` never reaches in practice."""
        first = (1 << 62) + (batch_id << 32)
        return cls(first, min(1 << 32, END - first))


def numbered(portions: Iterable[Portion], numbers: Numbers, states: Collection[str]) -> list[Given]:
    """The frames of a micro-batch in the order of their places, with final numbers. `states`: as in `shifted`.

    `portions` stand in the order of their tasks, and every shard receives all of them.
    """
    frames: list[Given] = []
    used = 0
    for portion in sorted(portions, key=lambda each: each.place):
        by = numbers.first + used
        frames += [Given(source, shifted(frame, by, states)) for source, frame in portion.frames]
        used += portion.rows
        if used > numbers.room:
            raise StateError(
                "ARRIVALS_EXHAUSTED",
                f"a micro-batch has {used} rows or more, and {max(numbers.room, 0)} arrival numbers are left for it",
                "limit the size of micro-batches, or begin with an empty checkpoint",
            )
    return frames


def shifted(frame: Frame, by: int, states: Collection[str]) -> Frame:
    """The frame with `by` added to all arrival numbers: the column ARRIVAL, and state columns named `states`."""
    if not isinstance(frame, Rows | TriggerTimes | Partials | MaybeLateRows | GroupRequests | SideRows) or not by:
        return frame
    batch = frame.batch
    for index, name in enumerate(batch.schema.names):
        if name == c.ARRIVAL or name in states:
            batch = batch.set_column(index, batch.schema.field(index), _added(batch.column(index), by))
    return frame if batch is frame.batch else replace(frame, batch=batch)


def _added(numbers: pa.Array, by: int) -> pa.Array:
    if not pa.types.is_list(numbers.type):
        return pc.add(numbers, pa.scalar(by, pa.int64()))
    return pa.Array.from_buffers(
        numbers.type, len(numbers), numbers.buffers()[:2], offset=numbers.offset, children=[_added(numbers.values, by)]
    )
