"""Lags and allowed lateness: the share of late rows for each, how long results wait, and how large the state gets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from windowpane.core.lateness import BOUNDS_US, LatenessSketch
from windowpane.core.windows import AlignedSpec, Session
from windowpane.core.windows.sliding import Sliding
from windowpane.runtime.asking.asked import Asked

_S, _MIN, _H, _D = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_SHOWN_US = (
    0, _S // 10, _S // 2, _S, 2 * _S, 5 * _S, 10 * _S, 20 * _S, 30 * _S, _MIN, 2 * _MIN, 5 * _MIN, 10 * _MIN,
    30 * _MIN, _H, 2 * _H, 6 * _H, 12 * _H, _D, 2 * _D, 7 * _D, 30 * _D,
)  # fmt: skip
"""Lags that are shown, up to the one that loses nothing."""


@dataclass(frozen=True)
class LagEffect:
    """What one lag does."""

    lag_us: int
    late_rows: int
    share: float
    delay_us: int
    """From the end of a window, in event time, until its final results come out; the wait for a micro-batch aside."""
    state: float
    """The state in relation to that under the present lag."""
    is_present: bool = False
    is_recommended: bool = False
    loses_nothing: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class LagTuning:
    """The effects of lags, in order, and what is recommended."""

    loss: float
    """The share of late rows that is accepted."""
    effects: list[LagEffect]
    recommended_us: int
    recommended_lateness_us: int
    """With the present lag, the allowed lateness that loses no more."""
    loses_nothing_us: int
    rows: int

    @classmethod
    def of(cls, asked: Asked, sketch: LatenessSketch, loss: float) -> LagTuning:
        lateness_us, lag_us = asked.lateness_us, asked.lag_us
        nothing_us = max(0, sketch.loses_nothing_us() - lateness_us)
        recommended_us = lag_for(sketch, loss, lateness_us)
        shown = {us for us in _SHOWN_US if us <= nothing_us} | {lag_us, recommended_us, nothing_us}
        effects = [
            LagEffect(
                us, round(sketch.late(us + lateness_us)), share(sketch, us + lateness_us), us + lateness_us,
                _kept_us(asked, us) / max(1, _kept_us(asked, lag_us)), us == lag_us, us == recommended_us,
                us >= nothing_us,
            )
            for us in sorted(shown)
        ]  # fmt: skip
        return cls(loss, effects, recommended_us, lag_for(sketch, loss, lag_us), nothing_us, sketch.rows())

    def as_dict(self) -> dict[str, Any]:
        return {
            "loss": self.loss, "rows": self.rows, "recommended_lag_us": self.recommended_us,
            "recommended_allowed_lateness_us": self.recommended_lateness_us,
            "loses_nothing_us": self.loses_nothing_us, "lags": [each.as_dict() for each in self.effects],
        }  # fmt: skip


def share(sketch: LatenessSketch, threshold_us: int, partition: str | None = None) -> float:
    """The share of rows that are late if lag and allowed lateness are `threshold_us` together."""
    rows = sketch.rows(partition)
    return sketch.late(threshold_us, partition) / rows if rows else 0.0


def lag_for(sketch: LatenessSketch, loss: float, other_us: int, partition: str | None = None) -> int:
    """The smallest lag that loses at most `loss` of the rows, with `other_us` of allowed lateness; or the reverse."""
    enough = (int(us) for us in BOUNDS_US if share(sketch, int(us), partition) <= loss)
    return max(0, next(enough, int(BOUNDS_US[-1])) - other_us)


def _kept_us(asked: Asked, lag_us: int) -> int:
    """How much event time the state covers: a window, and what it waits for."""
    spec = asked.window.spec if asked.window else None
    match spec:
        case AlignedSpec():
            own_us = spec.longest_us()
        case Session():
            own_us = spec.gap_us
        case Sliding():
            own_us = spec.lookback_us + (spec.lookahead_us or 0)
        case _:
            own_us = 0
    return own_us + lag_us + asked.lateness_us
