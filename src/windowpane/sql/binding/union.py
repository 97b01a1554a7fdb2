"""SELECT … UNION ALL SELECT …: each branch is a separate stream, all with the columns of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.binding.inference import common
from windowpane.sql.binding.merging import check_results_read
from windowpane.sql.binding.scope import Source
from windowpane.sql.query import Column, Expr, Relation, UnionBranch, Watermark
from windowpane.sql.scalar import all_of, substitute_columns
from windowpane.sql.syntax.refusals import UNION_FORM
from windowpane.sql.syntax.source import Place, SourceText
from windowpane.sql.syntax.statement import SelectStmt, UnionStmt


@dataclass(frozen=True)
class MergedQuery:
    """A subquery without window and aggregates, written over the columns of what it reads."""

    stmt: SelectStmt
    relation: Relation
    columns: list[tuple[str, Expr]]
    trees: dict[str, exp.Expr]
    """The columns' syntax by lower-case name."""
    types: dict[str, str | None]
    leaves: tuple[Source, ...]
    where: tuple[Expr, ...]
    watermark: Watermark | None


Projection = list[tuple[str, Expr]]


def bind_union(union: UnionStmt, alias: str, merged: Callable[[SelectStmt], MergedQuery]) -> Relation:
    """The relation of a UNION ALL. A branch that reads a union again gives several branches.

    `merged`: binds a branch; one with a window reads its own results.
    """
    source = union.source
    queries = [_branch(merged(stmt)) for stmt in union.branches]
    projections = _agree(source, queries)
    bound = tuple(
        branch
        for query, projection in zip(queries, projections, strict=True)
        for branch in _branches(query, projection)
    )
    columns = tuple(Column(name, expr.type or "") for name, expr in projections[0])
    streams = tuple(branch.stream for branch in bound)
    if any(branch.query for branch in bound):
        read = [branch.query.relation.streams if branch.query else (branch.stream,) for branch in bound]
        streams = tuple({stream.name: stream for each in read for stream in each}.values())
    return Relation(streams, columns, branches=bound, alias=alias)


def _branch(query: MergedQuery) -> MergedQuery:
    """Refuse what a branch cannot hold."""
    stmt = query.stmt
    if query.relation.query is not None:
        check_results_read(stmt.source, query.relation.query)
    if query.relation.joins or query.relation.stream_join is not None:
        raise _unsupported("a join", stmt, stmt.joins[0] if stmt.joins else stmt.from_)
    if query.watermark is not None:
        hint = "write it around the union: SELECT … FROM (… UNION ALL …) AS u WATERMARK (LAG 5 SECONDS), or set "
        hint += "`watermark_lag` of the transform"
        raise _unsupported("WATERMARK", stmt, query.watermark.span, hint)
    return query


def _unsupported(word: str, stmt: SelectStmt, at: Place, hint: str = f"write {UNION_FORM}") -> SqlError:
    message = f"{word} in a branch of a UNION ALL is not supported"
    return stmt.source.error("UNSUPPORTED_SUBQUERY", message, hint, at=at)


def _branches(query: MergedQuery, projection: Projection) -> list[UnionBranch]:
    if not query.relation.branches:
        stream, results = query.relation.streams[0], query.relation.query
        return [UnionBranch(stream, tuple(projection), all_of(query.where), query=results)]
    found = []
    for branch in query.relation.branches:
        values = dict(branch.projection)
        columns = tuple((name, substitute_columns(expr, values)) for name, expr in projection)
        where = [*([branch.where] if branch.where else []), *(substitute_columns(each, values) for each in query.where)]
        found.append(UnionBranch(branch.stream, columns, all_of(where), query=branch.query))
    return found


def _agree(source: SourceText, queries: Sequence[MergedQuery]) -> list[Projection]:
    """All branches with the first one's names and a common type per column."""
    projections = [query.columns for query in queries]
    first = projections[0]
    for item in queries[0].stmt.projections:
        if not item.is_star and not isinstance(item, (exp.Alias, exp.Column, exp.Dot)):
            message = f"`{source.quote(item)}` has no name"
            raise source.error("NEEDS_ALIAS", message, "write … AS name", at=item)
    for query in queries:
        if len(query.columns) != len(first):
            message = f"a branch has {len(query.columns)} columns, the first one {len(first)}"
            at = query.columns[0][1].span
            raise source.error("UNION_COLUMNS", message, "all branches need the same columns", at=at)
    kinds = [_common_type(source, name, [projection[index][1] for projection in projections])
             for index, (name, _) in enumerate(first)]  # fmt: skip
    return [
        [(name, _cast(expr, kind)) for (name, _), (_, expr), kind in zip(first, projection, kinds, strict=True)]
        for projection in projections
    ]


def _common_type(source: SourceText, name: str, exprs: Sequence[Expr]) -> str | None:
    kinds = [expr.type for expr in exprs]
    found = common(kinds)
    if found is None and None not in kinds:
        odd = next(expr for expr in exprs if expr.type != kinds[0])
        message = f"column `{name}` is of type {kinds[0]} in the first branch and of type {odd.type} here"
        raise source.error("UNION_TYPES", message, f"write CAST({odd.text} AS {kinds[0]})", at=odd.span)
    return found


def _cast(expr: Expr, kind: str | None) -> Expr:
    if kind is None or expr.type == kind:
        return expr
    return replace(expr, text=f"CAST({expr.text} AS {kind})", type=kind)
