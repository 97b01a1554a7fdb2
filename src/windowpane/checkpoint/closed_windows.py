"""Closed windows that are kept for repairs: their accumulators in compressed Arrow files, one per micro-batch.

They are outside of the state that micro-batches load and save. A file has the accumulators of the windows that a
micro-batch has closed, and its name the end of the last one, so that old files are found without being read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from windowpane.checkpoint.records import FORMAT, encoded, read_object
from windowpane.checkpoint.store import Store, corrupt
from windowpane.core import columns as c

_NAME = re.compile(r"(\d{12})-(-?\d+)\.arrow")
_SINCE = "since.json"


class ClosedWindows:
    """Files `<batch>-<end of the last window>.arrow`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, watermark_us: int | None) -> None:
        """Note the watermark before the first batch whose closed windows are kept."""
        if not self._store.exists(_SINCE):
            self._store.replace(_SINCE, encoded({"format": FORMAT, "watermark_us": watermark_us}))

    def has_begun(self) -> bool:
        return self._store.exists(_SINCE)

    def since_us(self) -> int | None:
        """Windows that a later watermark has closed are here, if they had rows; None: all windows are."""
        found = read_object(self._store, _SINCE, {"watermark_us": (int, type(None))})
        return None if found is None else found["watermark_us"]

    def put(self, batch_id: int, states: Sequence[pa.RecordBatch]) -> None:
        """Keep what a batch has closed. Durable when this returns."""
        present = [each for each in states if each.num_rows]
        if not present:
            return
        table = pa.Table.from_batches(present).combine_chunks()
        last = pc.max(table.column(c.WINDOW_END)).as_py()
        self._store.replace(f"{batch_id:012}-{last}.arrow", packed(table))

    def expire(self, before_us: int) -> None:
        """Remove files all of whose windows end before an instant."""
        for name, last in self._files():
            if last < before_us:
                self._store.delete(name, durable=False)

    def read(self) -> Iterator[pa.Table]:
        """The files in order of their batches."""
        for name, _ in self._files():
            data = self._store.read(name)
            if data is not None:
                yield unpacked(data, self._store.address(name))

    def _files(self) -> list[tuple[str, int]]:
        found = [_NAME.fullmatch(name) for name in sorted(self._store.names())]
        return [(match[0], int(match[2])) for match in found if match is not None]


def packed(table: pa.Table) -> bytes:
    """A table as a compressed Arrow file."""
    data = io.BytesIO()
    with pa.ipc.new_file(data, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return data.getvalue()


def unpacked(data: bytes, address: str) -> pa.Table:
    """What `packed` was given; StateError if the file is damaged."""
    try:
        return pa.ipc.open_file(data).read_all()
    except (pa.ArrowException, OSError) as broken:
        raise corrupt(address, f"no Arrow file ({broken})") from broken
