"""The plain windowed aggregation in each engine's SQL, made from one description of the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["tumbling", "hopping", "session"]
BOUNDS = ("window_start", "window_end")
CALLS = "count(*) AS n, sum(price) AS total, max(price) AS top"


@dataclass(frozen=True)
class Window:
    """A window over bids and the key they are grouped by. `size_s` is a session's gap."""

    kind: Kind
    size_s: int
    slide_s: int = 0
    key: str = "auction"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.key, *BOUNDS, "n", "total", "top")

    def windowpane(self) -> str:
        call = {
            "tumbling": f"tumblingwindow('ss', {self.size_s})",
            "hopping": f"hoppingwindow('ss', {self.size_s}, {self.slide_s})",
            "session": f"sessionwindow('ss', {self.size_s})",
        }[self.kind]
        return f"SELECT {self.key}, window_start, window_end, {CALLS} FROM bids GROUP BY {call}, {self.key}"

    def flink(self) -> str:
        if self.kind == "session":
            return self.flink_session()
        slide = f"INTERVAL '{self.slide_s}' SECOND, " if self.kind == "hopping" else ""
        function = "HOP" if self.kind == "hopping" else "TUMBLE"
        return (
            f"SELECT {self.key}, window_start, window_end, {CALLS} "
            f"FROM TABLE({function}(TABLE bids, DESCRIPTOR(ts), {slide}INTERVAL '{self.size_s}' SECOND)) "
            f"GROUP BY {self.key}, window_start, window_end"
        )

    def flink_session(self) -> str:
        """Flink and Spark let sessions merge that only touch; in windowpane a row a gap later begins a new one.

        Times being whole milliseconds, a gap shorter by one gives the same sessions, their end earlier by one.
        """
        gap = f"INTERVAL '{self.size_s - 1}.999' SECOND(4, 3)"
        return (
            f"SELECT {self.key}, window_start, window_end + INTERVAL '0.001' SECOND(1, 3) AS window_end, {CALLS} "
            f"FROM TABLE(SESSION(TABLE bids PARTITION BY {self.key}, DESCRIPTOR(ts), {gap})) "
            f"GROUP BY {self.key}, window_start, window_end"
        )

    def duckdb(self) -> str:
        size_us = self.size_s * 1_000_000
        if self.kind == "session":
            return _duckdb_sessions(self.key, size_us)
        return duckdb_panes(self.key, size_us, self.slide_s * 1_000_000 or size_us)


def duckdb_panes(key: str, size_us: int, slide_us: int) -> str:
    """Rows are folded into panes once, whatever the overlap: the best that is known."""
    panes = f"SELECT {key}, epoch_us(ts) // {slide_us} AS pane, {CALLS} FROM bids GROUP BY ALL"
    if size_us == slide_us:
        return (
            f"SELECT {key}, pane * {size_us} AS window_start, (pane + 1) * {size_us} AS window_end, n, total, top "
            f"FROM ({panes})"
        )
    first = f"(pane - behind) * {slide_us}"
    return (
        f"SELECT {key}, {first} AS window_start, {first} + {size_us} AS window_end, "
        "sum(n)::BIGINT AS n, sum(total)::BIGINT AS total, max(top) AS top "
        f"FROM ({panes}), range({size_us // slide_us}) AS r(behind) GROUP BY ALL"
    )


def _duckdb_sessions(key: str, gap_us: int) -> str:
    per_key = f"PARTITION BY {key} ORDER BY us"
    marked = (
        f"SELECT {key}, us, price, coalesce(us - lag(us) OVER ({per_key}) >= {gap_us}, true)::INT AS begins "
        f"FROM (SELECT {key}, epoch_us(ts) AS us, price FROM bids)"
    )
    numbered = (
        f"SELECT {key}, us, price, sum(begins) OVER ({per_key} RANGE UNBOUNDED PRECEDING) AS session FROM ({marked})"
    )
    return (
        f"SELECT {key}, min(us) AS window_start, max(us) + {gap_us} AS window_end, {CALLS} "
        f"FROM ({numbered}) GROUP BY {key}, session"
    )
