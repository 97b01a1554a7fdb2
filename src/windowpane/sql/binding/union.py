"""FROM (SELECT … UNION ALL SELECT …): each branch is a separate stream, all with the columns of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.binding.expressions import RowExpressions
from windowpane.sql.binding.inference import common
from windowpane.sql.binding.scope import Scope, Source
from windowpane.sql.query import Column, Expr, Relation, StreamRef, UnionBranch
from windowpane.sql.syntax.refusals import UNION_FORM
from windowpane.sql.syntax.source import SourceText

FindStream = Callable[[exp.Expr], StreamRef]
Projection = list[tuple[str, Expr]]

_BRANCH_PARTS = {"expressions", "from_", "where"}


def bind_union(source: SourceText, subquery: exp.Subquery, find_stream: FindStream) -> Relation:
    """The relation of a UNION ALL subquery."""
    alias = subquery.args.get("alias")
    selects = _flatten(source, subquery.this, subquery)
    branches = [_bind_branch(source, select, find_stream) for select in selects]
    projections = _agree(source, [projection for _, projection, _ in branches], selects)
    bound = tuple(
        UnionBranch(stream, tuple(projection), where)
        for (stream, _, where), projection in zip(branches, projections, strict=True)
    )
    columns = tuple(Column(name, expr.type or "") for name, expr in projections[0])
    return Relation(
        tuple(branch.stream for branch in bound),
        columns,
        joins=(),
        branches=bound,
        alias=alias.name if alias is not None else "",
    )


def _flatten(source: SourceText, node: exp.Expr, whole: exp.Expr) -> list[exp.Select]:
    """The branches of nested unions, left to right. A long chain leans left, so this walks and does not recurse."""
    branches: list[exp.Select] = []
    while isinstance(node, exp.Union):
        if node.args.get("distinct"):
            message = "UNION removes duplicates, which needs all rows"
            raise source.error("UNSUPPORTED_SET_OPERATION", message, "write UNION ALL", at=node.expression)
        branches.insert(0, _branch(source, node.expression, whole))
        node = node.this
    if not branches:
        raise _unsupported(source, "a subquery in FROM must be a UNION ALL of streams", whole)
    return [_branch(source, node, whole), *branches]


def _branch(source: SourceText, node: exp.Expr, whole: exp.Expr) -> exp.Select:
    if not isinstance(node, exp.Select):
        raise _unsupported(source, "a branch of a UNION ALL must be a SELECT", node if source.span(node) else whole)
    for part, value in node.args.items():
        if value and part not in _BRANCH_PARTS:
            word = {"joins": "a join", "group": "GROUP BY", "order": "ORDER BY"}.get(part, part.strip("_").upper())
            raise _unsupported(source, f"{word} in a branch of a UNION ALL is not supported", node)
    if not node.args.get("from_"):
        raise _unsupported(source, "a branch of a UNION ALL must read a stream", node)
    return node


def _unsupported(source: SourceText, message: str, at: exp.Expr) -> SqlError:
    return source.error("UNSUPPORTED_SUBQUERY", message, f"write {UNION_FORM}", at=at)


def _bind_branch(
    source: SourceText, select: exp.Select, find_stream: FindStream
) -> tuple[StreamRef, Projection, Expr | None]:
    stream = find_stream(select.args["from_"].this)
    names = {column.name.lower(): column for column in stream.columns}
    spelled = {low: column.name for low, column in names.items()}
    scope = Scope(source, (Source(stream.alias, names, stream.open, spelled=spelled),))
    rows = RowExpressions(source, scope, dict(scope.types()))
    projection: Projection = []
    for item in select.expressions:
        projection += _project(source, rows, stream, item)
    where = select.args.get("where")
    return stream, projection, rows.condition(where.this, "WHERE") if where is not None else None


def _project(source: SourceText, rows: RowExpressions, stream: StreamRef, item: exp.Expr) -> Projection:
    if item.is_star:
        if stream.open:
            message = f"the columns of `{stream.name}` are unknown, so `*` cannot be used"
            raise source.error("NEEDS_SCHEMA", message, "list the columns, or declare a schema", at=item)
        if isinstance(item, exp.Star) and any(item.args.values()):
            raise _unsupported(source, "`*` with EXCEPT is not allowed in a branch", item)
        return [(column.name, rows.finish(rows.resolve(exp.column(column.name, quoted=True), "SELECT")))
                for column in stream.columns if not column.hidden]  # fmt: skip
    inner, name = (item.this, item.alias) if isinstance(item, exp.Alias) else (item, "")
    label = name or (inner.name if isinstance(inner, (exp.Column, exp.Dot)) else "")
    return [(label, rows.bind(inner, "SELECT"))]


def _agree(source: SourceText, projections: list[Projection], selects: Sequence[exp.Select]) -> list[Projection]:
    """All branches with the first one's names and a common type per column."""
    first = projections[0]
    lowered = [name.lower() for name, _ in first]
    for name, expr in first:
        if not name:
            message = f"`{source.quote(expr.span)}` has no name"
            raise source.error("NEEDS_ALIAS", message, "write … AS name", at=expr.span)
        if lowered.count(name.lower()) > 1:
            raise source.error("DUPLICATE_OUTPUT", f"two columns are called `{name}`", "write … AS name", at=expr.span)
    for projection, select in zip(projections, selects, strict=True):
        if len(projection) != len(first):
            message = f"a branch has {len(projection)} columns, the first one {len(first)}"
            raise source.error("UNION_COLUMNS", message, "all branches need the same columns", at=select.expressions[0])
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
