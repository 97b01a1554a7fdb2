"""How EXPLAIN names and shows the steps of the result side."""

from __future__ import annotations

from windowpane.plan.describe import describe_order
from windowpane.plan.node import Properties, shown
from windowpane.sql.result_steps import Filter, Over, OverCall, ResultStep


def step_name(step: ResultStep) -> str:
    """The name of the step's node, without the prefix."""
    if isinstance(step, Filter):
        return {"HAVING": "Having", "QUALIFY": "Qualify", "WHERE": "ResultFilter", "DISTINCT": "Distinct"}[step.clause]
    if isinstance(step, Over):
        return "WindowFunctions"
    return "Sort" if step.limit is None else "TopN"


def step_properties(step: ResultStep) -> Properties:
    """What EXPLAIN shows of the step."""
    if isinstance(step, Filter):
        return shown(condition=step.condition.text)
    if isinstance(step, Over):
        return shown(calls=tuple(f"{describe_call(call)} AS {call.name}" for call in step.calls), per="window")
    limit: Properties = {} if step.limit is None else {"limit": step.limit}
    return limit | shown(order=tuple(describe_order(key) for key in step.order), per="window")


def describe_call(call: OverCall) -> str:
    """As in SQL: `rank() OVER (PARTITION BY _k0 ORDER BY _a0 DESC)`."""
    texts = [arg.text for arg in call.args]
    args = ", ".join([*texts[:1], *map(str, call.params), *texts[1:]])
    star = "*" if call.function == "count" and not args else ""
    nulls = " IGNORE NULLS" if call.skips_nulls else ""
    parts = [f"PARTITION BY {', '.join(expr.text for expr in call.partition)}"] if call.partition else []
    parts += [f"ORDER BY {', '.join(describe_order(key) for key in call.order)}"] if call.order else []
    parts += [str(call.frame)] if call.frame.rows else []
    return f"{call.function}({args}{star}){nulls} OVER ({' '.join(parts)})"


def step_words(step: ResultStep) -> str:
    """The step in the summary, after the names of the columns."""
    if isinstance(step, Filter):
        return ", distinct" if step.clause == "DISTINCT" else f" where {step.clause} holds"
    if isinstance(step, Over):
        return ""
    return f", the first {step.limit} of each window" if step.limit is not None else ""
