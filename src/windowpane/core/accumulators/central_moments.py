"""Exact sums of products, and the sums of products of deviations from the means that follow from them.

n * sum(a*b) - sum(a) * sum(b) cancels; it is therefore computed from exact sums, and only when a result is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.floats import GROWTH_BITS, fold_doubles, fold_ranges
from windowpane.core.accumulators.kernels import exact_floats
from windowpane.core.accumulators.kernels.columns import Bools, Float64s, Int64s, flatten_lists, physical
from windowpane.core.accumulators.kernels.exact_floats import two_product
from windowpane.core.groups import Groups

_ZERO_EXPONENT = -10_000
"""The exponent of a sum that is 0: far below that of any double and of the product of any two."""
_PAIRS = ((0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (1, 1), (1, 2), (2, 1))
"""Products of leading parts that can reach the bits of the result."""


def fold_products(left: Float64s, right: Float64s, groups: Groups) -> list[pa.Array]:
    """The state of the sum of left * right, none of which is NULL: that of a sum of doubles."""
    products, lost = _products(left, right)
    rows = np.flatnonzero(lost)
    terms = np.concatenate([products, lost[rows]])
    return fold_doubles(terms, Groups(np.concatenate([groups.ids, groups.ids[rows]]), groups.count))


def range_products(left: Float64s, right: Float64s, valid: Bools | None, low: Int64s, high: Int64s) -> list[pa.Array]:
    """The same for ranges of rows. Rows that are not `valid` must hold zeros."""
    return fold_ranges(list(_products(left, right)), valid, low, high)


def deviation_products(
    counts: Float64s, lefts: Sequence[pa.Array], rights: Sequence[pa.Array], products: Sequence[pa.Array]
) -> Float64s:
    """Compute n * sum(a*b) - sum(a) * sum(b) from the states of the three sums.

    NaN if an a or b is not finite; infinite or NaN if only a product is not.
    """
    left, left_exponent = _leading(lefts)
    right, right_exponent = _leading(rights)
    product, product_exponent = _leading(products)
    exponent = np.maximum(product_exponent, left_exponent + right_exponent)
    product = [np.ldexp(part, product_exponent - exponent) for part in product]
    right = [np.ldexp(part, left_exponent + right_exponent - exponent) for part in right]
    terms = [term for part in product for term in two_product(counts, part)]
    terms += [-term for i, j in _PAIRS for term in two_product(left[i], right[j])]
    with np.errstate(over="ignore", under="ignore"):
        total = np.ldexp(exact_floats.compensated(terms), exponent)
    special = physical(products[0])
    total = np.where(special != 0, special, total)
    return np.where((physical(lefts[0]) != 0) | (physical(rights[0]) != 0), np.nan, total)


def _products(left: Float64s, right: Float64s) -> tuple[Float64s, Float64s]:
    """Rounded products, and what rounding lost."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return two_product(left, right)


def _leading(states: Sequence[pa.Array]) -> tuple[list[Float64s], Int64s]:
    """The three leading doubles (159 bits) of an exact sum, as fractions below 1, and their exponent of 2."""
    shift = GROWTH_BITS if len(flatten_lists(states[2])[0]) else 0
    parts = [np.ldexp(part, -shift) for part in exact_floats.unpack(states[1])] + exact_floats.unpack(states[2])
    leading: list[Float64s] = []
    for _ in range(3):
        found = exact_floats.rounded(parts, len(states[0]))
        leading.append(found)
        parts = [*parts, -found]
    exponents = np.frexp(leading[0])[1].astype(np.int64)
    fractions = [np.ldexp(part, -exponents) for part in leading]
    return fractions, np.where(leading[0] == 0, _ZERO_EXPONENT, exponents + shift)
