"""Which instant a user means by `12:00`, and which window by it."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np

from windowpane.core.windows import AlignedSpec
from windowpane.errors import ConfigError
from windowpane.time import parse_instant

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
_DAY_US = 86_400_000_000


def meant_instant(text: str, near_us: int, now_us: int) -> int:
    """`12:00` is that time of the day, in UTC, which is nearest to `near_us`; all else as in `parse_instant`."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        try:
            return parse_instant(text, now_us)
        except ConfigError as bad:
            hint = f'{bad.hint}, or as a time of the day in UTC: "12:00", "12:00:30"'
            raise ConfigError("BAD_INSTANT", bad.message, hint) from None
    try:
        at = dt.time(int(found[1]), int(found[2]), int(found[3] or 0), int((found[4] or "0").ljust(6, "0")))
    except ValueError:
        raise ConfigError("BAD_INSTANT", f"`{text}` is no time of the day", 'write it like "12:00"') from None
    of_day_us = ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond
    today_us = near_us // _DAY_US * _DAY_US + of_day_us
    return min((today_us - _DAY_US, today_us, today_us + _DAY_US), key=lambda us: abs(us - near_us))


def window_at(spec: AlignedSpec, us: int) -> tuple[int, int] | None:
    """The window that begins at an instant, else the first to end of those that contain it; None in a gap."""
    windows = spec.windows()
    _, keys = windows.open_for(np.array([us]))
    if windows.has_gaps and windows.in_gap(np.array([us]))[0]:
        return None
    starts, ends = windows.bounds(keys)
    bounds = sorted(zip(starts.tolist(), ends.tolist(), strict=True), key=lambda each: (each[0] != us, each[1]))
    return bounds[0] if bounds else None
