"""What the shards report of a micro-batch, taken together on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from windowpane.checkpoint.ledger import Entry
from windowpane.core.accounting import Accounting
from windowpane.core.wire import unpack_frames
from windowpane.spark.fold_stage import FUTURE, NUMBERED, REINJECTED, TIMES
from windowpane.spark.timings import seconds

_STANDING = ("maxima", "held_by", "open_windows", "state_bytes", "watermarks")
Metas: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Reports:
    """All shards' counts, and what each says beside them."""

    counts: Accounting
    metas: Metas

    @classmethod
    def of(cls, payloads: Iterable[bytes]) -> Reports:
        unpacked = [unpack_frames(payload) for payload in payloads]
        return cls(sum((counts for _, counts, _ in unpacked), Accounting()), [meta for _, _, meta in unpacked])

    def clock_us(self, otherwise: int) -> int:
        return max((int(meta["clock_us"]) for meta in self.metas), default=otherwise)

    def watermark_us(self, otherwise: int | None) -> int | None:
        """Every shard computes the same watermark from the same messages."""
        distinct = {meta["watermark_us"] for meta in self.metas}
        assert len(distinct) <= 1, f"shards disagree on the watermark: {distinct}"
        found = distinct.pop() if distinct else otherwise
        return found if isinstance(found, int) else None

    @cached_property
    def tallies(self) -> Counter[str]:
        """Counts beside the accounting, over all tasks."""
        return _summed(self.metas, "tallies")

    @property
    def read_again(self) -> int:
        """Rows that the tasks have read a further time."""
        return self.tallies[REINJECTED]

    @property
    def numbered(self) -> int:
        """Rows that have arrival numbers."""
        return self.tallies[NUMBERED]

    def side(self) -> Counter[str]:
        """Side rows by kind."""
        return _summed(self.metas, "side")

    def measures(self, before: Entry | None) -> dict[str, Any]:
        """Fields of a ledger entry that say how things stand rather than what became of rows.

        Where no shard reports, they stand as they did.
        """
        if not self.metas:
            return {"results": 0} | ({name: getattr(before, name) for name in _STANDING} if before else {})
        first = self.metas[0]
        return {
            "results": sum(int(meta["results"]) for meta in self.metas),
            "maxima": dict(first["maxima"]),
            "held_by": first["held_by"],
            "times": time_sources(self.tallies),
            "future_rows": self.tallies[FUTURE],
            "open_windows": open_windows(self.metas),
            "state_bytes": sum(int(meta["state_bytes"]) for meta in self.metas),
            "spent": seconds(self.tallies),
            "watermarks": max((int(meta["watermarks"]) for meta in self.metas), default=0),
        }


def open_windows(metas: Metas) -> int:
    """Windows that are open: those that shards share once, those of single groups added up."""
    shared = [first + step * np.arange(count) for meta in metas for first, step, count in meta["open_runs"]]
    own = sum(int(meta["open_windows"]) for meta in metas)
    return own + (len(np.unique(np.concatenate(shared))) if shared else 0)


def time_sources(tallies: Mapping[str, int]) -> dict[str, int]:
    """Rows by where they have their time from."""
    return {name.removeprefix(TIMES): count for name, count in tallies.items() if name.startswith(TIMES) and count}


def _summed(metas: Metas, name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for meta in metas:
        total.update(meta[name])
    return total
