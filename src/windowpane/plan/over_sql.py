"""Window functions over results as SQL, for Spark and for DuckDB, so that both give the same.

The window belongs to every partition. Where the result depends on the order of rows that ORDER BY leaves open, the
group's keys decide, so that a replayed micro-batch gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from windowpane.sql.query import Expr, OrderKey
from windowpane.sql.result_steps import Frame, OverCall

_BY_POSITION = ("row_number", "ntile", "lag", "lead")
_OF_PEERS = ("rank", "dense_rank", "percent_rank", "cume_dist")
_VALUES = ("first_value", "last_value", "nth_value")


@dataclass(frozen=True)
class OverSql:
    """`window` are the columns of the window, `ties` those that order rows of equal order, `column` gives the column
    with the values of an expression.
    """

    dialect: Literal["spark", "duckdb"]
    window: Sequence[str]
    ties: Sequence[str]
    column: Callable[[Expr], str]

    def positions(self, calls: Sequence[OverCall]) -> list[str]:
        """Columns that `columns` reads: the number of a row in its partition."""
        return [
            f"row_number() {self._over(call, ordered=True)} AS {_at(call)}" for call in calls if _needs_position(call)
        ]

    def columns(self, calls: Sequence[OverCall]) -> list[str]:
        """A column for each function."""
        return [f"{self._text(call)} AS {call.name}" for call in calls]

    def _text(self, call: OverCall) -> str:
        args = [self.column(arg) for arg in call.args]
        if call.function in _OF_PEERS:
            return f"{call.function}() {self._over(call)}"
        if call.function in _BY_POSITION:
            given = [*args[:1], *map(str, call.params), *args[1:]]
            return f"{self._call(call, given)} {self._over(call, ordered=True)}"
        if _needs_position(call):
            return f"{self._by_position(call, args[0])} {self._over(call, call.frame)}"
        if call.function in _VALUES:
            given = [*args, *map(str, call.params)]
            frame = replace(call.frame, rows=True)
            return f"{self._call(call, given)} {self._over(call, frame, ordered=True)}"
        return f"{self._aggregate(call, args)} {self._over(call, call.frame, ordered=call.frame.rows)}"

    def _by_position(self, call: OverCall, value: str) -> str:
        """A value of the frame's first, last or n-th row, by the rows' numbers: in RANGE, peers have no order."""
        at = _at(call)
        if call.function == "nth_value":
            at = f"CASE WHEN {at} = {call.params[0]} THEN {at} END"
        elif call.skips_nulls:
            at = f"CASE WHEN {value} IS NOT NULL THEN {at} END"
        names = {"spark": ("min_by", "max_by"), "duckdb": ("arg_min_null", "arg_max_null")}[self.dialect]
        return f"{names[call.function == 'last_value']}({value}, {at})"

    def _call(self, call: OverCall, args: list[str]) -> str:
        if not call.skips_nulls:
            return f"{call.function}({', '.join(args)})"
        if self.dialect == "duckdb":
            return f"{call.function}({', '.join(args)} IGNORE NULLS)"
        return f"{call.function}({', '.join(args)}) IGNORE NULLS"

    def _aggregate(self, call: OverCall, args: list[str]) -> str:
        if call.function == "count" and len(args) > 1:
            present = " AND ".join(f"{arg} IS NOT NULL" for arg in args)
            return f"count(CASE WHEN {present} THEN 1 END)"
        if call.function == "count_if":  # DuckDB's is NULL if all its arguments are
            return f"count(CASE WHEN {args[0]} THEN 1 END)"
        return f"{call.function}({', '.join(args) or '*'})"

    def _over(self, call: OverCall, frame: Frame | None = None, *, ordered: bool = False) -> str:
        """`ordered`: rows of equal order are ordered too."""
        partition = [*self.window, *(self.column(expr) for expr in call.partition)]
        order = [f"{self.column(key.expr)} {_direction(key)}" for key in call.order]
        if ordered:
            order += self.ties or self.window[:1]
        parts = [f"PARTITION BY {', '.join(partition)}"] if partition else []
        parts += [f"ORDER BY {', '.join(order)}"] if order else []
        parts += [str(frame)] if frame is not None and order else []
        return f"OVER ({' '.join(parts)})"


def order_text(column: str, key: OrderKey) -> str:
    """An item of ORDER BY in both dialects."""
    return f"{column} {_direction(key)}"


def _direction(key: OrderKey) -> str:
    return f"{'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _needs_position(call: OverCall) -> bool:
    """Whether the function picks a row of a frame whose ends are peers, which have no order among each other."""
    return call.function in _VALUES and not call.frame.rows and not call.frame.is_whole


def _at(call: OverCall) -> str:
    return f"{call.name}_at"
