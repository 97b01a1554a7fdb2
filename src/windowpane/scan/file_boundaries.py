"""Splits batches that Spark has read at the boundaries between files, so that rows can be ordered by file."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core.numbering import NOWHERE, Place
from windowpane.scan.scan import Scanned


def by_place(batches: Iterator[pa.RecordBatch]) -> Iterator[Scanned]:
    """Batches, split where the file changes if they have the columns FILE. Spark packs several files into a task."""
    for batch in batches:
        if c.FILE in batch.schema.names:
            yield from _cut(batch)
        else:
            yield Scanned(batch)


def _cut(batch: pa.RecordBatch) -> Iterator[Scanned]:
    paths, modified, starts = (batch.column(name) for name in c.FILE_COLUMNS)
    rows = batch.drop_columns(list(c.FILE_COLUMNS))
    low = 0
    for high in _ends([paths, modified, starts]):
        path = paths[low].as_py()
        place = NOWHERE if path is None else _place(path, modified[low].as_py(), starts[low].as_py())
        yield Scanned(rows.slice(low, high - low), place=place)
        low = high


def _place(path: str, modified_us: int, start: int) -> Place:
    return Place.of_file(modified_us, unquote(path.removeprefix("file://").removeprefix("file:")), start)


def _ends(columns: list[pa.Array]) -> list[int]:
    """The ends of the runs of rows that are equal in all columns."""
    ends = [pc.run_end_encode(column).run_ends.to_numpy() for column in columns if len(column)]
    found: list[int] = np.unique(np.concatenate(ends)).tolist() if ends else []
    return found
