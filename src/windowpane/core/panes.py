"""State by pane, which is an interval of time or a window: appended to in micro-batches, read when the pane closes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core import blob
from windowpane.core.hashing import UInt64s
from windowpane.core.rescaling import Owned
from windowpane.core.rows import joined, take
from windowpane.core.run_content import Choice, Content
from windowpane.core.run_reading import ALL_HASHES, Piece, Run
from windowpane.core.runs import PIECE_ROWS, Runs
from windowpane.core.segments import DIGEST
from windowpane.core.state import StateEntries

Int64s = npt.NDArray[np.int64]

SHORTEST_US = 1_000_000
"""Shorter panes of time would be too many, if rows may come late by much more than that."""
_BATCH = "run"
_UNSORTED = "-"


class Panes:
    """One entry per piece, named `PANE.FIRST.LAST.HIGH.ROWS#DIGEST`; `-` for HIGH if it is not sorted.

    `prefix`: what the names of all entries begin with, for operators with several kinds.
    """

    def __init__(self, content: Content, prefix: str = "") -> None:
        self._content, self._prefix = content, prefix
        self._panes: dict[int, Runs] = {}
        self._stored: dict[int, set[str]] = {}
        """The entries of each pane."""
        self._dropped: list[str] = []
        self._entries: StateEntries | None = None

    def starts(self) -> list[int]:
        """All panes, sorted."""
        return sorted(self._panes)

    def __contains__(self, pane: int) -> bool:
        return pane in self._panes

    def rows(self, panes: Iterable[int]) -> int:
        """How many rows these have at most."""
        return sum(self._panes[pane].rows for pane in panes)

    def append(self, pane: int, delta: pa.RecordBatch) -> None:
        if pane not in self._panes:
            self._panes[pane] = Runs(self._content, self._read)
        self._panes[pane].append(delta)

    def append_by(self, panes: Int64s, rows: pa.RecordBatch) -> None:
        """Append each row to its pane."""
        if not rows.num_rows:
            return
        if (panes != panes[0]).any():
            order = np.argsort(panes, kind="stable")
            panes, rows = panes[order], take(rows, order)
        bounds = np.flatnonzero(np.concatenate([[True], panes[1:] != panes[:-1], [True]])).tolist()
        for low, high in pairwise(bounds):
            self.append(int(panes[low]), rows.slice(low, high - low))

    def state(self, pane: int) -> pa.RecordBatch | None:
        """All of a pane; None if no row of it is needed."""
        return self._panes[pane].whole()

    def ranges(self, panes: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Ranges of hashes, each of which has few rows of these panes."""
        count = self.rows(panes) // PIECE_ROWS + 1
        return pairwise([ALL_HASHES * number // count for number in range(count + 1)])

    def between(self, pane: int, low: int, high: int, chosen: Choice | None = None) -> pa.RecordBatch | None:
        """The groups of a pane whose hashes are in [low, high), or those of them whose instants are chosen."""
        return self._panes[pane].between(low, high, chosen)

    def parts(self, panes: Sequence[int], chosen: Choice | None = None) -> Iterator[pa.RecordBatch]:
        """All rows of these panes, or those whose instants are chosen, some at a time, those of a group at once."""
        found: list[pa.RecordBatch] = []
        for low, high in self.ranges(panes):
            parts = [self.between(pane, low, high, chosen) for pane in panes]
            found += [part for part in parts if part is not None]
            if sum(part.num_rows for part in found) > PIECE_ROWS // 2:
                yield joined(found)
                found = []
        if found:
            yield joined(found)

    def measure(self, panes: Sequence[int] | None = None) -> tuple[int, int]:
        """Rows of some panes, or of all, and their bytes in memory. Reads them, some at a time."""
        rows, size = 0, 0
        for part in self.parts(self.starts() if panes is None else panes):
            rows, size = rows + part.num_rows, size + part.nbytes
        return rows, size

    def hashes(self, rows: pa.RecordBatch) -> UInt64s:
        """For `lookup`: the hashes of the groups that occur in `rows`."""
        return np.unique(self._content.hashes(rows))

    def lookup(self, pane: int, hashes: UInt64s) -> pa.RecordBatch | None:
        """The groups of a pane that have these hashes, which are sorted."""
        return self._panes[pane].lookup(hashes)

    def found(self, pane: int, hashes: UInt64s, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """As `lookup`, but only some columns, and nothing is merged. The instants must be among them."""
        return self._panes[pane].found(hashes, columns)

    def drop(self, pane: int) -> None:
        del self._panes[pane]
        self._dropped += self._stored.pop(pane, set())

    def clear(self) -> None:
        for pane in self.starts():
            self.drop(pane)

    def load(self, entries: StateEntries) -> None:
        """Take up the panes of an earlier micro-batch, unread."""
        self._entries, self._panes, self._stored, self._dropped = entries, {}, {}, []
        runs: dict[int, dict[tuple[int, int], Run]] = {}
        for name in entries.names():
            if not name.startswith(self._prefix) or not _is_pane(name.removeprefix(self._prefix)):
                continue
            pane, run, piece = self._parsed(name)
            runs.setdefault(pane, {}).setdefault((run.first, run.last), run).pieces.append(piece)
            self._stored.setdefault(pane, set()).add(name)
        for pane, found in runs.items():
            for run in found.values():
                run.pieces.sort(key=lambda piece: piece.high)
            self._panes[pane] = Runs(self._content, self._read, list(found.values()))

    def save(self, entries: StateEntries) -> None:
        """Write the pieces that are new, and remove those that are gone."""
        for pane, runs in sorted(self._panes.items()):
            if runs.changed:
                kept = {self._written(entries, pane, run, piece) for run, piece in runs.pieces()}
                self._dropped += self._stored.pop(pane, set()) - kept
                self._stored[pane] = kept
                runs.changed = False
        for name in sorted(self._dropped):
            entries.remove(name)
        self._entries, self._dropped = entries, []

    def take_over(self, others: Sequence[Panes], owned: Owned | None, entries: StateEntries) -> None:
        """As of `Divisible`."""
        for pane in sorted({pane for other in others for pane in other.starts()}):
            unsaved = 0
            for part in (part for other in others if pane in other.starts() for part in other.parts([pane])):
                mine = part if owned is None else owned.rows(part, pane)
                if mine.num_rows:
                    self.append(pane, mine)
                unsaved += mine.num_rows
                if unsaved >= PIECE_ROWS:
                    self._put_away(entries)
                    unsaved = 0
            self._put_away(entries)

    def _put_away(self, entries: StateEntries) -> None:
        """Save, and keep nothing in memory."""
        self.save(entries)
        for runs in self._panes.values():
            for _, piece in runs.pieces():
                piece.batch = None

    def _written(self, entries: StateEntries, pane: int, run: Run, piece: Piece) -> str:
        """The name of a piece's entry, which is written if it is not stored yet."""
        if piece.entry is None:
            data = blob.pack(blob.State({}, {_BATCH: piece.batch}))
            high = f"{piece.high:x}" if run.is_sorted else _UNSORTED
            digest = blake2b(data, digest_size=16).hexdigest()
            piece.entry = f"{self._prefix}{pane}.{run.first}.{run.last}.{high}.{piece.rows}{DIGEST}{digest}"
            entries.write(piece.entry, data)
        return piece.entry

    def _read(self, entry: str) -> pa.RecordBatch:
        assert self._entries is not None
        return self._content.current(blob.unpack(self._entries.read(entry), widened=False).batches[_BATCH])

    def _parsed(self, name: str) -> tuple[int, Run, Piece]:
        """Older versions called an entry `PANE.NUMBER.ROWS`, or even `PANE.NUMBER`."""
        parts = name.removeprefix(self._prefix).partition(DIGEST)[0].split(".")
        if len(parts) < 4:
            number, rows = int(parts[1]), parts[2] if len(parts) > 2 else None
            count = self._read(name).num_rows if rows is None else int(rows)
            return int(parts[0]), Run(number, number, is_sorted=False), Piece(count, ALL_HASHES, entry=name)
        pane, first, last, high, rows = parts
        is_sorted = high != _UNSORTED
        bound = int(high, 16) if is_sorted else ALL_HASHES
        return int(pane), Run(int(first), int(last), is_sorted=is_sorted), Piece(int(rows), bound, entry=name)


def _is_pane(name: str) -> bool:
    """Names of panes begin with a number. The header's name, and those with a prefix, do not."""
    return name[:1].isdigit() or name[:1] == "-"


def pane_width_us(wanted_us: int, longest_us: int) -> int:
    """The length of panes of time: as wanted, but at least a second, and at most `longest_us` if that is shorter."""
    return max(wanted_us, min(longest_us, SHORTEST_US))
