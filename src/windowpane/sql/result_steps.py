"""The result side of a query: the steps between a window's emissions and the columns of SELECT, in order.

Each step is frozen data over the columns of the emissions (`_k0`, `_a0`, `_c0`), the pseudo-columns, and the columns
that earlier steps add. Hosts compute them: Spark SQL on Spark, DuckDB in the harness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from windowpane.errors import Span
from windowpane.sql.query import Expr, OrderKey, Output

Change: TypeAlias = Callable[[Expr], Expr]


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which the condition holds."""

    condition: Expr
    clause: Literal["HAVING", "QUALIFY", "WHERE", "DISTINCT"] = "HAVING"

    def mapped(self, change: Change) -> Filter:
        return replace(self, condition=change(self.condition))


@dataclass(frozen=True)
class Sort:
    """ORDER BY of each window, and LIMIT: the first rows of each in that order."""

    order: tuple[OrderKey, ...]
    limit: int | None = None

    def mapped(self, change: Change) -> Sort:
        return replace(self, order=tuple(replace(key, expr=change(key.expr)) for key in self.order))


@dataclass(frozen=True)
class Frame:
    """The rows around a row that a window function looks at. Offsets count from that row, None is unbounded."""

    rows: bool = False
    """ROWS; otherwise RANGE, in which rows of equal order belong together."""
    start: int | None = None
    end: int | None = None

    @property
    def is_whole(self) -> bool:
        """All rows of the partition."""
        return self.start is None and self.end is None

    def __str__(self) -> str:
        bounds = f"{_bound(self.start, 'PRECEDING')} AND {_bound(self.end, 'FOLLOWING')}"
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {bounds}"


def _bound(offset: int | None, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if offset == 0 else f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def without_window(partition: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """PARTITION BY without the window, which belongs to every partition anyway."""
    window = ("window_start", "window_end", "window_id", "trigger_time")
    return tuple(expr for expr in partition if expr.text not in window)


@dataclass(frozen=True)
class OverCall:
    """One window function over the rows of a window. `name` is internal (`_w0`)."""

    name: str
    function: str
    args: tuple[Expr, ...]
    params: tuple[int, ...]
    """Literal arguments: the offset of lag, the number of nth_value and ntile."""
    skips_nulls: bool
    partition: tuple[Expr, ...]
    """Without the window itself, which belongs to every partition."""
    order: tuple[OrderKey, ...]
    frame: Frame
    type: str | None
    span: Span | None = field(default=None, compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        return (*self.args, *self.partition, *(key.expr for key in self.order))

    def mapped(self, change: Change) -> OverCall:
        args, partition = (tuple(map(change, exprs)) for exprs in (self.args, self.partition))
        order = tuple(replace(key, expr=change(key.expr)) for key in self.order)
        return replace(self, args=args, partition=without_window(partition), order=order)


@dataclass(frozen=True)
class Over:
    """Adds a column for each window function."""

    calls: tuple[OverCall, ...]

    def mapped(self, change: Change) -> Over:
        return Over(tuple(call.mapped(change) for call in self.calls))


Operation: TypeAlias = Sort | Over
"""A step that looks at several rows."""
ResultStep: TypeAlias = Filter | Operation


@dataclass(frozen=True)
class Segment:
    """What is computed row by row, up to the next operation.

    A row on which one of the expressions fails leaves as an error row; the expressions count only where the condition
    holds.
    """

    condition: Expr | None
    exprs: tuple[Expr, ...]
    operation: Operation | None
    """None for the end of the result side."""


def only_one(name: str, partition: tuple[Expr, ...], span: Span | None) -> tuple[ResultStep, ...]:
    """The first row, by the keys, of those in a window that agree in `partition`. `name`: of a column."""
    call = OverCall(
        name, "row_number", args=(), params=(), skips_nulls=False, partition=without_window(partition), order=(),
        frame=Frame(), type="INT", span=span,
    )  # fmt: skip
    return Over((call,)), Filter(Expr(f"{name} = 1", "BOOLEAN", (name,), span), "DISTINCT")


def count_calls(steps: tuple[ResultStep, ...]) -> int:
    """How many window functions there are."""
    return sum(len(step.calls) for step in steps if isinstance(step, Over))


def segments(steps: tuple[ResultStep, ...], outputs: tuple[Output, ...]) -> tuple[Segment, ...]:
    """The steps cut after each operation. The last segment has the outputs among its expressions.

    If ORDER BY is the last step, the outputs are computed before it: LIMIT counts rows that can be computed.
    """
    found: list[Segment] = []
    conditions: list[Expr] = []
    for number, step in enumerate(steps, 1):
        if isinstance(step, Filter):
            conditions.append(step.condition)
            continue
        last = _texts(outputs) if number == len(steps) and isinstance(step, Sort) else ()
        found.append(Segment(_all_of(conditions), (*last, *_inputs(step)), step))
        conditions = []
    if not steps or not isinstance(steps[-1], Sort):
        found.append(Segment(_all_of(conditions), _texts(outputs), None))
    return tuple(found)


def _inputs(step: Operation) -> tuple[Expr, ...]:
    if isinstance(step, Over):
        return tuple({expr.text: expr for call in step.calls for expr in call.exprs()}.values())
    return tuple(key.expr for key in step.order)


def _texts(outputs: tuple[Output, ...]) -> tuple[Expr, ...]:
    return tuple(output.expr for output in outputs)


def _all_of(conditions: list[Expr]) -> Expr | None:
    """One condition for several, none of which is evaluated where an earlier one does not hold."""
    if not conditions:
        return None
    text = conditions[-1].text
    for condition in reversed(conditions[:-1]):
        text = f"CASE WHEN {condition.text} THEN {text} END"
    columns = dict.fromkeys(name for condition in conditions for name in condition.columns)
    return replace(conditions[-1], text=text, columns=tuple(columns))
