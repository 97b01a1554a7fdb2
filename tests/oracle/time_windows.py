"""Windows of time and session windows by brute force: every row is kept, and looked at again each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.oracle.rows import Emission, Row, by_group, in_order
from tests.oracle.spec import Query, Session, TimeWindow

LATE_WINDOW = "allowed_lateness_exceeded"


@dataclass
class Updates:
    """EMIT ON UPDATE and EVERY: when groups that changed may come out before their window closes."""

    query: Query
    last: int | None = None

    def due(self, clock: int) -> bool:
        if self.query.emit == "every":
            return self.last is None or clock - self.last >= self.query.every_us
        return self.query.emit == "update"


Bounds: TypeAlias = tuple[int, int]


@dataclass
class AlignedWindows:
    """Windows that follow from time alone: a row is in every one that contains it and is still open."""

    query: Query
    spec: TimeWindow
    members: dict[Bounds, list[Row]] = field(default_factory=dict)
    emitted: set[Bounds] = field(default_factory=set)
    epochs: dict[tuple[Bounds, Any], int] = field(default_factory=dict)
    changed: set[tuple[Bounds, Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.updates = Updates(self.query)

    def closed(self, window: Bounds, watermark: int | None) -> bool:
        return watermark is not None and watermark >= window[1] + self.query.lateness_us

    def take(self, rows: list[Row], before: int | None) -> None:
        for row in rows:
            windows = self.spec.windows(row.ts)
            still_open = [window for window in windows if not self.closed(window, before)]
            if not windows:
                row.settle("no_window")
            elif not still_open:
                row.settle("late", LATE_WINDOW, windows[-1])
            else:
                self.place(row, still_open)

    def place(self, row: Row, windows: list[Bounds]) -> None:
        """Into the windows that have room for its group; evicted when none has."""
        group = row.group(self.query.keys)
        roomy = [window for window in windows if self.has_room(window, group)]
        for window in roomy:
            self.members.setdefault(window, []).append(row)
            self.changed.add((window, group))
        if roomy:
            row.settle("aggregated")
        else:
            row.settle("evicted", "max_groups")

    def has_room(self, window: Bounds, group: Any) -> bool:
        there = {row.group(self.query.keys) for row in self.members.get(window, [])}
        return self.query.max_groups is None or group in there or len(there) < self.query.max_groups

    def emit(self, after: int | None, clock: int, *, end: bool) -> list[Emission]:
        found = []
        for window in sorted(set(self.members) - self.emitted):
            if end or self.closed(window, after):
                self.emitted.add(window)
                found += [self.emission(window, group, final=True) for group in self.groups(window)]
        self.changed = {(window, group) for window, group in self.changed if window not in self.emitted}
        if self.changed and not end and self.updates.due(clock):
            self.updates.last = clock
            found += [self.emission(window, group, final=False) for window, group in self.changed]
            self.changed = set()
        return found

    def groups(self, window: Bounds) -> list[Any]:
        """Asked for the rows themselves, a window is one group."""
        return list(by_group(self.members[window], self.query.keys))

    def emission(self, window: Bounds, group: Any, *, final: bool) -> Emission:
        epoch = self.epochs[window, group] = self.epochs.get((window, group), 0) + 1
        rows = by_group(self.members[window], self.query.keys)[group]
        return Emission(*window, rows, epoch, final)


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
