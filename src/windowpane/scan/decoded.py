"""Decoded records: columns, and the text of records that could not be decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Decoded:
    """Columns of the schema with one row per record. `bad`: text that says what a bad record is, NULL for good ones."""

    columns: pa.RecordBatch
    bad: pa.Array


def good(columns: pa.RecordBatch) -> Decoded:
    """Records of which none is bad."""
    return Decoded(columns, pa.nulls(columns.num_rows, pa.string()))


def bad(texts: pa.Array, schema: pa.Schema) -> Decoded:
    """Records of which all are bad."""
    return Decoded(nulls(len(texts), schema), texts)


def in_order(parts: Sequence[tuple[Positions, Decoded]], schema: pa.Schema) -> Decoded:
    """The records of all parts in the order of their positions."""
    order = pa.array(np.argsort(np.concatenate([at for at, _ in parts])))
    both = joined([decoded for _, decoded in parts], schema)
    return Decoded(both.columns.take(order), both.bad.take(order))


def replaced(records: Decoded, at: Positions, others: Decoded, schema: pa.Schema) -> Decoded:
    """Records with others in place of those at some positions."""
    order = np.arange(len(records.bad))
    order[at] = len(order) + np.arange(len(at))
    both = joined([records, others], schema)
    return Decoded(both.columns.take(pa.array(order)), both.bad.take(pa.array(order)))


def joined(parts: Sequence[Decoded], schema: pa.Schema) -> Decoded:
    """The records of all parts, one part after the other."""
    columns = pa.Table.from_batches([part.columns for part in parts], schema)
    texts = pa.chunked_array([part.bad for part in parts], pa.string()).combine_chunks()
    return Decoded(one_batch(columns, schema), texts)


def nulls(count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in which all columns are NULL."""
    return widened(count, pa.RecordBatch.from_pylist([], schema=pa.schema([])), schema)


def widened(count: int, columns: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema; those that `columns` does not have are NULL."""
    there = set(columns.schema.names)
    arrays = [columns.column(field.name) if field.name in there else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """A table as one batch."""
    whole = table.select(schema.names).combine_chunks()
    return whole.to_batches()[0] if whole.num_rows and len(schema) else nulls(0, schema)
