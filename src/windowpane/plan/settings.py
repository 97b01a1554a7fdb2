"""Settings of a transform that do not concern time: quotas, dedupe keys, side outputs."""

from __future__ import annotations

from collections.abc import Sequence

from windowpane.config import REINJECT
from windowpane.errors import PlanError, nearest
from windowpane.outcomes import SideKind
from windowpane.plan.columns import find_column, quote
from windowpane.plan.context import PlanContext
from windowpane.plan.eventtime.timing import Timing
from windowpane.sql.query import Column, Expr, GroupKey, Relation, StreamJoin, UnionBranch


def check_max_groups(context: PlanContext) -> None:
    """`limits.max_groups` bounds the groups of one window, so there must be groups and a window that holds several.

    Of queries that read each other, this is about the outermost one.
    """
    bound = context.bound
    if context.transform.limits.max_groups is None:
        return
    hint = "remove it, or group by columns in a tumbling or hopping window"
    if bound.kind != "aggregate" or not bound.keys:
        reason = "the query has no groups"
    elif bound.window and not bound.window.spec.shared_bounds:
        reason = f"{bound.window.spec.describe()} is not a window that all groups share"
    else:
        return
    raise context.error(
        "MAX_GROUPS_NOT_APPLICABLE", f"`max_groups` is not supported here: {reason}", hint,
        key=context.own_key("limits.max_groups"),
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


def dedupe_keys(context: PlanContext) -> tuple[tuple[GroupKey, ...], tuple[tuple[str, ...], ...]]:
    """The columns of FROM that `dedupe.key` names, and in a join of streams which of them each side has."""
    dedupe, relation = context.transform.dedupe, context.bound.relation
    names = dedupe.key if dedupe else ()
    if relation.stream_join is not None and names:
        return _dedupe_sides(context, relation.stream_join, names)
    keys = tuple(_dedupe_key(context, position, name) for position, name in enumerate(names))
    if not relation.joins_results:
        return keys, ()
    own = tuple(key.name for key in keys)
    return keys, tuple(own if branch.query is None else () for branch in relation.branches)


def check_dedupe(context: PlanContext, levels: Sequence[PlanContext]) -> None:
    """Of several queries that read streams, some may lack the columns of `dedupe.key`, but not all.

    `levels`: the contexts of all queries that read each other.
    """
    dedupe = context.transform.dedupe
    if dedupe is None or not context.joins_results or any(deduplicates(level) for level in levels):
        return
    listed = ", ".join(f"`{name}`" for name in dedupe.key)
    columns = tuple(column for level in levels for column in level.bound.relation.columns if level.refs())
    raise _no_dedupe_column(context, f"no stream of this query has {listed} for dedupe", dedupe.key[0], columns)


def deduplicates(context: PlanContext) -> bool:
    """Whether a query compares rows of its streams. Beside other queries, a stream need not have the columns. The
    branches of a UNION ALL have the same columns, so they must.
    """
    dedupe, relation = context.transform.dedupe, context.bound.relation
    if dedupe is None or (relation.branches and not context.refs()):
        return False
    if relation.stream_join is not None and context.beside_others:
        return bool(_sides_of(context, relation.stream_join, dedupe.key)[0])
    if relation.branches or not context.beside_others or not relation.columns:
        return True
    return all(find_column(relation.columns, name) for name in dedupe.key)


def _dedupe_key(context: PlanContext, position: int, name: str) -> GroupKey:
    known = context.bound.relation.columns
    column = find_column(known, name)
    if column is None and known:
        raise _no_dedupe_column(context, f"FROM has no column `{name}` for dedupe", name, known)
    found = column.name if column else name
    return GroupKey(f"_d{position}", found, Expr(quote(found), column.type if column else None, (found,)))


def _no_dedupe_column(context: PlanContext, message: str, name: str, columns: Sequence[Column]) -> PlanError:
    known = list(dict.fromkeys(each.name for each in columns if not each.hidden))
    hint = f"its columns: {nearest(name, known)}"
    return context.error("DEDUPE_COLUMN_NOT_FOUND", message, hint, key=context.own_key("dedupe.key"))


def _dedupe_sides(
    context: PlanContext, join: StreamJoin, names: Sequence[str]
) -> tuple[tuple[GroupKey, ...], tuple[tuple[str, ...], ...]]:
    """As `_sides_of`; PlanError if no stream has the columns."""
    keys, sides = _sides_of(context, join, names)
    if not keys:
        listed = ", ".join(f"`{name}`" for name in names)
        message = f"no stream of this join has {listed} for dedupe"
        raise _no_dedupe_column(context, message, names[0], context.bound.relation.columns)
    return keys, sides


def _sides_of(
    context: PlanContext, join: StreamJoin, names: Sequence[str]
) -> tuple[tuple[GroupKey, ...], tuple[tuple[str, ...], ...]]:
    """Rows of each stream that has all columns of the key are compared with rows of that stream."""
    keys, sides = list[GroupKey](), list[tuple[str, ...]]()
    types = {column.name: column.type for column in context.bound.relation.columns}
    shared = [each.name for each in context.bound.relation.columns
              if not each.hidden and each.name not in (*join.left, *join.right)]  # fmt: skip
    for branch, own in zip(context.bound.relation.branches, (join.left, join.right), strict=True):
        found = [_column_of_side(branch, [*own, *shared], name) for name in names if branch.query is None]
        complete = [column for column in found if column is not None]
        if len(complete) < len(names):
            sides.append(())
            continue
        first = len(keys)
        keys += [
            GroupKey(
                f"_d{first + position}", f"{branch.stream.alias}.{name}", Expr(quote(column), types[column], (column,))
            )
            for position, (name, column) in enumerate(zip(names, complete, strict=True))
        ]
        sides.append(tuple(key.name for key in keys[first:]))
    return tuple(keys), tuple(sides)


def _column_of_side(branch: UnionBranch, own: Sequence[str], name: str) -> str | None:
    """The name that a column of one side has in the query: its own, or a longer one if the other side has it too."""
    for column, expr in branch.projection:
        renamed = column.lower().endswith(f"__{name.lower()}") and expr.text.lower() == quote(name).lower()
        if column in own and (column.lower() == name.lower() or renamed):
            return column
    return None


def may_lack_partner(relation: Relation) -> bool:
    """Whether rows can be unmatched: an inner or semi join drops rows that find no partner."""
    if relation.stream_join is not None and relation.stream_join.kind != "full":
        return True
    if any(may_lack_partner(query.source.relation) for query in relation.queries):
        return True
    return any(not join.text.startswith(("LEFT JOIN", "LEFT ANTI", "ANTI")) for join in relation.tables)


def dedupe_notes(context: PlanContext) -> tuple[str, ...]:
    """`dedupe` compares the rows that FROM makes, so a key without their columns keeps one row of each event."""
    if not deduplicates(context):
        return ()
    made = [column.name for generator in context.bound.relation.generators for column in generator.columns]
    keys = {key.label for key in dedupe_keys(context)[0]}
    if not made or not keys or not keys.isdisjoint(made):
        return ()
    return (
        f"`dedupe.key` has none of {', '.join(made)}: of the rows made of one event, all but the first are duplicates",
    )


def idle_notes(context: PlanContext, timing: Timing) -> tuple[str, ...]:
    """A partition of a topic that has no new messages holds back the watermark of all."""
    if timing.mode == "processing_time" or timing.idle_timeout_us is not None:
        return ()
    named = [ref.name for ref in context.refs() if context.streams[ref.name].source_format.is_messages]
    return tuple(
        f"a partition of {name} without new messages holds windows back: with several partitions, set "
        '`options.idle_timeout`, for example "1m"'
        for name in dict.fromkeys(named)
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
