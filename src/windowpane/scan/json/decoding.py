"""Decodes JSON objects to columns of a declared schema, in blocks. Bad records are those that Spark would call bad.

The compiled library, if there is one, reads all records that are certainly good. The others, or all, go to Arrow.
Arrow's parser takes a block as a whole or refuses it. The records of a refused block are sorted: those that look good
go to Arrow again; objects with values of wrong types go there without the columns concerned; text that is certainly
not an object is bad. The remaining records are read one by one, exactly as Spark's `from_json` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from windowpane.scan.decoded import Decoded, Positions, bad, good, in_order, joined, replaced, widened
from windowpane.scan.json.arrow_parser import by_arrow, is_utf8
from windowpane.scan.json.compiled_parser import by_library
from windowpane.scan.json.shapes import shapes, trimmed
from windowpane.scan.json.single_records import RecordReader
from windowpane.scan.json.uniform_records import by_template
from windowpane.scan.json.value_kinds import Mask, alike, copied_texts, misfits, repeats, suspects

BLOCK_RECORDS = 65_536
FEW_RECORDS = 32
"""Up to this number, records are read one by one at once."""
PARTS = 16
"""Records that look good but that Arrow refuses are split into so many parts."""
_Part: TypeAlias = "tuple[Positions, Decoded]"
"""Positions of records in the block, and the decoded records."""


def decode(records: pa.Array, schema: pa.Schema) -> Decoded:
    """Decode records: binary, without NULLs. One that is empty, not UTF-8 or not an object is bad."""
    read = RecordReader(schema)
    blocks = range(0, len(records), BLOCK_RECORDS)
    return joined([_block(records.slice(low, BLOCK_RECORDS), schema, read) for low in blocks], schema)


def _block(records: pa.Array, schema: pa.Schema, read: RecordReader) -> Decoded:
    parsed = by_library(records, schema)
    if parsed is None:
        return _uncompiled(records, schema, read)
    at = np.flatnonzero(parsed.doubtful)
    if not len(at):
        return good(parsed.columns)
    return replaced(good(parsed.columns), at, _uncompiled(records.take(pa.array(at)), schema, read), schema)


def _uncompiled(records: pa.Array, schema: pa.Schema, read: RecordReader) -> Decoded:
    whole = by_template(records, schema)
    if whole is None:
        whole = by_arrow(records, schema)
    if whole is not None:
        return good(whole)
    if len(records) <= FEW_RECORDS:
        return _one_by_one(records.to_pylist(), schema, read)
    return _Block(records, trimmed(records), schema, read).decoded()


@dataclass(frozen=True)
class _Block:
    """A block in which some records are bad. Similar records are read together."""

    records: pa.Array
    trimmed: pa.Array
    schema: pa.Schema
    read: RecordReader

    def decoded(self) -> Decoded:
        found = shapes(self.trimmed)
        objects = self.trimmed.take(pa.array(found.objects))
        doubtful = suspects(objects, self.schema)
        plain = self._plain(found.objects[~doubtful])
        if not plain:
            doubtful |= repeats(objects, self.schema)
            plain = self._plain(found.objects[~doubtful])
        others = found.objects[doubtful] if plain else found.objects
        parts = [*plain, *self._by_kinds(others, found.unclear), self._broken(found.broken)]
        return in_order(parts, self.schema)

    def _plain(self, at: Positions) -> list[_Part]:
        """Objects that look good; an empty list if Arrow refuses one."""
        columns = by_arrow(self.trimmed.take(pa.array(at)), self.schema)
        return [] if columns is None else [(at, good(columns))]

    def _broken(self, at: Positions) -> _Part:
        return at, bad(_texts(self.records.take(pa.array(at))), self.schema)

    def _by_kinds(self, at: Positions, unclear: Positions) -> Iterator[_Part]:
        """Objects with values of wrong types, grouped by the columns that fit. Unclear records are read one by one."""
        found = misfits(self.trimmed.take(pa.array(at)), self.schema)
        exact = [unclear, at[found.unclear]]
        clear = at[~found.unclear]
        for rows, pattern in alike(np.hstack([found.unfit, found.copied])[~found.unclear]):
            if len(rows) <= FEW_RECORDS:
                exact.append(clear[rows])
            else:
                unfit, copied = np.split(pattern, 2)
                yield from self._of_columns(clear[rows], unfit, copied, exact)
        yield self._exact(np.concatenate(exact))

    def _of_columns(self, at: Positions, unfit: Mask, copied: Mask, exact: list[Positions]) -> Iterator[_Part]:
        """Objects with the same columns unfit or copied. If Arrow refuses them together, they are tried in parts."""
        schema = pa.schema([field for field, is_other in zip(self.schema, unfit | copied, strict=True) if not is_other])
        texts = [field.name for field, is_copied in zip(self.schema, copied, strict=True) if is_copied]
        pending = [at]
        while pending:
            part = pending.pop()
            objects = self.trimmed.take(pa.array(part))
            columns = by_arrow(objects, schema)
            if columns is not None:
                for name in texts:
                    columns = columns.append_column(name, copied_texts(objects, name))
                kept = _texts(self.records.take(pa.array(part))) if unfit.any() else pa.nulls(len(part), pa.string())
                yield part, Decoded(widened(len(part), columns, self.schema), kept)
            elif len(part) <= FEW_RECORDS:
                exact.append(part)
            else:
                pending.extend(np.array_split(part, min(PARTS, len(part) // FEW_RECORDS + 1)))

    def _exact(self, at: Positions) -> _Part:
        return at, _one_by_one(self.records.take(pa.array(at)).to_pylist(), self.schema, self.read)


def _texts(records: pa.Array) -> pa.Array:
    """Records as text, with U+FFFD in place of invalid UTF-8."""
    if is_utf8(records):
        return records.cast(pa.string())
    return pa.array([record.decode("utf-8", "replace") for record in records.to_pylist()], pa.string())


def _one_by_one(records: Sequence[bytes], schema: pa.Schema, read: RecordReader) -> Decoded:
    found = [read(record) for record in records]
    pairs = zip(records, found, strict=True)
    texts = [None if is_good else record.decode("utf-8", "replace") for record, (_, is_good) in pairs]
    arrays = [pa.array([row.get(field.name) for row, _ in found], field.type) for field in schema]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), pa.array(texts, pa.string()))
