"""A join of results with groups of the same results and window, as in Nexmark's q5: `… JOIN (SELECT max(n) …) ON …`.

The groups have one row per window, so the join is the results with one more column, computed by a window function.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.scope import Scope, Source
from windowpane.sql.query import BoundQuery, Column, Expr, Output
from windowpane.sql.result_steps import Filter, Over, OverCall
from windowpane.sql.scalar import read_expression
from windowpane.sql.syntax.source import SourceText

_BOUNDS = ("window_start", "window_end")
HINT = "join the table to the stream inside the subquery: FROM (SELECT … FROM a JOIN table ON … GROUP BY …) AS w"


def join_with_groups(
    source: SourceText, join: exp.Join, results: BoundQuery, groups: BoundQuery, *, alias: str, scope: Scope
) -> tuple[BoundQuery, Scope, Expr] | None:
    """The results with the columns of the groups, both as a scope, and ON as a condition; None if they do not fit."""
    calls = _of_whole_windows(results, groups)
    on = join.args.get("on")
    if calls is None or on is None or join.args.get("side") or str(join.args.get("kind") or "") not in ("", "INNER"):
        return None
    taken = {output.name.lower() for output in results.outputs}
    added = [
        Output(each.name if each.name.lower() not in taken else f"{alias}__{each.name}", each.expr)
        for each in groups.outputs
    ]
    joined = replace(
        results,
        canonical=f"{results.canonical} JOIN ({groups.canonical}) AS {alias}",
        outputs=(*results.outputs, *added),
        steps=(*results.steps, Over(calls)),
        owners=tuple(dict.fromkeys((*results.owners, *groups.owners))),
    )
    own = [each.name for each in groups.outputs]
    names = {name.lower(): Column(each.name, each.expr.type or "") for name, each in zip(own, added, strict=True)}
    wider = Scope(source, (*scope.sources, Source(alias, names, spelled={name.lower(): name for name in own})))
    condition = RowExpressions(source, wider, dict(wider.types())).condition(on.copy(), "ON")
    return (joined, wider, condition) if _joins_windows(condition, joined) else None


def _of_whole_windows(results: BoundQuery, groups: BoundQuery) -> tuple[OverCall, ...] | None:
    """The window functions of groups that are whole windows of the same results."""
    same = replace(
        groups, text=results.text, canonical=results.canonical, plan_id=results.plan_id, outputs=results.outputs,
        steps=results.steps,
    )  # fmt: skip
    count = len(results.steps)
    rest = groups.steps[count:]
    if same != results or groups.steps[:count] != results.steps or len(rest) != 2:
        return None
    over, kept = rest
    if not isinstance(over, Over) or not isinstance(kept, Filter) or any(call.partition for call in over.calls):
        return None
    numbers = [call for call in over.calls if kept.condition.text == f"{call.name} = 1"]
    return tuple(call for call in over.calls if call not in numbers) if numbers else None


def _joins_windows(condition: Expr, joined: BoundQuery) -> bool:
    """Whether both bounds of the window are compared."""
    texts = {output.name: output.expr.text for output in joined.outputs}
    tree = read_expression(condition.text)
    found = set()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        node = part.unnest()
        if isinstance(node, exp.EQ) and isinstance(node.left, exp.Column) and isinstance(node.right, exp.Column):
            sides = {texts.get(node.left.name), texts.get(node.right.name)}
            found |= sides if len(sides) == 1 and node.left.name != node.right.name else set()
    return found.issuperset(_BOUNDS)
