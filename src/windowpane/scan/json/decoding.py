"""JSON objects to columns of a declared schema, a block of them at a time, with Spark's notion of a bad record.

Arrow's parser takes a block whole or not at all. Where it does not, the records are sorted: those that look good go to
Arrow once more; objects with values of wrong types go there without those columns; what is certainly no object is bad.
What is left is read one by one, exactly as Spark's `from_json` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.scan.json.arrow_parser import by_arrow, is_utf8, nulls, one_batch, widened
from windowpane.scan.json.shapes import Positions, shapes, trimmed
from windowpane.scan.json.single_records import RecordReader
from windowpane.scan.json.value_kinds import Mask, alike, misfits, suspects

BLOCK_RECORDS = 65_536
FEW_RECORDS = 32
"""So many are read one by one without further ado."""
PARTS = 16
"""Into so many records are split that Arrow refuses and that look good."""
TOO_LONG = "longer than max_record_bytes"
HEAD_BYTES, HEAD_CHARACTERS = 400, 100
"""How much is kept of a record that is too long."""
_Part: TypeAlias = "tuple[Positions, Decoded]"
"""Where the records are in the block, and what they are."""


@dataclass(frozen=True)
class Decoded:
    """Columns of the schema, one row for each record, and the text of those that are bad (NULL for good ones)."""

    columns: pa.RecordBatch
    bad: pa.Array


def decode(records: pa.Array, schema: pa.Schema, max_bytes: int | None = None) -> Decoded:
    """Read records (binary, UTF-8). One that is absent, empty, too long, not UTF-8 or no object is bad."""
    unread = records.is_null()
    if max_bytes is not None:
        unread = pc.or_(unread, pc.fill_null(pc.greater(pc.binary_length(records), max_bytes), False))
    if pc.any(unread).as_py():
        return _with_unread(records, unread, schema, max_bytes)
    read = RecordReader(schema)
    blocks = range(0, len(records), BLOCK_RECORDS)
    return _joined([_block(records.slice(low, BLOCK_RECORDS), schema, read) for low in blocks], schema)


def too_long(head: bytes, max_bytes: int) -> str:
    """What stands in place of the text of a record that is too long; `head` is its first HEAD_BYTES."""
    return f"{TOO_LONG} ({max_bytes}): {head.decode('utf-8', 'replace')[:HEAD_CHARACTERS]}"


def oversized(head: bytes, max_bytes: int, schema: pa.Schema) -> Decoded:
    """One record that is too long."""
    return Decoded(nulls(1, schema), pa.array([too_long(head, max_bytes)], pa.string()))


def _with_unread(records: pa.Array, unread: pa.Array, schema: pa.Schema, max_bytes: int | None) -> Decoded:
    """The records that can be looked at, and between them those that are absent or too long."""
    at = unread.to_numpy(zero_copy_only=False)
    present = decode(records.filter(pc.invert(unread)), schema)
    heads = pc.binary_slice(records.filter(unread), 0, HEAD_BYTES).to_pylist()
    texts = pa.array(["" if head is None else too_long(head, max_bytes or 0) for head in heads], pa.string())
    others = Decoded(nulls(len(heads), schema), texts)
    return _in_order([(np.flatnonzero(~at), present), (np.flatnonzero(at), others)], schema)


def _block(records: pa.Array, schema: pa.Schema, read: RecordReader) -> Decoded:
    whole = by_arrow(records, schema)
    if whole is not None:
        return _good(whole)
    if len(records) <= FEW_RECORDS:
        return _one_by_one(records.to_pylist(), schema, read)
    return _Block(records, trimmed(records), schema, read).decoded()


@dataclass(frozen=True)
class _Block:
    """Records of which some are bad. Those that are alike are read together."""

    records: pa.Array
    trimmed: pa.Array
    schema: pa.Schema
    read: RecordReader

    def decoded(self) -> Decoded:
        found = shapes(self.trimmed)
        doubtful = suspects(self.trimmed.take(pa.array(found.objects)), self.schema)
        plain = self._plain(found.objects[~doubtful])
        others = found.objects[doubtful] if plain else found.objects
        parts = [*plain, *self._by_kinds(others, found.unclear), self._broken(found.broken)]
        return _in_order(parts, self.schema)

    def _plain(self, at: Positions) -> list[_Part]:
        """Objects that look good; nothing if Arrow does not take them all."""
        columns = by_arrow(self.trimmed.take(pa.array(at)), self.schema)
        return [] if columns is None else [(at, _good(columns))]

    def _broken(self, at: Positions) -> _Part:
        return at, Decoded(nulls(len(at), self.schema), _texts(self.records.take(pa.array(at))))

    def _by_kinds(self, at: Positions, unclear: Positions) -> Iterator[_Part]:
        """Objects with values of wrong types: by the columns that take theirs. What is unclear is read one by one."""
        unfit, doubtful = misfits(self.trimmed.take(pa.array(at)), self.schema)
        exact = [unclear, at[doubtful]]
        clear = at[~doubtful]
        for rows, pattern in alike(unfit[~doubtful]):
            if len(rows) <= FEW_RECORDS:
                exact.append(clear[rows])
            else:
                yield from self._of_columns(clear[rows], pattern, exact)
        yield self._exact(np.concatenate(exact))

    def _of_columns(self, at: Positions, unfit: Mask, exact: list[Positions]) -> Iterator[_Part]:
        """Objects with the same columns unfit. If Arrow refuses them together, it takes most of them in parts."""
        schema = pa.schema([field for field, is_unfit in zip(self.schema, unfit, strict=True) if not is_unfit])
        pending = [at]
        while pending:
            part = pending.pop()
            columns = by_arrow(self.trimmed.take(pa.array(part)), schema)
            if columns is not None:
                texts = _texts(self.records.take(pa.array(part))) if unfit.any() else pa.nulls(len(part), pa.string())
                yield part, Decoded(widened(len(part), columns, self.schema), texts)
            elif len(part) <= FEW_RECORDS:
                exact.append(part)
            else:
                pending.extend(np.array_split(part, min(PARTS, len(part) // FEW_RECORDS + 1)))

    def _exact(self, at: Positions) -> _Part:
        return at, _one_by_one(self.records.take(pa.array(at)).to_pylist(), self.schema, self.read)


def _good(columns: pa.RecordBatch) -> Decoded:
    return Decoded(columns, pa.nulls(columns.num_rows, pa.string()))


def _texts(records: pa.Array) -> pa.Array:
    """Records as texts: what is not UTF-8 is replaced."""
    if is_utf8(records):
        return records.cast(pa.string())
    return pa.array([record.decode("utf-8", "replace") for record in records.to_pylist()], pa.string())


def _one_by_one(records: Sequence[bytes], schema: pa.Schema, read: RecordReader) -> Decoded:
    found = [read(record) for record in records]
    bad = [
        None if good else record.decode("utf-8", "replace") for record, (_, good) in zip(records, found, strict=True)
    ]
    arrays = [pa.array([row.get(field.name) for row, _ in found], field.type) for field in schema]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), pa.array(bad, pa.string()))


def _in_order(parts: Sequence[_Part], schema: pa.Schema) -> Decoded:
    """Rows of all parts in the order of their positions."""
    order = pa.array(np.argsort(np.concatenate([at for at, _ in parts])))
    both = _joined([decoded for _, decoded in parts], schema)
    return Decoded(both.columns.take(order), both.bad.take(order))


def _joined(parts: Sequence[Decoded], schema: pa.Schema) -> Decoded:
    columns = pa.Table.from_batches([part.columns for part in parts], schema)
    bad = pa.chunked_array([part.bad for part in parts], pa.string()).combine_chunks()
    return Decoded(one_batch(columns, schema), bad)
