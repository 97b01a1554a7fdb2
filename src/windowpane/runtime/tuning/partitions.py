"""Source partitions one by one: how late their rows are, which clocks are wrong, and which have stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from windowpane.checkpoint.ledger import Entry
from windowpane.core.lateness import LatenessSketch
from windowpane.runtime.asking.asked import Asked, shown, span
from windowpane.runtime.tuning.lags import lag_for, share

CLOCK_US = 60_000_000
"""A partition that is further from the others than this, all the time, has a wrong clock."""
_LOOKED_AT = 200
"""Micro-batches that are compared."""
_SILENT = 5
"""Micro-batches in which others had rows, after which a partition counts as stopped."""


@dataclass(frozen=True)
class PartitionTuning:
    """One source partition."""

    partition: str
    rows: int
    late_rows: int
    share: float
    lag_us: int
    """The lag that loses no more than what is accepted of its rows."""
    ahead_us: int | None
    """How far its event times are ahead of those of the others; negative: behind. None if it is alone."""
    flag: str | None = None
    """What is wrong with it."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def partition_tunings(
    asked: Asked, sketch: LatenessSketch, progress: Sequence[Mapping[str, int]], entries: Sequence[Entry], loss: float
) -> list[PartitionTuning]:
    """All partitions, the latest rows first. `progress`: the largest event times after each micro-batch."""
    threshold_us = asked.lag_us + asked.lateness_us
    recent = list(progress)[-_LOOKED_AT:]
    names = dict.fromkeys([*sketch.partitions(), *(recent[-1] if recent else {})])
    found = []
    for name in names:
        ahead_us = _ahead(name, recent)
        found.append(
            PartitionTuning(
                name, sketch.rows(name), round(sketch.late(threshold_us, name)), share(sketch, threshold_us, name),
                lag_for(sketch, loss, asked.lateness_us, name), ahead_us,
                _stopped(name, recent, entries) or _wrong_clock(ahead_us, recent, name) or _future(name, entries),
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: (-each.share, each.partition))


def _distances(name: str, progress: Sequence[Mapping[str, int]]) -> list[int]:
    """How far the partition was ahead of the others, in micro-batches in which it went on."""
    found, before = [], None
    for maxima in progress:
        others = [us for other, us in maxima.items() if other != name]
        if name in maxima and others and maxima[name] != before:
            found.append(maxima[name] - round(median(others)))
        before = maxima.get(name)
    return found


def _ahead(name: str, progress: Sequence[Mapping[str, int]]) -> int | None:
    distances = _distances(name, progress)
    return round(median(distances)) if distances else None


def _wrong_clock(ahead_us: int | None, progress: Sequence[Mapping[str, int]], name: str) -> str | None:
    """A clock that is wrong is so all the time; a partition that catches up comes nearer."""
    if ahead_us is None or abs(ahead_us) <= CLOCK_US:
        return None
    distances = _distances(name, progress)
    steady = [each for each in distances if each * ahead_us > 0 and abs(each) > abs(ahead_us) / 2]
    others = len(progress[-1]) - 1
    if len(steady) < 0.9 * len(distances) or (others == 1 and ahead_us < 0):
        return None  # of two partitions, the one ahead is named
    way = "ahead of" if ahead_us > 0 else "behind"
    return f"its clock is {span(abs(ahead_us))} {way} the others"


def _stopped(name: str, progress: Sequence[Mapping[str, int]], entries: Sequence[Entry]) -> str | None:
    """Whether others have gone on without it."""
    if not progress or name not in progress[-1]:
        return None
    last, since = progress[-1], len(progress) - 1
    while since and progress[since - 1].get(name) == last[name]:
        since -= 1
    moved = sum(
        any(after[other] != before.get(other) for other in after if other != name)
        for before, after in zip(progress[since:], progress[since + 1 :], strict=False)
    )
    if moved < _SILENT:
        return None
    when = f" since {shown(entries[-len(progress) + since].clock_us)}" if len(entries) >= len(progress) else ""
    return f"no rows{when}"


def _future(name: str, entries: Sequence[Entry]) -> str | None:
    """Whether its event times are ahead of processing time."""
    ahead = [entry.maxima[name] - entry.clock_us for entry in entries[-_LOOKED_AT:] if name in entry.maxima]
    if not ahead or median(ahead) <= CLOCK_US:
        return None
    return f"its clock is {span(round(median(ahead)))} ahead of processing time"
