"""What the shards report of a micro-batch, taken together on the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from windowpane.spark.near import FUTURE, TIMES

Metas: TypeAlias = Sequence[Mapping[str, Any]]


def open_windows(metas: Metas) -> int:
    """Windows that are open: those that shards share once, those of single groups added up."""
    shared = [first + step * np.arange(count) for meta in metas for first, step, count in meta["open_stretches"]]
    own = sum(int(meta["open_windows"]) for meta in metas)
    return own + (len(np.unique(np.concatenate(shared))) if shared else 0)


def tallied(metas: Metas) -> Counter[str]:
    """Counts beside the accounting, over all tasks."""
    total: Counter[str] = Counter()
    for meta in metas:
        total.update(meta["tallies"])
    return total


def time_sources(tallies: Counter[str]) -> dict[str, int]:
    """Rows by where they have their time from."""
    return {name.removeprefix(TIMES): count for name, count in tallies.items() if name.startswith(TIMES) and count}


def measures(metas: Metas) -> dict[str, Any]:
    """Fields of a ledger entry that say how things stand rather than what became of rows."""
    tallies = tallied(metas)
    return {
        "times": time_sources(tallies),
        "future_rows": tallies[FUTURE],
        "open_windows": open_windows(metas),
        "state_bytes": sum(int(meta["state_bytes"]) for meta in metas),
        "watermarks": max((int(meta["watermarks"]) for meta in metas), default=0),
    }
