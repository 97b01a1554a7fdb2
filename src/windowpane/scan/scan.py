"""The columnar scan in the workers: a reader reads rows, a projection computes from them the columns of operators.

Spark's source tells the reader which files or messages to read.
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
from windowpane.evaluation.common_values import CommonValues
from windowpane.evaluation.projection import Projection
from windowpane.scan.original_events import SourceRows

_BESIDE = (c.SOURCE_PARTITION, SOURCE_TIME)
"""Columns that the reader adds, and that are not part of the original row."""


@dataclass(frozen=True)
class Damage:
    """A file that cannot be read, or not to its end. It becomes one error row."""

    detail: str


@dataclass(frozen=True)
class Part:
    """Rows that were read, and their place in the source, which orders them."""

    content: pa.RecordBatch | Damage
    place: Place = NOWHERE


class Reader(Protocol):
    """Reads the rows of a source. Pickled: `read` runs in the workers."""

    @property
    def place(self) -> tuple[str, ...]:
        """Columns that locate a record in the source. The original event of a bad record has them beside its text."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, without CORRUPT, which readers of text and messages add."""

    def read(self, handed: Iterator[pa.RecordBatch]) -> Iterator[Part]:
        """The rows of a task. `handed`: the file listing, or the messages, that Spark has assigned to it."""


@dataclass(frozen=True)
class Scanned:
    """Rows as operators take them. If there is a `source`, EVENT has the number of each row in it."""

    rows: pa.RecordBatch
    source: SourceRows | None = None
    place: Place = NOWHERE


@dataclass(frozen=True)
class Scan:
    """A reader, and projections one after the other. Pickled: `read` runs in the workers."""

    reader: Reader
    projections: tuple[Projection, ...]
    original: bool = False
    """A side output keeps original events, so the rows as they were read are kept along."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the rows, with their original events as text."""
        schema = self._projected(empty_batch(self.reader.schema), 0).schema
        return schema.append(pa.field(c.EVENT, pa.string())) if self.original else schema

    def read(self, handed: Iterator[pa.RecordBatch], clock_us: int) -> Iterator[Scanned]:
        for part in self.reader.read(handed):
            found = part.content
            scanned = self.damaged(found) if isinstance(found, Damage) else self.scanned(found, clock_us)
            yield replace(scanned, place=part.place)

    def _projected(self, source: pa.RecordBatch, clock_us: int, common: CommonValues | None = None) -> pa.RecordBatch:
        first, *others = self.projections
        rows = first.rows(source, clock_us, common)
        for projection in others:
            rows = projection.rows(rows, clock_us)
        return rows

    def scanned(self, source: pa.RecordBatch, clock_us: int, common: CommonValues | None = None) -> Scanned:
        """Rows that the reader has read. `common`: what this scan and others compute of them."""
        rows = self._projected(source, clock_us, common)
        if not self.original:
            return Scanned(rows)
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        beside = [name for name in _BESIDE if name in source.schema.names]
        whole = source.drop_columns(beside) if beside else source
        return Scanned(rows.append_column(c.EVENT, numbers), SourceRows(whole, self.reader.place))

    def damaged(self, damage: Damage) -> Scanned:
        """The error row of a file that cannot be read."""
        columns = {field.name: pa.nulls(1, field.type) for field in self.schema}
        columns |= {c.ERROR: pa.array([DECODE]), c.DETAIL: pa.array([damage.detail])}
        return Scanned(pa.RecordBatch.from_pydict(columns))
