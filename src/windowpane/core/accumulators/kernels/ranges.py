"""Many overlapping ranges of rows at once: prefix sums, and a sparse table for what cannot be subtracted."""

from __future__ import annotations

import numpy as np

from windowpane.core.accumulators.kernels.columns import Bools, Int64s, Values


def prefix_sums(values: Int64s) -> Int64s:
    """`p[j] - p[i]` is the sum of rows [i, j); modulo 2**64, so right whenever the difference fits."""
    before = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=before[1:])
    return before


def range_counts(chosen: Bools | None, low: Int64s, high: Int64s) -> Int64s:
    """How many chosen rows each range has; None chooses all."""
    if chosen is None:
        return high - low
    before = prefix_sums(chosen.astype(np.int64))
    return before[high] - before[low]


def reduce_ranges(ufunc: np.ufunc, values: Values, low: Int64s, high: Int64s, neutral: object) -> Values:
    """`ufunc` over each range, `neutral` for empty ones. For idempotent functions: maximum, minimum, fmin.

    Level k holds the result of 2**k rows from each row on. A range is covered by two of them, which may overlap.
    Only one level is kept, and levels end with the longest range.
    """
    result = np.full(len(low), neutral, values.dtype)
    lengths = high - low
    level_of = np.frexp(lengths.astype(np.float64))[1] - 1
    level, width = values, 1
    for k in range(int(level_of.max(initial=-1)) + 1):
        chosen = np.flatnonzero(level_of == k)
        with np.errstate(invalid="ignore"):
            if k:
                level = ufunc(level[:-width], level[width:])
                width *= 2
            result[chosen] = ufunc(level[low[chosen]], level[high[chosen] - width])
    return result
