"""Frames on the wire: what one stage sends another as bytes. Order is kept, and nothing is pickled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from itertools import islice

import pyarrow as pa

from windowpane.core import blob
from windowpane.core.accounting import Accounting
from windowpane.core.frames import Emissions, Frame, MaybeLateRows, Partials, Progress, Rows, SideRows, TriggerTimes
from windowpane.core.numbering import Place, Portion
from windowpane.errors import InternalError

_DATA: dict[str, type[Rows | TriggerTimes | Partials | MaybeLateRows | Emissions | SideRows]] = {
    "rows": Rows,
    "triggers": TriggerTimes,
    "partials": Partials,
    "maybe_late_rows": MaybeLateRows,
    "emissions": Emissions,
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


def unpack_frames(data: bytes) -> tuple[list[Frame], Accounting, dict[str, object]]:
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


def pack_portions(portions: Sequence[Portion], counts: Accounting, **meta: object) -> bytes:
    """The frames of portions, with what is to be known to number them."""
    told = [[*astuple(portion.place), portion.rows, len(portion.frames)] for portion in portions]
    return pack_frames((frame for each in portions for frame in each.frames), counts, portions=told, **meta)


def unpack_portions(data: bytes) -> tuple[list[Portion], Accounting, dict[str, object]]:
    """What `pack_portions` was given."""
    frames, counts, meta = unpack_frames(data)
    told, rest, portions = meta.pop("portions"), iter(frames), list[Portion]()
    assert isinstance(told, list)
    for *place, rows, made in told:
        portions.append(Portion(Place(*place), rows, list(islice(rest, made))))
    return portions, counts, meta
