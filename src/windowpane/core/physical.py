"""Arrow columns as numpy sees them: physical values, with NULLs as a mask."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bools: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[Any]

_BY_WIDTH = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@cache
def numpy_dtype(type_: pa.DataType) -> np.dtype[Any] | None:
    """The numpy type with the same bits, None for types without a fixed width that numpy knows."""
    if pa.types.is_boolean(type_):
        return np.dtype(np.bool_)
    if pa.types.is_floating(type_) or pa.types.is_integer(type_):
        dtype: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
        return dtype
    if pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        return np.dtype(_BY_WIDTH[type_.bit_width])
    return None


def physical(array: pa.Array) -> Values:
    """The values without a copy where possible. Values at NULLs are undefined."""
    if pa.types.is_boolean(array.type):
        return physical(array.cast(pa.uint8())).view(np.bool_)
    dtype = numpy_dtype(array.type)
    if dtype is None:
        raise TypeError(f"{array.type} has no numpy form")
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def validity(array: pa.Array) -> Bools | None:
    """True where a value is not NULL; None if no value is NULL."""
    return physical(array.is_valid()) if array.null_count else None


def canonical_floats(values: Values) -> Values:
    """The same floats with one zero and one NaN, so that equal values have equal bits."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        plain: Values = values + values.dtype.type(0)
    unordered = np.isnan(plain)
    if unordered.any():
        plain[unordered] = np.nan
    return plain
