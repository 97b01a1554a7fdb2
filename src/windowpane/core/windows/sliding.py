"""Sliding windows: each trigger row has a window around its instant."""

from __future__ import annotations

from dataclasses import dataclass

from windowpane.core.windows.base import Part, WindowSpec
from windowpane.time import format_duration


@dataclass(frozen=True)
class Sliding(WindowSpec):
    """[t-lookback, t+lookahead], closed at both ends, one per trigger row. `lookahead_us` None: emitted at once."""

    lookback_us: int
    lookahead_us: int | None = None

    kind = "sliding"
    parts = (
        Part("LOOKBACK", "lookback_us", "10 SECONDS"),
        Part("LOOKAHEAD", "lookahead_us", "5 SECONDS", label="lookahead", zero=True),
    )
    triggered = True
    folding = "ranges"

    def words(self) -> str:
        ahead = f" and {format_duration(self.lookahead_us)} after" if self.lookahead_us is not None else ""
        return f"sliding, for each row the rows of the {format_duration(self.lookback_us)} before{ahead}"

    def looks_ahead(self) -> bool:
        return self.lookahead_us is not None

    def results_behind_us(self, allowed_lateness_us: int) -> int:
        return self.lookahead_us or 0

    def emitted(self) -> str | None:
        at_once = self.lookahead_us is None
        return "for each row as it is released" if at_once else "for each row once the time after it has passed"
