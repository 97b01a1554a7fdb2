"""Batch size and shards, from what the micro-batches in the ledger took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from windowpane.checkpoint.ledger import Entry

_LEAST = 10
"""Micro-batches with rows that a fit needs."""
_FACTORS = (0.25, 0.5, 1, 2, 4)
FIXED_SHARE = 0.2
"""The part of a micro-batch that its fixed cost may have, for the recommended size."""
_SKEWED = 2.0
_FEW = 1_000
"""Below so many rows or partial results per shard and micro-batch, a shard costs more than it does."""


@dataclass(frozen=True)
class BatchSize:
    rows: int
    seconds: float
    rows_per_second: float


@dataclass(frozen=True)
class BatchTuning:
    """How long micro-batches take. `sizes` is empty if they do not tell, for the reason in `unknown`."""

    batches: int
    mean_rows: float
    fixed_seconds: float = 0.0
    seconds_per_million: float = 0.0
    recommended_rows: int | None = None
    sizes: list[BatchSize] = field(default_factory=list)
    unknown: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ShardTuning:
    """How evenly shards are used. `received`: rows or partial results per shard and micro-batch, on average."""

    shards: int
    received: float
    skew: float
    """What the busiest shard gets, in relation to the average."""
    advice: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def batch_tuning(entries: Sequence[Entry]) -> BatchTuning:
    """A straight line through rows and seconds."""
    known = [entry for entry in entries if entry.accounting.get("in_") and entry.seconds]
    # The first micro-batch of a process starts workers.
    rows = np.array([entry.accounting["in_"] for entry in known[1:]], float)
    seconds = np.array([entry.seconds for entry in known[1:]], float)
    mean = float(rows.mean()) if len(rows) else 0.0
    if len(rows) < _LEAST:
        return BatchTuning(
            len(rows), mean, unknown=f"it needs {_LEAST} micro-batches with rows, and there are {len(rows)}"
        )
    if rows.std() < 0.05 * mean:
        return BatchTuning(len(rows), mean, unknown="all micro-batches are of about the same size")
    slope, fixed = np.polyfit(rows, seconds, 1)
    if slope <= 0 or fixed < 0:
        return BatchTuning(len(rows), mean, unknown="larger micro-batches do not take longer")
    sizes = [_size(round(mean * factor), fixed, slope) for factor in _FACTORS]
    wanted = fixed * (1 - FIXED_SHARE) / FIXED_SHARE / slope
    return BatchTuning(len(rows), mean, round(float(fixed), 3), round(float(slope) * 1e6, 3), _rounded(wanted), sizes)


def _size(rows: int, fixed: float, slope: float) -> BatchSize:
    seconds = float(fixed + slope * rows)
    return BatchSize(rows, round(seconds, 3), round(rows / seconds, 1))


def _rounded(rows: float) -> int:
    """Two digits are as much as the fit gives."""
    digits = max(0, int(np.floor(np.log10(max(rows, 1)))) - 1)
    return int(round(rows, -digits))


def shard_tuning(entries: Sequence[Entry], shards: int) -> ShardTuning | None:
    """None if the ledger does not have what shards received."""
    known = [entry.shuffled[0] for entry in entries if entry.shuffled and sum(entry.shuffled[0])]
    known = [each for each in known if len(each) == len(known[-1])]
    if not known:
        return None
    received = np.array(known, float).mean(axis=0)
    mean, skew = float(received.mean()), float(received.max() / received.mean())
    if shards == 1:
        advice = "there is one shard; the largest part of the work before it is divided among tasks anyway"
    elif skew > _SKEWED:
        advice = "one shard does most of the work: more shards do not help, as rows of one key go to one shard"
    elif mean < _FEW:
        advice = f"fewer shards would do: each gets {mean:,.0f} rows or partial results per micro-batch"
    else:
        advice = "the shards are used evenly"
    return ShardTuning(shards, round(mean, 1), round(skew, 2), advice)
