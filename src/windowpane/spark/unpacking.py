"""Packed results and side rows to rows, in the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core import side, side_records
from windowpane.core.frames import Emissions, SideRows
from windowpane.core.rows import int64s
from windowpane.core.shortening import shortened
from windowpane.core.window_id import window_ids
from windowpane.core.wire import unpack_frames
from windowpane.remote.access import NO_ACCESS, Access
from windowpane.spark.overflow import Part

IDENTITY = "_window_id"
INSTANT = pa.timestamp("us", "UTC")
SIDE_TEXT = "_side_text"
"""Column of `UnpackBoth`: the record of a side row, NULL for a result."""


@dataclass(frozen=True)
class Unpack:
    """Picklable: `run` turns packed results into rows in the workers."""

    plan_id: str
    schema: pa.Schema
    identify: bool
    """The results need the identity of their window."""
    access: Access = NO_ACCESS
    """How workers reach payloads in object stores."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                for frame in unpack_frames(payload.as_py())[0]:
                    assert isinstance(frame, Emissions)
                    yield self.identified(frame.batch)

    def run_parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same for payloads in files, of `parts_table`."""
        for batch in batches:
            for part in batch.to_pylist():
                for frame in unpack_frames(Part(**part).read(self.access))[0]:
                    assert isinstance(frame, Emissions)
                    yield self.identified(frame.batch)

    @property
    def identified_schema(self) -> pa.Schema:
        """Columns that `identified` gives."""
        return self.schema.append(pa.field(IDENTITY, pa.string())) if self.identify else self.schema

    def identified(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Emissions with the identity of their window, where it is needed."""
        batch = batch.select(self.schema.names).cast(self.schema)
        if not self.identify:
            return batch
        salt = int64s(batch, c.WINDOW_SALT) if c.WINDOW_SALT in self.schema.names else None
        ids = window_ids(self.plan_id, int64s(batch, c.WINDOW_START), int64s(batch, c.WINDOW_END), salt)
        return batch.append_column(IDENTITY, ids)


@dataclass(frozen=True)
class PlainColumn:
    """A column of the query's results that is one of the emissions."""

    name: str
    source: str
    instant: bool
    """The column has microseconds, and the result is a timestamp."""

    def of(self, emitted: pa.RecordBatch) -> pa.Array:
        column = emitted.column(self.source)
        return column.cast(INSTANT) if self.instant else column


@dataclass(frozen=True)
class UnpackPlain:
    """Picklable: `run_parts` turns packed results in files into the query's results, without Spark SQL."""

    unpack: Unpack
    columns: tuple[PlainColumn, ...]

    def chosen(self, emitted: pa.RecordBatch) -> pa.RecordBatch:
        """The results of these emissions."""
        names = [column.name for column in self.columns]
        return pa.RecordBatch.from_arrays([column.of(emitted) for column in self.columns], names=names)

    def run_parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self.chosen, self.unpack.run_parts(batches))


@dataclass(frozen=True)
class SideRecords:
    """Picklable: `run` turns packed side rows into JSON records in the workers."""

    plan_id: str
    transform: str
    kinds: tuple[str, ...]
    originals: tuple[str, ...]
    """Kinds whose records keep the original event."""
    limits: tuple[tuple[str, int], ...] = ()
    """Kinds that have one, with their limit in records per second."""
    max_bytes: int | None = None
    """Longer records are cut."""

    def chosen(self, batches: Iterable[pa.RecordBatch], allowed: Mapping[str, int]) -> list[pa.RecordBatch]:
        """The side rows of these kinds, of each no more than allowed, without the events that are not asked for."""
        left, found = {kind: allowed.get(kind, 0) for kind in self.kinds}, []
        for batch in batches:
            for kind in batch.column("kind").unique().to_pylist():
                part = batch.filter(pc.equal(batch.column("kind"), kind)).slice(0, left.get(kind, 0))
                if part.num_rows:
                    left[kind] -= part.num_rows
                    kept = part if kind in self.originals else _without_event(part)
                    found.append(side.shown_details(kept, originals=kind in self.originals))
        return found

    def texts(self, batches: Iterable[pa.RecordBatch]) -> list[str]:
        """Records of all these side rows."""
        return [text for batch in batches for text in self._texts(batch)]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                for frame in unpack_frames(payload.as_py())[0]:
                    assert isinstance(frame, SideRows)
                    yield pa.RecordBatch.from_arrays([pa.array(self._texts(frame.batch), pa.string())], ["value"])

    def _texts(self, batch: pa.RecordBatch) -> list[str]:
        batch = side_records.readable(batch)
        parts = (
            side.shown_details(batch.filter(pc.equal(batch.column("kind"), kind)), originals=kind in self.originals)
            for kind in self.kinds
        )
        records = (record for part in parts for record in side_records.to_records(part, self.plan_id, self.transform))
        return self.fitted(side_records.record_text(self._trimmed(record)) for record in records)

    def fitted(self, texts: Iterable[str]) -> list[str]:
        """Records that are not too long."""
        return [shortened(text, self.max_bytes) for text in texts]

    def of_files(self, damaged: Mapping[str, str], clock_us: int, watermark_us: int | None) -> list[str]:
        """A record for each file that could not be read to its end."""
        details = [f"{path}: {reason}" for path, reason in damaged.items()]
        rows = pa.RecordBatch.from_pydict({c.ARRIVAL: pa.array(range(len(details)), pa.int64())})
        batch = side.side_batch(
            "error",
            side.DECODE,
            rows,
            clock_us=clock_us,
            watermark_us=watermark_us,
            detail=pa.array(details, pa.string()),
        )
        return [
            side_records.record_text(record) for record in side_records.to_records(batch, self.plan_id, self.transform)
        ]

    def _trimmed(self, record: dict[str, object]) -> dict[str, object]:
        return record if record["kind"] in self.originals else record | {"original_event": None}


def _without_event(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index("original_event"), "original_event", pa.nulls(batch.num_rows))


@dataclass(frozen=True)
class UnpackBoth:
    """Picklable: `run` turns packed results and packed side rows into rows of one schema, in the workers."""

    results: Unpack
    side_records: SideRecords
    side: str
    """The kind of payload that has side rows."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            side = pc.equal(batch.column("kind"), self.side)
            for found in self.side_records.run(iter([batch.filter(side)])):
                yield self._of_side_rows(found.column("value"))
            for found in self.results.run(iter([batch.filter(pc.invert(side))])):
                yield found.append_column(SIDE_TEXT, pa.nulls(found.num_rows, pa.string()))

    def _of_side_rows(self, texts: pa.Array) -> pa.RecordBatch:
        fields = self.results.identified_schema.append(pa.field(SIDE_TEXT, pa.string()))
        nulls = [pa.nulls(len(texts), field.type) for field in fields][:-1]
        return pa.RecordBatch.from_arrays([*nulls, texts], names=fields.names)
