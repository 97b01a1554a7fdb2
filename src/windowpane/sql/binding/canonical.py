"""The canonical text of a query: equal for queries that differ in formatting, comments and spelling only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from windowpane.sql.query import BoundQuery, Emit, Watermark
from windowpane.sql.relation_text import relation_text, window_text
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
    function, clause = window_text(query.window) if query.window else ([], "")
    if query.kind == "aggregate" and not query.keys and not query.aggregates and clause:
        # Only GROUP BY says that the rows of a window are one group.
        function, clause = ["w"], f"WINDOW w AS ({clause.removeprefix('WINDOW ')})"
    group = [*function, *(key.expr.text for key in query.keys)]
    parts = [
        f"SELECT {shown.distinct}{', '.join(shown.select)} FROM {relation_text(query.relation)}",
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
