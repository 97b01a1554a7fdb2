"""Exact sums of doubles, columnar: a sum is kept as a few doubles whose exact total it is.

`layers` cuts values so that each layer adds up without rounding in any order (Rump's error-free extraction); `rounded`
turns such parts into the one double nearest to their total. So sums do not depend on order, cuts or cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core.accumulators.kernels.columns import Float64s, Int64s, flatten_lists, lists_from, physical
from windowpane.core.groups import Groups


def largest_magnitude(values: Float64s) -> float:
    """The largest |x|; NaN when one is among them, 0 when there are none."""
    with np.errstate(invalid="ignore"):
        return max(float(values.max()), -float(values.min())) if len(values) else 0.0


def layers(values: Float64s, terms: int) -> Iterator[Float64s]:
    """Columns that add up to `values`, each of multiples of one unit so coarse that `terms` of them sum exactly.

    Values must be finite and below 2**900. Later layers hold what the coarser unit of the earlier ones left over.
    """
    headroom = (terms + 2).bit_length()
    rest = values
    while (top := largest_magnitude(rest)) > 0:
        anchor = math.ldexp(1.0, math.frexp(top)[1] + headroom)
        layer = rest + anchor
        layer -= anchor
        yield layer
        rest = rest - layer


def group_sums(values: Float64s, groups: Groups) -> list[Float64s]:
    """Per group, parts whose exact total is the sum of its values."""
    return [weighted_sums(layer, groups) for layer in layers(values, len(values))]


def weighted_sums(values: Float64s, groups: Groups) -> Float64s:
    """Sums per group as floats add up in row order."""
    return np.bincount(groups.ids, values, groups.count).astype(np.float64, copy=False)


def range_sums(values: Float64s, low: Int64s, high: Int64s) -> list[Float64s]:
    """The same per range of rows: prefix sums of a layer are exact, so nothing outside a range leaves a trace in it."""
    sums = []
    for layer in layers(values, len(values)):
        before = np.zeros(len(values) + 1)
        np.cumsum(layer, out=before[1:])
        sums.append(before[high] - before[low])
    return sums


def pack(parts: Sequence[Float64s], count: int) -> pa.Array:
    """Parts as one list column, without the zeros."""
    if not parts:
        return lists_from(pa.array([], pa.float64()), np.zeros(count, np.int64))
    matrix = np.stack(parts, axis=1)
    kept = matrix != 0
    return lists_from(pa.array(matrix[kept]), kept.sum(axis=1))


def unpack(column: pa.Array) -> list[Float64s]:
    """A list column of parts as columns, filled up with zeros."""
    sizes = physical(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    values, parents = flatten_lists(column)
    starts = np.cumsum(sizes) - sizes
    matrix = np.zeros((int(sizes.max(initial=0)), len(column)))
    matrix[np.arange(len(parents)) - starts[parents], parents] = physical(values)
    return list(matrix)


def two_sum(left: Float64s, right: Float64s) -> tuple[Float64s, Float64s]:
    """The rounded sum and what rounding lost."""
    total = left + right
    added = total - left
    return total, (left - (total - added)) + (right - added)


def two_product(left: Float64s, right: Float64s) -> tuple[Float64s, Float64s]:
    """The rounded product and what rounding lost (Dekker); the loss is 0 where the product is not finite."""
    product = left * right
    left_high, left_low = _split(left)
    right_high, right_low = _split(right)
    error = ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + left_low * right_low
    return product, np.where(np.isfinite(error), error, 0.0)


def _split(values: Float64s) -> tuple[Float64s, Float64s]:
    scaled = values * 134217729.0
    high = scaled - (scaled - values)
    return high, values - high


def distilled(parts: Sequence[Float64s]) -> list[Float64s]:
    """The same totals as parts that do not overlap, in ascending order of magnitude (Shewchuk)."""
    expansion: list[Float64s] = []
    for part in parts:
        carry, grown = part, []
        for held in expansion:
            carry, error = two_sum(carry, held)
            grown.append(error)
        expansion = [*grown, carry]
    return expansion


def rounded(parts: Sequence[Float64s], count: int) -> Float64s:
    """The double nearest to each total, ties to even, as math.fsum has it."""
    if len(parts) == 0:
        return np.zeros(count)
    *lower, top = distilled(parts)
    below, tail = np.zeros(count), np.zeros(count)
    for part in reversed(lower):
        settled = below != 0
        total, error = two_sum(top, part)
        tail = np.where(settled & (tail == 0), part, tail)
        top, below = np.where(settled, top, total), np.where(settled, below, error)
    # A remainder of exactly half a unit was rounded to even without regard to what follows it: the tail decides.
    nudged = top + 2 * below
    half_way = (2 * below == nudged - top) & (np.sign(below) * np.sign(tail) > 0)
    return np.where(half_way, nudged, top)


def compensated(terms: Sequence[Float64s]) -> Float64s:
    """The total of terms as if added in four times the precision of doubles (Ogita, Rump, Oishi)."""
    held = list(terms)
    for _ in range(3):
        for index in range(1, len(held)):
            held[index], held[index - 1] = two_sum(held[index], held[index - 1])
    total = np.zeros_like(held[0])
    for term in held:
        total = total + term
    return total
