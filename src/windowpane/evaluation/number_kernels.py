"""Rounding of doubles as Spark does it: of the shortest decimal that reads back as the double."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_EXACT = 1e15
"""Below this a decimal of a double's digits is the only one that short."""


def round_half_up(values: pa.Array, places: pa.Array) -> pa.Array:
    return _rounded(values, places, even=False)


def round_half_even(values: pa.Array, places: pa.Array) -> pa.Array:
    return _rounded(values, places, even=True)


def _rounded(values: pa.Array, places: pa.Array, *, even: bool) -> pa.Array:
    given = np.asarray(values.fill_null(0.0) if values.null_count else values, np.float64)
    if not len(given):
        return pa.array(given)
    count = next((place for place in places.to_pylist() if place is not None), 0)
    power = float(10**count)
    small = np.abs(given) * power < _EXACT
    found = _small(np.where(small, np.abs(given), 0.0), power, even=even)
    found = np.where(given < 0, 0.0 - found, found)
    for at in np.flatnonzero(~small & np.isfinite(given)):
        found[at] = _by_decimal(float(given[at]), count, even=even)
    found = np.where(np.isfinite(given), found + 0.0, given)
    return pa.array(found, mask=~np.asarray(values.is_valid()))


def _small(size: npt.NDArray[np.float64], power: float, *, even: bool) -> npt.NDArray[np.float64]:
    """Quotients of integers below 2**53 are the doubles nearest to these decimals."""
    whole = np.floor(size * power)
    whole = np.where(size < whole / power, whole - 1, np.where(size >= (whole + 1) / power, whole + 1, whole))
    tie = (2 * whole + 1) / (2 * power)
    up = (size > tie) | ((size == tie) & ((whole % 2 == 1) if even else True))
    found: npt.NDArray[np.float64] = np.where(up, whole + 1, whole) / power
    return found


def _by_decimal(value: float, places: int, *, even: bool) -> float:
    with localcontext() as context:
        context.prec = 400
        return float(
            Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN if even else ROUND_HALF_UP)
        )
