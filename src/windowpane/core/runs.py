"""Rows of one pane in runs: micro-batches append, groups are looked up, and large content is read in parts.

A small run has its rows as they came. A larger one has them sorted by the hash of their group and cut into pieces, so
that a look-up reads few of them, and a range of hashes can be read alone. A piece never changes.

Runs are ordered by age. Small ones are merged as in a binary counter, larger ones as soon as together they reach the
next power of FAN_IN: a row is rewritten a logarithmic number of times. Such a merge takes many micro-batches, each of
which merges a few ranges of hashes. Meanwhile the new run has the groups below its bound, and its inputs the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.hashing import UInt64s
from windowpane.core.rows import take
from windowpane.core.run_content import Choice, Content
from windowpane.core.run_reading import ALL_HASHES, Piece, Run, RunReader

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SMALL_ROWS = 1 << 14
"""A run with as many rows is sorted."""
PIECE_ROWS = 1 << 17
"""Rows of a piece, and of a range of hashes that is read or merged at once."""
FAN_IN = 8


class Runs:
    """The runs of one pane. `read` gives the content of a stored piece, which may have narrowed columns."""

    def __init__(self, content: Content, read: Callable[[str], pa.RecordBatch], runs: Sequence[Run] = ()) -> None:
        self._content, self._reader = content, RunReader(content, read)
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
        return self._content.merged(self._reader.parts(self._runs, low, high), chosen)

    def lookup(self, hashes: UInt64s) -> pa.RecordBatch | None:
        """The rows of all groups with these hashes, which are sorted. Some may be of other groups."""
        return self._content.merged([part for run in self._runs for part in self._reader.found(run, hashes)])

    def found(self, hashes: UInt64s, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """As `lookup`, but only some columns, and nothing is merged. The instants must be among them."""
        parts = (part for run in self._runs for part in self._reader.found(run, hashes))
        return self._content.kept(part.select(columns) for part in parts)

    def _is_small(self, run: Run, rows: int) -> bool:
        """Whether a run is merged with new ones that have `rows` rows. Older versions did not sort large runs."""
        return run.rows <= rows or run.rows >= SMALL_ROWS

    def _merge_small(self, first: int) -> None:
        """The runs from this one on, none of which is sorted, become one."""
        taken = self._runs[first:]
        if len(taken) > 1:
            merged = self._content.merged([self._reader.loaded(run.pieces[0]) for run in taken])
            self._runs[first:] = [] if merged is None else [_unsorted(taken[0].first, taken[-1].last, merged)]
            self.changed = True
        if self._runs and not self._runs[-1].is_sorted and self._runs[-1].rows >= SMALL_ROWS:
            self._sort_last()

    def _sort_last(self) -> None:
        run = self._runs[-1]
        whole = self._reader.loaded(run.pieces[0])
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
        parts = self._reader.parts(run.inputs, low, high)
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
