"""The share of late rows over the lag, as an SVG that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from windowpane.core.lateness import BOUNDS_US
from windowpane.runtime.asking.asked import span
from windowpane.runtime.tuning.lags import share
from windowpane.runtime.tuning.tuning import Tuning

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 48, 56
_COLOURS = ("#8888cc", "#cc8866", "#66aa88", "#aa6699", "#999944", "#5599bb", "#bb7777", "#777777")
"""Of partitions. So many are drawn."""
_FIRST_US = 100_000
"""The axis is logarithmic from here on; shorter lags are at its beginning."""
_TICKS_US = (
    100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000, 21_600_000_000, 86_400_000_000,
    604_800_000_000, 2_592_000_000_000,
)  # fmt: skip


def draw(tuning: Tuning) -> str:
    """A line for all rows, and one for each of the partitions with the latest rows."""
    return "\n".join([*_Drawing.of(tuning).parts(), "</svg>", ""])


@dataclass(frozen=True)
class _Drawing:
    tuning: Tuning
    lags: list[int]
    names: list[str]
    """Partitions that have a line."""
    highest: float

    @classmethod
    def of(cls, tuning: Tuning) -> _Drawing:
        last_us = max(tuning.lags.loses_nothing_us, tuning.lag_us, tuning.lags.recommended_us, 1_000_000)
        lags = [*(us for us in map(int, BOUNDS_US) if us < last_us), last_us]
        several = len(tuning.partitions) > 1
        names = [each.partition for each in tuning.partitions if each.late_rows][: len(_COLOURS)] if several else []
        shares = [share(tuning.sketch, tuning.lateness_us, name) for name in (None, *names)]
        return cls(tuning, lags, names, max(0.0001, *shares))

    def parts(self) -> Iterator[str]:
        tuning = self.tuning
        yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        yield 'font-size="12">'
        yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
        yield _text(_LEFT, 22, f"{tuning.transform}: share of late rows by lag", size=15)
        yield _text(_LEFT, 38, f"{tuning.origin}, {tuning.lags.rows:,} rows", colour="#666")
        yield from self._axes()
        for name, colour in zip(self.names, _COLOURS, strict=False):
            yield self._line(name, colour, 1)
        yield self._line(None, "#223377", 2.5)
        yield from self._mark(tuning.lag_us, f"now: {span(tuning.lag_us)}", 0)
        wanted = tuning.lags.recommended_us
        yield from self._mark(wanted, f"{_percent(tuning.lags.loss)} late: {span(wanted)}", 1)

    def _x(self, us: int) -> float:
        width, last = _WIDTH - _LEFT - _RIGHT, math.log10(self.lags[-1] / _FIRST_US)
        return _LEFT + width * math.log10(max(us, _FIRST_US) / _FIRST_US) / last

    def _y(self, part: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part / self.highest

    def _axes(self) -> Iterator[str]:
        for step in range(5):
            part = self.highest * step / 4
            y = f"{self._y(part):.1f}"
            yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            yield _text(_LEFT - 6, self._y(part) + 4, _percent(part), anchor="end", colour="#666")
        for us in _TICKS_US:
            if us <= self.lags[-1]:
                yield _text(self._x(us), _HEIGHT - _BOTTOM + 18, span(us), anchor="middle", colour="#666")
        yield _text(_WIDTH / 2, _HEIGHT - 14, "lag", anchor="middle")

    def _line(self, partition: str | None, colour: str, width: float) -> str:
        lateness_us = self.tuning.lateness_us
        shares = [(us, share(self.tuning.sketch, us + lateness_us, partition)) for us in self.lags]
        points = " ".join(f"{self._x(us):.1f},{self._y(part):.1f}" for us, part in shares)
        title = f"<title>{escape(partition or 'all rows')}</title>"
        return f'<polyline fill="none" stroke="{colour}" stroke-width="{width}" points="{points}">{title}</polyline>'

    def _mark(self, us: int, label: str, row: int) -> Iterator[str]:
        x = self._x(us)
        ends = x > _WIDTH * 0.8
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#c33" '
        yield 'stroke-dasharray="4 3"/>'
        y = _TOP + 12 + 16 * row
        yield _text(x + (-4 if ends else 4), y, label, anchor="end" if ends else "start", colour="#c33")


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "black", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"'
    return f"<text {place}>{escape(text)}</text>"


def _percent(part: float) -> str:
    return f"{part:.3%}" if 0 < part < 0.001 else f"{part:.2%}" if part < 0.1 else f"{part:.0%}"
