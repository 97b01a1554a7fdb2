"""Finds the bad values of a batch for parsers that take a batch as a whole or refuse it."""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from windowpane.scan.decoded import Decoded, Positions, bad, good, in_order, nulls, widened

PARTS = 4
"""A batch with bad values is divided into so many parts, and these again."""
Parse = Callable[[pa.Array], pa.RecordBatch]
"""Raises ValueError, as Arrow's errors are, if any value is bad."""
Texts = Callable[[pa.Array], pa.Array]


Single = Callable[[pa.Array], Decoded]


def decode_by_parts(
    values: pa.Array, schema: pa.Schema, parse: Parse, texts: Texts, single: Single | None = None
) -> Decoded:
    """The columns of the schema. `texts`: what is kept of bad values. `single`: decodes a value that `parse` refuses,
    which may be good all the same.
    """
    if not len(values):
        return good(nulls(0, schema))
    parts: list[tuple[Positions, Decoded]] = []
    pending = [np.arange(len(values), dtype=np.int64)]
    while pending:
        at = pending.pop()
        part = values if len(at) == len(values) else values.take(pa.array(at))
        columns = _parsed(part, schema, parse)
        if columns is not None:
            parts.append((at, good(columns)))
        elif len(at) == 1:
            parts.append((at, single(part) if single is not None else bad(texts(part), schema)))
        else:
            pending.extend(np.array_split(at, min(PARTS, len(at))))
    return parts[0][1] if len(parts) == 1 else in_order(parts, schema)


def _parsed(values: pa.Array, schema: pa.Schema, parse: Parse) -> pa.RecordBatch | None:
    try:
        found = parse(values)
        if found.num_rows != len(values):
            return None
        found.validate(full=True)
        return widened(len(values), _cast(found, schema), schema)
    except ValueError:
        return None


def _cast(found: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that both have, in the types of the schema. Text is not taken for a number, nor a number for text."""
    there = set(found.schema.names)
    fields = [field for field in schema if field.name in there]
    columns = [found.column(field.name) for field in fields]
    for field, column in zip(fields, columns, strict=True):
        if pa.types.is_string(field.type) != pa.types.is_string(column.type):
            raise pa.ArrowInvalid(f"{field.name} is {column.type}")
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for field, column in zip(fields, columns, strict=True)], schema=pa.schema(fields)
    )


def as_base64(values: pa.Array) -> pa.Array:
    """Bytes that are no text, without loss."""
    return pa.array([f"base64:{base64.b64encode(value).decode()}" for value in values.to_pylist()], pa.string())


def as_text(values: pa.Array) -> pa.Array:
    """Bytes as text, with U+FFFD in place of invalid UTF-8."""
    return pa.array([value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())
