"""Windows by brute force: every row is kept, and what a window holds is found by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.oracle.aggregates import comparable
from tests.oracle.spec import Aligned, Counted, Query, Session, Sliding, Stated, Values

LATE_WINDOW = "allowed_lateness_exceeded"


@dataclass
class Row:
    """A row and what has become of it."""

    values: Values
    ts: Any
    """Microseconds; None only on error rows, which no window sees."""
    arrival: int
    fate: str = "buffered"
    reason: str = ""
    bounds: tuple[int, int] | None = None
    """The window that a late or evicted row missed."""

    def settle(self, fate: str, reason: str = "", bounds: tuple[int, int] | None = None) -> None:
        self.fate, self.reason, self.bounds = fate, reason, bounds

    def group(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(comparable(self.values[name]) for name in names)


@dataclass(frozen=True)
class Emission:
    """Rows of one window, or of one group in it, that come out together.

    Where rows are asked for, each has an epoch of its own, counting on from `epoch`.
    """

    start: int
    end: int
    rows: Sequence[Row]
    epoch: int = 1
    final: bool = True
    trigger: int | None = None


class Windows(Protocol):
    """What the oracle asks of a window: rows of one micro-batch first, then what comes out when it ends."""

    def take(self, rows: list[Row], before: int | None) -> None:
        """Settle the rows, judged against the watermark before their micro-batch."""

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        """What comes out once the watermark has moved to `after`; at a graceful end, everything."""


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.ts, row.arrival))


def by_group(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in in_order(rows):
        groups.setdefault(row.group(names), []).append(row)
    return groups


@dataclass
class Updates:
    """EMIT ON UPDATE and EVERY: when groups that changed may come out before their window closes."""

    query: Query
    last: int | None = None

    def due(self, clock: int) -> bool:
        if self.query.emit == "every":
            return self.last is None or clock - self.last >= self.query.every_us
        return self.query.emit == "update"


@dataclass
class AlignedWindows:
    """Tumbling and hopping: a row is in every window that contains it and is still open."""

    query: Query
    spec: Aligned
    members: dict[int, list[Row]] = field(default_factory=dict)
    emitted: set[int] = field(default_factory=set)
    epochs: dict[tuple[int, Any], int] = field(default_factory=dict)
    changed: set[tuple[int, Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.updates = Updates(self.query)

    def starts(self, ts: int) -> list[int]:
        slide, offset = self.spec.slide_us or self.spec.size_us, self.spec.offset_us
        oldest, newest = (ts - self.spec.size_us - offset) // slide, (ts - offset) // slide
        candidates = [number * slide + offset for number in range(oldest, newest + 1)]
        return [start for start in candidates if start <= ts < start + self.spec.size_us]

    def closed(self, start: int, watermark: int | None) -> bool:
        return watermark is not None and watermark >= start + self.spec.size_us + self.query.lateness_us

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            starts = self.starts(row.ts)
            still_open = [start for start in starts if not self.closed(start, before)]
            if not starts:
                row.settle("no_window")
            elif not still_open:
                row.settle("late", LATE_WINDOW, (starts[-1], starts[-1] + self.spec.size_us))
            else:
                self.place(row, still_open)

    def place(self, row: Row, starts: list[int]) -> None:
        """Into the windows that have room for its group; evicted when none has."""
        group = row.group(self.query.keys)
        roomy = [start for start in starts if self.has_room(start, group)]
        for start in roomy:
            self.members.setdefault(start, []).append(row)
            self.changed.add((start, group))
        if roomy:
            row.settle("aggregated")
        else:
            row.settle("evicted", "max_groups")

    def has_room(self, start: int, group: Any) -> bool:
        there = {row.group(self.query.keys) for row in self.members.get(start, [])}
        return self.query.max_groups is None or group in there or len(there) < self.query.max_groups

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for start in sorted(set(self.members) - self.emitted):
            if end or self.closed(start, after):
                self.emitted.add(start)
                found += [self.emission(start, group, final=True) for group in self.groups(start)]
        self.changed = {(start, group) for start, group in self.changed if start not in self.emitted}
        if self.changed and not end and self.updates.due(clock):
            self.updates.last = clock
            found += [self.emission(start, group, final=False) for start, group in self.changed]
            self.changed = set()
        return found

    def groups(self, start: int) -> list[Any]:
        """Asked for the rows themselves, a window is one group."""
        return list(by_group(self.members[start], self.query.keys))

    def emission(self, start: int, group: Any, *, final: bool) -> Emission:
        epoch = self.epochs[start, group] = self.epochs.get((start, group), 0) + 1
        rows = by_group(self.members[start], self.query.keys)[group]
        return Emission(start, start + self.spec.size_us, rows, epoch, final)


@dataclass
class OneSession:
    rows: list[Row]
    epoch: int = 0
    changed: bool = True

    @property
    def first(self) -> int:
        return int(min(row.ts for row in self.rows))

    @property
    def last(self) -> int:
        return int(max(row.ts for row in self.rows))


@dataclass
class SessionWindows:
    """Sessions per group: all rows of a micro-batch join the open ones and each other before any is judged."""

    query: Query
    spec: Session
    open: dict[Any, list[OneSession]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.updates = Updates(self.query)

    def closed(self, session: OneSession, watermark: int | None) -> bool:
        return watermark is not None and watermark >= session.last + self.spec.gap_us + self.query.lateness_us

    def take(self, rows: list[Row], before: int | None) -> None:
        for group, fresh in by_group(rows, self.query.keys).items():
            joined = self.join([*self.open.get(group, []), *(OneSession([row]) for row in fresh)])
            self.open[group] = [session for session in joined if not self.closed(session, before)]
            for session in joined:
                late = self.closed(session, before)
                for row in session.rows:
                    if row.fate == "buffered" and late:
                        row.settle("late", LATE_WINDOW, (session.first, session.last + self.spec.gap_us))
                    elif row.fate == "buffered":
                        row.settle("aggregated")

    def join(self, sessions: list[OneSession]) -> list[OneSession]:
        joined: list[OneSession] = []
        for session in sorted(sessions, key=lambda each: each.first):
            if joined and session.first - joined[-1].last < self.spec.gap_us:
                both = (joined.pop(), session)
                rows = [row for each in both for row in each.rows]
                joined.append(OneSession(rows, max(each.epoch for each in both), any(each.changed for each in both)))
            else:
                joined.append(session)
        return joined

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for group, sessions in self.open.items():
            done = [session for session in sessions if end or self.closed(session, after)]
            self.open[group] = [session for session in sessions if session not in done]
            found += [self.emission(session, final=True) for session in done]
        waiting = [session for sessions in self.open.values() for session in sessions if session.changed]
        if waiting and self.updates.due(clock):
            self.updates.last = clock
            found += [self.emission(session, final=False) for session in waiting]
        return found

    def emission(self, session: OneSession, *, final: bool) -> Emission:
        session.epoch, session.changed = session.epoch + 1, False
        rows = in_order(session.rows)
        return Emission(session.first, session.last + self.spec.gap_us, rows, session.epoch, final)


@dataclass
class SlidingWindows:
    """Every row (that WHEN holds for) triggers a window of its own over the rows released so far."""

    query: Query
    spec: Sliding
    rows: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)
    fired: dict[tuple[int, Any], int] = field(default_factory=dict)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            row.settle("aggregated")
            self.rows.append(row)
            if self.spec.when is None or self.spec.when.holds(row.values):
                self.pending.append(row)

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        due = [row for row in self.pending if end or self.covered(row, after)]
        self.pending = [row for row in self.pending if row not in due]
        return [emission for row in due for emission in self.window(row)]

    def covered(self, trigger: Row, after: int | None) -> bool:
        if self.spec.lookahead_us is None:
            return True
        return after is not None and trigger.ts + self.spec.lookahead_us <= after

    def window(self, trigger: Row) -> list[Emission]:
        """One emission per group present; windows of one instant that results do not tell apart differ in epoch."""
        start, end = trigger.ts - self.spec.lookback_us, trigger.ts + (self.spec.lookahead_us or 0)
        partition = trigger.group(self.spec.partition_by)
        shown = trigger.ts, trigger.group(name for name in self.spec.partition_by if name in self.query.keys)
        epoch = self.fired[shown] = self.fired.get(shown, 0) + 1
        near = [row for row in self.rows if start <= row.ts <= end]
        inside = [row for row in near if row.group(self.spec.partition_by) == partition]
        if self.query.asks_for_rows:
            self.fired[shown] += len(inside) - 1
        groups = by_group(inside, self.query.keys)
        return [Emission(start, end, rows, epoch, trigger=trigger.ts) for rows in groups.values()]


@dataclass
class CountedWindows:
    """Window j of a partition has its rows [j*step, j*step+count), in released order."""

    query: Query
    spec: Counted
    rows: dict[Any, list[Row]] = field(default_factory=dict)
    emitted: set[tuple[Any, int]] = field(default_factory=set)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            partition = self.rows.setdefault(row.group(self.spec.partition_by), [])
            row.settle("aggregated" if len(partition) % self.spec.step < self.spec.count else "no_window")
            partition.append(row)

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for partition, rows in self.rows.items():
            for first in range(0, len(rows), self.spec.step):
                inside = rows[first : first + self.spec.count]
                if (partition, first) not in self.emitted and (end or len(inside) == self.spec.count):
                    self.emitted.add((partition, first))
                    found += whole_window(inside, self.query)
        return found


def whole_window(rows: list[Row], query: Query) -> list[Emission]:
    """A window bounded by its rows, one emission per group in it."""
    groups = by_group(rows, query.keys)
    return [Emission(rows[0].ts, rows[-1].ts, members) for members in groups.values()]


@dataclass
class StatedWindows:
    """A window goes from a row that opens it to a later one that emits it, found by reading each partition again."""

    query: Query
    spec: Stated
    rows: dict[Any, list[Row]] = field(default_factory=dict)
    emitted: dict[Any, int] = field(default_factory=dict)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            partition = self.rows.setdefault(row.group(self.spec.partition_by), [])
            partition.append(row)
            complete, unfinished = self.read(partition)
            placed = any(row is member for window in [*complete, unfinished] for member in window)
            row.settle("aggregated" if placed else "no_window")

    def read(self, rows: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        """The complete windows of a partition, and the rows of the one that is open."""
        return self.read_pairs(rows) if self.spec.emit is not None else self.read_single(rows)

    def read_pairs(self, rows: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        assert self.spec.emit is not None
        complete: list[list[Row]] = []
        current: list[Row] = []
        for row in rows:
            if current and self.spec.emit.holds(row.values):
                complete.append([*current, row])
                current = []
            elif current or self.spec.open.holds(row.values):
                current.append(row)
        return complete, current

    def read_single(self, rows: list[Row]) -> tuple[list[list[Row]], list[Row]]:
        complete: list[list[Row]] = []
        current: list[Row] = []
        for row in rows:
            if self.spec.open.holds(row.values):
                complete += [current] if current else []
                current = [row]
            elif current:
                current.append(row)
        return complete, current

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for partition, rows in self.rows.items():
            complete, unfinished = self.read(rows)
            windows = [*complete, unfinished] if end and unfinished else complete
            for window in windows[self.emitted.get(partition, 0) :]:
                found += whole_window(window, self.query)
            self.emitted[partition] = len(windows)
        return found


@dataclass
class PlainRows:
    """No window: a released row is a result."""

    waiting: list[Row] = field(default_factory=list)

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            row.settle("aggregated")
            self.waiting.append(row)

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        done, self.waiting = self.waiting, []
        return [Emission(row.ts, row.ts, [row]) for row in done]


def windows_of(query: Query) -> Windows:
    match query.window:
        case Aligned() as spec:
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
