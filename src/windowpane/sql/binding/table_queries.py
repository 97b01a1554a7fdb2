"""A subquery over a static table, which a stream is joined with: its expressions over the columns of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from windowpane.errors import SqlError
from windowpane.sql.binding.expressions import RowExpressions, refuse_modifiers
from windowpane.sql.binding.inference import infer
from windowpane.sql.binding.projections import ProjectionBinder
from windowpane.sql.binding.result_names import ResultNames, first_aggregate
from windowpane.sql.binding.scope import Scope, Source
from windowpane.sql.query import Column
from windowpane.sql.schema import Catalog, lookup
from windowpane.sql.syntax.source import Place, SourceText
from windowpane.sql.syntax.statement import SelectStmt, Statement


def reads_table(query: Statement, catalog: Catalog) -> bool:
    """Whether a subquery reads a static table."""
    return (
        isinstance(query, SelectStmt)
        and query.from_.name.lower() not in query.queries
        and lookup(query.from_.name, catalog.streams) is None
        and lookup(query.from_.name, catalog.tables) is not None
    )


def refuse_clauses(source: SourceText, query: SelectStmt, where: str, hint: str, at: Place) -> None:
    """Refuse all clauses but SELECT, FROM and WHERE."""
    parts = {
        "a window": query.window, "a join": query.joins or query.laterals, "GROUP BY": query.group_by_exprs,
        "HAVING": query.having, "ORDER BY": query.order_by, "LIMIT": query.limit, "WATERMARK": query.watermark,
        "EMIT": query.emit,
    }  # fmt: skip
    for word, value in parts.items():
        if value:
            raise source.error("UNSUPPORTED_SUBQUERY", f"{word} in {where} is not supported", hint, at=at)


@dataclass(frozen=True)
class TableQuery:
    """`SELECT … FROM table WHERE …`: the columns under their new names, and the condition on the table."""

    side: Source
    where: exp.Expr | None


def bind_table_query(query: SelectStmt, table: Source, types: dict[str, str | None]) -> TableQuery:
    """Bind a subquery over `table`, whose alias is the subquery's. `types`: of the columns by their names in FROM."""
    source, given = query.source, query.from_.args.get("alias")
    refuse_clauses(source, query, "a subquery over a static table", "join the table itself", at=query.from_)
    inside = replace(table, alias=given.name if given is not None else query.from_.name)
    rows = RowExpressions(source, Scope(source, (inside,)), types)
    projections = ProjectionBinder(source, ResultNames(source, rows, None)).bind(query.projections)
    place = first_aggregate(source, projections)
    if place is not None:
        raise _aggregated(source, place)
    for each in projections:
        refuse_modifiers(source, each.node)
    where = query.where
    if where is not None:
        rows.condition(where.copy(), "WHERE")
        where = _of(table.alias, rows.resolve(where, "WHERE"))
    trees = {each.name.lower(): _of(table.alias, each.node) for each in projections}
    names = {each.name.lower(): Column(each.name, infer(each.node, types) or "") for each in projections}
    spelled = {low: column.name for low, column in names.items()}
    return TableQuery(Source(table.alias, names, spelled=spelled, trees=trees), where)


def _aggregated(source: SourceText, at: Place) -> SqlError:
    message = "aggregates over a static table are not supported"
    return source.error("UNSUPPORTED_SUBQUERY", message, "aggregate before, and declare the result as a table", at=at)


def _of(alias: str, tree: exp.Expr) -> exp.Expr:
    """The tree with all its columns those of the subquery, for ON."""
    for column in tree.find_all(exp.Column):
        if column.meta.get("bound"):
            column.meta["side"] = alias
    return tree
