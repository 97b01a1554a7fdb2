"""Which shard a frame goes to, when a shuffle brings rows together that agree in some columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.frames import (
    AdmittedGroups,
    Emissions,
    Frame,
    GroupRequests,
    MaybeLateRows,
    Partials,
    Progress,
    Rows,
    SideRows,
    TriggerTimes,
)
from windowpane.core.hashing import shard_of
from windowpane.core.rows import flags, select, take
from windowpane.errors import InternalError


@dataclass(frozen=True)
class Route:
    """How a shuffle spreads the frames of one entry over the shards behind it."""

    by: tuple[str, ...] = ()
    """Columns whose values determine the shard. Without any, all rows go to shard 0."""
    broadcast: bool = False
    """All rows that trigger a sliding window are announced to every shard."""
    stage: str = ""
    """The stage whose rows have these columns. Rows of another stage may have others of the same names."""

    def split(
        self, frames: Iterable[Frame], shards: int, home: int, *, before: Route | None = None
    ) -> list[list[Frame]]:
        """Frames by shard: data by its keys, side rows to `home`, progress and announced triggers to all.

        `before`: how rows have come to `home`. Those that came this way stay there.
        """
        routed: list[list[Frame]] = [[] for _ in range(shards)]
        for frame in frames:
            if isinstance(frame, Rows) and before == self and not self.broadcast:
                routed[home].append(frame)
                continue
            for shard, part in self._parts(frame, shards, home):
                routed[shard].append(part)
        return routed

    def _parts(self, frame: Frame, shards: int, home: int) -> Iterator[tuple[int, Frame]]:
        match frame:
            case Progress():
                yield from ((shard, frame) for shard in range(shards))
            case SideRows():
                yield home, frame
            case GroupRequests():
                yield from _split(frame, (c.WINDOW_KEY,), shards)
            case Emissions():
                yield from _split(frame, self.by, shards)
            case Rows() | Partials() | MaybeLateRows() | AdmittedGroups():
                yield from _split(frame, self.by, shards)
                if self.broadcast:
                    triggers = TriggerTimes(_triggering(frame.batch))
                    yield from ((shard, triggers) for shard in range(shards))
            case _:
                raise InternalError("ROUTE", f"{frame} does not cross a shuffle")


def _split(
    frame: Rows | Partials | MaybeLateRows | GroupRequests | AdmittedGroups | Emissions,
    by: tuple[str, ...],
    shards: int,
) -> Iterator[tuple[int, Frame]]:
    batch = frame.batch
    owner = shard_of([batch.column(name) for name in by], batch.num_rows, shards)
    counts = np.bincount(owner, minlength=shards)
    ordered = batch if counts.max() == batch.num_rows else take(batch, np.argsort(owner, kind="stable"))
    starts = np.cumsum(counts) - counts
    for shard in np.flatnonzero(counts).tolist():
        yield shard, type(frame)(ordered.slice(int(starts[shard]), int(counts[shard])))


def _triggering(rows: pa.RecordBatch) -> pa.RecordBatch:
    times = rows.select([c.EVENT_TIME, c.ARRIVAL])
    return select(times, flags(rows, c.WHEN)) if c.WHEN in rows.schema.names else times
