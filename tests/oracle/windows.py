"""Which windows a query asks for."""

from __future__ import annotations

from tests.oracle.row_windows import CountedWindows, PlainRows, SlidingWindows, StatedWindows
from tests.oracle.rows import Windows
from tests.oracle.spec import Aligned, Calendar, Counted, Cumulated, Query, Session, Sliding, Stated
from tests.oracle.time_windows import AlignedWindows, SessionWindows


def windows_of(query: Query) -> Windows:
    match query.window:
        case Aligned() | Cumulated() | Calendar() as spec:
            return AlignedWindows(query, spec)
        case Session() as spec:
            return SessionWindows(query, spec)
        case Sliding() as spec:
            return SlidingWindows(query, spec)
        case Counted() as spec:
            return CountedWindows(query, spec)
        case Stated() as spec:
            return StatedWindows(query, spec)
    return PlainRows()
