"""Window functions and LIMIT over results that another query reads: compiled for workers, which have whole windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from windowpane.core import columns as c
from windowpane.evaluation.compared_results import HELD, ROW, WINDOW, Comparison
from windowpane.plan.context import PlanContext
from windowpane.plan.evaluation import Compiler
from windowpane.plan.node_fields import InputColumn
from windowpane.plan.over_sql import OverSql, order_text
from windowpane.plan.stages import ResultStage
from windowpane.sql.query import Expr
from windowpane.sql.result_steps import Filter, Operation, Over, OverCall, Sort
from windowpane.sql.types import to_arrow

_VALUE = "_value_"
EXACT = (
    "row_number", "rank", "dense_rank", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "count",
    "count_if", "min", "max",
)  # fmt: skip
"""Window functions whose values do not depend on who computes them: sums may overflow, or differ in the last digit."""
Types = dict[str, str | None]


@dataclass(frozen=True)
class ComparisonCompiler:
    """`compiler` makes the compiler of expressions over columns of some types."""

    result: ResultStage
    compiler: Callable[[Mapping[str, str | None]], Compiler]
    context: PlanContext

    def compile(self, types: Types) -> tuple[tuple[Comparison, ...], Types, Expr | None]:
        """The steps that compare rows, all columns that are known behind them, and the condition that is left."""
        found, conditions, known = list[Comparison](), list[Filter](), dict(types)
        for step in self.result.steps:
            if isinstance(step, Filter):
                conditions.append(step)
                continue
            found.append(self._comparison(step, _held(conditions), known))
            conditions = []
            if isinstance(step, Over):
                known |= {call.name: call.type for call in step.calls}
        return tuple(found), known, _held(conditions)

    def used(self) -> frozenset[str]:
        """The columns of results that the steps read."""
        names = {name for step in self.result.steps for expr in _exprs(step) for name in expr.columns}
        return frozenset(names)

    def _comparison(self, step: Operation, condition: Expr | None, known: Types) -> Comparison:
        exprs = {expr.text: expr for expr in _exprs(step)}
        names = {text: f"{_VALUE}{at}" for at, text in enumerate(exprs)}
        columns = [InputColumn(names[text], expr, "key") for text, expr in exprs.items()]
        columns += [InputColumn(HELD, condition, "where")] if condition is not None else []
        projection = self.compiler(known).projection(columns, where=HELD if condition is not None else None)
        for name, computed in projection.computed:
            if computed.fails:
                failing = next(column.expr for column in columns if column.name == name)
                raise self._refused(failing, "it can fail, and the rows of a window are compared by it")
        ties = list(self.result.ordered_keys) if self.result.grouped else [c.EVENT_TIME, c.ARRIVAL]
        decisive = [*(f"{name} ASC NULLS FIRST" for name in ties), ROW]
        if isinstance(step, Sort):
            sql, added = self._limit(step, names, decisive), []
        else:
            sql, added = self._functions(step, names, decisive), list(step.calls)
        return Comparison(
            replace(projection, carried=(), continued=True),
            condition is not None,
            values=tuple(names.values()),
            ties=tuple(ties),
            grouped=self.result.grouped,
            sql=sql,
            added=tuple((call.name, to_arrow(call.type)) for call in added),
        )

    def _limit(self, step: Sort, names: Mapping[str, str], ties: Sequence[str]) -> str:
        order = ", ".join([*(order_text(names[key.expr.text], key) for key in step.order), *ties])
        number = f"row_number() OVER (PARTITION BY {WINDOW} ORDER BY {order})"
        return f"SELECT {ROW} FROM input QUALIFY {number} <= {step.limit} ORDER BY {ROW}"

    def _functions(self, step: Over, names: Mapping[str, str], ties: Sequence[str]) -> str:
        for call in step.calls:
            self._check(call)
        sql = OverSql("duckdb", [WINDOW], list(ties), lambda expr: names[expr.text])
        numbered = f"SELECT *, {', '.join(sql.positions(step.calls) or ['0 AS _none'])} FROM input"
        return f"SELECT {ROW}, {', '.join(sql.columns(step.calls))} FROM ({numbered}) ORDER BY {ROW}"

    def _check(self, call: OverCall) -> None:
        if call.function not in EXACT or call.type is None or to_arrow(call.type) is None:
            text = f"{call.function}({', '.join(arg.text for arg in call.args)}) OVER"
            shown = Expr(text, call.type, span=call.span)
            raise self._refused(shown, f"workers compute only {', '.join(EXACT)}")

    def _refused(self, expr: Expr, reason: str) -> Exception:
        return self.context.error(
            "CHAIN_EXPRESSION", f"`{expr.text}` cannot be computed between two windows: {reason}",
            "compute it before the first window or after the last one, or with other functions", span=expr.span,
        )  # fmt: skip


def _held(conditions: Sequence[Filter]) -> Expr | None:
    """One condition for several, none of which is evaluated where an earlier one does not hold."""
    if not conditions:
        return None
    last = conditions[-1].condition
    text = last.text
    for each in reversed(conditions[:-1]):
        text = f"CASE WHEN {each.condition.text} THEN {text} END"
    columns = dict.fromkeys(name for each in conditions for name in each.condition.columns)
    return replace(last, text=text, columns=tuple(columns))


def _exprs(step: Operation | Filter) -> list[Expr]:
    match step:
        case Filter():
            return [step.condition]
        case Over():
            return [expr for call in step.calls for expr in call.exprs()]
    return [key.expr for key in step.order]
