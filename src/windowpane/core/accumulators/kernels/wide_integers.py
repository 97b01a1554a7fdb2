"""Wide integers as columns of 32-bit limbs in int64, least significant first, two's complement in the topmost one.

What decimals are summed and divided in. Limbs may grow past 32 bits while adding; `carried` brings them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from windowpane.core.accumulators.kernels.columns import Bools, Int64s

Limbs: TypeAlias = Sequence[Int64s]

_BITS = 32
_MASK = 2**32 - 1
WIDE = 8
"""Limbs of a decimal256."""


def from_decimals(array: pa.Array) -> list[Int64s]:
    """Limbs of decimal128 (4) or decimal256 (8); undefined where it is NULL."""
    count = array.type.byte_width // 4
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return [np.zeros(len(array), np.int64) for _ in range(count)]
    words = np.frombuffer(buffer, np.uint32, len(array) * count, array.offset * array.type.byte_width)
    columns = words.reshape(len(array), count)
    lower = [columns[:, index].astype(np.int64) for index in range(count - 1)]
    return [*lower, columns[:, count - 1].view(np.int32).astype(np.int64)]


def to_decimals(limbs: Limbs, type_: pa.DataType, present: Bools) -> pa.Array:
    """A decimal256 column from any number of limbs that may need carrying, NULL where `present` is False."""
    words = np.stack([limb.astype(np.uint32) for limb in carried(limbs, WIDE)], axis=1)
    bitmap = pa.array(present).buffers()[1]
    return pa.Array.from_buffers(type_, len(present), [bitmap, pa.py_buffer(words)])


def carried(limbs: Limbs, width: int) -> list[Int64s]:
    """The same numbers in `width` limbs, all but the topmost in [0, 2**32)."""
    carry = np.zeros_like(limbs[0])
    result = []
    for index in range(width):
        total = carry + limbs[index] if index < len(limbs) else carry
        carry = total >> _BITS
        result.append(total & _MASK if index < width - 1 else total)
    return result


def negated(limbs: Limbs, where: Bools) -> list[Int64s]:
    """The numbers with their sign turned where the mask is True."""
    sign = np.where(where, -1, 1)
    return carried([limb * sign for limb in limbs], len(limbs))


def divided_half_up(limbs: Limbs, factor: int, divisors: Int64s) -> list[Int64s]:
    """Numbers times factor by divisor, rounded half away from zero. factor up to 10**4, divisors in [1, 2**47)."""
    negative = limbs[-1] < 0
    magnitude = carried([limb * factor for limb in negated(limbs, negative)], len(limbs))
    rest = np.zeros_like(divisors)
    quotient = []
    for limb in reversed(magnitude):
        # 16 bits at a time keep rest * 2**16 within int64 for any count of rows.
        upper, rest = np.divmod((rest << 16) | (limb >> 16), divisors)
        lower, rest = np.divmod((rest << 16) | (limb & 0xFFFF), divisors)
        quotient.append((upper << 16) | lower)
    quotient.reverse()
    quotient[0] = quotient[0] + (2 * rest >= divisors)
    return negated(carried(quotient, len(limbs)), negative)
