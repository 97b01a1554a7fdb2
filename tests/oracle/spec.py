"""Queries as plain values that two readers share: the SQL for the product, and the meaning for the oracle."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.oracle.calendars import local_date, midnight_us, period_number, period_start

Values: TypeAlias = dict[str, Any]

SCHEMA = "id BIGINT, ts BIGINT, k STRING, n BIGINT, x DOUBLE, a BIGINT, f DOUBLE, d DECIMAL(10,2), b BOOLEAN"
"""`id` tells rows apart, `ts` is the event time in microseconds, k, n and x are keys, a, f, d and b are values."""


class Unreadable(str):
    """What stands in a column of numbers and is none."""

    __slots__ = ()


RATIO = "a / n"
"""An argument that is an expression: a division, which fails where n is 0."""

_COMPARE = {">=": operator.ge, "<": operator.lt, "=": operator.eq}


@dataclass(frozen=True)
class Condition:
    """`column op literal`; a NULL is not true."""

    column: str
    op: Literal[">=", "<", "="]
    literal: int

    @property
    def sql(self) -> str:
        return f"{self.column} {self.op} {self.literal}"

    def holds(self, values: Values) -> bool:
        value = values[self.column]
        return value is not None and bool(_COMPARE[self.op](value, self.literal))


@dataclass(frozen=True)
class Aligned:
    """Tumbling (slide None) and hopping windows."""

    size_us: int
    slide_us: int | None = None
    offset_us: int = 0

    def windows(self, ts: int) -> list[tuple[int, int]]:
        """Every window that contains the instant, the one that ends last at the end."""
        slide = self.slide_us or self.size_us
        oldest, newest = (ts - self.size_us - self.offset_us) // slide, (ts - self.offset_us) // slide
        starts = [number * slide + self.offset_us for number in range(oldest, newest + 1)]
        return [(start, start + self.size_us) for start in starts if start <= ts < start + self.size_us]


@dataclass(frozen=True)
class Cumulated:
    step_us: int
    steps: int
    """How many steps the longest window has."""
    offset_us: int = 0

    @property
    def size_us(self) -> int:
        return self.step_us * self.steps

    @property
    def clause(self) -> str:
        parts = {"STEP": self.step_us, "SIZE": self.size_us, "OFFSET": self.offset_us}
        shown = ", ".join(f"{name} '{us // 1000}ms'" for name, us in parts.items())
        return f"WINDOW CUMULATE ({shown})"

    def windows(self, ts: int) -> list[tuple[int, int]]:
        """As `Aligned.windows`."""
        start = (ts - self.offset_us) // self.size_us * self.size_us + self.offset_us
        ends = [start + number * self.step_us for number in range(1, self.steps + 1)]
        return [(start, end) for end in ends if ts < end]


@dataclass(frozen=True)
class Calendar:
    """Windows between local midnights: `size` and `slide` (None: tumbling) are numbers of `unit`."""

    zone: str
    unit: Literal["day", "week", "month"]
    size: int
    slide: int | None = None

    def windows(self, ts: int) -> list[tuple[int, int]]:
        """As `Aligned.windows`."""
        slide, today = self.slide or self.size, period_number(local_date(ts, self.zone), self.unit)
        numbers = range((today - self.size) // slide - 1, today // slide + 2)
        bounds = [(self._start(number * slide), self._start(number * slide + self.size)) for number in numbers]
        return [(start, end) for start, end in bounds if start <= ts < end]

    def _start(self, number: int) -> int:
        return midnight_us(period_start(number, self.unit), self.zone)

    @property
    def size_us(self) -> int:
        """How far behind its end the oldest row of a window can be, as dedupe sees it."""
        return (self.size * {"day": 1, "week": 7, "month": 31}[self.unit] + 2) * 86_400_000_000

    @property
    def clause(self) -> str:
        slide = "" if self.slide is None else f", SLIDE {self.slide} {self.unit}"
        kind = "TUMBLING" if self.slide is None else "HOPPING"
        return f"WINDOW {kind} (SIZE {self.size} {self.unit}{slide}, TIME ZONE '{self.zone}')"


TimeWindow: TypeAlias = Aligned | Cumulated | Calendar
"""Windows that follow from time alone."""


@dataclass(frozen=True)
class Session:
    gap_us: int


@dataclass(frozen=True)
class Sliding:
    lookback_us: int
    lookahead_us: int | None = None
    partition_by: tuple[str, ...] = ()
    when: Condition | None = None


@dataclass(frozen=True)
class Counted:
    count: int
    step: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stated:
    """`emit` None: one condition closes and opens."""

    open: Condition
    emit: Condition | None = None
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plain:
    """No window: rows come out as they are released."""


Window: TypeAlias = TimeWindow | Session | Sliding | Counted | Stated | Plain


@dataclass(frozen=True)
class Aggregate:
    function: str
    column: str | None = None
    distinct: bool = False
    filter: Condition | None = None

    @property
    def sql(self) -> str:
        condition = f" FILTER (WHERE {self.filter.sql})" if self.filter else ""
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{self.column or '*'}){condition}"

    def takes(self, values: Values) -> bool:
        """FILTER; what it leaves out is not evaluated."""
        return self.filter is None or self.filter.holds(values)

    def argument(self, values: Values) -> Any:
        if self.column != RATIO:
            return values[self.column or ""]
        missing = values["a"] is None or values["n"] is None
        return None if missing else float(values["a"]) / float(values["n"])

    def fails(self, values: Values) -> bool:
        divides = self.column == RATIO and self.takes(values)
        return divides and values["a"] is not None and values["n"] == 0


@dataclass(frozen=True)
class Query:
    """Without keys and aggregates it asks for the rows themselves."""

    window: Window
    keys: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    where: Condition | None = None
    having_rows: int | None = None
    """HAVING count(*) >= this."""
    emit: Literal["close", "update", "every"] = "close"
    every_us: int = 0
    by_clock: bool = False
    """Processing time instead of event time."""
    data_driven: bool = True
    lag_us: int = 0
    lateness_us: int = 0
    row_rule: bool = False
    max_future_skew_us: int | None = None
    idle_timeout_us: int | None = None
    dedupe_by: tuple[str, ...] = ()
    dedupe_within_us: int = 0
    max_groups: int | None = None
    streams: tuple[str, ...] = ("s",)
    """More than one are read as their union."""

    @property
    def asks_for_rows(self) -> bool:
        return not self.keys and not self.aggregates

    @property
    def releases_in_order(self) -> bool:
        """Windows over rows in their order, and plain rows, get them in event-time order."""
        return not isinstance(self.window, TimeWindow | Session)

    @property
    def names(self) -> tuple[str, ...]:
        """The aggregates' names in the result."""
        return tuple(f"v{index}" for index in range(len(self.aggregates)))


def sql_of(query: Query) -> str:
    """The query's text."""
    function, clause = _window_sql(query.window)
    by = [part for part in (function, *query.keys) if part]
    parts = [f"SELECT {', '.join(_selected(query))} FROM {_relation(query.streams)}"]
    parts += [f"WHERE {query.where.sql}"] if query.where else []
    parts += [f"GROUP BY {', '.join(by)}"] if by else []
    parts += [f"HAVING count(*) >= {query.having_rows}"] if query.having_rows is not None else []
    parts += [clause] if clause else []
    parts += {"close": [], "update": ["EMIT ON UPDATE"], "every": [f"EMIT EVERY '{query.every_us // 1000}ms'"]}[
        query.emit
    ]
    return " ".join(parts)


def _relation(streams: tuple[str, ...]) -> str:
    if len(streams) == 1:
        return streams[0]
    return f"({' UNION ALL '.join(f'SELECT * FROM {name}' for name in streams)}) u"


def _selected(query: Query) -> list[str]:
    aggregates = [f"{call.sql} AS {name}" for call, name in zip(query.aggregates, query.names, strict=True)]
    selected = ["id"] if query.asks_for_rows else [*query.keys, *aggregates]
    if isinstance(query.window, Plain):
        return selected
    selected += ["window_start", "window_end", "window_id", "emit_epoch", "is_final"]
    return [*selected, "trigger_time"] if isinstance(query.window, Sliding) else selected


def _window_sql(window: Window) -> tuple[str, str]:
    """The window as a function of GROUP BY; as a clause where it has an offset."""
    match window:
        case Aligned(size, slide, offset) if offset:
            kind, hop = ("TUMBLING", "") if slide is None else ("HOPPING", f", SLIDE '{slide // 1000}ms'")
            return "", f"WINDOW {kind} (SIZE '{size // 1000}ms'{hop}, OFFSET '{offset // 1000}ms')"
        case Aligned(size, None):
            return f"tumblingwindow('ms', {size // 1000})", ""
        case Aligned(size, int(slide)):
            return f"hoppingwindow('ms', {size // 1000}, {slide // 1000})", ""
        case Cumulated() | Calendar():
            return "", window.clause
        case Session(gap):
            return f"sessionwindow('ms', {gap // 1000})", ""
        case Sliding(lookback, lookahead, partition, when):
            ahead = "" if lookahead is None else f", {lookahead // 1000}"
            return f"slidingwindow('ms', {lookback // 1000}{ahead}){_over(partition, when)}", ""
        case Counted(count, step, partition):
            return f"countwindow({count}, {step}){_over(partition)}", ""
        case Stated(opens, emits, partition):
            conditions = opens.sql if emits is None else f"{opens.sql}, {emits.sql}"
            return f"statewindow({conditions}){_over(partition)}", ""
    return "", ""


def _over(partition: tuple[str, ...], when: Condition | None = None) -> str:
    inside = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    inside += [f"WHEN {when.sql}"] if when else []
    return f" OVER ({' '.join(inside)})" if inside else ""


def settings_of(query: Query) -> dict[str, Any]:
    """Streams, options and transform settings that go with the query's text."""
    stream: dict[str, Any] = {"schema": SCHEMA}
    options: dict[str, Any] = {}
    transform: dict[str, Any] = {}
    if not query.by_clock:
        stream["eventtime"] = {"column": "ts", "type": "unixtimestamp_us", "strict": True}
        options = {"eventtime.enabled": True, "max_future_skew": _duration(query.max_future_skew_us)}
        options |= {"eventtime.late_tolerance": f"{query.lag_us}us"}
        options |= {"late_rule": "row"} if query.row_rule else {}
        options |= {} if query.idle_timeout_us is None else {"idle_timeout": _duration(query.idle_timeout_us)}
        transform |= {"allowed_lateness": f"{query.lateness_us}us"} if query.lateness_us else {}
    if query.dedupe_by:
        transform["dedupe"] = {"key": list(query.dedupe_by), "within": f"{query.dedupe_within_us}us"}
    if query.max_groups is not None:
        transform["limits.max_groups"] = query.max_groups
    mode = "data" if query.data_driven else "manual"
    streams = dict.fromkeys(query.streams, stream)
    return {"streams": streams, "options": options, "transform": transform, "watermark": mode, "now": 0}


def _duration(us: int | None) -> str:
    return "off" if us is None else f"{us}us"
