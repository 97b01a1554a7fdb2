"""What waits for a sink: batches, rows, bytes, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from windowpane.checkpoint.outbox_files import OutboxFile
from windowpane.time import format_instant


class Waiting(Protocol):
    """A batch that waits."""

    @property
    def rows(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def since_us(self) -> int: ...


@dataclass
class Backlog:
    """Batches by id."""

    _batches: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[OutboxFile]) -> Backlog:
        """What an outbox holds."""
        return cls({file.batch_id: (file.rows, file.size, file.since_us) for file in files})

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(size for _, size, _ in self._batches.values())

    def add(self, batch_id: int, waiting: Waiting) -> None:
        self._batches[batch_id] = (waiting.rows, waiting.size, waiting.since_us)

    def remove(self, batch_id: int) -> None:
        self._batches.pop(batch_id, None)

    def as_dict(self) -> dict[str, Any]:
        """For the status."""
        columns = list(zip(*self._batches.values(), strict=True)) or [(), (), ()]
        rows, sizes, since = columns
        return {
            "waiting_batches": len(self._batches), "waiting_rows": sum(rows), "waiting_bytes": sum(sizes),
            "waiting_since_us": min(since, default=None),
        }  # fmt: skip

    def described(self) -> str:
        """`1,204 results of 3 batches wait since 2024-05-01T12:00:48Z, 12,345 bytes`."""
        found = self.as_dict()
        batches = "1 batch" if len(self._batches) == 1 else f"{len(self._batches):,} batches"
        since = format_instant(found["waiting_since_us"] or 0)
        return f"{found['waiting_rows']:,} results of {batches} wait since {since}, {found['waiting_bytes']:,} bytes"
