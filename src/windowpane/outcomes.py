"""Where a row can end. Accounting, routes of side rows, metrics and reports use this table.

To add a kind of side rows: an entry here, a count in `core/accounting.py`, a route in `config/transforms.py`, and the
operator that produces the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

SideKind: TypeAlias = Literal["late", "error", "evicted", "duplicate", "unmatched"]
SIDE_KINDS: tuple[SideKind, ...] = get_args(SideKind)
"""Outcomes whose rows go to a side output."""


@dataclass(frozen=True)
class Outcome:
    """A place where rows end. `meaning` is for people."""

    name: str
    meaning: str


OUTCOMES = (
    Outcome("aggregated", "in a result or an open window"),
    Outcome("filtered", "excluded by WHERE"),
    Outcome("late", "arrived after all their windows had closed"),
    Outcome("error", "could not be read or computed"),
    Outcome("duplicate", "repeat a dedupe key"),
    Outcome("evicted", "their group exceeds max_groups"),
    Outcome("unmatched", "found no partner in a join"),
    Outcome("no_window", "belong to no window"),
)
"""In the order of the accounting identity."""
BUFFERED = Outcome("buffered", "buffered until the watermark passes")
"""Rows that have not ended yet."""
