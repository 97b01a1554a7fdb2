"""Copies librdkafka's messages into Arrow buffers with the compiled library: one call for a batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from windowpane.native import BatchSize, BinaryColumn, compiled
from windowpane.remote import messages_by_numpy
from windowpane.remote.message_batches import Event, Messages, Pointers, Wanted

_MOST_BYTES = 2**31 - 1
"""What one Arrow array of bytes can hold."""


def take_messages(
    pointers: Pointers, blocking: Any, quick: Any, wanted: Wanted, text_of: Callable[[int], str]
) -> Messages:
    """Copy messages, and free them; with numpy if there is no compiled library.

    `blocking` and `quick`: functions of librdkafka that release Python's lock, and that keep it.
    """
    library, size = compiled(), BatchSize()
    if library is None:
        return messages_by_numpy.take_messages(pointers, quick, wanted, text_of)
    library.wp_measure_messages(pointers.ctypes.data, len(pointers), ctypes.byref(size))
    if max(size.value_bytes, size.key_bytes) > _MOST_BYTES:
        return messages_by_numpy.take_messages(pointers, quick, wanted, text_of)
    count = len(pointers) - size.events
    try:
        values = _Binary(count, size.value_bytes, size.absent_values)
        keys = _Binary(count, size.key_bytes, size.absent_keys) if wanted.key else None
        offsets, times = np.empty(count, np.int64), np.empty(count, np.int64) if wanted.time else None
        codes, places = np.empty(size.events, np.int32), np.empty(size.events, np.int64)
    except MemoryError:
        library.wp_free_messages(pointers.ctypes.data, len(pointers), _address(blocking.rd_kafka_message_destroy))
        raise
    library.wp_take_messages(
        pointers.ctypes.data, len(pointers), _address(blocking.rd_kafka_message_destroy),
        _address(blocking.rd_kafka_message_timestamp), offsets.ctypes.data, values.column,
        None if keys is None else keys.column, None if times is None else times.ctypes.data, codes.ctypes.data,
        places.ctypes.data,
    )  # fmt: skip
    events = tuple(Event(code, at, text_of(code)) for code, at in zip(codes.tolist(), places.tolist(), strict=True))
    return Messages(offsets, values.array(), None if keys is None else keys.array(), times, events)


class _Binary:
    """Buffers that the library fills."""

    def __init__(self, count: int, size: int, absent: int) -> None:
        self._count, self._absent = count, absent
        self._ends, self._bytes = np.empty(count + 1, np.int32), np.empty(max(size, 1), np.uint8)
        self._valid = np.zeros(count // 8 + 1, np.uint8)
        self.column = BinaryColumn(self._ends.ctypes.data, self._valid.ctypes.data, self._bytes.ctypes.data)

    def array(self) -> pa.Array:
        valid = pa.py_buffer(self._valid) if self._absent else None
        buffers = [valid, pa.py_buffer(self._ends), pa.py_buffer(self._bytes)]
        return pa.Array.from_buffers(pa.binary(), self._count, buffers, self._absent)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
