"""Runs and their pieces, and how they are read: by ranges of hashes, or by the hashes of some groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.hashing import UInt64s
from windowpane.core.narrowing import widen
from windowpane.core.rows import select, take
from windowpane.core.run_content import Content
from windowpane.core.windows.ranges import expand

Bools = npt.NDArray[np.bool_]
ALL_HASHES = 1 << 64


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


class RunReader:
    """`read` gives the content of a stored piece, which may have narrowed columns, as what is read here may have."""

    def __init__(self, content: Content, read: Callable[[str], pa.RecordBatch]) -> None:
        self._content, self._read = content, read

    def parts(self, runs: Sequence[Run], low: int, high: int) -> list[pa.RecordBatch]:
        """The rows of the runs in a range of hashes, in order of age."""
        found: list[pa.RecordBatch] = []
        for run in runs:
            if run.is_sorted:
                found += self._sorted_parts(run, low, min(high, run.bound))
                found += self.parts(run.inputs, max(low, run.bound), high)
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
        rows = self.loaded(run.pieces[0])
        if low == 0 and high == ALL_HASHES:
            return rows
        hashes = self._content.hashes(rows)
        mask = hashes >= np.uint64(low)
        return select(rows, mask if high == ALL_HASHES else mask & (hashes < np.uint64(high)))

    def found(self, run: Run, hashes: UInt64s) -> Iterator[pa.RecordBatch]:
        """The rows of a run that have these hashes, which are sorted."""
        if not run.is_sorted:
            rows = self.loaded(run.pieces[0])
            yield select(rows, _are_in(hashes, self._content.hashes(rows)))
            return
        begin = 0
        for piece in run.pieces:
            end = len(hashes) if piece.high >= ALL_HASHES else int(np.searchsorted(hashes, np.uint64(piece.high)))
            if end > begin:
                yield self._rows_with(piece, hashes[begin:end])
            begin = end
        for each in run.inputs:
            yield from self.found(each, hashes[begin:])

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

    def loaded(self, piece: Piece) -> pa.RecordBatch:
        """The rows of a small run, which stay in memory."""
        if piece.batch is None:
            piece.batch = widen(self._stored(piece))
        return piece.batch


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
