"""A query without a window over the results of a windowed one: merged into what that query computes of its results."""

from __future__ import annotations

from dataclasses import replace

from windowpane.sql.query import BoundQuery, Output
from windowpane.sql.result_steps import Filter, Sort
from windowpane.sql.scalar import substitute_columns
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import SelectStmt


def merge_results(stmt: SelectStmt, outer: BoundQuery) -> BoundQuery:
    """The inner query with the outer one's outputs; a query with a window stays as it is.

    `SELECT a + 1 AS b FROM (SELECT max(x) AS a … GROUP BY …) WHERE a > 2` is
    `SELECT max(x) + 1 AS b … GROUP BY … HAVING max(x) > 2`.
    """
    inner = outer.relation.query
    if inner is None:
        return outer
    if outer.window is not None:
        check_results_read(stmt.source, inner)
        return outer
    if stmt.watermark is not None:
        hint = "write it in the subquery: the query around it has no window"
        raise stmt.source.error("WATERMARK_PLACE", "WATERMARK belongs to the query with the window", hint,
                                at=stmt.watermark.span)  # fmt: skip
    results = {output.name: output.expr for output in inner.outputs}
    carried = {column.name: results[column.label] for column in outer.carried}
    outputs = tuple(Output(output.name, substitute_columns(output.expr, carried)) for output in outer.outputs)
    where = (Filter(substitute_columns(outer.where, results), "WHERE"),) if outer.where else ()
    steps = tuple(step.mapped(lambda expr: substitute_columns(expr, carried)) for step in outer.steps)
    return replace(
        inner,
        text=outer.text,
        canonical=outer.canonical,
        plan_id=outer.plan_id,
        outputs=outputs,
        steps=(*inner.steps, *where, *steps),
    )


def check_results_read(source: SourceText, inner: BoundQuery) -> None:
    """Refuse clauses that a query cannot have if a window, a join or a UNION ALL reads its results."""
    if inner.emit.mode != "close":
        message = "the results of this query are read by a window, a join or a UNION ALL, which takes final rows only"
        raise source.error("EMIT_NOT_ALLOWED", message, "write EMIT ON WINDOW CLOSE, or nothing", at=inner.emit.span)
    for step in inner.steps:
        if isinstance(step, Sort) and step.limit is None:
            message = "ORDER BY has no effect on what a window, a join or a UNION ALL reads"
            raise source.error("UNSUPPORTED_SUBQUERY", message, "leave it out", at=step.order[0].expr.span)
