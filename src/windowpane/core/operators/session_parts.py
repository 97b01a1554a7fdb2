"""The open sessions, in parts: what a micro-batch adds to a session is stored beside what is there, and joined later.

Parts of one group that overlap belong to one session. They are joined when the watermark reaches one of them: it is
closed with the others, or carried on, if one of the others is still open. Parts lie in panes by their last instant, so
that those the watermark reaches are found without reading the rest.

The bounds of a part may exceed its rows, never those of its session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.groups import Groups
from windowpane.core.operators.sessions import LEADING, SessionPlan, any_member
from windowpane.core.panes import Panes, pane_width_us
from windowpane.core.rescaling import Divisible
from windowpane.core.rows import concat, int64s, joined, select
from windowpane.core.run_content import Content
from windowpane.core.state import StateEntries
from windowpane.core.windows.session import Segments, merged_sessions

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BOOKED = [*LEADING, c.EPOCH]
"""Leading columns of a part: bounds of the session as far as they are known, and emissions so far."""
PANES_PER_GAP = 8
COUNTED = 4096
"""Sessions are counted exactly if they have no more parts than this."""


@dataclass(frozen=True)
class Joined:
    """Parts, and the sessions they are of: `found.groups.ids[i]` is the session of part i."""

    parts: pa.RecordBatch
    found: Segments


class Merging(Protocol):
    """What parts are merged with: an aggregator, or less if parts have bounds alone."""

    def merge_groups(
        self, states: pa.RecordBatch, groups: Groups, heads: Sequence[pa.Array], leading: Sequence[str]
    ) -> pa.RecordBatch:
        """See `Aggregator`."""


class SessionParts:
    """Parts of sessions, those that the watermark `judged_us` has not closed.

    `prefix`: what the names of their entries begin with, for operators that have others.
    """

    def __init__(
        self, plan: SessionPlan, aggregator: Merging, prefix: str = "", *, states: frozenset[str] | None = None
    ) -> None:
        self._plan, self._aggregator = plan, aggregator
        self.judged_us: int | None = None
        """The watermark before the current micro-batch. Sessions that it has closed are gone."""
        content = Content(self._merge, tuple(plan.key_names), c.SESSION_LAST, self._is_open, states)
        self._panes = Panes(content, prefix)
        self._bounds = [*BOOKED, *plan.key_names]
        self._carried: list[pa.RecordBatch] = []
        self._width_us = pane_width_us(plan.gap_us // PANES_PER_GAP, plan.gap_us)

    def append(self, parts: pa.RecordBatch) -> None:
        self._panes.append_by(int64s(parts, c.SESSION_LAST) // self._width_us, parts)

    def of_groups(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """All parts of the groups that occur in `rows`, maybe of some others too."""
        return self._lookup(self._panes.starts(), rows)

    def closed(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """The sessions that a new watermark closes. Other parts that it reaches are carried on with their sessions.

        Those are appended by `close`: beside the parts that they were made of, they would count twice.
        """
        for parts, others in self._reached(watermark_us):
            bounds = joined([parts.select(self._bounds), *others])
            found = self.join(bounds).found
            own = Joined(parts, found.of_first(parts.num_rows))
            done = self._plan.closed_for(found.last, watermark_us)[own.found.groups.ids]
            if not done.all():
                self._carried.append(self.merged(own, ~done))
            if done.any():
                yield self.merged(own, done)

    def _reached(self, watermark_us: int) -> Iterator[tuple[pa.RecordBatch, list[pa.RecordBatch]]]:
        """Parts that a new watermark would close if they were alone, each time with the open parts of their groups."""
        starts = self._panes.starts()
        ending = [pane for pane in starts if self._closes(pane * self._width_us, watermark_us)]
        going_on = [pane for pane in starts if not self._closes((pane + 1) * self._width_us - 1, watermark_us)]
        for parts in self._panes.parts(ending, lambda last: self._plan.closed_for(last, watermark_us)):
            hashes = self._panes.hashes(parts)
            others = [other for pane in going_on for other in self._panes.found(pane, hashes, self._bounds)]
            yield parts, [self._unreached(other, watermark_us) for other in others]

    def _unreached(self, parts: pa.RecordBatch, watermark_us: int) -> pa.RecordBatch:
        return select(parts, ~self._plan.closed_for(int64s(parts, c.SESSION_LAST), watermark_us))

    def close(self, watermark_us: int | None) -> None:
        """Forget the parts that the watermark has reached, after `closed`."""
        self.judged_us = watermark_us
        if watermark_us is not None:
            for pane in self._panes.starts():
                if self._closes((pane + 1) * self._width_us - 1, watermark_us):
                    self._panes.drop(pane)
        for parts in self._carried:
            self.append(parts)
        self._carried = []

    def all(self) -> Iterator[pa.RecordBatch]:
        """All parts, those of a group at once."""
        return self._panes.parts(self._panes.starts())

    def is_empty(self) -> bool:
        return not self._panes.starts()

    def clear(self) -> None:
        self._panes.clear()

    def count(self) -> int:
        """Open sessions. With many of them, their parts, which may be more."""
        rows = self._panes.rows(self._panes.starts())
        return rows if rows > COUNTED else sum(self.join(parts).found.groups.count for parts in self.all())

    def join(self, parts: pa.RecordBatch) -> Joined:
        """Find the sessions of parts."""
        start, last = int64s(parts, c.SESSION_START), int64s(parts, c.SESSION_LAST)
        return Joined(parts, merged_sessions(self._plan.grouped(parts)[0], start, last, self._plan.gap_us))

    def merged(self, sessions: Joined, chosen: Bools) -> pa.RecordBatch:
        """One part for each session that has chosen parts, of these alone, with the bounds of the session."""
        rows = np.flatnonzero(chosen)
        numbers, ids = np.unique(sessions.found.groups.ids[rows], return_inverse=True)
        parts, groups = select(sessions.parts, chosen), Groups(ids, len(numbers))
        epochs = np.zeros(groups.count, np.int64)
        np.maximum.at(epochs, ids, int64s(parts, c.EPOCH))
        heads = [pa.array(column) for column in (sessions.found.first[numbers], sessions.found.last[numbers], epochs)]
        member = pa.array(any_member(groups))
        heads += [parts.column(name).take(member) for name in self._plan.key_names]
        return self._aggregator.merge_groups(parts, groups, heads, BOOKED)

    def save(self, entries: StateEntries) -> None:
        self._panes.save(entries)

    def load(self, entries: StateEntries) -> None:
        self._panes.load(entries)

    def divided(self) -> tuple[Divisible, ...]:
        """What shards have different rows of."""
        return (self._panes,)

    def _lookup(self, panes: Sequence[int], rows: pa.RecordBatch) -> pa.RecordBatch | None:
        hashes = self._panes.hashes(rows)
        return concat(part for pane in panes if (part := self._panes.lookup(pane, hashes)) is not None)

    def _merge(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        parts = joined(batches)
        sessions = self.join(parts)
        if sessions.found.groups.count == parts.num_rows:
            return parts
        return self.merged(sessions, np.ones(parts.num_rows, bool))

    def _is_open(self, last: Int64s) -> Bools:
        return ~self._plan.closed_for(last, self.judged_us)

    def _closes(self, last_us: int, watermark_us: int) -> bool:
        return bool(self._plan.closed_for(np.array([last_us]), watermark_us)[0])
