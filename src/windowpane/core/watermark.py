"""The watermark and the largest event time per source partition that it follows from. Depends only on messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass
class PartitionWatermark:
    """`min over source partitions that are not idle (max event time) - lag`, never moving back; None before any row.

    A stream of `streams` that has shown no row yet holds the watermark, unless it is idle.
    """

    lag_us: int
    streams: Collection[str] = ()
    idle_timeout_us: int | None = None
    watermark_us: int | None = None
    maxima: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, int] = field(default_factory=dict)
    """Processing time of the last micro-batch in which a source partition, or a stream, had rows."""

    def observe(self, maxima: Mapping[str, int | None], clock_us: int) -> None:
        """Take in the largest event times of a micro-batch; None for a partition whose rows move nothing."""
        for partition, largest in maxima.items():
            self.last_seen[partition] = self.last_seen[_stream_of(partition)] = clock_us
            if largest is not None:
                self.maxima[partition] = max(largest, self.maxima.get(partition, largest))

    def begin(self, clock_us: int) -> None:
        """The first micro-batch starts the idle clock of streams that have not been heard of."""
        for stream in self.streams:
            self.last_seen.setdefault(stream, clock_us)

    def advance(self, clock_us: int) -> int | None:
        """Move to where the maxima allow, and return where it stands."""
        candidate = self._candidate(clock_us)
        if candidate is not None and (self.watermark_us is None or candidate > self.watermark_us):
            self.watermark_us = candidate
        return self.watermark_us

    def _candidate(self, clock_us: int) -> int | None:
        if any(not self._heard(stream) and not self._idle(stream, clock_us) for stream in self.streams):
            return None
        active = [largest for partition, largest in self.maxima.items() if not self._idle(partition, clock_us)]
        if not active:
            return None
        return min(active) - self.lag_us

    def _heard(self, stream: str) -> bool:
        return any(_stream_of(partition) == stream for partition in self.maxima)

    def _idle(self, partition: str, clock_us: int) -> bool:
        if self.idle_timeout_us is None:
            return False
        return clock_us - self.last_seen.get(partition, clock_us) >= self.idle_timeout_us

    def holding(self, clock_us: int) -> str | None:
        """The source partition whose maximum holds the watermark: the answer to "why does nothing come out"."""
        active = {name: largest for name, largest in self.maxima.items() if not self._idle(name, clock_us)}
        return min(active, key=lambda name: (active[name], name)) if active else None


def _stream_of(partition: str) -> str:
    return partition.rpartition("/")[0]
