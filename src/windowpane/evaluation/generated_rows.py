"""Several rows of one, over Arrow columns: a row for each element of an array, or for each entry of a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.rows import Bools, Int64s
from windowpane.evaluation.event_times import whole_column


@dataclass(frozen=True)
class GeneratedRows:
    """`values`: names of the columns for elements, for keys and values, or for the fields of elements."""

    values: tuple[str, ...]
    fields: bool
    position: tuple[str, int] | None
    """The column that numbers elements, and the first number."""
    outer: bool

    def of(self, rows: pa.Table, elements: pa.Array) -> pa.Table:
        """The rows of `rows`, repeated for each of their `elements`.

        A row with an error, or that was dropped before, stays once; so does a row without elements, which is kept if
        `outer`.
        """
        live = _live(rows)
        present = live & elements.is_valid().to_numpy(zero_copy_only=False)
        counts = np.where(present, np.diff(np.asarray(elements.offsets)), 0)
        repeated = np.maximum(counts, 1).astype(np.int64)
        sources = np.repeat(np.arange(rows.num_rows), repeated)
        positions = np.arange(len(sources)) - np.repeat(np.cumsum(repeated) - repeated, repeated)
        filled = np.repeat(counts > 0, repeated)
        found = rows.take(pa.array(sources))
        for name, column in self._columns(elements, counts, positions, filled).items():
            found = found.append_column(name, column)
        made = positions > 0
        if c.MADE in found.column_names:
            made |= whole_column(found, c.MADE).to_numpy(zero_copy_only=False)
        found = _with(found, c.MADE, pa.array(made))
        if self.outer:
            return found
        kept = filled | np.repeat(~live, repeated)
        return _with(found, c.KEEP, pa.array(kept & _flags(found, c.KEEP)))

    def _columns(
        self, elements: pa.Array, counts: Int64s, positions: Int64s, filled: Bools
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The columns of the elements. A row that stays without an element has NULL in them."""
        offsets = np.asarray(elements.offsets)[:-1].astype(np.int64)
        starts = np.repeat(np.where(counts > 0, offsets, 0), np.maximum(counts, 1))
        at = pa.array(np.where(filled, starts + positions, 0), mask=~filled)
        if pa.types.is_map(elements.type):
            parts = [elements.keys, elements.items]
        else:
            whole = elements.values
            parts = [whole.field(number) for number in range(whole.type.num_fields)] if self.fields else [whole]
            if self.fields and whole.null_count:
                parts = [pc.if_else(whole.is_valid(), part, pa.scalar(None, part.type)) for part in parts]
        columns = {name: part.take(at) for name, part in zip(self.values, parts, strict=True)}
        if self.position is not None:
            name, first = self.position
            columns[name] = pa.array((positions + first).astype(np.int32), mask=~filled)
        return columns


def _live(rows: pa.Table) -> Bools:
    """Rows that are neither bad nor dropped."""
    live = _flags(rows, c.KEEP)
    for name in (c.ERROR, c.CORRUPT):
        if name in rows.column_names:
            live &= whole_column(rows, name).is_null().to_numpy(zero_copy_only=False)
    return live


def _flags(rows: pa.Table, name: str) -> Bools:
    if name not in rows.column_names:
        return np.ones(rows.num_rows, np.bool_)
    flags: Bools = pc.fill_null(whole_column(rows, name), False).to_numpy(zero_copy_only=False)
    return flags.copy()


def _with(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.append_column(name, column) if at < 0 else rows.set_column(at, name, column)
