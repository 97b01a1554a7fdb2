"""Tables behind commas in FROM: the conditions of WHERE that compare them become the ON of a join."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from windowpane.sql.binding.from_sources import FromSources, conjuncts
from windowpane.sql.schema import Catalog
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import SelectStmt


def with_comma_joins(stmt: SelectStmt, catalog: Catalog) -> SelectStmt:
    """The statement with JOIN … ON for each table behind a comma.

    Before: SELECT … FROM auctions a, bids b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires AND b.price > 1
    After:  SELECT … FROM auctions a JOIN bids b ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
            WHERE b.price > 1

    Conditions stay in WHERE if they are about one table, or if a later RIGHT or FULL JOIN keeps rows of its own.
    """
    listed = [number for number, join in enumerate(stmt.joins) if _is_listed(stmt.source, join)]
    if not listed:
        return stmt
    outer = [number for number, join in enumerate(stmt.joins) if join.args.get("side") in ("RIGHT", "FULL")]
    movable = {number for number in listed if number > max(outer, default=-1)}
    sources = FromSources(stmt, catalog)
    conditions: dict[int, list[exp.Expr]] = {number: [] for number in listed}
    kept = []
    for part in conjuncts(stmt.where):
        owners = sources.owners(part)
        last = max(owners, default=0) - 1
        if len(owners) > 1 and last in movable:
            conditions[last].append(part)
        else:
            kept.append(part)
    joins = [
        _joined(join, conditions[number], sources) if number in listed else join
        for number, join in enumerate(stmt.joins)
    ]
    where = exp.and_(*kept, copy=False) if kept else None
    return replace(stmt, joins=tuple(joins), where=where)


def _is_listed(source: SourceText, join: exp.Join) -> bool:
    """Whether a comma stands before the table, for which the parser writes CROSS JOIN."""
    span = source.span(join.this)
    if join.args.get("kind") != "CROSS" or isinstance(join.this, (exp.Unnest, exp.Lateral)) or span is None:
        return False
    before = [token for token in source.tokens if token.end < span.start]
    return bool(before) and before[-1].token_type == TokenType.COMMA


def _joined(join: exp.Join, conditions: list[exp.Expr], sources: FromSources) -> exp.Join:
    if conditions:
        return exp.Join(this=join.this, on=exp.and_(*conditions, copy=False))
    return join if sources.is_static(join.this) else exp.Join(this=join.this)
