"""Window identity: a stable hash of plan id, start, end and (where bounds may be equal) a salt, as 16 hex digits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.core.hashing import mix

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)


def window_ids(plan_id: str, start: Int64s, end: Int64s, salt: Int64s | None = None) -> pa.Array:
    """One id per window. The same on every machine and in every run."""
    mixed = np.full(len(start), int(plan_id, 16) & 0xFFFFFFFFFFFFFFFF, np.uint64)
    for part in (start, end) if salt is None else (start, end, salt):
        mixed = mix(mixed ^ part.astype(np.int64).view(np.uint64))
    return _as_hex(mixed)


def _as_hex(values: UInt64s) -> pa.Array:
    digits = _HEX[values.astype(">u8").view(np.uint8)].reshape(-1)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits)))
