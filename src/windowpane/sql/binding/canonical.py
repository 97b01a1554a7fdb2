"""The canonical text of a query: equal for queries that differ in formatting, comments and spelling only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from windowpane.sql.query import BoundQuery, Emit, Relation, UnionBranch, Watermark, Window
from windowpane.sql.types import quoted
from windowpane.time import format_duration


def plan_id(canonical: str) -> str:
    """16 hex digits that name the query in window ids and checkpoints."""
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass
class Shown:
    """Texts of the clauses that the bound query keeps only in terms of internal names."""

    select: list[str] = field(default_factory=list)
    conditions: dict[str, str] = field(default_factory=dict)
    """HAVING and QUALIFY."""
    order_by: list[str] = field(default_factory=list)
    limit: int | None = None
    distinct: str = ""
    """Before what is selected."""


def canonical_text(query: BoundQuery, shown: Shown) -> str:
    """A query that means the same, in one line."""
    function, clause = _window(query.window)
    if query.kind == "aggregate" and not query.keys and not query.aggregates and clause:
        # Only GROUP BY says that the rows of a window are one group.
        function, clause = ["w"], f"WINDOW w AS ({clause.removeprefix('WINDOW ')})"
    group = [*function, *(key.expr.text for key in query.keys)]
    parts = [
        f"SELECT {shown.distinct}{', '.join(shown.select)} FROM {_from(query.relation)}",
        f"WHERE {query.where.text}" if query.where else "",
        f"GROUP BY {', '.join(group)}" if group else "",
        _condition(shown, "HAVING"),
        clause,
        _watermark(query.watermark),
        _emit(query.emit),
        _condition(shown, "QUALIFY"),
        f"ORDER BY {', '.join(shown.order_by)}" if shown.order_by else "",
        f"LIMIT {shown.limit}" if shown.limit is not None else "",
    ]
    return " ".join(part for part in parts if part)


def _condition(shown: Shown, clause: str) -> str:
    return f"{clause} {shown.conditions[clause]}" if clause in shown.conditions else ""


def _from(relation: Relation) -> str:
    if relation.query is not None:
        return f"({relation.query.canonical})" + (f" AS {quoted(relation.alias)}" if relation.alias else "")
    if relation.stream_join is not None:
        base = relation.stream_join.text
    elif relation.branches:
        inner = " UNION ALL ".join(_branch(branch) for branch in relation.branches)
        base = f"({inner})" + (f" AS {quoted(relation.alias)}" if relation.alias else "")
    else:
        stream = relation.streams[0]
        named = stream.alias != stream.name and relation.tables
        base = quoted(stream.name) + (f" AS {quoted(stream.alias)}" if named else "")
    return " ".join([base, *(join.text for join in relation.joins)])


def _branch(branch: UnionBranch) -> str:
    items = ", ".join(f"{expr.text} AS {quoted(name)}" for name, expr in branch.projection)
    where = f" WHERE {branch.where.text}" if branch.where else ""
    return f"SELECT {items} FROM {quoted(branch.stream.name)}{where}"


def _window(window: Window | None) -> tuple[list[str], str]:
    """The window as a GROUP BY function (count, state) or as a clause (all that have a time)."""
    if window is None:
        return [], ""
    spec = window.spec
    over = _over(window)
    if not spec.parts:
        conditions = (expr.text for expr in (window.open, window.emit) if expr)
        return [f"{spec.kind}window({', '.join([*map(str, spec.arguments()), *conditions])}){over}"], ""
    on = f" ON {window.on.text}" if window.on else ""
    return [], f"WINDOW {spec.clause()}{over}{on}"


def _over(window: Window) -> str:
    partition = f"PARTITION BY {', '.join(expr.text for expr in window.partition_by)}" if window.partition_by else ""
    when = f"WHEN {window.when.text}" if window.when else ""
    inner = " ".join(part for part in (partition, when) if part)
    return f" OVER ({inner})" if inner else ""


def _watermark(watermark: Watermark | None) -> str:
    if watermark is None:
        return ""
    parts = {"LAG": watermark.lag_us, "ALLOWED LATENESS": watermark.allowed_lateness_us}
    shown = ", ".join(f"{name} '{format_duration(us)}'" for name, us in parts.items() if us is not None)
    return f"WATERMARK ({shown})"


def _emit(emit: Emit) -> str:
    """Nothing for the default, so that writing it out changes nothing."""
    if emit.mode == "close":
        return ""
    return "EMIT ON UPDATE" if emit.every_us is None else f"EMIT EVERY '{format_duration(emit.every_us)}'"
