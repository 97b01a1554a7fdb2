"""Conditions that bound the distance in time between the rows of two streams."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from windowpane.sql.query import Expr
from windowpane.sql.scalar import read_expression
from windowpane.sql.syntax.intervals import node_to_us


@dataclass(frozen=True)
class TimeBounds:
    """Right time less left time is in [low_us, high_us]. None: not bounded."""

    low_us: int | None = None
    high_us: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether both ends are bounded."""
        return self.low_us is not None and self.high_us is not None

    def within(self, other: TimeBounds) -> TimeBounds:
        """Where both hold."""
        lows = [each for each in (self.low_us, other.low_us) if each is not None]
        highs = [each for each in (self.high_us, other.high_us) if each is not None]
        return TimeBounds(max(lows, default=None), min(highs, default=None))


def time_bounds(condition: Expr, left: str, right: str, unit_us: int | None) -> TimeBounds | None:
    """The bounds that a condition sets to the times `left` and `right`; None if it is about something else.

    A time is the name of a column, or of a function of it. `unit_us`: the unit of times that are numbers; None for
    timestamps, to which intervals are added.

    >>> time_bounds(Expr("b BETWEEN a - INTERVAL '1' MINUTE AND a", "BOOLEAN", ("a", "b")), "a", "b", None)
    TimeBounds(low_us=-60000000, high_us=0)
    >>> time_bounds(Expr("a < b + 5", "BOOLEAN", ("a", "b")), "a", "b", 1000)
    TimeBounds(low_us=-4999, high_us=None)
    >>> time_bounds(Expr("timestamp_millis(b) >= a", "BOOLEAN", ("a", "b")), "a", "timestamp_millis(b)", None)
    TimeBounds(low_us=0, high_us=None)
    """
    node = read_expression(condition.text).unnest()
    reader = _Reader(left, right, unit_us)
    if isinstance(node, exp.Between):
        low, high = (reader.bounds(node.this, bound, step) for bound, step in
                     ((node.args["low"], (1, 0)), (node.args["high"], (-1, 0))))  # fmt: skip
        return low.within(high) if low is not None and high is not None else None
    step = _COMPARISONS.get(type(node))
    return reader.bounds(node.this, node.expression, step) if step is not None else None


_COMPARISONS: dict[type[exp.Expr], tuple[int, int]] = {
    exp.GTE: (1, 0),
    exp.GT: (1, 1),
    exp.LTE: (-1, 0),
    exp.LT: (-1, 1),
}
"""Whether the first operand is the larger (1) or the smaller one, and by how much at least."""


@dataclass(frozen=True)
class _Reader:
    left: str
    right: str
    unit_us: int | None

    def bounds(self, first: exp.Expr, second: exp.Expr, step: tuple[int, int]) -> TimeBounds | None:
        one, other = self.shifted(first), self.shifted(second)
        if one is None or other is None or {one[0], other[0]} != {self.left, self.right}:
            return None
        direction, strict = step
        # one + shift >= other + shift, or <=
        distance = other[1] - one[1] + direction * strict
        if one[0] == self.left:
            direction, distance = -direction, -distance
        return TimeBounds(low_us=distance) if direction > 0 else TimeBounds(high_us=distance)

    def shifted(self, node: exp.Expr) -> tuple[str, int] | None:
        """A time, and the microseconds that are added to it."""
        node = node.unnest()
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            return str(node.name), 0
        if isinstance(node, exp.Anonymous) and [type(each) for each in node.expressions] == [exp.Column]:
            return f"{node.name.lower()}({node.expressions[0].name})", 0
        if isinstance(node, exp.Add):
            found, amount = self.shifted(node.left), self.amount(node.right)
            if found is None:
                found, amount = self.shifted(node.right), self.amount(node.left)
            return None if found is None or amount is None else (found[0], found[1] + amount)
        if isinstance(node, exp.Sub):
            found, amount = self.shifted(node.left), self.amount(node.right)
            return None if found is None or amount is None else (found[0], found[1] - amount)
        return None

    def amount(self, node: exp.Expr) -> int | None:
        node = node.unnest()
        if self.unit_us is None:
            return node_to_us(node) if isinstance(node, (exp.Interval, exp.Neg)) else None
        if isinstance(node, exp.Neg):
            inner = self.amount(node.this)
            return None if inner is None else -inner
        if isinstance(node, exp.Mul):
            parts = [self.amount(part) for part in (node.left, node.right)]
            return None if None in parts else parts[0] * parts[1] // self.unit_us  # type: ignore[operator]
        if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
            return None
        return int(node.name) * self.unit_us
