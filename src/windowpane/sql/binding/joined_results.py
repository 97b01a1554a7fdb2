"""A join or a union of streams that is joined: it becomes a query of its own, whose results are a side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from windowpane.core.windows.aligned import AlignedSpec
from windowpane.sql.binding.canonical import Shown, canonical_text, plan_id
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.scope import Scope, Source
from windowpane.sql.query import BoundQuery, Column, Expr, GroupKey, Output, Relation, Window
from windowpane.sql.scalar import all_of
from windowpane.sql.syntax.statement import SelectStmt
from windowpane.sql.types import quoted

if TYPE_CHECKING:
    from windowpane.sql.binding.relation import BoundRelation


def joined_as_results(stmt: SelectStmt, bound: BoundRelation) -> BoundRelation:
    """The side of a join, if that is a stream; the results of a join or, within a window, of a UNION ALL, under the
    same names.

    In `FROM a JOIN b ON … JOIN c ON … WINDOW w`, rows of a and b are joined within w, and then with those of c.
    """
    united = bool(bound.relation.branches) and not bound.relation.joins and stmt.window is not None
    if bound.relation.stream_join is None and not united:
        return bound
    query, sources = _query(stmt, bound)
    columns = tuple(Column(output.name, output.expr.type or "") for output in query.outputs)
    scope = Scope(stmt.source, sources)
    return replace(
        bound,
        relation=Relation(query.relation.streams, columns, query=query),
        scope=scope,
        types={column.name: column.type for column in columns},
        leaves=sources,
        where=(),
    )


def windows_overlap(stmt: SelectStmt) -> bool:
    """Whether a row is in several windows of a query."""
    spec = stmt.window.spec if stmt.window else None
    return isinstance(spec, AlignedSpec) and spec.overlapping()


def _query(stmt: SelectStmt, bound: BoundRelation) -> tuple[BoundQuery, tuple[Source, ...]]:
    """The join as a query that selects all columns, and its sources over what it selects."""
    rows = RowExpressions(stmt.source, bound.scope, bound.types)
    carried, outputs, sources = list[GroupKey](), list[Output](), list[Source]()
    for source in bound.scope.sources:
        names = dict[str, Column]()
        for low, column in source.names.items():
            taken = {output.name.lower() for output in outputs}
            name = f"{source.alias}__{column.name}" if column.name.lower() in taken else column.name
            own = Expr(quoted(column.name), column.type, (column.name,))
            expr = rows.finish(source.trees[low].copy()) if source.trees is not None else own
            inner = f"_c{len(carried)}"
            carried.append(GroupKey(inner, column.name, expr))
            outputs.append(Output(name, Expr(inner, expr.type, (inner,))))
            names[low] = Column(name, column.type)
        sources.append(Source(source.alias, names, spelled=dict(source.spelled)))
    window = Window(stmt.window.spec, span=stmt.window.span) if stmt.window else None
    query = BoundQuery(
        stmt.source.sql,
        canonical="",
        plan_id="",
        kind="plain" if window is None else "rows",
        relation=bound.relation,
        outputs=tuple(outputs),
        where=all_of(bound.where),
        window=window,
        carried=tuple(carried),
        watermark=bound.watermark or stmt.watermark,
        owners=(stmt.owner,),
    )
    select = [f"{key.expr.text} AS {quoted(each.name)}" for key, each in zip(carried, outputs, strict=True)]
    text = canonical_text(query, Shown(select))
    return replace(query, canonical=text, plan_id=plan_id(text)), tuple(sources)
