"""The optional C library: fetched Kafka messages and JSON objects straight into Arrow buffers.

`hatch_build.py` compiles it when windowpane is installed, if there is a compiler. Without it, the callers use slower
ways with the same results.
"""

from __future__ import annotations

import ctypes
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "libwindowpane.so"


class BinaryColumn(ctypes.Structure):
    """Buffers of an Arrow array of bytes."""

    _fields_ = (("ends", ctypes.c_void_p), ("valid", ctypes.c_void_p), ("bytes", ctypes.c_void_p))


class BatchSize(ctypes.Structure):
    """What a batch of messages needs."""

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("value_bytes", "key_bytes", "events", "absent_values", "absent_keys")
    )


class JsonColumn(ctypes.Structure):
    """A column that JSON objects are parsed into: `column` of json_objects.c."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("name_bytes", ctypes.c_int32), ("kind", ctypes.c_int32),
        ("values", ctypes.c_void_p), ("lengths", ctypes.c_void_p), ("valid", ctypes.c_void_p),
        ("text_bytes", ctypes.c_int64), ("absent", ctypes.c_int64),
    )  # fmt: skip


@cache
def compiled() -> Any | None:
    """The functions of the library, which release Python's lock; None if there is no library that fits its sources."""
    try:
        found = ctypes.CDLL(str(LIBRARY))
        _declare(found)
    except (OSError, AttributeError):
        return None
    files = sorted(FOLDER.glob("*.c"))
    is_current = not files or found.wp_sources().decode() == digest(files)
    return found if is_current and ctypes.sizeof(ctypes.c_void_p) == 8 else None


def digest(files: list[Path]) -> str:
    """What a library knows of the sources that it was compiled from."""
    return blake2b(b"\0".join(file.read_bytes() for file in files), digest_size=8).hexdigest()


def _declare(functions: Any) -> None:
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    declared: dict[str, tuple[Any, list[Any]]] = {
        "wp_sources": (ctypes.c_char_p, []),
        "wp_measure_messages": (None, [pointer, i64, ctypes.POINTER(BatchSize)]),
        "wp_take_messages": (
            None,
            [pointer, i64, pointer, pointer, pointer, ctypes.POINTER(BinaryColumn), ctypes.POINTER(BinaryColumn)]
            + [pointer] * 3,
        ),
        "wp_free_messages": (None, [pointer, i64, pointer]),
        "wp_parse_objects": (i64, [pointer, pointer, i64, ctypes.POINTER(JsonColumn), i32, pointer]),
        "wp_copy_strings": (None, [pointer, i64, pointer, pointer, pointer, pointer]),
    }
    for name, (gives, takes) in declared.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = gives, takes
