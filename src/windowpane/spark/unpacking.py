"""Packed results and side rows to rows, in the workers. Imports the core alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    identify: bool
    """The results need the identity of their window."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                for frame in unpack_frames(payload.as_py())[0]:
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
class SideDocuments:
    """Picklable: `run` turns packed side rows into JSON records in the workers."""

    plan_id: str
    kinds: tuple[str, ...]
    originals: tuple[str, ...]
    """Kinds whose records keep the original event."""
    limits: tuple[tuple[str, int], ...] = ()
    """Kinds that have one, with their limit in records per second."""
    allowances: tuple[tuple[str, int], ...] = ()
    """Kinds of which this micro-batch has more than their limit, with the number of records to write."""

    def allowing(self, allowances: Mapping[str, int]) -> SideDocuments:
        """The same with no more records of these kinds than given."""
        return replace(self, allowances=tuple((kind, allowances[kind]) for kind in self.kinds if kind in allowances))

    def by_allowance(self) -> tuple[SideDocuments, list[tuple[SideDocuments, int]]]:
        """The kinds that may all be written, and the others one by one with their allowance."""
        limited = dict(self.allowances)
        free = replace(self, kinds=tuple(kind for kind in self.kinds if kind not in limited), allowances=())
        return free, [(replace(self, kinds=(kind,), allowances=()), count) for kind, count in limited.items()]

    def texts(self, batches: Sequence[pa.RecordBatch]) -> list[str]:
        """Records of all these side rows."""
        limited, found = dict(self.allowances), []
        for kind in self.kinds:
            one = replace(self, kinds=(kind,))
            found += [text for batch in batches for text in one._texts(batch)][: limited.get(kind)]  # noqa: SLF001
        return found

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                for frame in unpack_frames(payload.as_py())[0]:
                    assert isinstance(frame, SideRows)
                    yield pa.RecordBatch.from_arrays([pa.array(self._texts(frame.batch), pa.string())], ["value"])

    def _texts(self, batch: pa.RecordBatch) -> list[str]:
        chosen = batch.filter(pc.is_in(batch.column("kind"), pa.array(self.kinds, pa.string())))
        return [json.dumps(self._trimmed(record)) for record in side.to_records(chosen, self.plan_id)]

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
