"""Rows of one pane in runs: micro-batches append, groups are looked up, and large content is read in parts.

A small run has its rows as they came. A larger one has them sorted by the hash of their group and cut into pieces, so
that a look-up reads few of them, and a range of hashes can be read alone. A piece never changes.

Runs are ordered by age. Small ones are merged as in a binary counter, larger ones as soon as together they reach the
next power of FAN_IN: a row is rewritten a logarithmic number of times. Such a merge takes many micro-batches, each of
which merges a few ranges of hashes. Meanwhile the new run has the groups below its bound, and its inputs the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.hashing import UInt64s, hash_rows
from windowpane.core.narrowing import widen
from windowpane.core.rows import concat, select, take
from windowpane.core.windows.ranges import expand

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Choice = Callable[[Int64s], Bools]
"""Which rows, by their instants."""

SMALL_ROWS = 1 << 14
"""A run with as many rows is sorted."""
PIECE_ROWS = 1 << 17
"""Rows of a piece, and of a range of hashes that is read or merged at once."""
FAN_IN = 8
ALL_HASHES = 1 << 64


@dataclass(frozen=True)
class Content:
    """What the rows are, and what may be done with them."""

    merge: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
    """Batches in order of age to one in which nothing can be merged further."""
    keys: tuple[str, ...]
    """Columns of the group."""
    time: str | None = None
    """A column of instants, by which rows are chosen."""
    is_needed: Choice | None = None
    """Rows that still count, by their `time`. The others may stay stored, but are not read."""

    def hashes(self, rows: pa.RecordBatch) -> UInt64s:
        return hash_rows([rows.column(name) for name in self.keys], rows.num_rows)

    def merged(self, parts: Iterable[pa.RecordBatch], chosen: Choice | None = None) -> pa.RecordBatch | None:
        """Stored rows as one batch, those of them that are needed and chosen; None if there are none."""
        kept = self.kept(parts, chosen)
        merged = self.merge(kept) if kept else None
        return merged if merged is not None and merged.num_rows else None

    def kept(self, parts: Iterable[pa.RecordBatch], chosen: Choice | None = None) -> list[pa.RecordBatch]:
        """Stored rows that are needed and chosen, not merged."""
        selected = [self._selected(part, chosen) for part in parts]
        return [widen(part) for part in selected if part.num_rows]

    def _selected(self, rows: pa.RecordBatch, chosen: Choice | None) -> pa.RecordBatch:
        for choice in (self.is_needed, chosen):
            if choice is not None and self.time is not None and rows.num_rows:
                times: Int64s = widen(rows.select([self.time])).column(0).to_numpy()
                rows = select(rows, choice(times))
        return rows


@dataclass
class Piece:
    """Part of a run. In sorted runs its first column is the hash, and pieces follow each other by `high`."""

    rows: int
    high: int
    """All its hashes are below."""
    batch: pa.RecordBatch | None = None
    """None: not read. Pieces that are read are not kept."""
    entry: str | None = None
    """The name under which it is stored, if it is."""


@dataclass
class Run:
    """Rows that came one after the other. It has the numbers of the appended batches that are in it."""

    first: int
    last: int
    is_sorted: bool
    pieces: list[Piece] = field(default_factory=list)
    inputs: list[Run] = field(default_factory=list)
    """Runs that are being merged into this one: they have the groups whose hash is not below `bound`."""
    bound: int = ALL_HASHES

    @property
    def rows(self) -> int:
        """At most so many."""
        return sum(piece.rows for piece in self.pieces) + sum(run.rows for run in self.inputs)

    def all_pieces(self) -> Iterator[Piece]:
        yield from self.pieces
        for run in self.inputs:
            yield from run.pieces


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """For contents of which nothing is merged."""
    whole = concat(batches)
    assert whole is not None
    return whole


class Runs:
    """The runs of one pane. `read` gives the content of a stored piece, which may have narrowed columns."""

    def __init__(self, content: Content, read: Callable[[str], pa.RecordBatch], runs: Sequence[Run] = ()) -> None:
        self._content, self._read = content, read
        self._runs = _nested(runs)
        self.changed = False

    @property
    def rows(self) -> int:
        """At most so many rows: a group may have one in each run."""
        return sum(run.rows for run in self._runs)

    def pieces(self) -> Iterator[tuple[Run, Piece]]:
        for run in self._runs:
            for each in (run, *run.inputs):
                yield from ((each, piece) for piece in each.pieces)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows, and merge what is due."""
        number = self._runs[-1].last + 1 if self._runs else 0
        first, rows = len(self._runs), batch.num_rows
        while first > 0 and not self._runs[first - 1].is_sorted and self._is_small(self._runs[first - 1], rows):
            first -= 1
            rows += self._runs[first].rows
        self._runs.append(_unsorted(number, number, batch))
        self._merge_small(first)
        self.changed = True

    def whole(self) -> pa.RecordBatch | None:
        """All rows. A pane whose runs are all small has one run then."""
        if len(self._runs) > 1 and not any(run.is_sorted for run in self._runs):
            self._merge_small(0)
        return self.between(0, ALL_HASHES)

    def between(self, low: int, high: int, chosen: Choice | None = None) -> pa.RecordBatch | None:
        """The rows of all groups whose hash is in [low, high), or those of them whose instants are chosen."""
        return self._content.merged(self._parts(self._runs, low, high), chosen)

    def lookup(self, hashes: UInt64s) -> pa.RecordBatch | None:
        """The rows of all groups with these hashes, which are sorted. Some may be of other groups."""
        return self._content.merged([part for run in self._runs for part in self._found(run, hashes)])

    def found(self, hashes: UInt64s, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """As `lookup`, but only some columns, and nothing is merged. The instants must be among them."""
        parts = (part for run in self._runs for part in self._found(run, hashes))
        return self._content.kept(part.select(columns) for part in parts)

    def _is_small(self, run: Run, rows: int) -> bool:
        """Whether a run is merged with new ones that have `rows` rows. Older versions did not sort large runs."""
        return run.rows <= rows or run.rows >= SMALL_ROWS

    def _merge_small(self, first: int) -> None:
        """The runs from this one on, none of which is sorted, become one."""
        taken = self._runs[first:]
        if len(taken) > 1:
            merged = self._content.merged([self._loaded(run.pieces[0]) for run in taken])
            self._runs[first:] = [] if merged is None else [_unsorted(taken[0].first, taken[-1].last, merged)]
            self.changed = True
        if self._runs and not self._runs[-1].is_sorted and self._runs[-1].rows >= SMALL_ROWS:
            self._sort_last()

    def _sort_last(self) -> None:
        run = self._runs[-1]
        whole = self._loaded(run.pieces[0])
        self._runs[-1] = Run(run.first, run.last, is_sorted=True, pieces=self._sorted_pieces(whole))
        self.changed = True
        # Each level has to merge as many rows as come, or it would fall behind.
        levels = 2 + int(math.log(max(self.rows / whole.num_rows, 1), FAN_IN))
        self._merge_sorted(levels * whole.num_rows)

    def _sorted_pieces(self, rows: pa.RecordBatch, high: int = ALL_HASHES) -> list[Piece]:
        hashes = self._content.hashes(rows)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        ordered = take(rows, order).add_column(0, c.HASH, pa.array(hashes))
        cuts = _cuts(hashes)
        bounds = [*(int(hashes[cut]) for cut in cuts[1:-1]), high]
        return [
            Piece(end - begin, bound, ordered.slice(begin, end - begin))
            for begin, end, bound in zip(cuts, cuts[1:], bounds, strict=False)
        ]

    def _merge_sorted(self, allowance: int) -> None:
        """Advance merges of sorted runs, the newest first, by about `allowance` rows."""
        while allowance > 0:
            self._start_merge()
            under_way = [at for at, run in enumerate(self._runs) if run.inputs]
            if not under_way:
                return
            allowance -= self._merge_range(self._runs[under_way[-1]])

    def _start_merge(self) -> None:
        """Begin to merge the newest runs, if together they have the rows of a run of the next level."""
        begin = max((at + 1 for at, run in enumerate(self._runs) if run.inputs), default=0)
        at, rows, limit = len(self._runs), 0, SMALL_ROWS * FAN_IN
        while at > begin:
            while at > begin and self._runs[at - 1].rows < limit:
                at -= 1
                rows += self._runs[at].rows
            if rows >= limit and len(self._runs) - at > 1:
                taken = self._runs[at:]
                self._runs[at:] = [Run(taken[0].first, taken[-1].last, is_sorted=True, inputs=taken, bound=0)]
                return
            limit *= FAN_IN

    def _merge_range(self, run: Run) -> int:
        """Merge the next range of hashes of a run's inputs. Gives the number of rows that were read."""
        low = run.bound
        high = min(low + ALL_HASHES * PIECE_ROWS // max(run.rows, PIECE_ROWS), ALL_HASHES)
        parts = self._parts(run.inputs, low, high)
        merged = self._content.merged(parts)
        if merged is not None:
            run.pieces += self._sorted_pieces(merged, high)
        for each in run.inputs:
            each.pieces = [piece for piece in each.pieces if piece.high > high]
        run.bound = high
        if high == ALL_HASHES:
            run.inputs = []
        self.changed = True
        return sum(part.num_rows for part in parts)

    def _parts(self, runs: Sequence[Run], low: int, high: int) -> list[pa.RecordBatch]:
        """The rows of the runs in a range of hashes, in order of age."""
        found: list[pa.RecordBatch] = []
        for run in runs:
            if run.is_sorted:
                found += self._sorted_parts(run, low, min(high, run.bound))
                found += self._parts(run.inputs, max(low, run.bound), high)
            else:
                found.append(self._unsorted_part(run, low, high))
        return found

    def _sorted_parts(self, run: Run, low: int, high: int) -> Iterator[pa.RecordBatch]:
        below = 0
        for piece in run.pieces:
            if below < high and piece.high > low:
                batch = self._stored(piece)
                hashes = _hashes(batch)
                begin = int(np.searchsorted(hashes, np.uint64(low))) if low > 0 else 0
                end = int(np.searchsorted(hashes, np.uint64(high))) if high < ALL_HASHES else len(hashes)
                yield _content_of(batch.slice(begin, max(end - begin, 0)))
            below = piece.high

    def _unsorted_part(self, run: Run, low: int, high: int) -> pa.RecordBatch:
        rows = self._loaded(run.pieces[0])
        if low == 0 and high == ALL_HASHES:
            return rows
        hashes = self._content.hashes(rows)
        mask = hashes >= np.uint64(low)
        return select(rows, mask if high == ALL_HASHES else mask & (hashes < np.uint64(high)))

    def _found(self, run: Run, hashes: UInt64s) -> Iterator[pa.RecordBatch]:
        if not run.is_sorted:
            rows = self._loaded(run.pieces[0])
            yield select(rows, _are_in(hashes, self._content.hashes(rows)))
            return
        begin = 0
        for piece in run.pieces:
            end = len(hashes) if piece.high >= ALL_HASHES else int(np.searchsorted(hashes, np.uint64(piece.high)))
            if end > begin:
                yield self._rows_with(piece, hashes[begin:end])
            begin = end
        for each in run.inputs:
            yield from self._found(each, hashes[begin:])

    def _rows_with(self, piece: Piece, hashes: UInt64s) -> pa.RecordBatch:
        batch = self._stored(piece)
        present = _hashes(batch)
        hashes = hashes[_are_in(present, hashes)]
        low, high = np.searchsorted(present, hashes), np.searchsorted(present, hashes, side="right")
        return _content_of(take(batch, expand(low, high)[1]))

    def _stored(self, piece: Piece) -> pa.RecordBatch:
        if piece.batch is not None:
            return piece.batch
        assert piece.entry is not None
        return self._read(piece.entry)

    def _loaded(self, piece: Piece) -> pa.RecordBatch:
        """The rows of a small run, which stay in memory."""
        if piece.batch is None:
            piece.batch = widen(self._stored(piece))
        return piece.batch


def _nested(runs: Sequence[Run]) -> list[Run]:
    """Runs in order of age, those that are being merged within the run they become."""
    found: list[Run] = []
    for run in sorted(runs, key=lambda each: (each.first, -each.last)):
        if found and run.last <= found[-1].last:
            found[-1].inputs.append(run)
            found[-1].bound = found[-1].pieces[-1].high
        else:
            found.append(run)
    return found


def _unsorted(first: int, last: int, rows: pa.RecordBatch) -> Run:
    return Run(first, last, is_sorted=False, pieces=[Piece(rows.num_rows, ALL_HASHES, rows)])


def _cuts(hashes: UInt64s) -> list[int]:
    """Where sorted rows are cut into pieces: equal hashes stay together."""
    cuts = [0]
    while len(hashes) - cuts[-1] > PIECE_ROWS + SMALL_ROWS:
        cut = int(np.searchsorted(hashes, hashes[cuts[-1] + PIECE_ROWS]))
        if cut <= cuts[-1]:
            cut = int(np.searchsorted(hashes, hashes[cuts[-1]], side="right"))
        if cut >= len(hashes):
            break
        cuts.append(cut)
    return [*cuts, len(hashes)]


def _are_in(ordered: UInt64s, hashes: UInt64s) -> Bools:
    """Which of `hashes` are among the ordered ones."""
    at = np.searchsorted(ordered, hashes)
    at[at == len(ordered)] = 0
    return ordered[at] == hashes if len(ordered) else np.zeros(len(hashes), bool)


def _hashes(batch: pa.RecordBatch) -> UInt64s:
    values: UInt64s = batch.column(0).to_numpy()
    return values


def _content_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A sorted batch without its hashes."""
    return batch.drop_columns([c.HASH])
