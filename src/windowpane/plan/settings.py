"""Settings of a transform that do not concern time: quotas, dedupe keys, side outputs."""

from __future__ import annotations

from windowpane.config import REINJECT
from windowpane.errors import nearest
from windowpane.outcomes import SideKind
from windowpane.plan.columns import find_column, quote
from windowpane.plan.context import PlanContext
from windowpane.plan.eventtime.timing import Timing
from windowpane.sql.query import Expr, GroupKey, Relation


def check_max_groups(context: PlanContext) -> None:
    """`limits.max_groups` bounds the groups of one window, so there must be groups and a window that holds several."""
    bound = context.bound
    if context.transform.limits.max_groups is None:
        return
    if context.is_chained or context.joins_results:
        reason = "the query has several windows"
    elif bound.kind != "aggregate" or not bound.keys:
        reason = "the query has no groups"
    elif bound.window and not bound.window.spec.shared_bounds:
        reason = f"{bound.window.spec.describe()} is not a window that all groups share"
    else:
        return
    raise context.error(
        "MAX_GROUPS_NOT_APPLICABLE", f"`max_groups` is not supported here: {reason}",
        "remove it, or group by columns in a tumbling or hopping window", key=context.own_key("limits.max_groups"),
    )  # fmt: skip


def check_reinjection(context: PlanContext) -> None:
    """A row that is read again must become one row again, of the stream it came from."""
    routes = context.transform.side_output.routes()
    asked = [kind for kind, route in routes.items() if route.sink == REINJECT]
    names = [ref.name for ref in context.refs()]
    source = context.bound.source.relation
    if not asked:
        return
    seen_by_dedupe: tuple[SideKind, ...] = ("late", "evicted")
    remembered = [kind for kind in seen_by_dedupe if kind in asked]
    if context.transform.dedupe is not None and remembered:
        asked, reason = remembered, "dedupe has seen their keys and would treat them as duplicates"
    elif context.is_chained or context.joins_results:
        reason = "it has several windows, and results are no rows of a stream"
    elif source.generators:
        reason = "reading an event again makes all of its rows again"
    elif source.joins:
        reason = "the join would multiply its rows"
    elif len(set(names)) < len(names):
        reason = "it reads a stream twice"
    else:
        return
    raise context.error(
        "UNSUPPORTED_ROUTE", f"the `{asked[0]}` rows of this query cannot be reinjected: {reason}",
        "route them to a sink or metrics_only", key=context.own_key(f"side_output.{asked[0]}.sink"),
    )  # fmt: skip


def dedupe_keys(context: PlanContext) -> tuple[GroupKey, ...]:
    """The columns of FROM that `dedupe.key` names."""
    dedupe = context.transform.dedupe
    return tuple(_dedupe_key(context, position, name) for position, name in enumerate(dedupe.key if dedupe else ()))


def _dedupe_key(context: PlanContext, position: int, name: str) -> GroupKey:
    known = context.bound.relation.columns
    column = find_column(known, name)
    if column is None and known:
        hint = f"its columns: {nearest(name, [each.name for each in known])}"
        raise context.error(
            "DEDUPE_COLUMN_NOT_FOUND",
            f"FROM has no column `{name}` for dedupe",
            hint,
            key=context.own_key("dedupe.key"),
        )
    found = column.name if column else name
    return GroupKey(f"_d{position}", found, Expr(quote(found), column.type if column else None, (found,)))


def may_lack_partner(relation: Relation) -> bool:
    """Whether rows can be unmatched: an inner or semi join drops rows that find no partner."""
    if relation.stream_join is not None and relation.stream_join.kind != "full":
        return True
    if any(may_lack_partner(query.source.relation) for query in relation.queries):
        return True
    return any(not join.text.startswith(("LEFT JOIN", "LEFT ANTI", "ANTI")) for join in relation.tables)


def dedupe_notes(context: PlanContext) -> tuple[str, ...]:
    """`dedupe` compares the rows that FROM makes, so a key without their columns keeps one row of each event."""
    made = [column.name for generator in context.bound.relation.generators for column in generator.columns]
    keys = {key.label for key in dedupe_keys(context)}
    if not made or not keys or not keys.isdisjoint(made):
        return ()
    return (
        f"`dedupe.key` has none of {', '.join(made)}: of the rows made of one event, all but the first are duplicates",
    )


def side_notes(context: PlanContext, timing: Timing) -> tuple[str, ...]:
    """Routes that were written down and can never get a row."""
    never: dict[SideKind, str] = {}
    if timing.mode == "processing_time":
        never["late"] = "no row is late in processing time"
    if context.transform.limits.max_groups is None:
        never["evicted"] = "`limits.max_groups` is not set"
    if context.transform.dedupe is None:
        never["duplicate"] = "`dedupe` is not set"
    if not may_lack_partner(context.bound.source.relation):
        never["unmatched"] = "the query has no join that needs a partner"
    written = context.transform.side_output.model_fields_set
    return tuple(f"`side_output.{kind}` gets no rows: {reason}" for kind, reason in never.items() if kind in written)
