"""Where the time of a micro-batch goes, measured where it is spent: microseconds by name, among the tasks' tallies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

SPENT = "spent."
"""In front of the names of such tallies."""
SOURCE, FOLD, PACK, MERGE, STATE_CALLS = "source", "fold", "pack", "merge", "state"


@contextmanager
def timed(spent: Counter[str], name: str) -> Iterator[None]:
    """Adds the time of what is done within."""
    began = time.perf_counter_ns()
    try:
        yield
    finally:
        spent[f"{SPENT}{name}"] += (time.perf_counter_ns() - began) // 1000


def timed_items(items: Iterator[Item], spent: Counter[str], name: str) -> Iterator[Item]:
    """The items, adding the time that each takes to come."""
    while True:
        with timed(spent, name):
            item = next(items, None)
        if item is None:
            return
        yield item


def seconds(tallies: Mapping[str, int]) -> dict[str, float]:
    """Time by name, over all tasks."""
    return {
        name.removeprefix(SPENT): round(us / 1_000_000, 6) for name, us in tallies.items() if name.startswith(SPENT)
    }
