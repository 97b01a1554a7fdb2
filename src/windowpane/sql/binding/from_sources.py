"""Which table of FROM a condition is about, told by names alone: for what is rearranged before names are bound."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from windowpane.sql.binding.table_queries import reads_table
from windowpane.sql.schema import Catalog, lookup
from windowpane.sql.syntax.statement import SelectStmt, Statement, UnionStmt


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND joins."""
    if condition is None:
        return []
    whole = condition.unnest()
    return list(whole.flatten()) if isinstance(whole, exp.And) else [whole]


@dataclass(frozen=True)
class FromSources:
    """The streams, tables and subqueries of FROM, in order, before anything is bound."""

    stmt: SelectStmt
    catalog: Catalog

    @property
    def tables(self) -> list[exp.Expr]:
        return [self.stmt.from_, *(join.this for join in self.stmt.joins)]

    @property
    def aliases(self) -> list[str]:
        """What the query calls them, in lower case."""
        return [(table.alias or table.name).lower() for table in self.tables]

    def is_static(self, table: exp.Expr) -> bool:
        query = self.stmt.queries.get(table.name.lower())
        if query is not None:
            return reads_table(query, self.catalog)
        return lookup(table.name, self.catalog.tables) is not None

    def owners(self, condition: exp.Expr) -> set[int]:
        """The places of the tables whose columns a condition has; none if a column's table is not certain."""
        found = [self._owner(column) for column in condition.find_all(exp.Column)]
        return {place for place in found if place is not None} if None not in found else set()

    def having(self, name: str, before: int) -> list[int]:
        """The places, of those before one, of tables that have a column of that name."""
        known = [self._columns(table) or set() for table in self.tables[:before]]
        return [place for place, names in enumerate(known) if name.lower() in names]

    def _owner(self, column: exp.Column) -> int | None:
        tables = self.tables
        if column.table:
            aliases = self.aliases
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
