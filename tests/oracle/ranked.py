"""Window functions by brute force: over the groups of one window as plain rows, one row of the answer at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Group = dict[str, Any]
"""Columns by name: the keys k and g, and the aggregates n, s and top."""


@dataclass(frozen=True)
class Order:
    column: str
    descending: bool = False
    nulls_first: bool | None = None
    """None: not written. NULL is then smaller than any value."""

    @property
    def sql(self) -> str:
        nulls = "" if self.nulls_first is None else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.column}{' DESC' if self.descending else ''}{nulls}"

    def sort(self, groups: list[Group]) -> list[Group]:
        first = self.nulls_first if self.nulls_first is not None else not self.descending
        known = [group for group in groups if group[self.column] is not None]
        known.sort(key=lambda group: group[self.column], reverse=self.descending)
        unknown = [group for group in groups if group[self.column] is None]
        return unknown + known if first else known + unknown


@dataclass(frozen=True)
class Call:
    """`function(args) OVER (PARTITION BY … ORDER BY … frame)`. `rows`: the offsets of ROWS, None being unbounded."""

    function: str
    column: str = ""
    number: int | None = None
    partition: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    rows: tuple[int | None, int | None] | None = None

    @property
    def sql(self) -> str:
        inside = []
        if self.partition:
            inside.append(f"PARTITION BY {', '.join(self.partition)}")
        if self.order:
            inside.append(f"ORDER BY {', '.join(order.sql for order in self.order)}")
        if self.rows is not None:
            start, end = _bound(self.rows[0], "PRECEDING"), _bound(self.rows[1], "FOLLOWING")
            inside.append(f"ROWS BETWEEN {start} AND {end}")
        given = ", ".join(str(each) for each in (self.column, self.number) if each not in ("", None))
        return f"{self.function}({given}) OVER ({' '.join(inside)})"

    def values(self, groups: Sequence[Group]) -> list[Any]:
        """One for each group, all of one window, in the order they are given."""
        found: dict[int, Any] = {}
        for key in {self._part(group) for group in groups}:
            part = self._sorted([group for group in groups if self._part(group) == key])
            found |= {id(group): self._value(part, place) for place, group in enumerate(part)}
        return [found[id(group)] for group in groups]

    def _part(self, group: Group) -> tuple[Any, ...]:
        return tuple(group[name] for name in self.partition)

    def _sorted(self, groups: list[Group]) -> list[Group]:
        """Groups that ORDER BY leaves equal are in the order of their keys."""
        for order in reversed((*self.order, Order("k"), Order("g"))):
            groups = order.sort(groups)
        return groups

    def _value(self, part: list[Group], place: int) -> Any:
        if self.function in ("lag", "lead"):
            assert self.number is not None
            there = place + (self.number if self.function == "lead" else -self.number)
            return part[there][self.column] if 0 <= there < len(part) else None
        if self.function in ("row_number", "rank", "dense_rank", "ntile"):
            return self._rank(part, place)
        return self._of_frame([group[self.column] for group in self._frame(part, place)])

    def _peers(self, group: Group) -> tuple[Any, ...]:
        return tuple(group[order.column] for order in self.order)

    def _rank(self, part: list[Group], place: int) -> int:
        if self.function == "row_number":
            return place + 1
        if self.function == "ntile":
            assert self.number is not None
            size, larger = divmod(len(part), self.number)
            bounds = [size + (tile < larger) for tile in range(self.number)]
            return next(tile + 1 for tile in range(self.number) if place < sum(bounds[: tile + 1]))
        before = [self._peers(group) for group in part if self._peers(group) != self._peers(part[place])]
        first = next(number for number, group in enumerate(part) if self._peers(group) == self._peers(part[place]))
        return first + 1 if self.function == "rank" else len(set(before[:first])) + 1

    def _frame(self, part: list[Group], place: int) -> list[Group]:
        if self.rows is not None:
            start, end = self.rows
            low = 0 if start is None else max(0, place + start)
            high = len(part) if end is None else max(low, place + end + 1)
            return part[low:high]
        if not self.order:
            return part
        last = max(number for number, group in enumerate(part) if self._peers(group) == self._peers(part[place]))
        return part[: last + 1]

    def _of_frame(self, values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        if self.function in ("first_value", "last_value"):
            return (values[0] if self.function == "first_value" else values[-1]) if values else None
        if self.function == "count":
            return len(known)
        if not known:
            return None
        if self.function == "sum":
            return sum(known)
        return min(known) if self.function == "min" else max(known)


def _bound(offset: int | None, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if offset == 0 else f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
