"""Tumbling, hopping and session windows by brute force: every row is kept, and looked at again each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.oracle.rows import Emission, Row, by_group, in_order
from tests.oracle.spec import Aligned, Query, Session

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
