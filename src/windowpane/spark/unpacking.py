"""Packed results and side rows to rows, in the workers. Imports the core alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.core import columns as c
from windowpane.core import side
from windowpane.core.frames import Emissions, SideRows
from windowpane.core.rows import int64s
from windowpane.core.window_id import window_ids
from windowpane.core.wire import unpack_frames

IDENTITY = "_window_id"


@dataclass(frozen=True)
class Unpack:
    """Picklable: `run` turns packed results into rows in the workers."""

    plan_id: str
    schema: pa.Schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                for frame in unpack_frames(payload.as_py())[0]:
                    assert isinstance(frame, Emissions)
                    yield self._identified(frame.batch)

    def _identified(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch.select(self.schema.names).cast(self.schema)
        if c.WINDOW_START not in self.schema.names:
            return batch
        salt = int64s(batch, c.WINDOW_SALT) if c.WINDOW_SALT in self.schema.names else None
        ids = window_ids(self.plan_id, int64s(batch, c.WINDOW_START), int64s(batch, c.WINDOW_END), salt)
        return batch.append_column(IDENTITY, ids)


@dataclass(frozen=True)
class SideDocuments:
    """Picklable: `run` turns packed side rows into JSON records in the workers."""

    plan_id: str
    kinds: tuple[str, ...]
    originals: tuple[str, ...]
    """Kinds whose records keep the original event."""
    limits: tuple[tuple[str, int], ...] = ()
    """Kinds that have one, with their limit in records per second."""

    def only(self, kind: str) -> SideDocuments:
        return replace(self, kinds=(kind,))

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                for frame in unpack_frames(payload.as_py())[0]:
                    assert isinstance(frame, SideRows)
                    chosen = frame.batch.filter(pc.is_in(frame.batch.column("kind"), pa.array(self.kinds, pa.string())))
                    texts = [json.dumps(self._trimmed(record)) for record in side.to_records(chosen, self.plan_id)]
                    yield pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["value"])

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
        return [json.dumps(record) for record in side.to_records(batch, self.plan_id)]

    def _trimmed(self, record: dict[str, object]) -> dict[str, object]:
        return record if record["kind"] in self.originals else record | {"original_event": None}
