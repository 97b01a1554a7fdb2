"""The outbox of side rows of one sink."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from windowpane.checkpoint.outbox_files import OutboxFile, OutboxFiles
from windowpane.core.accounting import Accounting
from windowpane.core.frames import SideRows
from windowpane.core.wire import pack_frames, unpack_frames

_NAME = re.compile(r"(\d{12})-(\d+)(?:-(\d+))?\.side")


@dataclass(frozen=True)
class PendingBatch:
    """The side rows of one micro-batch for one sink. `texts` are records that are JSON already."""

    batch_id: int
    batches: Sequence[pa.RecordBatch]
    texts: Sequence[str] = ()
    final: bool = False
    """Whether this is the last batch of a graceful end."""

    @property
    def rows(self) -> int:
        return sum((int(batch.num_rows) for batch in self.batches), len(self.texts))

    def packed(self) -> bytes:
        """All of it in one payload, which `SideRecords` can read too."""
        frames = [SideRows(batch) for batch in self.batches]
        return pack_frames(frames, Accounting(), batch_id=self.batch_id, texts=list(self.texts), final=self.final)

    @classmethod
    def unpacked(cls, payload: bytes) -> PendingBatch:
        frames, _, meta = unpack_frames(payload)
        texts = meta["texts"]
        assert isinstance(texts, list)
        batches = [frame.batch for frame in frames if isinstance(frame, SideRows)]
        return cls(int(str(meta["batch_id"])), batches, tuple(texts), bool(meta["final"]))


class Outbox(OutboxFiles[PendingBatch]):
    """Files `<batch>-<rows>-<fence>.side`."""

    holds = "side rows"

    def parsed(self, name: str) -> OutboxFile | None:
        match = _NAME.fullmatch(name)
        return OutboxFile(int(match[1]), int(match[3] or 0), int(match[2]), name) if match else None

    def named(self, pending: PendingBatch) -> str:
        return _name(pending.batch_id, pending.rows, self._store.fence)

    def address_of(self, batch_id: int, rows: int, fence: int) -> str:
        return self._store.address(_name(batch_id, rows, fence))

    def unpacked(self, payload: bytes) -> PendingBatch:
        return PendingBatch.unpacked(payload)


def _name(batch_id: int, rows: int, fence: int) -> str:
    return f"{batch_id:012}-{rows}-{fence}.side" if fence else f"{batch_id:012}-{rows}.side"
