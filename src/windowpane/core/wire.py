"""Frames as bytes, for the way from one stage to another. Keeps their order, and pickles nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.accounting import Accounting
from windowpane.core.frames import (
    AdmittedGroups,
    ClosedStates,
    Emissions,
    Frame,
    Given,
    GroupRequests,
    MaybeLateRows,
    Partials,
    Progress,
    Rows,
    SideRows,
    TriggerTimes,
)
from windowpane.core.metadata import decode_record, encode_record
from windowpane.core.numbering import Numbers, Place, Portion
from windowpane.errors import InternalError

_Data: TypeAlias = (
    Rows
    | TriggerTimes
    | Partials
    | MaybeLateRows
    | GroupRequests
    | AdmittedGroups
    | Emissions
    | ClosedStates
    | SideRows
)
_DATA: dict[str, type[_Data]] = {
    "rows": Rows,
    "triggers": TriggerTimes,
    "partials": Partials,
    "maybe_late_rows": MaybeLateRows,
    "group_requests": GroupRequests,
    "admitted_groups": AdmittedGroups,
    "emissions": Emissions,
    "closed": ClosedStates,
    "side": SideRows,
}
_TAGS = {kind: tag for tag, kind in _DATA.items()}


def pack_frames(frames: Iterable[Frame], counts: Accounting, **meta: object) -> bytes:
    """Data and progress frames with the row counts of the stage that sends them; `meta` must be JSON."""
    tags: list[object] = []
    batches: dict[str, pa.RecordBatch] = {}
    for frame in frames:
        if isinstance(frame, Progress):
            tags.append(["progress", dict(frame.maxima)])
        elif (tag := _TAGS.get(type(frame))) is not None:  # type: ignore[arg-type]  # messages have no tag
            name = f"{len(tags):06}"
            batches[name] = frame.batch  # type: ignore[union-attr]
            tags.append([tag, name])
        else:
            raise InternalError("WIRE", f"{frame} does not travel")
    return blob.pack(blob.State({"frames": tags, "counts": counts.as_dict(), **meta}, batches))


def unpack_frames(data: blob.Blob) -> tuple[list[Frame], Accounting, dict[str, object]]:
    """What `pack_frames` was given."""
    state = blob.unpack(data)
    meta = dict(state.meta)
    tags, counts = meta.pop("frames"), meta.pop("counts")
    assert isinstance(tags, list)
    assert isinstance(counts, dict)
    frames: list[Frame] = []
    for tag, content in tags:
        frames.append(Progress(content) if tag == "progress" else _DATA[tag](state.batches[content]))
    return frames, Accounting(**counts), meta


def data_rows(frames: Iterable[Frame]) -> int:
    """Rows, partial accumulators and the like in the frames. Side rows have their outcome, and are left out."""
    return sum(frame.batch.num_rows for frame in frames if isinstance(frame, _CROSSING))


_CROSSING = (Rows, TriggerTimes, Partials, MaybeLateRows, GroupRequests, AdmittedGroups, Emissions)


@dataclass(frozen=True)
class StageMessage:
    """What a task of the source, or a shard, sends to one shard of the next stage in a micro-batch."""

    portions: Sequence[Portion]
    clock_us: int
    numbers: Numbers | None = None
    """The arrival numbers of the micro-batch; None if the rows are numbered, or if there are none."""
    counts: Accounting = field(default_factory=Accounting)
    tallies: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    """Where time stands after the micro-batch, by the entry of the next stage that it holds for."""
    latest_us: int | None = None
    """The largest event time of the rows that were read."""
    ends: bool = False
    """The transform ends with this micro-batch: it emits everything open, and its state is removed."""

    def pack(self) -> bytes:
        sizes = [[*portion.place.parts(), portion.rows, len(portion.frames)] for portion in self.portions]
        numbers = None if self.numbers is None else [self.numbers.first, self.numbers.room]
        sent = [given for portion in self.portions for given in portion.frames]
        message = _Message(
            self.clock_us, numbers, sizes, [given.source for given in sent], dict(self.tallies), dict(self.watermarks),
            self.latest_us, self.ends,
        )  # fmt: skip
        return pack_frames((given.frame for given in sent), self.counts, **encode_record(message))

    @classmethod
    def unpack(cls, data: blob.Blob) -> StageMessage:
        """What `pack` was called on."""
        frames, counts, meta = unpack_frames(data)
        message, portions = decode_record(_Message, meta), list[Portion]()
        rest = map(Given, message.sources, frames)
        for *place, rows, made in message.portions:
            portions.append(Portion(Place(*place), rows, list(islice(rest, made))))
        numbers = None if message.numbers is None else Numbers(*message.numbers)
        return cls(portions, message.clock_us, numbers, counts, message.tallies, message.watermarks, message.latest_us,
                   message.ends)  # fmt: skip


@dataclass(frozen=True)
class _Message:
    clock_us: int
    numbers: list[int] | None
    portions: list[list[Any]]
    """Of each portion its place, its rows, and how many frames it has."""
    sources: list[str]
    """Of each frame the entry of the next stage that takes it."""
    tallies: dict[str, int]
    watermarks: dict[str, int | None]
    latest_us: int | None = None
    ends: bool = False
