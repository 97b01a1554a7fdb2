"""Grouping: rows to dense group ids by key columns of any type. NULL is a group, -0.0 is 0.0, all NaNs are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core.key_codes import KeyCodes, combine, dense_limit, densify, key_codes

_CHUNK = 1 << 15
"""Rows that are processed at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True)
class Groups:
    """Dense group ids: `ids[i]` in [0, count) is the group of row i."""

    ids: npt.NDArray[np.int64]
    count: int

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Row numbers sorted by group, rows of one group in their own order."""
        return stable_order(self.ids, self.count)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many rows each group has."""
        return np.bincount(self.ids, minlength=self.count).astype(np.int64, copy=False)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """`order[offsets[g]:offsets[g+1]]` are the rows of group g."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @classmethod
    def sized(cls, ids: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Groups:
        """Groups whose sizes are known already."""
        groups = cls(ids, len(sizes))
        vars(groups)["sizes"] = sizes
        return groups

    def take(self, rows: npt.NDArray[np.int64]) -> Groups:
        """The same groups over a selection of rows (some may then have none)."""
        return Groups(self.ids[rows], self.count)


def stable_order(ids: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Rows sorted by ids in [0, count), equal ids in their own order.

    By 16 bits at a time, because only for those numpy's stable sort is a radix sort.
    """
    order = np.argsort(ids.astype(np.uint16), kind="stable")
    shift = 16
    while count > 1 << shift:
        digits = (ids >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order


def group_rows(keys: Sequence[pa.Array], length: int) -> tuple[Groups, npt.NDArray[np.int64]]:
    """Groups of rows with equal keys, in order of first appearance, and the row at which each group appears first.

    Without keys all rows are one group (none when there are no rows).
    """
    if not keys or length == 0:
        count = min(length, 1)
        return Groups(np.zeros(length, np.int64), count), np.zeros(count, np.int64)
    codes = reduce(combine, [part for key in keys for part in key_codes(key)])
    if not codes.dense and codes.radix <= dense_limit(length):
        return _number_by_lookup(codes)
    codes = densify(codes)
    return Groups(codes.codes, codes.radix), _first_rows(codes.codes, codes.radix, codes.radix)


def _first_rows(codes: npt.NDArray[np.int64], radix: int, present: int) -> npt.NDArray[np.int64]:
    """The first row of each code, -1 for codes without rows. `present`: how many codes have rows.

    Rows are looked at only until all are found, and written only where a code is new.
    """
    first, found = np.full(radix, -1, np.int64), 0
    for begin in range(0, len(codes), _CHUNK):
        chunk = codes[begin : begin + _CHUNK]
        # Backwards, so that the first row of a code is the last to write.
        fresh = np.flatnonzero(first.take(chunk) < 0)[::-1]
        first[chunk[fresh]] = begin + fresh
        found += int(np.count_nonzero(first[chunk[fresh]] == begin + fresh))
        if found == present:
            break
    return first


def _number_by_lookup(codes: KeyCodes) -> tuple[Groups, npt.NDArray[np.int64]]:
    """Numbers codes of a small range through a table over the whole range, without hashing."""
    sizes = np.bincount(codes.codes, minlength=codes.radix)
    first = _first_rows(codes.codes, codes.radix, int(np.count_nonzero(sizes)))
    starts = np.zeros(int(first.max()) + 1, np.bool_)
    starts[first[first >= 0]] = True
    rows = np.flatnonzero(starts)
    in_order = codes.codes[rows]
    number = first
    number[in_order] = np.arange(len(rows))
    return Groups.sized(number.take(codes.codes), sizes[in_order]), rows
