"""Settings of a transform that concern neither time nor SQL alone: quotas, dedupe keys, side outputs."""

from __future__ import annotations

from windowpane.config import SideKind, Transform
from windowpane.core.windows import Hopping, Tumbling
from windowpane.errors import PlanError, nearest
from windowpane.plan.columns import find_column, quote
from windowpane.plan.describe import describe_window
from windowpane.plan.timing import Timing
from windowpane.sql.query import BoundQuery, Expr, GroupKey


def check_max_groups(bound: BoundQuery, transform: Transform) -> None:
    """`limits.max_groups` bounds the groups of one window, so there must be groups and a window that holds several."""
    if transform.limits.max_groups is None:
        return
    if bound.kind != "aggregate" or not bound.keys:
        reason = "the query has no groups (GROUP BY names no column besides the window)"
    elif bound.window and not isinstance(bound.window.spec, Tumbling | Hopping):
        reason = f"{describe_window(bound.window.spec)} is not a window that all groups share"
    else:
        return
    raise PlanError(
        "MAX_GROUPS_NOT_APPLICABLE", f"`limits.max_groups` cannot be kept here: {reason}",
        "remove it, or use it with a tumbling or hopping window and group keys", sql=bound.text,
    )  # fmt: skip


def dedupe_keys(bound: BoundQuery, names: tuple[str, ...]) -> tuple[GroupKey, ...]:
    """The columns of FROM that `dedupe.key` names."""
    return tuple(_dedupe_key(bound, position, name) for position, name in enumerate(names))


def _dedupe_key(bound: BoundQuery, position: int, name: str) -> GroupKey:
    known = bound.relation.columns
    column = find_column(known, name)
    if column is None and known:
        valid = nearest(name, [each.name for each in known])
        message = f"`dedupe.key` names `{name}`, which is not a column of FROM"
        raise PlanError("DEDUPE_COLUMN_NOT_FOUND", message, f"its columns: {valid}", sql=bound.text)
    text = quote(column.name if column else name)
    return GroupKey(
        f"_d{position}", name, Expr(text, column.type if column else None, (column.name if column else name,))
    )


def side_notes(transform: Transform, timing: Timing) -> tuple[str, ...]:
    """Routes that were written down and can never get a row."""
    never: dict[SideKind, str] = {}
    if timing.mode == "processing_time":
        never["late"] = "no row is late in processing time"
    if transform.limits.max_groups is None:
        never["evicted"] = "`limits.max_groups` is not set"
    if transform.dedupe is None:
        never["duplicate"] = "`dedupe` is not set"
    written = transform.side_output.model_fields_set
    return tuple(f"`side_output.{kind}` gets no rows: {reason}" for kind, reason in never.items() if kind in written)
