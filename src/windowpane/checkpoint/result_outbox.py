"""The outbox of results of one sink: batches that a sink which is away has not taken, and those behind them.

A batch is an Arrow file with the results as the sink is to get them. Results that are too many for the driver are in
files of their own, which the executors write to the folder `parts`; the batch's file names them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from windowpane.checkpoint.outbox_files import OutboxFile, OutboxFiles
from windowpane.remote.objects import is_object_store

PARTS = "parts"
_ABOUT = b"windowpane"
"""The key of the Arrow schema's metadata that holds what else is known of a batch."""
_NAME = re.compile(r"(\d{12})-(\d+)-(\d+)-(\d+)-(\d+)\.arrow")
_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, kw_only=True)
class ResultPart:
    """A file with some of a batch's results. `name`: within the folder `parts`."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True, kw_only=True)
class WaitingResults:
    """The results of one micro-batch for one sink: in `table`, or in `parts`."""

    batch_id: int
    since_us: int
    columns: str
    """The types of the columns, as JSON of Spark."""
    run: str
    identified: bool
    was_unnamed: bool
    table: pa.Table
    parts: tuple[ResultPart, ...] = ()

    @property
    def rows(self) -> int:
        return sum((part.rows for part in self.parts), int(self.table.num_rows))

    @property
    def size(self) -> int:
        """Bytes in the checkpoint."""
        return sum((part.size for part in self.parts), len(self._packed))

    def packed(self) -> bytes:
        return self._packed

    @cached_property
    def _packed(self) -> bytes:
        about = {
            "batch_id": self.batch_id, "since_us": self.since_us, "columns": self.columns, "run": self.run,
            "identified": self.identified, "was_unnamed": self.was_unnamed,
            "parts": [[part.name, part.rows, part.size] for part in self.parts],
        }  # fmt: skip
        table = self.table.replace_schema_metadata({_ABOUT: json.dumps(about).encode()})
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(out, table.schema, options=_ZSTD) as writer:
            writer.write_table(table)
        return bytes(out.getvalue())

    @classmethod
    def unpacked(cls, payload: bytes) -> WaitingResults:
        table = pa.ipc.open_file(payload).read_all()
        about = json.loads((table.schema.metadata or {})[_ABOUT])
        parts = tuple(ResultPart(name=name, rows=rows, size=size) for name, rows, size in about.pop("parts"))
        return cls(table=table.replace_schema_metadata(None), parts=parts, **about)


class ResultOutbox(OutboxFiles[WaitingResults]):
    """Files `<batch>-<rows>-<bytes>-<since>-<fence>.arrow`, and `parts/<batch>-….arrow`."""

    holds = "results"

    def parsed(self, name: str) -> OutboxFile | None:
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        batch_id, rows, size, since_us, fence = map(int, match.groups())
        return OutboxFile(batch_id, fence, rows, name, size, since_us)

    def named(self, pending: WaitingResults) -> str:
        numbers = (pending.rows, pending.size, pending.since_us, self._store.fence)
        return f"{pending.batch_id:012}-{'-'.join(map(str, numbers))}.arrow"

    def address_of(self, batch_id: int, rows: int, fence: int) -> str:
        return self._store.address(f"{batch_id:012}-{rows}-*-{fence}.arrow")

    def unpacked(self, payload: bytes) -> WaitingResults:
        return WaitingResults.unpacked(payload)

    def put(self, pending: WaitingResults) -> None:
        if pending.parts:
            self._store.sync(PARTS)
        self._remove_parts(pending.batch_id, kept=[part.name for part in pending.parts])
        for file in self._files():
            if file.batch_id == pending.batch_id:
                self._store.delete(file.name)
        self._store.replace(self.named(pending), pending.packed())

    def remove(self, batch_id: int) -> None:
        super().remove(batch_id)
        self._remove_parts(batch_id)

    def forget_after(self, batch_id: int) -> None:
        super().forget_after(batch_id)
        there = {file.batch_id for file in self._files()}
        folder = self._store.below(PARTS)
        for name in folder.names():
            if not any(name.startswith(_prefix(each)) for each in there):
                folder.delete(name)

    def parts_folder(self) -> str | None:
        """Where workers write parts; None if they cannot write to such a store."""
        path = self._store.spark_path(PARTS)
        if not path.startswith("/"):
            return path if is_object_store(path) else None
        self._store.make_folder(PARTS)
        return path

    def part_prefix(self, batch_id: int) -> str:
        """What the names of a batch's parts begin with."""
        return _prefix(batch_id)

    def _remove_parts(self, batch_id: int, kept: Sequence[str] = ()) -> None:
        folder = self._store.below(PARTS)
        for name in folder.names():
            if name.startswith(_prefix(batch_id)) and name not in kept:
                folder.delete(name)


def _prefix(batch_id: int) -> str:
    return f"{batch_id:012}-"
