"""Rows against other rows by some columns: which agree, and sums of those that agree with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core.groups import group_rows
from windowpane.core.rows import int64s, joined, plain

Int64s = npt.NDArray[np.int64]


def matches(rows: pa.RecordBatch, others: pa.RecordBatch, names: Sequence[str]) -> Int64s:
    """For each row, the first of the others that agrees with it in the columns `names`; -1 if none does."""
    columns = joined(plain(each.select(names)) for each in (others, rows)).columns if names else []
    groups, first = group_rows(columns, others.num_rows + rows.num_rows)
    found = first[groups.ids[others.num_rows :]]
    return np.where(found < others.num_rows, found, -1)


def summed(batches: Sequence[pa.RecordBatch], keys: Sequence[str], names: Sequence[str]) -> pa.RecordBatch:
    """One row for each group of `keys`, with the sums of the int64 columns `names`."""
    rows = joined(batches)
    groups, first = group_rows([rows.column(key) for key in keys], rows.num_rows)
    sums = [np.zeros(groups.count, np.int64) for _ in names]
    for name, values in zip(names, sums, strict=True):
        np.add.at(values, groups.ids, int64s(rows, name))
    heads = [rows.column(key).take(pa.array(first)) for key in keys]
    return pa.RecordBatch.from_arrays([*heads, *map(pa.array, sums)], [*keys, *names])
