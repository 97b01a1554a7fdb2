"""The reports of all shards after a micro-batch, summed up on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from windowpane.checkpoint.ledger import Entry
from windowpane.core.accounting import Accounting
from windowpane.core.lateness import LatenessSketch
from windowpane.errors import InternalError
from windowpane.spark.fold import FUTURE, NUMBERED, REINJECTED, REPLAYED, SKIPPED, TIMES
from windowpane.spark.shard_report import ShardReport
from windowpane.spark.stages import RECEIVED, SENT
from windowpane.spark.timings import seconds

_STANDING = ("maxima", "latest_us", "held_by", "open_windows", "state_bytes", "watermarks")


@dataclass(frozen=True)
class Reports:
    """All shards' counts, and their reports."""

    counts: Accounting
    shards: Sequence[ShardReport]

    def stages(self) -> dict[str, Accounting]:
        """The accounts of windows over the results of others, by name."""
        found: dict[str, Accounting] = {}
        for shard in self.shards:
            for name, counts in shard.stages.items():
                found[name] = found.get(name, Accounting()) + Accounting(**counts)
        return found

    @classmethod
    def of(cls, payloads: Iterable[bytes]) -> Reports:
        unpacked = [ShardReport.unpack(payload) for payload in payloads]
        return cls(sum((counts for _, counts in unpacked), Accounting()), [report for report, _ in unpacked])

    def clock_us(self, otherwise: int) -> int:
        return max((shard.clock_us for shard in self.shards), default=otherwise)

    def watermark_us(self, otherwise: int | None) -> int | None:
        """Every shard of the first stage computes the same watermark from the same messages."""
        distinct = {shard.watermark_us for shard in self.shards if shard.step == 1}
        assert len(distinct) <= 1, f"shards disagree on the watermark: {distinct}"
        return distinct.pop() if distinct else otherwise

    def _latest_us(self, before: Entry | None) -> int | None:
        known = [shard.latest_us for shard in self.shards if shard.latest_us is not None]
        known += [before.latest_us] if before and before.latest_us is not None else []
        return max(known, default=None)

    def shuffled(self) -> list[list[int]]:
        """What each shard has received, for each shuffle."""
        steps = range(1, max((shard.step for shard in self.shards), default=0) + 1)
        return [
            [shard.tallies.get(f"{RECEIVED}{step}", 0) for shard in self.shards if shard.step == step] for step in steps
        ]

    def check_crossings(self) -> None:
        """InternalError unless all that was sent to a stage has arrived there."""
        for step in sorted({shard.step for shard in self.shards}):
            sent, received = self.tallies[f"{SENT}{step}"], self.tallies[f"{RECEIVED}{step}"]
            if sent != received:
                raise InternalError(
                    "ACCOUNTING",
                    f"{sent} rows were sent to stage {step}, and {received} arrived",
                    "this is a bug in windowpane: please report it with the query",
                )

    @cached_property
    def tallies(self) -> Counter[str]:
        """Counts beside the accounting, over all tasks."""
        return _summed(shard.tallies for shard in self.shards)

    @property
    def read_again(self) -> int:
        """Reinjected rows that the tasks have read."""
        return self.tallies[REINJECTED]

    @property
    def replayed(self) -> int:
        """Side rows that the first task has sent once more."""
        return self.tallies[REPLAYED]

    @property
    def skipped(self) -> int:
        """Rows that only another version of the query takes."""
        return self.tallies[SKIPPED]

    @property
    def numbered(self) -> int:
        """Rows that have arrival numbers."""
        return self.tallies[NUMBERED]

    def side(self) -> Counter[str]:
        """Side rows by kind."""
        return _summed(shard.side for shard in self.shards)

    def measures(self, before: Entry | None) -> dict[str, Any]:
        """Fields of a ledger entry besides the accounting. Without any report, they stay as they were."""
        if not self.shards:
            return {"results": 0} | ({name: getattr(before, name) for name in _STANDING} if before else {})
        first = next(shard for shard in self.shards if shard.step == 1)
        return {
            "results": sum(shard.results for shard in self.shards),
            "maxima": dict(first.maxima),
            "latest_us": self._latest_us(before),
            "held_by": first.held_by,
            "lateness": LatenessSketch.of_tallies(self.tallies).bounded().encoded(),
            "times": time_sources(self.tallies),
            "future_rows": self.tallies[FUTURE],
            "open_windows": open_windows(self.shards),
            "state_bytes": sum(shard.state_bytes for shard in self.shards),
            "spent": seconds(self.tallies),
            "shuffled": self.shuffled(),
            "watermarks": max(shard.watermarks for shard in self.shards),
        }


def open_windows(shards: Sequence[ShardReport]) -> int:
    """Open windows. Those that shards share are counted once."""
    return sum(shard.open_windows for shard in shards) + sum(map(_distinct, open_runs(shards).values()))


def open_runs(shards: Sequence[ShardReport]) -> dict[str, list[list[int]]]:
    """Keys of the open windows that all groups share, by stage, as `arithmetic_runs` of each shard."""
    runs: dict[str, list[list[int]]] = {}
    for shard in shards:
        for stage, found in {"": shard.open_runs, **shard.stage_runs}.items():
            runs.setdefault(stage, []).extend(found)
    return runs


def _distinct(runs: Sequence[Sequence[int]]) -> int:
    keys = [first + step * np.arange(count) for first, step, count in runs]
    return len(np.unique(np.concatenate(keys))) if keys else 0


def time_sources(tallies: Mapping[str, int]) -> dict[str, int]:
    """Rows by the source of their time."""
    return {name.removeprefix(TIMES): count for name, count in tallies.items() if name.startswith(TIMES) and count}


def _summed(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
