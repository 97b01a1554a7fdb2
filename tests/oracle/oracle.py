"""The brute-force oracle: keeps every row, plain Python, one function per sentence of the semantics. It knows nothing
of windowpane, only what the pages say a query means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.aggregates import Overflow, comparable, compute
from tests.oracle.rows import Emission, Row
from tests.oracle.spec import Aligned, Calendar, Cumulated, Plain, Query, Session, Unreadable, Values
from tests.oracle.windows import windows_of

FATES = ("aggregated", "filtered", "late", "error", "duplicate", "evicted", "unmatched", "no_window")


@dataclass(frozen=True)
class SideRow:
    """A row, or a result, that comes out beside the results."""

    kind: str
    reason: str
    original: Values | None
    bounds: tuple[int, int] | None


@dataclass
class Expected:
    """What a micro-batch must give. A result is its identity and its values, in no order."""

    results: list[tuple[Any, list[Any]]] = field(default_factory=list)
    side: list[SideRow] = field(default_factory=list)
    watermark: int | None = None
    accounting: dict[str, int] = field(default_factory=dict)


@dataclass
class ShardMaximum:
    largest: int | None = None
    last_seen: int = 0


class Oracle:
    """Runs a query; every call is one micro-batch."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.windows = windows_of(query)
        self.clock = 0
        self.started: int | None = None
        self.watermark: int | None = None
        self.shards: dict[str, ShardMaximum] = {}
        self.rows: list[Row] = []
        self.passed: list[Row] = []
        """Rows that dedupe has let through and remembers."""

    def push(self, rows: Sequence[Values], shard: str, at: int) -> Expected:
        """Rows of one shard, judged against the watermark before them; then it advances, once."""
        self.clock = at
        fresh = [self.receive(values) for values in rows]
        if rows and not self.query.by_clock:
            self.observe(fresh, shard)
        return self.finish(fresh)

    def advance_watermark(self, to: int) -> Expected:
        return self.finish([], asked=to)

    def advance_clock(self, to: int) -> Expected:
        self.clock = to
        return self.finish([])

    def end(self) -> Expected:
        """Graceful: buffered rows are released, every open window is emitted, the watermark stays."""
        return self.finish([], end=True)

    def receive(self, values: Values) -> Row:
        """A row with its time. One that cannot be read, has none, or cannot be computed is an error."""
        row = Row(values, self.time_of(values), len(self.rows))
        self.rows.append(row)
        if any(isinstance(values[name], Unreadable) for name in ("ts", "a")):
            row.settle("error", "decode_error")
        elif row.ts is None:
            row.settle("error", "event_time_null")
        elif self.query.where is not None and not self.query.where.holds(values):
            row.settle("filtered")
        elif any(call.fails(values) for call in self.query.aggregates):
            row.settle("error", "division_by_zero")
        elif self.behind(row.ts):
            row.settle("late", "behind_watermark")
        return row

    def time_of(self, values: Values) -> int | None:
        if self.query.by_clock:
            return self.clock
        return None if isinstance(values["ts"], Unreadable) else values["ts"]

    def behind(self, ts: int) -> bool:
        """The row rule: for rows that are released in order, and for all where it is asked for."""
        ruled = (self.query.row_rule or self.query.releases_in_order) and not self.query.by_clock
        return ruled and self.watermark is not None and ts <= self.watermark

    def observe(self, fresh: Sequence[Row], shard: str) -> None:
        """Every row with a time moves its shard's maximum, filtered and bad ones too, unless it is too far ahead."""
        maximum = self.shards.setdefault(shard, ShardMaximum())
        maximum.last_seen = self.clock
        skew = self.query.max_future_skew_us
        times = [row.ts for row in fresh if row.ts is not None]
        moving = [ts for ts in times if skew is None or ts - self.clock <= skew]
        if moving:
            maximum.largest = max([*moving, *([] if maximum.largest is None else [maximum.largest])])

    def advance(self, asked: int | None) -> int | None:
        """The least of the maxima of shards that are not idle, less the lag, never moving back."""
        if self.query.by_clock:
            return self.clock
        candidates = [] if asked is None else [asked]
        active = [shard.largest for shard in self.shards.values() if shard.largest is not None and not self.idle(shard)]
        if active and self.query.data_driven and not any(map(self.awaited, self.query.streams)):
            candidates.append(min(active) - self.query.lag_us)
        return max([*candidates, *([] if self.watermark is None else [self.watermark])], default=None)

    def awaited(self, stream: str) -> bool:
        """One of several streams that has shown no time yet holds the watermark, until it is idle."""
        shards = [shard for name, shard in self.shards.items() if name.partition("/")[0] == stream]
        if len(self.query.streams) == 1 or any(shard.largest is not None for shard in shards):
            return False
        assert self.started is not None
        seen = ShardMaximum(last_seen=max([self.started, *(shard.last_seen for shard in shards)]))
        return not self.idle(seen)

    def idle(self, shard: ShardMaximum) -> bool:
        timeout = self.query.idle_timeout_us
        return timeout is not None and self.clock - shard.last_seen >= timeout

    def finish(self, fresh: list[Row], *, asked: int | None = None, end: bool = False) -> Expected:
        before = self.watermark
        self.started = self.clock if self.started is None else self.started
        buffered_before = [row for row in self.rows if row.fate == "buffered" and row not in fresh]
        after = before if end else self.advance(asked)
        released = self.deduplicated(self.released([*buffered_before, *fresh], after, end=end))
        self.windows.take(released, before)
        emissions = self.windows.emit(after, self.clock, end=end)
        self.watermark = after
        self.passed = [row for row in self.passed if self.remembered(row)]
        settled = [row for row in [*buffered_before, *fresh] if row.fate != "buffered"]
        return self.expected(fresh, settled, emissions)

    def released(self, rows: list[Row], after: int | None, *, end: bool) -> list[Row]:
        """Rows that go on to the window now: in time order once the watermark covers them, or all as they come."""
        undecided = [row for row in rows if row.fate == "buffered"]
        if self.query.by_clock or not self.query.releases_in_order:
            return undecided
        covered = [row for row in undecided if end or (after is not None and row.ts <= after)]
        return sorted(covered, key=lambda row: (row.ts, row.arrival))

    def deduplicated(self, rows: list[Row]) -> list[Row]:
        """The rows that are not a copy of one let through earlier, as long as that one is remembered."""
        if not self.query.dedupe_by:
            return rows
        kept = []
        for row in rows:
            if any(self.same_key(row, other) for other in self.passed):
                row.settle("duplicate", "duplicate_key")
            else:
                self.passed.append(row)
                kept.append(row)
        return kept

    def same_key(self, row: Row, other: Row) -> bool:
        near = abs(row.ts - other.ts) < self.query.dedupe_within_us
        return near and row.group(self.query.dedupe_by) == other.group(self.query.dedupe_by)

    def remembered(self, row: Row) -> bool:
        """To the end of its micro-batch, and until no row within the horizon of it can count any more."""
        match self.query.window:
            case Aligned(size_us=width) | Session(gap_us=width) | Cumulated(size_us=width) | Calendar(size_us=width):
                slack = width + self.query.lateness_us
            case _:
                slack = 0
        return self.watermark is None or self.watermark < row.ts + self.query.dedupe_within_us + slack

    def expected(self, fresh: list[Row], settled: list[Row], emissions: list[Emission]) -> Expected:
        counts = Counter(row.fate for row in settled)
        accounting = {fate: counts[fate] for fate in FATES} | {"made": 0, "in_": len(fresh)}
        accounting["buffered"] = sum(row.fate == "buffered" for row in self.rows)
        expected = Expected([], [], self.watermark, accounting)
        expected.side = [
            SideRow(row.fate, row.reason, row.values, row.bounds)
            for row in settled
            if row.fate in ("late", "error", "duplicate", "evicted")
        ]
        for emission in emissions:
            self.add_results(emission, expected)
        return expected

    def add_results(self, emission: Emission, expected: Expected) -> None:
        """HAVING applies to what is emitted; an overflow is an error row instead of a wrong number."""
        if self.query.asks_for_rows:
            expected.results += self.rows_of(emission)
            return
        values = [row.values for row in emission.rows]
        results = [compute(call, values) for call in self.query.aggregates]
        if any(isinstance(result, Overflow) for result in results):
            expected.side.append(SideRow("error", "overflow", None, (emission.start, emission.end)))
        elif self.query.having_rows is None or len(values) >= self.query.having_rows:
            keys = tuple(comparable(values[0][name]) for name in self.query.keys)
            expected.results.append((self.identity(emission, emission.epoch, keys), results))

    def rows_of(self, emission: Emission) -> list[tuple[Any, list[Any]]]:
        """The rows themselves, numbered within their window; windows of one instant go on counting."""
        numbered = enumerate(emission.rows, emission.epoch)
        return [(self.identity(emission, number, ()), [row.values["id"]]) for number, row in numbered]

    def identity(self, emission: Emission, epoch: int, keys: tuple[Any, ...]) -> Any:
        if isinstance(self.query.window, Plain):
            return ()
        return (emission.start, emission.end, emission.trigger, epoch, emission.final, keys)
