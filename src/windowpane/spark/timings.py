"""How long the parts of a micro-batch take: microseconds by name, among the tallies of the tasks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

SPENT = "spent."
"""Prefix of the names of such tallies."""
SOURCE, FOLD, PACK, MERGE, STATE_CALLS = "source", "fold", "pack", "merge", "state"


@contextmanager
def timed(spent: Counter[str], name: str, *, within: str | None = None) -> Iterator[None]:
    """Adds the duration of the block. `within`: the part whose block contains this one, and is not charged for it."""
    began = time.perf_counter_ns()
    try:
        yield
    finally:
        took = (time.perf_counter_ns() - began) // 1000
        spent[f"{SPENT}{name}"] += took
        if within is not None:
            spent[f"{SPENT}{within}"] -= took


def timed_items(items: Iterator[Item], spent: Counter[str], name: str) -> Iterator[Item]:
    """The items, adding the time that it takes to get each."""
    while True:
        with timed(spent, name):
            item = next(items, None)
        if item is None:
            return
        yield item


def in_shares(spent: Mapping[str, int], count: int) -> list[dict[str, int]]:
    """The same time in `count` equal parts, for transforms that share work."""
    return [
        {name: us // count + (us % count if not each else 0) for name, us in spent.items()} for each in range(count)
    ]


def seconds(tallies: Mapping[str, int]) -> dict[str, float]:
    """Time by name, over all tasks."""
    return {
        name.removeprefix(SPENT): round(us / 1_000_000, 6) for name, us in tallies.items() if name.startswith(SPENT)
    }
