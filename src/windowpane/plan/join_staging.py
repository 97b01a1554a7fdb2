"""The stage of a join of streams: what joined rows take from each side, and what workers compute for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windowpane.core.joining import JoinPlan
from windowpane.core.side import Key
from windowpane.errors import PlanError, SqlError
from windowpane.evaluation.pairs import PairExpressions
from windowpane.plan.evaluation import Compiler
from windowpane.plan.node_fields import InputColumn, JoinFields
from windowpane.plan.stream_joins import side_of
from windowpane.sql import SessionFacts, Translated
from windowpane.sql.query import Expr


def join_plan(
    fields: JoinFields,
    columns: Sequence[InputColumn],
    aliases: Mapping[str, str],
    session: SessionFacts | None,
) -> JoinPlan:
    """How rows with `columns` are joined. `aliases`: more names of columns, crossing or computed."""
    join = fields.join
    sides: dict[int | None, list[str]] = {0: [], 1: [], None: []}
    of_column = {each.name: side_of(each.expr.columns, join) for each in columns if each.role != "join"}
    computed = {each.name for each in fields.computed}
    names = {**{name: name for name in of_column}, **{name: to for name, to in aliases.items() if to in of_column}}
    for name, column in names.items():
        sides[of_column[column]].append(name)
    labels = [left.text for left, _ in join.equalities]
    compiling = _Compiling({each.name: each.expr.type for each in columns}, session or SessionFacts())
    return JoinPlan(
        join.kind,
        keys=tuple(Key(name, label) for name, label in zip(join.keys, labels, strict=True)),
        left=tuple(sides[0]),
        right=tuple(sides[1]),
        either=tuple(sides[None]),
        conditions=fields.on,
        on=compiling.projection([each for each in fields.computed if each.role == "on"], None),
        keep=fields.where,
        after=compiling.projection([each for each in fields.computed if each.role != "on"], fields.where),
        once=join.once,
        aliases=tuple((name, column) for name, column in aliases.items() if column in computed),
    )


class _Compiling:
    def __init__(self, types: Mapping[str, str | None], session: SessionFacts) -> None:
        self._types = dict(types)
        self._compiler = Compiler(self._types, session, _check)

    def projection(self, columns: Sequence[InputColumn], where: str | None) -> PairExpressions | None:
        """What computes the columns; they are evaluated only where `where` holds, if that crosses or is one of them."""
        if not columns:
            return None
        if where is not None and all(each.name != where for each in columns):
            columns = [InputColumn(where, Expr(where, "BOOLEAN", (where,)), "where"), *columns]
        for each in columns:
            try:
                self._compiler.projection([each], where=None)
            except PlanError:
                raise
            except SqlError as unsure:
                raise _refused(each.expr) from unsure
        found = self._compiler.projection(columns, where=where)
        return PairExpressions(
            replace(found, carried=(), continued=True),
            tuple(each.name for each in columns if each.name != where),
        )


def _check(expr: Expr, found: Translated) -> None:
    if expr.type is not None and found.type != expr.type:
        raise _refused(expr)


def _refused(expr: Expr) -> PlanError:
    message = "this is over both sides of a join, and workers cannot be sure to compute it as Spark does"
    hint = "compute what concerns one stream alone in a subquery: FROM (SELECT …, f(x) AS y FROM a) AS a JOIN b …; "
    hint += "bound the distance of times in a query without a window, and give the window to a query over it: "
    hint += "FROM (SELECT … FROM a JOIN b ON … AND b.ts BETWEEN …) AS j WINDOW …"
    return PlanError("JOIN_EXPRESSION", message, hint, span=expr.span)
