"""Grouping: rows to dense group ids by key columns of any type. NULL is a group, -0.0 is 0.0, all NaNs are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class Groups:
    """Dense group ids: `ids[i]` in [0, count) is the group of row i."""

    ids: npt.NDArray[np.int64]
    count: int

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Row numbers sorted by group, rows of one group in their own order."""
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """`order[offsets[g]:offsets[g+1]]` are the rows of group g."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.ids, minlength=self.count))]).astype(np.int64)

    def take(self, rows: npt.NDArray[np.int64]) -> Groups:
        """The same groups over a selection of rows (some may then have none)."""
        return Groups(self.ids[rows], self.count)


def group_rows(keys: Sequence[pa.Array], length: int) -> tuple[Groups, npt.NDArray[np.int64]]:
    """Groups of rows with equal keys, in order of first appearance, and the row at which each group appears first.

    Without keys all rows are one group (none when there are no rows).
    """
    raise NotImplementedError
