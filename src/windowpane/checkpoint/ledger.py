"""The ledger in the checkpoint folder: what each micro-batch read, emitted and set aside, and where time stood.

One JSON file per batch, written whole or not at all, before Spark commits the batch. A replayed batch writes its entry
again.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from windowpane.core.accounting import Accounting
from windowpane.durable import corrupt, read_object, write_whole

FORMAT = 1
KEPT = 1000
"""Entries kept in full; totals go back to the first batch."""


@dataclass(frozen=True)
class Entry:
    """A micro-batch. `totals` are sums over all batches up to this one."""

    batch_id: int
    clock_us: int
    watermark_us: int | None
    accounting: dict[str, int]
    totals: dict[str, int]
    results: int
    side: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Side rows beyond their channel's rate limit or room, by kind: counted above, and not written."""
    undelivered: dict[str, int] = field(default_factory=dict)
    """Side rows of earlier batches that wait for a sink that is away, by sink."""
    outbox: dict[str, int] = field(default_factory=dict)
    """Rows that this batch and those before it have put into the outbox, by sink; absent in earlier versions."""
    reinjected: dict[str, int] = field(default_factory=dict)
    """Rows that are read again, by the kind they had: not counted above but as buffered."""
    reinjecting: int = 0
    """Rows that wait to be read again; part of what is buffered."""
    maxima: dict[str, int] = field(default_factory=dict)
    held_by: str | None = None
    open_windows: int = 0
    times: dict[str, int] = field(default_factory=dict)
    """Rows by where they have their time from: `sql_override`, `config_field`, `metadata`, `processing_time`."""
    future_rows: int = 0
    watermarks: int = 0
    """How often the watermark has moved, since the first batch."""
    state_bytes: int = 0
    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)
    """Where the time went, in seconds: in the workers over all tasks, and `job` and `sink` on the driver's clock."""
    final: bool = False
    arrivals: int | None = None
    """The arrival number of the next row; None in entries of earlier versions."""
    sums: dict[str, dict[str, int]] = field(default_factory=dict)
    """Over all batches up to this one: `side`, `dropped`, `times`, `reinjected`, under `rows` results and future rows.
    """

    @staticmethod
    def next_arrival(before: Entry | None, batch_id: int) -> int:
        """The first arrival number of a batch. Earlier versions numbered the rows of batch n from n << 40."""
        return before.arrivals if before and before.arrivals is not None else batch_id << 40

    def summed(self, before: Entry | None) -> Entry:
        """This entry with `sums` carried on from the one before."""
        own = {"side": self.side, "dropped": self.dropped, "times": self.times, "reinjected": self.reinjected}
        own["rows"] = {"results": self.results, "future_rows": self.future_rows}
        earlier = before.sums if before else {}
        sums = {name: dict(Counter(earlier.get(name, {})) + Counter(counts)) for name, counts in own.items()}
        return replace(self, sums=sums)


class Ledger:
    """Entries by batch id, under `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, batch_id: int) -> Entry | None:
        """An entry; None when it is not there, StateError when it is damaged."""
        path = self.path(batch_id)
        content = read_object(path, {"format": int, "batch_id": int})
        if content is None:
            return None
        content.pop("format")
        unknown = content.keys() - Entry.__dataclass_fields__.keys()
        if unknown:
            raise corrupt(path, f"`{min(unknown)}` is unknown", "a later version of windowpane may have written it")
        try:
            entry = _ENTRY.validate_json(json.dumps(content), strict=True)
        except ValidationError as broken:
            where = ".".join(map(str, broken.errors()[0]["loc"]))
            raise corrupt(path, f"`{where}` is missing or of another type") from broken
        if entry.batch_id != batch_id:
            raise corrupt(path, f"it belongs to batch {entry.batch_id}")
        return entry

    def write(self, entry: Entry) -> None:
        write_whole(self.path(entry.batch_id), json.dumps({"format": FORMAT, **asdict(entry)}, indent=1))
        old = self.path(entry.batch_id - KEPT)
        old.unlink(missing_ok=True)

    def last(self) -> Entry | None:
        """The entry with the highest batch id."""
        ids = self.batch_ids()
        return self.read(ids[-1]) if ids else None

    def batch_ids(self) -> list[int]:
        """Batches that have an entry. A file that is no entry is none of ours, and is left alone."""
        names = [path.stem for path in self._folder.glob("*.json")] if self._folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())

    def path(self, batch_id: int) -> Path:
        return self._folder / f"{batch_id:012}.json"


_ENTRY = TypeAdapter(Entry)


def add_totals(before: Entry | None, accounting: Accounting) -> dict[str, int]:
    """Running totals; what is buffered is not summed but stands as it is."""
    totals = dict(before.totals) if before else dict.fromkeys(accounting.as_dict(), 0)
    for name, count in accounting.as_dict().items():
        totals[name] = count if name == "buffered" else totals.get(name, 0) + count
    return totals
