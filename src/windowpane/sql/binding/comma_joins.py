"""Tables behind commas in FROM: the conditions of WHERE that compare them become the ON of a join."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from windowpane.sql.binding.table_queries import reads_table
from windowpane.sql.schema import Catalog, lookup
from windowpane.sql.syntax.source import SourceText
from windowpane.sql.syntax.statement import SelectStmt, Statement, UnionStmt


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
    sources = _Sources(stmt, catalog)
    conditions: dict[int, list[exp.Expr]] = {number: [] for number in listed}
    kept = []
    for part in _conjuncts(stmt.where):
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


def _conjuncts(where: exp.Expr | None) -> list[exp.Expr]:
    if where is None:
        return []
    whole = where.unnest()
    return list(whole.flatten()) if isinstance(whole, exp.And) else [whole]


def _joined(join: exp.Join, conditions: list[exp.Expr], sources: _Sources) -> exp.Join:
    if conditions:
        return exp.Join(this=join.this, on=exp.and_(*conditions, copy=False))
    return join if sources.is_static(join.this) else exp.Join(this=join.this)


@dataclass(frozen=True)
class _Sources:
    """What FROM names, in order."""

    stmt: SelectStmt
    catalog: Catalog

    @property
    def tables(self) -> list[exp.Expr]:
        return [self.stmt.from_, *(join.this for join in self.stmt.joins)]

    def is_static(self, table: exp.Expr) -> bool:
        query = self.stmt.queries.get(table.name.lower())
        if query is not None:
            return reads_table(query, self.catalog)
        return lookup(table.name, self.catalog.tables) is not None

    def owners(self, condition: exp.Expr) -> set[int]:
        """The places of the tables whose columns a condition has; none if a column's table is not certain."""
        found = [self._owner(column) for column in condition.find_all(exp.Column)]
        return {place for place in found if place is not None} if None not in found else set()

    def _owner(self, column: exp.Column) -> int | None:
        tables = self.tables
        if column.table:
            aliases = [(table.alias or table.name).lower() for table in tables]
            if aliases.count(column.table.lower()) == 1:
                return aliases.index(column.table.lower())
        name = (column.parts[0].name if column.table else column.name).lower()
        known = [self._columns(table) for table in tables]
        places = [place for place, names in enumerate(known) if names is None or name in names]
        return places[0] if len(places) == 1 and not self.stmt.laterals else None

    def _columns(self, table: exp.Expr) -> set[str] | None:
        """The names of a table's columns in lower case; None if they are unknown."""
        query = self.stmt.queries.get(table.name.lower())
        if query is not None:
            return _selected(query)
        for known in (self.catalog.tables, self.catalog.streams):
            found = lookup(table.name, known)
            if found is not None:
                columns = known[found]
                return None if columns is None else {column.name.lower() for column in columns}
        return None


def _selected(query: Statement) -> set[str] | None:
    first = query.branches[0] if isinstance(query, UnionStmt) else query
    if any(item.is_star or not item.alias_or_name for item in first.projections):
        return None
    return {item.alias_or_name.lower() for item in first.projections}
