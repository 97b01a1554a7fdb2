"""Parses JSON objects with the compiled library, if there is one. Records that it does not read are marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windowpane.native import JsonColumn, compiled

Array = npt.NDArray[Any]
_KINDS: dict[pa.DataType, tuple[int, Any]] = {
    pa.int32(): (1, np.int32), pa.int64(): (2, np.int64), pa.float64(): (3, np.float64), pa.bool_(): (4, np.uint8),
    pa.string(): (5, np.int32),
}  # fmt: skip
"""The library's numbers of types, and what it writes for each record: positions of strings, a byte per boolean."""


@dataclass(frozen=True)
class Parsed:
    """Columns of all records. Those of `doubtful` records are NULL: the exact reader has to read them."""

    columns: pa.RecordBatch
    doubtful: npt.NDArray[np.bool_]


def by_library(records: pa.Array, schema: pa.Schema) -> Parsed | None:
    """The columns of records that are certainly good; None without the library, or with types that it does not have."""
    library = compiled()
    is_known = len(schema) > 0 and all(field.type in _KINDS for field in schema)
    if library is None or not is_known or not len(records) or not pa.types.is_binary(records.type):
        return None
    return _Parse(library, records, schema).parsed()


class _Parse:
    def __init__(self, library: Any, records: pa.Array, schema: pa.Schema) -> None:
        self._library, self._schema, self._count = library, schema, len(records)
        _, ends, data = records.buffers()
        self._ends = np.frombuffer(ends, np.int32)[records.offset :]
        self._data = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        count = self._count
        self._values = [np.zeros(count, _KINDS[field.type][1]) for field in schema]
        self._lengths = [np.zeros(count if pa.types.is_string(field.type) else 0, np.int32) for field in schema]
        self._valid = [np.zeros(count, np.uint8) for _ in schema]

    def parsed(self) -> Parsed | None:
        columns = (JsonColumn * len(self._schema))(*(self._column(number) for number in range(len(self._schema))))
        doubtful = np.zeros(self._count, np.uint8)
        found = self._library.wp_parse_objects(
            self._data.ctypes.data, self._ends.ctypes.data, self._count, columns, len(columns), doubtful.ctypes.data
        )
        if found < 0:
            return None
        arrays = [self._array(number, columns[number]) for number in range(len(columns))]
        return Parsed(pa.RecordBatch.from_arrays(arrays, schema=self._schema), doubtful.view(np.bool_))

    def _column(self, number: int) -> JsonColumn:
        field = self._schema.field(number)
        name = field.name.encode()
        return JsonColumn(
            name, len(name), _KINDS[field.type][0], self._values[number].ctypes.data,
            self._lengths[number].ctypes.data, self._valid[number].ctypes.data, 0, 0,
        )  # fmt: skip

    def _array(self, number: int, found: JsonColumn) -> pa.Array:
        kind, values = self._schema.field(number).type, self._values[number]
        valid = _bits(self._valid[number]) if found.absent else None
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, self._count, [valid, _bits(values)], found.absent)
        if not pa.types.is_string(kind):
            return pa.Array.from_buffers(kind, self._count, [valid, pa.py_buffer(values)], found.absent)
        ends, text = np.empty(self._count + 1, np.int32), np.empty(max(found.text_bytes, 1), np.uint8)
        self._library.wp_copy_strings(
            self._data.ctypes.data, self._count, values.ctypes.data, self._lengths[number].ctypes.data,
            ends.ctypes.data, text.ctypes.data,
        )  # fmt: skip
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(text)]
        return pa.Array.from_buffers(kind, self._count, buffers, found.absent)


def _bits(flags: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
