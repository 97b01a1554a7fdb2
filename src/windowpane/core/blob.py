"""State blobs: named Arrow batches and a small JSON header in one self-describing byte string. No pickle.

Layout: magic, format version (u16), header length (u32), JSON header, then the Arrow IPC streams one after another.
Spaces fill the header so that the streams begin at a multiple of 64 bytes: columns of a blob are used where they lie.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from windowpane.core.narrowing import narrow, widen
from windowpane.errors import StateError

MAGIC = b"WPST"
FORMAT_VERSION = 2
READABLE = (1, 2)
"""Version 1 had no narrowed columns."""
_PREFIX = struct.Struct("<4sHI")
_ALIGNMENT = 64
Blob: TypeAlias = bytes | pa.Buffer
"""A blob in memory, or one that is mapped from a file."""


@dataclass(frozen=True)
class State:
    """The content of a blob: scalars that JSON can hold, and record batches."""

    meta: Mapping[str, object] = field(default_factory=dict)
    batches: Mapping[str, pa.RecordBatch] = field(default_factory=dict)


def pack(state: State) -> bytes:
    """Serialise; equal states give equal bytes."""
    streams = [(name, _write_ipc(batch)) for name, batch in sorted(state.batches.items())]
    header = {"meta": state.meta, "streams": [[name, len(data)] for name, data in streams]}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-(_PREFIX.size + len(text)) % _ALIGNMENT)
    return b"".join([_PREFIX.pack(MAGIC, FORMAT_VERSION, len(text)), text, *(data for _, data in streams)])


def unpack(blob: Blob, *, widened: bool = True) -> State:
    """The content of a blob; StateError if it is damaged, or has an unknown format version.

    Columns that were not narrowed are views of the blob, which stays in memory, or mapped, as long as they do.
    `widened`: False leaves the others as narrow as they are stored, so that nothing is copied.
    """
    if len(blob) < _PREFIX.size:
        raise StateError("STATE_CORRUPT", "the state blob is truncated")
    magic, version, length = _PREFIX.unpack_from(blob)
    if magic != MAGIC:
        raise StateError("STATE_CORRUPT", "this is not a windowpane state blob")
    if version not in READABLE:
        raise StateError(
            "STATE_FORMAT",
            f"the state has format version {version}, this windowpane reads versions up to {FORMAT_VERSION}",
            "run it with the windowpane version that wrote it, or start with an empty checkpoint",
        )
    try:
        buffer = pa.py_buffer(blob)
        header = json.loads(buffer.slice(_PREFIX.size, length).to_pybytes())
        return State(header["meta"], _read_streams(buffer, _PREFIX.size + length, header["streams"], widened=widened))
    except (ValueError, KeyError, TypeError, pa.ArrowException) as broken:
        raise StateError("STATE_CORRUPT", f"the state blob cannot be read: {broken}") from broken


def _write_ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink, narrowed = pa.BufferOutputStream(), narrow(batch)
    with pa.ipc.new_stream(sink, narrowed.schema) as writer:
        writer.write_batch(narrowed)
    return sink.getvalue()


def _read_streams(
    blob: pa.Buffer, start: int, streams: list[tuple[str, int]], *, widened: bool
) -> dict[str, pa.RecordBatch]:
    batches = {}
    for name, length in streams:
        if start + length > len(blob):
            raise ValueError("it is cut off")
        with pa.ipc.open_stream(blob.slice(start, length)) as reader:
            batch = reader.read_next_batch()
        batches[name] = widen(batch) if widened else batch
        start += length
    return batches
