"""How long the random searches look: little in an ordinary run, `make search` looks `SEARCH` times as long."""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = float(os.environ.get("SEARCH", "0.5"))
"""An ordinary run looks half as long as the numbers say: all tests without Spark take less than a minute."""


def search(examples: int) -> settings:
    """Settings for a property that is tried on this many examples in an ordinary run."""
    return settings(max_examples=scaled(examples), deadline=None)


def scaled(count: int) -> int:
    """A number of tries as long as the search is to last."""
    return max(1, round(count * FACTOR))
