"""The columnar scan in the workers: what Spark's source lists or hands over, read and projected.

A reader says where the rows of the source come from; the projection makes of them what operators take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from windowpane.core import columns as c
from windowpane.core.aggregation import empty_batch
from windowpane.core.columns import SOURCE_TIME
from windowpane.core.numbering import NOWHERE, Place
from windowpane.core.side import DECODE
from windowpane.evaluation.projection import Projection
from windowpane.scan.original_events import SourceRows

_BESIDE = (c.SOURCE_PARTITION, SOURCE_TIME)
"""Columns of a source that are no part of the row as it was."""


@dataclass(frozen=True)
class Damage:
    """In place of rows that cannot be read: what is wrong with where they are."""

    detail: str


@dataclass(frozen=True)
class Part:
    """What was read, and where it stands."""

    content: pa.RecordBatch | Damage
    place: Place = NOWHERE


class Reader(Protocol):
    """Where rows come from. Picklable: `read` runs in the workers."""

    @property
    def place(self) -> tuple[str, ...]:
        """Columns that say where a row stands that could not be read."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, but CORRUPT, which is there where something could not be read."""

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        """The rows of a task, in batches as large as they are folded, for what Spark has handed to it."""


@dataclass(frozen=True)
class Scanned:
    """Rows as operators take them. With `source`, which is what was read, EVENT numbers its rows."""

    rows: pa.RecordBatch
    source: SourceRows | None = None
    place: Place = NOWHERE


@dataclass(frozen=True)
class Scan:
    """Picklable: `read` runs in the workers."""

    reader: Reader
    projection: Projection
    original: bool = False
    """Side outputs keep events: the rows as they were read go along."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the rows, with their events as text."""
        schema = self.projection.rows(empty_batch(self.reader.schema), 0).schema
        return schema.append(pa.field(c.EVENT, pa.string())) if self.original else schema

    def read(self, handed: Iterator[pa.RecordBatch], clock_us: int) -> Iterator[Scanned]:
        for part in self.reader.read(handed):
            found = part.content
            scanned = self._damaged(found) if isinstance(found, Damage) else self._scanned(found, clock_us)
            yield replace(scanned, place=part.place)

    def _scanned(self, source: pa.RecordBatch, clock_us: int) -> Scanned:
        rows = self.projection.rows(source, clock_us)
        if not self.original:
            return Scanned(rows)
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        beside = [name for name in _BESIDE if name in source.schema.names]
        whole = source.drop_columns(beside) if beside else source
        return Scanned(rows.append_column(c.EVENT, numbers), SourceRows(whole, self.reader.place))

    def _damaged(self, damage: Damage) -> Scanned:
        columns = {field.name: pa.nulls(1, field.type) for field in self.schema}
        columns |= {c.ERROR: pa.array([DECODE]), c.DETAIL: pa.array([damage.detail])}
        return Scanned(pa.RecordBatch.from_pydict(columns))
