"""Joins of streams: which conditions hold for one side alone, and which columns need a row of both.

A condition on one side is evaluated where its stream is read. An expression over one side is computed there too: a row
of the other side has its value for NULL, which a joined row without a partner needs. Only what is over both sides is
evaluated in workers, over joined rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from windowpane.core import columns as c
from windowpane.core.windows.aligned import AlignedSpec
from windowpane.plan.columns import quote
from windowpane.plan.context import PlanContext
from windowpane.plan.node_fields import InputColumn
from windowpane.sql import all_of, rename_columns, split_conjunction, substitute_columns
from windowpane.sql.query import Expr, JoinKind, Relation, StreamJoin, UnionBranch

_FILTERED_BEFORE: dict[JoinKind, tuple[bool, bool]] = {
    "inner": (True, True),
    "left": (True, False),
    "right": (False, True),
    "full": (False, False),
    "semi": (True, True),
    "anti": (True, False),
}
"""Whether WHERE over the left or the right side alone can be evaluated before the join."""
_MATCHED_BEFORE: dict[JoinKind, tuple[bool, bool]] = {
    "inner": (True, True),
    "left": (False, True),
    "right": (True, False),
    "full": (False, False),
    "semi": (True, True),
    "anti": (False, True),
}
"""The same of ON: a row of a side that is preserved stays, whatever ON says."""


@dataclass(frozen=True)
class Conditions:
    """Where each condition of ON and WHERE is evaluated."""

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    """Where the stream of that side is read."""
    on: tuple[Expr, ...]
    """Over pairs: those for which one does not hold are not partners."""
    where: Expr | None
    """Over joined rows."""


def split_conditions(join: StreamJoin, where: Expr | None) -> Conditions:
    """The conditions of ON and WHERE by where they are evaluated. In an inner join, WHERE is as good as ON."""
    sides: tuple[list[Expr], list[Expr]] = ([], [])
    on, after = list[Expr](), list[Expr]()
    for condition in (part for each in join.conditions for part in split_conjunction(each)):
        side = side_of(condition.columns, join)
        (sides[side] if side is not None and _MATCHED_BEFORE[join.kind][side] else on).append(condition)
    for condition in split_conjunction(where) if where else ():
        side = side_of(condition.columns, join)
        before = side is not None and _FILTERED_BEFORE[join.kind][side]
        (sides[side] if side is not None and before else on if join.kind == "inner" else after).append(condition)
    return Conditions(tuple(sides[0]), tuple(sides[1]), tuple(on), all_of(after))


def pushed(branch: UnionBranch, conditions: Sequence[Expr]) -> Expr | None:
    """WHERE of a branch with more conditions, which are over the columns of the relation."""
    own = [branch.where] if branch.where else []
    projection = dict(branch.projection)
    return all_of([*own, *(substitute_columns(each, projection) for each in conditions)])


def side_of(columns: Iterable[str], join: StreamJoin) -> int | None:
    """0 or 1 for columns of the left or the right side alone; None for columns of both, or of neither."""
    found = {0 if name in join.left else 1 for name in columns if name in join.left or name in join.right}
    return found.pop() if len(found) == 1 else None


def spans_sides(columns: Iterable[str], join: StreamJoin) -> bool:
    """Whether both sides have some of the columns."""
    names = set(columns)
    return bool(names & set(join.left)) and bool(names & set(join.right))


def split_columns(
    columns: Sequence[InputColumn], join: StreamJoin, known: Relation
) -> tuple[tuple[InputColumn, ...], tuple[InputColumn, ...]]:
    """The columns that cross, and those that are computed over joined rows from columns that cross.

    `columns`: what the operators behind the join read, over the columns of the relation.
    """
    crossing, computed, named = list[InputColumn](), list[InputColumn](), dict[str, str]()
    types = {column.name: column.type for column in known.columns}
    for column in columns:
        exprs = [column.expr, *([column.under] if column.under else [])]
        names = [name for expr in exprs for name in expr.columns]
        if not spans_sides(names, join):
            crossing.append(replace(column, role="joined") if column.role == "where" else column)
            continue
        for name in names:
            if name not in named:
                named[name] = f"_x{len(named)}"
                crossing.append(InputColumn(named[name], Expr(quote(name), types[name], (name,)), "joined"))
        under = rename_columns(column.under, named) if column.under else None
        computed.append(replace(column, expr=rename_columns(column.expr, named), under=under))
    return tuple(crossing), tuple(computed)


def check_stream_join(context: PlanContext) -> None:
    """Refuse what cannot be combined with a join of streams."""
    bound, join = context.bound, context.bound.relation.stream_join
    if join is None:
        return
    window = bound.window
    if window is None:
        return
    if not isinstance(window.spec, AlignedSpec):
        raise context.error(
            "UNSUPPORTED_JOIN", f"{window.spec.kind} windows cannot join streams",
            "rows are joined within windows that both streams share: TUMBLING or HOPPING", span=window.span,
        )  # fmt: skip
    if window.on is not None:
        raise context.error(
            "UNSUPPORTED_JOIN", f"`ON {window.on.text}` is the time of one side only",
            "declare the event time of each stream: `eventtime = { column = …, type = … }`", span=window.on.span,
        )  # fmt: skip
    if bound.emit.mode != "close":
        raise context.error(
            "EMIT_NOT_ALLOWED", "a join of streams only supports EMIT ON WINDOW CLOSE",
            "rows are joined when their window closes; remove EMIT", span=bound.emit.span,
        )  # fmt: skip


def key_columns(join: StreamJoin) -> tuple[InputColumn, ...]:
    """The columns by which rows find their partners."""
    keys = [InputColumn(name, Expr(name, left.type, (name,)), "join")
            for name, (left, _) in zip(join.keys, join.equalities, strict=True)]  # fmt: skip
    return (*keys, InputColumn(c.RIGHT, Expr(c.RIGHT, "BOOLEAN", (c.RIGHT,)), "join"))


def grouped_by_keys(join: StreamJoin, texts: Iterable[str]) -> bool:
    """Whether groups by these expressions have all their rows where the join has them: they include its keys.

    Not if a side can be missing: its key is NULL then, in rows of any shard.
    """
    known = set(texts)
    sides = [side for side, always in enumerate((join.kind not in ("right", "full"), join.kind in ("inner", "right")))
             if always]  # fmt: skip
    return all(any(pair[side].text in known for side in sides) for pair in join.equalities)
