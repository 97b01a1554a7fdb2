"""Window specifications: what a query asks for, as plain values. Runtimes are built from them elsewhere in `core`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Tumbling:
    """[start, start+size), start a multiple of size shifted by offset."""

    size_us: int
    offset_us: int = 0


@dataclass(frozen=True)
class Hopping:
    """[start, start+size), start a multiple of slide shifted by offset. size need not be a multiple of slide."""

    size_us: int
    slide_us: int
    offset_us: int = 0

    @property
    def pane_us(self) -> int:
        """Width of the panes that all windows are made of."""
        return math.gcd(self.size_us, self.slide_us)


@dataclass(frozen=True)
class Session:
    """[first, last+gap) per group; a row exactly `gap` after the last starts a new one."""

    gap_us: int


@dataclass(frozen=True)
class Sliding:
    """[t-lookback, t+lookahead], closed at both ends, one per trigger row. `lookahead_us` None: emitted at once."""

    lookback_us: int
    lookahead_us: int | None = None


@dataclass(frozen=True)
class Count:
    """Every `step` rows, the last `count` rows, in released order. Incomplete windows come out only at the end."""

    count: int
    step: int


@dataclass(frozen=True)
class State:
    """Rows from one that opens to a later one that emits, both included.

    `single`: one condition does both, the row that matches next closes the window before it and opens its own.
    """

    single: bool = False


WindowSpec: TypeAlias = Tumbling | Hopping | Session | Sliding | Count | State
