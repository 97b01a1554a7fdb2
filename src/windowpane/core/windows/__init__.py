"""Window kinds, one module each, and the columnar code that assigns rows to their windows."""

from windowpane.core.windows.aligned import AlignedSpec, AlignedWindows
from windowpane.core.windows.base import KINDS, BadWindow, Part, PartValue, WindowSpec, register
from windowpane.core.windows.by_rows import Count, State
from windowpane.core.windows.cumulate import Cumulate
from windowpane.core.windows.fixed import Hopping, Tumbling
from windowpane.core.windows.session import Session
from windowpane.core.windows.sliding import Sliding
from windowpane.core.windows.spans import CalendarSpan

__all__ = [
    "KINDS",
    "AlignedSpec",
    "AlignedWindows",
    "BadWindow",
    "CalendarSpan",
    "Count",
    "Cumulate",
    "Hopping",
    "Part",
    "PartValue",
    "Session",
    "Sliding",
    "State",
    "Tumbling",
    "WindowSpec",
    "register",
]

for _kind in (Tumbling, Hopping, Cumulate, Session, Sliding, Count, State):
    register(_kind)
