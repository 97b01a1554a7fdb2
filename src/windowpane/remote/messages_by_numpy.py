"""Reads librdkafka's messages with numpy and Arrow, where the compiled library is missing.

Messages come as an array of pointers to `rd_kafka_message_t`, whose layout is part of librdkafka's public interface.
Numpy reads the structures, and Arrow copies the values out of the buffers that they point to.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.remote.message_batches import Event, Integers, Messages, Pointers, Wanted

_ERROR, _VALUE, _VALUE_BYTES, _KEY, _KEY_BYTES, _OFFSET, _WORDS = 0, 3, 4, 5, 6, 7, 9
"""Fields of rd_kafka_message_t in words of eight bytes."""
_INLINE = 12
"""Values up to this length are inside the views of Arrow's binary_view."""
_SPAN = 1 << 30
"""Bytes that one buffer of views may cover."""


def take_messages(pointers: Pointers, quick: Any, wanted: Wanted, text_of: Callable[[int], str]) -> Messages:
    """Copy messages, and free them. `quick`: functions of librdkafka that keep Python's lock."""
    try:
        return _messages(pointers, quick, wanted, text_of)
    finally:
        deque(map(quick.rd_kafka_message_destroy, pointers.tolist()), maxlen=0)


def _messages(pointers: Pointers, quick: Any, wanted: Wanted, text_of: Callable[[int], str]) -> Messages:
    fields = _Fields(pointers)
    events: tuple[Event, ...] = ()
    errors = fields.word(_ERROR).astype(np.int32)
    if errors.any():
        at = np.flatnonzero(errors)
        places = fields.word(_OFFSET)[at].tolist()
        codes = errors[at].tolist()
        events = tuple(Event(code, offset, text_of(code)) for code, offset in zip(codes, places, strict=True))
        pointers = pointers[errors == 0]
        fields = _Fields(pointers)
    times = None
    if wanted.time:
        kind = ctypes.c_int()
        stamp = quick.rd_kafka_message_timestamp
        times = np.fromiter((stamp(each, kind) for each in pointers.tolist()), np.int64, len(pointers))
    return Messages(
        offsets=fields.word(_OFFSET),
        values=gathered(fields.word(_VALUE), fields.word(_VALUE_BYTES)),
        keys=gathered(fields.word(_KEY), fields.word(_KEY_BYTES)) if wanted.key else None,
        times_ms=times,
        events=events,
    )


class _Fields:
    """Structures in memory, read by column."""

    def __init__(self, pointers: Pointers) -> None:
        self._count = len(pointers)
        if self._count:
            first = int(pointers.min())
            words = (int(pointers.max()) - first) // 8 + _WORDS
            self._memory = np.ctypeslib.as_array((ctypes.c_int64 * words).from_address(first))
            self._at = ((pointers - np.uint64(first)) >> np.uint64(3)).astype(np.int64)

    def word(self, number: int) -> Integers:
        return self._memory[self._at + number] if self._count else np.empty(0, np.int64)


def gathered(addresses: Integers, lengths: Integers) -> pa.Array:
    """A copy of the bytes at each address; NULL at address 0."""
    present = addresses != 0
    if not len(addresses) or not present.any():
        return pa.nulls(len(addresses), pa.binary())
    views = np.zeros((len(addresses), 4), np.int32)
    views[:, 0] = lengths
    buffers = []
    long = np.flatnonzero(present & (lengths > _INLINE))
    if len(long):
        buffers = _place(addresses[long], lengths[long], views, long)
    short = np.flatnonzero(present & (lengths > 0) & (lengths <= _INLINE))
    if len(short):
        _put_inside(addresses[short], lengths[short], views, short)
    valid = None if present.all() else pa.array(present).buffers()[1]
    found = pa.Array.from_buffers(pa.binary_view(), len(views), [valid, pa.py_buffer(views), *buffers])
    return found.cast(pa.binary())


def _place(addresses: Integers, lengths: Integers, views: npt.NDArray[np.int32], at: Integers) -> list[pa.Buffer]:
    """Point views to the bytes. Buffers cover all of them, and what is between is never read."""
    order = np.argsort(addresses, kind="stable")
    sorted_ends = (addresses + lengths)[order]
    starts = addresses[order]
    buffers: list[pa.Buffer] = []
    low = 0
    while low < len(order):
        first = int(starts[low])
        high = max(int(np.searchsorted(sorted_ends, first + _SPAN, "right")), low + 1)
        chosen = order[low:high]
        views[at[chosen], 2] = len(buffers)
        views[at[chosen], 3] = addresses[chosen] - first
        buffers.append(pa.foreign_buffer(first, int(sorted_ends[high - 1]) - first))
        low = high
    return buffers


def _put_inside(addresses: Integers, lengths: Integers, views: npt.NDArray[np.int32], at: Integers) -> None:
    """Copy short values into their views, byte by byte up to their length."""
    first = int(addresses.min())
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * (int((addresses + lengths).max()) - first)).from_address(first))
    inside = views.view(np.uint8).reshape(len(views), 16)
    for number in range(int(lengths.max())):
        longer = lengths > number
        inside[at[longer], 4 + number] = memory[addresses[longer] - first + number]
