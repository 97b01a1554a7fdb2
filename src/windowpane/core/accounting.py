"""The accounting identity: each row that is read has exactly one outcome, and each micro-batch proves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from windowpane.errors import InternalError
from windowpane.outcomes import OUTCOMES


@dataclass
class Accounting:
    """Row counts of one micro-batch: rows in, rows by outcome, and `buffered`, the undecided rows held after it.

    read + made = in: `made` are the further rows that explode, grouping sets or a join with a static table have made of
    the rows read, and side rows of earlier micro-batches that are replayed.
    """

    made: int = 0
    in_: int = 0
    aggregated: int = 0
    filtered: int = 0
    late: int = 0
    error: int = 0
    duplicate: int = 0
    evicted: int = 0
    unmatched: int = 0
    no_window: int = 0
    buffered: int = 0

    def __add__(self, other: Accounting) -> Accounting:
        return Accounting(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @property
    def read(self) -> int:
        """Rows of the sources."""
        return self.in_ - self.made

    def less(self, places: Mapping[str, int]) -> Accounting:
        """The same counts with fewer rows of these outcomes."""
        return replace(self, **{name: getattr(self, name) - count for name, count in places.items()})

    def placed(self) -> int:
        """Rows whose outcome is decided."""
        return sum(getattr(self, outcome.name) for outcome in OUTCOMES)

    def check(self, buffered_before: int) -> None:
        """Raise InternalError unless in = placed + buffered(after) - buffered(before)."""
        if self.in_ != self.placed() + self.buffered - buffered_before:
            raise InternalError(
                "ACCOUNTING",
                f"rows do not add up: {self} with {buffered_before} buffered before",
                "this is a bug in windowpane: please report it with the query",
            )

    def named(self, stage: str = "") -> dict[str, int]:
        """The counts by the names that people use; those of a stage of a chain begin with the stage's name."""
        prefix = f"{stage}." if stage else ""
        return {f"{prefix}{name.rstrip('_')}": count for name, count in self.as_dict().items()}

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))  # asdict copies every value deeply, for every message between stages
