"""Expressions that DuckDB computes over the columns of a table. Imports DuckDB where there is one to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Computed:
    """An expression in DuckDB's SQL, and its type. Picklable."""

    text: str
    type: pa.DataType
    fails: bool = False
    """There are values for which it fails: such rows are error rows."""
    guard: str | None = None
    """For a row on which it fails, why: in DuckDB's SQL."""
    words: str = ""
    """The expression, for people."""


def evaluate(items: Mapping[str, Computed], source: pa.RecordBatch | pa.Table) -> tuple[Columns, Columns]:
    """The values, and for those that fail on a row, where (the value is NULL)."""
    if not items:
        return {}, {}
    from windowpane.evaluation import duckdb_tables  # noqa: PLC0415  # most queries need no more than bare columns

    table = pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else source
    return duckdb_tables.evaluate(duckdb_tables.connect(), items, table)


def guard_texts(guard: str, source: pa.RecordBatch | pa.Table) -> pa.Array:
    """A guard, which is NULL where it fails itself."""
    values, _ = evaluate({"text": Computed(guard, pa.string(), fails=True)}, source)
    return values["text"]
